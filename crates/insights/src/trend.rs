//! The trend of a metric: Theil–Sen's slope, and Mann–Kendall's test with the variance correction of
//! Hamed and Rao for series with memory.

use schemars::JsonSchema;
use serde::Serialize;

use crate::day::Day;
use crate::finding::{Finding, Interval, LEVEL};
use crate::sample::{self, p_of_t, p_of_z, real, z_reach};
use crate::series::Series;

/// Nights that a trend needs.
pub const NIGHTS_MIN: usize = 21;
/// Lags of the correction that are tested for memory.
const LAGS_MAX: usize = 10;
/// A series longer than this is reduced to means of whole weeks first, so that the number of pairs
/// stays bounded.
const POINTS_MAX: usize = 800;

/// A trend over a window of days.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Trend {
    pub from: Day,
    pub to: Day,
    pub n: usize,
    pub n_eff: f64,
    /// Theil–Sen's slope, per day.
    pub per_day: f64,
    /// The slope times 30.
    pub per_30_days: f64,
    pub per_30_days_interval: Interval,
    /// Kendall's tau, from −1 to 1.
    pub tau: f64,
    pub p: f64,
    /// Weekly means were used, because the window is long.
    pub by_week: bool,
}

/// The trend of all values of a series. Weekday means are removed first.
pub fn trend(series: &Series) -> Finding<Trend> {
    let flat = series.without_weekday_means().without_outliers();
    let n = flat.n();
    let (Some(from), Some(to)) = (flat.first_day(), flat.last_day()) else {
        return Finding::not_enough("nights", 0, NIGHTS_MIN);
    };
    if n < NIGHTS_MIN {
        return Finding::not_enough("nights", n, NIGHTS_MIN);
    }
    let by_week = n > POINTS_MAX;
    let points = if by_week { weekly(&flat) } else { xy(&flat) };
    if points.len() < NIGHTS_MIN {
        return Finding::not_enough("weeks with four nights", points.len(), NIGHTS_MIN);
    }
    let slopes = Slopes::of(&points);
    let test = mann_kendall(&points, LAGS_MAX).inflated(memory_inflation(&points, slopes.median()));
    let per_30 = slopes.interval(test.variance).map(|slope| slope * 30.0);
    let share = real(n) / real(points.len().max(1));
    let n_eff = (real(points.len()) / test.inflation * share).min(real(n));
    Finding::Found(Trend {
        from,
        to,
        n,
        n_eff,
        per_day: slopes.median(),
        per_30_days: slopes.median() * 30.0,
        per_30_days_interval: per_30,
        tau: test.tau,
        // The memory is estimated, so the tails are those of few values.
        p: p_of_t(test.z, (n_eff - 2.0).max(1.0)),
        by_week,
    })
}

fn xy(series: &Series) -> Vec<(f64, f64)> {
    series.points().map(|(day, value)| (f64::from(day.number()), value)).collect()
}

/// Means of the weeks that have at least four values, at the middle of the week.
fn weekly(series: &Series) -> Vec<(f64, f64)> {
    let points: Vec<(Day, f64)> = series.points().collect();
    let week = |day: Day| (day.number() + 3).div_euclid(7);
    let weeks = points.chunk_by(|a, b| week(a.0) == week(b.0)).filter(|days| days.len() >= 4);
    let middle = |days: &[(Day, f64)]| {
        let values: Vec<f64> = days.iter().map(|(_, value)| *value).collect();
        let first = days.first()?.0;
        Some((f64::from(week(first) * 7), sample::mean(&values)?))
    };
    weeks.filter_map(middle).collect()
}

/// The slopes between all pairs of points, sorted.
struct Slopes(Vec<f64>);

impl Slopes {
    fn of(points: &[(f64, f64)]) -> Slopes {
        let mut slopes = Vec::with_capacity(points.len() * points.len() / 2);
        for (at, (x, y)) in points.iter().enumerate() {
            let later = points.iter().skip(at + 1);
            slopes.extend(later.map(|(later_x, later_y)| (later_y - y) / (later_x - x)));
        }
        slopes.sort_unstable_by(f64::total_cmp);
        Slopes(slopes)
    }

    fn median(&self) -> f64 {
        let middle = self.0.len() / 2;
        let at = |at: usize| self.0.get(at).copied().unwrap_or(0.0);
        if self.0.len() % 2 == 1 {
            at(middle)
        } else {
            f64::midpoint(at(middle.wrapping_sub(1)), at(middle))
        }
    }

    /// Sen's interval: the slopes that are as many ranks from the middle as the test's variance says.
    fn interval(&self, variance: f64) -> Interval {
        let count = real(self.0.len());
        let reach = z_reach(LEVEL) * variance.max(0.0).sqrt();
        let at = |rank: f64| self.at_rank(rank);
        Interval { low: at((count - reach) / 2.0 - 1.0), high: at(f64::midpoint(count, reach)) }
    }

    /// The slope at a rank from 0, rounded, within the list.
    fn at_rank(&self, rank: f64) -> f64 {
        let wanted = (0..self.0.len()).map(real);
        let at = wanted.take_while(|index| *index < rank.round()).count();
        self.0.get(at.min(self.0.len().saturating_sub(1))).copied().unwrap_or(0.0)
    }
}

/// Mann–Kendall's test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MannKendall {
    pub s: f64,
    /// The variance of S, corrected for memory.
    pub variance: f64,
    /// The correction: n divided by the effective n. At least 1.
    pub inflation: f64,
    pub tau: f64,
    pub z: f64,
    pub p: f64,
}

impl MannKendall {
    /// The same test with at least this inflation: few nights show too little of their memory to the
    /// correction by ranks.
    fn inflated(self, least: f64) -> MannKendall {
        if least <= self.inflation {
            return self;
        }
        let z = self.z * (self.inflation / least).sqrt();
        let variance = self.variance / self.inflation * least;
        MannKendall { variance, inflation: least, z, p: p_of_z(z), ..self }
    }
}

/// (1 + ρ)/(1 − ρ) for the memory ρ of the points around their trend.
fn memory_inflation(points: &[(f64, f64)], slope: f64) -> f64 {
    let n = real(points.len());
    let flat: Vec<f64> = points.iter().map(|(x, y)| y - x * slope).collect();
    // The trend takes memory away, too: the bias is that of a series with one more parameter.
    let memory = (n * biased_autocorrelation(&flat, 1) + 2.0) / (n - 5.0).max(1.0);
    let memory = memory.clamp(0.0, 0.95);
    (1.0 + memory) / (1.0 - memory)
}

/// Tests for a monotonic trend. Autocorrelations of the ranks up to `lags` that are significant at 5 %
/// inflate the variance; those that would shrink it below that of independent values do not.
pub fn mann_kendall(points: &[(f64, f64)], lags: usize) -> MannKendall {
    let values: Vec<f64> = points.iter().map(|(_, y)| *y).collect();
    let n = real(values.len());
    let s = score(&values);
    let inflation = inflation(points, lags).max(1.0);
    let variance = plain_variance(&values) * inflation;
    let z = if variance > 0.0 {
        (s - s.signum() * f64::from(s.abs() > 0.0)) / variance.sqrt()
    } else {
        0.0
    };
    MannKendall { s, variance, inflation, tau: s / (0.5 * n * (n - 1.0)), z, p: p_of_z(z) }
}

fn score(values: &[f64]) -> f64 {
    let mut s = 0_i64;
    for (at, value) in values.iter().enumerate() {
        for later in values.iter().skip(at + 1) {
            s += i64::from(later > value) - i64::from(later < value);
        }
    }
    f64::from(i32::try_from(s).unwrap_or(i32::MAX))
}

/// The variance of S for independent values, with ties.
fn plain_variance(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let term = |n: f64| n * (n - 1.0) * (2.0 * n + 5.0);
    let tied = sorted.chunk_by(|a, b| a.total_cmp(b).is_eq());
    let ties: f64 = tied.map(|tied| term(real(tied.len()))).sum();
    (term(real(values.len())) - ties) / 18.0
}

/// Hamed and Rao's n/n*: from the autocorrelation of the ranks of the series without its trend.
fn inflation(points: &[(f64, f64)], lags: usize) -> f64 {
    let n = real(points.len());
    let slope = Slopes::of(points).median();
    let flat: Vec<f64> = points.iter().map(|(x, y)| y - x * slope).collect();
    let ranks = sample::ranks(&flat);
    let bound = z_reach(LEVEL) / n.sqrt();
    let mut sum = 0.0;
    for lag in 1..=lags.min(points.len().saturating_sub(1)) {
        let correlation = biased_autocorrelation(&ranks, lag);
        if correlation.abs() > bound {
            let away = n - real(lag);
            sum += away * (away - 1.0) * (away - 2.0) * correlation;
        }
    }
    1.0 + 2.0 / (n * (n - 1.0) * (n - 2.0)) * sum
}

/// The usual estimate, with n below both sums.
fn biased_autocorrelation(values: &[f64], lag: usize) -> f64 {
    let mean = sample::mean(values).unwrap_or(0.0);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let later = values.iter().skip(lag);
    let products: f64 = values.iter().zip(later).map(|(a, b)| (a - mean) * (b - mean)).sum();
    if squares > 0.0 { products / squares } else { 0.0 }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
    use super::*;
    use proptest::prelude::*;

    fn series(values: &[f64]) -> Series {
        Series::from_points((0..).map(Day::from_number).zip(values.iter().copied()))
    }

    proptest! {
        #[test]
        fn a_straight_line_has_its_slope(slope in -5.0..5.0_f64, start in -50.0..50.0_f64) {
            let values: Vec<f64> = (0..60).map(|n| start + slope * f64::from(n)).collect();
            let found = Slopes::of(&xy(&series(&values))).median();
            prop_assert!((found - slope).abs() < 1e-9);
        }

        #[test]
        fn the_score_counts_concordant_pairs(values in prop::collection::vec(0..6_i32, 3..30)) {
            let values: Vec<f64> = values.into_iter().map(f64::from).collect();
            let mut slow = 0.0;
            for i in 0..values.len() {
                for j in i + 1..values.len() {
                    let away = values[j] - values[i];
                    slow += if away.abs() > 0.0 { away.signum() } else { 0.0 };
                }
            }
            prop_assert!((score(&values) - slow).abs() < 1e-9);
        }
    }

    #[test]
    fn a_few_nights_are_no_trend_and_ten_years_go_by_week() {
        assert!(trend(&series(&[1.0; 20])).found().is_none());
        let years: Vec<f64> = (0..3650).map(|n| f64::from(n) * 0.01 + f64::from(n % 5)).collect();
        let found = trend(&series(&years)).into_found().unwrap();
        assert!(found.by_week && found.n == 3650);
        assert!((found.per_day - 0.01).abs() < 1e-3 && found.p < 1e-6);
    }

    #[test]
    fn years_without_a_week_of_four_nights_have_no_trend() {
        // Three nights a week for six years: more points than are compared in pairs, and no weekly means.
        let nights = (0..2190).filter(|n| n % 7 < 3);
        let sparse = nights.map(|n| (Day::from_number(n - 3), f64::from(n % 5)));
        let Finding::NotEnoughData(short) = trend(&Series::from_points(sparse)) else {
            unreachable!("no week has four nights");
        };
        assert_eq!((short.of, short.have), ("weeks with four nights", 0));
    }
}
