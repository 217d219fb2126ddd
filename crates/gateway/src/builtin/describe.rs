//! Descriptions of a service's tools and resources as MCP objects.

use connectors::{Connector, Reach, Resource, Template, Tool};
use serde_json::{Value, json};

/// Name, capabilities and instructions of a service.
pub(super) fn initialize_result(connector: &Connector, revision: &str) -> Value {
    let mut capabilities = json!({ "tools": { "listChanged": false } });
    let has_resources = !connector.resources.is_empty() || !connector.templates.is_empty();
    if let (true, Value::Object(fields)) = (has_resources, &mut capabilities) {
        let resources = json!({ "subscribe": false, "listChanged": false });
        fields.insert("resources".to_owned(), resources);
        // There are no prompts, but some clients list them without checking.
        fields.insert("prompts".to_owned(), json!({ "listChanged": false }));
    }
    json!({
        "protocolVersion": revision,
        "capabilities": capabilities,
        "serverInfo": {
            "name": connector.name(),
            "title": connector.title(),
            "version": env!("CARGO_PKG_VERSION"),
        },
        "instructions": connector.instructions,
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
        "inputSchema": tool.input_schema(),
        "outputSchema": tool.output_schema(),
        "annotations": {
            "title": tool.title,
            "readOnlyHint": hints.read_only,
            "destructiveHint": hints.destructive,
            "idempotentHint": hints.idempotent,
            "openWorldHint": tool.reach == Reach::Outside,
        },
    })
}

pub(super) fn resources(connector: &Connector) -> Value {
    let describe = |resource: &Resource| {
        json!({
            "uri": resource.uri,
            "name": resource.name,
            "title": resource.title,
            "description": resource.description,
            "mimeType": resource.mime,
        })
    };
    json!({ "resources": connector.resources.iter().map(describe).collect::<Vec<_>>() })
}

pub(super) fn templates(connector: &Connector) -> Value {
    let describe = |template: &Template| {
        json!({
            "uriTemplate": template.uri,
            "name": template.name,
            "title": template.title,
            "description": template.description,
            "mimeType": template.mime,
        })
    };
    json!({ "resourceTemplates": connector.templates.iter().map(describe).collect::<Vec<_>>() })
}
