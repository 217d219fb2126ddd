//! The plan of an import as text or JSON. Shows the names of secrets, never their values.

use anyhow::Result;
use serde_json::{Value, json};

use super::ClientImportArgs;
use crate::client_files::plan::{Action, Step};
use crate::client_files::table::Client;
use crate::client_files::write::{Gate, takes_token};
use crate::output::{Out, visible};

pub(super) fn show(
    steps: &[Step<'_>],
    at: &crate::client_files::folders::UserFolders,
    gate: &Gate,
    args: &ClientImportArgs,
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
        if last != Some(&step.file.path) {
            let path = at.shown(&step.file.path);
            out.line(format_args!("{} {}", step.file.client.title, visible(&path)))?;
            last = Some(&step.file.path);
        }
        let name = visible(&step.entry.name);
        match &step.action {
            Action::Skip(why) => out.line(format_args!("  {name}: stays, {}", visible(why)))?,
            Action::Import { server, is_new, .. } => {
                let how = if over_http(step, args) {
                    format!("{}/{server}", gate.url)
                } else {
                    format!("tollgate stdio {server}")
                };
                let old = if *is_new { "" } else { " (already in the gate)" };
                out.line(format_args!("  {name}: {how}{old}{}", sealed_text(step)))?;
            }
        }
    }
    Ok(())
}

/// Warns before a file is changed: a running client may overwrite the new file.
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
        "close {titles} first: a running client may overwrite its file or keep using the old one"
    ));
    for note in notes {
        out.say(format_args!("  {note}"));
    }
}

fn over_http(step: &Step<'_>, args: &ClientImportArgs) -> bool {
    takes_token(step.file) && !args.stdio
}

/// The names of the secrets that are sealed.
fn sealed_text(step: &Step<'_>) -> String {
    let names = sealed(step);
    if names.is_empty() {
        String::new()
    } else {
        format!(", sealed: {}", visible(&names.join(", ")))
    }
}

fn sealed(step: &Step<'_>) -> Vec<String> {
    let Action::Import { target, .. } = &step.action else { return Vec::new() };
    let named = |name: &str| if name.is_empty() { "query".to_owned() } else { name.to_owned() };
    target.credentials().iter().map(|(_, name, _)| named(name)).collect()
}

fn step_json(step: &Step<'_>, args: &ClientImportArgs) -> Value {
    let (action, why) = match &step.action {
        Action::Import { .. } => ("import", None),
        Action::Skip(why) => ("stays", Some(why)),
    };
    json!({
        "client": step.file.client.name,
        "file": step.file.path,
        "entry": step.entry.name,
        "fate": action,
        "why": why,
        "server": step.server(),
        "transport": step.server().map(|_| if over_http(step, args) { "http" } else { "stdio" }),
        "sealed": sealed(step),
    })
}
