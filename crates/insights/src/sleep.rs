//! Sleep regularity (SRI by minute, mid-sleep, social jet lag), and sleep against its need.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::day::Day;
use crate::effective;
use crate::finding::Finding;
use crate::sample::{self, real};
use crate::series::Series;

const DAY_MINUTES: i64 = 1440;
/// A sleep day goes from noon to noon, so that a night is in one day.
const NOON_MINUTES: i64 = 720;
/// Pairs of days that the index needs.
pub const PAIRS_MIN: usize = 7;
const NIGHTS_MIN: usize = 7;
const FREE_NIGHTS_MIN: usize = 2;

/// A sleep or a nap, in minutes since 1970 in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SleepSpan {
    pub start_min: i64,
    pub end_min: i64,
    /// Minutes east of Greenwich.
    pub offset_min: i64,
    pub is_nap: bool,
}

impl SleepSpan {
    /// The local day on which it ended.
    pub fn woke(&self) -> Day {
        let number = (self.end_min + self.offset_min).div_euclid(DAY_MINUTES);
        Day::from_number(i32::try_from(number).unwrap_or(0))
    }

    /// The same sleep on another clock.
    fn on_clock(self, offset_min: i64) -> ClockSpan {
        let (start_min, end_min) = (self.start_min + offset_min, self.end_min + offset_min);
        ClockSpan { start_min, end_min, is_nap: self.is_nap }
    }
}

/// A sleep or a nap, in minutes since 1970 on one clock.
#[derive(Clone, Copy, Debug)]
struct ClockSpan {
    start_min: i64,
    end_min: i64,
    is_nap: bool,
}

impl ClockSpan {
    /// The noon-to-noon day of its middle, named by the morning.
    fn day(&self) -> Day {
        let middle = i64::midpoint(self.start_min, self.end_min);
        let number = (middle + NOON_MINUTES).div_euclid(DAY_MINUTES);
        Day::from_number(i32::try_from(number).unwrap_or(0))
    }

    /// The middle in minutes after the noon before.
    fn middle(&self) -> f64 {
        let middle = i64::midpoint(self.start_min, self.end_min);
        let after_noon = (middle - NOON_MINUTES).rem_euclid(DAY_MINUTES);
        f64::from(i32::try_from(after_noon).unwrap_or(0))
    }
}

/// How regular the sleep is.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Regularity {
    /// Nights that were recorded.
    pub n: usize,
    pub n_eff: f64,
    /// Pairs of consecutive days that both have a night.
    pub pairs: usize,
    /// The Sleep Regularity Index, from −100 to 100: 100 is the same minutes every day.
    pub sri: f64,
    /// The mean middle of the night, in minutes after midnight.
    pub mid_sleep_min: f64,
    pub mid_sleep_deviation_min: f64,
    /// The distance of mid-sleep between nights that end on Saturday or Sunday and the others.
    pub social_jet_lag_min: Option<f64>,
}

/// The regularity of the sleeps from which their owner woke between two days. Days without a recorded night
/// are missing, not awake. All are on the clock of the first of them: on the clock of every day a flight would
/// look like regular sleep, and on that of the last one the nights at home may have their middle at noon, where
/// a sleep day ends.
pub fn regularity(spans: &[SleepSpan], from: Day, to: Day) -> Finding<Regularity> {
    let spans = spans.iter().filter(|span| (from..=to).contains(&span.woke()));
    let clock = spans.clone().min_by_key(|span| span.start_min).map_or(0, |span| span.offset_min);
    let spans: Vec<ClockSpan> = spans.map(|span| span.on_clock(clock)).collect();
    let mut nights: BTreeMap<Day, ClockSpan> = BTreeMap::new();
    for span in spans.iter().filter(|span| !span.is_nap && span.end_min > span.start_min) {
        let longer =
            |other: &ClockSpan| span.end_min - span.start_min > other.end_min - other.start_min;
        if nights.get(&span.day()).is_none_or(longer) {
            nights.insert(span.day(), *span);
        }
    }
    let days: Vec<Day> = nights.keys().copied().collect();
    let starts: Vec<Day> = days
        .iter()
        .zip(days.iter().skip(1))
        .filter(|(a, b)| b.since(**a) == 1)
        .map(|(a, _)| *a)
        .collect();
    if starts.len() < PAIRS_MIN {
        return Finding::not_enough("pairs of consecutive nights", starts.len(), PAIRS_MIN);
    }
    let middles = Series::from_points(nights.iter().map(|(day, span)| (*day, span.middle())));
    let mean = sample::mean(&middles.values()).unwrap_or(0.0);
    Finding::Found(Regularity {
        n: nights.len(),
        n_eff: effective::of_mean(&middles),
        pairs: starts.len(),
        sri: index(&spans, &starts),
        mid_sleep_min: (mean - 720.0).rem_euclid(1440.0),
        mid_sleep_deviation_min: sample::deviation(&middles.values()).unwrap_or(0.0),
        social_jet_lag_min: social_jet_lag(&middles),
    })
}

/// −100 + 200 times the share of minutes whose state repeats 24 hours later.
fn index(spans: &[ClockSpan], starts: &[Day]) -> f64 {
    let mut asleep: BTreeMap<Day, Vec<(i64, i64)>> = BTreeMap::new();
    for span in spans.iter().filter(|span| span.end_min > span.start_min) {
        let first = (span.start_min - NOON_MINUTES).div_euclid(DAY_MINUTES);
        let last = (span.end_min - 1 - NOON_MINUTES).div_euclid(DAY_MINUTES);
        for number in first..=last {
            let noon = number * DAY_MINUTES + NOON_MINUTES;
            let own = ((span.start_min - noon).max(0), (span.end_min - noon).min(DAY_MINUTES));
            let day = Day::from_number(i32::try_from(number + 1).unwrap_or(0));
            asleep.entry(day).or_default().push(own);
        }
    }
    let state = |day: Day| {
        let mut minutes = vec![false; 1440];
        for (start, end) in asleep.get(&day).into_iter().flatten() {
            let (from, to) =
                (usize::try_from(*start).unwrap_or(0), usize::try_from(*end).unwrap_or(0));
            minutes.iter_mut().take(to).skip(from).for_each(|minute| *minute = true);
        }
        minutes
    };
    let same: usize = starts
        .iter()
        .map(|day| {
            let (today, tomorrow) = (state(*day), state(day.plus(1)));
            today.iter().zip(&tomorrow).filter(|(a, b)| a == b).count()
        })
        .sum();
    -100.0 + 200.0 * real(same) / (1440.0 * real(starts.len()))
}

fn social_jet_lag(middles: &Series) -> Option<f64> {
    let mean = |free: bool| {
        let own = middles.points().filter(|(day, _)| day.is_weekend() == free);
        let values: Vec<f64> = own.map(|(_, middle)| middle).collect();
        sample::mean(&values).filter(|_| values.len() >= FREE_NIGHTS_MIN)
    };
    Some((mean(true)? - mean(false)?).abs())
}

/// Sleep against its need, over a window.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SleepNeed {
    pub window_days: i32,
    pub n: usize,
    pub n_eff: f64,
    pub asleep_min: f64,
    pub need_min: f64,
    /// Need minus sleep per night; negative is a surplus.
    pub short_per_night_min: f64,
    /// The sum over the nights that have both.
    pub debt_min: f64,
    pub nights_below_need: usize,
}

/// Compares sleep with need on the nights that have both.
pub fn sleep_need(asleep: &Series, need: &Series, until: Day, days: i32) -> Finding<SleepNeed> {
    let pairs = asleep.last_days(until, days).pairs(need, 0);
    let need_nights = NIGHTS_MIN.min(usize::try_from(days).unwrap_or(NIGHTS_MIN));
    if pairs.len() < need_nights.div_ceil(2) {
        return Finding::not_enough("nights", pairs.len(), need_nights.div_ceil(2));
    }
    let mean = |values: Vec<f64>| sample::mean(&values).unwrap_or(0.0);
    let short = Series::from_points(pairs.iter().map(|pair| (pair.day, pair.y - pair.x)));
    Finding::Found(SleepNeed {
        window_days: days,
        n: pairs.len(),
        n_eff: effective::of_mean(&short),
        asleep_min: mean(pairs.iter().map(|pair| pair.x).collect()),
        need_min: mean(pairs.iter().map(|pair| pair.y).collect()),
        short_per_night_min: mean(short.values()),
        debt_min: short.values().iter().sum(),
        nights_below_need: short.values().iter().filter(|short| **short > 0.0).count(),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
    use super::*;
    use proptest::prelude::*;

    fn nights(count: i64, start: impl Fn(i64) -> i64, minutes: i64) -> Vec<SleepSpan> {
        let one = |n: i64| {
            let start_min = (n + 20_000) * DAY_MINUTES + start(n);
            SleepSpan { start_min, end_min: start_min + minutes, offset_min: 0, is_nap: false }
        };
        (0..count).map(one).collect()
    }

    fn all(spans: &[SleepSpan]) -> Finding<Regularity> {
        regularity(spans, Day::from_number(0), Day::from_number(40_000))
    }

    /// Minute by minute over absolute time.
    fn slow(spans: &[ClockSpan], starts: &[Day]) -> f64 {
        let asleep = |minute: i64| spans.iter().any(|s| (s.start_min..s.end_min).contains(&minute));
        let (mut same, mut all) = (0, 0);
        for day in starts {
            let noon = (i64::from(day.number()) - 1) * DAY_MINUTES + NOON_MINUTES;
            for minute in noon..noon + DAY_MINUTES {
                same += usize::from(asleep(minute) == asleep(minute + DAY_MINUTES));
                all += 1;
            }
        }
        -100.0 + 200.0 * real(same) / real(all)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn the_index_is_the_share_of_equal_minutes(moves in prop::collection::vec(-200..200_i64, 9)) {
            let mut spans = nights(9, |n| 1380 + moves[usize::try_from(n).unwrap()], 460);
            let start_min = 20_003 * DAY_MINUTES + 700;
            spans.push(SleepSpan { start_min, end_min: start_min + 60, offset_min: 0, is_nap: true });
            let spans: Vec<ClockSpan> = spans.into_iter().map(|span| span.on_clock(0)).collect();
            let starts: Vec<Day> = (20_001..20_009).map(Day::from_number).collect();
            prop_assert!((index(&spans, &starts) - slow(&spans, &starts)).abs() < 1e-9);
        }
    }

    #[test]
    fn the_same_hours_every_night_are_fully_regular() {
        let found = all(&nights(14, |_| 1380, 480)).into_found().unwrap();
        assert!((found.sri - 100.0).abs() < 1e-9);
        assert_eq!((found.pairs, found.n), (13, 14));
        assert!(
            (found.mid_sleep_min - 180.0).abs() < 1e-9,
            "23:00 to 07:00 has its middle at 03:00"
        );
        assert_eq!(found.social_jet_lag_min, Some(0.0));
    }

    #[test]
    fn a_missing_night_is_missing_and_not_awake() {
        let mut spans = nights(20, |_| 1380, 480);
        spans.remove(10);
        let found = all(&spans).into_found().unwrap();
        assert!((found.sri - 100.0).abs() < 1e-9);
        assert_eq!(found.pairs, 17);
    }

    #[test]
    fn nights_are_on_the_clock_of_the_first_of_them() {
        // 22:30 to 07:30 in Honolulu, then in Berlin. Honolulu's nights have their middle at 15:00 of Berlin.
        let home = |n: i64| if n < 20 { -600 } else { 60 };
        let mut spans = nights(30, |_| 1350, 540);
        for (span, n) in spans.iter_mut().zip(0..) {
            let offset_min = home(n);
            let (start_min, end_min) = (span.start_min - offset_min, span.end_min - offset_min);
            *span = SleepSpan { start_min, end_min, offset_min, ..*span };
        }
        let found = all(&spans[..20]).into_found().unwrap();
        assert!((found.mid_sleep_min - 180.0).abs() < 1e-9 && (found.sri - 100.0).abs() < 1e-9);
        let from = Day::from_number(20_021);
        let abroad = regularity(&spans, from, from.plus(40)).into_found().unwrap();
        assert_eq!((abroad.n, abroad.mid_sleep_min), (10, 180.0), "{abroad:?}");
        // A flight is irregular sleep for one pair of nights.
        let both = all(&spans).into_found().unwrap();
        assert!(both.sri < 99.0 && both.n >= 29, "{both:?}");
    }

    #[test]
    fn late_weekends_are_social_jet_lag() {
        let late = |n: i64| {
            let morning = Day::from_number(i32::try_from(n + 20_001).unwrap());
            1380 + if morning.is_weekend() { 90 } else { 0 }
        };
        let found = all(&nights(28, late, 480)).into_found().unwrap();
        assert_eq!(found.social_jet_lag_min, Some(90.0));
    }
}
