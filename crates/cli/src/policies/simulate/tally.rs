//! Counts what a draft changes, by server, name, what was decided then and what would be now. As many calls
//! as there are, it holds no more than a bounded number of groups.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use policy::{Code, Sight};
use serde::Serialize;

use crate::policies::recorded::{Recorded, Then};

/// Names are for agents to choose; those that come when there are so many groups are put together.
const GROUPS_MAX: usize = 10_000;
pub(super) const OTHER_NAMES: &str = "(other names)";

/// What the draft would do with a call.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Now {
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

impl Now {
    pub(super) fn of(sight: Sight) -> Now {
        match sight {
            Sight::Passes { rule } => Now::Allowed { rule },
            Sight::Asks { rule } => Now::Asked { rule },
            Sight::Denied { code, rule, .. } => Now::Denied { code: code.as_str(), rule },
            Sight::Hidden { rule } => Now::Hidden { rule },
            Sight::Depends { rules } => Now::Depends { rules },
        }
    }

    pub(super) const fn as_str(&self) -> &'static str {
        match self {
            Now::Allowed { .. } => "allowed",
            Now::Asked { .. } => "asked",
            Now::Denied { .. } => "denied",
            Now::Hidden { .. } => "hidden",
            Now::Limited { .. } => "limited",
            Now::Depends { .. } => "depends",
        }
    }

    pub(super) const fn code(&self) -> Option<&'static str> {
        match self {
            Now::Denied { code, .. } => Some(code),
            Now::Limited { .. } => Some(Code::RateLimited.as_str()),
            _ => None,
        }
    }

    pub(super) fn rules(&self) -> &[Arc<str>] {
        match self {
            Now::Allowed { rule }
            | Now::Asked { rule }
            | Now::Denied { rule, .. }
            | Now::Hidden { rule }
            | Now::Limited { rule } => std::slice::from_ref(rule),
            Now::Depends { rules } => rules,
        }
    }
}

/// What an owner wants to see first comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Change {
    NewlyDenied,
    NewlyAllowed,
    NowAsks,
    Depends,
    Same,
}

impl Change {
    pub(super) const ALL: [Change; 5] =
        [Change::NewlyDenied, Change::NewlyAllowed, Change::NowAsks, Change::Depends, Change::Same];

    fn between(then: Then, now: &Now) -> Change {
        match (then, now) {
            (_, Now::Depends { .. }) => Change::Depends,
            (Then::Allowed, Now::Allowed { .. })
            | (Then::Asked, Now::Asked { .. })
            | (
                Then::Denied | Then::Limited,
                Now::Denied { .. } | Now::Hidden { .. } | Now::Limited { .. },
            ) => Change::Same,
            (_, Now::Allowed { .. }) => Change::NewlyAllowed,
            (_, Now::Asked { .. }) => Change::NowAsks,
            (_, Now::Denied { .. } | Now::Hidden { .. } | Now::Limited { .. }) => {
                Change::NewlyDenied
            }
        }
    }

    pub(super) const fn words(self) -> &'static str {
        match self {
            Change::NewlyDenied => "newly denied",
            Change::NewlyAllowed => "newly allowed",
            Change::NowAsks => "now asks a human",
            Change::Depends => "depends on the arguments, which the log does not hold",
            Change::Same => "stays as it was",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) change: Change,
    pub(super) server: String,
    pub(super) kind: &'static str,
    pub(super) name: String,
    pub(super) then: Then,
    pub(super) now: Now,
}

/// How often, and rows to look at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    pub(super) calls: u64,
    pub(super) first_seq: u64,
    pub(super) last_seq: u64,
}

#[derive(Default)]
pub(super) struct Tally {
    groups: HashMap<Key, Group>,
    pub(super) servers: BTreeSet<String>,
    pub(super) first_time: String,
    pub(super) last_time: String,
    /// Whether the draft limits any of the calls.
    pub(super) has_limits: bool,
}

impl Tally {
    pub(super) fn add(&mut self, call: &Recorded, now: Now) {
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
            change: Change::between(call.then, &now),
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

    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    pub(super) fn changes_nothing(&self) -> bool {
        self.groups.keys().all(|key| key.change == Change::Same)
    }

    pub(super) fn calls(&self, wanted: impl Fn(&Key) -> bool) -> u64 {
        self.groups.iter().filter(|(key, _)| wanted(key)).map(|(_, group)| group.calls).sum()
    }

    /// By change, then the most frequent first.
    pub(super) fn sorted(&self) -> Vec<(&Key, Group)> {
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
        use Change::{Depends, NewlyAllowed, NewlyDenied, NowAsks, Same};
        let rule: Arc<str> = "/x".into();
        let nows = [
            Now::Allowed { rule: rule.clone() },
            Now::Asked { rule: rule.clone() },
            Now::Denied { code: "denied_by_rule", rule: rule.clone() },
            Now::Hidden { rule: rule.clone() },
            Now::Limited { rule: rule.clone() },
            Now::Depends { rules: vec![rule] },
        ];
        let table = [
            (Then::Allowed, [Same, NowAsks, NewlyDenied, NewlyDenied, NewlyDenied, Depends]),
            (Then::Asked, [NewlyAllowed, Same, NewlyDenied, NewlyDenied, NewlyDenied, Depends]),
            (Then::Denied, [NewlyAllowed, NowAsks, Same, Same, Same, Depends]),
            (Then::Limited, [NewlyAllowed, NowAsks, Same, Same, Same, Depends]),
        ];
        for (then, changes) in table {
            for (now, change) in nows.iter().zip(changes) {
                assert_eq!(Change::between(then, now), change, "{then:?} {now:?}");
            }
        }
    }
}
