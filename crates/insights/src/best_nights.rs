//! What the best nights have in common: the quarter of the nights with the best outcome against the others.

use schemars::JsonSchema;
use serde::Serialize;

use crate::day::Day;
use crate::difference::{Difference, behaviour_effect};
use crate::discovery::{FALSE_SHARE_MAX, adjust};
use crate::effective;
use crate::finding::{Finding, Interval, Shortfall};
use crate::metric::{Better, Metric};
use crate::series::Series;

/// Nights that a quarter needs to be compared.
const NIGHTS_MIN: usize = 40;

/// Something that the best nights may have in common: a metric, or a behaviour with 1 for yes and 0 for no.
#[derive(Clone, Debug)]
pub struct Trait {
    pub name: String,
    pub series: Series,
    /// Days from its day to the night: the strain of a day meets the recovery of the next.
    pub days_before: i32,
}

/// The best nights against the others.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BestNights {
    /// The metric by which they are the best.
    pub outcome: &'static str,
    pub from: Day,
    pub to: Day,
    /// The outcome of a best night is this value or a better one.
    pub threshold: f64,
    pub n_best: usize,
    /// All nights.
    pub n: usize,
    pub n_eff: f64,
    /// The share of false claims that is accepted.
    pub false_share_max: f64,
    /// What differs: discoveries among these looks, the strongest first.
    pub shared: Vec<SharedTrait>,
    /// What was looked at without a discovery: no difference was shown.
    pub unclear: Vec<SharedTrait>,
    /// Looks that had too little data.
    pub short: Vec<ShortTrait>,
}

/// One trait of the best nights.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SharedTrait {
    /// A metric, or a question of the journal, whose means are shares of yes.
    pub name: String,
    pub days_before: i32,
    pub mean_of_best: f64,
    pub mean_of_others: f64,
    /// The best minus the others, matched on weekdays.
    pub difference: f64,
    pub interval: Interval,
    pub n: usize,
    pub n_eff: f64,
    pub p: f64,
    /// The p-value adjusted for these looks.
    pub q: f64,
}

/// A trait with too little data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ShortTrait {
    pub name: String,
    #[serde(flatten)]
    pub shortfall: Shortfall,
}

/// Compares the best quarter of the nights with the others, trait by trait.
pub fn best_nights(outcome: &Metric, nights: &Series, traits: &[Trait]) -> Finding<BestNights> {
    let is_lower_better = outcome.better == Better::Lower;
    let mut sorted = nights.values();
    sorted.sort_by(f64::total_cmp);
    if is_lower_better {
        sorted.reverse();
    }
    let n = sorted.len();
    let (true, Some(threshold), Some(from), Some(to)) =
        (n >= NIGHTS_MIN, sorted.get(n * 3 / 4).copied(), nights.first_day(), nights.last_day())
    else {
        return Finding::not_enough("nights", n, NIGHTS_MIN);
    };
    let is_best =
        |value: f64| if is_lower_better { value <= threshold } else { value >= threshold };
    let best = nights.map(|value| f64::from(u8::from(is_best(value))));
    let (mut shared, mut short) = (Vec::new(), Vec::new());
    for own in traits {
        match behaviour_effect(&own.series, &best, -own.days_before) {
            Finding::Found(found) => shared.push(shared_trait(own, &found)),
            Finding::NotEnoughData(shortfall) => {
                short.push(ShortTrait { name: own.name.clone(), shortfall });
            }
        }
    }
    let q = adjust(&shared.iter().map(|own| own.p).collect::<Vec<f64>>());
    for (own, q) in shared.iter_mut().zip(q) {
        own.q = q;
    }
    shared.sort_by(|a, b| a.p.total_cmp(&b.p));
    let (shared, unclear) = shared.into_iter().partition(|own| own.q <= FALSE_SHARE_MAX);
    Finding::Found(BestNights {
        outcome: outcome.name,
        from,
        to,
        threshold,
        n_best: best.values().iter().filter(|value| **value > 0.5).count(),
        n,
        n_eff: effective::of_mean(nights),
        false_share_max: FALSE_SHARE_MAX,
        shared,
        unclear,
        short,
    })
}

fn shared_trait(own: &Trait, found: &Difference) -> SharedTrait {
    SharedTrait {
        name: own.name.clone(),
        days_before: own.days_before,
        mean_of_best: found.first.mean,
        mean_of_others: found.second.mean,
        difference: found.difference,
        interval: found.interval,
        n: found.n,
        n_eff: found.n_eff,
        p: found.p,
        q: 1.0,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
    use super::*;
    use crate::metric::Unit;

    fn outcome(better: Better) -> Metric {
        Metric { name: "recovery", title: "Recovery", unit: Unit::Percent, better, is_log: false }
    }

    fn days(values: impl Iterator<Item = f64>) -> Series {
        Series::from_points((0..).map(Day::from_number).zip(values))
    }

    /// Pseudo-random numbers from 0 to 1 without memory.
    fn noise(seed: u64) -> impl Iterator<Item = f64> {
        (0..).map(move |n: u64| {
            let mixed = (n + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15 ^ (seed << 7));
            let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            f64::from(u32::try_from(mixed >> 33).unwrap()) / f64::from(u32::MAX >> 1)
        })
    }

    #[test]
    fn best_nights_share_their_cause_and_not_noise() {
        let asleep: Vec<f64> = noise(1).take(200).map(|own| 400.0 + 100.0 * own).collect();
        let recovery = asleep.iter().zip(noise(2)).map(|(asleep, own)| asleep / 6.0 + 5.0 * own);
        let of = |name: &str, series: Series, days_before: i32| Trait {
            name: name.to_owned(),
            series,
            days_before,
        };
        let traits = [
            of("asleep", days(asleep.iter().copied()), 0),
            of("strain", days(noise(3).take(200)), 1),
            of("rare", days(noise(4).take(3)), 0),
        ];
        let nights = days(recovery);
        let found = best_nights(&outcome(Better::Higher), &nights, &traits).into_found().unwrap();
        assert_eq!((found.n, found.n_best), (200, 50));
        assert_eq!(found.shared.len(), 1, "{found:?}");
        assert_eq!(found.shared[0].name, "asleep");
        assert!(found.shared[0].difference > 20.0 && found.shared[0].interval.low > 0.0);
        assert_eq!(found.unclear[0].name, "strain");
        assert_eq!(found.short[0].name, "rare");
        let worst = best_nights(&outcome(Better::Lower), &nights, &traits).into_found().unwrap();
        assert!(worst.shared[0].difference < -20.0, "{worst:?}");
    }

    #[test]
    fn too_few_nights_report_how_many_are_missing() {
        let short = best_nights(&outcome(Better::Higher), &days(noise(1).take(30)), &[]);
        assert_eq!(short, Finding::not_enough("nights", 30, 40));
    }
}
