//! A built-in server whose home cannot be opened, for example on a full disk. It shakes hands and lists its
//! tools, so that its client can start it, and every call is answered with the reason. It does nothing else,
//! so it needs neither a log nor rules.

use std::sync::Arc;

use connectors::Service;
use serde_json::{Map, Value, json};

use super::{Builtin, LazyDesk, METHOD_NOT_FOUND};
use crate::answers::code;
use crate::wire::{Era, meta_keys};

/// A built-in server that refuses every call.
pub struct Stopped {
    builtin: Builtin,
    why: String,
}

impl Stopped {
    /// `words` choose the tools that are listed; `why` is what every call hears.
    pub fn new(service: &'static Service, words: &[String], why: &str) -> Result<Stopped, String> {
        let no_desk = why.to_owned();
        let desk = Arc::new(LazyDesk::new(move || Err(no_desk.clone())));
        Ok(Stopped { builtin: Builtin::new(service, words, desk)?, why: why.to_owned() })
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
            Err((code, words)) => {
                json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": words } })
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
        let mut greeting = self.with_reason(self.builtin.greeting("2026-07-28"));
        if let Some(greeting) = greeting.as_object_mut() {
            greeting.remove("protocolVersion");
            greeting.insert("supportedVersions".to_owned(), json!(["2026-07-28"]));
        }
        greeting
    }

    /// What clients show to people and models about the server begins with what is wrong.
    fn with_reason(&self, mut greeting: Value) -> Value {
        let before = greeting.get("instructions").and_then(Value::as_str).unwrap_or_default();
        let words = format!("{} {before}", self.why);
        if let Some(greeting) = greeting.as_object_mut() {
            greeting.insert("instructions".to_owned(), json!(words.trim()));
        }
        greeting
    }
}
