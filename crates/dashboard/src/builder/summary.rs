//! What a draft changes, in words: names and rules compared with the saved policy, and the calls of the last
//! week replayed.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use policy::json::Value;
use policy::{Policy, compare_numbers};
use serde::Serialize;
use store::ledger::{Entry, EntryKind, Filter, LedgerError};

use super::outline::{Outline, SECTIONS, State};
use crate::app::App;
use crate::problem::Problem;
use crate::replay::{self, DecisionChange, Judge, ReplayError, Tally, count};

/// Calls that are replayed for a page; `tollgate policy simulate` replays all.
const CALLS_MAX: usize = 2_000;
const WEEK_US: i64 = 7 * 86_400 * 1_000_000;
/// Groups of calls that a page lists.
const GROUPS_SHOWN_MAX: usize = 20;

/// The differences, each as a few words. Empty if the texts are the same.
#[derive(Default, Serialize)]
pub(crate) struct Summary {
    pub(crate) changes: Vec<String>,
}

/// Compares two policies on these names (section and name).
pub(crate) fn summary(
    before: &Outline<'_>,
    after: &Outline<'_>,
    offered: &[(&str, String)],
) -> Summary {
    let mut changes = state_changes(before, after, offered);
    let (old, new) = (PolicyParts::of(before.root), PolicyParts::of(after.root));
    changes.extend(PolicyParts::limit_changes(&old, &new));
    changes.extend(difference("rule", &old.rules, &new.rules));
    changes.extend(difference("redacted path", &old.redact, &new.redact));
    changes.extend(difference("test", &old.tests, &new.tests));
    if before.policy.allows_unnamed() != after.policy.allows_unnamed() {
        let word = if after.policy.allows_unnamed() { "allowed" } else { "denied" };
        changes.push(format!("names without an entry are now {word}"));
    }
    Summary { changes }
}

fn state_changes(
    before: &Outline<'_>,
    after: &Outline<'_>,
    offered: &[(&str, String)],
) -> Vec<String> {
    let mut counts: BTreeMap<(usize, usize), u64> = BTreeMap::new();
    for (kind, section) in SECTIONS.iter().enumerate() {
        let mut names: Vec<String> =
            offered.iter().filter(|(of, _)| of == section).map(|(_, name)| name.clone()).collect();
        for name in before.entries(section).into_iter().chain(after.entries(section)) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        for name in names {
            let (old, new) = (before.row(section, &name).state, after.row(section, &name).state);
            if old != new {
                let state = State::ALL.iter().position(|state| *state == new).unwrap_or_default();
                *counts.entry((kind, state)).or_default() += 1;
            }
        }
    }
    let message = counts.into_iter().filter_map(|((kind, state), number)| {
        let one = SECTIONS.get(kind)?.trim_end_matches('s');
        let what = match State::ALL.get(state)? {
            State::Allow => "newly allowed",
            State::Deny => "newly denied",
            State::Hide => "newly hidden",
            State::Ask if number == 1 => "now asks a person",
            State::Ask => "now ask a person",
            State::Custom => "now with conditions",
        };
        Some(format!("{} {what}", count(number, one)))
    });
    message.collect()
}

/// The parts of a policy that are counted, by where they are.
#[derive(Default)]
struct PolicyParts {
    rules: Vec<String>,
    redact: Vec<String>,
    tests: Vec<String>,
    /// By entry and position.
    limits: BTreeMap<(String, usize), (String, String)>,
}

impl PolicyParts {
    fn of(root: Value<'_>) -> PolicyParts {
        let mut parts = PolicyParts::default();
        if let Some(all) = root.get("all_tools") {
            parts.take("all_tools", all);
        }
        for section in SECTIONS {
            for (name, entry) in root.get(section).map(Value::entries).into_iter().flatten() {
                parts.take(&format!("{section}/{}", name.text()), entry);
            }
        }
        let tests = root.get("tests").map(Value::items).into_iter().flatten();
        parts.tests = tests.map(|test| test.raw().to_owned()).collect();
        parts
    }

    fn take(&mut self, at: &str, entry: Value<'_>) {
        let items = |list: &str| entry.get(list).map(Value::items).into_iter().flatten();
        for list in ["require", "deny_if", "approve_if"] {
            self.rules.extend(items(list).map(|rule| format!("{at} {list} {}", rule.raw())));
        }
        self.redact.extend(items("redact").map(|path| format!("{at} {}", path.raw())));
        let limits = items("limits").chain(entry.get("rate_limit"));
        for (index, limit) in limits.enumerate() {
            let max = limit.get("max").map_or("0", |max| max.raw()).to_owned();
            self.limits.insert((at.to_owned(), index), (max, limit.raw().to_owned()));
        }
    }

    fn limit_changes(old: &PolicyParts, new: &PolicyParts) -> Vec<String> {
        let (mut lowered, mut raised, mut changed, mut added) = (0, 0, 0, 0);
        for (at, (max, raw)) in &new.limits {
            match old.limits.get(at) {
                None => added += 1,
                Some((_, before)) if before == raw => {}
                Some((before, _)) => match compare_numbers(max, before) {
                    Ordering::Less => lowered += 1,
                    Ordering::Greater => raised += 1,
                    Ordering::Equal => changed += 1,
                },
            }
        }
        let removed = old.limits.keys().filter(|at| !new.limits.contains_key(*at)).count() as u64;
        let parts = [
            (lowered, "lowered"),
            (raised, "raised"),
            (added, "added"),
            (removed, "removed"),
            (changed, "changed"),
        ];
        let message = parts.into_iter().filter(|(number, _)| *number > 0);
        message.map(|(number, what)| format!("{} {what}", count(number, "limit"))).collect()
    }
}

fn difference(one: &str, old: &[String], new: &[String]) -> Vec<String> {
    let missing = |of: &[String], from: &[String]| {
        of.iter().filter(|part| !from.contains(part)).count() as u64
    };
    let parts = [(missing(new, old), "added"), (missing(old, new), "removed")];
    let message = parts.into_iter().filter(|(number, _)| *number > 0);
    message.map(|(number, what)| format!("{} {what}", count(number, one))).collect()
}

/// What the draft would have done with recent calls.
#[derive(Default, Serialize)]
pub(crate) struct Replayed {
    pub(crate) calls: u64,
    pub(crate) newly_denied: u64,
    pub(crate) newly_allowed: u64,
    pub(crate) now_asks: u64,
    pub(crate) depends: u64,
    /// There were more calls than were replayed.
    pub(crate) is_cut: bool,
    pub(crate) groups: Vec<ReplayedGroup>,
}

#[derive(Serialize)]
pub(crate) struct ReplayedGroup {
    pub(crate) change: &'static str,
    pub(crate) name: String,
    pub(crate) calls: u64,
    pub(crate) then: &'static str,
    pub(crate) rule: String,
    pub(crate) last_seq: u64,
}

impl Replayed {
    /// The sentence under the summary.
    pub(crate) fn message(&self) -> String {
        if self.calls == 0 {
            return "No call of the last 7 days to replay.".to_owned();
        }
        let parts = [
            (self.newly_denied, "would have been refused"),
            (self.now_asks, "would have asked a person"),
            (self.newly_allowed, "would have been allowed that were not"),
            (self.depends, "depend on arguments, which the log does not hold"),
        ];
        let parts: Vec<String> = parts
            .into_iter()
            .filter(|(number, _)| *number > 0)
            .map(|(number, message)| format!("{number} {message}"))
            .collect();
        let calls = count(self.calls, "call");
        if parts.is_empty() {
            return format!("Replayed against the last {calls}: all decided as before.");
        }
        format!("Of the last {calls}: {}.", parts.join(", "))
    }
}

/// Replays the newest calls of a server that these grants made, or all of them if no grant uses the policy.
pub(crate) fn replay(
    app: &App,
    policy: &Policy,
    server: &str,
    grants: &[String],
) -> Result<Replayed, Problem> {
    let filter = Filter {
        server: Some(server.to_owned()),
        since_us: Some(app.now_us() - WEEK_US),
        only: Some(EntryKind::Call),
        ..app.newest_rows()?
    };
    let is_ours = |entry: &Result<Entry, LedgerError>| {
        entry.as_ref().map_or(true, |entry| grants.is_empty() || grants.contains(&entry.grant))
    };
    let newest = app.audit()?.newest_first(&filter)?.filter(is_ours);
    let mut entries: Vec<Result<Entry, LedgerError>> = newest.take(CALLS_MAX + 1).collect();
    let is_cut = entries.len() > CALLS_MAX;
    entries.truncate(CALLS_MAX);
    let mut judge = Judge::new(policy, &app.registry);
    let mut tally = Tally::default();
    replay::each::<ReplayError>(entries.into_iter().rev(), &app.zone, |call| {
        let now = judge.judge(&call)?;
        tally.add(&call, now);
        Ok(())
    })
    .map_err(|error| Problem::internal(error.to_string()))?;
    let of = |change: DecisionChange| tally.calls(|key| key.change == change);
    let changed = tally.sorted();
    let changed = changed.iter().filter(|(key, _)| key.change != DecisionChange::Same);
    let group = |(key, group): &(&replay::Key, replay::Group)| ReplayedGroup {
        change: key.change.message(),
        name: key.name.clone(),
        calls: group.calls,
        then: key.then.as_str(),
        rule: key.now.rules().first().map(ToString::to_string).unwrap_or_default(),
        last_seq: group.last_seq,
    };
    Ok(Replayed {
        calls: tally.calls(|_| true),
        newly_denied: of(DecisionChange::NewlyDenied),
        newly_allowed: of(DecisionChange::NewlyAllowed),
        now_asks: of(DecisionChange::NowAsks),
        depends: of(DecisionChange::Depends),
        is_cut,
        groups: changed.take(GROUPS_SHOWN_MAX).map(group).collect(),
    })
}
