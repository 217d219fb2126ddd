//! The clock: the operating system's, or one that a test sets. Other modules are given a clock and
//! never read the system's.

use std::sync::{Arc, Mutex, PoisonError};

use platform::clock;

/// One reading of both clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Microseconds since 1970 by the wall clock, which people and time servers may set.
    pub wall_us: i64,
    /// Microseconds since the machine started, including sleep; it cannot be set.
    pub steady_us: u64,
}

#[derive(Clone, Debug)]
pub enum Clock {
    System,
    /// Frozen until a test moves it.
    Set(Arc<Mutex<Now>>),
}

impl Clock {
    /// A clock for tests that starts at `now`.
    pub fn set(now: Now) -> Clock {
        Clock::Set(Arc::new(Mutex::new(now)))
    }

    pub fn now(&self) -> Now {
        match self {
            Clock::System => Now { wall_us: clock::wall_us(), steady_us: clock::steady_us() },
            Clock::Set(now) => *now.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// Advances a test clock. The system clock is unaffected.
    pub fn advance(&self, us: u64) {
        if let Clock::Set(now) = self {
            let mut now = now.lock().unwrap_or_else(PoisonError::into_inner);
            now.wall_us = now.wall_us.saturating_add_unsigned(us);
            now.steady_us = now.steady_us.saturating_add(us);
        }
    }

    /// Sets only the wall clock, as a person or a time server does.
    pub fn set_wall(&self, wall_us: i64) {
        if let Clock::Set(now) = self {
            now.lock().unwrap_or_else(PoisonError::into_inner).wall_us = wall_us;
        }
    }

    /// Identifies the boot within which `steady_us` is comparable; none if the system has no boot
    /// id, so that no two runs are taken for the same boot.
    pub fn boot_id(&self) -> Option<String> {
        match self {
            Clock::System => clock::boot_id(),
            Clock::Set(_) => Some("set".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Clock, Now};

    #[test]
    fn a_set_clock_stands_still_until_it_is_moved() {
        let clock = Clock::set(Now { wall_us: 5, steady_us: 7 });
        assert_eq!(clock.now(), Now { wall_us: 5, steady_us: 7 });
        clock.advance(10);
        clock.set_wall(1);
        assert_eq!(clock.now(), Now { wall_us: 1, steady_us: 17 });
    }

    #[test]
    fn the_system_clock_goes_forward_and_has_a_boot() {
        let before = Clock::System.now();
        let after = Clock::System.now();
        assert!(after.steady_us >= before.steady_us && before.steady_us > 0);
        assert!(before.wall_us > 1_700_000_000_000_000);
        assert_eq!(Clock::System.boot_id(), Clock::System.boot_id());
    }
}
