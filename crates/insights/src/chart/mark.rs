//! The marks of a chart: days, or means of weeks and months where days would be too many to see.

use crate::day::Day;
use crate::sample;
use crate::series::Series;

/// A value of one day, or the mean of several.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mark {
    pub from: Day,
    pub to: Day,
    pub value: f64,
    /// Days with a value.
    pub n: usize,
}

impl Mark {
    /// The middle, as a number of days.
    pub(super) fn middle(&self) -> f64 {
        f64::midpoint(f64::from(self.from.number()), f64::from(self.to.number()))
    }

    /// The day, or the days with their number.
    pub fn when(&self) -> String {
        if self.from == self.to {
            return self.from.to_string();
        }
        format!("{} to {}", self.from, self.to)
    }

    /// What a mark says on hover and focus.
    pub(super) fn text(&self, value: &str) -> String {
        let days = if self.from == self.to { String::new() } else { format!(", {} days", self.n) };
        format!("{}: {value}{days}", self.when())
    }
}

/// The marks of a series: each day, or means of `days` days from a Monday or the first of a month on. 28 and
/// more days are calendar months.
pub fn marks(series: &Series, days: i32) -> Vec<Mark> {
    let points: Vec<(Day, f64)> = series.points().collect();
    let same = |a: &(Day, f64), b: &(Day, f64)| group(a.0, days) == group(b.0, days);
    let of = |run: &[(Day, f64)]| {
        let values: Vec<f64> = run.iter().map(|(_, value)| *value).collect();
        let (from, to) = (run.first()?.0, run.last()?.0);
        Some(Mark { from, to, value: sample::mean(&values)?, n: values.len() })
    };
    points.chunk_by(same).filter_map(of).collect()
}

/// A number that is the same for all days of a group.
fn group(day: Day, days: i32) -> i32 {
    match days {
        ..=1 => day.number(),
        // 1970-01-05 was a Monday.
        2..=27 => (day.number() - 4).div_euclid(days),
        _ => {
            let date = day.date();
            i32::from(date.year()) * 12 + i32::from(date.month())
        }
    }
}
