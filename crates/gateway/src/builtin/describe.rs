//! Descriptions of a service's tools and resources as MCP objects.

use connectors::app::MIME;
use connectors::{Connector, Reach, Resource, Template, Tool};
use serde_json::{Value, json};

use mcp::SKILLS;

/// Name, capabilities and instructions of a service.
pub(super) fn initialize_result(connector: &Connector, revision: &str) -> Value {
    let mut capabilities = json!({ "tools": { "listChanged": false } });
    let has_resources = !connector.resources.is_empty() || !connector.templates.is_empty();
    if let (true, Value::Object(fields)) = (has_resources, &mut capabilities) {
        let resources = json!({ "subscribe": false, "listChanged": false });
        fields.insert("resources".to_owned(), resources);
        // Also without prompts, because some clients list them without checking.
        fields.insert("prompts".to_owned(), json!({ "listChanged": false }));
    }
    if let (false, Value::Object(fields)) = (connector.skills.is_empty(), &mut capabilities) {
        let skills = json!({ SKILLS: { "directoryRead": true } });
        fields.insert("extensions".to_owned(), skills);
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

pub(super) fn tools(connector: &Connector, tools: &[&Tool]) -> Value {
    json!({ "tools": tools.iter().map(|tool| describe(connector, tool)).collect::<Vec<_>>() })
}

fn describe(connector: &Connector, tool: &Tool) -> Value {
    let hints = tool.effect.hints();
    let mut described = json!({
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
    });
    if let (Some(app), Value::Object(fields)) = (connector.app(tool.name), &mut described) {
        // Left out again for clients that show no apps.
        fields.insert("_meta".to_owned(), json!({ "ui": { "resourceUri": app.uri } }));
    }
    described
}

/// The resources, with the pages of apps for clients that show them.
pub(super) fn resources(connector: &Connector, shows_apps: bool) -> Value {
    let describe = |resource: &Resource| {
        json!({
            "uri": resource.uri,
            "name": resource.name,
            "title": resource.title,
            "description": resource.description,
            "mimeType": resource.mime,
        })
    };
    let mut resources: Vec<Value> = connector.resources.iter().map(describe).collect();
    let mut uris: Vec<&str> = Vec::new();
    for app in connector.apps.iter().filter(|_| shows_apps) {
        // Two tools may have one page.
        if !uris.contains(&app.uri) {
            uris.push(app.uri);
            resources.push(json!({
                "uri": app.uri,
                "name": app.title,
                "title": app.title,
                "description": app.description,
                "mimeType": MIME,
            }));
        }
    }
    json!({ "resources": resources })
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
