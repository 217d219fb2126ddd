//! `tollgate server`: the servers behind the gate, and the tool definitions the owner accepted.

use std::fmt::Write as _;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use store::registry::{Pin, PinState, Server, Target};

use crate::context::{Context, Stores};
use crate::failure::Ending;
use crate::masking::{self, target_text};
use crate::output::{Out, Table, count, cut_end};

mod add;
mod pins;
mod tools;

#[derive(Subcommand)]
pub(crate) enum ServerCommand {
    /// Add a server, connect to it, and pin the tools it offers
    Add(Box<add::AddArgs>),
    /// List the servers and the state of their tools
    List,
    /// Show the tools of a server as they were pinned
    Tools(NameArgs),
    /// Show what a server changed since its tools were accepted, and accept it
    Pins(pins::PinsArgs),
    /// Remove a server with its credentials and pins
    Remove(NameArgs),
}

#[derive(Args)]
pub(crate) struct NameArgs {
    /// The server's name
    name: String,
}

impl ServerCommand {
    pub(crate) fn run(self, context: &Context, out: &mut Out) -> Result<Ending> {
        match self {
            ServerCommand::Add(args) => add::run(&args, context, out),
            ServerCommand::List => list(&context.open()?, out),
            ServerCommand::Tools(args) => tools::run(&args.name, &context.open()?, out),
            ServerCommand::Pins(args) => pins::run(&args, context, out),
            ServerCommand::Remove(args) => remove(&args.name, &context.open()?, out),
        }
    }
}

fn list(stores: &Stores, out: &mut Out) -> Result<Ending> {
    let servers = stores.servers()?;
    let mut rows = Vec::new();
    let mut table = Table::new(&["name", "kind", "target", "tools", "from"]);
    for server in &servers {
        let pins = stores.registry.pins(&server.name)?;
        let origin = server.origin.as_str().to_owned();
        table.row([
            server.name.clone(),
            kind_text(server),
            target_text(&server.target),
            tools_text(&pins),
            origin,
        ]);
        rows.push(server_json(server, &pins));
    }
    if out.wants_json() {
        out.json(&rows)?;
    } else if servers.is_empty() {
        out.say("no servers yet; add one with `tollgate server add NAME -- COMMAND`");
    } else {
        out.table(&table)?;
        let advice = |server: &Server| masking::advice(&server.name, &server.target);
        servers.iter().filter_map(advice).for_each(|advice| out.warn(advice));
    }
    Ok(Ending::Yes)
}

fn remove(name: &str, stores: &Stores, out: &mut Out) -> Result<Ending> {
    if stores.file_names.servers.contains(name) && stores.registry.server(name).is_err() {
        bail!("server `{name}` stands in tollgate.toml\nhint: take it out of that file");
    }
    let grants = stores.registry.remove_server(name, stores.now_us())?;
    stores.record()?;
    if out.wants_json() {
        out.json(&json!({ "removed": name, "grants": grants }))?;
    } else if grants.is_empty() {
        out.line(format_args!("server `{name}` removed"))?;
    } else {
        let held = grants.join(", ");
        out.line(format_args!("server `{name}` removed, also from the grants {held}"))?;
    }
    Ok(Ending::Yes)
}

/// What kind of server it is, and whether all clients share its process.
fn kind_text(server: &Server) -> String {
    let shared = if server.is_shared() { ", shared" } else { "" };
    format!("{}{shared}", server.target.kind())
}

/// `7 tools`, or how they stand when not all of them are accepted.
fn tools_text(pins: &[Pin]) -> String {
    if pins.is_empty() {
        return "not seen yet".to_owned();
    }
    let of = |state: PinState| pins.iter().filter(|pin| pin.state == state).count();
    let mut text = count(of(PinState::Accepted), "tool");
    for state in [PinState::Changed, PinState::New, PinState::Conflict, PinState::Gone] {
        if of(state) > 0 {
            let _ = write!(text, ", {} {}", of(state), state.as_str());
        }
    }
    text
}

fn server_json(server: &Server, pins: &[Pin]) -> Value {
    let secrets: Vec<Value> = server
        .target
        .credentials()
        .iter()
        .map(|(place, name, _)| json!({ "place": place.as_str(), "name": name }))
        .collect();
    let tools: Vec<Value> =
        pins.iter().map(|pin| json!({ "name": pin.tool, "state": pin.state.as_str() })).collect();
    json!({
        "name": server.name,
        "kind": server.target.kind(),
        "target": target_text(&server.target),
        "secrets": secrets,
        "secret_argument": secret_argument(&server.target),
        "shared": server.is_shared(),
        "origin": server.origin.as_str(),
        "tools": tools,
    })
}

/// The place of an argument that looks like a secret, which is masked in `target`.
fn secret_argument(target: &Target) -> Option<usize> {
    match target {
        Target::Command { argv, .. } => masking::secret_argument(argv),
        _ => None,
    }
}

/// A server by name, or the error that names the nearest.
fn find(name: &str, stores: &Stores) -> Result<Server> {
    match stores.servers()?.into_iter().find(|server| server.name == name) {
        Some(server) => Ok(server),
        None => Ok(stores.registry.server(name)?),
    }
}

/// Of what a tool says of itself.
const SAYS_COLUMNS: usize = 61;

/// The names and risks of what a server offers, as lines.
fn show_tools(server: &str, pins: &[Pin], out: &mut Out) -> Result<()> {
    let mut table = Table::new(&["tool", "risk", "category", "pin", "what it says"]);
    for pin in pins {
        let class = tools::class(server, pin, pins);
        table.row([
            pin.tool.clone(),
            class.map_or("-", |class| class.risk).to_owned(),
            class.map_or("-", |class| class.category).to_owned(),
            pin.state.as_str().to_owned(),
            cut_end(tools::description(pin).lines().next().unwrap_or_default(), SAYS_COLUMNS),
        ]);
    }
    out.table(&table)
}

/// What we think a tool can do at worst; nothing when it is no tool we have seen.
pub(crate) fn risk(server: &str, tool: &str, stores: &Stores) -> Option<&'static str> {
    let pins = stores.registry.pins(server).ok()?;
    let pin = pins.iter().find(|pin| pin.tool == tool)?;
    tools::class(server, pin, &pins).map(|class| class.risk)
}
