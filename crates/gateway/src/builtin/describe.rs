//! The tables of a service in the words of MCP.

use connectors::{Reach, Resource, Service, Template, Tool};
use serde_json::{Value, json};

/// What a service says about itself.
pub(super) fn greeting(service: &Service, revision: &str) -> Value {
    let mut capabilities = json!({ "tools": { "listChanged": false } });
    let has_resources = !service.resources.is_empty() || !service.templates.is_empty();
    if let (true, Value::Object(fields)) = (has_resources, &mut capabilities) {
        let resources = json!({ "subscribe": false, "listChanged": false });
        fields.insert("resources".to_owned(), resources);
        // There are none, and clients that ask are told so.
        fields.insert("prompts".to_owned(), json!({ "listChanged": false }));
    }
    json!({
        "protocolVersion": revision,
        "capabilities": capabilities,
        "serverInfo": {
            "name": service.name,
            "title": service.title,
            "version": env!("CARGO_PKG_VERSION"),
        },
        "instructions": service.instructions,
    })
}

pub(super) fn tools(tools: &[&Tool]) -> Value {
    json!({ "tools": tools.iter().map(|tool| describe(tool)).collect::<Vec<_>>() })
}

fn describe(tool: &Tool) -> Value {
    let hints = tool.effect.hints();
    json!({
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": schema(tool.input_schema),
        "outputSchema": schema(tool.output_schema),
        "annotations": {
            "title": tool.title,
            "readOnlyHint": hints.read_only,
            "destructiveHint": hints.destructive,
            "idempotentHint": hints.idempotent,
            "openWorldHint": tool.reach == Reach::Outside,
        },
    })
}

/// The schemas are constants that a test of the connectors room reads.
fn schema(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| json!({ "type": "object" }))
}

pub(super) fn resources(service: &Service) -> Value {
    let describe = |resource: &Resource| {
        json!({
            "uri": resource.uri,
            "name": resource.name,
            "title": resource.title,
            "description": resource.description,
            "mimeType": resource.mime,
        })
    };
    json!({ "resources": service.resources.iter().map(describe).collect::<Vec<_>>() })
}

pub(super) fn templates(service: &Service) -> Value {
    let describe = |template: &Template| {
        json!({
            "uriTemplate": template.uri,
            "name": template.name,
            "title": template.title,
            "description": template.description,
            "mimeType": template.mime,
        })
    };
    json!({ "resourceTemplates": service.templates.iter().map(describe).collect::<Vec<_>>() })
}
