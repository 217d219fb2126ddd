//! The derived records as tools return them. Their members are the columns of `views`, in that order.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};

use super::kind::Kind;

/// A kind of record.
pub(super) trait Record: Serialize + DeserializeOwned + JsonSchema {
    const KIND: Kind;

    /// The record, unless a member has a type that derived records never have.
    fn of(flat: Map<String, Value>) -> Option<Self> {
        serde_json::from_value(Value::Object(flat)).ok()
    }
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct Cycle {
    id: Option<i64>,
    start_utc: Option<String>,
    end_utc: Option<String>,
    start_local: Option<String>,
    end_local: Option<String>,
    timezone_offset: Option<String>,
    score_state: Option<String>,
    strain: Option<Number>,
    avg_hr_bpm: Option<i64>,
    max_hr_bpm: Option<i64>,
    calories: Option<i64>,
    start: Option<String>,
    end: Option<String>,
    local_date: Option<String>,
}

impl Record for Cycle {
    const KIND: Kind = Kind::Cycles;
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct Recovery {
    cycle_id: Option<i64>,
    sleep_id: Option<String>,
    score_state: Option<String>,
    recovery_score: Option<Number>,
    resting_heart_rate_bpm: Option<Number>,
    hrv_rmssd_ms: Option<Number>,
    spo2_pct: Option<Number>,
    skin_temp_c: Option<Number>,
    user_calibrating: Option<bool>,
    start_utc: Option<String>,
    end_utc: Option<String>,
    start_local: Option<String>,
    end_local: Option<String>,
    timezone_offset: Option<String>,
    start: Option<String>,
    end: Option<String>,
    local_date: Option<String>,
}

impl Record for Recovery {
    const KIND: Kind = Kind::Recoveries;
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct Sleep {
    id: Option<String>,
    cycle_id: Option<i64>,
    start_utc: Option<String>,
    end_utc: Option<String>,
    start_local: Option<String>,
    end_local: Option<String>,
    timezone_offset: Option<String>,
    nap: Option<bool>,
    score_state: Option<String>,
    respiratory_rate: Option<Number>,
    sleep_consistency_pct: Option<Number>,
    sleep_efficiency_pct: Option<Number>,
    sleep_performance_pct: Option<Number>,
    in_bed_seconds: Option<Number>,
    light_sleep_seconds: Option<Number>,
    rem_sleep_seconds: Option<Number>,
    deep_sleep_seconds: Option<Number>,
    awake_seconds: Option<Number>,
    no_data_seconds: Option<Number>,
    sleep_cycle_count: Option<i64>,
    disturbance_count: Option<i64>,
    sleep_needed_seconds: Option<SleepNeed>,
    start: Option<String>,
    end: Option<String>,
    local_date: Option<String>,
    asleep_seconds: Option<Number>,
    sleep_need_seconds: Option<Number>,
    sleep_debt_seconds: Option<Number>,
}

impl Record for Sleep {
    const KIND: Kind = Kind::Sleeps;
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct SleepNeed {
    baseline_seconds: Option<Number>,
    need_from_recent_nap_seconds: Option<Number>,
    need_from_recent_strain_seconds: Option<Number>,
    need_from_sleep_debt_seconds: Option<Number>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct Workout {
    id: Option<String>,
    start_utc: Option<String>,
    end_utc: Option<String>,
    start_local: Option<String>,
    end_local: Option<String>,
    timezone_offset: Option<String>,
    sport_id: Option<i64>,
    sport_name: Option<String>,
    score_state: Option<String>,
    strain: Option<Number>,
    avg_hr_bpm: Option<i64>,
    max_hr_bpm: Option<i64>,
    calories: Option<i64>,
    percent_recorded: Option<Number>,
    distance_meter: Option<Number>,
    altitude_change_meter: Option<Number>,
    altitude_gain_meter: Option<Number>,
    zone_durations_seconds: Option<ZoneDurations>,
    start: Option<String>,
    end: Option<String>,
    local_date: Option<String>,
    recorded_pct: Option<Number>,
}

impl Record for Workout {
    const KIND: Kind = Kind::Workouts;
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct ZoneDurations {
    zone_zero: Option<Number>,
    zone_one: Option<Number>,
    zone_two: Option<Number>,
    zone_three: Option<Number>,
    zone_four: Option<Number>,
    zone_five: Option<Number>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct Body {
    height_meter: Option<Number>,
    max_hr_bpm: Option<i64>,
    weight_kilogram: Option<Number>,
}

impl Record for Body {
    const KIND: Kind = Kind::BodyMeasurement;
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct Profile {
    email: Option<String>,
    first_name: Option<String>,
    last_name: Option<String>,
}

impl Record for Profile {
    const KIND: Kind = Kind::Profile;
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::whoop::tests::fixture;
    use serde_json::json;
    use store::records::Window;

    fn same<T: Record>(flat: &str) {
        let found = T::of(serde_json::from_str(flat).unwrap()).unwrap();
        assert_eq!(serde_json::to_string(&found).unwrap(), flat);
    }

    #[tokio::test]
    async fn a_stored_record_reads_back_byte_for_byte() {
        let fixture = fixture(30);
        fixture.call("sync_whoop", json!({})).await;
        for kind in Kind::ALL {
            let rows =
                fixture.ctx.records.window("whoop", kind.name(), &Window::default()).unwrap();
            assert!(!rows.is_empty() || kind.is_snapshot(), "{}", kind.name());
            for row in rows {
                match kind {
                    Kind::Cycles => same::<Cycle>(&row.flat),
                    Kind::Recoveries => same::<Recovery>(&row.flat),
                    Kind::Sleeps => same::<Sleep>(&row.flat),
                    Kind::Workouts => same::<Workout>(&row.flat),
                    Kind::BodyMeasurement => same::<Body>(&row.flat),
                    Kind::Profile => same::<Profile>(&row.flat),
                }
            }
        }
    }
}
