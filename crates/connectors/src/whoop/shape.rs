//! Derives the flat record from WHOOP's: seconds, kilocalories, local times, nulls for unscored
//! values. Pure, so a wrong view is fixed by running it again over the raw records.

mod convert;
mod raw_fields;
mod record_times;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};

pub use super::kind::{CURRENT, Kind};
use super::shape::convert::{calories, local_text, offset_seconds, percentage};
use super::shape::raw_fields::RawFields;
use crate::when;
pub use record_times::Doubt;
use record_times::{Placed, day_of_cycle, day_of_end, day_of_start};

/// Increase when the derived form changes, so that stored records are derived again.
pub const VERSION: u32 = 2;

/// The `state` column of an unreadable record, which is stored raw.
pub const INVALID: &str = "INVALID";

/// The maximum number of members of a flat record, for one allocation.
const MEMBERS_MAX: usize = 28;

/// A raw record with its derived columns.
#[derive(Clone, Debug, PartialEq)]
pub struct Shaped {
    /// None when WHOOP sent no key: such a record can be answered but not kept.
    pub id: Option<String>,
    /// None for recoveries (their cycle's window counts) and snapshots.
    pub start_us: Option<i64>,
    /// None while a cycle is open.
    pub end_us: Option<i64>,
    pub offset_s: Option<i32>,
    /// WHOOP's own text; None when absent, and then the record is not kept either.
    pub updated: Option<String>,
    pub updated_us: i64,
    /// The cycle a sleep or recovery belongs to.
    pub parent: Option<String>,
    /// WHOOP's `score_state`, or `INVALID`.
    pub state: Option<String>,
    /// The problem of its times. Without a start it belongs to no day.
    pub doubt: Option<Doubt>,
    pub flat: Result<Map<String, Value>, UnreadableField>,
}

/// Why a record cannot be read, naming the field and never its value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("field `{field}` is not {expected}")]
pub struct UnreadableField {
    pub field: String,
    pub expected: &'static str,
}

impl Shaped {
    /// The derived text for the mirror. For an unreadable record it states the problem.
    pub fn flat_text(&self) -> String {
        match &self.flat {
            // Serializing an object with string keys cannot fail.
            Ok(flat) => serde_json::to_string(flat).unwrap_or_default(),
            Err(fault) => json!({"invalid": self.invalid_message(fault)}).to_string(),
        }
    }

    /// The warning about a record with impossible times.
    pub fn doubt_message(&self, kind: Kind) -> Option<String> {
        let doubt = self.doubt.filter(|_| self.flat.is_ok())?;
        let id = self.id.as_deref().unwrap_or("without id");
        Some(format!("{}: record {id} is kept with impossible times: {doubt}", kind.name()))
    }

    /// The warning about an unreadable record.
    pub fn warning(&self, kind: Kind) -> Option<String> {
        let fault = self.flat.as_ref().err()?;
        Some(format!("{}: {}", kind.name(), self.invalid_message(fault)))
    }

    fn invalid_message(&self, fault: &UnreadableField) -> String {
        format!("record {} left out, {fault}", self.id.as_deref().unwrap_or("without id"))
    }
}

/// Derives a record from its text. Invalid JSON is an unreadable record.
pub fn shape_text(kind: Kind, raw: &str) -> Shaped {
    shape(kind, &serde_json::from_str(raw).unwrap_or(Value::Null))
}

pub fn shape(kind: Kind, raw: &Value) -> Shaped {
    let empty = Map::new();
    let object = raw.as_object();
    let part = RawFields::new(object.unwrap_or(&empty), "");
    let flat = match (object, kind) {
        (None, _) => Err(UnreadableField { field: "record".to_owned(), expected: "an object" }),
        (_, Kind::Cycles) => cycle(&part),
        (_, Kind::Recoveries) => recovery(&part),
        (_, Kind::Sleeps) => sleep(&part),
        (_, Kind::Workouts) => workout(&part),
        (_, Kind::Profile) => profile(&part),
        (_, Kind::BodyMeasurement) => body(&part),
    };
    columns(kind, &part, flat)
}

/// Reads the columns leniently even of an unreadable record, so that it can be stored.
fn columns(
    kind: Kind,
    part: &RawFields<'_>,
    flat: Result<Map<String, Value>, UnreadableField>,
) -> Shaped {
    let key = if kind == Kind::Recoveries { "cycle_id" } else { "id" };
    let id = if kind.is_snapshot() { Some(CURRENT.to_owned()) } else { part.key(key) };
    let updated = part.plain("updated_at").map(str::to_owned);
    let state = match &flat {
        Ok(_) => part.plain("score_state").map(str::to_owned),
        Err(_) => Some(INVALID.to_owned()),
    };
    let placed = Placed::read(kind, part);
    Shaped {
        id,
        start_us: placed.start_us,
        end_us: placed.end_us,
        offset_s: placed.offset_s,
        doubt: placed.doubt,
        updated_us: updated.as_deref().and_then(when::instant_us).unwrap_or(0),
        updated,
        parent: matches!(kind, Kind::Recoveries | Kind::Sleeps)
            .then(|| part.key("cycle_id"))
            .flatten(),
        state,
        flat,
    }
}

type FlatResult = Result<Map<String, Value>, UnreadableField>;

fn cycle(raw: &RawFields<'_>) -> FlatResult {
    let mut flat = Map::with_capacity(MEMBERS_MAX);
    flat.insert("id".into(), raw.required_int("id")?);
    let (start, end) = times(raw, &mut flat)?;
    let score = score(raw, &mut flat)?;
    flat.insert("strain".into(), score.float("strain")?);
    heart_and_energy(&score, &mut flat)?;
    older_time_keys(start, end, &mut flat);
    flat.insert("local_date".into(), day_of_cycle(raw));
    Ok(flat)
}

fn recovery(raw: &RawFields<'_>) -> FlatResult {
    let mut flat = Map::with_capacity(MEMBERS_MAX);
    flat.insert("cycle_id".into(), raw.int("cycle_id")?);
    flat.insert("sleep_id".into(), raw.text("sleep_id")?);
    let score = score(raw, &mut flat)?;
    for (name, source) in [
        ("recovery_score", "recovery_score"),
        ("resting_heart_rate_bpm", "resting_heart_rate"),
        ("hrv_rmssd_ms", "hrv_rmssd_milli"),
        ("spo2_pct", "spo2_percentage"),
        ("skin_temp_c", "skin_temp_celsius"),
    ] {
        flat.insert(name.into(), score.float(source)?);
    }
    flat.insert("user_calibrating".into(), score.boolean("user_calibrating")?);
    // It has no times of its own; the mirror sets those of its cycle here.
    for name in TIMES_OF_CYCLE {
        flat.insert(name.into(), Value::Null);
    }
    Ok(flat)
}

/// The members of a recovery that come from its cycle.
const TIMES_OF_CYCLE: [&str; 8] = [
    "start_utc",
    "end_utc",
    "start_local",
    "end_local",
    "timezone_offset",
    "start",
    "end",
    "local_date",
];

fn sleep(raw: &RawFields<'_>) -> FlatResult {
    let mut flat = Map::with_capacity(MEMBERS_MAX);
    flat.insert("id".into(), raw.required_text("id")?);
    flat.insert("cycle_id".into(), raw.int("cycle_id")?);
    let (start, end) = times(raw, &mut flat)?;
    flat.insert("nap".into(), raw.boolean("nap")?);
    let score = score(raw, &mut flat)?;
    for (name, source) in [
        ("respiratory_rate", "respiratory_rate"),
        ("sleep_consistency_pct", "sleep_consistency_percentage"),
        ("sleep_efficiency_pct", "sleep_efficiency_percentage"),
        ("sleep_performance_pct", "sleep_performance_percentage"),
    ] {
        flat.insert(name.into(), score.float(source)?);
    }
    let stages = score.part("stage_summary")?;
    for (name, source) in [
        ("in_bed_seconds", "total_in_bed_time_milli"),
        ("light_sleep_seconds", "total_light_sleep_time_milli"),
        ("rem_sleep_seconds", "total_rem_sleep_time_milli"),
        ("deep_sleep_seconds", "total_slow_wave_sleep_time_milli"),
        ("awake_seconds", "total_awake_time_milli"),
        ("no_data_seconds", "total_no_data_time_milli"),
    ] {
        flat.insert(name.into(), stages.seconds(source)?);
    }
    flat.insert("sleep_cycle_count".into(), stages.int("sleep_cycle_count")?);
    flat.insert("disturbance_count".into(), stages.int("disturbance_count")?);
    let needed = score.part("sleep_needed")?;
    flat.insert("sleep_needed_seconds".into(), needed.all_seconds(&NEEDED)?);
    older_time_keys(start, end, &mut flat);
    flat.insert("local_date".into(), day_of_end(raw));
    flat.insert("asleep_seconds".into(), stages.sum_seconds(&ASLEEP)?);
    flat.insert("sleep_need_seconds".into(), needed.sum_seconds(&NEEDED.map(|need| need.1))?);
    flat.insert("sleep_debt_seconds".into(), needed.seconds("need_from_sleep_debt_milli")?);
    Ok(flat)
}

const ASLEEP: [&str; 3] = [
    "total_light_sleep_time_milli",
    "total_rem_sleep_time_milli",
    "total_slow_wave_sleep_time_milli",
];

const NEEDED: [(&str, &str); 4] = [
    ("baseline_seconds", "baseline_milli"),
    ("need_from_recent_nap_seconds", "need_from_recent_nap_milli"),
    ("need_from_recent_strain_seconds", "need_from_recent_strain_milli"),
    ("need_from_sleep_debt_seconds", "need_from_sleep_debt_milli"),
];

const ZONES: [(&str, &str); 6] = [
    ("zone_zero", "zone_zero_milli"),
    ("zone_one", "zone_one_milli"),
    ("zone_two", "zone_two_milli"),
    ("zone_three", "zone_three_milli"),
    ("zone_four", "zone_four_milli"),
    ("zone_five", "zone_five_milli"),
];

fn workout(raw: &RawFields<'_>) -> FlatResult {
    let mut flat = Map::with_capacity(MEMBERS_MAX);
    flat.insert("id".into(), raw.required_text("id")?);
    let (start, end) = times(raw, &mut flat)?;
    flat.insert("sport_id".into(), raw.int("sport_id")?);
    flat.insert("sport_name".into(), raw.text("sport_name")?);
    let score = score(raw, &mut flat)?;
    flat.insert("strain".into(), score.float("strain")?);
    heart_and_energy(&score, &mut flat)?;
    for name in
        ["percent_recorded", "distance_meter", "altitude_change_meter", "altitude_gain_meter"]
    {
        flat.insert(name.into(), score.float(name)?);
    }
    let zones = score.part("zone_durations")?.all_seconds(&ZONES)?;
    flat.insert("zone_durations_seconds".into(), zones);
    older_time_keys(start, end, &mut flat);
    flat.insert("local_date".into(), day_of_start(raw));
    flat.insert("recorded_pct".into(), percentage(&score.float("percent_recorded")?));
    Ok(flat)
}

fn profile(raw: &RawFields<'_>) -> FlatResult {
    let mut flat = Map::with_capacity(MEMBERS_MAX);
    for name in ["email", "first_name", "last_name"] {
        flat.insert(name.into(), raw.text(name)?);
    }
    Ok(flat)
}

fn body(raw: &RawFields<'_>) -> FlatResult {
    let mut flat = Map::with_capacity(MEMBERS_MAX);
    flat.insert("height_meter".into(), raw.float("height_meter")?);
    flat.insert("max_hr_bpm".into(), raw.int("max_heart_rate")?);
    flat.insert("weight_kilogram".into(), raw.float("weight_kilogram")?);
    Ok(flat)
}

/// WHOOP's own texts, and the same instants in the wearer's zone.
fn times(
    raw: &RawFields<'_>,
    flat: &mut Map<String, Value>,
) -> Result<(Value, Value), UnreadableField> {
    let start = raw.text("start")?;
    let end = raw.text("end")?;
    let offset = raw.text("timezone_offset")?;
    let offset_s = offset.as_str().and_then(offset_seconds);
    let local = |text: &Value| match (text.as_str(), offset_s) {
        (Some(text), Some(offset_s)) => local_text(text, offset_s).map_or(Value::Null, Value::from),
        _ => Value::Null,
    };
    let (start_local, end_local) = (local(&start), local(&end));
    flat.insert("start_utc".into(), start.clone());
    flat.insert("end_utc".into(), end.clone());
    flat.insert("start_local".into(), start_local);
    flat.insert("end_local".into(), end_local);
    flat.insert("timezone_offset".into(), offset);
    Ok((start, end))
}

/// Clients written for the first generation of records look for `start` and `end`.
fn older_time_keys(start: Value, end: Value, flat: &mut Map<String, Value>) {
    flat.insert("start".into(), start);
    flat.insert("end".into(), end);
}

/// The score, or `None` for a pending or unscorable record.
fn score<'a>(
    raw: &RawFields<'a>,
    flat: &mut Map<String, Value>,
) -> Result<RawFields<'a>, UnreadableField> {
    let state = raw.text("score_state")?;
    let unscored = state.as_str().is_some_and(|state| state != "SCORED");
    flat.insert("score_state".into(), state);
    if unscored { Ok(RawFields::absent()) } else { raw.part("score") }
}

fn heart_and_energy(
    score: &RawFields<'_>,
    flat: &mut Map<String, Value>,
) -> Result<(), UnreadableField> {
    flat.insert("avg_hr_bpm".into(), score.int("average_heart_rate")?);
    flat.insert("max_hr_bpm".into(), score.int("max_heart_rate")?);
    flat.insert("calories".into(), calories(&score.float("kilojoule")?));
    Ok(())
}
