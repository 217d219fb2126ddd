//! Benjamini and Hochberg's procedure: which of many looks are discoveries.

/// The share of false discoveries that is accepted among the claims of one survey. It is below the 5 %
/// that are promised over all surveys, because looks at one person are related and their memory is
/// only estimated.
pub const FALSE_SHARE_MAX: f64 = 0.03;

/// The adjusted p-value (q) of each look, in the order of the looks. A look is a discovery where q is
/// at most the accepted share.
pub fn adjust(p: &[f64]) -> Vec<f64> {
    adjust_among(p, p.len())
}

/// The same when `looks` were made and only the smallest p-values are at hand.
pub fn adjust_among(p: &[f64], looks: usize) -> Vec<f64> {
    let looks = crate::sample::real(looks.max(p.len()));
    let mut order: Vec<(usize, f64)> = p.iter().copied().enumerate().collect();
    order.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut q = vec![1.0; p.len()];
    let mut smallest: f64 = 1.0;
    for (rank, (at, p)) in order.iter().enumerate().rev() {
        smallest = smallest.min(p * looks / crate::sample::real(rank + 1));
        if let Some(slot) = q.get_mut(*at) {
            *slot = smallest;
        }
    }
    q
}

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing, reason = "tests")]
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_discovery_is_one_that_the_step_up_rule_accepts(
            p in prop::collection::vec(0.0..1.0_f64, 1..40)
        ) {
            // The rule itself: the largest k with p(k) ≤ k/m · share; all up to it are discoveries.
            let mut sorted = p.clone();
            sorted.sort_by(f64::total_cmp);
            let m = crate::sample::real(sorted.len());
            let accepted = (1..=sorted.len())
                .filter(|k| sorted[k - 1] <= crate::sample::real(*k) / m * FALSE_SHARE_MAX)
                .max();
            let bound = accepted.map_or(-1.0, |k| sorted[k - 1]);
            for (p, q) in p.iter().zip(adjust(&p)) {
                prop_assert_eq!(*p <= bound, q <= FALSE_SHARE_MAX);
            }
        }
    }
}
