//! Rate limits of an application in fixed windows, as services count them.

use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Deserializer, Serialize};

const SECOND_US: i64 = 1_000_000;

/// A number of requests per number of seconds; in JSON a pair of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u64, u32)", into = "(u64, u32)")]
pub struct Limit {
    pub requests: u64,
    pub window_s: u32,
}

impl From<(u64, u32)> for Limit {
    fn from((requests, window_s): (u64, u32)) -> Limit {
        Limit { requests, window_s }
    }
}

impl From<Limit> for (u64, u32) {
    fn from(limit: Limit) -> (u64, u32) {
        (limit.requests, limit.window_s)
    }
}

/// Reads a list of limits in which `null` means none.
pub(crate) fn or_none<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Limit>, D::Error> {
    Option::<Vec<Limit>>::deserialize(from).map(Option::unwrap_or_default)
}

/// All limits of one application; none at all means unlimited.
#[derive(Debug, Default)]
pub(crate) struct Limits(Mutex<Vec<Window>>);

#[derive(Clone, Copy, Debug)]
struct Window {
    limit: Limit,
    began_us: i64,
    used: u64,
}

/// The state of the limits after a request, for the limit that is closest to its maximum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RateLimitStatus {
    pub(crate) closest: Limit,
    /// Every limit, in the order given.
    pub(crate) all: Vec<Limit>,
    pub(crate) remaining: u64,
    pub(crate) reset_s: i64,
    /// The request exceeded a limit.
    pub(crate) exceeded: bool,
}

impl Limits {
    pub(crate) fn new(limits: &[Limit]) -> Limits {
        let these = Limits::default();
        these.set(limits);
        these
    }

    /// Replaces the limits and resets their counts.
    pub(crate) fn set(&self, limits: &[Limit]) {
        let fresh = |limit: &Limit| Window { limit: *limit, began_us: i64::MIN, used: 0 };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = limits.iter().map(fresh).collect();
    }

    /// Counts one request. A rejected request is not counted.
    pub(crate) fn take(&self, now_us: i64) -> Option<RateLimitStatus> {
        let mut windows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        windows.iter_mut().for_each(|window| window.roll(now_us));
        let exceeded = windows.iter().any(|window| window.used >= window.limit.requests);
        if !exceeded {
            windows.iter_mut().for_each(|window| window.used += 1);
        }
        let all = windows.iter().map(|window| window.limit).collect();
        let closest = windows.iter().min_by_key(|window| window.remaining())?;
        Some(RateLimitStatus {
            closest: closest.limit,
            all,
            remaining: closest.remaining(),
            reset_s: closest.reset_s(now_us),
            exceeded,
        })
    }
}

impl Window {
    fn length_us(&self) -> i64 {
        i64::from(self.limit.window_s) * SECOND_US
    }

    fn roll(&mut self, now_us: i64) {
        let age_us = now_us.saturating_sub(self.began_us);
        if age_us >= self.length_us() || age_us < 0 {
            self.began_us = now_us;
            self.used = 0;
        }
    }

    fn remaining(&self) -> u64 {
        self.limit.requests.saturating_sub(self.used)
    }

    /// Seconds until the window ends, rounded up.
    fn reset_s(&self, now_us: i64) -> i64 {
        let left_us = self.began_us.saturating_add(self.length_us()).saturating_sub(now_us);
        left_us.div_euclid(SECOND_US) + i64::from(left_us.rem_euclid(SECOND_US) > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::{Limit, Limits};

    const TWO_A_MINUTE: Limit = Limit { requests: 2, window_s: 60 };
    const THREE_A_DAY: Limit = Limit { requests: 3, window_s: 86_400 };

    #[test]
    fn the_closest_limit_is_reported_and_a_rejected_request_is_not_counted() {
        let limits = Limits::new(&[TWO_A_MINUTE, THREE_A_DAY]);
        let seen = |at_s: i64| {
            let rate_limit = limits.take(at_s * 1_000_000);
            rate_limit.map(|s| (s.closest.requests, s.remaining, s.reset_s, s.exceeded))
        };
        assert_eq!(seen(0), Some((2, 1, 60, false)));
        assert_eq!(seen(1), Some((2, 0, 59, false)));
        assert_eq!(seen(2), Some((2, 0, 58, true)));
        assert_eq!(seen(60), Some((3, 0, 86_340, false)));
        assert_eq!(seen(61), Some((3, 0, 86_339, true)));
        assert_eq!(seen(86_400), Some((2, 1, 60, false)));
    }

    #[test]
    fn without_limits_there_is_no_status() {
        assert_eq!(Limits::new(&[]).take(5), None);
    }
}
