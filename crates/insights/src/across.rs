//! Metrics of several sources against each other: every pair is one look, and a look is a claim only if it
//! is a discovery among all of them.

use schemars::JsonSchema;
use serde::Serialize;

use crate::correlation::{Correlation, correlation, correlation_of_blocks};
use crate::discovery::{FALSE_SHARE_MAX, adjust};
use crate::finding::{Finding, Shortfall};
use crate::series::Series;

/// A series with the names that an answer shows.
#[derive(Clone, Debug)]
pub struct SourceMetric {
    /// Source and metric, such as `spotify.late_listening`.
    pub name: String,
    /// The values that tests use.
    pub tested: Series,
}

/// Two metrics, the second `lag_days` after the first.
#[derive(Clone, Copy, Debug)]
pub struct Look<'a> {
    pub x: &'a SourceMetric,
    pub y: &'a SourceMetric,
    pub lag_days: i32,
}

/// A pair that has enough days.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RelatedPair {
    pub x: String,
    pub y: String,
    #[serde(flatten)]
    pub correlation: Correlation,
    /// The p-value adjusted for all looks.
    pub q: f64,
}

/// A pair that has too few days.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ShortPair {
    pub x: String,
    pub y: String,
    pub lag_days: i32,
    #[serde(flatten)]
    pub shortfall: Shortfall,
}

/// All looks, with the claims among them.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RelatedPairs {
    pub looks: usize,
    /// The share of false claims that is accepted.
    pub false_share_max: f64,
    /// The strongest first.
    pub claims: Vec<RelatedPair>,
    /// Pairs without a discovery: no relation was shown. The smallest p first.
    pub unclear: Vec<RelatedPair>,
    pub short: Vec<ShortPair>,
}

/// Looks at every pair and keeps the discoveries.
pub fn relate<'a>(looks: impl IntoIterator<Item = Look<'a>>) -> RelatedPairs {
    relate_by(correlation, looks)
}

/// The same for series of block means.
pub fn relate_blocks<'a>(looks: impl IntoIterator<Item = Look<'a>>) -> RelatedPairs {
    relate_by(correlation_of_blocks, looks)
}

fn relate_by<'a>(
    correlate: fn(&Series, &Series, i32) -> Finding<Correlation>,
    looks: impl IntoIterator<Item = Look<'a>>,
) -> RelatedPairs {
    let (mut found, mut short) = (Vec::new(), Vec::new());
    for look in looks {
        let (x, y) = (look.x.name.clone(), look.y.name.clone());
        match correlate(&look.x.tested, &look.y.tested, look.lag_days) {
            Finding::Found(correlation) => found.push(RelatedPair { x, y, correlation, q: 1.0 }),
            Finding::NotEnoughData(shortfall) => {
                short.push(ShortPair { x, y, lag_days: look.lag_days, shortfall });
            }
        }
    }
    let looks = found.len();
    let p: Vec<f64> = found.iter().map(|pair| pair.correlation.p).collect();
    let mut found: Vec<RelatedPair> =
        found.into_iter().zip(adjust(&p)).map(|(pair, q)| RelatedPair { q, ..pair }).collect();
    found.sort_by(|a, b| a.correlation.p.total_cmp(&b.correlation.p));
    let (claims, unclear) = found.into_iter().partition(|pair| pair.q <= FALSE_SHARE_MAX);
    RelatedPairs { looks, false_share_max: FALSE_SHARE_MAX, claims, unclear, short }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing, reason = "tests")]
    use super::*;
    use crate::day::Day;
    use crate::testing::noise;

    fn metric(name: &str, days: i32, value: impl Fn(i32) -> f64) -> SourceMetric {
        let points = (0..days).map(|n| (Day::from_number(n), value(n)));
        SourceMetric { name: name.to_owned(), tested: Series::from_points(points) }
    }

    #[test]
    fn of_many_pairs_only_the_related_one_is_a_claim() {
        let late = metric("a.late", 200, |n| noise(1, n));
        let sleep = metric("b.sleep", 200, |n| noise(2, n) - 0.8 * noise(1, n - 1));
        let others: Vec<SourceMetric> =
            (3..23).map(|seed| metric("c.other", 200, move |n| noise(seed, n))).collect();
        let related = Look { x: &late, y: &sleep, lag_days: 1 };
        let unrelated = others.iter().map(|other| Look { x: &late, y: other, lag_days: 1 });
        let found = relate(unrelated.chain([related]));
        assert_eq!(found.looks, 21);
        assert_eq!(found.claims.len(), 1, "{:?}", found.claims);
        let claim = &found.claims[0];
        assert_eq!((claim.x.as_str(), claim.y.as_str()), ("a.late", "b.sleep"));
        assert!(claim.correlation.r < -0.4 && claim.q >= claim.correlation.p, "{claim:?}");
    }

    #[test]
    fn a_pair_with_few_days_says_how_many_are_missing() {
        let (short, long) = (metric("a.x", 8, f64::from), metric("b.y", 90, f64::from));
        let found = relate([Look { x: &short, y: &long, lag_days: 0 }]);
        assert_eq!((found.looks, found.short.len()), (0, 1));
        assert_eq!(found.short[0].shortfall.missing, 12);
    }
}
