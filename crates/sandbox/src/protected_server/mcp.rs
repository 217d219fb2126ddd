//! The MCP server: one tool, behind a bearer token, over streamable HTTP or HTTP+SSE.

use serde_json::{Value, json};

use super::Answer;
use super::state::State;
use crate::http::Request;

/// Where clients of 2024-11-05 post their messages.
pub(super) const MESSAGES: &str = "/messages";

const SESSION_ID: &str = "mcp-session-id";

impl State {
    pub(super) fn mcp(&mut self, request: &Request) -> Answer {
        let token = request.credentials("bearer").unwrap_or_default();
        let message = request.json().unwrap_or_default();
        let method = message.get("method").and_then(Value::as_str).unwrap_or_default();
        if self.behaviour.has_sse && request.method == "POST" {
            return Answer::empty(405);
        }
        let is_open = self.behaviour.opens_handshake && method == "initialize";
        let Some(granted) = self.granted(token).or_else(|| is_open.then(String::new)) else {
            return self.challenge(401, token);
        };
        if self.behaviour.has_sse {
            return self.open_stream();
        }
        if request.method != "POST" {
            return Answer::empty(405);
        }
        if !self.behaviour.has_sessions {
            return self.respond(token, &granted, &message);
        }
        let session = request.header(SESSION_ID).unwrap_or_default();
        if method != "initialize" && !self.sessions.contains(session) {
            return Answer::empty(404);
        }
        let mut answer = self.respond(token, &granted, &message);
        if method == "initialize" {
            let session = self.fresh("session");
            self.sessions.insert(session.clone());
            answer.headers.push((SESSION_ID, session));
        }
        answer
    }

    /// The scopes of a valid token.
    fn granted(&self, token: &str) -> Option<String> {
        self.access.get(token).filter(|_| !self.behaviour.refuses_tokens).cloned()
    }

    /// The stream of a client of 2024-11-05; its first event names the endpoint for messages.
    fn open_stream(&mut self) -> Answer {
        let (events, stream) = tokio::sync::mpsc::unbounded_channel();
        let endpoint =
            format!("event: endpoint\ndata: {MESSAGES}?session={}\n\n", self.streams.len());
        // The receiver is alive.
        let _ = events.send(endpoint.into());
        self.streams.push(events);
        let headers = vec![("content-type", "text/event-stream".to_owned())];
        Answer { status: 200, headers, body: String::new(), stream: Some(stream) }
    }

    /// A message of such a client. Its response goes to the stream.
    pub(super) fn posted(&mut self, request: &Request) -> Answer {
        let token = request.credentials("bearer").unwrap_or_default();
        let Some(granted) = self.granted(token) else { return self.challenge(401, token) };
        let answer = self.respond(token, &granted, &request.json().unwrap_or_default());
        if answer.status != 200 {
            return answer;
        }
        let session = request.value("session").and_then(|session| session.parse::<usize>().ok());
        let Some(events) = session.and_then(|session| self.streams.get(session)) else {
            return Answer::empty(404);
        };
        // A client that is gone gets no response.
        let _ = events.send(format!("event: message\ndata: {}\n\n", answer.body).into());
        Answer::empty(202)
    }

    fn respond(&self, token: &str, granted: &str, message: &Value) -> Answer {
        let method = message.get("method").and_then(Value::as_str).unwrap_or_default();
        if message.get("id").is_none() {
            return Answer::empty(202);
        }
        if let Some(scope) = self.behaviour.call_scope.filter(|_| method == "tools/call")
            && !scope.split(' ').all(|one| granted.split(' ').any(|has| has == one))
        {
            let value = format!("Bearer error=\"insufficient_scope\", scope=\"{scope}\"");
            let headers = vec![("www-authenticate", value)];
            return Answer { status: 403, headers, body: String::new(), stream: None };
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
        Answer { status, headers, body: String::new(), stream: None }
    }
}
