//! Two quotas of calls that reset at midnight in California.

use crate::timestamp::{DAY_MS, HOUR_MS, date_of, day_of, weekday};

/// The used quota of one day.
#[derive(Clone, Copy, Debug, Default)]
pub struct Used {
    day: i64,
    search: u64,
    reads: u64,
}

impl Used {
    /// Uses one unit of a quota; false when it is exhausted.
    pub(super) fn take(&mut self, search: bool, most: u64, now_us: i64) -> bool {
        let today = pacific_day(now_us.div_euclid(1_000));
        if today != self.day {
            *self = Used { day: today, search: 0, reads: 0 };
        }
        let used = if search { &mut self.search } else { &mut self.reads };
        let left = *used < most;
        *used += u64::from(left);
        left
    }
}

/// The current day in California.
fn pacific_day(ms: i64) -> i64 {
    let (year, ..) = date_of(ms.div_euclid(DAY_MS));
    let summer = second_sunday_of_march(year) * DAY_MS + 10 * HOUR_MS
        ..first_sunday_of_november(year) * DAY_MS + 9 * HOUR_MS;
    let behind_h = if summer.contains(&ms) { 7 } else { 8 };
    (ms - behind_h * HOUR_MS).div_euclid(DAY_MS)
}

fn second_sunday_of_march(year: i64) -> i64 {
    let first = day_of(year, 3, 1);
    first + (6 - weekday(first)) + 7
}

fn first_sunday_of_november(year: i64) -> i64 {
    let first = day_of(year, 11, 1);
    first + (6 - weekday(first))
}

#[cfg(test)]
mod tests {
    use super::{Used, pacific_day};
    use crate::timestamp::{DAY_MS, day_of, read};

    #[test]
    fn a_day_begins_at_midnight_in_california_in_summer_and_in_winter() {
        for (at, year, month, day) in [
            ("2026-11-16T07:59:59Z", 2026, 11, 15),
            ("2026-11-16T08:00:00Z", 2026, 11, 16),
            ("2026-07-01T06:59:59Z", 2026, 6, 30),
            ("2026-07-01T07:00:00Z", 2026, 7, 1),
            ("2026-03-09T07:00:00Z", 2026, 3, 9),
            ("2026-03-08T07:30:00Z", 2026, 3, 7),
            ("2026-11-02T07:30:00Z", 2026, 11, 1),
        ] {
            let ms = read(at).unwrap_or_default();
            assert_eq!(pacific_day(ms), day_of(year, month, day), "{at}");
        }
    }

    #[test]
    fn each_quota_is_separate_and_resets_the_next_day() {
        let mut used = Used::default();
        let now_us = 20_000 * DAY_MS * 1_000;
        let taken =
            [used.take(true, 1, now_us), used.take(true, 1, now_us), used.take(false, 1, now_us)];
        assert_eq!(taken, [true, false, true]);
        assert!(used.take(true, 1, now_us + DAY_MS * 1_000));
    }
}
