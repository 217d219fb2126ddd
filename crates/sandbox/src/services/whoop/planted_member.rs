//! The records of a planted person, as WHOOP would have them: the values of the person and nothing of the
//! usual generator, so that an effect has the planted size and no other cause.

use super::body::{
    Cycle, CycleScore, Need, Recovery, RecoveryScore, ScoreState, Sleep, SleepScore, Stages,
    Workout, WorkoutScore, Zones,
};
use super::collection::Entry;
use super::generate::{WhoopRecords, written};
use crate::planted::{PlantedDay, PlantedPerson};
use crate::rng::Rng;
use crate::timestamp::{DAY_MS, HOUR_MS, MINUTE_MS, text};

const USER: i64 = 424_242;
const AWAKE_MIN: f64 = 40.0;
const NEED_MIN: i64 = 480;
/// A score comes half an hour after its record.
const SCORED_AFTER_MS: i64 = 30 * MINUTE_MS;
/// Workouts begin at five in the afternoon.
const WORKOUT_HOUR: i64 = 17;

/// Everything that is over at `now_ms`.
pub(super) fn records(person: &PlantedPerson, now_ms: i64) -> WhoopRecords {
    let mut made = WhoopRecords::default();
    let recorded: Vec<&PlantedDay> = person.days.iter().filter(|day| day.is_recorded).collect();
    for (nth, day) in recorded.iter().enumerate() {
        let moments = Moments::of(person.seed, day);
        if moments.wake_ms + SCORED_AFTER_MS > now_ms {
            break;
        }
        let next = recorded.get(nth + 1).map(|next| Moments::of(person.seed, next));
        let next = next.filter(|next| next.wake_ms + SCORED_AFTER_MS <= now_ms);
        // A cycle ends with the next night; after a night that was not recorded it ends by itself.
        let end_ms = next.map(|next| next.bed_ms.min(moments.bed_ms + DAY_MS + 2 * HOUR_MS));
        made.cycles.push(cycle(day, &moments, end_ms));
        made.sleeps.push(sleep(day, &moments));
        made.recoveries.push(recovery(person.seed, day, &moments));
        if moments.trained_ms + 2 * HOUR_MS <= now_ms {
            made.workouts.push(workout(day, &moments));
        }
    }
    made
}

/// When a day of the person happens.
struct Moments {
    id: i64,
    bed_ms: i64,
    wake_ms: i64,
    trained_ms: i64,
    offset: String,
}

impl Moments {
    fn of(seed: u64, day: &PlantedDay) -> Moments {
        let mut rng = Rng::stream(seed, "planted bed", i64::from(day.number));
        let midnight_ms = i64::from(day.number) * DAY_MS - i64::from(day.offset_h) * HOUR_MS;
        let bed_ms = midnight_ms - HOUR_MS + rng.whole(-30, 30) * MINUTE_MS;
        Moments {
            id: i64::from(day.number),
            bed_ms,
            wake_ms: bed_ms + milliseconds(day.asleep_min + AWAKE_MIN),
            trained_ms: midnight_ms + WORKOUT_HOUR * HOUR_MS,
            offset: format!("{:+03}:00", day.offset_h),
        }
    }

    fn scored(&self) -> String {
        text(self.wake_ms + SCORED_AFTER_MS)
    }

    fn sleep_id(&self) -> String {
        format!("00000000-0000-4000-8000-{:012}", self.id)
    }
}

/// Minutes as whole milliseconds.
#[allow(clippy::cast_possible_truncation, reason = "a few hours")]
fn milliseconds(minutes: f64) -> i64 {
    (minutes.max(1.0) * 60_000.0).round() as i64
}

fn entry(
    id: String,
    moments: &Moments,
    (start_ms, end_ms): (i64, Option<i64>),
    body: String,
) -> Entry {
    Entry { id, cycle: moments.id, start_ms, end_ms, v1: None, main: true, body }
}

fn cycle(day: &PlantedDay, moments: &Moments, end_ms: Option<i64>) -> Entry {
    let body = Cycle {
        id: moments.id,
        user_id: USER,
        created_at: text(moments.wake_ms),
        updated_at: end_ms
            .map_or_else(|| moments.scored(), |end_ms| text(end_ms + SCORED_AFTER_MS)),
        start: text(moments.bed_ms),
        end: end_ms.map(text),
        timezone_offset: moments.offset.clone(),
        score_state: ScoreState::Scored,
        score: Some(CycleScore {
            // Strain grows with the load and levels off.
            strain: 4.0 + 14.0 * (1.0 - (-day.load_kj / 3_000.0).exp()),
            kilojoule: 7_000.0 + day.load_kj,
            average_heart_rate: 68,
            max_heart_rate: 160,
        }),
    };
    entry(moments.id.to_string(), moments, (moments.bed_ms, end_ms), written(&body))
}

fn sleep(day: &PlantedDay, moments: &Moments) -> Entry {
    let asleep_ms = milliseconds(day.asleep_min);
    let (deep_ms, rem_ms) = (asleep_ms / 5, asleep_ms / 4);
    let span = (moments.bed_ms, Some(moments.wake_ms));
    let body = Sleep {
        id: moments.sleep_id(),
        cycle_id: moments.id,
        v1_id: None,
        user_id: USER,
        created_at: text(moments.wake_ms),
        updated_at: moments.scored(),
        start: text(moments.bed_ms),
        end: text(moments.wake_ms),
        timezone_offset: moments.offset.clone(),
        nap: false,
        score_state: ScoreState::Scored,
        score: Some(SleepScore {
            stage_summary: Stages {
                total_in_bed_time_milli: moments.wake_ms - moments.bed_ms,
                total_awake_time_milli: milliseconds(AWAKE_MIN),
                total_no_data_time_milli: 0,
                total_light_sleep_time_milli: asleep_ms - deep_ms - rem_ms,
                total_slow_wave_sleep_time_milli: deep_ms,
                total_rem_sleep_time_milli: rem_ms,
                sleep_cycle_count: 5,
                disturbance_count: 8,
            },
            sleep_needed: Need {
                baseline_milli: NEED_MIN * MINUTE_MS,
                need_from_sleep_debt_milli: 0,
                need_from_recent_strain_milli: 0,
                need_from_recent_nap_milli: 0,
            },
            respiratory_rate: Some(day.respiratory_rate),
            sleep_performance_percentage: Some(85.0),
            sleep_consistency_percentage: Some(80.0),
            sleep_efficiency_percentage: Some(92.0),
        }),
    };
    entry(moments.sleep_id(), moments, span, written(&body))
}

fn recovery(seed: u64, day: &PlantedDay, moments: &Moments) -> Entry {
    let mut rng = Rng::stream(seed, "planted skin", i64::from(day.number));
    let body = Recovery {
        cycle_id: moments.id,
        sleep_id: moments.sleep_id(),
        user_id: USER,
        created_at: text(moments.wake_ms),
        updated_at: moments.scored(),
        score_state: ScoreState::Scored,
        score: Some(RecoveryScore {
            user_calibrating: false,
            recovery_score: day.recovery_pct,
            resting_heart_rate: day.resting_hr_bpm,
            hrv_rmssd_milli: day.hrv_ms,
            spo2_percentage: Some(96.0),
            skin_temp_celsius: Some(33.5 + 0.3 * rng.spread()),
        }),
    };
    let span = (moments.bed_ms, Some(moments.wake_ms));
    entry(moments.sleep_id(), moments, span, written(&body))
}

fn workout(day: &PlantedDay, moments: &Moments) -> Entry {
    let end_ms = moments.trained_ms + HOUR_MS;
    let id = format!("00000000-0000-4000-9000-{:012}", moments.id);
    let body = Workout {
        id: id.clone(),
        v1_id: None,
        user_id: USER,
        created_at: text(end_ms),
        updated_at: text(end_ms + SCORED_AFTER_MS),
        start: text(moments.trained_ms),
        end: text(end_ms),
        timezone_offset: moments.offset.clone(),
        sport_name: "running",
        score_state: ScoreState::Scored,
        score: Some(WorkoutScore {
            strain: 10.0,
            average_heart_rate: 140,
            max_heart_rate: 170,
            kilojoule: day.load_kj,
            percent_recorded: 1.0,
            distance_meter: None,
            altitude_gain_meter: None,
            altitude_change_meter: None,
            zone_durations: Zones { zone_two_milli: HOUR_MS, ..Zones::default() },
        }),
        sport_id: 0,
    };
    entry(id, moments, (moments.trained_ms, Some(end_ms)), written(&body))
}
