//! Local calendar days as numbers, so that windows and lags are integer arithmetic.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use jiff::civil::Date;
use jiff::{Span, ToSpan as _};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

const EPOCH: Date = Date::constant(1970, 1, 1);

/// A local calendar day, counted from 1970-01-01.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day(i32);

impl Day {
    pub const fn from_number(number: i32) -> Day {
        Day(number)
    }

    pub const fn number(self) -> i32 {
        self.0
    }

    pub fn from_date(date: Date) -> Day {
        Day((date - EPOCH).get_days())
    }

    /// Saturates at the last date that a calendar can show.
    pub fn date(self) -> Date {
        let span = Span::new().try_days(self.0).unwrap_or_else(|_| 0.days());
        EPOCH.checked_add(span).unwrap_or(Date::MAX)
    }

    #[must_use]
    pub const fn plus(self, days: i32) -> Day {
        Day(self.0.saturating_add(days))
    }

    /// Days from `other` to this day.
    pub const fn since(self, other: Day) -> i32 {
        self.0.saturating_sub(other.0)
    }

    /// 0 is Monday.
    pub fn weekday(self) -> usize {
        // 1970-01-01 was a Thursday.
        usize::try_from((self.0 + 3).rem_euclid(7)).unwrap_or(0)
    }

    pub fn is_weekend(self) -> bool {
        self.weekday() >= 5
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.date().fmt(f)
    }
}

impl FromStr for Day {
    type Err = jiff::Error;

    fn from_str(text: &str) -> Result<Day, jiff::Error> {
        text.parse().map(Day::from_date)
    }
}

impl Serialize for Day {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl JsonSchema for Day {
    fn schema_name() -> Cow<'static, str> {
        "Day".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "description": "YYYY-MM-DD" })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
    use super::*;

    #[test]
    fn a_day_has_its_date_and_weekday() {
        let table = [("1970-01-01", 0, 3), ("2026-11-18", 20775, 2), ("1969-12-28", -4, 6)];
        for (text, number, weekday) in table {
            let day: Day = text.parse().unwrap();
            assert_eq!((day.number(), day.weekday()), (number, weekday), "{text}");
            assert_eq!(day.to_string(), text);
        }
    }
}
