//! Times as pages show them: local to the owner, with the exact time in UTC for hovering and for programs.

use jiff::Timestamp;
use jiff::civil::Weekday as Day;
use jiff::tz::TimeZone;
use policy::{LocalTime, Weekday};
use serde::{Serialize, Serializer};

/// A moment. In JSON it is UTC to the microsecond.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    /// For people, such as `2026-11-18 09:14:06`.
    pub(crate) local: String,
    /// For programs and the `datetime` attribute.
    pub(crate) utc: String,
}

impl Moment {
    pub(crate) fn of(us: i64, zone: &TimeZone) -> Moment {
        match Timestamp::from_microsecond(us) {
            Ok(at) => Moment {
                local: at.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string(),
                utc: format!("{at:.6}"),
            },
            Err(_) => Moment { local: "unknown".to_owned(), utc: String::new() },
        }
    }

    /// From the text of an audit row.
    pub(crate) fn parse(text: &str, zone: &TimeZone) -> Moment {
        match text.parse::<Timestamp>() {
            Ok(at) => Moment::of(at.as_microsecond(), zone),
            Err(_) => Moment { local: text.to_owned(), utc: text.to_owned() },
        }
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.utc)
    }
}

/// The hour and weekday that a policy sees, in the owner's zone.
pub fn policy_time(us: i64, zone: &TimeZone) -> Option<LocalTime> {
    let at = Timestamp::from_microsecond(us).ok()?.to_zoned(zone.clone());
    let weekday = match at.weekday() {
        Day::Monday => Weekday::Monday,
        Day::Tuesday => Weekday::Tuesday,
        Day::Wednesday => Weekday::Wednesday,
        Day::Thursday => Weekday::Thursday,
        Day::Friday => Weekday::Friday,
        Day::Saturday => Weekday::Saturday,
        Day::Sunday => Weekday::Sunday,
    };
    Some(LocalTime { hour: u8::try_from(at.hour()).ok()?, weekday })
}

/// A length of time in its two largest parts: `2d 3h`, `9m 12s`, `4s`.
pub(crate) fn span(seconds: u64) -> String {
    let parts = [
        (seconds / 86_400, "d"),
        (seconds / 3_600 % 24, "h"),
        (seconds / 60 % 60, "m"),
        (seconds % 60, "s"),
    ];
    let shown: Vec<String> = parts
        .iter()
        .skip_while(|(number, _)| *number == 0)
        .take(2)
        .filter(|(number, _)| *number > 0)
        .map(|(number, unit)| format!("{number}{unit}"))
        .collect();
    if shown.is_empty() { "0s".to_owned() } else { shown.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_their_two_largest_parts() {
        let table = [
            (0, "0s"),
            (4, "4s"),
            (552, "9m 12s"),
            (600, "10m"),
            (183_600, "2d 3h"),
            (86_405, "1d"),
        ];
        for (seconds, expected) in table {
            assert_eq!(span(seconds), expected);
        }
    }

    #[test]
    fn a_moment_is_local_for_people_and_utc_for_programs() {
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        let at = Moment::of(1_700_000_000_000_000, &zone);
        assert_eq!(at.local, "2023-11-15 00:13:20");
        assert_eq!(at.utc, "2023-11-14T22:13:20.000000Z");
        assert_eq!(Moment::parse(&at.utc, &zone), at);
    }
}
