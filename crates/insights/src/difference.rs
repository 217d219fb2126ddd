//! Two groups of days compared: nights with and without a behaviour, or two periods.

use schemars::JsonSchema;
use serde::Serialize;

use crate::day::Day;
use crate::effective;
use crate::finding::{Finding, Interval, nights_for};
use crate::sample::{self, p_of_f, p_of_t, real};
use crate::series::Series;

/// Nights that each side of a behaviour needs.
pub const NIGHTS_MIN: usize = 5;
/// Nights that each side needs for a spread of its own within weekdays; with fewer the sides share one.
const WELCH_NIGHTS_MIN: usize = 14;
/// The smaller side has a spread of its own if chance makes it as much wider with less than this.
const WIDER_P: f64 = 0.05;
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
    let few = |of, have| Finding::not_enough_for(of, have, NIGHTS_MIN, usual);
    if with.len() < NIGHTS_MIN {
        return few("nights with", with.len());
    }
    if without.len() < NIGHTS_MIN {
        return few("nights without", without.len());
    }
    // Memory counts as far as the behaviour and the rest of the outcome both have it.
    let rest = [without_mean(&with), without_mean(&without)].concat();
    let answered = Series::from_points(pairs.iter().map(|pair| (pair.day, pair.x)));
    let n_eff = effective::of_pairs(
        &answered.without_weekday_means(),
        &Series::from_points(rest).without_weekday_means(),
        pairs.len(),
    );
    let inflation = real(pairs.len()) / n_eff;
    if !answered.knows_its_weekdays() {
        return compare(&values(&with), &values(&without), inflation);
    }
    let matched = matched(&with, &without);
    if matched.with.n < NIGHTS_MIN {
        return few("nights with, on weekdays that have nights without, too", matched.with.n);
    }
    if matched.without.n < NIGHTS_MIN {
        return few("nights without, on weekdays that have nights with, too", matched.without.n);
    }
    Finding::Found(matched.compare(inflation))
}

fn without_mean(side: &[(Day, f64)]) -> Vec<(Day, f64)> {
    let mean = sample::mean(&values(side)).unwrap_or(0.0);
    side.iter().map(|(day, value)| (*day, value - mean)).collect()
}

/// The difference of two periods, the first minus the second, without the weekly rhythm. A week does not show
/// its own memory, so that of the whole series counts.
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
    let memory = flat.memory();
    let n_eff = effective::of_memory(a.n(), memory) + effective::of_memory(b.n(), memory);
    compare(&a.values(), &b.values(), real(a.n() + b.n()) / n_eff)
}

fn values(side: &[(Day, f64)]) -> Vec<f64> {
    side.iter().map(|(_, value)| *value).collect()
}

/// One side of a comparison within weekdays.
#[derive(Debug, Default)]
struct MatchedSide {
    n: usize,
    sum: f64,
    /// Squared distances from the mean of the weekday.
    squares: f64,
    /// The variance of the weighted difference, in variances of one night.
    parts: f64,
}

impl MatchedSide {
    fn add(&mut self, nights: &[f64], mean: f64, weight: f64) {
        self.n += nights.len();
        self.sum += nights.iter().sum::<f64>();
        self.squares += nights.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        self.parts += weight * weight / real(nights.len());
    }

    /// The spread of one night needs its own nights, each of whose weekday means took one.
    fn freedom(&self, weekdays: f64) -> f64 {
        real(self.n) - weekdays
    }

    fn group(&self, variance: f64) -> Group {
        Group { n: self.n, mean: self.sum / real(self.n), deviation: variance.sqrt() }
    }
}

/// Two sides compared within the weekdays that have both.
#[derive(Debug, Default)]
struct Matched {
    with: MatchedSide,
    without: MatchedSide,
    weekdays: f64,
    weight: f64,
    /// The differences of the weekdays, weighted.
    sum: f64,
}

fn matched(with: &[(Day, f64)], without: &[(Day, f64)]) -> Matched {
    let of = |side: &[(Day, f64)], weekday: usize| {
        let own = side.iter().filter(|(day, _)| day.weekday() == weekday);
        own.map(|(_, value)| *value).collect::<Vec<f64>>()
    };
    let mut all = Matched::default();
    for weekday in 0..7 {
        let (a, b) = (of(with, weekday), of(without, weekday));
        let (Some(mean_a), Some(mean_b)) = (sample::mean(&a), sample::mean(&b)) else { continue };
        let weight = real(a.len()) * real(b.len()) / (real(a.len()) + real(b.len()));
        all.weight += weight;
        all.weekdays += 1.0;
        all.sum += weight * (mean_a - mean_b);
        all.with.add(&a, mean_a, weight);
        all.without.add(&b, mean_b, weight);
    }
    all
}

impl Matched {
    /// The difference with the error of its weights: a habit of weekends has few nights to compare with,
    /// however many nights there are.
    fn compare(&self, inflation: f64) -> Difference {
        let (a, b) = (&self.with, &self.without);
        let (own_a, own_b) = (a.freedom(self.weekdays), b.freedom(self.weekdays));
        let total = self.weight * self.weight;
        let pooled = (a.squares + b.squares) / (own_a + own_b).max(1.0);
        let own_vars = (a.squares / own_a.max(1.0), b.squares / own_b.max(1.0));
        let wider = if a.n <= b.n {
            p_of_f(own_vars.0 / own_vars.1, own_a, own_b)
        } else {
            p_of_f(own_vars.1 / own_vars.0, own_b, own_a)
        };
        // A side with few nights hardly knows its own spread.
        let is_welch = a.n.min(b.n) >= WELCH_NIGHTS_MIN && wider < WIDER_P;
        let (var_a, var_b) = if is_welch { own_vars } else { (pooled, pooled) };
        let (part_a, part_b) = (var_a * a.parts / total, var_b * b.parts / total);
        let parts = if is_welch {
            vec![
                Part::of(part_a, a.n, self.weekdays, inflation),
                Part::of(part_b, b.n, self.weekdays, inflation),
            ]
        } else {
            vec![Part::of(part_a + part_b, a.n + b.n, 2.0 * self.weekdays, inflation)]
        };
        let sides = (a.group(var_a), b.group(var_b));
        judged(self.sum / self.weight, sides, &parts, inflation)
    }
}

/// The variance that some nights add to a difference.
struct Part {
    variance: f64,
    freedom: f64,
}

impl Part {
    /// `means` were taken from `n` nights, each worth one over `inflation` for a mean. A spread suffers
    /// less: (1 + ρ²)/(1 − ρ²) where a mean suffers (1 + ρ)/(1 − ρ).
    fn of(variance: f64, n: usize, means: f64, inflation: f64) -> Part {
        let of_spread = f64::midpoint(inflation, inflation.recip());
        let freedom = ((real(n) - means) / of_spread).max(1.0);
        Part { variance: variance * inflation, freedom }
    }
}

/// Welch's comparison of plain samples.
fn compare(a: &[f64], b: &[f64], inflation: f64) -> Finding<Difference> {
    let (Some(first), Some(second)) = (group(a), group(b)) else {
        return Finding::not_enough("days", a.len() + b.len(), 2 * NIGHTS_MIN);
    };
    let inflation = inflation.max(1.0);
    let part =
        |group: &Group| Part::of(group.deviation.powi(2) / real(group.n), group.n, 1.0, inflation);
    let parts = [part(&first), part(&second)];
    let difference = first.mean - second.mean;
    Finding::Found(judged(difference, (first, second), &parts, inflation))
}

/// A difference with its interval, by the degrees of freedom of Welch and Satterthwaite.
fn judged(
    difference: f64,
    (first, second): (Group, Group),
    parts: &[Part],
    inflation: f64,
) -> Difference {
    let variance: f64 = parts.iter().map(|part| part.variance).sum();
    let squares: f64 = parts.iter().map(|part| part.variance.powi(2) / part.freedom).sum();
    let freedom = (variance.powi(2) / squares.max(1e-300)).max(1.0);
    let error = variance.sqrt();
    let n = first.n + second.n;
    Difference {
        hedges_g: hedges(difference, &first, &second),
        first,
        second,
        n,
        n_eff: real(n) / inflation.max(1.0),
        difference,
        interval: Interval::of_t(difference, error, freedom),
        p: if error > 0.0 { p_of_t(difference / error, freedom) } else { 1.0 },
    }
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
    fn a_week_is_worth_as_few_nights_as_the_memory_of_the_whole_series_says() {
        // Every night keeps two thirds of the one before, and nothing changes.
        let mut wrong = 0;
        for person in 0..200 {
            let mut state = 0.0;
            let nights = (0..180).map(|n| {
                let new: f64 = (0..4).map(|part| noise(4 * person + part, n)).sum();
                state = 0.65 * state + new;
                state
            });
            let (first, second) = ((173, 179), (166, 172));
            let [first, second] =
                [first, second].map(|(from, to)| (Day::from_number(from), Day::from_number(to)));
            let found = compare_periods(&days(nights), first, second).into_found().unwrap();
            assert!(found.n_eff < 12.0, "{found:?}");
            wrong += usize::from(!found.interval.contains(0.0));
        }
        assert!(wrong <= 18, "{wrong} of 200 intervals of 95 % miss the truth");
    }

    #[test]
    fn few_nights_that_vary_more_than_the_others_have_their_own_spread() {
        // The habit changes nothing but the spread, which is half as large again on its nights.
        let mut wrong = 0;
        for person in 0..400 {
            let habit = |n: i32| noise(person, n) < -0.78;
            let answers = days((0..180).map(|n| f64::from(u8::from(habit(n)))));
            let outcome = (0..180).map(|n| {
                let night: f64 = (0..4).map(|part| noise(1000 + 4 * person + part, n)).sum();
                if habit(n) { 1.5 * night } else { night }
            });
            let found = behaviour_effect(&days(outcome), &answers, 0).into_found().unwrap();
            wrong += usize::from(!found.interval.contains(0.0));
        }
        assert!(wrong <= 40, "{wrong} of 400 intervals of 95 % miss the truth");
    }

    #[test]
    fn a_habit_of_weekends_has_an_interval_as_wide_as_the_nights_it_is_compared_with() {
        // The outcome is a weekly rhythm and noise, the habit is on most weekends and few other days.
        let weekend = |n: i32| Day::from_number(n).is_weekend();
        let mut wrong = 0;
        for person in 0..200 {
            let chance = |n: i32| f64::midpoint(noise(person, n), 1.0);
            let habit = |n: i32| chance(n) < if weekend(n) { 0.85 } else { 0.1 };
            let answers = days((0..120).map(|n| f64::from(u8::from(habit(n)))));
            let outcome = (0..120).map(|n| {
                let night: f64 = (0..4).map(|part| noise(1000 + 4 * person + part, n)).sum();
                night + 3.0 * f64::from(u8::from(weekend(n)))
            });
            let found = behaviour_effect(&days(outcome), &answers, 0).into_found().unwrap();
            wrong += usize::from(!found.interval.contains(0.0));
        }
        assert!(wrong <= 18, "{wrong} of 200 intervals of 95 % miss the truth");
    }

    #[test]
    fn what_happens_only_on_weekends_cannot_be_told_from_them() {
        let weekend = |n: i32| f64::from(u8::from(Day::from_number(n).is_weekend()));
        let outcome = days((0..120).map(|n| 50.0 + 9.0 * weekend(n) + noise(1, n)));
        let Finding::NotEnoughData(short) =
            behaviour_effect(&outcome, &days((0..120).map(weekend)), 0)
        else {
            unreachable!("no weekday has both");
        };
        let of = "nights with, on weekdays that have nights without, too";
        assert_eq!((short.of, short.have, short.missing), (of, 0, 5));
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
