//! Which calendar day a cycle belongs to: the day its owner woke, on the clock they woke by. Pure, so
//! that every by-day view counts the same way.

use jiff::civil::Date;

use crate::when::local_date;

/// Without a sleep, a cycle that begins in the evening belongs to the next day.
pub(super) const EVENING_US: i64 = 6 * 3_600_000_000;

/// The inputs for a cycle's day.
#[derive(Clone, Debug, PartialEq)]
pub struct Turning {
    pub cycle_id: String,
    pub start_us: i64,
    pub offset_s: i32,
}

/// A sleep that is not a nap.
#[derive(Clone, Debug, PartialEq)]
pub struct Night {
    pub cycle_id: String,
    pub start_us: i64,
    pub end_us: i64,
    pub offset_s: i32,
    pub in_bed_s: f64,
}

/// The main sleep of a cycle: the longest, on a tie the newest.
pub fn main_night<'a>(cycle_id: &str, nights: &'a [Night]) -> Option<&'a Night> {
    nights
        .iter()
        .filter(|night| night.cycle_id == cycle_id)
        .max_by(|a, b| a.in_bed_s.total_cmp(&b.in_bed_s).then(a.start_us.cmp(&b.start_us)))
}

/// The day of a cycle. The main sleep's own offset counts, so a night in another zone ends there.
pub fn day_of(cycle: &Turning, nights: &[Night]) -> Option<Date> {
    match main_night(&cycle.cycle_id, nights) {
        Some(night) => local_date(night.end_us, night.offset_s),
        None => local_date(cycle.start_us.saturating_add(EVENING_US), cycle.offset_s),
    }
}

/// The cycles of a day, the one with the longest night first; a second one is rare and real.
pub fn cycles_of<'a>(date: Date, cycles: &'a [Turning], nights: &[Night]) -> Vec<&'a Turning> {
    let mut found: Vec<&Turning> =
        cycles.iter().filter(|cycle| day_of(cycle, nights) == Some(date)).collect();
    let weight = |cycle: &Turning| main_night(&cycle.cycle_id, nights).map_or(-1.0, |n| n.in_bed_s);
    found.sort_by(|a, b| weight(b).total_cmp(&weight(a)).then(b.start_us.cmp(&a.start_us)));
    found
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::when::instant_us;

    fn cycle(id: &str, start: &str, offset_h: i32) -> Turning {
        Turning {
            cycle_id: id.to_owned(),
            start_us: instant_us(start).unwrap(),
            offset_s: offset_h * 3600,
        }
    }

    fn night(id: &str, start: &str, end: &str, offset_h: i32) -> Night {
        let (start_us, end_us) = (instant_us(start).unwrap(), instant_us(end).unwrap());
        #[expect(clippy::cast_precision_loss, reason = "hours of a night")]
        let in_bed_s = (end_us - start_us) as f64 / 1e6;
        Night { cycle_id: id.to_owned(), start_us, end_us, offset_s: offset_h * 3600, in_bed_s }
    }

    fn days(cycles: &[Turning], nights: &[Night]) -> Vec<String> {
        cycles.iter().map(|cycle| day_of(cycle, nights).unwrap().to_string()).collect()
    }

    #[test]
    fn a_night_belongs_to_the_morning_it_ends_east_and_west_of_greenwich() {
        let berlin = [cycle("1", "2026-04-13T21:00:00Z", 2)];
        let slept = [night("1", "2026-04-13T21:00:00Z", "2026-04-14T05:00:00Z", 2)];
        assert_eq!(days(&berlin, &slept), ["2026-04-14"]);
        let california = [cycle("2", "2026-04-14T06:00:00Z", -7)];
        let slept = [night("2", "2026-04-14T06:00:00Z", "2026-04-14T14:00:00Z", -7)];
        assert_eq!(days(&california, &slept), ["2026-04-14"]);
    }

    #[test]
    fn two_cycles_that_start_on_one_date_are_two_days() {
        let cycles =
            [cycle("late", "2026-04-14T00:30:00Z", 0), cycle("early", "2026-04-14T22:00:00Z", 0)];
        let nights = [
            night("late", "2026-04-14T00:30:00Z", "2026-04-14T08:00:00Z", 0),
            night("early", "2026-04-14T22:00:00Z", "2026-04-15T06:00:00Z", 0),
        ];
        assert_eq!(days(&cycles, &nights), ["2026-04-14", "2026-04-15"]);
    }

    #[test]
    fn a_flight_ends_the_night_on_the_clock_of_arrival() {
        // Asleep over the Pacific: the sleep carries Tokyo's offset, the cycle California's.
        let cycles = [cycle("1", "2026-04-14T10:00:00Z", -7)];
        let nights = [night("1", "2026-04-14T10:00:00Z", "2026-04-14T16:00:00Z", 9)];
        assert_eq!(days(&cycles, &nights), ["2026-04-15"]);
    }

    #[test]
    fn a_split_night_counts_by_its_longer_part_and_a_missed_one_by_its_evening() {
        let cycles = [cycle("1", "2026-04-13T21:00:00Z", 0)];
        let nights = [
            night("1", "2026-04-13T21:00:00Z", "2026-04-13T23:00:00Z", 0),
            night("1", "2026-04-14T01:00:00Z", "2026-04-14T06:00:00Z", 0),
        ];
        assert_eq!(days(&cycles, &nights), ["2026-04-14"]);
        assert_eq!(days(&cycles, &[]), ["2026-04-14"]);
        assert_eq!(days(&[cycle("2", "2026-04-14T03:00:00Z", 0)], &[]), ["2026-04-14"]);
    }

    #[test]
    fn of_two_cycles_of_one_day_the_longer_night_leads() {
        let cycles =
            [cycle("short", "2026-04-14T20:00:00Z", 0), cycle("long", "2026-04-14T00:00:00Z", 0)];
        let nights = [
            night("short", "2026-04-14T20:00:00Z", "2026-04-14T22:00:00Z", 0),
            night("long", "2026-04-14T00:00:00Z", "2026-04-14T07:00:00Z", 0),
        ];
        let date = day_of(cycles.first().unwrap(), &nights).unwrap();
        let found: Vec<&str> =
            cycles_of(date, &cycles, &nights).iter().map(|c| c.cycle_id.as_str()).collect();
        assert_eq!(found, ["long", "short"]);
    }
}
