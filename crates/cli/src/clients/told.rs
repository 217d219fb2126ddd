//! The plan of an import in words, or as JSON. Names of secrets are told, values never.

use anyhow::Result;
use serde_json::{Value, json};

use super::ImportArgs;
use super::plan::{Fate, Step};
use super::table::Client;
use super::write::{Gate, takes_token};
use crate::output::{Out, visible};

pub(super) fn show(
    steps: &[Step<'_>],
    at: &super::places::Surroundings,
    gate: &Gate,
    args: &ImportArgs,
    out: &mut Out,
) -> Result<()> {
    if out.wants_json() {
        if args.dry_run {
            out.json(
                &json!({ "plan": steps.iter().map(|s| step_json(s, args)).collect::<Vec<_>>() }),
            )?;
        }
        return Ok(());
    }
    let mut last = None;
    for step in steps {
        if last != Some(&step.found.path) {
            let path = at.shown(&step.found.path);
            out.line(format_args!("{} {}", step.found.client.title, visible(&path)))?;
            last = Some(&step.found.path);
        }
        let name = visible(&step.entry.name);
        match &step.fate {
            Fate::Stays(why) => out.line(format_args!("  {name}: stays, {}", visible(why)))?,
            Fate::Import { server, is_new, .. } => {
                let how = if over_http(step, args) {
                    format!("{}/{server}", gate.url)
                } else {
                    format!("tollgate stdio {server}")
                };
                let old = if *is_new { "" } else { " (a server the gate has)" };
                out.line(format_args!("  {name}: {how}{old}{}", sealed_text(step)))?;
            }
        }
    }
    Ok(())
}

/// Said before a file is changed: a client that runs may write its old file over the new one.
pub(super) fn warn_before(clients: impl Iterator<Item = &'static Client>, out: &Out) {
    let mut titles: Vec<&str> = Vec::new();
    let mut notes: Vec<&str> = Vec::new();
    for client in clients {
        if !titles.contains(&client.title) {
            titles.push(client.title);
            notes.extend(client.note);
        }
    }
    if titles.is_empty() {
        return;
    }
    let titles = titles.join(", ");
    out.warn(format_args!(
        "close {titles} first: a client that runs may overwrite its file or keep using the old one"
    ));
    for note in notes {
        out.say(format_args!("  {note}"));
    }
}

fn over_http(step: &Step<'_>, args: &ImportArgs) -> bool {
    takes_token(step.found) && !args.stdio
}

/// The names of what goes into the vault.
fn sealed_text(step: &Step<'_>) -> String {
    let names = sealed(step);
    if names.is_empty() {
        String::new()
    } else {
        format!(", sealed: {}", visible(&names.join(", ")))
    }
}

fn sealed(step: &Step<'_>) -> Vec<String> {
    let Fate::Import { target, .. } = &step.fate else { return Vec::new() };
    let named = |name: &str| if name.is_empty() { "query".to_owned() } else { name.to_owned() };
    target.credentials().iter().map(|(_, name, _)| named(name)).collect()
}

fn step_json(step: &Step<'_>, args: &ImportArgs) -> Value {
    let (fate, why) = match &step.fate {
        Fate::Import { .. } => ("import", None),
        Fate::Stays(why) => ("stays", Some(why)),
    };
    json!({
        "client": step.found.client.name,
        "file": step.found.path,
        "entry": step.entry.name,
        "fate": fate,
        "why": why,
        "server": step.server(),
        "transport": step.server().map(|_| if over_http(step, args) { "http" } else { "stdio" }),
        "sealed": sealed(step),
    })
}
