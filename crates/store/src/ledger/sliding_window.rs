//! One sliding window: what was admitted within its length, exact while there is little of it and
//! in small granules when there is much, never counting less than was admitted.

use std::collections::VecDeque;

/// A window is exact up to this many events; beyond twice that, events are merged by granule.
pub(crate) const EXACT_EVENTS_MAX: usize = 256;

/// A granule is this fraction of the window; merged events expire with the last of them.
const GRANULES: u64 = 256;

/// Units of 10⁻¹⁸: amounts are exact decimals with 18 paths.
pub(crate) type Units = i128;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) tick: u64,
    pub(crate) amount: Units,
}

/// How long until an amount fits; never if the amount alone exceeds the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RetryAfter {
    Us(u64),
    Never,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SlidingWindow {
    window_us: u64,
    events: VecDeque<Event>,
    sum: Units,
}

impl SlidingWindow {
    pub(crate) fn new(window_us: u64) -> SlidingWindow {
        SlidingWindow { window_us: window_us.max(1), events: VecDeque::new(), sum: 0 }
    }

    /// A window for another window, with the same events.
    pub(crate) fn seed(&self, window_us: u64, now: u64) -> SlidingWindow {
        let mut seeded = SlidingWindow { window_us: window_us.max(1), ..self.clone() };
        seeded.forget_expired(now);
        seeded
    }

    pub(crate) fn window_us(&self) -> u64 {
        self.window_us
    }

    pub(crate) fn events(&self) -> impl ExactSizeIterator<Item = Event> + '_ {
        self.events.iter().copied()
    }

    /// The sum since the last event, or since expired ones were last dropped.
    pub(crate) fn sum(&self) -> Units {
        self.sum
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// An event counts in `[tick, tick + window)`: at its end the next one may come, and no
    /// interval of the window's length contains both.
    pub(crate) fn forget_expired(&mut self, now: u64) {
        while let Some(first) = self.events.front() {
            if first.tick.saturating_add(self.window_us) > now {
                break;
            }
            self.sum = self.sum.saturating_sub(first.amount);
            self.events.pop_front();
        }
    }

    /// Whether `amount` fits under `max`. If not, how long until it does.
    pub(crate) fn fits(&mut self, now: u64, amount: Units, max: Units) -> Result<(), RetryAfter> {
        self.forget_expired(now);
        if amount > max {
            return Err(RetryAfter::Never);
        }
        let over = |sum: Units| sum.checked_add(amount).is_none_or(|total| total > max);
        if !over(self.sum) {
            return Ok(());
        }
        let mut left = self.sum;
        for event in &self.events {
            left = left.saturating_sub(event.amount);
            if !over(left) {
                let ends = event.tick.saturating_add(self.window_us);
                return Err(RetryAfter::Us(ends.saturating_sub(now)));
            }
        }
        Err(RetryAfter::Never)
    }

    pub(crate) fn push(&mut self, tick: u64, amount: Units) {
        self.forget_expired(tick);
        if amount <= 0 {
            return;
        }
        self.sum = self.sum.saturating_add(amount);
        match self.events.back_mut() {
            Some(last) if last.tick == tick => last.amount = last.amount.saturating_add(amount),
            _ => self.events.push_back(Event { tick, amount }),
        }
        if self.events.len() > 2 * EXACT_EVENTS_MAX {
            self.merge_granules();
        }
    }

    /// Removes what was added at `tick`. It may have been merged into a granule, which is the first
    /// one that ends at `tick` or later; if it has expired, there is nothing to remove.
    pub(crate) fn give_back(&mut self, tick: u64, amount: Units, now: u64) {
        self.forget_expired(now);
        if tick.saturating_add(self.window_us) <= now {
            return;
        }
        let at = self.events.partition_point(|event| event.tick < tick);
        let Some(event) = self.events.get_mut(at).filter(|event| event.amount >= amount) else {
            return;
        };
        event.amount -= amount;
        self.sum = self.sum.saturating_sub(amount);
        if event.amount == 0 {
            self.events.remove(at);
        }
    }

    fn merge_granules(&mut self) {
        let granule_us = (self.window_us / GRANULES).max(1);
        let mut granules: VecDeque<Event> = VecDeque::with_capacity(2 * EXACT_EVENTS_MAX + 1);
        for event in self.events.drain(..) {
            match granules.back_mut() {
                Some(last) if last.tick / granule_us == event.tick / granule_us => {
                    last.tick = last.tick.max(event.tick);
                    last.amount = last.amount.saturating_add(event.amount);
                }
                _ => granules.push_back(event),
            }
        }
        self.events = granules;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::{EXACT_EVENTS_MAX, RetryAfter, SlidingWindow};
    use proptest::prelude::{Strategy, prop, prop_assert, prop_assert_eq, proptest};

    #[test]
    fn quota_and_retry_times() {
        // (window, events as (tick, amount), now, amount, max, expected)
        type Case = (u64, &'static [(u64, i128)], u64, i128, i128, Result<(), RetryAfter>);
        let table: &[Case] = &[
            (60, &[], 0, 1, 1, Ok(())),
            (60, &[], 0, 2, 1, Err(RetryAfter::Never)),
            (60, &[(0, 1)], 0, 1, 1, Err(RetryAfter::Us(60))),
            (60, &[(0, 1)], 59, 1, 1, Err(RetryAfter::Us(1))),
            (60, &[(0, 1)], 60, 1, 1, Ok(())),
            (60, &[(0, 1), (10, 1), (20, 1)], 30, 1, 3, Err(RetryAfter::Us(30))),
            (60, &[(0, 1), (10, 1), (20, 1)], 30, 2, 3, Err(RetryAfter::Us(40))),
            (60, &[(0, 5), (10, 1)], 30, 1, 6, Err(RetryAfter::Us(30))),
            (60, &[(0, 5)], 30, 0, 5, Ok(())),
            (60, &[(0, 5)], 30, 0, 4, Err(RetryAfter::Us(30))),
            (60, &[(0, i128::MAX)], 30, i128::MAX, i128::MAX, Err(RetryAfter::Us(30))),
        ];
        for (window_us, events, now, amount, max, expected) in table {
            let mut window = SlidingWindow::new(*window_us);
            for (tick, amount) in *events {
                window.push(*tick, *amount);
            }
            assert_eq!(window.fits(*now, *amount, *max), *expected, "{events:?} at {now}");
        }
    }

    #[test]
    fn a_released_event_is_taken_back_once_and_only_while_it_counts() {
        let mut window = SlidingWindow::new(100);
        window.push(10, 1);
        window.push(20, 5);
        window.give_back(20, 5, 30);
        assert_eq!(window.fits(30, 1, 2), Ok(()));
        window.give_back(20, 5, 30);
        assert_eq!(window.fits(30, 2, 2), Err(RetryAfter::Us(80)), "the other event still counts");
        window.push(115, 1);
        window.give_back(10, 1, 115);
        assert_eq!(
            window.fits(115, 2, 2),
            Err(RetryAfter::Us(100)),
            "an expired one is not taken twice"
        );
    }

    fn admissions() -> impl Strategy<Value = Vec<(u64, i128)>> {
        prop::collection::vec((0_u64..40, 1_i128..4), 0..3_000)
    }

    proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]

        /// However much is admitted, the window never counts less than the plain list of all of it,
        /// never holds more than its bound, and agrees exactly while it is small.
        #[test]
        fn a_window_never_counts_less_than_was_admitted(
            steps in admissions(), window_us in 1_u64..20_000, max in 1_i128..2_000,
        ) {
            let mut window = SlidingWindow::new(window_us);
            let mut admitted: Vec<(u64, i128)> = Vec::new();
            let mut now = 0;
            for (gap, amount) in steps {
                now += gap;
                let counted: i128 =
                    admitted.iter().filter(|(t, _)| t + window_us > now).map(|(_, a)| a).sum();
                match window.fits(now, amount, max) {
                    Ok(()) => {
                        prop_assert!(counted + amount <= max);
                        window.push(now, amount);
                        admitted.push((now, amount));
                    }
                    Err(wait) if admitted.len() <= EXACT_EVENTS_MAX => {
                        prop_assert!(counted + amount > max);
                        if let RetryAfter::Us(us) = wait {
                            let later = |at: u64| admitted.iter()
                                .filter(|(t, _)| t + window_us > at).map(|(_, a)| a).sum::<i128>();
                            prop_assert!(later(now + us) + amount <= max);
                            prop_assert!(later(now + us - 1) + amount > max);
                        }
                    }
                    Err(_) => {}
                }
                prop_assert!(window.events().len() <= 2 * EXACT_EVENTS_MAX);
                prop_assert_eq!(window.sum, window.events().map(|e| e.amount).sum::<i128>());
            }
        }
    }
}
