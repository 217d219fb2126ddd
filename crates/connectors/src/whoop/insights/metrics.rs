//! WHOOP's metrics by day: unit, direction, and which of them are looked at together.

use insights::survey::PairLook;
use insights::{Better, Metric, Unit};

pub(super) const RECOVERY: &str = "recovery";
pub(super) const HRV: &str = "hrv";
pub(super) const RESTING_HEART_RATE: &str = "resting_heart_rate";
pub(super) const RESPIRATORY_RATE: &str = "respiratory_rate";
pub(super) const ASLEEP: &str = "asleep";
pub(super) const SLEEP_NEED: &str = "sleep_need";
pub(super) const BEDTIME: &str = "bedtime";
pub(super) const STRAIN: &str = "strain";
pub(super) const WORKOUT_ENERGY: &str = "workout_energy";
pub(super) const ZONE_MINUTES: &str = "zone_minutes";

const fn metric(name: &'static str, title: &'static str, unit: Unit, better: Better) -> Metric {
    Metric { name, title, unit, better, is_log: false }
}

/// Every metric, the ones that people ask for first.
pub(crate) const METRICS: &[Metric] = &[
    metric(RECOVERY, "Recovery", Unit::Percent, Better::Higher),
    Metric { is_log: true, ..metric(HRV, "HRV", Unit::Milliseconds, Better::Higher) },
    metric(RESTING_HEART_RATE, "Resting heart rate", Unit::BeatsPerMinute, Better::Lower),
    metric(RESPIRATORY_RATE, "Respiratory rate", Unit::BreathsPerMinute, Better::Neither),
    metric("skin_temperature", "Skin temperature", Unit::Celsius, Better::Neither),
    metric("spo2", "Blood oxygen", Unit::Percent, Better::Higher),
    metric(ASLEEP, "Time asleep", Unit::Minutes, Better::Higher),
    metric("time_in_bed", "Time in bed", Unit::Minutes, Better::Neither),
    metric("deep_sleep", "Deep sleep", Unit::Minutes, Better::Higher),
    metric("rem_sleep", "REM sleep", Unit::Minutes, Better::Higher),
    metric("awake_in_bed", "Awake in bed", Unit::Minutes, Better::Lower),
    metric(SLEEP_NEED, "Sleep need", Unit::Minutes, Better::Neither),
    metric("sleep_efficiency", "Sleep efficiency", Unit::Percent, Better::Higher),
    metric("sleep_performance", "Sleep performance", Unit::Percent, Better::Higher),
    metric("sleep_consistency", "Sleep consistency", Unit::Percent, Better::Higher),
    metric(BEDTIME, "Bedtime", Unit::ClockMinutes, Better::Neither),
    metric(STRAIN, "Day strain", Unit::Strain, Better::Neither),
    metric("energy", "Energy of the day", Unit::Kilojoules, Better::Neither),
    metric(WORKOUT_ENERGY, "Workout energy", Unit::Kilojoules, Better::Neither),
    metric(ZONE_MINUTES, "Zone minutes", Unit::ZoneMinutes, Better::Neither),
    metric("workout_time", "Workout time", Unit::Minutes, Better::Neither),
    metric("workout_distance", "Workout distance", Unit::Kilometres, Better::Neither),
];

/// What a glance, a review and a survey show.
pub(super) const MAIN: &[&str] =
    &[RECOVERY, HRV, RESTING_HEART_RATE, RESPIRATORY_RATE, ASLEEP, STRAIN, WORKOUT_ENERGY];
/// What may go with the metrics of other services.
pub(super) const SURVEYED: &[&str] =
    &[RECOVERY, HRV, RESTING_HEART_RATE, ASLEEP, BEDTIME, STRAIN, WORKOUT_ENERGY];
/// What a behaviour may affect.
pub(super) const OUTCOMES: &[&str] = &[RECOVERY, HRV, RESTING_HEART_RATE, ASLEEP];
/// Where illness and overload show.
pub(super) const VITALS: &[&str] = &[HRV, RESTING_HEART_RATE, RESPIRATORY_RATE, "skin_temperature"];

const fn pair(x: &'static str, y: &'static str, lag_days: i32) -> PairLook {
    PairLook { x, y, lag_days }
}

/// A night and its recovery have the same day; the strain of a day meets the recovery of the next.
pub(super) const PAIRS: &[PairLook] = &[
    pair(ASLEEP, RECOVERY, 0),
    pair(ASLEEP, HRV, 0),
    pair(ASLEEP, RESTING_HEART_RATE, 0),
    pair(BEDTIME, RECOVERY, 0),
    pair(BEDTIME, HRV, 0),
    pair(STRAIN, RECOVERY, 1),
    pair(STRAIN, HRV, 1),
    pair(STRAIN, RESTING_HEART_RATE, 1),
    pair(STRAIN, ASLEEP, 1),
    pair(WORKOUT_ENERGY, RECOVERY, 1),
    pair(WORKOUT_ENERGY, HRV, 1),
];

pub(crate) fn metric_of(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| metric.name == name)
}
