//! The columns of WHOOP's flat records: one declaration for SQL views and for every export format.
//! New columns go to the end, because programs read Parquet files by position.

use store::records::{Column, View};

use super::NAME;
use super::kind::Kind;
use super::shape::INVALID;

const CYCLES: &[Column] = &[
    Column::integer("id"),
    Column::text("start_utc"),
    Column::text("end_utc"),
    Column::text("start_local"),
    Column::text("end_local"),
    Column::text("timezone_offset"),
    Column::text("score_state"),
    Column::double("strain"),
    Column::integer("avg_hr_bpm"),
    Column::integer("max_hr_bpm"),
    Column::integer("calories"),
    Column::text("start"),
    Column::text("end"),
    Column::text("local_date"),
];

const RECOVERIES: &[Column] = &[
    Column::integer("cycle_id"),
    Column::text("sleep_id"),
    Column::text("score_state"),
    Column::double("recovery_score"),
    Column::double("resting_heart_rate_bpm"),
    Column::double("hrv_rmssd_ms"),
    Column::double("spo2_pct"),
    Column::double("skin_temp_c"),
    Column::bool("user_calibrating"),
    Column::text("start_utc"),
    Column::text("end_utc"),
    Column::text("start_local"),
    Column::text("end_local"),
    Column::text("timezone_offset"),
    Column::text("start"),
    Column::text("end"),
    Column::text("local_date"),
];

const SLEEPS: &[Column] = &[
    Column::text("id"),
    Column::integer("cycle_id"),
    Column::text("start_utc"),
    Column::text("end_utc"),
    Column::text("start_local"),
    Column::text("end_local"),
    Column::text("timezone_offset"),
    Column::bool("nap"),
    Column::text("score_state"),
    Column::double("respiratory_rate"),
    Column::double("sleep_consistency_pct"),
    Column::double("sleep_efficiency_pct"),
    Column::double("sleep_performance_pct"),
    Column::double("in_bed_seconds"),
    Column::double("light_sleep_seconds"),
    Column::double("rem_sleep_seconds"),
    Column::double("deep_sleep_seconds"),
    Column::double("awake_seconds"),
    Column::double("no_data_seconds"),
    Column::integer("sleep_cycle_count"),
    Column::integer("disturbance_count"),
    Column::doubles(
        "sleep_needed_seconds",
        &[
            "baseline_seconds",
            "need_from_recent_nap_seconds",
            "need_from_recent_strain_seconds",
            "need_from_sleep_debt_seconds",
        ],
    ),
    Column::text("start"),
    Column::text("end"),
    Column::text("local_date"),
    Column::double("asleep_seconds"),
    Column::double("sleep_need_seconds"),
    Column::double("sleep_debt_seconds"),
];

const WORKOUTS: &[Column] = &[
    Column::text("id"),
    Column::text("start_utc"),
    Column::text("end_utc"),
    Column::text("start_local"),
    Column::text("end_local"),
    Column::text("timezone_offset"),
    Column::integer("sport_id"),
    Column::text("sport_name"),
    Column::text("score_state"),
    Column::double("strain"),
    Column::integer("avg_hr_bpm"),
    Column::integer("max_hr_bpm"),
    Column::integer("calories"),
    Column::double("percent_recorded"),
    Column::double("distance_meter"),
    Column::double("altitude_change_meter"),
    Column::double("altitude_gain_meter"),
    Column::doubles(
        "zone_durations_seconds",
        &["zone_zero", "zone_one", "zone_two", "zone_three", "zone_four", "zone_five"],
    ),
    Column::text("start"),
    Column::text("end"),
    Column::text("local_date"),
    Column::double("recorded_pct"),
];

const BODY: &[Column] = &[
    Column::double("height_meter"),
    Column::integer("max_hr_bpm"),
    Column::double("weight_kilogram"),
];

const PROFILE: &[Column] =
    &[Column::text("email"), Column::text("first_name"), Column::text("last_name")];

/// Every view, in the order of [`Kind::ALL`].
pub const VIEWS: [&View; 6] = [
    &View {
        name: "whoop_cycles",
        service: NAME,
        kind: "cycles",
        columns: CYCLES,
        except_state: Some(INVALID),
    },
    &View {
        name: "whoop_recoveries",
        service: NAME,
        kind: "recoveries",
        columns: RECOVERIES,
        except_state: Some(INVALID),
    },
    &View {
        name: "whoop_sleeps",
        service: NAME,
        kind: "sleeps",
        columns: SLEEPS,
        except_state: Some(INVALID),
    },
    &View {
        name: "whoop_workouts",
        service: NAME,
        kind: "workouts",
        columns: WORKOUTS,
        except_state: Some(INVALID),
    },
    &View {
        name: "whoop_body_measurement",
        service: NAME,
        kind: "body_measurement",
        columns: BODY,
        except_state: Some(INVALID),
    },
    &View {
        name: "whoop_profile",
        service: NAME,
        kind: "profile",
        columns: PROFILE,
        except_state: Some(INVALID),
    },
];

pub fn view(kind: Kind) -> Option<&'static View> {
    VIEWS.into_iter().find(|view| view.kind == kind.name())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::whoop::shape::shape;
    use serde_json::json;

    #[test]
    fn every_key_of_a_flat_record_is_a_column_and_the_other_way_round() {
        for kind in Kind::ALL {
            let id = if kind == Kind::Cycles { json!(1) } else { json!("1") };
            let flat = shape(kind, &json!({"id": id})).flat.unwrap();
            let keys: Vec<&str> = flat.keys().map(String::as_str).collect();
            let columns: Vec<&str> =
                view(kind).unwrap().columns.iter().map(|column| column.name).collect();
            assert_eq!(keys, columns, "{}", kind.name());
        }
    }
}
