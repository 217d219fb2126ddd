//! One sliding window: what was admitted within its length, exactly while there is little of it and
//! in small granules when there is much, never counting less than was admitted.

use std::collections::VecDeque;

/// A series is exact up to this many events; beyond twice that they are put together by granule.
pub(crate) const EXACT_EVENTS_MAX: usize = 256;

/// A granule is this part of the window; what is put together expires with its last member.
const GRANULES: u64 = 256;

/// Millionths of millionths of millionths: amounts are exact decimals with 18 places.
pub(crate) type Units = i128;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) tick: u64,
    pub(crate) amount: Units,
}

/// Why there is no room: for how long, or for good because the amount alone is over the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wait {
    Us(u64),
    Never,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Series {
    window_us: u64,
    events: VecDeque<Event>,
    sum: Units,
}

impl Series {
    pub(crate) fn new(window_us: u64) -> Series {
        Series { window_us: window_us.max(1), events: VecDeque::new(), sum: 0 }
    }

    /// A series for another window that knows what this one knows.
    pub(crate) fn seed(&self, window_us: u64, now: u64) -> Series {
        let mut seeded = Series { window_us: window_us.max(1), ..self.clone() };
        seeded.forget_expired(now);
        seeded
    }

    pub(crate) fn window_us(&self) -> u64 {
        self.window_us
    }

    pub(crate) fn events(&self) -> impl ExactSizeIterator<Item = Event> + '_ {
        self.events.iter().copied()
    }

    /// What counts since the last event, or since expired ones were last let go.
    pub(crate) fn sum(&self) -> Units {
        self.sum
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// An event counts in `[tick, tick + window)`: at the end of it the next one may come, and no
    /// interval of the window's length holds both.
    pub(crate) fn forget_expired(&mut self, now: u64) {
        while let Some(first) = self.events.front() {
            if first.tick.saturating_add(self.window_us) > now {
                break;
            }
            self.sum = self.sum.saturating_sub(first.amount);
            self.events.pop_front();
        }
    }

    /// Is there room for `amount` under `max`? If not, how long until there is.
    pub(crate) fn room(&mut self, now: u64, amount: Units, max: Units) -> Result<(), Wait> {
        self.forget_expired(now);
        if amount > max {
            return Err(Wait::Never);
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
                return Err(Wait::Us(ends.saturating_sub(now)));
            }
        }
        Err(Wait::Never)
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
            self.put_together();
        }
    }

    /// Takes back what was added at `tick`. It may lie in a granule by now, which is the first one
    /// that ends at `tick` or later; if it has expired, there is nothing to take back.
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

    fn put_together(&mut self) {
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
    #![allow(clippy::unwrap_used, reason = "a failed test says enough")]
    use super::{EXACT_EVENTS_MAX, Series, Wait};
    use proptest::prelude::{Strategy, prop, prop_assert, prop_assert_eq, proptest};

    #[test]
    fn room_and_waiting_times() {
        // (window, events as (tick, amount), now, amount, max, expected)
        type Case = (u64, &'static [(u64, i128)], u64, i128, i128, Result<(), Wait>);
        let table: &[Case] = &[
            (60, &[], 0, 1, 1, Ok(())),
            (60, &[], 0, 2, 1, Err(Wait::Never)),
            (60, &[(0, 1)], 0, 1, 1, Err(Wait::Us(60))),
            (60, &[(0, 1)], 59, 1, 1, Err(Wait::Us(1))),
            (60, &[(0, 1)], 60, 1, 1, Ok(())),
            (60, &[(0, 1), (10, 1), (20, 1)], 30, 1, 3, Err(Wait::Us(30))),
            (60, &[(0, 1), (10, 1), (20, 1)], 30, 2, 3, Err(Wait::Us(40))),
            (60, &[(0, 5), (10, 1)], 30, 1, 6, Err(Wait::Us(30))),
            (60, &[(0, 5)], 30, 0, 5, Ok(())),
            (60, &[(0, 5)], 30, 0, 4, Err(Wait::Us(30))),
            (60, &[(0, i128::MAX)], 30, i128::MAX, i128::MAX, Err(Wait::Us(30))),
        ];
        for (window, events, now, amount, max, expected) in table {
            let mut series = Series::new(*window);
            for (tick, amount) in *events {
                series.push(*tick, *amount);
            }
            assert_eq!(series.room(*now, *amount, *max), *expected, "{events:?} at {now}");
        }
    }

    #[test]
    fn a_released_event_is_taken_back_once_and_only_while_it_counts() {
        let mut series = Series::new(100);
        series.push(10, 1);
        series.push(20, 5);
        series.give_back(20, 5, 30);
        assert_eq!(series.room(30, 1, 2), Ok(()));
        series.give_back(20, 5, 30);
        assert_eq!(series.room(30, 2, 2), Err(Wait::Us(80)), "the other event still counts");
        series.push(115, 1);
        series.give_back(10, 1, 115);
        assert_eq!(series.room(115, 2, 2), Err(Wait::Us(100)), "an expired one is not taken twice");
    }

    fn admissions() -> impl Strategy<Value = Vec<(u64, i128)>> {
        prop::collection::vec((0_u64..40, 1_i128..4), 0..3_000)
    }

    proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]

        /// However much is admitted, the series never counts less than the plain list of all of it,
        /// never holds more than its bound, and agrees exactly while it is small.
        #[test]
        fn a_series_never_counts_less_than_was_admitted(
            steps in admissions(), window in 1_u64..20_000, max in 1_i128..2_000,
        ) {
            let mut series = Series::new(window);
            let mut admitted: Vec<(u64, i128)> = Vec::new();
            let mut now = 0;
            for (gap, amount) in steps {
                now += gap;
                let counted: i128 =
                    admitted.iter().filter(|(t, _)| t + window > now).map(|(_, a)| a).sum();
                match series.room(now, amount, max) {
                    Ok(()) => {
                        prop_assert!(counted + amount <= max);
                        series.push(now, amount);
                        admitted.push((now, amount));
                    }
                    Err(wait) if admitted.len() <= EXACT_EVENTS_MAX => {
                        prop_assert!(counted + amount > max);
                        if let Wait::Us(us) = wait {
                            let later = |at: u64| admitted.iter()
                                .filter(|(t, _)| t + window > at).map(|(_, a)| a).sum::<i128>();
                            prop_assert!(later(now + us) + amount <= max);
                            prop_assert!(later(now + us - 1) + amount > max);
                        }
                    }
                    Err(_) => {}
                }
                prop_assert!(series.events().len() <= 2 * EXACT_EVENTS_MAX);
                prop_assert_eq!(series.sum, series.events().map(|e| e.amount).sum::<i128>());
            }
        }
    }
}
