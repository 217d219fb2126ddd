//! The clock of a sandbox: starts at a given time, runs or stays frozen, and can be advanced. It never
//! reads the wall clock.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

/// Whether the clock runs by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClockMode {
    #[default]
    Running,
    /// Only [`crate::Control::advance`] moves it, so that every response is deterministic.
    Frozen,
}

#[derive(Debug)]
pub(crate) struct Clock {
    begun_us: i64,
    since: Option<Instant>,
    moved_us: AtomicI64,
}

impl Clock {
    pub(crate) fn new(begun_us: i64, time: ClockMode) -> Clock {
        let since = matches!(time, ClockMode::Running).then(Instant::now);
        Clock { begun_us, since, moved_us: AtomicI64::new(0) }
    }

    pub(crate) fn now_us(&self) -> i64 {
        let ran = self.since.map_or(0, |since| since.elapsed().as_micros());
        let ran_us = i64::try_from(ran).unwrap_or(i64::MAX);
        let moved_us = self.moved_us.load(Ordering::SeqCst);
        self.begun_us.saturating_add(ran_us).saturating_add(moved_us)
    }

    pub(crate) fn advance(&self, us: u64) {
        let us = i64::try_from(us).unwrap_or(i64::MAX);
        self.moved_us.fetch_add(us, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::{Clock, ClockMode};

    #[test]
    fn a_frozen_clock_moves_only_when_advanced() {
        let clock = Clock::new(100, ClockMode::Frozen);
        assert_eq!(clock.now_us(), 100);
        clock.advance(50);
        assert_eq!(clock.now_us(), 150);
    }
}
