//! Days and instants without a time-zone database: the civil calendar, and the two ways services
//! write an instant.

pub(crate) const SECOND_MS: i64 = 1_000;
pub(crate) const MINUTE_MS: i64 = 60 * SECOND_MS;
pub(crate) const HOUR_MS: i64 = 60 * MINUTE_MS;
pub(crate) const DAY_MS: i64 = 24 * HOUR_MS;

/// Days since 1970-01-01 of a date of the Gregorian calendar.
pub(crate) fn day_of(year: i64, month: i64, day: i64) -> i64 {
    // The year begins in March here, so that the leap day is its last day.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Year, month and day of a day number.
pub(crate) fn date_of(day: i64) -> (i64, i64, i64) {
    let shifted = day + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let march = (5 * of_year + 2) / 153;
    let month = if march < 10 { march + 3 } else { march - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    (year, month, of_year - (153 * march + 2) / 5 + 1)
}

/// 0 is Monday, 6 is Sunday.
pub(crate) fn weekday(day: i64) -> i64 {
    (day + 3).rem_euclid(7)
}

/// `2026-11-16T01:02:03.450Z`: always three digits of a second, as WHOOP writes it.
pub(crate) fn text(ms: i64) -> String {
    let (year, month, day) = date_of(ms.div_euclid(DAY_MS));
    let of_day = ms.rem_euclid(DAY_MS);
    let (hour, minute) = (of_day / HOUR_MS, of_day / MINUTE_MS % 60);
    let (second, milli) = (of_day / SECOND_MS % 60, of_day % SECOND_MS);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
}

/// `2026-11-16T01:02:03Z`: without parts of a second.
pub(crate) fn seconds(ms: i64) -> String {
    let text = text(ms);
    text.split_once('.').map_or_else(|| text.clone(), |(whole, _)| format!("{whole}Z"))
}

/// Parses a full date-time with `Z` or an offset; none for anything else.
pub(crate) fn read(text: &str) -> Option<i64> {
    text.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_millisecond)
}

#[cfg(test)]
mod tests {
    use super::{DAY_MS, date_of, day_of, read, seconds, text, weekday};

    #[test]
    fn days_and_dates_agree_with_a_real_calendar() {
        for day in (-200_000..200_000).step_by(37) {
            let (year, month, of_month) = date_of(day);
            assert_eq!(day_of(year, month, of_month), day);
            let timestamp = jiff::Timestamp::from_millisecond(day * DAY_MS).unwrap_or_default();
            let date = timestamp.to_zoned(jiff::tz::TimeZone::UTC).date();
            assert_eq!(
                (i64::from(date.year()), i64::from(date.month()), i64::from(date.day())),
                (year, month, of_month)
            );
            assert_eq!(i64::from(date.weekday().to_monday_zero_offset()), weekday(day));
        }
    }

    #[test]
    fn an_instant_is_written_with_three_digits_and_read_back() {
        let ms = 1_794_790_923_450;
        assert_eq!(text(ms), "2026-11-16T01:02:03.450Z");
        assert_eq!(seconds(ms), "2026-11-16T01:02:03Z");
        assert_eq!(read(&text(ms)), Some(ms));
        assert_eq!(read("2026-11-16T06:32:03.450+05:30"), Some(ms));
        for less in ["2026-11-16", "2026-11-16T01:02:03", "yesterday", ""] {
            assert_eq!(read(less), None, "{less}");
        }
    }
}
