//! ISO-8601 as Python's `datetime.fromisoformat` reads it, which is what WHOOP's clients were
//! written against: calendar, week and ordinal dates, basic and extended times, offsets.

use jiff::civil::{Date, ISOWeekDate, Weekday};

use super::{DAY_US, midnight_us};

pub(super) struct Iso {
    pub(super) instant_us: i64,
    /// The date, if the text has no time.
    pub(super) bare_date: Option<Date>,
}

pub(super) fn read(text: &str) -> Option<Iso> {
    match usual(text) {
        Some(instant_us) => Some(Iso { instant_us, bare_date: None }),
        None => read_any(text),
    }
}

fn read_any(text: &str) -> Option<Iso> {
    if !text.is_ascii() {
        return None;
    }
    let (date, rest) = date(text).or_else(|| unpadded_date(text))?;
    let midnight = midnight_us(date, 0)?;
    if rest.is_empty() {
        return Some(Iso { instant_us: midnight, bare_date: Some(date) });
    }
    let (separator, clock) = rest.split_at_checked(1)?;
    if separator.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (clock, shift_us) = split_offset(clock)?;
    let instant_us = midnight.checked_add(time_us(clock)?)?.checked_sub(shift_us)?;
    Some(Iso { instant_us, bare_date: None })
}

/// A fast path for the form that WHOOP sends, `2026-04-14T01:02:06.740Z`: a full sync reads some
/// eighty thousand of them.
fn usual(text: &str) -> Option<i64> {
    let bytes: &[u8; 24] = text.as_bytes().try_into().ok()?;
    #[rustfmt::skip]
    let [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2, b'T',
         h1, h2, b':', i1, i2, b':', s1, s2, b'.', f1, f2, f3, b'Z'] = *bytes
    else {
        return None;
    };
    let year = i16::try_from(number(&[y1, y2, y3, y4])?).ok().filter(|year| *year > 0)?;
    let month = i8::try_from(number(&[m1, m2])?).ok()?;
    let day = i8::try_from(number(&[d1, d2])?).ok()?;
    let (hour, minute) = (number(&[h1, h2])?, number(&[i1, i2])?);
    let (second, millis) = (number(&[s1, s2])?, number(&[f1, f2, f3])?);
    if hour >= 24 || minute >= 60 || second >= 60 {
        return None;
    }
    let midnight_us = midnight_us(Date::new(year, month, day).ok()?, 0)?;
    Some(midnight_us + ((hour * 60 + minute) * 60 + second) * 1_000_000 + millis * 1_000)
}

fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |number, digit| {
        digit.is_ascii_digit().then(|| number * 10 + i64::from(digit - b'0'))
    })
}

fn date(text: &str) -> Option<(Date, &str)> {
    let (year, rest) = text.split_at_checked(4)?;
    let year = i16::try_from(digits(year)?).ok()?;
    match rest.strip_prefix('-') {
        Some(rest) => extended_date(year, rest),
        None => basic_date(year, rest),
    }
}

/// `2026-4-9`: not ISO, but clients send it and it has one meaning.
fn unpadded_date(text: &str) -> Option<(Date, &str)> {
    let mut fields = text.split('-');
    let (year, month, day) = (fields.next()?, fields.next()?, fields.next()?);
    let short = |field: &str| (1..=2).contains(&field.len());
    if year.len() != 4 || !short(month) || !short(day) || fields.next().is_some() {
        return None;
    }
    Some((calendar_date(i16::try_from(digits(year)?).ok()?, month, day)?, ""))
}

fn extended_date(year: i16, rest: &str) -> Option<(Date, &str)> {
    if let Some(week) = rest.strip_prefix('W') {
        let (week, rest) = week.split_at_checked(2)?;
        return match rest.strip_prefix('-') {
            Some(day) => {
                let (day, rest) = day.split_at_checked(1)?;
                Some((week_date(year, week, day)?, rest))
            }
            None => Some((week_date(year, week, "1")?, rest)),
        };
    }
    if let Some(day) = ordinal(rest) {
        return Some((ordinal_date(year, day)?, ""));
    }
    let (month, rest) = rest.split_at_checked(2)?;
    let (day, rest) = rest.strip_prefix('-')?.split_at_checked(2)?;
    Some((calendar_date(year, month, day)?, rest))
}

fn basic_date(year: i16, rest: &str) -> Option<(Date, &str)> {
    if let Some(week) = rest.strip_prefix('W') {
        let (week, rest) = week.split_at_checked(2)?;
        let (day, rest) = match rest.split_at_checked(1) {
            Some((day, after)) if digits(day).is_some() => (day, after),
            _ => ("1", rest),
        };
        return Some((week_date(year, week, day)?, rest));
    }
    let (month, rest) = rest.split_at_checked(2)?;
    let (day, rest) = rest.split_at_checked(2)?;
    Some((calendar_date(year, month, day)?, rest))
}

fn calendar_date(year: i16, month: &str, day: &str) -> Option<Date> {
    let (month, day) = (i8::try_from(digits(month)?).ok()?, i8::try_from(digits(day)?).ok()?);
    Date::new(year, month, day).ok().filter(|_| year > 0)
}

fn week_date(year: i16, week: &str, day: &str) -> Option<Date> {
    let week = i8::try_from(digits(week)?).ok()?;
    let day = Weekday::from_monday_one_offset(i8::try_from(digits(day)?).ok()?).ok()?;
    ISOWeekDate::new(year, week, day).ok().map(ISOWeekDate::date)
}

fn ordinal(rest: &str) -> Option<i64> {
    if rest.len() == 3 { digits(rest) } else { None }
}

fn ordinal_date(year: i16, day: i64) -> Option<Date> {
    let first = Date::new(year, 1, 1).ok()?;
    let date = first.checked_add(jiff::Span::new().try_days(day - 1).ok()?).ok()?;
    (day >= 1 && date.year() == year).then_some(date)
}

/// Splits `06:30+02:00` into the time and its offset from UTC.
fn split_offset(text: &str) -> Option<(&str, i64)> {
    if let Some(clock) = text.strip_suffix('Z') {
        return Some((clock, 0));
    }
    let Some(at) = text.find(['+', '-']) else { return Some((text, 0)) };
    let (clock, offset) = text.split_at_checked(at)?;
    let (sign, offset) = offset.split_at_checked(1)?;
    let shift_us = time_us(offset)?;
    Some((clock, if sign == "-" { -shift_us } else { shift_us }))
}

/// `06`, `06:30`, `0630`, `06:30:15.5`, in microseconds after midnight. Hour 24 is refused.
fn time_us(text: &str) -> Option<i64> {
    let (clock, fraction) = match text.find(['.', ',']) {
        Some(at) => (text.get(..at)?, Some(text.get(at + 1..)?)),
        None => (text, None),
    };
    let fields: Vec<&str> = if clock.contains(':') {
        clock.split(':').collect()
    } else {
        (0..clock.len()).step_by(2).map(|at| clock.get(at..at + 2)).collect::<Option<_>>()?
    };
    if fields.len() > 3 || (fraction.is_some() && fields.len() != 3) {
        return None;
    }
    let mut total_s = 0;
    for (at, unit_s) in [3600, 60, 1].into_iter().enumerate() {
        let Some(field) = fields.get(at) else { break };
        let value = if field.len() == 2 { digits(field)? } else { return None };
        if value >= if at == 0 { 24 } else { 60 } {
            return None;
        }
        total_s += value * unit_s;
    }
    let time_us = total_s * 1_000_000 + fraction.map_or(Some(0), fraction_us)?;
    (!fields.is_empty() && time_us < DAY_US).then_some(time_us)
}

fn fraction_us(text: &str) -> Option<i64> {
    digits(text.get(..text.len().min(18))?)?;
    let six: String = text.chars().chain("000000".chars()).take(6).collect();
    digits(&six)
}

fn digits(text: &str) -> Option<i64> {
    let all = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    all.then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fast_path_agrees_with_the_full_parser() {
        let read = |text: &str| read_any(text).map(|iso| iso.instant_us);
        for text in [
            "2026-04-14T01:02:06.740Z",
            "2024-02-29T23:59:59.999Z",
            "1969-12-31T23:59:59.001Z",
            "0001-01-01T00:00:00.000Z",
            "9999-12-30T21:59:59.999Z",
        ] {
            assert!(usual(text).is_some(), "{text}");
            assert_eq!(usual(text), read(text), "{text}");
        }
        let good = "2026-02-28T19:39:58.740Z";
        for at in 0..good.len() {
            for byte in b"0123456789-:.TZ +a" {
                let mut text = good.as_bytes().to_vec();
                text.splice(at..=at, [*byte]);
                let text = String::from_utf8_lossy(&text);
                assert!(usual(&text).is_none() || usual(&text) == read(&text), "{text}");
            }
        }
    }
}
