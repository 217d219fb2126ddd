//! Replays counters over past calls with the code that counts live ones. Nothing is read or
//! written; time is that of the rows.

use policy::Hold;

use super::admit::limit_uses;
use super::counters::Counters;
use super::facts::Facts;
use super::sliding_window::SlidingWindow;

/// Expired events are dropped after so many calls.
const CALLS_PER_SWEEP: u32 = 65_536;

/// Counters that start empty and receive calls in the order of their rows.
#[derive(Debug, Default)]
pub struct Replay {
    counters: Counters,
    key_text: String,
    calls: u32,
}

impl Replay {
    /// The hold that would not fit at this ledger time.
    pub fn over<'h>(
        &mut self,
        holds: &'h [Hold],
        facts: &Facts<'_>,
        tick: u64,
    ) -> Option<&'h Hold> {
        let limit_uses = limit_uses(&self.counters, &mut self.key_text, holds, facts);
        let over = self.counters.check(&limit_uses, &Counters::group(&limit_uses), tick).err()?;
        holds.get(over.limit)
    }

    /// Counts a call.
    pub fn take(&mut self, holds: &[Hold], facts: &Facts<'_>, tick: u64) {
        let limit_uses = limit_uses(&self.counters, &mut self.key_text, holds, facts);
        self.counters.take(&Counters::group(&limit_uses), tick);
        self.calls += 1;
        if self.calls == CALLS_PER_SWEEP {
            self.calls = 0;
            self.counters.forget_expired(tick);
        }
    }
}

/// The most calls that one window ever held: a limit of this size would have stopped none of them.
#[derive(Debug)]
pub struct Busiest {
    window: SlidingWindow,
    calls: u64,
}

impl Busiest {
    pub fn new(window_seconds: u64) -> Busiest {
        Busiest { window: SlidingWindow::new(window_seconds.saturating_mul(1_000_000)), calls: 0 }
    }

    /// One more call, at this ledger time.
    pub fn count(&mut self, tick: u64) {
        self.window.push(tick, 1);
        self.calls = self.calls.max(u64::try_from(self.window.sum()).unwrap_or(u64::MAX));
    }

    pub fn calls(&self) -> u64 {
        self.calls
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use policy::{Amount, Scope};
    use proptest::prelude::{prop, prop_assert, proptest};

    use super::*;

    fn hold(window_ms: u64, max: u64) -> Hold {
        Hold {
            counter: "/tools/x/limits/0".into(),
            scope: Scope::Grant,
            window_ms,
            max: Amount::parse(&max.to_string()).unwrap(),
            amount: Amount::ONE,
            rule: "/tools/x/limits/0".into(),
            on_deny: None,
        }
    }

    #[test]
    fn a_counter_is_the_grants_own_and_empties_with_its_window() {
        let limit = [hold(1_000, 2)];
        let (ann, bob) = (
            Facts { grant: "ann", server: "s", ..Facts::default() },
            Facts { grant: "bob", server: "s", ..Facts::default() },
        );
        let mut replay = Replay::default();
        replay.take(&limit, &ann, 0);
        replay.take(&limit, &ann, 10);
        assert_eq!(replay.over(&limit, &ann, 20), limit.first());
        assert_eq!(replay.over(&limit, &bob, 20), None);
        assert_eq!(replay.over(&limit, &ann, 1_000_000), None);
    }

    proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(32))]

        /// However many there are, also beyond the exact ones.
        #[test]
        fn a_limit_at_the_busiest_window_stops_nothing(
            gaps in prop::collection::vec(0_u64..30_000, 0..2_500), seconds in 1_u64..20,
        ) {
            let ticks: Vec<u64> = gaps.iter().scan(0, |at, gap| { *at += gap; Some(*at) }).collect();
            let mut busiest = Busiest::new(seconds);
            for tick in &ticks {
                busiest.count(*tick);
            }
            let limit = [hold(seconds * 1_000, busiest.calls())];
            let (mut replay, facts) = (Replay::default(), Facts::default());
            for tick in ticks {
                prop_assert!(replay.over(&limit, &facts, tick).is_none());
                replay.take(&limit, &facts, tick);
            }
        }
    }
}
