//! The effective sample size: how many independent values a series with memory is worth.

use crate::sample::real;
use crate::series::Series;

/// Correlations of a series with itself are summed up to this lag, and to a fifth of its length.
const LAGS_MAX: i32 = 30;

/// How many independent values the mean of the series is worth: n(1 − ρ)/(1 + ρ), at most n.
pub fn of_mean(series: &Series) -> f64 {
    of_memory(series.n(), series.memory())
}

/// The same for some values of a series with this memory.
pub fn of_memory(n: usize, memory: f64) -> f64 {
    let n = real(n);
    (n * (1.0 - memory) / (1.0 + memory)).max(1.0).min(n)
}

/// How many independent pairs the correlation of two series is worth: the smaller of the value for
/// two series with memory of one day, n(1 − ρ₁ρ₂)/(1 + ρ₁ρ₂), and of the one that sums all lags,
/// which also sees slow drift. At most n.
pub fn of_pairs(x: &Series, y: &Series, n: usize) -> f64 {
    let n = real(n);
    let product = (x.autocorrelation(1) * y.autocorrelation(1)).clamp(-0.99, 0.99);
    let short = n * (1.0 - product) / (1.0 + product);
    let lags = (1..=LAGS_MAX).take_while(|lag| f64::from(*lag) <= n / 5.0);
    let sum: f64 = lags
        .map(|lag| (1.0 - f64::from(lag) / n) * x.autocorrelation(lag) * y.autocorrelation(lag))
        .sum();
    let long = n / (1.0 + 2.0 * sum).max(1e-3);
    short.min(long).min(n).max(1.0)
}
