//! Generates the days of a member: bedtime, waking, illness, travel, naps and workouts. A day depends on its
//! seed, its date and the previous day, never on later days.

use super::person::Person;
use super::sports::{SPORTS, Sport};
use super::zones::Zone;
use crate::rng::{Rng, nearest, real};
use crate::timestamp::{HOUR_MS, MINUTE_MS, weekday};

/// A block of this many days has at most one illness.
const ILLNESS_BLOCK_DAYS: i64 = 90;
const ILLNESS_PROBABILITY: f64 = 0.75;
/// After a flight to the east the next bedtime can be too early; that night has no sleep.
const AWAKE_MS_MIN: i64 = 5 * HOUR_MS;
/// Relative probability of a workout by weekday, from Monday.
const EAGERNESS: [f64; 7] = [1.1, 1.15, 1.0, 1.1, 0.7, 1.3, 0.65];

/// One waking day with the night before it.
#[derive(Clone, Debug)]
pub(super) struct Day {
    /// Days since 1970.
    pub(super) number: i64,
    /// Days since the first day.
    pub(super) nth: i64,
    pub(super) zone: Zone,
    pub(super) bed_ms: i64,
    pub(super) wake_ms: i64,
    /// When the next night begins.
    pub(super) next_bed_ms: i64,
    pub(super) night: Night,
    /// Illness from 0 (well) to 1.
    pub(super) illness: f64,
    pub(super) drank: bool,
    pub(super) nap: Option<(i64, i64)>,
    pub(super) sessions: Vec<Session>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Night {
    Whole,
    /// Awake for a while in the middle; the first part counts as a nap or as a separate sleep.
    Split {
        up_ms: i64,
        back_ms: i64,
        first_is_nap: bool,
    },
    /// The strap was not worn.
    Missed,
}

#[derive(Clone, Debug)]
pub(super) struct Session {
    pub(super) start_ms: i64,
    pub(super) end_ms: i64,
    pub(super) sport: &'static Sport,
    pub(super) effort: f64,
}

impl Session {
    pub(super) fn minutes(&self) -> f64 {
        real(self.end_ms - self.start_ms) / real(MINUTE_MS)
    }

    /// The load, in the unit that strain is computed from.
    pub(super) fn load(&self) -> f64 {
        self.minutes() * self.effort * self.effort * 3.0
    }
}

/// The days from `first` to `last`, in order; a day lost to a flight is missing.
pub(super) fn days(seed: u64, person: &Person, first: i64, last: i64) -> Vec<Day> {
    let mut beds: Vec<Day> = Vec::new();
    for day in first..=last + 1 {
        let bed = go_to_bed(seed, person, first, day);
        let rested = |before: &Day| bed.bed_ms >= before.wake_ms + AWAKE_MS_MIN;
        if beds.last().is_none_or(rested) {
            beds.push(bed);
        }
    }
    let next_beds: Vec<i64> = beds.iter().skip(1).map(|day| day.bed_ms).collect();
    let mut days = Vec::with_capacity(next_beds.len());
    for (mut day, next_bed_ms) in beds.into_iter().zip(next_beds) {
        day.next_bed_ms = next_bed_ms;
        live(seed, person, &mut day);
        days.push(day);
    }
    days
}

fn illness(seed: u64, day: i64) -> f64 {
    let block = day.div_euclid(ILLNESS_BLOCK_DAYS);
    let mut rng = Rng::stream(seed, "illness", block);
    if !rng.happens(ILLNESS_PROBABILITY) {
        return 0.0;
    }
    let first = block * ILLNESS_BLOCK_DAYS + rng.whole(0, 80);
    let days = rng.whole(3, 8);
    let worst = rng.between(0.5, 1.0);
    let into = day - first;
    if !(0..days).contains(&into) {
        return 0.0;
    }
    // Sudden onset, slow recovery.
    worst * (1.0 - 0.8 * real(into) / real(days))
}

fn go_to_bed(seed: u64, person: &Person, first: i64, day: i64) -> Day {
    let mut rng = Rng::stream(seed, "bed", day);
    let minutes = |minutes: f64| minutes * real(MINUTE_MS);
    let zone = person.whereabouts.zone_on(day);
    let weekend = weekday(day) >= 5;
    let ill = illness(seed, day);
    let out_late = weekend && rng.happens(0.22);
    let late_min = if out_late { rng.between(60.0, 200.0) } else { 0.0 };
    let weekend_min = if weekend { 45.0 } else { 0.0 };
    let bed_of_day =
        person.bedtime_ms + minutes(weekend_min + late_min + 26.0 * rng.spread() - 40.0 * ill);
    let in_bed = person.in_bed_ms
        + minutes(0.6 * weekend_min - 0.35 * late_min + 32.0 * rng.spread() + 60.0 * ill);
    let in_bed_ms = tens(in_bed.clamp(3.2 * real(HOUR_MS), 11.0 * real(HOUR_MS)));
    let bed_ms = zone.instant(day, tens(bed_of_day));
    let wake_ms = bed_ms + in_bed_ms;
    Day {
        number: day,
        nth: day - first,
        zone,
        bed_ms,
        wake_ms,
        next_bed_ms: wake_ms,
        night: night(&mut rng, bed_ms, in_bed_ms),
        illness: ill,
        drank: out_late && rng.happens(0.75) || rng.happens(0.05),
        nap: None,
        sessions: Vec::new(),
    }
}

fn night(rng: &mut Rng, bed_ms: i64, in_bed_ms: i64) -> Night {
    if rng.happens(0.018) {
        return Night::Missed;
    }
    if in_bed_ms < 6 * HOUR_MS || !rng.happens(0.012) {
        return Night::Whole;
    }
    let up_ms = bed_ms + tens(real(in_bed_ms) * rng.between(0.3, 0.42));
    let back_ms = up_ms + tens(rng.between(50.0, 100.0) * real(MINUTE_MS));
    Night::Split { up_ms, back_ms, first_is_nap: rng.happens(0.4) }
}

/// Adds naps and workouts between waking and the next night.
fn live(seed: u64, person: &Person, day: &mut Day) {
    let mut rng = Rng::stream(seed, "awake", day.number);
    let weekend = weekday(day.number) >= 5;
    let nap_probability = 0.06 + if weekend { 0.07 } else { 0.0 } + 0.35 * day.illness;
    if rng.happens(nap_probability) {
        day.nap = nap(&mut rng, day);
    }
    let weekday = usize::try_from(weekday(day.number)).unwrap_or(0);
    let eager = EAGERNESS.get(weekday).copied().unwrap_or(1.0) * person.workouts_a_week / 7.0;
    let wish = (eager * (1.0 - 0.92 * day.illness.min(1.0))).min(0.95);
    for (wish, hours) in [(wish, (0.5, 2.0)), (0.45 * wish, (8.5, 11.0)), (0.1 * wish, (4.0, 6.0))]
    {
        if rng.happens(wish) {
            train(&mut rng, person, day, hours);
        }
    }
    day.sessions.sort_by_key(|session| session.start_ms);
}

fn nap(rng: &mut Rng, day: &Day) -> Option<(i64, i64)> {
    let awake = real(day.next_bed_ms - day.wake_ms);
    let start_ms = day.wake_ms + tens(awake * rng.between(0.4, 0.6));
    let end_ms = start_ms + tens(rng.between(18.0, 95.0) * real(MINUTE_MS));
    (end_ms + 2 * HOUR_MS < day.next_bed_ms).then_some((start_ms, end_ms))
}

/// Adds a workout that begins a number of hours after waking, if it fits.
fn train(rng: &mut Rng, person: &Person, day: &mut Day, hours: (f64, f64)) {
    let sport = if rng.happens(0.75) {
        rng.pick(&person.favourites).and_then(|at| SPORTS.get(*at))
    } else {
        rng.pick(SPORTS)
    };
    let Some(sport) = sport else { return };
    let start_ms = day.wake_ms + tens(rng.between(hours.0, hours.1) * real(HOUR_MS));
    let minutes = rng.between(sport.minutes.0, sport.minutes.1);
    let end_ms = start_ms + tens(minutes * real(MINUTE_MS));
    let effort = rng.between(sport.effort.0, sport.effort.1);
    let taken = day.nap.into_iter().chain(day.sessions.iter().map(|s| (s.start_ms, s.end_ms)));
    let free = taken.into_iter().all(|(from, to)| end_ms < from || start_ms > to);
    if free && end_ms + HOUR_MS < day.next_bed_ms {
        day.sessions.push(Session { start_ms, end_ms, sport, effort });
    }
}

/// WHOOP's milliseconds are multiples of ten.
pub(super) fn tens(ms: f64) -> i64 {
    nearest(ms / 10.0) * 10
}

#[cfg(test)]
mod tests {
    use super::{AWAKE_MS_MIN, Night, days};
    use crate::services::whoop::person::Person;
    use crate::timestamp::{HOUR_MS, day_of};

    #[test]
    fn days_are_consecutive_and_events_fit_into_them() {
        for seed in 0..12 {
            let person = Person::of(seed);
            let days = days(seed, &person, day_of(2022, 1, 1), day_of(2025, 12, 31));
            assert!(days.len() > 1_400, "{}", days.len());
            for pair in days.windows(2) {
                let [day, next] = pair else { continue };
                assert_eq!(day.next_bed_ms, next.bed_ms);
                assert!(day.wake_ms + AWAKE_MS_MIN <= next.bed_ms);
                for session in &day.sessions {
                    assert!(session.start_ms > day.wake_ms && session.end_ms < next.bed_ms);
                }
                if let Night::Split { up_ms, back_ms, .. } = day.night {
                    assert!(day.bed_ms < up_ms && up_ms < back_ms);
                    assert!(back_ms + HOUR_MS < day.wake_ms);
                }
            }
        }
    }

    #[test]
    fn later_days_do_not_change_earlier_ones() {
        let person = Person::of(5);
        let first = day_of(2024, 1, 1);
        let short = days(5, &person, first, first + 99);
        let long = days(5, &person, first, first + 300);
        for (short, long) in short.iter().zip(&long) {
            assert_eq!(format!("{short:?}"), format!("{long:?}"));
        }
    }
}
