//! `server tools`: the pinned tools of a server with their listed names, category and risk.

use anyhow::Result;
use serde_json::{Value, json};
use store::registry::Pin;

use crate::context::Stores;
use crate::failure::Ending;
use crate::output::{Out, visible};
use mcp::listed_names::{self, ItemName};
use store::tool_class::class;

pub(super) fn run(name: &str, stores: &Stores, out: &mut Out) -> Result<Ending> {
    let is_mapped = super::find(name, stores)?.options.map_names;
    let pins = stores.registry.pins(name)?;
    if out.wants_json() {
        let tools = pins.iter().map(|pin| tool_json(name, is_mapped, pin, &pins));
        out.json(&tools.collect::<Vec<_>>())?;
    } else if pins.is_empty() {
        out.say(format_args!("no tools seen yet; `tollgate server pins {name} --look` lists them"));
    } else {
        super::show_tools(name, &pins, out)?;
        for pin in pins.iter().filter(|_| is_mapped) {
            let mapped = listed_names::mapped(&pin.tool);
            if mapped != pin.tool {
                out.line(format_args!("`{}` is `{mapped}` at /mcp/{name}", visible(&pin.tool)))?;
            }
        }
    }
    Ok(Ending::Yes)
}

pub(super) fn description(pin: &Pin) -> String {
    let definition = definition(pin);
    definition.get("description").and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn definition(pin: &Pin) -> Value {
    let pinned = pin.seen.as_ref().or(pin.accepted.as_ref());
    pinned.and_then(|pinned| serde_json::from_str(&pinned.definition).ok()).unwrap_or_default()
}

/// The name at `/mcp`, with the server's prefix.
pub(super) fn listed_name(server: &str, pin: &Pin) -> String {
    listed_names::listed(ItemName { server, own: &pin.tool })
}

fn tool_json(server: &str, is_mapped: bool, pin: &Pin, all: &[Pin]) -> Value {
    let class = class(server, pin, all);
    let at_server =
        if is_mapped { listed_names::mapped(&pin.tool) } else { pin.tool.as_str().into() };
    json!({
        "name": pin.tool,
        "listed_name": listed_name(server, pin),
        "listed_name_at_server": at_server,
        "state": pin.state.as_str(),
        "risk": class.as_ref().map(|class| class.risk),
        "category": class.as_ref().map(|class| class.category),
        "definition": definition(pin),
    })
}
