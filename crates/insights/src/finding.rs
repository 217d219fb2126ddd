//! What an insight answers: a result with its evidence, or how much data is missing for one.

use schemars::JsonSchema;
use serde::Serialize;

use crate::sample::{real, t_reach, z_reach};

/// The level of every interval.
pub const LEVEL: f64 = 0.95;
/// The power for which nights are counted when there are too few.
const POWER: f64 = 0.8;

/// A result, or what is missing for one.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Finding<T> {
    Found(T),
    NotEnoughData(Shortfall),
}

/// Why there is no result yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Shortfall {
    /// What is counted, such as `nights` or `nights with`.
    pub of: &'static str,
    pub have: usize,
    pub need: usize,
    /// How many more are needed.
    pub missing: usize,
    /// How many are needed in all to find an effect of the usual size four times out of five.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "usize")]
    pub for_usual_effect: Option<usize>,
}

impl<T> Finding<T> {
    pub fn not_enough(of: &'static str, have: usize, need: usize) -> Finding<T> {
        let missing = need.saturating_sub(have);
        Finding::NotEnoughData(Shortfall { of, have, need, missing, for_usual_effect: None })
    }

    /// The same, with the number that an effect of the usual size needs.
    pub(crate) fn not_enough_for(
        of: &'static str,
        have: usize,
        need: usize,
        usual: usize,
    ) -> Finding<T> {
        let missing = need.saturating_sub(have);
        let for_usual_effect = Some(usual);
        Finding::NotEnoughData(Shortfall { of, have, need, missing, for_usual_effect })
    }

    pub fn found(&self) -> Option<&T> {
        match self {
            Finding::Found(result) => Some(result),
            Finding::NotEnoughData(_) => None,
        }
    }

    pub fn into_found(self) -> Option<T> {
        match self {
            Finding::Found(result) => Some(result),
            Finding::NotEnoughData(_) => None,
        }
    }

    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Finding<U> {
        match self {
            Finding::Found(result) => Finding::Found(change(result)),
            Finding::NotEnoughData(shortfall) => Finding::NotEnoughData(shortfall),
        }
    }
}

/// A 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Interval {
    pub low: f64,
    pub high: f64,
}

impl Interval {
    /// `value` plus and minus t standard errors.
    pub(crate) fn of_t(value: f64, error: f64, freedom: f64) -> Interval {
        let reach = t_reach(LEVEL, freedom) * error;
        Interval { low: value - reach, high: value + reach }
    }

    pub fn contains(self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    #[must_use]
    pub fn map(self, change: impl Fn(f64) -> f64) -> Interval {
        Interval { low: change(self.low), high: change(self.high) }
    }
}

/// Pairs that a correlation of this size needs, by Fisher's z.
pub(crate) fn pairs_for(r: f64) -> usize {
    let reach = z_reach(LEVEL) + z_reach(2.0 * POWER - 1.0);
    ceiling((reach / r.atanh()).powi(2) + 3.0)
}

/// Nights that each of two groups needs for a standardised difference of this size.
pub(crate) fn nights_for(effect: f64) -> usize {
    let reach = z_reach(LEVEL) + z_reach(2.0 * POWER - 1.0);
    ceiling(2.0 * (reach / effect).powi(2))
}

/// The smallest count that is not below `value`.
fn ceiling(value: f64) -> usize {
    (1..100_000).find(|count| real(*count) >= value).unwrap_or(100_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sizes_of_textbooks_come_out() {
        assert_eq!(pairs_for(0.3), 85);
        assert_eq!(nights_for(0.5), 63);
    }
}
