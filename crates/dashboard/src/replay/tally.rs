//! Counts what a draft changes, by server, name, past decision and the draft's decision. Memory is bounded
//! by the number of groups, not of calls.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use policy::{Code, PredictedOutcome};
use serde::Serialize;

use super::recorded::{PastDecision, Recorded};

/// Agents choose names; beyond this many groups, new names share one.
const GROUPS_MAX: usize = 10_000;
pub const OTHER_NAMES: &str = "(other names)";

/// What the draft would do with a call.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DraftDecision {
    Allowed {
        rule: Arc<str>,
    },
    Asked {
        rule: Arc<str>,
    },
    Denied {
        code: &'static str,
        rule: Arc<str>,
    },
    Hidden {
        rule: Arc<str>,
    },
    Limited {
        rule: Arc<str>,
    },
    /// The arguments decide, which the log does not hold.
    Depends {
        rules: Vec<Arc<str>>,
    },
}

impl DraftDecision {
    pub fn of(outcome: PredictedOutcome) -> DraftDecision {
        match outcome {
            PredictedOutcome::Passes { rule } => DraftDecision::Allowed { rule },
            PredictedOutcome::Asks { rule } => DraftDecision::Asked { rule },
            PredictedOutcome::Denied { code, rule, .. } => {
                DraftDecision::Denied { code: code.as_str(), rule }
            }
            PredictedOutcome::Hidden { rule } => DraftDecision::Hidden { rule },
            PredictedOutcome::Depends { rules } => DraftDecision::Depends { rules },
        }
    }

    pub const fn as_str(&self) -> &'static str {
        match self {
            DraftDecision::Allowed { .. } => "allowed",
            DraftDecision::Asked { .. } => "asked",
            DraftDecision::Denied { .. } => "denied",
            DraftDecision::Hidden { .. } => "hidden",
            DraftDecision::Limited { .. } => "limited",
            DraftDecision::Depends { .. } => "depends",
        }
    }

    pub const fn code(&self) -> Option<&'static str> {
        match self {
            DraftDecision::Denied { code, .. } => Some(code),
            DraftDecision::Limited { .. } => Some(Code::RateLimited.as_str()),
            _ => None,
        }
    }

    pub fn rules(&self) -> &[Arc<str>] {
        match self {
            DraftDecision::Allowed { rule }
            | DraftDecision::Asked { rule }
            | DraftDecision::Denied { rule, .. }
            | DraftDecision::Hidden { rule }
            | DraftDecision::Limited { rule } => std::slice::from_ref(rule),
            DraftDecision::Depends { rules } => rules,
        }
    }
}

/// In the order of importance to the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DecisionChange {
    NewlyDenied,
    NewlyAllowed,
    NowAsks,
    Depends,
    Same,
}

impl DecisionChange {
    pub const ALL: [DecisionChange; 5] = [
        DecisionChange::NewlyDenied,
        DecisionChange::NewlyAllowed,
        DecisionChange::NowAsks,
        DecisionChange::Depends,
        DecisionChange::Same,
    ];

    fn between(then: PastDecision, now: &DraftDecision) -> DecisionChange {
        match (then, now) {
            (_, DraftDecision::Depends { .. }) => DecisionChange::Depends,
            (PastDecision::Allowed, DraftDecision::Allowed { .. })
            | (PastDecision::Asked, DraftDecision::Asked { .. })
            | (
                PastDecision::Denied | PastDecision::Limited,
                DraftDecision::Denied { .. }
                | DraftDecision::Hidden { .. }
                | DraftDecision::Limited { .. },
            ) => DecisionChange::Same,
            (_, DraftDecision::Allowed { .. }) => DecisionChange::NewlyAllowed,
            (_, DraftDecision::Asked { .. }) => DecisionChange::NowAsks,
            (
                _,
                DraftDecision::Denied { .. }
                | DraftDecision::Hidden { .. }
                | DraftDecision::Limited { .. },
            ) => DecisionChange::NewlyDenied,
        }
    }

    pub const fn message(self) -> &'static str {
        match self {
            DecisionChange::NewlyDenied => "newly denied",
            DecisionChange::NewlyAllowed => "newly allowed",
            DecisionChange::NowAsks => "now asks a human",
            DecisionChange::Depends => "depends on the arguments, which the log does not hold",
            DecisionChange::Same => "unchanged",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    pub change: DecisionChange,
    pub server: String,
    pub kind: &'static str,
    pub name: String,
    pub then: PastDecision,
    pub now: DraftDecision,
}

/// The number of calls, and their first and last row.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    pub calls: u64,
    pub first_seq: u64,
    pub last_seq: u64,
}

#[derive(Default)]
pub struct Tally {
    groups: HashMap<Key, Group>,
    pub servers: BTreeSet<String>,
    pub first_time: String,
    pub last_time: String,
    /// Whether the draft limits any of the calls.
    pub has_limits: bool,
}

impl Tally {
    pub fn add(&mut self, call: &Recorded, now: DraftDecision) {
        let entry = &call.entry;
        if !self.servers.contains(&entry.server) {
            self.servers.insert(entry.server.clone());
        }
        if self.first_time.is_empty() {
            self.first_time.clone_from(&entry.time);
        }
        self.last_time.clone_from(&entry.time);
        let subject = call.subject();
        let mut key = Key {
            change: DecisionChange::between(call.then, &now),
            server: entry.server.clone(),
            kind: subject.kind(),
            name: subject.name().to_owned(),
            then: call.then,
            now,
        };
        if self.groups.len() >= GROUPS_MAX && !self.groups.contains_key(&key) {
            OTHER_NAMES.clone_into(&mut key.name);
        }
        let seq = entry.seq;
        let group = self.groups.entry(key);
        let group = group.or_insert(Group { calls: 0, first_seq: seq, last_seq: seq });
        group.calls += 1;
        group.last_seq = seq;
    }

    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    pub fn changes_nothing(&self) -> bool {
        self.groups.keys().all(|key| key.change == DecisionChange::Same)
    }

    pub fn calls(&self, wanted: impl Fn(&Key) -> bool) -> u64 {
        self.groups.iter().filter(|(key, _)| wanted(key)).map(|(_, group)| group.calls).sum()
    }

    /// By change, then the most frequent first.
    pub fn sorted(&self) -> Vec<(&Key, Group)> {
        let mut all: Vec<(&Key, Group)> = self.groups.iter().map(|(key, g)| (key, *g)).collect();
        all.sort_by_key(|(key, group)| {
            (key.change, Reverse(group.calls), &key.server, key.kind, &key.name, key.then, &key.now)
        });
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_of_decisions_has_its_change() {
        use DecisionChange::{Depends, NewlyAllowed, NewlyDenied, NowAsks, Same};
        let rule: Arc<str> = "/x".into();
        let nows = [
            DraftDecision::Allowed { rule: rule.clone() },
            DraftDecision::Asked { rule: rule.clone() },
            DraftDecision::Denied { code: "denied_by_rule", rule: rule.clone() },
            DraftDecision::Hidden { rule: rule.clone() },
            DraftDecision::Limited { rule: rule.clone() },
            DraftDecision::Depends { rules: vec![rule] },
        ];
        let table = [
            (
                PastDecision::Allowed,
                [Same, NowAsks, NewlyDenied, NewlyDenied, NewlyDenied, Depends],
            ),
            (
                PastDecision::Asked,
                [NewlyAllowed, Same, NewlyDenied, NewlyDenied, NewlyDenied, Depends],
            ),
            (PastDecision::Denied, [NewlyAllowed, NowAsks, Same, Same, Same, Depends]),
            (PastDecision::Limited, [NewlyAllowed, NowAsks, Same, Same, Same, Depends]),
        ];
        for (then, changes) in table {
            for (now, change) in nows.iter().zip(changes) {
                assert_eq!(DecisionChange::between(then, now), change, "{then:?} {now:?}");
            }
        }
    }
}
