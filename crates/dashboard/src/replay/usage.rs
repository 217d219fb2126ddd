//! What a grant used: names, how often at most in an hour and in a day, and whether a human was asked.

use std::collections::BTreeMap;

use policy::Subject;
use store::ledger::Busiest;

use super::recorded::{PastDecision, Recorded};

const HOUR_SECONDS: u64 = 3_600;
const DAY_SECONDS: u64 = 24 * HOUR_SECONDS;

/// The kind of a used name: a section of a policy. Methods have no section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum NameKind {
    Tool,
    Resource,
    Prompt,
    Skill,
    Method,
}

impl NameKind {
    fn of(subject: Subject<'_>) -> NameKind {
        match subject {
            Subject::Tool(_) => NameKind::Tool,
            Subject::Resource(_) => NameKind::Resource,
            Subject::Prompt(_) => NameKind::Prompt,
            Subject::Skill(_) => NameKind::Skill,
            Subject::Method(_) => NameKind::Method,
        }
    }

    /// As a test of a policy names it.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            NameKind::Tool => "tool",
            NameKind::Resource => "resource",
            NameKind::Prompt => "prompt",
            NameKind::Skill => "skill",
            NameKind::Method => "method",
        }
    }
}

pub(super) struct Use {
    pub(super) calls: u64,
    /// A human was asked about every one.
    pub(super) always_asked: bool,
    hour: Busiest,
    day: Busiest,
}

impl Use {
    fn new() -> Use {
        Use {
            calls: 0,
            always_asked: true,
            hour: Busiest::new(HOUR_SECONDS),
            day: Busiest::new(DAY_SECONDS),
        }
    }

    pub(super) fn hour_max(&self) -> u64 {
        round_up(self.hour.calls())
    }

    pub(super) fn day_max(&self) -> u64 {
        round_up(self.day.calls())
    }
}

#[derive(Default)]
pub struct Usage {
    servers: Vec<String>,
    pub(super) names: BTreeMap<(NameKind, String), Use>,
    pub calls: u64,
    pub first_time: String,
    pub last_time: String,
}

impl Usage {
    pub fn add(&mut self, call: &Recorded) {
        if !call.was_carried_out() {
            return;
        }
        let entry = &call.entry;
        if !self.servers.contains(&entry.server) {
            self.servers.push(entry.server.clone());
        }
        if self.calls == 0 {
            self.first_time.clone_from(&entry.time);
        }
        self.last_time.clone_from(&entry.time);
        self.calls += 1;
        let subject = call.subject();
        let key = (NameKind::of(subject), subject.name().to_owned());
        let used = self.names.entry(key).or_insert_with(Use::new);
        used.calls += 1;
        used.always_asked &= call.then == PastDecision::Asked;
        if call.counts() {
            used.hour.count(entry.tick);
            used.day.count(entry.tick);
        }
    }

    pub fn servers(&self) -> Vec<&str> {
        self.servers.iter().map(String::as_str).collect()
    }
}

/// The next round number: exact up to 10, then in steps of a tenth to a fifth.
fn round_up(calls: u64) -> u64 {
    const STEPS: [u64; 10] = [10, 12, 15, 20, 25, 30, 40, 50, 60, 80];
    if calls <= 10 {
        return calls.max(1);
    }
    let mut scale: u64 = 1;
    loop {
        if let Some(step) = STEPS.iter().find(|step| step.saturating_mul(scale) >= calls) {
            return step.saturating_mul(scale);
        }
        scale = scale.saturating_mul(10);
    }
}

#[cfg(test)]
mod tests {
    use super::round_up;

    #[test]
    fn limits_are_round_and_never_below_the_maximum_seen() {
        for (calls, max) in [
            (0, 1),
            (1, 1),
            (7, 7),
            (10, 10),
            (11, 12),
            (13, 15),
            (26, 30),
            (81, 100),
            (100, 100),
            (101, 120),
            (1_234, 1_500),
            (u64::MAX, u64::MAX),
        ] {
            assert_eq!(round_up(calls), max, "{calls}");
        }
    }
}
