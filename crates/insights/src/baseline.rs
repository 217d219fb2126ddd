//! What is usual for the owner: the robust baseline of a metric, and the 7-day HRV mean against the
//! range of 60 days.

use schemars::JsonSchema;
use serde::Serialize;

use crate::day::Day;
use crate::effective;
use crate::finding::{Finding, Interval};
use crate::metric::Metric;
use crate::sample;
use crate::series::Series;

/// The windows that a baseline is shown for.
pub const WINDOWS_DAYS: [i32; 3] = [14, 30, 90];
/// A baseline needs values on half of its days.
const SHARE_MIN: usize = 2;
/// The usual range is the median plus and minus this many robust deviations.
const RANGE_DEVIATIONS: f64 = 2.0;

const HRV_SHORT_DAYS: i32 = 7;
const HRV_LONG_DAYS: i32 = 60;
/// Nights that a 7-day mean needs (Plews 2014) and that a coefficient of variation needs (Flatt 2015).
const HRV_NIGHTS_MIN: usize = 3;
const HRV_NIGHTS_FOR_CV: usize = 5;
const HRV_RANGE_NIGHTS_MIN: usize = 30;
/// The half width of the HRV range in standard deviations: the usual smallest worthwhile change.
const HRV_RANGE_DEVIATIONS: f64 = 0.5;

/// The robust baseline of a window.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Baseline {
    pub window_days: i32,
    /// Days with a value.
    pub n: usize,
    /// The number of independent values that they are worth.
    pub n_eff: f64,
    pub median: f64,
    /// 1.4826 times the median absolute deviation.
    pub spread: f64,
    /// The median plus and minus two spreads, within what is possible.
    pub usual: Interval,
}

impl Baseline {
    /// The same with a usual range that has only possible values of the metric.
    #[must_use]
    pub fn of(self, metric: &Metric) -> Baseline {
        Baseline { usual: metric.cut(self.usual), ..self }
    }
}

/// The baseline of the `days` days that end with `until`.
pub fn baseline(series: &Series, until: Day, days: i32) -> Finding<Baseline> {
    let window = series.last_days(until, days);
    let values = window.values();
    let need = usize::try_from(days).unwrap_or(0).div_ceil(SHARE_MIN).max(2);
    let (true, Some(median), Some(spread)) =
        (values.len() >= need, sample::median(&values), sample::robust_deviation(&values))
    else {
        return Finding::not_enough("nights", values.len(), need);
    };
    let reach = RANGE_DEVIATIONS * spread;
    Finding::Found(Baseline {
        window_days: days,
        n: values.len(),
        n_eff: effective::of_mean(&window),
        median,
        spread,
        usual: Interval { low: median - reach, high: median + reach },
    })
}

/// Where a value is, compared with a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Position {
    Below,
    Within,
    Above,
}

impl Position {
    /// Between a subject and its range.
    pub fn text(self) -> &'static str {
        match self {
            Position::Below => "below",
            Position::Within => "within",
            Position::Above => "above",
        }
    }

    pub fn of(value: f64, range: Interval) -> Position {
        if value < range.low {
            Position::Below
        } else if value > range.high {
            Position::Above
        } else {
            Position::Within
        }
    }
}

/// The 7-day mean of ln RMSSD against its range over 60 days, shown in milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct HrvStatus {
    /// Nights of the last 7 days.
    pub n_7: usize,
    /// Nights of the last 60 days.
    pub n: usize,
    pub n_eff: f64,
    /// The geometric mean of the last 7 days.
    pub mean_7_ms: f64,
    pub range_ms: Interval,
    /// Half the width of the range in standard deviations of ln RMSSD.
    pub range_deviations: f64,
    pub position: Position,
    /// The coefficient of variation of ln RMSSD over 7 days, from 5 nights.
    pub cv_pct: Option<f64>,
}

/// Compares the 7-day mean with the range, never a single night.
pub fn hrv_status(hrv_ms: &Series, until: Day) -> Finding<HrvStatus> {
    let logs = Series::from_points(
        hrv_ms.points().filter(|(_, ms)| *ms > 0.0).map(|(day, ms)| (day, ms.ln())),
    );
    let (short, long) =
        (logs.last_days(until, HRV_SHORT_DAYS), logs.last_days(until, HRV_LONG_DAYS));
    let (week, range) = (short.values(), long.values());
    if week.len() < HRV_NIGHTS_MIN {
        return Finding::not_enough("nights of the last 7", week.len(), HRV_NIGHTS_MIN);
    }
    let (true, Some(mean_7), Some(mean), Some(deviation)) = (
        range.len() >= HRV_RANGE_NIGHTS_MIN,
        sample::mean(&week),
        sample::mean(&range),
        sample::deviation(&range),
    ) else {
        return Finding::not_enough("nights of the last 60", range.len(), HRV_RANGE_NIGHTS_MIN);
    };
    let reach = HRV_RANGE_DEVIATIONS * deviation;
    let logs = Interval { low: mean - reach, high: mean + reach };
    let cv = sample::deviation(&week).filter(|_| week.len() >= HRV_NIGHTS_FOR_CV);
    Finding::Found(HrvStatus {
        n_7: week.len(),
        n: range.len(),
        n_eff: effective::of_mean(&long),
        mean_7_ms: mean_7.exp(),
        range_ms: logs.map(f64::exp),
        range_deviations: HRV_RANGE_DEVIATIONS,
        position: Position::of(mean_7, logs),
        cv_pct: cv.map(|deviation| 100.0 * deviation / mean_7),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
    use super::*;

    fn series(values: impl IntoIterator<Item = f64>) -> Series {
        Series::from_points((0..).map(Day::from_number).zip(values))
    }

    #[test]
    fn a_single_bad_night_does_not_move_the_baseline() {
        let mut values: Vec<f64> = (0..30).map(|n| 60.0 + f64::from(n % 5)).collect();
        let before = baseline(&series(values.clone()), Day::from_number(29), 30);
        values[12] = 500.0;
        let after = baseline(&series(values), Day::from_number(29), 30);
        let (before, after) = (before.into_found().unwrap(), after.into_found().unwrap());
        assert!((before.median - after.median).abs() < 1.01);
        assert_eq!((before.n, after.n), (30, 30));
    }

    #[test]
    fn too_few_nights_say_how_many_are_missing() {
        let short = series([50.0, 51.0, 52.0]);
        let Finding::NotEnoughData(shortfall) = baseline(&short, Day::from_number(2), 30) else {
            unreachable!("three nights are no baseline");
        };
        assert_eq!((shortfall.have, shortfall.need, shortfall.missing), (3, 15, 12));
    }

    #[test]
    fn a_suppressed_week_is_below_the_range() {
        let values = (0..60).map(|n| if n >= 53 { 45.0 } else { 60.0 + f64::from(n % 7) });
        let status = hrv_status(&series(values), Day::from_number(59)).into_found().unwrap();
        assert_eq!((status.position, status.n_7, status.n), (Position::Below, 7, 60));
        assert!((status.mean_7_ms - 45.0).abs() < 1e-9);
    }
}
