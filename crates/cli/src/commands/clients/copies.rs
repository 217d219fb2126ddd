//! `clients copies`: the copies of client files that imports left next to them. They hold the old secrets
//! in clear, so the owner can list and remove them; undo uses the sealed copy in the home.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use serde_json::json;

use super::CopiesArgs;
use super::journal::Journal;
use crate::context::Context;
use crate::failure::Ending;
use crate::output::{Out, count, visible};

pub(super) fn run(args: &CopiesArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    let stores = context.open()?;
    let journal = Journal::open(&stores, &context.random)?;
    let written = journal.records()?.into_iter().filter_map(|record| record.copy);
    let copies: Vec<PathBuf> = written.filter(|copy| copy.exists()).collect();
    if args.remove {
        for copy in &copies {
            let shown = copy.display();
            fs::remove_file(copy).with_context(|| format!("cannot remove `{shown}`"))?;
        }
    }
    if out.wants_json() {
        out.json(&json!({ "copies": copies, "removed": args.remove }))?;
        return Ok(Ending::Yes);
    }
    for copy in &copies {
        out.line(visible(&copy.display().to_string()))?;
    }
    match (copies.len(), args.remove) {
        (0, _) => out.say("no copies of client files are left"),
        (number, true) => out.say(format_args!(
            "{} removed; `tollgate clients import --undo` still works",
            copies_text(number)
        )),
        (number, false) => out.say(format_args!(
            "{} with the old secrets in clear; `tollgate clients copies --remove` removes them",
            copies_text(number)
        )),
    }
    Ok(Ending::Yes)
}

fn copies_text(number: usize) -> String {
    if number == 1 { "1 copy".to_owned() } else { count(number, "copie") }
}
