//! The correlation of two metrics, with a lag in days, without their weekly rhythm, and with the
//! effective number of pairs.

use schemars::JsonSchema;
use serde::Serialize;

use crate::effective;
use crate::finding::{Finding, Interval, LEVEL, pairs_for};
use crate::sample::{self, p_of_t, real, z_reach};
use crate::series::{Pair, Series};

/// Pairs that a correlation needs.
pub const PAIRS_MIN: usize = 20;
/// Means that were taken from the values with the weekly rhythm, besides the mean of all.
const WEEKDAY_MEANS: f64 = 6.0;
/// The size that is called usual in "not enough data".
const USUAL_R: f64 = 0.3;

/// A correlation with its evidence.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Correlation {
    /// Days from the first metric to the second.
    pub lag_days: i32,
    pub n: usize,
    pub n_eff: f64,
    pub r: f64,
    pub r_interval: Interval,
    /// Change of the second metric per unit of the first.
    pub slope: f64,
    pub slope_interval: Interval,
    pub p: f64,
}

/// Correlates `x` with `y` `lag` days later.
pub fn correlation(x: &Series, y: &Series, lag: i32) -> Finding<Correlation> {
    let is_flat = x.knows_its_weekdays() || y.knows_its_weekdays();
    let means = if is_flat { WEEKDAY_MEANS } else { 0.0 };
    let (x, y) = (x.without_weekday_means(), y.without_weekday_means());
    correlate(&x, &y, lag, means, "days with both")
}

/// Correlates the means of blocks, which have no weekly rhythm. Lags are counted in blocks.
pub fn correlation_of_blocks(x: &Series, y: &Series, lag: i32) -> Finding<Correlation> {
    correlate(x, y, lag, 0.0, "blocks with both")
}

fn correlate(
    x: &Series,
    y: &Series,
    lag: i32,
    means: f64,
    counted: &'static str,
) -> Finding<Correlation> {
    let pairs = x.pairs(y, lag);
    if pairs.len() < PAIRS_MIN {
        return Finding::not_enough_for(counted, pairs.len(), PAIRS_MIN, pairs_for(USUAL_R));
    }
    // Memory is measured on the days of the pairs.
    let x = Series::from_points(pairs.iter().map(|pair| (pair.day, pair.x)));
    let y = Series::from_points(pairs.iter().map(|pair| (pair.day, pair.y)));
    let left = 1.0 - means / real(pairs.len());
    let n_eff = (effective::of_pairs(&x, &y, pairs.len()) * left).max(1.0);
    let Some((r, slope)) = pearson(&pairs) else {
        return Finding::not_enough("days with different values", 0, PAIRS_MIN);
    };
    let freedom = (n_eff - 2.0).max(1.0);
    let error = ((1.0 - r * r) / freedom).sqrt();
    let spread = if r.abs() > 1e-12 { slope / r } else { 0.0 };
    Finding::Found(Correlation {
        lag_days: lag,
        n: pairs.len(),
        n_eff,
        r,
        r_interval: fisher(r, n_eff),
        slope,
        slope_interval: Interval::of_t(slope, (spread * error).abs(), freedom),
        p: p_of_t(r / error.max(1e-12), freedom),
    })
}

/// Pearson's r and the least-squares slope; none where one side never changes.
fn pearson(pairs: &[Pair]) -> Option<(f64, f64)> {
    let xs: Vec<f64> = pairs.iter().map(|pair| pair.x).collect();
    let ys: Vec<f64> = pairs.iter().map(|pair| pair.y).collect();
    let (mean_x, mean_y) = (sample::mean(&xs)?, sample::mean(&ys)?);
    let (var_x, var_y) = (sample::variance(&xs)?, sample::variance(&ys)?);
    let products: f64 = pairs.iter().map(|pair| (pair.x - mean_x) * (pair.y - mean_y)).sum();
    let covariance = products / (real(pairs.len()) - 1.0);
    let scale = (var_x * var_y).sqrt();
    (scale > 1e-12).then(|| ((covariance / scale).clamp(-1.0, 1.0), covariance / var_x))
}

/// Fisher's interval of r.
fn fisher(r: f64, n_eff: f64) -> Interval {
    let error = 1.0 / (n_eff - 3.0).max(0.5).sqrt();
    let z = r.clamp(-0.999_999, 0.999_999).atanh();
    let reach = z_reach(LEVEL) * error;
    Interval { low: (z - reach).tanh(), high: (z + reach).tanh() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
    use super::*;
    use crate::day::Day;
    use crate::testing::noise;

    fn series(values: impl IntoIterator<Item = f64>) -> Series {
        Series::from_points((0..).map(Day::from_number).zip(values))
    }

    #[test]
    fn a_line_correlates_fully_at_its_lag_only() {
        let x = series((0..120).map(|n| noise(1, n)));
        let y = series((0..120).map(|n| 2.0 * noise(1, n - 1) + 5.0));
        let found = correlation(&x, &y, 1).into_found().unwrap();
        assert!(found.r > 0.95 && (found.slope - 2.0).abs() < 0.2, "{found:?}");
        let other = correlation(&x, &y, 0).into_found().unwrap();
        assert!(other.r.abs() < 0.4, "{other:?}");
    }

    #[test]
    fn shared_rhythm_alone_is_no_correlation() {
        let weekly = |n: i32| f64::from(i32::from(n % 7 >= 5)) * 20.0;
        let x = series((0..200).map(|n| weekly(n) + noise(1, n)));
        let y = series((0..200).map(|n| weekly(n) + noise(2, n)));
        let found = correlation(&x, &y, 0).into_found().unwrap();
        assert!(found.r.abs() < 0.3, "{found:?}");
    }

    #[test]
    fn memory_makes_the_interval_wider() {
        let slow = |n: i32| f64::from(n / 10);
        let x = series((0..100).map(|n| slow(n) + f64::from(n % 3)));
        let found = correlation(&x, &x.map(|value| value * 2.0), 0).into_found().unwrap();
        assert!(found.n_eff < 30.0, "{found:?}");
    }

    #[test]
    fn too_few_pairs_report_how_many_are_needed() {
        let short = series((0..9).map(f64::from));
        let Finding::NotEnoughData(shortfall) = correlation(&short, &short, 0) else {
            unreachable!("nine pairs are too few");
        };
        assert_eq!((shortfall.missing, shortfall.for_usual_effect), (11, Some(85)));
    }
}
