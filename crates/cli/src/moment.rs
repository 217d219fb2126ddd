//! Parses and formats times and spans. The current time is an argument.

use anyhow::{Result, anyhow, bail};
use jiff::tz::TimeZone;
use jiff::{Span, SpanRelativeTo, Timestamp};

const SECOND_US: i64 = 1_000_000;

/// `30d`, `1h 30m`, `90s`. Months and years are refused: their length varies.
pub(crate) fn parse_seconds(text: &str) -> Result<u64> {
    let wrong = || anyhow!("`{text}` is not a time span\nhint: write `90s`, `10m`, `6h`, `30d`");
    let span: Span = text.trim().parse().map_err(|_| wrong())?;
    let length = span.to_duration(SpanRelativeTo::days_are_24_hours()).map_err(|_| wrong())?;
    match u64::try_from(length.as_secs()) {
        Ok(seconds) if seconds > 0 => Ok(seconds),
        _ => Err(wrong()),
    }
}

/// A point in time in unix microseconds: a date, a date with a time, or `2h` for two hours ago.
pub(crate) fn parse_moment(text: &str, now_us: i64) -> Result<i64> {
    parse_moment_in(&TimeZone::system(), text, now_us)
}

/// The same; a date without a zone is in this zone.
pub(crate) fn parse_moment_in(zone: &TimeZone, text: &str, now_us: i64) -> Result<i64> {
    let text = text.trim();
    if let Ok(at) = text.parse::<Timestamp>() {
        return Ok(at.as_microsecond());
    }
    if let Ok(seconds) = parse_seconds(text.trim_end_matches(" ago")) {
        let back_us = i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(SECOND_US);
        return Ok(now_us.saturating_sub(back_us));
    }
    let Ok(civil) = text.parse::<jiff::civil::DateTime>() else {
        bail!(
            "`{text}` is not a time\nhint: write `2h` (ago), `2026-11-15`, or `2026-11-15T08:30`"
        );
    };
    Ok(civil.to_zoned(zone.clone())?.timestamp().as_microsecond())
}

/// The time in the owner's zone, to the second.
pub(crate) fn local(us: i64) -> String {
    match Timestamp::from_microsecond(us) {
        Ok(at) => at.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string(),
        Err(_) => "(invalid time)".to_owned(),
    }
}

/// The time in UTC to the microsecond, for programs.
pub(crate) fn utc(us: i64) -> String {
    match Timestamp::from_microsecond(us) {
        Ok(at) => format!("{at:.6}"),
        Err(_) => "(invalid time)".to_owned(),
    }
}

/// A span in its two largest units: `2d 3h`, `9m 12s`, `4s`.
pub(crate) fn span(seconds: u64) -> String {
    const UNITS: [(u64, &str); 4] = [(86_400, "d"), (3600, "h"), (60, "m"), (1, "s")];
    let mut left = seconds;
    let mut parts = Vec::new();
    for (length, name) in UNITS {
        let n = left / length;
        left %= length;
        if n > 0 {
            parts.push(format!("{n}{name}"));
        }
    }
    parts.truncate(2);
    if parts.is_empty() { "0s".to_owned() } else { parts.join(" ") }
}

/// How long ago `then` was.
pub(crate) fn ago(then_us: i64, now_us: i64) -> String {
    format!("{} ago", span(seconds_between(then_us, now_us)))
}

/// Whole seconds from `from` to `to`; 0 if `to` is not later.
pub(crate) fn seconds_between(from_us: i64, to_us: i64) -> u64 {
    u64::try_from(to_us.saturating_sub(from_us) / SECOND_US).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn spans_are_parsed() {
        for (text, seconds) in
            [("90s", 90), ("10m", 600), ("1h 30m", 5400), ("30d", 2_592_000), ("2w", 1_209_600)]
        {
            assert_eq!(parse_seconds(text).unwrap(), seconds, "{text}");
        }
        for text in ["", "soon", "1 month", "0s", "-5m", "1.5y"] {
            assert!(parse_seconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn spans_are_shown_in_their_two_largest_units() {
        for (seconds, text) in [(0, "0s"), (59, "59s"), (552, "9m 12s"), (90_061, "1d 1h")] {
            assert_eq!(span(seconds), text);
        }
    }

    #[test]
    fn a_moment_is_a_date_or_a_span_ago() {
        let now_us = 1_794_700_000 * SECOND_US;
        assert_eq!(parse_moment("2h", now_us).unwrap(), now_us - 7200 * SECOND_US);
        assert_eq!(parse_moment("2 hours ago", now_us).unwrap(), now_us - 7200 * SECOND_US);
        let day = parse_moment("2026-11-15T00:00:00Z", now_us).unwrap();
        assert_eq!(utc(day), "2026-11-15T00:00:00.000000Z");
        assert!(parse_moment("tomorrow-ish", now_us).is_err());
    }
}
