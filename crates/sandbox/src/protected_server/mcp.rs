//! The MCP server: one tool, behind a bearer token.

use serde_json::{Value, json};

use super::Answer;
use super::state::State;
use crate::http::Request;

impl State {
    pub(super) fn mcp(&mut self, request: &Request) -> Answer {
        let token = request.credentials("bearer").unwrap_or_default();
        let message = request.json().unwrap_or_default();
        let method = message.get("method").and_then(Value::as_str).unwrap_or_default();
        let is_open = self.behaviour.opens_handshake && method == "initialize";
        let granted = self.access.get(token).filter(|_| !self.behaviour.refuses_tokens).cloned();
        let Some(granted) = granted.or_else(|| is_open.then(String::new)) else {
            return self.challenge(401, token);
        };
        if request.method != "POST" {
            return Answer::empty(405);
        }
        if message.get("id").is_none() {
            return Answer::empty(202);
        }
        if let Some(scope) = self.behaviour.call_scope.filter(|_| method == "tools/call")
            && !scope.split(' ').all(|one| granted.split(' ').any(|has| has == one))
        {
            let value = format!("Bearer error=\"insufficient_scope\", scope=\"{scope}\"");
            let headers = vec![("www-authenticate", value)];
            return Answer { status: 403, headers, body: String::new() };
        }
        let leak = if self.behaviour.leaks_token { token } else { "" };
        let result = match method {
            "initialize" => json!({
                "protocolVersion": "2025-11-25",
                "capabilities": { "tools": {} },
                "serverInfo": { "name": "protected", "version": "1" },
            }),
            "tools/list" => json!({ "tools": [
                { "name": "echo", "description": "Echoes a text", "inputSchema": { "type": "object" } },
            ] }),
            "tools/call" => {
                json!({ "content": [{ "type": "text", "text": format!("echo {leak}") }] })
            }
            _ => {
                let error = json!({ "code": -32601, "message": "unknown method" });
                return Answer::json(
                    200,
                    &json!({ "jsonrpc": "2.0", "id": message.get("id"), "error": error }),
                );
            }
        };
        Answer::json(200, &json!({ "jsonrpc": "2.0", "id": message.get("id"), "result": result }))
    }

    fn challenge(&self, status: u16, token: &str) -> Answer {
        let mut parts = Vec::new();
        if !token.is_empty() {
            parts.push("error=\"invalid_token\"".to_owned());
        }
        if self.behaviour.names_document && self.behaviour.has_resource_document {
            let at = format!("{}/.well-known/oauth-protected-resource/mcp", self.origin);
            parts.push(format!("resource_metadata=\"{at}\""));
        }
        if let Some(scope) = self.behaviour.challenge_scope {
            parts.push(format!("scope=\"{scope}\""));
        }
        let headers = vec![("www-authenticate", format!("Bearer {}", parts.join(", ")))];
        Answer { status, headers, body: String::new() }
    }
}
