//! Personal records and streaks.

use schemars::JsonSchema;
use serde::Serialize;

use crate::day::Day;
use crate::finding::Finding;
use crate::metric::Better;
use crate::sample::real;
use crate::series::Series;

const DAYS_MIN: usize = 7;

/// A value on its day.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct OnDay {
    pub day: Day,
    pub value: f64,
}

/// The extremes of a metric.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PersonalRecords {
    pub n: usize,
    /// The same number: an extreme is one of these days.
    pub n_eff: f64,
    pub highest: OnDay,
    pub lowest: OnDay,
    /// Which of the two is better; none where neither is.
    pub best: Option<OnDay>,
}

/// The highest and the lowest day; of equal days the latest.
pub fn records(series: &Series, better: Better) -> Finding<PersonalRecords> {
    let n = series.n();
    let on_day = |(day, value): (Day, f64)| OnDay { day, value };
    let highest = series.points().max_by(|a, b| a.1.total_cmp(&b.1)).map(on_day);
    let lowest = series.points().rev().min_by(|a, b| a.1.total_cmp(&b.1)).map(on_day);
    let (true, Some(highest), Some(lowest)) = (n >= DAYS_MIN, highest, lowest) else {
        return Finding::not_enough("days", n, DAYS_MIN);
    };
    let best = match better {
        Better::Higher => Some(highest),
        Better::Lower => Some(lowest),
        Better::Neither => None,
    };
    Finding::Found(PersonalRecords { n, n_eff: real(n), highest, lowest, best })
}

/// A run of days in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Streak {
    pub from: Day,
    pub to: Day,
    pub days: i32,
}

/// The streaks of days on which something held.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Streaks {
    pub n: usize,
    pub n_eff: f64,
    /// The one that reaches the last day; none where it does not hold there.
    pub current: Option<Streak>,
    pub longest: Option<Streak>,
}

/// Days in a row on which `holds`. A missing day ends a streak.
pub fn streaks(series: &Series, until: Day, holds: impl Fn(f64) -> bool) -> Streaks {
    let mut all: Vec<Streak> = Vec::new();
    for (day, _) in series.points().filter(|(day, value)| *day <= until && holds(*value)) {
        match all.last_mut().filter(|last| day.since(last.to) == 1) {
            Some(last) => {
                last.to = day;
                last.days += 1;
            }
            None => all.push(Streak { from: day, to: day, days: 1 }),
        }
    }
    let n = series.n();
    let current = all.last().filter(|last| last.to == until).copied();
    Streaks { n, n_eff: real(n), current, longest: all.iter().max_by_key(|own| own.days).copied() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
    use super::*;

    #[test]
    fn the_best_day_depends_on_the_metric_and_a_gap_ends_a_streak() {
        let values = [50.0, 60.0, 70.0, 40.0, 55.0, 65.0, 66.0, 67.0];
        let days = [0, 1, 2, 3, 4, 6, 7, 8].map(Day::from_number);
        let series = Series::from_points(days.into_iter().zip(values));
        let best =
            |better| records(&series, better).into_found().unwrap().best.map(|own| own.value);
        assert_eq!(best(Better::Higher), Some(70.0));
        assert_eq!(best(Better::Lower), Some(40.0));
        assert_eq!(best(Better::Neither), None);
        let found = streaks(&series, Day::from_number(8), |value| value > 45.0);
        assert_eq!(found.current.map(|own| own.days), Some(3));
        assert_eq!(found.longest.map(|own| (own.from, own.days)), Some((Day::from_number(6), 3)));
    }
}
