//! `tollgate server`: the servers behind the gate, and the tool definitions the owner accepted.

use std::fmt::Write as _;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use store::registry::{Pin, PinState, Server, Target};

use crate::context::{Context, Stores};
use crate::failure::Ending;
use crate::masking::{self, target_text};
use crate::output::{Out, Table, count, cut_end, visible};
use store::tool_class;

mod add;
mod add_bundle;
mod capture;
mod known;
mod pins;
mod redirect;
mod seal;
mod sign_in;
mod sign_out;
mod tools;

#[derive(Subcommand)]
pub(crate) enum ServerCommand {
    /// Add a server, connect to it, and pin the tools it offers
    Add(Box<add::AddArgs>),
    /// List the servers and the state of their tools
    List,
    /// Show the pinned tools of a server
    Tools(NameArgs),
    /// Show what a server changed since its tools were accepted, and accept it
    Pins(pins::PinsArgs),
    /// Seal secret arguments of a server in the vault
    Seal(seal::SealArgs),
    /// Keep the arguments of a server's calls for auditors, or stop keeping them
    Capture(capture::CaptureArgs),
    /// Sign in to a server that wants OAuth, in the browser
    SignIn(Box<sign_in::SignInArgs>),
    /// List the remote servers whose sign-in is known: the client they take, and where to make one
    Known,
    /// Sign out of a server: revoke its tokens and delete them
    SignOut(sign_out::SignOutArgs),
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
            ServerCommand::Seal(args) => seal::run(&args, &context.open()?, out),
            ServerCommand::Capture(args) => capture::run(&args, &context.open()?, out),
            ServerCommand::SignIn(args) => sign_in::sign_in(&args, context, out),
            ServerCommand::Known => known::run(out),
            ServerCommand::SignOut(args) => sign_out::sign_out(&args, context, out),
            ServerCommand::Remove(args) => remove(&args.name, &context.open()?, out),
        }
    }
}

fn list(stores: &Stores, out: &mut Out) -> Result<Ending> {
    stores.warn_of_conflicts(out)?;
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
        bail!("server `{name}` is defined in tollgate.toml\nhint: remove it from that file");
    }
    let grants = stores.registry.remove_server(name, stores.now_us())?;
    stores.record()?;
    add_bundle::remove(name, stores)?;
    let signed_out = sign_out::sign_out_of(name, None, stores)?;
    for (_, outcome) in &signed_out {
        if let connectors::server_login::SignedOut::Failed(why) = outcome {
            out.warn(format_args!(
                "its login was deleted here, but revoking it failed: {}",
                visible(why)
            ));
        }
    }
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

/// `7 tools`, with the state of those that are not accepted.
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
        .map(|(location, name, _)| json!({ "place": location.as_str(), "name": name }))
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

/// The index of an argument that looks like a secret, which is masked in `target`.
fn secret_argument(target: &Target) -> Option<usize> {
    match target {
        Target::Command { argv, .. } => masking::secret_argument(argv),
        _ => None,
    }
}

/// A server by name, or the error that suggests a similar one.
fn find(name: &str, stores: &Stores) -> Result<Server> {
    match stores.servers()?.into_iter().find(|server| server.name == name) {
        Some(server) => Ok(server),
        None => Ok(stores.registry.server(name)?),
    }
}

const DESCRIPTION_COLUMNS: usize = 61;

/// The tools of a server as a table.
fn show_tools(server: &str, pins: &[Pin], out: &mut Out) -> Result<()> {
    let mut table = Table::new(&["tool", "at /mcp", "risk", "category", "pin", "description"]);
    for pin in pins {
        let class = tool_class::class(server, pin, pins);
        table.row([
            pin.tool.clone(),
            tools::listed_name(server, pin),
            class.as_ref().map_or("-", |class| class.risk).to_owned(),
            class.as_ref().map_or("-", |class| class.category).to_owned(),
            pin.state.as_str().to_owned(),
            cut_end(
                tools::description(pin).lines().next().unwrap_or_default(),
                DESCRIPTION_COLUMNS,
            ),
        ]);
    }
    out.table(&table)
}
