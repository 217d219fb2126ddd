//! Statistics of plain samples, and the distributions that intervals and p-values come from.

use statrs::distribution::{ContinuousCDF, FisherSnedecor, Normal, StudentsT};

/// The share of a normal distribution's standard deviation that the MAD is.
const MAD_TO_SIGMA: f64 = 1.4826;

/// A count as a number to calculate with.
pub(crate) fn real(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / real(values.len()))
}

/// The sample variance, with n − 1.
pub fn variance(values: &[f64]) -> Option<f64> {
    let mean = mean(values)?;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (values.len() > 1).then(|| squares / (real(values.len()) - 1.0))
}

/// The sample standard deviation, with n − 1.
pub fn deviation(values: &[f64]) -> Option<f64> {
    variance(values).map(f64::sqrt)
}

pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    let middle = sorted.len() / 2;
    if sorted.is_empty() {
        return None;
    }
    let (below, upper, _) = sorted.select_nth_unstable_by(middle, f64::total_cmp);
    let upper = *upper;
    if values.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = below.iter().copied().max_by(f64::total_cmp)?;
    Some(f64::midpoint(lower, upper))
}

/// The robust standard deviation: 1.4826 times the median absolute deviation.
pub fn robust_deviation(values: &[f64]) -> Option<f64> {
    let middle = median(values)?;
    let away: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    median(&away).map(|mad| MAD_TO_SIGMA * mad)
}

/// Ranks from 1; equal values share the mean of their ranks.
pub(crate) fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<(usize, f64)> = values.iter().copied().enumerate().collect();
    order.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut ranks = vec![0.0; values.len()];
    let mut below = 0;
    for tied in order.chunk_by(|a, b| a.1.total_cmp(&b.1).is_eq()) {
        let rank = real(below) + f64::midpoint(1.0, real(tied.len()));
        for (at, _) in tied {
            if let Some(slot) = ranks.get_mut(*at) {
                *slot = rank;
            }
        }
        below += tied.len();
    }
    ranks
}

/// How often chance makes a ratio of two variances at least this large. 1 where there are no degrees of freedom.
pub(crate) fn p_of_f(ratio: f64, freedom: f64, freedom_below: f64) -> f64 {
    match FisherSnedecor::new(freedom, freedom_below) {
        Ok(distribution) if ratio.is_finite() => distribution.sf(ratio.max(0.0)),
        Ok(_) if ratio.is_infinite() => 0.0,
        _ => 1.0,
    }
}

/// The two-sided p-value of a t statistic. 1 where there are no degrees of freedom.
pub(crate) fn p_of_t(t: f64, freedom: f64) -> f64 {
    match StudentsT::new(0.0, 1.0, freedom) {
        Ok(distribution) if t.is_finite() => (2.0 * distribution.sf(t.abs())).min(1.0),
        Ok(_) if t.is_infinite() => 0.0,
        _ => 1.0,
    }
}

/// The two-sided p-value of a normal statistic.
pub(crate) fn p_of_z(z: f64) -> f64 {
    if z.is_nan() { 1.0 } else { (2.0 * Normal::standard().sf(z.abs())).min(1.0) }
}

/// How many standard errors a two-sided interval reaches to each side.
pub(crate) fn t_reach(level: f64, freedom: f64) -> f64 {
    let upper = f64::midpoint(1.0, level);
    StudentsT::new(0.0, 1.0, freedom).map_or(f64::INFINITY, |t| t.inverse_cdf(upper))
}

pub(crate) fn z_reach(level: f64) -> f64 {
    Normal::standard().inverse_cdf(f64::midpoint(1.0, level))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing, reason = "tests")]
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_median_is_the_middle_of_the_sorted_values(
            mut values in prop::collection::vec(-1e6..1e6_f64, 1..60)
        ) {
            let found = median(&values).unwrap_or(f64::NAN);
            values.sort_by(f64::total_cmp);
            let n = values.len();
            let slow = f64::midpoint(values[(n - 1) / 2], values[n / 2]);
            prop_assert!((found - slow).abs() < 1e-9);
        }

        #[test]
        fn ranks_count_smaller_and_half_of_equal_values(
            values in prop::collection::vec(0..9_i32, 1..40)
        ) {
            let values: Vec<f64> = values.into_iter().map(f64::from).collect();
            for (value, rank) in values.iter().zip(ranks(&values)) {
                let smaller = values.iter().filter(|other| *other < value).count();
                let equal = values.iter().filter(|other| other.total_cmp(value).is_eq()).count();
                let slow = real(smaller) + f64::midpoint(real(equal), 1.0);
                prop_assert!((rank - slow).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn no_values_have_no_median_and_one_has_no_deviation() {
        assert_eq!((mean(&[]), median(&[]), variance(&[4.0])), (None, None, None));
        assert_eq!(median(&[4.0]), Some(4.0));
        assert_eq!(robust_deviation(&[1.0, 2.0, 3.0, 4.0, 100.0]), Some(MAD_TO_SIGMA));
    }
}
