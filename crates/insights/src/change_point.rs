//! Days on which the level of a metric changed: PELT with a squared-error cost.

use schemars::JsonSchema;
use serde::Serialize;

use crate::day::Day;
use crate::finding::{Finding, Interval};
use crate::sample::{self, p_of_t, real};
use crate::series::Series;

/// Nights that a segment has at least.
pub const SEGMENT_NIGHTS_MIN: usize = 14;
/// The penalty is this times the long-run variance times ln n.
const PENALTY: f64 = 3.0;
/// The quantile for 99 % of the distance between the estimated and the true day, in units of the long-run
/// variance over the squared difference.
const DAY_QUANTILE: f64 = 19.77;
/// The variance of a normal distribution without its outliers, beyond 2.5 deviations.
const ORDINARY_VARIANCE: f64 = 0.911;

/// The change points of a series, with the penalty that was used.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Changes {
    pub n: usize,
    pub n_eff: f64,
    /// The cost that a further segment must save: 3 · long-run variance · ln n.
    pub penalty: f64,
    pub changes: Vec<Change>,
}

/// A change of the level.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Change {
    /// The first day of the new level.
    pub day: Day,
    /// The days between which the change happened, at 99 %.
    pub earliest: Day,
    pub latest: Day,
    pub before: f64,
    pub after: f64,
    pub difference: f64,
    pub interval: Interval,
    pub n_before: usize,
    pub n_after: usize,
    /// Corrected for the number of segments that could have been found.
    pub p: f64,
}

/// Finds the change points. Weekday means are removed first.
pub fn changes(series: &Series) -> Finding<Changes> {
    let whole = series.without_weekday_means();
    let flat = whole.without_outliers();
    let points: Vec<(Day, f64)> = flat.points().collect();
    let values: Vec<f64> = points.iter().map(|(_, value)| *value).collect();
    let n = values.len();
    if n < 2 * SEGMENT_NIGHTS_MIN {
        return Finding::not_enough("nights", n, 2 * SEGMENT_NIGHTS_MIN);
    }
    let noise = LevelNoise::of(&flat);
    let penalty = PENALTY * noise.long_run * real(n).ln();
    let ends = pelt(&values, penalty, SEGMENT_NIGHTS_MIN);
    let n_eff = (real(n) * noise.variance / noise.long_run.max(1e-12)).min(real(n));
    let evidence = Evidence { long_run: noise.long_run, freedom: (n_eff - 2.0).max(1.0) };
    let days: Vec<Day> =
        ends.iter().filter_map(|end| points.get(*end)).map(|(day, _)| *day).collect();
    Finding::Found(Changes { n, n_eff, penalty, changes: evidence.describe(&whole, &days) })
}

/// The noise around the levels, measured on differences so that changes of level do not count.
struct LevelNoise {
    variance: f64,
    /// The variance that a mean of many days has, times their number.
    long_run: f64,
}

impl LevelNoise {
    fn of(series: &Series) -> LevelNoise {
        let half = |lag: i32| {
            let squares: Vec<f64> = series
                .pairs(series, lag)
                .iter()
                .map(|pair| (pair.y - pair.x).powi(2) / 2.0)
                .collect();
            sample::mean(&squares).unwrap_or(0.0)
        };
        let (one, two, three) = (half(1), half(2), half(3));
        // For memory ρ of one day these are σ²(1 − ρ), σ²(1 − ρ²) and σ²(1 − ρ³).
        let ratio = |later: f64| if one > 0.0 { later / one } else { 1.0 };
        let from_two = ratio(two) - 1.0;
        let from_three = (ratio(three) - 0.75).max(0.0).sqrt() - 0.5;
        let n = sample::real(series.n());
        // Both estimates are noisy and too low for a short series; the larger is the careful one.
        let memory = from_two.max(from_three) + 2.0 / n.max(1.0);
        let memory = memory.clamp(0.0, 0.9);
        let variance = one / (1.0 - memory) / ORDINARY_VARIANCE;
        LevelNoise { variance, long_run: variance * (1.0 + memory) / (1.0 - memory) }
    }
}

/// The ends of all segments, the last included, by the exact search of Killick and others (2012).
pub fn pelt(values: &[f64], penalty: f64, segment_min: usize) -> Vec<usize> {
    let n = values.len();
    let cost = SquaredError::of(values);
    // best[end] is the cost of the first `end` values and the end of the segment before.
    let mut best: Vec<(f64, usize)> = vec![(f64::INFINITY, 0); n + 1];
    if let Some(first) = best.first_mut() {
        *first = (-penalty, 0);
    }
    // Starts that can still win, with the end from which each cannot.
    let mut starts: Vec<(usize, usize)> = vec![(0, usize::MAX)];
    for end in segment_min..=n {
        let newest = end - segment_min;
        if newest >= segment_min {
            starts.push((newest, usize::MAX));
        }
        starts.retain(|(_, lost_from)| *lost_from > end);
        let total = |start: usize| {
            let before = best.get(start).map_or(f64::INFINITY, |(before, _)| *before);
            before + cost.between(start, end)
        };
        let totals: Vec<f64> = starts.iter().map(|(start, _)| total(*start)).collect();
        let candidates = starts.iter().zip(&totals).map(|((start, _), total)| (*total, *start));
        let lowest = candidates.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((f64::INFINITY, 0));
        if let Some(slot) = best.get_mut(end) {
            *slot = (lowest.0 + penalty, lowest.1);
        }
        // A start that is no better than a new segment here loses as soon as that segment is long enough.
        for ((_, lost_from), total) in starts.iter_mut().zip(&totals) {
            if *total > lowest.0 + penalty {
                *lost_from = (*lost_from).min(end + segment_min);
            }
        }
    }
    let mut ends = Vec::new();
    let mut end = n;
    while end > 0 {
        ends.push(end);
        end = best.get(end).map_or(0, |(_, start)| *start);
    }
    ends.reverse();
    ends
}

/// The squared error around the mean of any segment, from running sums.
struct SquaredError {
    /// Sums of values and of squares up to each position. Values are centred first, for precision.
    sums: Vec<(f64, f64)>,
}

impl SquaredError {
    fn of(values: &[f64]) -> SquaredError {
        let centre = sample::mean(values).unwrap_or(0.0);
        let mut sums = vec![(0.0, 0.0)];
        let (mut sum, mut squares) = (0.0, 0.0);
        for value in values {
            sum += value - centre;
            squares += (value - centre).powi(2);
            sums.push((sum, squares));
        }
        SquaredError { sums }
    }

    fn between(&self, start: usize, end: usize) -> f64 {
        match (self.sums.get(start), self.sums.get(end)) {
            (Some(from), Some(to)) if end > start => {
                let sum = to.0 - from.0;
                (to.1 - from.1 - sum * sum / real(end - start)).max(0.0)
            }
            _ => f64::INFINITY,
        }
    }
}

/// What the size of a change is judged by.
struct Evidence {
    long_run: f64,
    freedom: f64,
}

impl Evidence {
    /// The changes on these days. Levels are means of all nights, outliers included: those near a change
    /// are outliers only on one side.
    fn describe(&self, series: &Series, days: &[Day]) -> Vec<Change> {
        let (Some(first), Some(last)) = (series.first_day(), series.last_day()) else {
            return Vec::new();
        };
        let starts: Vec<Day> = std::iter::once(first).chain(days.iter().copied()).collect();
        let ends = days.iter().map(|day| day.plus(-1)).chain([last]);
        let segments: Vec<Series> =
            starts.iter().zip(ends).map(|(start, end)| series.between(*start, end)).collect();
        // A level may begin on any day and end on any later one.
        let n = series.n();
        let positions = real(n.saturating_sub(2 * SEGMENT_NIGHTS_MIN) + 1);
        let positions = positions * real(n) / real(SEGMENT_NIGHTS_MIN);
        let pairs = segments.iter().zip(segments.iter().skip(1)).zip(days);
        pairs
            .filter_map(|((before, after), day)| self.change(*day, before, after, positions))
            .collect()
    }

    /// How far the day may be off: the argument of the maximum of a random walk with drift (Bai 1997).
    fn days_around(&self, difference: f64) -> i32 {
        let reach = DAY_QUANTILE * self.long_run / (difference * difference).max(1e-12);
        let most = i32::try_from(SEGMENT_NIGHTS_MIN).unwrap_or(0);
        (1..most).find(|days| f64::from(*days) >= reach).unwrap_or(most)
    }

    fn change(&self, day: Day, before: &Series, after: &Series, positions: f64) -> Option<Change> {
        let (mean_before, mean_after) =
            (sample::mean(&before.values())?, sample::mean(&after.values())?);
        let difference = mean_after - mean_before;
        let parts = 1.0 / real(before.n()) + 1.0 / real(after.n());
        let error = (self.long_run * parts).sqrt();
        let p = p_of_t(difference / error.max(1e-12), self.freedom);
        let reach = self.days_around(difference);
        Some(Change {
            day,
            earliest: day.plus(-reach),
            latest: day.plus(reach),
            before: mean_before,
            after: mean_after,
            difference,
            interval: Interval::of_t(difference, error, self.freedom),
            n_before: before.n(),
            n_after: after.n(),
            p: (p * positions).min(1.0),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
    use super::*;
    use proptest::prelude::*;

    /// Optimal partitioning without pruning.
    fn slow(values: &[f64], penalty: f64, segment_min: usize) -> f64 {
        let n = values.len();
        let mut best = vec![f64::INFINITY; n + 1];
        best[0] = -penalty;
        for end in segment_min..=n {
            for start in 0..=end - segment_min {
                let segment = &values[start..end];
                let mean = sample::mean(segment).unwrap();
                let cost: f64 = segment.iter().map(|value| (value - mean).powi(2)).sum();
                best[end] = best[end].min(best[start] + cost + penalty);
            }
        }
        best[n]
    }

    fn total(values: &[f64], ends: &[usize], penalty: f64) -> f64 {
        let mut start = 0;
        let mut sum = -penalty;
        for end in ends {
            sum += SquaredError::of(values).between(start, *end) + penalty;
            start = *end;
        }
        sum
    }

    proptest! {
        #[test]
        fn pruning_loses_nothing(
            values in prop::collection::vec(-10.0..10.0_f64, 8..60), penalty in 1.0..200.0_f64
        ) {
            let ends = pelt(&values, penalty, 4);
            prop_assert!((total(&values, &ends, penalty) - slow(&values, penalty, 4)).abs() < 1e-6);
            let lengths = std::iter::once(&0).chain(&ends).zip(&ends).map(|(a, b)| b - a);
            prop_assert!(lengths.into_iter().all(|length| length >= 4));
        }
    }

    #[test]
    fn a_step_is_found_on_its_day_and_noise_has_none() {
        let noise = |n: i32| f64::from((n * 7919 + n * n * 31).rem_euclid(101)) / 100.0;
        let step = |n: i32| noise(n) + if n >= 60 { 3.0 } else { 0.0 };
        let days = |value: &dyn Fn(i32) -> f64| {
            Series::from_points((0..120).map(|n| (Day::from_number(n), value(n))))
        };
        let found = changes(&days(&step)).into_found().unwrap();
        assert_eq!(found.changes.len(), 1, "{found:?}");
        assert_eq!(found.changes[0].day, Day::from_number(60));
        assert!(found.changes[0].interval.contains(3.0));
        assert_eq!(changes(&days(&noise)).into_found().unwrap().changes, []);
    }
}
