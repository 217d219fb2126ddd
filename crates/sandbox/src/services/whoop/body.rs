//! The bodies of WHOOP's API v2, field by field and in its order. A value that may be missing is an
//! explicit null, as the live service sends it.

#![expect(clippy::struct_field_names, reason = "the names are WHOOP's")]

use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(super) enum ScoreState {
    Scored,
    PendingScore,
    Unscorable,
}

#[derive(Debug, Serialize)]
pub(super) struct Cycle {
    pub(super) id: i64,
    pub(super) user_id: i64,
    pub(super) created_at: String,
    pub(super) updated_at: String,
    pub(super) start: String,
    pub(super) end: Option<String>,
    pub(super) timezone_offset: String,
    pub(super) score_state: ScoreState,
    pub(super) score: Option<CycleScore>,
}

#[derive(Debug, Serialize)]
pub(super) struct CycleScore {
    pub(super) strain: f64,
    pub(super) kilojoule: f64,
    pub(super) average_heart_rate: i64,
    pub(super) max_heart_rate: i64,
}

#[derive(Debug, Serialize)]
pub(super) struct Sleep {
    pub(super) id: String,
    pub(super) cycle_id: i64,
    pub(super) v1_id: Option<i64>,
    pub(super) user_id: i64,
    pub(super) created_at: String,
    pub(super) updated_at: String,
    pub(super) start: String,
    pub(super) end: String,
    pub(super) timezone_offset: String,
    pub(super) nap: bool,
    pub(super) score_state: ScoreState,
    pub(super) score: Option<SleepScore>,
}

#[derive(Debug, Serialize)]
pub(super) struct SleepScore {
    pub(super) stage_summary: Stages,
    pub(super) sleep_needed: Need,
    pub(super) respiratory_rate: Option<f64>,
    pub(super) sleep_performance_percentage: Option<f64>,
    pub(super) sleep_consistency_percentage: Option<f64>,
    pub(super) sleep_efficiency_percentage: Option<f64>,
}

#[derive(Debug, Serialize)]
pub(super) struct Stages {
    pub(super) total_in_bed_time_milli: i64,
    pub(super) total_awake_time_milli: i64,
    pub(super) total_no_data_time_milli: i64,
    pub(super) total_light_sleep_time_milli: i64,
    pub(super) total_slow_wave_sleep_time_milli: i64,
    pub(super) total_rem_sleep_time_milli: i64,
    pub(super) sleep_cycle_count: i64,
    pub(super) disturbance_count: i64,
}

impl Stages {
    pub(super) fn asleep_ms(&self) -> i64 {
        self.total_light_sleep_time_milli
            + self.total_slow_wave_sleep_time_milli
            + self.total_rem_sleep_time_milli
    }
}

#[derive(Debug, Serialize)]
pub(super) struct Need {
    pub(super) baseline_milli: i64,
    pub(super) need_from_sleep_debt_milli: i64,
    pub(super) need_from_recent_strain_milli: i64,
    pub(super) need_from_recent_nap_milli: i64,
}

impl Need {
    pub(super) fn total_ms(&self) -> i64 {
        self.baseline_milli
            + self.need_from_sleep_debt_milli
            + self.need_from_recent_strain_milli
            + self.need_from_recent_nap_milli
    }
}

#[derive(Debug, Serialize)]
pub(super) struct Recovery {
    pub(super) cycle_id: i64,
    pub(super) sleep_id: String,
    pub(super) user_id: i64,
    pub(super) created_at: String,
    pub(super) updated_at: String,
    pub(super) score_state: ScoreState,
    pub(super) score: Option<RecoveryScore>,
}

#[derive(Debug, Serialize)]
pub(super) struct RecoveryScore {
    pub(super) user_calibrating: bool,
    pub(super) recovery_score: f64,
    pub(super) resting_heart_rate: f64,
    pub(super) hrv_rmssd_milli: f64,
    pub(super) spo2_percentage: Option<f64>,
    pub(super) skin_temp_celsius: Option<f64>,
}

#[derive(Debug, Serialize)]
pub(super) struct Workout {
    pub(super) id: String,
    pub(super) v1_id: Option<i64>,
    pub(super) user_id: i64,
    pub(super) created_at: String,
    pub(super) updated_at: String,
    pub(super) start: String,
    pub(super) end: String,
    pub(super) timezone_offset: String,
    pub(super) sport_name: &'static str,
    pub(super) score_state: ScoreState,
    pub(super) score: Option<WorkoutScore>,
    pub(super) sport_id: i64,
}

#[derive(Debug, Serialize)]
pub(super) struct WorkoutScore {
    pub(super) strain: f64,
    pub(super) average_heart_rate: i64,
    pub(super) max_heart_rate: i64,
    pub(super) kilojoule: f64,
    pub(super) percent_recorded: f64,
    pub(super) distance_meter: Option<f64>,
    pub(super) altitude_gain_meter: Option<f64>,
    pub(super) altitude_change_meter: Option<f64>,
    pub(super) zone_durations: Zones,
}

#[derive(Debug, Default, Serialize)]
pub(super) struct Zones {
    pub(super) zone_zero_milli: i64,
    pub(super) zone_one_milli: i64,
    pub(super) zone_two_milli: i64,
    pub(super) zone_three_milli: i64,
    pub(super) zone_four_milli: i64,
    pub(super) zone_five_milli: i64,
}
