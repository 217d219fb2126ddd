//! `server pins`: shows what changed since the owner accepted the tools of a server and the pages of its
//! apps, and accepts exactly that.

use std::fmt::Write as _;

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};
use store::registry::{Accept, Pin, PinState};

use crate::context::{Context, Stores};
use crate::failure::Ending;
use crate::output::{Out, Paint, count, visible};

#[derive(Args)]
pub(crate) struct PinsArgs {
    /// The server's name
    name: String,
    /// Accept what is shown: all of it, or only these tools and pages
    #[arg(long, value_name = "TOOL", num_args = 0..)]
    accept: Option<Vec<String>>,
    /// List the server's tools now instead of showing what was last seen
    #[arg(long)]
    look: bool,
}

/// Exits with yes when there is nothing to accept and with no otherwise, like `diff`.
pub(super) fn run(args: &PinsArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    let stores = context.open()?;
    super::find(&args.name, &stores)?;
    if args.look {
        crate::probe::update_pins(&args.name, &stores, context)?;
    }
    let pins = stores.registry.all_pins(&args.name)?;
    let open: Vec<&Pin> = pins.iter().filter(|pin| pin.state != PinState::Accepted).collect();
    match &args.accept {
        None => {
            show(&args.name, &pins, &open, out)?;
            if !open.is_empty() && !out.wants_json() {
                out.say(format_args!(
                    "if these changes are expected: `tollgate server pins {} --accept`",
                    args.name
                ));
            }
            Ok(Ending::of(open.is_empty()))
        }
        Some(tools) => {
            if !out.wants_json() {
                show(&args.name, &pins, &open, out)?;
            }
            let accepted = accept(&args.name, tools, &open, &stores)?;
            if out.wants_json() {
                out.json(&PinReport {
                    accepted_now: Some(accepted),
                    ..PinReport::of(&args.name, &pins, &open)
                })?;
            } else {
                out.line(format_args!("accepted: {}", count(accepted.len(), "tool")))?;
            }
            Ok(Ending::Yes)
        }
    }
}

/// The pins before acceptance, and which tools were accepted.
#[derive(Serialize)]
struct PinReport<'a> {
    server: &'a str,
    accepted: usize,
    open: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    accepted_now: Option<Vec<String>>,
}

impl<'a> PinReport<'a> {
    fn of(server: &'a str, pins: &[Pin], open: &[&Pin]) -> PinReport<'a> {
        let accepted = pins.len() - open.len();
        let open = open.iter().map(|pin| pin_json(pin)).collect();
        PinReport { server, accepted, open, accepted_now: None }
    }
}

fn show(server: &str, pins: &[Pin], open: &[&Pin], out: &mut Out) -> Result<()> {
    if out.wants_json() {
        return out.json(&PinReport::of(server, pins, open));
    }
    if pins.is_empty() {
        return out.line(format_args!("server `{server}`: no tools seen yet"));
    }
    for pin in open {
        let text = pin_text(pin, out.paint());
        out.raw(text.as_bytes())?;
    }
    let accepted = count(pins.len() - open.len(), "tool");
    if open.is_empty() {
        return out.line(format_args!("server `{server}`: {accepted} as accepted"));
    }
    out.line(format_args!("server `{server}`: {accepted} as accepted, {} to review", open.len()))
}

fn pin_text(pin: &Pin, paint: Paint) -> String {
    let mut text =
        format!("{} {}\n", paint.bold(visible(&pin.tool)), paint.careful(pin.state.as_str()));
    for line in catalog::pins::render(&pin.difference()).lines() {
        let painted = match line.chars().next() {
            Some('+') => paint.good(line),
            Some('-') => paint.bad(line),
            _ => line.to_owned(),
        };
        let _ = writeln!(text, "  {painted}");
    }
    text
}

fn pin_json(pin: &Pin) -> Value {
    let fingerprint =
        |side: &Option<store::registry::Pinned>| side.as_ref().map(|p| p.fingerprint.to_string());
    json!({
        "tool": pin.tool,
        "state": pin.state.as_str(),
        "accepted": fingerprint(&pin.accepted),
        "seen": fingerprint(&pin.seen),
        "changes": pin.difference(),
    })
}

/// Accepts what was shown and nothing newer: a server could change a tool in between.
fn accept(server: &str, tools: &[String], open: &[&Pin], stores: &Stores) -> Result<Vec<String>> {
    let by = stores.actor();
    let now_us = stores.now_us();
    stores.ready_to_note()?;
    let chosen: Vec<&str> = if tools.is_empty() {
        open.iter().map(|pin| pin.tool.as_str()).collect()
    } else {
        tools.iter().map(String::as_str).collect()
    };
    let what = |tool| {
        let shown = open.iter().find(|pin| pin.tool == tool).and_then(|pin| pin.seen.as_ref());
        shown.map_or(Accept::Tool(tool), |seen| Accept::Exactly(tool, &seen.fingerprint))
    };
    let what: Vec<Accept<'_>> = chosen.into_iter().map(what).collect();
    let accepted = stores.registry.accept_each(server, &what, by, now_us)?;
    stores.record()?;
    Ok(accepted)
}
