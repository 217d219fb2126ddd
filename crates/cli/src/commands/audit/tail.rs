//! `audit tail` and `audit search`.

use std::time::Duration;

use anyhow::Result;
use store::ledger::{Entry, Filter};

use super::{AuditSearchArgs, TailArgs, log};
use crate::audit_log::{is_housekeeping, line};
use crate::context::Context;
use crate::failure::Ending;
use crate::output::Out;

/// How often the log is polled while following.
const POLL_EVERY: Duration = Duration::from_millis(200);

pub(super) fn tail(args: &TailArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    let filter = args.filter.filter(context.clock.now().wall_us)?;
    let reader = log(context)?;
    // Created before the first read, so that no entry is missed between the two.
    let mut follower = reader.follow()?;
    let shown = |entry: &Entry| args.all || !is_housekeeping(entry);
    let newest: Vec<Entry> = reader
        .newest_first(&filter)?
        .filter(|entry| entry.as_ref().map_or(true, shown))
        .take(args.number)
        .collect::<Result<_, _>>()?;
    let last = newest.first().map_or(0, |entry| entry.seq);
    for entry in newest.iter().rev() {
        show(entry, out)?;
    }
    if !args.follow && newest.is_empty() {
        out.say("nothing recorded yet");
    }
    if !args.follow {
        return Ok(Ending::Yes);
    }
    // Until the process is killed or the reader closes the pipe.
    loop {
        out.flush()?;
        std::thread::sleep(POLL_EVERY);
        for entry in follower.poll()? {
            let is_wanted = shown(&entry) && wanted(&entry, &filter);
            if is_wanted && (entry.seq > last || !entry.outcome.is_empty()) {
                show(&entry, out)?;
            }
        }
    }
}

pub(super) fn search(args: &AuditSearchArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    let mut filter = args.filter.filter(context.clock.now().wall_us)?;
    filter.text.clone_from(&args.text);
    let reader = log(context)?;
    let mut found: Vec<Entry> = Vec::new();
    let mut more = false;
    for entry in reader.newest_first(&filter)? {
        if found.len() == args.number {
            more = true;
            break;
        }
        found.push(entry?);
    }
    for entry in found.iter().rev() {
        show(entry, out)?;
    }
    if more {
        out.say(format_args!("the newest {} are shown; `-n` shows more", args.number));
    } else if found.is_empty() {
        out.say("no entries found");
    }
    Ok(Ending::Yes)
}

/// Whether the filter matches a finished entry.
fn wanted(entry: &Entry, filter: &Filter) -> bool {
    let is = |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|w| w == found);
    let subject = [&entry.tool, &entry.uri, &entry.prompt, &entry.skill]
        .into_iter()
        .find(|name| !name.is_empty());
    is(&filter.grant, &entry.grant)
        && is(&filter.server, &entry.server)
        && is(&filter.decision, &entry.decision)
        && is(&filter.subject, subject.map_or("", String::as_str))
        && filter.only.is_none_or(|only| only == entry.kind)
}

fn show(entry: &Entry, out: &mut Out) -> Result<()> {
    if out.wants_json() {
        return out.json_line(entry);
    }
    let text = line(entry, out.paint());
    out.line(text)
}
