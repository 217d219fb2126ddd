//! The mirror as daily health data: what pages, apps and the report are made from.

use insights::Units;
use insights::health::{HealthData, Roles};
use store::records::{Records, RecordsError};

use super::daily::{self, DailyData};
use super::metrics::{
    ASLEEP, BEDTIME, HRV, MAIN, OUTCOMES, PAIRS, RECOVERY, RESPIRATORY_RATE, RESTING_HEART_RATE,
    SLEEP_NEED, VITALS, WORKOUT_ENERGY,
};
use crate::whoop::SERVICE;

const ROLES: Roles = Roles {
    main: MAIN,
    lines: &[RECOVERY, HRV, RESTING_HEART_RATE, ASLEEP, RESPIRATORY_RATE],
    calendar: RECOVERY,
    asleep: ASLEEP,
    sleep_need: SLEEP_NEED,
    bedtime: BEDTIME,
    stages: &[("deep_sleep", "deep"), ("rem_sleep", "REM"), ("awake_in_bed", "awake")],
    load: WORKOUT_ENERGY,
    outcomes: OUTCOMES,
    vitals: VITALS,
    pairs: PAIRS,
};

pub(crate) fn load_health(
    records: &Records,
    now_us: i64,
    days: Option<i32>,
    units: Units,
) -> Result<Option<HealthData>, RecordsError> {
    let data = daily::load(records, now_us, days)?;
    Ok((!data.is_empty()).then(|| health_data(&data.in_units(units))))
}

/// The same for a tool that has loaded its days.
pub(super) fn health_data(data: &DailyData) -> HealthData {
    HealthData {
        source: SERVICE.title,
        today: data.today,
        measured: data.measured(),
        sleeps: data.sleeps.clone(),
        behaviours: data.behaviours.clone(),
        roles: &ROLES,
    }
}
