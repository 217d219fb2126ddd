//! Formats and parses times: RFC 3339 in UTC with microseconds, always 27 characters.

const DAY_US: i64 = 86_400_000_000;

/// Years 0000 to 9999; a time outside is clamped.
pub(crate) fn write(wall_us: i64, out: &mut Vec<u8>) {
    let wall_us = wall_us.clamp(-62_167_219_200_000_000, 253_402_300_799_999_999);
    let (day, us) = (wall_us.div_euclid(DAY_US), wall_us.rem_euclid(DAY_US));
    let (year, month, date) = civil(day);
    let (second, part) = (us / 1_000_000, us % 1_000_000);
    let [century, year] = [two(year / 100), two(year % 100)];
    let [month, date] = [two(month), two(date)];
    let [hour, minute, second] = [two(second / 3_600), two(second / 60 % 60), two(second % 60)];
    let [a, b, c] = [two(part / 10_000), two(part / 100 % 100), two(part % 100)];
    let stamp = [
        century[0], century[1], year[0], year[1], b'-', month[0], month[1], b'-', date[0], date[1],
        b'T', hour[0], hour[1], b':', minute[0], minute[1], b':', second[0], second[1], b'.', a[0],
        a[1], b[0], b[1], c[0], c[1], b'Z',
    ];
    out.extend_from_slice(&stamp);
}

/// Two decimal digits of a number below a hundred.
fn two(value: i64) -> [u8; 2] {
    // A narrow type, so that dividing is cheap.
    let value = u8::try_from(value).unwrap_or(0);
    [b'0' + value / 10, b'0' + value % 10]
}

pub(crate) fn text(wall_us: i64) -> String {
    let mut out = Vec::with_capacity(27);
    write(wall_us, &mut out);
    String::from_utf8(out).unwrap_or_default()
}

/// Microseconds since 1970 of an RFC 3339 time.
pub(crate) fn parse(text: &str) -> Option<i64> {
    text.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_microsecond)
}

/// Year, month and day of a day counted from 1970-01-01 (H. Hinnant, "chrono-compatible low-level
/// date algorithms").
fn civil(day: i64) -> (i64, i64, i64) {
    let shifted = day + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let date = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, date)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::{parse, text};
    use proptest::prelude::{prop_assert_eq, proptest};

    #[test]
    fn known_times() {
        let table = [
            (0, "1970-01-01T00:00:00.000000Z"),
            (-1, "1969-12-31T23:59:59.999999Z"),
            (951_827_696_000_007, "2000-02-29T12:34:56.000007Z"),
            (i64::MAX, "9999-12-31T23:59:59.999999Z"),
            (i64::MIN, "0000-01-01T00:00:00.000000Z"),
        ];
        for (us, expected) in table {
            assert_eq!(text(us), expected);
        }
    }

    proptest! {
        #[test]
        fn times_agree_with_a_calendar_library(us in -62_167_219_200_000_000_i64..253_402_200_000_000_000) {
            let theirs = jiff::Timestamp::from_microsecond(us).unwrap();
            prop_assert_eq!(format!("{theirs:.6}"), text(us));
            prop_assert_eq!(parse(&text(us)), Some(us));
        }
    }
}
