//! `server tools`: what a server offers, as it was pinned, with what we make of it.

use anyhow::Result;
use catalog::assess::{Around, assess_tool};
use policy::json::{Bounds, Doc};
use serde_json::{Value, json};
use store::registry::Pin;

use crate::context::Stores;
use crate::failure::Ending;
use crate::output::Out;

pub(super) fn run(name: &str, stores: &Stores, out: &mut Out) -> Result<Ending> {
    super::find(name, stores)?;
    let pins = stores.registry.pins(name)?;
    if out.wants_json() {
        out.json(&pins.iter().map(|pin| tool_json(name, pin, &pins)).collect::<Vec<_>>())?;
    } else if pins.is_empty() {
        out.say(format_args!(
            "no tools seen yet; `tollgate server pins {name} --look` asks for them"
        ));
    } else {
        super::show_tools(name, &pins, out)?;
    }
    Ok(Ending::Yes)
}

/// What the catalogue makes of a tool.
#[derive(Clone, Copy)]
pub(super) struct Class {
    pub(super) category: &'static str,
    pub(super) risk: &'static str,
}

/// Category and risk of a tool by the definition that was last seen, as a scan shows them: a definition
/// that speaks to the model raises the risk.
pub(super) fn class(server: &str, pin: &Pin, all: &[Pin]) -> Option<Class> {
    let pinned = pin.seen.as_ref().or(pin.accepted.as_ref())?;
    let doc = Doc::read(pinned.definition.as_bytes(), &Bounds::ANSWER).ok()?;
    let siblings: Vec<&str> = all.iter().map(|pin| pin.tool.as_str()).collect();
    let tool = assess_tool(server, doc.root(), &siblings, Around::default());
    let classed = tool.classification;
    Some(Class { category: classed.category.as_str(), risk: classed.risk.as_str() })
}

pub(super) fn description(pin: &Pin) -> String {
    let definition = definition(pin);
    definition.get("description").and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn definition(pin: &Pin) -> Value {
    let pinned = pin.seen.as_ref().or(pin.accepted.as_ref());
    pinned.and_then(|pinned| serde_json::from_str(&pinned.definition).ok()).unwrap_or_default()
}

fn tool_json(server: &str, pin: &Pin, all: &[Pin]) -> Value {
    let class = class(server, pin, all);
    json!({
        "name": pin.tool,
        "state": pin.state.as_str(),
        "risk": class.map(|class| class.risk),
        "category": class.map(|class| class.category),
        "definition": definition(pin),
    })
}
