//! The report of a simulation: as text in at most 100 columns, or complete as JSON.

use anyhow::Result;
use dashboard::replay::{DecisionChange, Group, Key, OTHER_NAMES, PastDecision, Tally};
use serde_json::{Value, json};

use super::{Draft, DraftOrigin};
use crate::moment;
use crate::output::{Out, Table, count, cut_middle, visible};

/// Rows of one part of the table; `--json` has all.
const ROWS_MAX: usize = 20;
const SERVER_COLUMNS: usize = 14;
const NAME_COLUMNS: usize = 24;
const RULE_COLUMNS: usize = 28;

pub(super) fn show(tally: &Tally, draft: &Draft, out: &mut Out) -> Result<()> {
    if out.wants_json() {
        return out.json(&report_json(tally, draft));
    }
    if tally.is_empty() {
        out.say("no recorded call was judged by a policy; `tollgate audit tail` shows the log");
        return Ok(());
    }
    let groups = tally.sorted();
    let calls = count_of(tally.calls(|_| true));
    out.line(format_args!(
        "{calls} from {} to {}, replayed against `{}`",
        local(&tally.first_time),
        local(&tally.last_time),
        visible(&draft.name)
    ))?;
    for change in DecisionChange::ALL.into_iter().filter(|change| *change != DecisionChange::Same) {
        let part: Vec<&(&Key, Group)> =
            groups.iter().filter(|(key, _)| key.change == change).collect();
        if !part.is_empty() {
            out.line("")?;
            show_part(change, &part, out)?;
        }
    }
    out.line("")?;
    out.line(same(tally))?;
    if tally.has_limits {
        out.line(
            "limits: counted over the calls that were carried out, starting from empty counters",
        )?;
    }
    next_steps(tally, draft, &groups, out);
    Ok(())
}

fn show_part(change: DecisionChange, part: &[&(&Key, Group)], out: &mut Out) -> Result<()> {
    let calls: u64 = part.iter().map(|(_, group)| group.calls).sum();
    let paint = out.paint();
    let message = match change {
        DecisionChange::NewlyDenied => paint.bad(change.message()),
        DecisionChange::NewlyAllowed | DecisionChange::Same => paint.good(change.message()),
        DecisionChange::NowAsks | DecisionChange::Depends => paint.careful(change.message()),
    };
    out.line(format_args!("{message}: {}", count_of(calls)))?;
    let mut table = Table::new(&["server", "name", "calls", "then", "by rule", "row"]);
    for (key, group) in part.iter().take(ROWS_MAX) {
        table.row([
            cut_middle(&key.server, SERVER_COLUMNS),
            cut_middle(&key.name, NAME_COLUMNS),
            group.calls.to_string(),
            key.then.as_str().to_owned(),
            rules(key),
            group.last_seq.to_string(),
        ]);
    }
    out.table(&table)?;
    if let Some(more) = part.len().checked_sub(ROWS_MAX).filter(|more| *more > 0) {
        out.line(format_args!("… and {more} more lines; `--json` has all"))?;
    }
    Ok(())
}

/// The first rule, and how many more there are.
fn rules(key: &Key) -> String {
    let Some((first, rest)) = key.now.rules().split_first() else { return String::new() };
    let more = if rest.is_empty() { String::new() } else { format!(" +{}", rest.len()) };
    let width = RULE_COLUMNS.saturating_sub(more.len());
    format!("{}{more}", cut_middle(first, width))
}

/// `unchanged: 12 calls (9 allowed, 3 denied)`
fn same(tally: &Tally) -> String {
    let of = |then: PastDecision| {
        tally.calls(|key| key.change == DecisionChange::Same && key.then == then)
    };
    let parts: Vec<String> = PastDecision::ALL
        .into_iter()
        .map(|then| (of(then), then))
        .filter(|(calls, _)| *calls > 0)
        .map(|(calls, then)| format!("{calls} {}", then.as_str()))
        .collect();
    let calls = count_of(tally.calls(|key| key.change == DecisionChange::Same));
    let parts = if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) };
    format!("{}: {calls}{parts}", DecisionChange::Same.message())
}

fn next_steps(tally: &Tally, draft: &Draft, groups: &[(&Key, Group)], out: &Out) {
    if tally.servers.len() > 1 {
        let servers = count(tally.servers.len(), "server");
        out.say(format_args!(
            "these calls went to {servers}, but a policy is for one; `--server NAME` selects one"
        ));
    }
    let shown = groups.iter().find(|(key, _)| {
        let can_be_found = key.kind != "method" && key.name != OTHER_NAMES;
        key.change != DecisionChange::Same && can_be_found
    });
    if let Some((key, _)) = shown {
        let (server, name) = (quoted(&key.server), quoted(&key.name));
        out.say(format_args!("see `tollgate audit search --server {server} --tool {name}`"));
    }
    let name = quoted(&draft.name);
    match draft.from {
        DraftOrigin::File => out.say(format_args!("next: `tollgate policy set NAME {name}`")),
        DraftOrigin::Gate => {
            out.say(format_args!("next: `tollgate grant policy LABEL SERVER {name}`"));
        }
        DraftOrigin::Stdin => {}
    }
}

/// Quotes for a shell: an agent chose the name.
fn quoted(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:@%+=,".contains(c);
    let name = visible(name);
    if !name.is_empty() && name.chars().all(is_plain) {
        return name;
    }
    format!("'{}'", name.replace('\'', r"'\''"))
}

fn local(time: &str) -> String {
    let at = time.parse::<jiff::Timestamp>();
    at.map_or_else(|_| visible(time), |at| moment::local(at.as_microsecond()))
}

fn count_of(calls: u64) -> String {
    count(usize::try_from(calls).unwrap_or(usize::MAX), "call")
}

fn report_json(tally: &Tally, draft: &Draft) -> Value {
    let counts: serde_json::Map<String, Value> = DecisionChange::ALL
        .into_iter()
        .map(|change| {
            let calls = tally.calls(|key| key.change == change);
            (json!(change).as_str().unwrap_or_default().to_owned(), json!(calls))
        })
        .collect();
    json!({
        "draft": draft.name,
        "calls": tally.calls(|_| true),
        "servers": tally.servers,
        "first_time": tally.first_time,
        "last_time": tally.last_time,
        "counts": counts,
        "limits": if tally.has_limits { "replayed" } else { "none" },
        "groups": tally.sorted().iter().map(|(key, group)| group_json(key, *group)).collect::<Vec<_>>(),
    })
}

fn group_json(key: &Key, group: Group) -> Value {
    json!({
        "change": key.change,
        "server": key.server,
        "kind": key.kind,
        "name": key.name,
        "calls": group.calls,
        "then": key.then,
        "now": key.now.as_str(),
        "code": key.now.code(),
        "rules": key.now.rules().iter().map(|rule| &**rule).collect::<Vec<_>>(),
        "first_seq": group.first_seq,
        "last_seq": group.last_seq,
    })
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn a_name_is_one_word_for_a_shell() {
        for (name, word) in
            [("send_money", "send_money"), ("a b", "'a b'"), ("a'; rm", r"'a'\''; rm'")]
        {
            assert_eq!(quoted(name), word);
        }
    }
}
