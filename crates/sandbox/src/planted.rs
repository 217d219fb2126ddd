//! People with planted effects of known size, to judge statistics by: late caffeine, an illness, a
//! training block, travel, or nothing. Every series has memory and a weekly rhythm of its own; nothing
//! depends on anything else unless it is planted.

use serde::Serialize;

use crate::rng::Rng;

/// What was planted in a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Plant {
    /// After late caffeine the night is shorter and the recovery lower.
    Caffeine,
    /// Six nights with a raised heart rate and breathing and a low HRV.
    Illness,
    /// Ten weeks of twice the load, with a lower HRV.
    TrainingBlock,
    /// Four trips over many time zones, each with five short nights.
    Travel,
    Nothing,
}

/// One planted effect.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlantedEffect {
    pub metric: &'static str,
    pub size: f64,
    /// The size is a change in percent.
    pub is_percent: bool,
    /// The first and the last day of the effect; the whole time where it comes and goes.
    pub days: (i32, i32),
}

/// A day of a person. A missing value was not recorded.
#[expect(clippy::struct_excessive_bools, reason = "answers to yes-or-no questions")]
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PlantedDay {
    /// Days since 1970.
    pub number: i32,
    pub is_recorded: bool,
    pub hrv_ms: f64,
    pub resting_hr_bpm: f64,
    pub respiratory_rate: f64,
    pub recovery_pct: f64,
    pub asleep_min: f64,
    pub load_kj: f64,
    /// Answers about the day, which may affect the next night.
    pub late_caffeine: bool,
    pub read_in_bed: bool,
    pub alcohol: bool,
    /// Hours east of Greenwich.
    pub offset_h: i32,
}

/// A person with what was planted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlantedPerson {
    pub seed: u64,
    pub plant: Plant,
    pub effects: Vec<PlantedEffect>,
    pub days: Vec<PlantedDay>,
}

const ILL_NIGHTS: i32 = 6;
const BLOCK_DAYS: i32 = 70;
const TRIPS: i32 = 4;
const TRIP_NIGHTS: i32 = 5;
const TRIP_HOURS: i32 = 7;
/// A plant begins at the earliest after this many days, so that a baseline exists.
const SETTLED_DAYS: i32 = 100;
/// The share of days on which nothing was recorded.
const MISSED: f64 = 0.04;

const CAFFEINE_SLEEP_MIN: f64 = -30.0;
const CAFFEINE_RECOVERY: f64 = -10.0;
const ILLNESS_HR_BPM: f64 = 9.0;
const ILLNESS_HRV_PCT: f64 = -42.0;
const ILLNESS_BREATHS: f64 = 1.6;
const BLOCK_LOAD_KJ: f64 = 1_500.0;
const BLOCK_HRV_PCT: f64 = -22.0;
const TRAVEL_SLEEP_MIN: f64 = -75.0;

/// The person of a seed: `days` days from `first_day`. Seeds take turns through the plants.
pub fn person(seed: u64, first_day: i32, days: i32) -> PlantedPerson {
    let plant = match seed % 5 {
        0 => Plant::Caffeine,
        1 => Plant::Illness,
        2 => Plant::TrainingBlock,
        3 => Plant::Travel,
        _ => Plant::Nothing,
    };
    let begin = begin(seed, first_day, days);
    let mut made = Person::of(seed);
    let mut list: Vec<PlantedDay> = Vec::new();
    for number in first_day..first_day.saturating_add(days) {
        let caffeine_before = list.last().is_some_and(|day| day.late_caffeine);
        let mut day = made.day(number);
        plant_in(&mut day, plant, begin, caffeine_before);
        list.push(day);
    }
    let last = first_day.saturating_add(days) - 1;
    PlantedPerson { seed, plant, effects: effects(plant, begin, (first_day, last)), days: list }
}

/// The first day of the illness or of the block.
fn begin(seed: u64, first_day: i32, days: i32) -> i32 {
    let mut rng = Rng::stream(seed, "plant", 0);
    let latest = (days - SETTLED_DAYS / 2 - BLOCK_DAYS).max(SETTLED_DAYS + 1);
    let at = rng.whole(i64::from(SETTLED_DAYS), i64::from(latest));
    first_day.saturating_add(i32::try_from(at).unwrap_or(SETTLED_DAYS))
}

fn effects(plant: Plant, begin: i32, all: (i32, i32)) -> Vec<PlantedEffect> {
    let effect = |metric, size, is_percent, days| PlantedEffect { metric, size, is_percent, days };
    let ill = (begin, begin + ILL_NIGHTS - 1);
    let block = (begin, begin + BLOCK_DAYS - 1);
    let trips = (begin, begin + TRIPS * 14 - 1);
    match plant {
        Plant::Caffeine => vec![
            effect("asleep", CAFFEINE_SLEEP_MIN, false, all),
            effect("recovery", CAFFEINE_RECOVERY, false, all),
        ],
        Plant::Illness => vec![
            effect("resting_heart_rate", ILLNESS_HR_BPM, false, ill),
            effect("hrv", ILLNESS_HRV_PCT, true, ill),
            effect("respiratory_rate", ILLNESS_BREATHS, false, ill),
        ],
        Plant::TrainingBlock => vec![
            effect("workout_energy", BLOCK_LOAD_KJ, false, block),
            effect("hrv", BLOCK_HRV_PCT, true, block),
        ],
        Plant::Travel => vec![effect("asleep", TRAVEL_SLEEP_MIN, false, trips)],
        Plant::Nothing => Vec::new(),
    }
}

fn plant_in(day: &mut PlantedDay, plant: Plant, begin: i32, caffeine_before: bool) {
    let into = day.number - begin;
    match plant {
        Plant::Caffeine if caffeine_before => {
            day.asleep_min += CAFFEINE_SLEEP_MIN;
            day.recovery_pct += CAFFEINE_RECOVERY;
        }
        Plant::Illness if (0..ILL_NIGHTS).contains(&into) => {
            day.resting_hr_bpm += ILLNESS_HR_BPM;
            day.hrv_ms *= 1.0 + ILLNESS_HRV_PCT / 100.0;
            day.respiratory_rate += ILLNESS_BREATHS;
        }
        Plant::TrainingBlock if (0..BLOCK_DAYS).contains(&into) => {
            day.load_kj += BLOCK_LOAD_KJ;
            day.hrv_ms *= 1.0 + BLOCK_HRV_PCT / 100.0;
        }
        Plant::Travel => travel(day, begin),
        _ => {}
    }
}

/// Trips are two weeks apart, there and back: each flight moves the clock and costs five nights.
fn travel(day: &mut PlantedDay, begin: i32) {
    let into = day.number - begin;
    let flight = into.div_euclid(14);
    if into < 0 || flight >= TRIPS {
        return;
    }
    if flight % 2 == 0 {
        day.offset_h += TRIP_HOURS;
    }
    if into.rem_euclid(14) < TRIP_NIGHTS {
        day.asleep_min += TRAVEL_SLEEP_MIN;
    }
}

/// The habits and the current state of a person: one value with memory per metric.
struct Person {
    seed: u64,
    hrv_ms: f64,
    resting_hr_bpm: f64,
    respiratory_rate: f64,
    asleep_min: f64,
    load_kj: f64,
    memory: [f64; 6],
    state: [f64; 6],
}

/// How much of yesterday's deviation each metric keeps: HRV, heart rate, breathing, recovery, sleep, load.
const MEMORY: [f64; 6] = [0.5, 0.5, 0.3, 0.3, 0.2, 0.2];

impl Person {
    fn of(seed: u64) -> Person {
        let mut rng = Rng::stream(seed, "planted person", 0);
        Person {
            seed,
            hrv_ms: rng.between(38.0, 95.0),
            resting_hr_bpm: rng.between(45.0, 62.0),
            respiratory_rate: rng.between(13.2, 17.0),
            asleep_min: rng.between(400.0, 460.0),
            load_kj: rng.between(1_200.0, 1_800.0),
            memory: MEMORY.map(|memory| memory + rng.between(-0.1, 0.15)),
            state: [0.0; 6],
        }
    }

    /// The day without a plant.
    fn day(&mut self, number: i32) -> PlantedDay {
        let mut rng = Rng::stream(self.seed, "planted day", i64::from(number));
        for (state, memory) in self.state.iter_mut().zip(self.memory) {
            *state = *state * memory + rng.spread() * (1.0 - memory * memory).sqrt();
        }
        let [hrv, rest, breath, recovery, asleep, load] = self.state;
        let weekday = (number + 3).rem_euclid(7);
        let weekend = f64::from(i32::from(weekday >= 5));
        let hard_day = f64::from(i32::from(weekday == 1 || weekday == 5));
        PlantedDay {
            number,
            is_recorded: !rng.happens(MISSED),
            hrv_ms: self.hrv_ms * (1.0 + 0.12 * hrv - 0.05 * weekend).max(0.2),
            resting_hr_bpm: self.resting_hr_bpm + 1.8 * rest + 1.2 * weekend,
            respiratory_rate: self.respiratory_rate + 0.35 * breath,
            recovery_pct: (60.0 + 14.0 * recovery - 5.0 * weekend).clamp(12.0, 99.0),
            asleep_min: self.asleep_min + 42.0 * asleep + 40.0 * weekend,
            load_kj: (self.load_kj * (1.0 + 0.5 * load + 0.6 * hard_day)).max(0.0),
            late_caffeine: rng.happens(0.4 - 0.2 * weekend),
            read_in_bed: rng.happens(0.5),
            alcohol: rng.happens(0.1 + 0.35 * weekend),
            offset_h: 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_person_and_seeds_alternate_plants() {
        assert_eq!(person(7, 20_000, 365), person(7, 20_000, 365));
        let plants: Vec<Plant> = (0..5).map(|seed| person(seed, 20_000, 365).plant).collect();
        let all =
            [Plant::Caffeine, Plant::Illness, Plant::TrainingBlock, Plant::Travel, Plant::Nothing];
        assert_eq!(plants, all);
    }

    #[test]
    fn a_plant_ends_before_the_data_does() {
        for seed in 0..200 {
            let person = person(seed, 20_000, 365);
            assert_eq!(person.days.len(), 365);
            for effect in person.effects {
                assert!(effect.days.0 >= 20_000 && effect.days.1 < 20_365, "{effect:?}");
            }
        }
    }
}
