//! One entry in one line. Everything in it may come from an agent or a server, so everything is made
//! visible.

use std::fmt::Write as _;

use store::ledger::{Entry, EntryKind};

use crate::moment;
use crate::output::{Paint, pad, visible};

const DECISION_WIDTH: usize = 15;

pub(crate) fn line(entry: &Entry, paint: Paint) -> String {
    let time = entry.time.parse::<jiff::Timestamp>().map(|t| moment::local(t.as_microsecond()));
    let time = time.unwrap_or_else(|_| visible(&entry.time));
    let mut out = format!("{} {:>7}  ", paint.dim(time), entry.seq);
    match entry.kind {
        EntryKind::Call => push_call(entry, paint, &mut out),
        EntryKind::Note => push_note(entry, &mut out),
    }
    out
}

fn push_call(entry: &Entry, paint: Paint, out: &mut String) {
    let decision = pad(&visible(&entry.decision), DECISION_WIDTH);
    out.push_str(&match entry.decision.as_str() {
        "admitted" | "passed" | "own" => paint.good(decision),
        "asked" => paint.careful(decision),
        _ => paint.bad(decision),
    });
    let who = if entry.grant.is_empty() { "-" } else { &entry.grant };
    let _ = write!(out, "  {}  {}", visible(who), visible(&what(entry)));
    if !entry.outcome.is_empty() {
        let _ = write!(out, "  {}", visible(&entry.outcome));
    }
    if let Some(latency_us) = entry.latency_us {
        let _ = write!(out, " {}", latency(latency_us));
    }
    if !entry.reason.is_empty() {
        let _ = write!(out, "  {}", visible(&entry.reason));
    }
    if let Some(count) = entry.count {
        let _ = write!(out, "  {count} times");
    }
    if !entry.rule.is_empty() && entry.decision != "admitted" {
        let _ = write!(out, "  {}", paint.dim(format!("({})", visible(&entry.rule))));
    }
    if !entry.approval.is_empty() && entry.decision == "asked" {
        let _ = write!(out, "  approval {}", visible(&entry.approval));
    }
}

fn push_note(entry: &Entry, out: &mut String) {
    out.push_str(&pad("note", DECISION_WIDTH));
    let _ = write!(out, "  {}", visible(&entry.act));
    for (name, value) in
        [("", &entry.approval), ("", &entry.about), ("by ", &entry.by), ("", &entry.words)]
    {
        if !value.is_empty() {
            let _ = write!(out, "  {name}{}", visible(value));
        }
    }
}

/// `server.tool`, or the method where there is no subject.
fn what(entry: &Entry) -> String {
    let subject = [&entry.tool, &entry.uri, &entry.prompt, &entry.skill]
        .into_iter()
        .find(|name| !name.is_empty());
    let subject = subject.unwrap_or(&entry.method);
    if entry.server.is_empty() { subject.clone() } else { format!("{} {subject}", entry.server) }
}

fn latency(us: u64) -> String {
    let whole = us / 1000;
    if whole >= 10 { format!("{whole}ms") } else { format!("{whole}.{}ms", us % 1000 / 100) }
}

#[cfg(test)]
mod tests {
    use super::latency;

    #[test]
    fn latencies_are_short() {
        for (us, text) in [(0, "0.0ms"), (1_250, "1.2ms"), (12_900, "12ms")] {
            assert_eq!(latency(us), text);
        }
    }
}
