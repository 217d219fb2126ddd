//! The agents of the demo: they call tools over HTTP with the token of a grant, as any client does. One makes the
//! calls of the tour, the other the calls that a new demo shows.

use std::sync::Arc;
use std::time::{Duration, Instant};

use connectors::http::{BaseUrl, Http, HttpError, Request};
use gateway::Gate;
use http::Method;
use policy::Code;
use serde_json::{Map, Value, json};
use store::secret::Secret;
use tokio::sync::watch;

const VERSION: &str = "2026-07-28";
/// As long as the demo's policy lets a call wait.
const APPROVAL_WAIT_MAX: Duration = Duration::from_mins(10);
const RESEND_EVERY: Duration = Duration::from_secs(2);

/// Changes the definition of the tool in the tour, or undoes the change.
pub(super) type ChangeTool = Arc<dyn Fn() + Send + Sync>;

/// Server, tool, and the arguments as a JSON object.
pub(super) type FirstCall = (&'static str, &'static str, &'static str);

/// What a running gate needs of the demo.
pub(super) trait DemoParts {
    /// Describes the demo once its address is known: fields for JSON, and text.
    fn introduce(&self, url: &str) -> (Map<String, Value>, String);
    fn change_tool(&self) -> ChangeTool;
    /// The token and the calls of an agent that fills a new demo; no calls if there are recent ones.
    fn first_calls(&self) -> (&str, &[FirstCall]);
    /// The servers whose tools the demo shows.
    fn servers(&self) -> Vec<String>;
}

#[derive(Clone)]
pub(super) struct DemoAgent {
    http: Http,
    /// The address of `/mcp`.
    url: String,
    token: Secret,
    client: &'static str,
    pub(super) change_tool: ChangeTool,
}

impl DemoAgent {
    /// The agent of the tour.
    pub(super) fn of(demo: &dyn DemoParts, url: &str) -> DemoAgent {
        let facts = demo.introduce(url).0;
        let token = facts.get("token").and_then(Value::as_str).unwrap_or_default();
        DemoAgent {
            http: Http::new(),
            url: url.to_owned(),
            token: Secret::new(token),
            client: "tour",
            change_tool: demo.change_tool(),
        }
    }

    /// The response is in the audit log; only a failure to send is reported. A call that waits for the owner is sent
    /// again, as its answer tells an agent to do.
    pub(super) async fn call(
        self,
        server: String,
        tool: String,
        arguments: Value,
    ) -> Result<(), HttpError> {
        let begin = Instant::now();
        while begin.elapsed() < APPROVAL_WAIT_MAX {
            let sent_at = Instant::now();
            if !self.send(&server, &tool, &arguments).await? {
                return Ok(());
            }
            // The gate holds a waiting call for a while. With a short hold this keeps the audit log short.
            tokio::time::sleep_until((sent_at + RESEND_EVERY).into()).await;
        }
        Ok(())
    }

    /// Sends a call. Returns whether it waits for the owner.
    async fn send(&self, server: &str, tool: &str, arguments: &Value) -> Result<bool, HttpError> {
        let lost = |why: String| HttpError::Lost { host: "the gate".to_owned(), why };
        let base = BaseUrl::parse(&format!("{}/{server}", self.url)).map_err(lost)?;
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
                    "io.modelcontextprotocol/clientInfo": { "name": self.client, "version": "1" },
                },
            },
        });
        let request = Request::new(Method::POST, &base, &[])
            .json(&body)
            .bearer(&self.token)
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", VERSION)
            .header("mcp-method", "tools/call")
            .header("mcp-name", tool);
        let reply = self.http.send(request).await?;
        let answer: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        let code = answer.pointer("/result/_meta/tollgate~1denial/code").and_then(Value::as_str);
        Ok(code == Some(Code::ApprovalPending.as_str()))
    }
}

/// Lists the tools of every server and makes the first calls, while the gate serves. The last call waits for the
/// owner; it is dropped when the gate stops, so that it does not delay the end.
pub(super) fn fill(
    demo: &dyn DemoParts,
    url: &str,
    gate: &Arc<Gate>,
    mut stop: watch::Receiver<bool>,
) {
    let (token, calls) = demo.first_calls();
    let agent = DemoAgent {
        token: Secret::new(token),
        client: "demo-assistant",
        ..DemoAgent::of(demo, url)
    };
    let (servers, calls, gate) = (demo.servers(), calls.to_vec(), Arc::clone(gate));
    let work = async move {
        for server in servers {
            if let Err(error) = gate.list_tools(&server).await {
                tracing::warn!(%error, server, "could not list the tools of a demo server");
            }
        }
        for (server, tool, arguments) in calls {
            let arguments = serde_json::from_str(arguments).unwrap_or_default();
            let call = agent.clone().call(server.to_owned(), tool.to_owned(), arguments);
            if let Err(error) = call.await {
                tracing::warn!(%error, tool, "a first call of the demo failed");
            }
        }
    };
    tokio::spawn(async move {
        tokio::select! {
            () = work => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
    });
}
