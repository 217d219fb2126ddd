//! The agent of the demo: calls a tool of the demo server over HTTP with the token of the demo grant, as any
//! client does.

use connectors::http::{BaseUrl, Http, HttpError, Request};
use http::Method;
use serde_json::{Map, Value, json};
use store::secret::Secret;

const VERSION: &str = "2026-07-28";

#[derive(Clone)]
pub(super) struct DemoAgent {
    http: Http,
    url: String,
    token: Secret,
}

impl DemoAgent {
    /// From what the demo prints.
    pub(super) fn of(facts: &Map<String, Value>) -> DemoAgent {
        let text = |key: &str| facts.get(key).and_then(Value::as_str).unwrap_or_default();
        DemoAgent {
            http: Http::new(),
            url: text("server_url").to_owned(),
            token: Secret::new(text("token")),
        }
    }

    /// The response is in the audit log; only a failure to send is reported.
    pub(super) async fn call(self, tool: String, arguments: Value) -> Result<(), HttpError> {
        let lost = |why: String| HttpError::Lost { host: "the gate".to_owned(), why };
        let base = BaseUrl::parse(&self.url).map_err(lost)?;
        let body = json!({
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {
                "name": tool,
                "arguments": arguments,
                "_meta": {
                    "io.modelcontextprotocol/protocolVersion": VERSION,
                    "io.modelcontextprotocol/clientCapabilities": {},
                    "io.modelcontextprotocol/clientInfo": { "name": "tour", "version": "1" },
                },
            },
        });
        let request = Request::new(Method::POST, &base, &[])
            .json(&body)
            .bearer(&self.token)
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", VERSION)
            .header("mcp-method", "tools/call")
            .header("mcp-name", &tool);
        self.http.send(request).await.map(drop)
    }
}
