//! Parses times and spans: ISO-8601 in all its forms, and
//! words such as `yesterday` or `last 30 days` in the owner's zone. The clock is an argument.

mod iso;
mod natural;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::Offset;

pub use natural::NATURAL_FORMS;

const DAY_US: i64 = 86_400_000_000;
const EPOCH: Date = Date::constant(1970, 1, 1);

/// The current time and zone for parsing a date.
#[derive(Clone, Copy, Debug)]
pub struct Here {
    pub now_us: i64,
    /// The owner's offset from UTC.
    pub offset_s: i32,
}

/// The meaning of a date argument: an instant for ISO forms, a whole span for words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub from_us: i64,
    /// Exclusive.
    pub to_us: i64,
}

/// A text that matches no form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "not a date or time; write ISO-8601 such as `2026-04-14T06:30:00Z` or words such as {NATURAL_FORMS}"
)]
pub struct Unreadable;

/// Parses a lower bound. A bare ISO date is midnight UTC, as WHOOP's clients expect; words begin at
/// midnight in the owner's zone.
pub fn start_us(text: &str, here: Here) -> Result<i64, Unreadable> {
    read(text, here).map(|span| span.from_us)
}

/// Parses an exclusive upper bound. Words include their span: up to the end of yesterday.
pub fn end_us(text: &str, here: Here) -> Result<i64, Unreadable> {
    read(text, here).map(|span| span.to_us)
}

fn read(text: &str, here: Here) -> Result<Span, Unreadable> {
    match iso::read(text) {
        Some(iso) => Ok(Span { from_us: iso.instant_us, to_us: iso.instant_us }),
        None => natural::read(text, here).ok_or(Unreadable),
    }
}

/// An ISO-8601 instant; without an offset it is UTC.
pub fn instant_us(text: &str) -> Option<i64> {
    iso::read(text).map(|iso| iso.instant_us)
}

/// A bare ISO date in any form, or a day in words; `today` is in the owner's zone.
pub fn day(text: &str, here: Here) -> Option<Date> {
    if let Some(iso) = iso::read(text) {
        return iso.bare_date;
    }
    let span = natural::read(text, here)?;
    (span.to_us - span.from_us == DAY_US).then(|| local_date(span.from_us, here.offset_s))?
}

/// Whether a text is a time in words, not in ISO-8601.
pub fn is_words(text: &str) -> bool {
    iso::read(text).is_none()
}

/// The days that a text names: the UTC day of a bare ISO date; for words all days of the span, in
/// the owner's zone.
pub fn days(text: &str, here: Here) -> Option<Span> {
    if let Some(iso) = iso::read(text) {
        return day_span(iso.bare_date?, 0);
    }
    let span = natural::read(text, here)?;
    let last_us = span.from_us.max(span.to_us - 1);
    let first = local_date(span.from_us, here.offset_s)?;
    let last = local_date(last_us, here.offset_s)?;
    let from_us = midnight_us(first, here.offset_s)?;
    Some(Span { from_us, to_us: day_span(last, here.offset_s)?.to_us })
}

/// `YYYY-MM-DD` exactly, and a day that exists.
pub fn strict_date(text: &str) -> Option<Date> {
    let dashed = text.len() == 10
        && text.bytes().enumerate().all(|(at, byte)| match at {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    if dashed { iso::read(text)?.bare_date } else { None }
}

/// Bounds of a calendar day at an offset.
pub fn day_span(date: Date, offset_s: i32) -> Option<Span> {
    let from_us = midnight_us(date, offset_s)?;
    Some(Span { from_us, to_us: from_us + DAY_US })
}

pub(crate) fn midnight_us(date: Date, offset_s: i32) -> Option<i64> {
    // Timestamps end a day before the calendar, and programs write `9999-12-31` for "no end".
    let utc_us = date.duration_since(EPOCH).as_secs().checked_mul(1_000_000)?;
    utc_us.checked_sub(i64::from(offset_s) * 1_000_000)
}

/// The calendar day of an instant at an offset.
pub fn local_date(instant_us: i64, offset_s: i32) -> Option<Date> {
    let offset = Offset::from_seconds(offset_s).ok()?;
    Some(offset.to_datetime(Timestamp::from_microsecond(instant_us).ok()?).date())
}

/// An instant at an offset: no fraction if it is zero, else six digits.
pub fn local_text(instant_us: i64, offset_s: i32) -> Option<String> {
    let offset = Offset::from_seconds(offset_s).ok()?;
    let local = offset.to_datetime(Timestamp::from_microsecond(instant_us).ok()?);
    let micros = instant_us.rem_euclid(1_000_000);
    let fraction = if micros == 0 { String::new() } else { format!(".{micros:06}") };
    let (sign, minutes) = if offset_s < 0 { ('-', -offset_s / 60) } else { ('+', offset_s / 60) };
    Some(format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}{fraction}{sign}{:02}:{:02}",
        local.year(),
        local.month(),
        local.day(),
        local.hour(),
        local.minute(),
        local.second(),
        minutes / 60,
        minutes % 60
    ))
}

/// `YYYY-MM-DDTHH:MM:SS.ffffffZ`.
pub fn utc_micros(instant_us: i64) -> String {
    utc(instant_us, &format!("{:06}", instant_us.rem_euclid(1_000_000)))
}

/// `YYYY-MM-DDTHH:MM:SS.fffZ`, the form WHOOP takes and sends.
pub fn utc_millis(instant_us: i64) -> String {
    utc(instant_us, &format!("{:03}", instant_us.rem_euclid(1_000_000) / 1000))
}

/// `YYYY-MM-DDTHH:MM:SSZ`, without parts of a second.
pub fn utc_seconds(instant_us: i64) -> String {
    let text = utc(instant_us, "");
    text.replace(".Z", "Z")
}

fn utc(instant_us: i64, fraction: &str) -> String {
    let clamped =
        instant_us.clamp(Timestamp::MIN.as_microsecond() + 1, Timestamp::MAX.as_microsecond() - 1);
    let at = Timestamp::from_microsecond(clamped).unwrap_or(Timestamp::UNIX_EPOCH);
    let at = Offset::UTC.to_datetime(at);
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{fraction}Z",
        at.year(),
        at.month(),
        at.day(),
        at.hour(),
        at.minute(),
        at.second()
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    /// Wednesday 15 April 2026, 10:00 in Berlin summer time.
    const HERE: Here = Here { now_us: 1_776_240_000_000_000, offset_s: 7200 };

    fn text(instant_us: i64) -> String {
        local_text(instant_us, HERE.offset_s).unwrap()
    }

    #[test]
    fn iso_forms_are_instants_and_naive_ones_are_utc() {
        for (given, expected) in [
            ("2026-04-14", "2026-04-14T00:00:00.000Z"),
            ("20260414", "2026-04-14T00:00:00.000Z"),
            ("2026-4-9", "2026-04-09T00:00:00.000Z"),
            ("2026-W16-2", "2026-04-14T00:00:00.000Z"),
            ("2026W162", "2026-04-14T00:00:00.000Z"),
            ("2026-W16", "2026-04-13T00:00:00.000Z"),
            ("2026-104", "2026-04-14T00:00:00.000Z"),
            ("2026-04-14T06:30:00Z", "2026-04-14T06:30:00.000Z"),
            ("2026-04-14 06:30", "2026-04-14T06:30:00.000Z"),
            ("2026-04-14T06", "2026-04-14T06:00:00.000Z"),
            ("2026-04-14T063015", "2026-04-14T06:30:15.000Z"),
            ("2026-04-14T06:30:15.5+02:00", "2026-04-14T04:30:15.500Z"),
            ("2026-04-14T06:30:15,123456789Z", "2026-04-14T06:30:15.123Z"),
            ("2026-04-14T00:30-0530", "2026-04-14T06:00:00.000Z"),
            ("2026-04-14T00:30:00+05", "2026-04-13T19:30:00.000Z"),
        ] {
            assert_eq!(instant_us(given).map(utc_millis).as_deref(), Some(expected), "{given}");
        }
    }

    #[test]
    fn the_last_day_of_the_calendar_is_valid() {
        assert_eq!(instant_us("9999-12-31T23:59:59Z"), Some(253_402_300_799_000_000));
        let last = strict_date("9999-12-31").unwrap();
        assert_eq!(day_span(last, 0).unwrap().to_us, 253_402_300_800_000_000);
        assert_eq!(instant_us("1969-12-31T23:00-02:00"), Some(3_600_000_000));
    }

    #[test]
    fn day_names_mean_one_day_or_several() {
        for (given, expected) in [
            ("2026-04-14", "2026-04-14 2026-04-15"),
            ("2026-4-9", "2026-04-09 2026-04-10"),
            ("yesterday", "2026-04-14 2026-04-15"),
            ("last 7 days", "2026-04-08 2026-04-16"),
            ("last week", "2026-04-06 2026-04-13"),
            ("2026-02", "2026-02-01 2026-03-01"),
            ("now", "2026-04-15 2026-04-16"),
            ("2026-04-14T06:30:00Z", "none"),
            ("2026-02-30", "none"),
            ("", "none"),
        ] {
            let midnight = |us| utc_millis(us).replace("T00:00:00.000Z", "");
            let utc = Here { offset_s: 0, ..HERE };
            let found = days(given, utc)
                .map(|span| format!("{} {}", midnight(span.from_us), midnight(span.to_us)));
            assert_eq!(found.as_deref().unwrap_or("none"), expected, "{given}");
        }
    }

    #[test]
    fn days_in_words_are_the_owners_and_a_bare_date_is_utc() {
        for (given, from, to) in [
            ("today", "2026-04-14T22:00:00.000Z", "2026-04-15T22:00:00.000Z"),
            ("yesterday", "2026-04-13T22:00:00.000Z", "2026-04-14T22:00:00.000Z"),
            ("last 7 days", "2026-04-07T22:00:00.000Z", "2026-04-15T22:00:00.000Z"),
            ("2026-04-14", "2026-04-14T00:00:00.000Z", "2026-04-15T00:00:00.000Z"),
        ] {
            let found = days(given, HERE).unwrap();
            assert_eq!(
                (utc_millis(found.from_us), utc_millis(found.to_us)),
                (from.into(), to.into())
            );
        }
    }

    #[test]
    fn other_text_is_refused() {
        for given in [
            "",
            "garbage",
            "2026-13-01",
            "2026-02-30",
            "2026-04-14T24:00:00Z",
            "2026-04-14T06:30:00z",
            "2026-04-14T",
            "2026-04-14T6",
            "2026-04-14T06:60",
            "2026-04-14T06:30:00+25:00",
            "2026-04-14T06:30:00 Z",
            "2026-W54-1",
            "2026-4-9T",
            "last 0 days",
            "last days",
            "99 april",
        ] {
            assert_eq!(start_us(given, HERE), Err(Unreadable), "{given}");
        }
    }

    #[test]
    fn relative_days_are_parsed_in_the_owners_zone() {
        for (given, from, to) in [
            ("today", "2026-04-15T00:00:00+02:00", "2026-04-16T00:00:00+02:00"),
            ("Yesterday ", "2026-04-14T00:00:00+02:00", "2026-04-15T00:00:00+02:00"),
            ("now", "2026-04-15T10:00:00+02:00", "2026-04-15T10:00:00+02:00"),
            ("last 30 days", "2026-03-16T00:00:00+02:00", "2026-04-15T10:00:00+02:00"),
            ("past 2 weeks", "2026-04-01T00:00:00+02:00", "2026-04-15T10:00:00+02:00"),
            ("last 6 hours", "2026-04-15T04:00:00+02:00", "2026-04-15T10:00:00+02:00"),
            ("3 days ago", "2026-04-12T00:00:00+02:00", "2026-04-13T00:00:00+02:00"),
            ("this week", "2026-04-13T00:00:00+02:00", "2026-04-20T00:00:00+02:00"),
            ("last week", "2026-04-06T00:00:00+02:00", "2026-04-13T00:00:00+02:00"),
            ("this month", "2026-04-01T00:00:00+02:00", "2026-05-01T00:00:00+02:00"),
            ("last month", "2026-03-01T00:00:00+02:00", "2026-04-01T00:00:00+02:00"),
            ("this year", "2026-01-01T00:00:00+02:00", "2027-01-01T00:00:00+02:00"),
            ("2026-04", "2026-04-01T00:00:00+02:00", "2026-05-01T00:00:00+02:00"),
            ("2025", "2025-01-01T00:00:00+02:00", "2026-01-01T00:00:00+02:00"),
            ("March 2026", "2026-03-01T00:00:00+02:00", "2026-04-01T00:00:00+02:00"),
            ("dec", "2025-12-01T00:00:00+02:00", "2026-01-01T00:00:00+02:00"),
            ("14 April 2026", "2026-04-14T00:00:00+02:00", "2026-04-15T00:00:00+02:00"),
            ("Apr 14, 2026", "2026-04-14T00:00:00+02:00", "2026-04-15T00:00:00+02:00"),
            ("monday", "2026-04-13T00:00:00+02:00", "2026-04-14T00:00:00+02:00"),
            ("wednesday", "2026-04-15T00:00:00+02:00", "2026-04-16T00:00:00+02:00"),
            ("last wednesday", "2026-04-08T00:00:00+02:00", "2026-04-09T00:00:00+02:00"),
        ] {
            let span = read(given, HERE).unwrap_or(Span { from_us: 0, to_us: 0 });
            assert_eq!(
                (text(span.from_us).as_str(), text(span.to_us).as_str()),
                (from, to),
                "{given}"
            );
        }
    }

    #[test]
    fn a_day_is_one_day_and_not_a_time_or_a_month() {
        let shown = |given: &str| day(given, HERE).map(|date| date.to_string());
        assert_eq!(shown("2026-04-14").as_deref(), Some("2026-04-14"));
        assert_eq!(shown("yesterday").as_deref(), Some("2026-04-14"));
        assert_eq!(shown("last monday").as_deref(), Some("2026-04-13"));
        for refused in ["2026-04-14T00:00", "last week", "2026-04", "", "2026-13-01"] {
            assert_eq!(shown(refused), None, "{refused}");
        }
        assert!(strict_date("2026-04-09").is_some());
        for refused in ["2026-4-9", "20260409", "2026-02-30", "2026-W15-4", "today"] {
            assert!(strict_date(refused).is_none(), "{refused}");
        }
    }

    #[test]
    fn local_times_show_six_digits_or_none() {
        let at = instant_us("2022-04-24T14:25:44.774Z").unwrap();
        assert_eq!(local_text(at, -18_000).unwrap(), "2022-04-24T09:25:44.774000-05:00");
        assert_eq!(local_text(at - 774_000, 19_800).unwrap(), "2022-04-24T19:55:44+05:30");
        assert_eq!(utc_micros(at), "2022-04-24T14:25:44.774000Z");
    }
}
