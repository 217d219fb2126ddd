//! A built-in server whose home cannot be opened, for example on a full disk. It completes the
//! handshake and lists its tools, so that its client can start it, and answers every call with the
//! reason. It runs nothing, so it needs neither a ledger nor a policy.

use std::sync::Arc;

use connectors::{Connector, LazyContext};
use serde_json::{Map, Value, json};

use super::{Builtin, METHOD_NOT_FOUND};
use crate::runtime::error_codes as code;
use mcp::{Era, meta_keys};

/// A built-in server that refuses every call.
pub struct UnavailableServer {
    builtin: Builtin,
    why: String,
}

impl UnavailableServer {
    /// `words` select the listed tools; `why` is the error of every call.
    pub fn new(
        connector: &'static Connector,
        message: &[String],
        why: &str,
    ) -> Result<UnavailableServer, String> {
        let no_context = why.to_owned();
        let connectors = Arc::new(LazyContext::new(move || Err(no_context.clone())));
        Ok(UnavailableServer {
            builtin: Builtin::new(connector, message, connectors)?,
            why: why.to_owned(),
        })
    }

    /// The answer to one message, if it is a request.
    pub fn answer(&self, message: &[u8]) -> Option<String> {
        let Ok(message) = serde_json::from_slice::<Value>(message) else {
            let error = json!({ "code": -32700, "message": "the message is not JSON" });
            return Some(json!({ "jsonrpc": "2.0", "id": null, "error": error }).to_string());
        };
        let id = message.get("id").filter(|id| !id.is_null())?;
        let method = message.get("method")?.as_str()?;
        let none = Map::new();
        let params = message.get("params").and_then(Value::as_object).unwrap_or(&none);
        let answer = match self.result(method, params) {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            Err((code, text)) => {
                json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": text } })
            }
        };
        Some(answer.to_string())
    }

    fn result(&self, method: &str, params: &Map<String, Value>) -> Result<Value, (i64, &str)> {
        let version = params.get("_meta").and_then(|meta| meta.get(meta_keys::PROTOCOL_VERSION));
        let is_modern =
            version.and_then(Value::as_str).is_some_and(|v| Era::of_version(v) == Era::Modern);
        let mut result = match method {
            "initialize" => self.with_reason(self.builtin.initialize(params)),
            "server/discover" => self.discovered(),
            "ping" => json!({}),
            "tools/list" => serde_json::from_str(self.builtin.tools()).unwrap_or_default(),
            "resources/list" => json!({ "resources": [] }),
            "resources/templates/list" => json!({ "resourceTemplates": [] }),
            "prompts/list" => json!({ "prompts": [] }),
            "tools/call" => json!({
                "content": [{ "type": "text", "text": format!("store_unavailable: {}", self.why) }],
                "isError": true,
            }),
            "resources/read" => return Err((code::STORE_UNAVAILABLE, &self.why)),
            _ => return Err((METHOD_NOT_FOUND, "method not found")),
        };
        if let Some(result) = result.as_object_mut().filter(|_| is_modern) {
            result.insert("resultType".to_owned(), json!("complete"));
            if method != "tools/call" {
                result.insert("ttlMs".to_owned(), json!(0));
                result.insert("cacheScope".to_owned(), json!("private"));
            }
        }
        Ok(result)
    }

    fn discovered(&self) -> Value {
        let mut initialize_result = self.with_reason(self.builtin.initialize_result("2026-07-28"));
        if let Some(initialize_result) = initialize_result.as_object_mut() {
            initialize_result.remove("protocolVersion");
            initialize_result.insert("supportedVersions".to_owned(), json!(["2026-07-28"]));
        }
        initialize_result
    }

    /// The instructions, which clients show to people and models, start with the reason.
    fn with_reason(&self, mut initialize_result: Value) -> Value {
        let before =
            initialize_result.get("instructions").and_then(Value::as_str).unwrap_or_default();
        let message = format!("{}. {before}", self.why);
        if let Some(initialize_result) = initialize_result.as_object_mut() {
            initialize_result.insert("instructions".to_owned(), json!(message.trim()));
        }
        initialize_result
    }
}
