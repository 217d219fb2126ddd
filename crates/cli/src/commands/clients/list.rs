//! `clients list`: which clients are configured here, and which of their servers are behind the gate.

use anyhow::Result;
use serde_json::{Value, json};

use crate::client_files::discover::{ConfigFile, find};
use crate::client_files::plan::is_behind_gate;
use crate::failure::Ending;
use crate::output::{Out, Table, visible};

pub(super) fn run(out: &mut Out) -> Result<Ending> {
    let at = crate::client_files::user_folders()?;
    let found = find(&at);
    if out.wants_json() {
        out.json(&found.iter().map(file_json).collect::<Vec<_>>())?;
        return Ok(Ending::Yes);
    }
    let mut table = Table::new(&["client", "server", "kind", "target", "gate", "file"]);
    let mut rows = 0;
    for file in &found {
        let shown = at.shown(&file.path);
        for entry in &file.entries {
            rows += 1;
            let gate = match (entry.enabled, is_behind_gate(&entry.launch)) {
                (false, _) => "off",
                (true, true) => "behind",
                (true, false) => "direct",
            };
            table.row([
                file.client.name.to_owned(),
                entry.name.clone(),
                entry.launch.kind().to_owned(),
                short(&entry.launch.shown()),
                gate.to_owned(),
                shown.clone(),
            ]);
        }
    }
    if rows > 0 {
        out.table(&table)?;
    } else {
        out.say("no client on this machine has an MCP server");
    }
    for file in &found {
        if let Some(problem) = &file.problem {
            out.warn(format_args!(
                "`{}` cannot be read: {}",
                at.shown(&file.path),
                visible(problem)
            ));
        }
    }
    let is_direct =
        |f: &ConfigFile| f.entries.iter().any(|e| e.enabled && !is_behind_gate(&e.launch));
    if found.iter().any(is_direct) {
        out.say("`tollgate clients import --dry-run` shows how to put them behind the gate");
    }
    Ok(Ending::Yes)
}

fn short(text: &str) -> String {
    const CHARS_MAX: usize = 60;
    if text.chars().count() <= CHARS_MAX {
        return text.to_owned();
    }
    format!("{}…", text.chars().take(CHARS_MAX).collect::<String>())
}

fn file_json(file: &ConfigFile) -> Value {
    let entries: Vec<Value> = file
        .entries
        .iter()
        .map(|entry| {
            json!({
                "name": entry.name,
                "kind": entry.launch.kind(),
                "target": entry.launch.shown(),
                "project": entry.project,
                "enabled": entry.enabled,
                "behind_gate": is_behind_gate(&entry.launch),
            })
        })
        .collect();
    json!({
        "client": file.client.name,
        "title": file.client.title,
        "file": file.path,
        "shared": file.is_shared(),
        "problem": file.problem,
        "servers": entries,
    })
}
