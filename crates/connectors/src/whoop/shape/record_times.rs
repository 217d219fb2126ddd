//! When a record took place, and what of that cannot be. A record with impossible times is kept, but it
//! belongs to no day: nothing that is derived from times may count it.

use jiff::civil::Date;
use serde_json::Value;

use super::Kind;
use super::convert::offset_seconds;
use super::raw_fields::RawFields;
use crate::when;
use crate::whoop::days::EVENING_US;

/// WHOOP has nothing older than 2010; nothing lasts longer than a year.
const EARLIEST_US: i64 = 946_684_800_000_000;
const LATEST_US: i64 = 4_102_444_800_000_000;
const LASTS_US_MAX: i64 = 366 * 86_400_000_000;
/// Clocks on Earth are between these distances from UTC.
const OFFSET_S_MIN: i32 = -12 * 3600;
const OFFSET_S_MAX: i32 = 14 * 3600;

/// What is wrong with the times of a record. Names the field and never its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Doubt {
    #[error("`start` is not a time")]
    Start,
    #[error("`end` is not a time")]
    End,
    #[error("`end` is before `start`")]
    Order,
    #[error("it lasts longer than a year")]
    Length,
    #[error("`timezone_offset` is not an offset from UTC")]
    Offset,
    #[error("`updated_at` is not a time")]
    Updated,
}

/// The columns of a record that say when it took place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Placed {
    pub(super) start_us: Option<i64>,
    pub(super) end_us: Option<i64>,
    pub(super) offset_s: Option<i32>,
    pub(super) doubt: Option<Doubt>,
}

impl Placed {
    pub(super) fn read(kind: Kind, part: &RawFields<'_>) -> Placed {
        if kind.is_snapshot() {
            return Placed::default();
        }
        let updated = part.plain("updated_at");
        let updated = updated.filter(|text| possible_us(text).is_none()).map(|_| Doubt::Updated);
        // A recovery has no times of its own.
        if kind == Kind::Recoveries {
            return Placed { doubt: updated, ..Placed::default() };
        }
        let offset = part.plain("timezone_offset");
        let offset_s = offset.and_then(possible_offset_s);
        match times(part) {
            Err(doubt) => Placed { offset_s, doubt: Some(doubt), ..Placed::default() },
            Ok((start_us, end_us)) => {
                let doubt = (offset_s.is_none() && offset.is_some()).then_some(Doubt::Offset);
                Placed { start_us, end_us, offset_s, doubt: doubt.or(updated) }
            }
        }
    }
}

fn times(part: &RawFields<'_>) -> Result<(Option<i64>, Option<i64>), Doubt> {
    let read = |name: &str, doubt: Doubt| match part.plain(name) {
        None => Ok(None),
        Some(text) => possible_us(text).map(Some).ok_or(doubt),
    };
    let (start_us, end_us) = (read("start", Doubt::Start)?, read("end", Doubt::End)?);
    match (start_us, end_us) {
        (Some(start_us), Some(end_us)) if end_us < start_us => Err(Doubt::Order),
        (Some(start_us), Some(end_us)) if end_us - start_us > LASTS_US_MAX => Err(Doubt::Length),
        times => Ok(times),
    }
}

fn possible_us(text: &str) -> Option<i64> {
    when::instant_us(text).filter(|us| (EARLIEST_US..LATEST_US).contains(us))
}

fn possible_offset_s(text: &str) -> Option<i32> {
    offset_seconds(text).filter(|offset_s| (OFFSET_S_MIN..=OFFSET_S_MAX).contains(offset_s))
}

/// The day of a cycle on its own clock: that on which its owner woke, as far as the cycle alone tells.
pub(super) fn day_of_cycle(part: &RawFields<'_>) -> Value {
    day(part, |start_us, _| Some(start_us.saturating_add(EVENING_US)))
}

/// The day on which a sleep ended.
pub(super) fn day_of_end(part: &RawFields<'_>) -> Value {
    day(part, |_, end_us| end_us)
}

pub(super) fn day_of_start(part: &RawFields<'_>) -> Value {
    day(part, |start_us, _| Some(start_us))
}

fn day(part: &RawFields<'_>, at: impl FnOnce(i64, Option<i64>) -> Option<i64>) -> Value {
    let find = || -> Option<Date> {
        let offset_s = part.plain("timezone_offset").and_then(possible_offset_s)?;
        let (start_us, end_us) = times(part).ok()?;
        when::local_date(at(start_us?, end_us)?, offset_s)
    };
    find().map_or(Value::Null, |date| date.to_string().into())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::super::shape;
    use super::*;

    #[test]
    fn impossible_times_are_named_and_place_a_record_nowhere() {
        let good = "2026-04-14T06:30:00.000Z";
        for (start, end, offset, doubt) in [
            (good, "2026-04-14T07:30:00.000Z", "+02:00", None),
            (good, good, "Z", None),
            ("2026-02-30T06:30:00.000Z", good, "+02:00", Some(Doubt::Start)),
            ("0001-01-01T00:00:00.000Z", good, "+02:00", Some(Doubt::Start)),
            ("soon", good, "+02:00", Some(Doubt::Start)),
            (good, "2026-04-14T25:00:00.000Z", "+02:00", Some(Doubt::End)),
            (good, "9999-12-31T00:00:00.000Z", "+02:00", Some(Doubt::End)),
            (good, "2026-04-14T06:29:59.999Z", "+02:00", Some(Doubt::Order)),
            (good, "2028-04-14T06:30:00.000Z", "+02:00", Some(Doubt::Length)),
            (good, "2026-04-14T07:30:00.000Z", "+25:00", Some(Doubt::Offset)),
            (good, "2026-04-14T07:30:00.000Z", "-18:00", Some(Doubt::Offset)),
            (good, "2026-04-14T07:30:00.000Z", "+0530", Some(Doubt::Offset)),
        ] {
            let raw = json!({"id": "w", "start": start, "end": end, "timezone_offset": offset});
            let shaped = shape(Kind::Workouts, &raw);
            assert_eq!(shaped.doubt, doubt, "{raw}");
            let is_placed = doubt.is_none() || doubt == Some(Doubt::Offset);
            assert_eq!(shaped.start_us.is_some(), is_placed, "{raw}");
            let flat = shaped.flat.clone().unwrap();
            assert_eq!(flat.get("start_utc"), Some(&json!(start)), "what came is shown");
            assert_eq!(flat.get("local_date").unwrap().is_null(), doubt.is_some(), "{raw}");
            let message = shaped.doubt_message(Kind::Workouts);
            assert_eq!(message.is_some(), doubt.is_some());
            assert!(
                message.is_none_or(|message| !message.contains(offset)),
                "values are not repeated"
            );
        }
    }

    #[test]
    fn a_day_is_that_of_waking_for_cycles_and_sleeps_and_of_the_start_for_workouts() {
        let raw = json!({"id": 1, "start": "2026-04-13T21:00:00Z", "end": "2026-04-14T21:30:00Z",
            "timezone_offset": "+02:00"});
        let day =
            |kind, raw: &Value| shape(kind, raw).flat.unwrap().get("local_date").unwrap().clone();
        assert_eq!(day(Kind::Cycles, &raw), "2026-04-14");
        let night = json!({"id": "s", "start": "2026-04-13T21:00:00Z", "end": "2026-04-14T05:00:00Z",
            "timezone_offset": "+02:00"});
        assert_eq!(day(Kind::Sleeps, &night), "2026-04-14");
        assert_eq!(day(Kind::Workouts, &night), "2026-04-13");
    }
}
