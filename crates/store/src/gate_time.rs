//! The gate's time for grants and overlaps: the latest wall clock time ever seen, advanced by the
//! steady clock. Setting the clock back extends nothing.

use std::sync::{Mutex, PoisonError};

use crate::clock::Now;

/// Never runs backwards within a process and, with the stored time of the registry, across
/// processes.
#[derive(Debug)]
pub struct GateTime {
    latest: Mutex<Now>,
}

impl GateTime {
    /// `noted_us` is the result of [`Registry::note_time`](crate::registry::Registry::note_time).
    pub fn new(now: Now, noted_us: i64) -> GateTime {
        let wall_us = now.wall_us.max(noted_us);
        GateTime { latest: Mutex::new(Now { wall_us, ..now }) }
    }

    /// Microseconds since 1970 in the gate's time.
    pub fn at(&self, now: Now) -> i64 {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let passed_us = now.steady_us.saturating_sub(latest.steady_us);
        let carried_us = latest.wall_us.saturating_add_unsigned(passed_us);
        let steady_us = latest.steady_us.max(now.steady_us);
        *latest = Now { wall_us: carried_us.max(now.wall_us), steady_us };
        latest.wall_us
    }

    /// How far the gate's time is ahead of the wall clock; large after the clock was set back.
    pub fn ahead_us(&self, now: Now) -> i64 {
        self.at(now).saturating_sub(now.wall_us)
    }
}

#[cfg(test)]
mod tests {
    use super::GateTime;
    use crate::clock::Now;

    #[test]
    fn time_goes_on_whatever_the_wall_clock_does() {
        let time = GateTime::new(Now { wall_us: 1_000, steady_us: 0 }, 0);
        // wall clock, steady clock, gate's time
        let table = [
            (1_010, 10, 1_010),
            (20, 20, 1_020),
            (1_030, 30, 1_030),
            (9_000, 40, 9_000),
            (50, 50, 9_010),
            (60, 45, 9_010),
        ];
        for (wall_us, steady_us, wanted) in table {
            assert_eq!(time.at(Now { wall_us, steady_us }), wanted, "{wall_us} {steady_us}");
        }
        assert_eq!(time.ahead_us(Now { wall_us: 60, steady_us: 50 }), 9_010 - 60);
    }

    #[test]
    fn a_noted_time_holds_after_a_restart() {
        let time = GateTime::new(Now { wall_us: 5, steady_us: 0 }, 1_000);
        assert_eq!(time.at(Now { wall_us: 6, steady_us: 1 }), 1_001);
    }
}
