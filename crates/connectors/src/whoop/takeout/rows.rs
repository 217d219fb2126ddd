//! Converts rows of the export to records in the API's form. Missing values are null; the row itself
//! is kept inside the record.

use jiff::tz::Offset;
use serde_json::{Map, Value, json};

use super::cells::{ExportRow, Moment};
use super::columns::Column;

/// Prefix of our own ids; WHOOP's are UUIDs and positive numbers.
pub(super) const ID_PREFIX: &str = "zip:";
/// The export counts kilocalories, the API kilojoules; the same factor leads back.
const KILOCALORIES_PER_KILOJOULE: f64 = 0.239_006;
const MINUTE_MS: f64 = 60_000.0;

/// A record made from a row.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) start: Moment,
    pub(super) end_us: Option<i64>,
    /// The start of the row's cycle, which links the tables of the export.
    pub(super) cycle_start: Moment,
    pub(super) raw: Value,
}

/// A cycle and the recovery in the same row.
pub(super) struct CycleRow {
    pub(super) cycle: Draft,
    pub(super) recovery: Option<Draft>,
}

/// The id of a cycle that only the export has: negative, so that it never equals one of WHOOP's.
pub(super) fn cycle_id(start: Moment) -> i64 {
    -start.at.as_second()
}

pub(super) fn day(cells: &ExportRow<'_>, offset: Offset) -> Result<CycleRow, String> {
    let start = required(cells, Column::CycleStart, offset)?;
    let end = after(start, cells.moment(Column::CycleEnd, offset)?)?;
    let strain = cells.number(Column::DayStrain)?;
    let state = match (strain, end) {
        (Some(_), _) => "SCORED",
        (None, None) => "PENDING_SCORE",
        (None, Some(_)) => "UNSCORABLE",
    };
    let score = json!({
        "strain": strain,
        "kilojoule": kilojoule(cells)?,
        "average_heart_rate": whole(cells, Column::AvgHr)?,
        "max_heart_rate": whole(cells, Column::MaxHr)?,
    });
    let mut raw = Map::new();
    raw.insert("id".into(), json!(cycle_id(start)));
    times(&mut raw, start, end);
    scored(&mut raw, state, score);
    let cycle = finish(cells, raw, start, end, start);
    Ok(CycleRow { recovery: recovery(cells, &cycle, offset)?, cycle })
}

fn recovery(cells: &ExportRow<'_>, cycle: &Draft, offset: Offset) -> Result<Option<Draft>, String> {
    let Some(value) = cells.number(Column::Recovery)? else { return Ok(None) };
    let sleep = cells.moment(Column::SleepOnset, offset)?;
    let score = json!({
        "user_calibrating": null,
        "recovery_score": value,
        "resting_heart_rate": cells.number(Column::RestingHr)?,
        "hrv_rmssd_milli": cells.number(Column::Hrv)?,
        "spo2_percentage": cells.number(Column::Spo2)?,
        "skin_temp_celsius": cells.number(Column::SkinTemp)?,
    });
    let mut raw = Map::new();
    raw.insert("cycle_id".into(), json!(cycle_id(cycle.start)));
    raw.insert("sleep_id".into(), json!(sleep.map(|at| id("sleep", at))));
    scored(&mut raw, "SCORED", score);
    let updated = sleep.unwrap_or(cycle.start).utc();
    raw.insert("updated_at".into(), json!(updated));
    raw.insert("source".into(), json!("whoop_export"));
    Ok(Some(Draft {
        start: cycle.start,
        end_us: cycle.end_us,
        cycle_start: cycle.start,
        raw: Value::Object(raw),
    }))
}

pub(super) fn sleep(cells: &ExportRow<'_>, offset: Offset) -> Result<Draft, String> {
    let cycle = required(cells, Column::CycleStart, offset)?;
    let start = required(cells, Column::SleepOnset, offset)?;
    let end = after(start, Some(required(cells, Column::WakeOnset, offset)?))?;
    let stages = json!({
        "total_in_bed_time_milli": millis(cells, Column::InBed)?,
        "total_awake_time_milli": millis(cells, Column::Awake)?,
        "total_no_data_time_milli": null,
        "total_light_sleep_time_milli": millis(cells, Column::Light)?,
        "total_slow_wave_sleep_time_milli": millis(cells, Column::Deep)?,
        "total_rem_sleep_time_milli": millis(cells, Column::Rem)?,
        "sleep_cycle_count": null,
        "disturbance_count": null,
    });
    // The export has the need as one sum; only the debt is known separately.
    let needed =
        millis(cells, Column::SleepDebt)?.map(|debt| json!({ "need_from_sleep_debt_milli": debt }));
    let score = json!({
        "stage_summary": stages,
        "sleep_needed": needed,
        "respiratory_rate": cells.number(Column::RespiratoryRate)?,
        "sleep_performance_percentage": cells.number(Column::SleepPerformance)?,
        "sleep_consistency_percentage": cells.number(Column::SleepConsistency)?,
        "sleep_efficiency_percentage": cells.number(Column::SleepEfficiency)?,
    });
    let state = if cells.number(Column::InBed)?.is_some() { "SCORED" } else { "UNSCORABLE" };
    let mut raw = Map::new();
    raw.insert("id".into(), json!(id("sleep", start)));
    raw.insert("cycle_id".into(), json!(cycle_id(cycle)));
    raw.insert("nap".into(), json!(cells.truth(Column::Nap)?.unwrap_or(false)));
    times(&mut raw, start, end);
    scored(&mut raw, state, score);
    Ok(finish(cells, raw, start, end, cycle))
}

pub(super) fn workout(cells: &ExportRow<'_>, offset: Offset) -> Result<Draft, String> {
    let cycle = required(cells, Column::CycleStart, offset)?;
    let start = required(cells, Column::WorkoutStart, offset)?;
    let end = after(start, Some(required(cells, Column::WorkoutEnd, offset)?))?;
    let strain = cells.number(Column::ActivityStrain)?;
    let score = json!({
        "strain": strain,
        "average_heart_rate": whole(cells, Column::AvgHr)?,
        "max_heart_rate": whole(cells, Column::MaxHr)?,
        "kilojoule": kilojoule(cells)?,
        "percent_recorded": null,
        "distance_meter": cells.number(Column::Distance)?,
        "altitude_gain_meter": cells.number(Column::AltitudeGain)?,
        "altitude_change_meter": null,
        "zone_durations": zones(cells, start, end)?,
    });
    let activity = cells.text(Column::Activity).unwrap_or("activity");
    let mut raw = Map::new();
    raw.insert("id".into(), json!(id("workout", start)));
    raw.insert("sport_name".into(), json!(slug(activity)));
    times(&mut raw, start, end);
    scored(&mut raw, if strain.is_some() { "SCORED" } else { "UNSCORABLE" }, score);
    Ok(finish(cells, raw, start, end, cycle))
}

/// Zone percentages as times; the rest was below the first zone.
fn zones(
    cells: &ExportRow<'_>,
    start: Moment,
    end: Option<Moment>,
) -> Result<Option<Value>, String> {
    const ZONES: [(Column, &str); 5] = [
        (Column::Zone1, "zone_one_milli"),
        (Column::Zone2, "zone_two_milli"),
        (Column::Zone3, "zone_three_milli"),
        (Column::Zone4, "zone_four_milli"),
        (Column::Zone5, "zone_five_milli"),
    ];
    let Some(end) = end else { return Ok(None) };
    let whole_ms = (end.us() - start.us()) / 1000;
    let mut out = Map::new();
    let mut left_ms = whole_ms;
    out.insert("zone_zero_milli".into(), json!(null));
    for (column, name) in ZONES {
        let Some(share) = cells.number(column)? else { return Ok(None) };
        let part_ms = rounded(share / 100.0 * to_float(whole_ms)).clamp(0, left_ms.max(0));
        left_ms -= part_ms;
        out.insert(name.into(), json!(part_ms));
    }
    out.insert("zone_zero_milli".into(), json!(left_ms));
    Ok(Some(Value::Object(out)))
}

pub(super) fn id(what: &str, start: Moment) -> String {
    format!("{ID_PREFIX}{what}:{}", start.utc())
}

/// `Hiking/Rucking` as the API writes sports: `hiking-rucking`.
fn slug(name: &str) -> String {
    let parts = name.split(|c: char| !c.is_alphanumeric()).filter(|part| !part.is_empty());
    parts.map(str::to_lowercase).collect::<Vec<_>>().join("-")
}

fn required(cells: &ExportRow<'_>, column: Column, offset: Offset) -> Result<Moment, String> {
    cells.moment(column, offset)?.ok_or_else(|| format!("{column} is empty"))
}

fn after(start: Moment, end: Option<Moment>) -> Result<Option<Moment>, String> {
    match end {
        Some(end) if end.at < start.at => Err("it ends before it begins".to_owned()),
        end => Ok(end),
    }
}

fn times(raw: &mut Map<String, Value>, start: Moment, end: Option<Moment>) {
    raw.insert("start".into(), json!(start.utc()));
    raw.insert("end".into(), json!(end.map(Moment::utc)));
    raw.insert("timezone_offset".into(), json!(start.offset_text()));
}

fn scored(raw: &mut Map<String, Value>, state: &str, score: Value) {
    raw.insert("score_state".into(), json!(state));
    if state == "SCORED" {
        raw.insert("score".into(), score);
    }
}

/// The export has no update times: the end of a record is used.
fn finish(
    cells: &ExportRow<'_>,
    mut raw: Map<String, Value>,
    start: Moment,
    end: Option<Moment>,
    cycle_start: Moment,
) -> Draft {
    raw.insert("updated_at".into(), json!(end.unwrap_or(start).utc()));
    raw.insert("source".into(), json!("whoop_export"));
    raw.insert("row".into(), json!(cells.row.iter().collect::<Vec<_>>()));
    let end_us = end.map(Moment::us);
    Draft { start, end_us, cycle_start, raw: Value::Object(raw) }
}

fn kilojoule(cells: &ExportRow<'_>) -> Result<Option<f64>, String> {
    Ok(cells.number(Column::Energy)?.map(|calories| calories / KILOCALORIES_PER_KILOJOULE))
}

fn whole(cells: &ExportRow<'_>, column: Column) -> Result<Option<i64>, String> {
    Ok(cells.number(column)?.map(rounded))
}

fn millis(cells: &ExportRow<'_>, column: Column) -> Result<Option<i64>, String> {
    Ok(cells.number(column)?.map(|minutes| rounded(minutes * MINUTE_MS)))
}

#[expect(clippy::cast_possible_truncation, reason = "out of range saturates, which no row holds")]
fn rounded(number: f64) -> i64 {
    number.round() as i64
}

#[expect(clippy::cast_precision_loss, reason = "milliseconds of a workout are far below 2^53")]
fn to_float(number: i64) -> f64 {
    number as f64
}
