//! Two groups of days compared: nights with and without a behaviour, or two periods.

use schemars::JsonSchema;
use serde::Serialize;

use crate::day::Day;
use crate::effective;
use crate::finding::{Finding, Interval, nights_for};
use crate::sample::{self, p_of_t, real};
use crate::series::Series;

/// Nights that each side of a behaviour needs.
pub const NIGHTS_MIN: usize = 5;
/// Days that each of two periods needs.
const PERIOD_DAYS_MIN: usize = 5;
/// The standardised difference that is called usual in "not enough data".
const USUAL_EFFECT: f64 = 0.5;

/// One side of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Group {
    pub n: usize,
    pub mean: f64,
    pub deviation: f64,
}

/// The difference of two groups.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Difference {
    pub first: Group,
    pub second: Group,
    pub n: usize,
    pub n_eff: f64,
    /// The first mean minus the second; for a behaviour matched on weekdays.
    pub difference: f64,
    pub interval: Interval,
    pub hedges_g: f64,
    pub p: f64,
}

/// The effect of a behaviour: nights `lag` days after a yes against nights after a no. `answers` is 1
/// for yes and 0 for no; a day without an answer is in neither group.
pub fn behaviour_effect(outcome: &Series, answers: &Series, lag: i32) -> Finding<Difference> {
    let pairs = answers.pairs(outcome, lag);
    let side = |yes: bool| {
        let own = pairs.iter().filter(move |pair| (pair.x > 0.5) == yes);
        own.map(|pair| (pair.day, pair.y)).collect::<Vec<_>>()
    };
    let (with, without) = (side(true), side(false));
    let usual = nights_for(USUAL_EFFECT);
    if with.len() < NIGHTS_MIN {
        return Finding::not_enough_for("nights with", with.len(), NIGHTS_MIN, usual);
    }
    if without.len() < NIGHTS_MIN {
        return Finding::not_enough_for("nights without", without.len(), NIGHTS_MIN, usual);
    }
    // Memory counts as far as the behaviour and the rest of the outcome both have it.
    let (mean_with, mean_without) = (sample::mean(&values(&with)), sample::mean(&values(&without)));
    let rest = |side: &[(Day, f64)], mean: Option<f64>| {
        side.iter().map(|(day, value)| (*day, value - mean.unwrap_or(0.0))).collect::<Vec<_>>()
    };
    let rest = [rest(&with, mean_with), rest(&without, mean_without)].concat();
    let answered = Series::from_points(pairs.iter().map(|pair| (pair.day, pair.x)));
    let n_eff = effective::of_pairs(
        &answered.without_weekday_means(),
        &Series::from_points(rest).without_weekday_means(),
        pairs.len(),
    );
    match matched(&with, &without) {
        Some(matched) => compare(&matched.0, &matched.1, n_eff, Some(matched.2)),
        None => compare(&values(&with), &values(&without), n_eff, None),
    }
}

/// The difference of two periods, the first minus the second, without the weekly rhythm.
pub fn compare_periods(
    series: &Series,
    first: (Day, Day),
    second: (Day, Day),
) -> Finding<Difference> {
    let flat = series.without_weekday_means();
    let (a, b) = (flat.between(first.0, first.1), flat.between(second.0, second.1));
    for own in [&a, &b] {
        if own.n() < PERIOD_DAYS_MIN {
            return Finding::not_enough("days of a period", own.n(), PERIOD_DAYS_MIN);
        }
    }
    let n_eff = effective::of_mean(&a) + effective::of_mean(&b);
    compare(&a.values(), &b.values(), n_eff, None)
}

fn values(side: &[(Day, f64)]) -> Vec<f64> {
    side.iter().map(|(_, value)| *value).collect()
}

/// Both sides centred on the means of their weekday and side, and the difference of the sides weighted
/// over the weekdays that have both. The values keep their overall means.
fn matched(with: &[(Day, f64)], without: &[(Day, f64)]) -> Option<(Vec<f64>, Vec<f64>, f64)> {
    let of = |side: &[(Day, f64)], weekday: usize| {
        let own = side.iter().filter(|(day, _)| day.weekday() == weekday);
        own.map(|(_, value)| *value).collect::<Vec<f64>>()
    };
    let (mut weight, mut sum, mut weekdays) = (0.0, 0.0, 0.0);
    let mut centred = (Vec::new(), Vec::new());
    for weekday in 0..7 {
        let (a, b) = (of(with, weekday), of(without, weekday));
        let (Some(mean_a), Some(mean_b)) = (sample::mean(&a), sample::mean(&b)) else { continue };
        let own = real(a.len()) * real(b.len()) / (real(a.len()) + real(b.len()));
        weight += own;
        weekdays += 1.0;
        sum += own * (mean_a - mean_b);
        centred.0.extend(a.iter().map(|value| value - mean_a));
        centred.1.extend(b.iter().map(|value| value - mean_b));
    }
    let enough = centred.0.len() >= NIGHTS_MIN && centred.1.len() >= NIGHTS_MIN;
    // Weekdays with one night on a side hide its spread; with few nights the plain comparison is safer.
    let many = centred.0.len() >= 2 * 7 && centred.1.len() >= 2 * 7;
    if !(enough && many) {
        return None;
    }
    let means = (sample::mean(&values(with))?, sample::mean(&values(without))?);
    // Each weekday's mean took a degree of freedom.
    let shift = |centred: Vec<f64>, mean: f64| {
        let n = real(centred.len());
        let wider = ((n - 1.0) / (n - weekdays).max(1.0)).sqrt();
        centred.into_iter().map(|value| value * wider + mean).collect::<Vec<f64>>()
    };
    Some((shift(centred.0, means.0), shift(centred.1, means.1), sum / weight))
}

/// Welch's comparison, with standard errors for the effective number of values.
fn compare(a: &[f64], b: &[f64], n_eff: f64, matched: Option<f64>) -> Finding<Difference> {
    let n = a.len() + b.len();
    let (Some(first), Some(second)) = (group(a), group(b)) else {
        return Finding::not_enough("days", n, 2 * NIGHTS_MIN);
    };
    let inflation = (real(n) / n_eff).max(1.0);
    let part = |group: &Group| group.deviation.powi(2) / real(group.n) * inflation;
    let (part_a, part_b) = (part(&first), part(&second));
    let error = (part_a + part_b).sqrt();
    let freedom_of =
        |part: f64, group: &Group| part * part / (real(group.n) / inflation - 1.0).max(1.0);
    let freedom = (part_a + part_b).powi(2)
        / (freedom_of(part_a, &first) + freedom_of(part_b, &second)).max(1e-300);
    let difference = matched.unwrap_or(first.mean - second.mean);
    Finding::Found(Difference {
        hedges_g: hedges(difference, &first, &second),
        first,
        second,
        n,
        n_eff: n_eff.min(real(n)),
        difference,
        interval: Interval::of_t(difference, error, freedom.max(1.0)),
        p: if error > 0.0 { p_of_t(difference / error, freedom.max(1.0)) } else { 1.0 },
    })
}

fn group(values: &[f64]) -> Option<Group> {
    Some(Group {
        n: values.len(),
        mean: sample::mean(values)?,
        deviation: sample::deviation(values)?,
    })
}

/// The difference in pooled standard deviations, with the correction for small samples.
fn hedges(difference: f64, a: &Group, b: &Group) -> f64 {
    let freedom = real(a.n + b.n) - 2.0;
    let squares = |group: &Group| (real(group.n) - 1.0) * group.deviation.powi(2);
    let pooled = ((squares(a) + squares(b)) / freedom).sqrt();
    if pooled > 0.0 { difference / pooled * (1.0 - 3.0 / (4.0 * freedom - 1.0)) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
    use super::*;
    use crate::testing::noise;

    fn days(values: impl IntoIterator<Item = f64>) -> Series {
        Series::from_points((0..).map(Day::from_number).zip(values))
    }

    #[test]
    fn the_night_after_counts_and_four_are_too_few() {
        let yes = |n: i32| f64::from(i32::from(noise(2, n) > 0.4));
        let outcome = days((0..100).map(|n| 400.0 + 5.0 * noise(1, n) - 30.0 * yes(n - 1)));
        let found = behaviour_effect(&outcome, &days((0..100).map(yes)), 1).into_found().unwrap();
        assert!(found.interval.contains(-30.0) && found.p < 1e-6, "{found:?}");
        assert_eq!(found.first.n + found.second.n, found.n);
        let rare = days((0..100).map(|n| f64::from(i32::from(n < 4))));
        let Finding::NotEnoughData(few) = behaviour_effect(&outcome, &rare, 1) else {
            unreachable!("four nights are too few");
        };
        assert_eq!((few.of, few.missing, few.for_usual_effect), ("nights with", 1, Some(63)));
    }

    #[test]
    fn a_weekend_habit_gets_no_credit_for_the_weekend() {
        // The outcome depends on the weekday only; the behaviour happens mostly on weekends.
        let weekend = |n: i32| f64::from(i32::from(Day::from_number(n).is_weekend()));
        let often = |n: i32| if weekend(n) > 0.5 { n % 5 != 0 } else { n % 9 == 0 };
        let outcome = days((0..300).map(|n| 50.0 + 10.0 * weekend(n) + noise(1, n)));
        let answers = days((0..300).map(|n| f64::from(i32::from(often(n)))));
        let found = behaviour_effect(&outcome, &answers, 0).into_found().unwrap();
        assert!(found.difference.abs() < 0.5, "{found:?}");
    }
}
