//! One value per local day. A missing day is missing, never zero.

use crate::day::Day;
use crate::sample;

/// Days to each side of the running median, and the robust deviations from it that an ordinary day has
/// at most.
const RUNNING_DAYS: i32 = 14;
const ORDINARY_DEVIATIONS: f64 = 2.5;
/// Weekday means are removed only when every weekday was seen this often.
const WEEKS_MIN: usize = 4;

/// Values by local day, from the first to the last day that has one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    first: Day,
    values: Vec<Option<f64>>,
}

/// Two values of one pair of days.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// The day of `x`.
    pub day: Day,
    pub x: f64,
    pub y: f64,
}

impl Series {
    /// Of two values for one day the later counts. A value that is not finite is missing.
    pub fn from_points(points: impl IntoIterator<Item = (Day, f64)>) -> Series {
        let mut points: Vec<(Day, f64)> =
            points.into_iter().filter(|(_, value)| value.is_finite()).collect();
        points.sort_by_key(|(day, _)| *day);
        let Some((first, _)) = points.first().copied() else { return Series::default() };
        let mut values: Vec<Option<f64>> = Vec::new();
        for (day, value) in points {
            let at = usize::try_from(day.since(first)).unwrap_or(0);
            if values.len() <= at {
                values.resize(at + 1, None);
            }
            if let Some(slot) = values.get_mut(at) {
                *slot = Some(value);
            }
        }
        Series { first, values }
    }

    pub fn get(&self, day: Day) -> Option<f64> {
        let at = usize::try_from(day.since(self.first)).ok()?;
        self.values.get(at).copied().flatten()
    }

    /// The number of days with a value.
    pub fn n(&self) -> usize {
        self.values.iter().flatten().count()
    }

    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    pub fn points(&self) -> impl DoubleEndedIterator<Item = (Day, f64)> + '_ {
        let first = self.first.number();
        self.values.iter().enumerate().filter_map(move |(at, value)| {
            let day = Day::from_number(first + i32::try_from(at).ok()?);
            Some((day, (*value)?))
        })
    }

    pub fn values(&self) -> Vec<f64> {
        self.values.iter().flatten().copied().collect()
    }

    pub fn first_day(&self) -> Option<Day> {
        self.points().next().map(|(day, _)| day)
    }

    pub fn last_day(&self) -> Option<Day> {
        self.points().next_back().map(|(day, _)| day)
    }

    /// The days from `from` to `to`, both included.
    #[must_use]
    pub fn between(&self, from: Day, to: Day) -> Series {
        Series::from_points(self.points().filter(|(day, _)| (from..=to).contains(day)))
    }

    /// The `days` days that end with `to`.
    #[must_use]
    pub fn last_days(&self, to: Day, days: i32) -> Series {
        self.between(to.plus(1 - days), to)
    }

    #[must_use]
    pub fn map(&self, change: impl Fn(f64) -> f64) -> Series {
        Series::from_points(self.points().map(|(day, value)| (day, change(value))))
    }

    /// Values of this series with those of `other`, `lag` days later.
    pub fn pairs(&self, other: &Series, lag: i32) -> Vec<Pair> {
        let pair = |(day, x): (Day, f64)| Some(Pair { day, x, y: other.get(day.plus(lag))? });
        self.points().filter_map(pair).collect()
    }

    /// Whether every weekday was seen often enough for a mean of its own.
    pub fn knows_its_weekdays(&self) -> bool {
        let mut seen = [0_usize; 7];
        for (day, _) in self.points() {
            if let Some(count) = seen.get_mut(day.weekday()) {
                *count += 1;
            }
        }
        seen.iter().all(|count| *count >= WEEKS_MIN)
    }

    /// The series without its weekly rhythm: the mean of each weekday becomes the mean of the whole.
    /// Unchanged when a weekday was seen fewer than four times.
    #[must_use]
    pub fn without_weekday_means(&self) -> Series {
        let mut by_weekday: [Vec<f64>; 7] = Default::default();
        for (day, value) in self.points() {
            if let Some(values) = by_weekday.get_mut(day.weekday()) {
                values.push(value);
            }
        }
        if !self.knows_its_weekdays() {
            return self.clone();
        }
        let whole = sample::mean(&self.values()).unwrap_or(0.0);
        let means = by_weekday.map(|values| sample::mean(&values).unwrap_or(whole));
        let of = |day: Day| means.get(day.weekday()).copied().unwrap_or(whole);
        Series::from_points(self.points().map(|(day, value)| (day, value - of(day) + whole)))
    }

    /// The series without days that are far from the running median of four weeks, so that a short illness
    /// is neither memory nor a change of level.
    #[must_use]
    pub fn without_outliers(&self) -> Series {
        let points: Vec<(Day, f64)> = self.points().collect();
        let mut start = 0;
        let away: Vec<f64> = points
            .iter()
            .map(|(day, value)| {
                let is_before = |(other, _): &&(Day, f64)| day.since(*other) > RUNNING_DAYS;
                start += points.iter().skip(start).take_while(is_before).count();
                let near = points.iter().skip(start);
                let near = near.take_while(|(other, _)| other.since(*day) <= RUNNING_DAYS);
                let near: Vec<f64> = near.map(|(_, value)| *value).collect();
                value - sample::median(&near).unwrap_or(*value)
            })
            .collect();
        let spread = sample::robust_deviation(&away).unwrap_or(0.0);
        if spread < 1e-9 {
            return self.clone();
        }
        let ordinary =
            points.iter().zip(&away).filter(|(_, away)| away.abs() <= ORDINARY_DEVIATIONS * spread);
        Series::from_points(ordinary.map(|(point, _)| *point))
    }

    /// The memory of one day: the autocorrelation of ordinary days, corrected for the bias of short
    /// series, from 0 to 0.95.
    pub fn memory(&self) -> f64 {
        let n = sample::real(self.n());
        if n < 10.0 {
            return 0.0;
        }
        ((n * self.without_outliers().autocorrelation(1) + 1.0) / (n - 4.0)).clamp(0.0, 0.95)
    }

    /// The correlation of the series with itself `lag` days later, over the days that have both.
    pub fn autocorrelation(&self, lag: i32) -> f64 {
        let values = self.values();
        let (Some(mean), Some(variance)) = (sample::mean(&values), sample::variance(&values))
        else {
            return 0.0;
        };
        let products: Vec<f64> =
            self.pairs(self, lag).iter().map(|pair| (pair.x - mean) * (pair.y - mean)).collect();
        match sample::mean(&products) {
            Some(covariance) if variance > 0.0 => (covariance / variance).clamp(-1.0, 1.0),
            _ => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(values: &[Option<f64>]) -> Series {
        let days = (20_000..).map(Day::from_number);
        Series::from_points(days.zip(values).filter_map(|(day, value)| Some((day, (*value)?))))
    }

    #[test]
    fn a_missing_day_is_not_zero_and_makes_no_pair() {
        let own = series(&[Some(1.0), None, Some(3.0), Some(f64::NAN), Some(5.0)]);
        assert_eq!((own.n(), own.values()), (3, vec![1.0, 3.0, 5.0]));
        assert_eq!(own.pairs(&own, 1), []);
        assert_eq!(own.pairs(&own, 2).len(), 2);
    }

    #[test]
    fn a_weekly_rhythm_is_removed_and_the_mean_stays() {
        let weekly = series(&(0..70).map(|day| Some(f64::from(day % 7))).collect::<Vec<_>>());
        let flat = weekly.without_weekday_means();
        assert!(flat.values().iter().all(|value| (value - 3.0).abs() < 1e-9));
    }

    #[test]
    fn a_window_ends_with_its_day() {
        let long = series(&[Some(1.0); 30]);
        let week = long.last_days(Day::from_number(20_010), 7);
        assert_eq!(week.n(), 7);
        assert_eq!(week.first_day(), Some(Day::from_number(20_004)));
    }
}
