//! Dates in words. Every phrase is a span of time in the owner's zone: weeks begin on Monday,
//! `last 30 days` reaches from the midnight thirty days back until now.

use jiff::civil::{Date, Weekday};

use super::{Here, Span, local_date, midnight_us};

/// Shown if no phrase matches.
pub const NATURAL_FORMS: &str =
    "`yesterday`, `3 days ago`, `last 30 days`, `this week`, `monday`, `2026-04`, `14 april 2026`";

/// The longest span, so that no phrase leaves the calendar.
const COUNT_MAX: i64 = 100_000;
const HOUR_US: i64 = 3_600_000_000;

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

#[derive(Clone, Copy, PartialEq)]
enum Unit {
    Hour,
    Day,
    Week,
    Month,
    Year,
}

pub(super) fn read(text: &str, here: Here) -> Option<Span> {
    let folded = text.trim().to_ascii_lowercase().replace(',', " ");
    let words: Vec<&str> = folded.split_whitespace().collect();
    let today = local_date(here.now_us, here.offset_s)?;
    match words.as_slice() {
        ["now"] => Some(Span { from_us: here.now_us, to_us: here.now_us }),
        ["today"] => days(today, today, here),
        ["yesterday"] => one_day(back(today, 1, Unit::Day)?, here),
        ["tomorrow"] => one_day(back(today, -1, Unit::Day)?, here),
        ["this" | "current", word] => around(today, one_unit(word)?, here),
        ["last" | "past" | "previous", word] => match weekday(word) {
            Some(weekday) => one_day(latest(weekday, back(today, 1, Unit::Day)?)?, here),
            None => before(today, one_unit(word)?, here),
        },
        ["last" | "past" | "previous", count, unit_word] => {
            until_now(today, number(count)?, unit(unit_word)?, here)
        }
        [count, unit_word, "ago"] => ago(today, number(count)?, unit(unit_word)?, here),
        [word] => single(word, today, here),
        [first, second] => month_and(first, second, today, here),
        [day, month, year] => {
            dated(day, month, year, here).or_else(|| dated(month, day, year, here))
        }
        _ => None,
    }
}

fn number(word: &str) -> Option<i64> {
    let count = match word {
        "a" | "an" | "one" => 1,
        "two" => 2,
        "three" => 3,
        _ if word.bytes().all(|byte| byte.is_ascii_digit()) => word.parse().ok()?,
        _ => return None,
    };
    (1..=COUNT_MAX).contains(&count).then_some(count)
}

fn unit(word: &str) -> Option<Unit> {
    match word.strip_suffix('s').unwrap_or(word) {
        "hour" => Some(Unit::Hour),
        "day" => Some(Unit::Day),
        "week" => Some(Unit::Week),
        "month" => Some(Unit::Month),
        "year" => Some(Unit::Year),
        _ => None,
    }
}

/// One whole unit: `last week`, but not `last weeks`.
fn one_unit(word: &str) -> Option<Unit> {
    if word.ends_with('s') { None } else { unit(word) }
}

fn weekday(word: &str) -> Option<Weekday> {
    let all = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
    let at =
        all.iter().position(|name| *name == word || (word.len() == 3 && name.starts_with(word)))?;
    Weekday::from_monday_zero_offset(i8::try_from(at).ok()?).ok()
}

fn month(word: &str) -> Option<i8> {
    let at = MONTHS
        .iter()
        .position(|name| *name == word || (word.len() == 3 && name.starts_with(word)))?;
    i8::try_from(at + 1).ok()
}

fn back(date: Date, count: i64, unit: Unit) -> Option<Date> {
    let span = jiff::Span::new();
    let span = match unit {
        Unit::Hour | Unit::Day => span.try_days(count),
        Unit::Week => span.try_weeks(count),
        Unit::Month => span.try_months(count),
        Unit::Year => span.try_years(count),
    };
    date.checked_sub(span.ok()?).ok()
}

fn days(first: Date, last: Date, here: Here) -> Option<Span> {
    Some(Span {
        from_us: midnight_us(first, here.offset_s)?,
        to_us: midnight_us(back(last, -1, Unit::Day)?, here.offset_s)?,
    })
}

fn one_day(date: Date, here: Here) -> Option<Span> {
    days(date, date, here)
}

/// The latest such weekday up to and including a date.
fn latest(weekday: Weekday, up_to: Date) -> Option<Date> {
    back(up_to, i64::from(up_to.weekday().since(weekday)), Unit::Day)
}

fn first_of(date: Date, unit: Unit) -> Option<Date> {
    match unit {
        Unit::Week => latest(Weekday::Monday, date),
        Unit::Month => Some(date.first_of_month()),
        Unit::Year => Some(date.first_of_year()),
        Unit::Hour | Unit::Day => Some(date),
    }
}

/// The whole day, week, month or year that holds a date.
fn around(date: Date, unit: Unit, here: Here) -> Option<Span> {
    if unit == Unit::Hour {
        return None;
    }
    let first = first_of(date, unit)?;
    days(first, back(back(first, -1, unit)?, 1, Unit::Day)?, here)
}

fn before(date: Date, unit: Unit, here: Here) -> Option<Span> {
    around(back(first_of(date, unit)?, 1, unit)?, unit, here)
}

fn until_now(today: Date, count: i64, unit: Unit, here: Here) -> Option<Span> {
    let from_us = match unit {
        Unit::Hour => here.now_us.checked_sub(count.checked_mul(HOUR_US)?)?,
        _ => midnight_us(back(today, count, unit)?, here.offset_s)?,
    };
    Some(Span { from_us, to_us: here.now_us })
}

fn ago(today: Date, count: i64, unit: Unit, here: Here) -> Option<Span> {
    if unit == Unit::Hour {
        let at_us = here.now_us.checked_sub(count.checked_mul(HOUR_US)?)?;
        return Some(Span { from_us: at_us, to_us: at_us });
    }
    one_day(back(today, count, unit)?, here)
}

/// `monday`, `april`, `2026`, `2026-04`, `2026-4-9`.
fn single(word: &str, today: Date, here: Here) -> Option<Span> {
    if let Some(weekday) = weekday(word) {
        return one_day(latest(weekday, today)?, here);
    }
    if let Some(month) = month(word) {
        let year = if month > today.month() { today.year() - 1 } else { today.year() };
        return around(Date::new(year, month, 1).ok()?, Unit::Month, here);
    }
    let mut fields = word.split('-');
    let year = year(fields.next()?)?;
    match (fields.next(), fields.next()) {
        (None, None) => around(Date::new(year, 1, 1).ok()?, Unit::Year, here),
        (Some(month), None) => around(Date::new(year, small(month)?, 1).ok()?, Unit::Month, here),
        _ => None,
    }
}

/// `april 2026`, `14 april`, `april 14`.
fn month_and(first: &str, second: &str, today: Date, here: Here) -> Option<Span> {
    let (month, other) = match (month(first), month(second)) {
        (Some(month), None) => (month, second),
        (None, Some(month)) => (month, first),
        _ => return None,
    };
    if let Some(year) = year(other) {
        return around(Date::new(year, month, 1).ok()?, Unit::Month, here);
    }
    let date = Date::new(today.year(), month, small(other)?).ok()?;
    one_day(if date > today { back(date, 1, Unit::Year)? } else { date }, here)
}

fn dated(day: &str, month_word: &str, year_word: &str, here: Here) -> Option<Span> {
    one_day(Date::new(year(year_word)?, month(month_word)?, small(day)?).ok()?, here)
}

fn year(word: &str) -> Option<i16> {
    let plain = word.len() == 4 && word.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| word.parse().ok())?.filter(|year| *year > 0)
}

fn small(word: &str) -> Option<i8> {
    let plain = (1..=2).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| word.parse().ok())?
}
