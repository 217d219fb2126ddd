//! Shows a table of the connectors room as an MCP server, in both eras, without a process or a socket.

use connectors::{Answer, Effect, Service, Tool};
use serde_json::{Map, Value, json};
use store::ledger::Permit;

/// A protocol error of a built-in server.
#[derive(Debug, PartialEq)]
pub(crate) struct RpcError {
    pub code: i64,
    pub message: String,
}

/// Answers one request as the service's own server would. Both eras share the shapes; the caller
/// adds what only one of them has.
pub(crate) fn answer(
    service: &'static Service,
    permit: &Permit,
    method: &str,
    params: &Map<String, Value>,
) -> Result<Value, RpcError> {
    match method {
        "initialize" => Ok(initialize(service, params)),
        "ping" | "logging/setLevel" => Ok(json!({})),
        "tools/list" => {
            Ok(json!({ "tools": service.tools.iter().map(describe).collect::<Vec<_>>() }))
        }
        "tools/call" => call(service, permit, params),
        "resources/list" => Ok(json!({ "resources": [] })),
        "resources/templates/list" => Ok(json!({ "resourceTemplates": [] })),
        "prompts/list" => Ok(json!({ "prompts": [] })),
        _ => Err(RpcError { code: -32601, message: "method not found".to_owned() }),
    }
}

/// What the service says about itself, in the shape of an initialize result.
pub(crate) fn greeting(service: &Service, revision: &str) -> Value {
    json!({
        "protocolVersion": revision,
        "capabilities": { "tools": { "listChanged": false } },
        "serverInfo": {
            "name": service.name,
            "title": service.title,
            "version": env!("CARGO_PKG_VERSION"),
        },
        "instructions": service.instructions,
    })
}

fn initialize(service: &Service, params: &Map<String, Value>) -> Value {
    const NEWEST_WITH_HANDSHAKE: &str = "2025-11-25";
    const KNOWN: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", NEWEST_WITH_HANDSHAKE];
    let asked = params.get("protocolVersion").and_then(Value::as_str).unwrap_or_default();
    let revision = KNOWN.iter().find(|known| **known == asked).unwrap_or(&NEWEST_WITH_HANDSHAKE);
    greeting(service, revision)
}

fn describe(tool: &Tool) -> Value {
    json!({
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": schema(tool.input_schema),
        "outputSchema": schema(tool.output_schema),
        "annotations": {
            "readOnlyHint": tool.effect == Effect::Reads,
            "destructiveHint": tool.effect == Effect::Destroys,
            "openWorldHint": false,
        },
    })
}

/// The schemas are constants that a test of the connectors room reads.
fn schema(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| json!({ "type": "object" }))
}

fn call(
    service: &'static Service,
    permit: &Permit,
    params: &Map<String, Value>,
) -> Result<Value, RpcError> {
    let name = params.get("name").and_then(Value::as_str).unwrap_or_default();
    let Some(tool) = service.tool(name) else {
        return Err(RpcError { code: -32602, message: format!("Unknown tool: {name}") });
    };
    let none = Map::new();
    let arguments = params.get("arguments").and_then(Value::as_object).unwrap_or(&none);
    Ok(match connectors::run(permit, tool, arguments) {
        Answer::Found(found) => json!({
            "content": [{ "type": "text", "text": found.to_string() }],
            "structuredContent": found,
            "isError": false,
        }),
        Answer::Failed { code, words } => json!({
            "content": [{ "type": "text", "text": format!("{code}: {words}") }],
            "isError": true,
        }),
    })
}
