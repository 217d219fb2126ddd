//! What a grant used: names, how often at most in an hour and in a day, and whether a human was asked.

use std::collections::BTreeMap;

use policy::Subject;
use store::ledger::Busiest;

use crate::policies::recorded::{Recorded, Then};

const HOUR_SECONDS: u64 = 3_600;
const DAY_SECONDS: u64 = 24 * HOUR_SECONDS;

/// What was used: a section of a policy and a name in it. Methods have no section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Tool,
    Resource,
    Prompt,
    Method,
}

impl Kind {
    fn of(subject: Subject<'_>) -> Kind {
        match subject {
            Subject::Tool(_) => Kind::Tool,
            Subject::Resource(_) => Kind::Resource,
            Subject::Prompt(_) => Kind::Prompt,
            Subject::Method(_) => Kind::Method,
        }
    }

    /// As a test of a policy names it.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Kind::Tool => "tool",
            Kind::Resource => "resource",
            Kind::Prompt => "prompt",
            Kind::Method => "method",
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
pub(super) struct Used {
    servers: Vec<String>,
    pub(super) names: BTreeMap<(Kind, String), Use>,
    pub(super) calls: u64,
    pub(super) first_time: String,
    pub(super) last_time: String,
}

impl Used {
    pub(super) fn add(&mut self, call: &Recorded) {
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
        let key = (Kind::of(subject), subject.name().to_owned());
        let used = self.names.entry(key).or_insert_with(Use::new);
        used.calls += 1;
        used.always_asked &= call.then == Then::Asked;
        if call.counts() {
            used.hour.count(entry.tick);
            used.day.count(entry.tick);
        }
    }

    pub(super) fn servers(&self) -> Vec<&str> {
        self.servers.iter().map(String::as_str).collect()
    }
}

/// The next number that a person would have written: exact up to 10, then in steps of a tenth to a fifth.
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
    fn limits_are_round_and_never_below_what_was_seen() {
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
