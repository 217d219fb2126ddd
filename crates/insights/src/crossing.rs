//! Whether a metric has left its usual range for some days in a row.

use crate::baseline::{Baseline, Position, baseline};
use crate::day::Day;
use crate::finding::Finding;
use crate::series::Series;

/// The window of the baseline, which ends before the run.
const BASELINE_DAYS: i32 = 30;
/// A newest value that is older says nothing about now.
const AGE_DAYS_MAX: i32 = 1;

/// The newest days of a metric against the days before them.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    pub days: Vec<(Day, f64)>,
    pub baseline: Baseline,
    /// Where all days of the run are; none where they differ.
    pub position: Option<Position>,
    /// Where the newest day is.
    pub newest: Position,
}

/// The last `length` days, which all need a value, against the 30 days before them.
pub fn newest_run(series: &Series, today: Day, length: i32) -> Finding<Run> {
    let last = series.between(today.plus(-AGE_DAYS_MAX), today).last_day();
    let Some(last) = last else { return Finding::not_enough("days up to now", 0, 1) };
    let days: Vec<(Day, f64)> = series.last_days(last, length).points().collect();
    let need = usize::try_from(length).unwrap_or(0).max(1);
    let (true, Some((first, _)), Some((_, newest))) =
        (days.len() >= need, days.first().copied(), days.last().copied())
    else {
        return Finding::not_enough("days in a row", days.len(), need);
    };
    baseline(series, first.plus(-1), BASELINE_DAYS).map(|baseline| {
        let newest = Position::of(newest, baseline.usual);
        let all = days.iter().all(|(_, value)| Position::of(*value, baseline.usual) == newest);
        Run { days, baseline, position: all.then_some(newest), newest }
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn series(values: impl IntoIterator<Item = f64>) -> Series {
        Series::from_points((0..).map(Day::from_number).zip(values))
    }

    #[test]
    fn a_run_is_compared_with_the_days_before_it() {
        let usual = (0..40).map(|n| 60.0 + f64::from(n % 5));
        let low = series(usual.clone().chain([40.0, 41.0, 39.0]));
        let run = newest_run(&low, Day::from_number(42), 3).into_found().unwrap();
        assert_eq!((run.position, run.days.len()), (Some(Position::Below), 3));
        assert!(run.baseline.n == 30 && run.baseline.median > 60.0, "{run:?}");
        let mixed = series(usual.clone().chain([40.0, 62.0, 39.0]));
        let run = newest_run(&mixed, Day::from_number(42), 3).into_found().unwrap();
        assert_eq!((run.position, run.newest), (None, Position::Below));
        let back = series(usual.chain([40.0, 41.0, 62.0]));
        let run = newest_run(&back, Day::from_number(43), 3).into_found().unwrap();
        assert_eq!((run.position, run.newest), (None, Position::Within));
    }

    #[test]
    fn a_gap_or_old_data_is_not_a_run() {
        let values = series((0..40).map(f64::from));
        assert!(newest_run(&values, Day::from_number(45), 3).found().is_none(), "too old");
        let days = (0..40).chain(41..43).map(|n| (Day::from_number(n), f64::from(n)));
        let gap = Series::from_points(days);
        assert!(newest_run(&gap, Day::from_number(42), 3).found().is_none(), "a gap");
    }
}
