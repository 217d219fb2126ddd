//! The last week of a metric against its range of 60 days: whether it has moved to the worse side.

use schemars::JsonSchema;
use serde::Serialize;

use crate::baseline::Position;
use crate::day::Day;
use crate::effective;
use crate::finding::{Finding, Interval};
use crate::metric::Better;
use crate::sample;
use crate::survey::Measured;

const WEEK_DAYS: i32 = 7;
const RANGE_DAYS: i32 = 60;
const WEEK_NIGHTS_MIN: usize = 3;
const RANGE_NIGHTS_MIN: usize = 30;
/// The half width of the range in standard deviations: the usual smallest worthwhile change.
const RANGE_DEVIATIONS: f64 = 0.5;

/// The mean of the last 7 days against the range of 60 days.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct WeekStatus {
    pub from: Day,
    pub to: Day,
    /// Nights of the last 7 days.
    pub n_7: usize,
    /// Nights of the last 60 days.
    pub n: usize,
    pub n_eff: f64,
    /// The geometric mean for HRV.
    pub mean_7: f64,
    /// The mean of 60 days plus and minus half a standard deviation.
    pub range: Interval,
    pub position: Position,
    /// Whether the week is on the worse side; none where no direction is better.
    pub is_worse: Option<bool>,
}

/// Compares means of weeks, because a single night says little.
pub fn week_status(own: &Measured, until: Day) -> Finding<WeekStatus> {
    let tested = own.tested();
    let (short, long) = (tested.last_days(until, WEEK_DAYS), tested.last_days(until, RANGE_DAYS));
    let (week, range) = (short.values(), long.values());
    if week.len() < WEEK_NIGHTS_MIN {
        return Finding::not_enough("nights of the last 7", week.len(), WEEK_NIGHTS_MIN);
    }
    let (true, Some(mean_7), Some(middle), Some(deviation)) = (
        range.len() >= RANGE_NIGHTS_MIN,
        sample::mean(&week),
        sample::mean(&range),
        sample::deviation(&range),
    ) else {
        return Finding::not_enough("nights of the last 60", range.len(), RANGE_NIGHTS_MIN);
    };
    let reach = RANGE_DEVIATIONS * deviation;
    let tested_range = Interval { low: middle - reach, high: middle + reach };
    let position = Position::of(mean_7, tested_range);
    let shown = |value: f64| if own.metric.is_log { value.exp() } else { value };
    Finding::Found(WeekStatus {
        from: until.plus(1 - WEEK_DAYS),
        to: until,
        n_7: week.len(),
        n: range.len(),
        n_eff: effective::of_mean(&long),
        mean_7: shown(mean_7),
        range: tested_range.map(shown),
        position,
        is_worse: match own.metric.better {
            Better::Higher => Some(position == Position::Below),
            Better::Lower => Some(position == Position::Above),
            Better::Neither => None,
        },
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::baseline::hrv_status;
    use crate::metric::{Metric, Unit};
    use crate::series::Series;

    fn measured(better: Better, is_log: bool, last_week: f64) -> Measured {
        let before = (0..53).map(|n| 50.0 + f64::from(n % 5));
        let values = before.chain([last_week; 7]);
        let metric = Metric { name: "m", title: "M", unit: Unit::Milliseconds, better, is_log };
        Measured { metric, series: Series::from_points((0..).map(Day::from_number).zip(values)) }
    }

    #[test]
    fn the_worse_side_depends_on_the_metric() {
        let until = Day::from_number(59);
        let table = [
            (Better::Higher, 45.0, Some(true)),
            (Better::Higher, 60.0, Some(false)),
            (Better::Lower, 60.0, Some(true)),
            (Better::Lower, 52.0, Some(false)),
            (Better::Neither, 60.0, None),
        ];
        for (better, last_week, is_worse) in table {
            let found = week_status(&measured(better, false, last_week), until);
            assert_eq!(found.into_found().unwrap().is_worse, is_worse, "{better:?} {last_week}");
        }
        let short = week_status(&measured(Better::Higher, false, 50.0), Day::from_number(20));
        assert_eq!(short, Finding::not_enough("nights of the last 60", 21, 30));
    }

    #[test]
    fn hrv_has_the_status_of_its_logarithm() {
        let (own, until) = (measured(Better::Higher, true, 44.0), Day::from_number(59));
        let (week, hrv) = (week_status(&own, until), hrv_status(&own.series, until));
        let (week, hrv) = (week.into_found().unwrap(), hrv.into_found().unwrap());
        assert_eq!((week.position, week.n, week.n_7), (hrv.position, hrv.n, hrv.n_7));
        assert!((week.mean_7 - hrv.mean_7_ms).abs() < 1e-9);
    }
}
