//! Computes scores from days: sleep stages, sleep need, recovery, strain and zones. Simple arithmetic over the
//! values of a [`Person`], with noise from the day's random stream.

use super::body::{CycleScore, Need, RecoveryScore, SleepScore, Stages, WorkoutScore, Zones};
use super::days::{Day, Session, tens};
use super::person::Person;
use crate::rng::{Rng, decimals, nearest, real};
use crate::timestamp::{DAY_MS, HOUR_MS, MINUTE_MS, day_of};

/// This many recoveries are marked as calibrating.
const CALIBRATING_NIGHTS: i64 = 4;
/// Straps before this one measured neither oxygen nor skin temperature.
const NEW_STRAP: (i64, i64, i64) = (2021, 10, 1);

/// State that carries over from one day to the next.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Form {
    /// Recent strain, around 0.6 for balanced training.
    pub(super) fatigue: f64,
    pub(super) debt_ms: f64,
    pub(super) strain_before: f64,
    pub(super) napped_ms: i64,
}

impl Form {
    pub(super) fn start() -> Form {
        Form { fatigue: 0.6, debt_ms: 0.0, strain_before: 9.0, napped_ms: 0 }
    }

    /// The state after a day of this strain, with the sleep of the previous night if it was measured.
    pub(super) fn after(
        self,
        strain: f64,
        asleep_ms: Option<i64>,
        need_ms: f64,
        napped_ms: i64,
    ) -> Form {
        let missed_ms = asleep_ms.map_or(0.0, |asleep_ms| need_ms - real(asleep_ms));
        let debt_ms = (0.6 * self.debt_ms + 0.5 * missed_ms).clamp(0.0, 2.2 * real(HOUR_MS));
        let fatigue = 0.82 * self.fatigue + 0.18 * strain / 14.0;
        Form { fatigue, debt_ms, strain_before: strain, napped_ms }
    }
}

pub(super) fn stages(rng: &mut Rng, in_bed_ms: i64, illness: f64) -> Stages {
    let in_bed = real(in_bed_ms);
    let efficiency = (0.925 + 0.025 * rng.spread() - 0.06 * illness).clamp(0.6, 0.99);
    let no_data_ms = if rng.happens(0.03) { tens(in_bed * rng.between(0.005, 0.05)) } else { 0 };
    let awake_ms = tens(in_bed * (1.0 - efficiency));
    let asleep_ms = in_bed_ms - awake_ms - no_data_ms;
    let rem_ms = tens(real(asleep_ms) * (0.23 + 0.03 * rng.spread()).clamp(0.05, 0.4));
    let deep_ms = tens(real(asleep_ms) * (0.20 + 0.03 * rng.spread()).clamp(0.05, 0.4));
    Stages {
        total_in_bed_time_milli: in_bed_ms,
        total_awake_time_milli: awake_ms,
        total_no_data_time_milli: no_data_ms,
        total_light_sleep_time_milli: asleep_ms - rem_ms - deep_ms,
        total_slow_wave_sleep_time_milli: deep_ms,
        total_rem_sleep_time_milli: rem_ms,
        sleep_cycle_count: asleep_ms / (95 * MINUTE_MS),
        disturbance_count: nearest(real(asleep_ms) / real(HOUR_MS) * rng.between(0.6, 2.2)),
    }
}

fn need(person: &Person, form: Form) -> Need {
    Need {
        baseline_milli: tens(person.need_ms),
        need_from_sleep_debt_milli: tens(form.debt_ms * 0.6),
        need_from_recent_strain_milli: tens(form.strain_before * 75.0 * 1_000.0),
        need_from_recent_nap_milli: -tens(real(form.napped_ms) * 0.8),
    }
}

/// The score of a night or a nap. Naps have no consistency, and short ones no breathing rate.
pub(super) fn sleep(
    rng: &mut Rng,
    person: &Person,
    day: &Day,
    form: Form,
    span_ms: i64,
    nap: bool,
) -> SleepScore {
    let stage_summary = stages(rng, span_ms, day.illness);
    let sleep_needed = need(person, form);
    let asleep = real(stage_summary.asleep_ms());
    let performance = (100.0 * asleep / real(sleep_needed.total_ms())).round().clamp(0.0, 100.0);
    let consistency = if day.nth < CALIBRATING_NIGHTS {
        0.0
    } else {
        (76.0 + 9.0 * rng.spread()).round().clamp(30.0, 100.0)
    };
    let breaths = person.breaths_per_min + 0.25 * rng.spread() + 1.9 * day.illness;
    let short = nap && span_ms < 40 * MINUTE_MS;
    SleepScore {
        respiratory_rate: (!short).then(|| decimals(breaths, 6)),
        sleep_performance_percentage: Some(performance),
        sleep_consistency_percentage: (!nap).then_some(consistency),
        sleep_efficiency_percentage: Some(decimals(100.0 * asleep / real(span_ms), 5)),
        stage_summary,
        sleep_needed,
    }
}

/// Fitness: grows for years and dips in winter.
fn fitness(day: &Day) -> f64 {
    let years = real(day.nth) / (real(day.nth) + 500.0);
    let season = real((day.number * 2).rem_euclid(731)) / 365.5;
    years + 0.12 * (1.0 - season).abs()
}

pub(super) fn recovery(
    rng: &mut Rng,
    person: &Person,
    day: &Day,
    form: Form,
    performance: f64,
) -> RecoveryScore {
    let drank = if day.drank { 1.0 } else { 0.0 };
    let strained = form.fatigue - 0.6;
    let usual_hrv = person.hrv_ms * (1.0 + 0.14 * fitness(day));
    let share = (1.0 - 0.34 * day.illness)
        * (1.0 - 0.18 * drank)
        * (1.0 - 0.25 * strained)
        * (1.0 + 0.10 * rng.spread());
    let hrv = (usual_hrv * share).max(8.0);
    let usual_rest = person.heart_rest_bpm - 3.5 * fitness(day);
    let above = 9.5 * day.illness + 4.0 * drank + 3.5 * strained + 1.2 * rng.spread();
    let feeling = (hrv / usual_hrv - 1.0) * 3.4 - above * 0.09 + (performance - 82.0) * 0.012 + 0.3;
    let score = 50.0 + 64.0 * (1.6 * feeling) / (1.0 + (1.6 * feeling).abs());
    let (year, month, date) = NEW_STRAP;
    let measured = day.number >= day_of(year, month, date);
    let oxygen = 96.6 + 0.7 * rng.spread() - 1.2 * day.illness;
    let skin = person.skin_c + 0.28 * rng.spread() + 0.9 * day.illness;
    RecoveryScore {
        user_calibrating: day.nth < CALIBRATING_NIGHTS,
        recovery_score: score.round().clamp(1.0, 99.0),
        resting_heart_rate: (usual_rest + above).round().clamp(32.0, 110.0),
        hrv_rmssd_milli: decimals(hrv, 6),
        spo2_percentage: measured.then(|| decimals(oxygen.clamp(88.0, 100.0), 5)),
        skin_temp_celsius: measured.then(|| decimals(skin, 6)),
    }
}

fn strain_of(load: f64) -> f64 {
    21.0 * load / (load + 60.0)
}

pub(super) fn workout(rng: &mut Rng, person: &Person, session: &Session) -> WorkoutScore {
    let reserve = person.heart_max_bpm - person.heart_rest_bpm;
    let average = person.heart_rest_bpm + reserve * session.effort;
    let peak = (average + reserve * rng.between(0.08, 0.24)).min(person.heart_max_bpm + 2.0);
    let recorded = if rng.happens(0.85) { 1.0 } else { rng.between(0.9, 0.99999) };
    let metres = session.sport.metres_per_min.map(|metres| {
        metres * session.minutes() * (0.75 + 0.35 * session.effort) * rng.between(0.92, 1.08)
    });
    let gain = metres
        .filter(|_| session.sport.climb > 0.0)
        .map(|metres| metres / 1_000.0 * session.sport.climb * rng.between(0.5, 1.5));
    let level = gain.map(|gain| gain * rng.between(-0.3, 0.3));
    let kilojoule = session.minutes() * session.effort * person.weight_kg * 0.95;
    WorkoutScore {
        strain: decimals(strain_of(session.load()), 6),
        average_heart_rate: nearest(average),
        max_heart_rate: nearest(peak),
        kilojoule: decimals(kilojoule, 4),
        percent_recorded: decimals(recorded, 8),
        distance_meter: metres.map(|metres| decimals(metres, 5)),
        altitude_gain_meter: gain.map(|gain| decimals(gain, 5)),
        altitude_change_meter: level.map(|level| decimals(level, 5)),
        zone_durations: zones(rng, session, recorded),
    }
}

/// Distributes the recorded time over the zones around the average effort.
fn zones(rng: &mut Rng, session: &Session, recorded: f64) -> Zones {
    let total_ms = tens(real(session.end_ms - session.start_ms) * recorded);
    let centre = session.effort * 6.2 - 0.6;
    let weight = |zone: i64, rng: &mut Rng| {
        let away = real(zone) - centre;
        rng.between(0.7, 1.3) / (1.0 + 2.0 * away * away)
    };
    let weights: Vec<f64> = (0..6).map(|zone| weight(zone, rng)).collect();
    let sum: f64 = weights.iter().sum();
    let part = |zone: usize| {
        let weight = weights.get(zone).copied().unwrap_or(0.0);
        tens(real(total_ms) * weight / sum)
    };
    let (one, two, three) = (part(1), part(2), part(3));
    let (four, five) = (part(4), part(5));
    Zones {
        // The remainder; rounding can make it slightly negative.
        zone_zero_milli: (total_ms - one - two - three - four - five).max(0),
        zone_one_milli: one,
        zone_two_milli: two,
        zone_three_milli: three,
        zone_four_milli: four,
        zone_five_milli: five,
    }
}

/// Strain and energy of a cycle of which `share` has passed, with the workouts done so far.
pub(super) fn cycle(
    rng: &mut Rng,
    person: &Person,
    day: &Day,
    done: &[Session],
    length_ms: i64,
    share: f64,
) -> CycleScore {
    let days = real(length_ms) / real(DAY_MS);
    let moving = rng.between(14.0, 34.0) * (1.0 - 0.5 * day.illness) * share;
    let load = moving + done.iter().map(Session::load).sum::<f64>();
    let trained: f64 = done.iter().map(|s| s.minutes() * s.effort * person.weight_kg * 0.95).sum();
    let resting = person.weight_kg * rng.between(94.0, 99.0) * days * share;
    let pace = person.heart_rest_bpm + 9.0 + 40.0 * load / (load + 150.0) + 6.0 * day.illness;
    let hardest = done.iter().map(|session| session.effort).fold(0.35, f64::max);
    let reserve = person.heart_max_bpm - person.heart_rest_bpm;
    let peak = person.heart_rest_bpm + reserve * (hardest + rng.between(0.08, 0.2)).min(1.01);
    CycleScore {
        strain: decimals(strain_of(load), 6),
        kilojoule: decimals(resting + trained + moving * 60.0, 3),
        average_heart_rate: nearest(pace),
        max_heart_rate: nearest(peak),
    }
}
