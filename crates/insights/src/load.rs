//! Training load: fitness and fatigue as exponential means, the uncoupled acute to chronic ratio, and
//! monotony. The load must be additive, such as kilojoules or zone minutes; day strain is not.

use schemars::JsonSchema;
use serde::Serialize;

use crate::day::Day;
use crate::finding::Finding;
use crate::sample;
use crate::series::Series;

const FITNESS_DAYS: f64 = 42.0;
const FATIGUE_DAYS: f64 = 7.0;
/// Days before the values mean something.
pub const WARM_UP_DAYS: usize = 42;
/// Days with a value that the ratio needs in the last 7 and in the 21 before.
const ACUTE_DAYS_MIN: usize = 5;
const CHRONIC_DAYS_MIN: usize = 15;
const WEEK_DAYS: usize = 7;

/// The load of one day and what it leads to.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TrainingLoad {
    pub day: Day,
    /// Days with a known load; a rest day counts with zero, an unknown day does not count.
    pub n: usize,
    /// The same number: a mean over time has no smaller one.
    pub n_eff: f64,
    /// Days without data since the first one; fitness and fatigue stand still over them.
    pub unknown_days: usize,
    /// Exponential mean with 42 days.
    pub ctl: f64,
    /// Exponential mean with 7 days.
    pub atl: f64,
    /// CTL minus ATL of the same day.
    pub tsb: f64,
    /// The mean of the last 7 days divided by the mean of the 21 days before them.
    pub acwr_uncoupled: Option<f64>,
    pub week_load: Option<f64>,
    /// The mean of the last 7 days divided by their sample standard deviation.
    pub monotony: Option<f64>,
    /// Weekly load times monotony.
    pub week_strain: Option<f64>,
}

/// The state after `until`. Rest days must be in the series with zero.
pub fn training_load(load: &Series, until: Day) -> Finding<TrainingLoad> {
    let until = load.last_day().map_or(until, |last| last.min(until));
    let known = load.between(Day::from_number(i32::MIN / 2), until);
    let (n, Some(first)) = (known.n(), known.first_day()) else {
        return Finding::not_enough("days", 0, WARM_UP_DAYS);
    };
    if n < WARM_UP_DAYS {
        return Finding::not_enough("days", n, WARM_UP_DAYS);
    }
    let (ctl, atl) = exponential_means(&known);
    let span = usize::try_from(until.since(first)).unwrap_or(0) + 1;
    let week = known.last_days(until, 7).values();
    let whole_week = week.len() == WEEK_DAYS;
    let week_load = whole_week.then(|| week.iter().sum::<f64>());
    let monotony = monotony(&week).filter(|_| whole_week);
    Finding::Found(TrainingLoad {
        day: until,
        n,
        n_eff: sample::real(n),
        unknown_days: span.saturating_sub(n),
        ctl,
        atl,
        tsb: ctl - atl,
        acwr_uncoupled: ratio(&known, until),
        week_load,
        monotony,
        week_strain: week_load.zip(monotony).map(|(load, monotony)| load * monotony),
    })
}

/// CTL and ATL by day, for a chart.
pub fn fitness_by_day(load: &Series) -> Vec<(Day, f64, f64)> {
    let (keep_slow, keep_fast) = ((-1.0 / FITNESS_DAYS).exp(), (-1.0 / FATIGUE_DAYS).exp());
    let (mut ctl, mut atl) = (0.0, 0.0);
    let step = |(day, load): (Day, f64)| {
        ctl = ctl * keep_slow + load * (1.0 - keep_slow);
        atl = atl * keep_fast + load * (1.0 - keep_fast);
        (day, ctl, atl)
    };
    load.points().map(step).collect()
}

fn exponential_means(load: &Series) -> (f64, f64) {
    fitness_by_day(load).last().map_or((0.0, 0.0), |(_, ctl, atl)| (*ctl, *atl))
}

fn ratio(load: &Series, until: Day) -> Option<f64> {
    let acute = load.last_days(until, 7).values();
    let chronic = load.between(until.plus(-27), until.plus(-7)).values();
    let enough = acute.len() >= ACUTE_DAYS_MIN && chronic.len() >= CHRONIC_DAYS_MIN;
    let chronic = sample::mean(&chronic).filter(|mean| *mean > 0.0)?;
    sample::mean(&acute).filter(|_| enough).map(|acute| acute / chronic)
}

/// Not defined where every day has the same load.
fn monotony(week: &[f64]) -> Option<f64> {
    let deviation = sample::deviation(week).filter(|deviation| *deviation > 1e-9)?;
    sample::mean(week).map(|mean| mean / deviation)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
    use super::*;

    fn days(values: impl IntoIterator<Item = f64>) -> Series {
        Series::from_points((0..).map(Day::from_number).zip(values))
    }

    #[test]
    fn a_steady_load_is_its_own_mean_and_has_no_monotony() {
        let load = days(std::iter::repeat_n(100.0, 400));
        let found = training_load(&load, Day::from_number(399)).into_found().unwrap();
        assert!((found.ctl - 100.0).abs() < 0.1 && (found.atl - 100.0).abs() < 1e-6);
        assert_eq!((found.acwr_uncoupled, found.monotony), (Some(1.0), None));
    }

    #[test]
    fn the_recursion_is_the_weighted_sum_of_all_days() {
        let load: Vec<f64> = (0..60).map(|n| f64::from((n * 37) % 11)).collect();
        let found = training_load(&days(load.clone()), Day::from_number(59)).into_found().unwrap();
        let keep = (-1.0_f64 / 42.0).exp();
        let slow: f64 = load
            .iter()
            .rev()
            .enumerate()
            .map(|(age, own)| own * (1.0 - keep) * keep.powi(i32::try_from(age).unwrap()))
            .sum();
        assert!((found.ctl - slow).abs() < 1e-9);
    }

    #[test]
    fn an_unknown_day_is_not_a_rest_day() {
        let gap = Series::from_points(
            (0..80).filter(|n| n % 4 != 0).map(|n| (Day::from_number(n), 50.0)),
        );
        let found = training_load(&gap, Day::from_number(79)).into_found().unwrap();
        assert_eq!((found.unknown_days, found.week_load), (19, None));
        assert!(found.atl > 49.0);
    }

    #[test]
    fn forty_two_days_are_needed() {
        let short = training_load(&days([10.0; 40]), Day::from_number(39));
        let Finding::NotEnoughData(shortfall) = short else { unreachable!("40 days are too few") };
        assert_eq!(shortfall.missing, 2);
    }
}
