//! Time zones with summer times, and journeys between them. Uses no time-zone database, so that a seed gives
//! the same bytes on every machine.

use crate::rng::Rng;
use crate::timestamp::{DAY_MS, HOUR_MS, MINUTE_MS, date_of, day_of, weekday};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Summer {
    Never,
    /// Last Sunday of March to last Sunday of October, at 01:00 UTC.
    Europe,
    /// Second Sunday of March to first Sunday of November, at two o'clock.
    America,
    /// First Sunday of October to first Sunday of April, at two o'clock standard time.
    Australia,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Zone {
    standard_min: i64,
    summer: Summer,
    /// How a zero offset is written: services write both forms.
    zero: &'static str,
}

const fn zone(standard_min: i64, summer: Summer) -> Zone {
    Zone { standard_min, summer, zero: "+00:00" }
}

/// Zones of homes.
const HOMES: &[Zone] = &[
    zone(0, Summer::Europe),
    zone(60, Summer::Europe),
    zone(120, Summer::Europe),
    zone(-300, Summer::America),
    zone(-360, Summer::America),
    zone(-480, Summer::America),
    zone(600, Summer::Australia),
];

/// Zones of travel destinations, including unusual offsets.
const AWAY: &[Zone] = &[
    Zone { standard_min: 0, summer: Summer::Never, zero: "Z" },
    zone(60, Summer::Europe),
    zone(-300, Summer::America),
    zone(-480, Summer::America),
    zone(330, Summer::Never),
    zone(345, Summer::Never),
    zone(540, Summer::Never),
    zone(480, Summer::Never),
    zone(-180, Summer::Never),
    zone(-210, Summer::America),
];

/// A block of this many days has at most one journey.
const JOURNEY_BLOCK_DAYS: i64 = 75;
const JOURNEY_PROBABILITY: f64 = 0.7;

/// Where a member lives and travels.
#[derive(Clone, Copy, Debug)]
pub(super) enum Whereabouts {
    /// A home and journeys, by the seed.
    OfSeed(u64),
    /// Always at this offset from UTC.
    Fixed(Zone),
}

impl Whereabouts {
    pub(super) fn of(seed: u64, offset_min: Option<i64>) -> Whereabouts {
        match offset_min {
            Some(minutes) => Whereabouts::Fixed(zone(minutes, Summer::Never)),
            None => Whereabouts::OfSeed(seed),
        }
    }

    /// The zone of the night that ends on `day`.
    pub(super) fn zone_on(self, day: i64) -> Zone {
        match self {
            Whereabouts::OfSeed(seed) => zone_on(seed, day),
            Whereabouts::Fixed(zone) => zone,
        }
    }
}

fn home(seed: u64) -> Zone {
    const FALLBACK: Zone = zone(60, Summer::Europe);
    *Rng::stream(seed, "home", 0).pick(HOMES).unwrap_or(&FALLBACK)
}

/// Depends only on the seed and the day, so that more days before it change nothing.
fn zone_on(seed: u64, day: i64) -> Zone {
    let block = day.div_euclid(JOURNEY_BLOCK_DAYS);
    let mut rng = Rng::stream(seed, "journey", block);
    if !rng.happens(JOURNEY_PROBABILITY) {
        return home(seed);
    }
    let first = block * JOURNEY_BLOCK_DAYS + rng.whole(3, 55);
    let days = rng.whole(4, 15);
    let away = rng.pick(AWAY).copied().unwrap_or(home(seed));
    if (first..first + days).contains(&day) { away } else { home(seed) }
}

impl Zone {
    pub(super) fn offset_min(&self, utc_ms: i64) -> i64 {
        self.standard_min + if self.is_summer(utc_ms) { 60 } else { 0 }
    }

    /// `+02:00`, `-03:30`, `Z`: the offset at that instant.
    pub(super) fn offset_text(&self, utc_ms: i64) -> String {
        let minutes = self.offset_min(utc_ms);
        if minutes == 0 {
            return self.zero.to_owned();
        }
        let sign = if minutes < 0 { '-' } else { '+' };
        format!("{sign}{:02}:{:02}", minutes.abs() / 60, minutes.abs() % 60)
    }

    /// The instant of a local time of day, which may be negative: the evening before.
    pub(super) fn instant(&self, day: i64, of_day_ms: i64) -> i64 {
        let local_ms = day * DAY_MS + of_day_ms;
        let guess_ms = local_ms - self.standard_min * MINUTE_MS;
        local_ms - self.offset_min(guess_ms) * MINUTE_MS
    }

    /// The local day at that instant.
    pub(super) fn day(&self, utc_ms: i64) -> i64 {
        (utc_ms + self.offset_min(utc_ms) * MINUTE_MS).div_euclid(DAY_MS)
    }

    fn is_summer(&self, utc_ms: i64) -> bool {
        let standard_ms = utc_ms + self.standard_min * MINUTE_MS;
        let (year, ..) = date_of(standard_ms.div_euclid(DAY_MS));
        // Times are in this zone's standard time, except Europe's, which are UTC.
        let at = |day: i64, hour: i64| day * DAY_MS + hour * HOUR_MS;
        match self.summer {
            Summer::Never => false,
            Summer::Europe => {
                let from = at(last_sunday(year, 3), 1);
                (from..at(last_sunday(year, 10), 1)).contains(&utc_ms)
            }
            Summer::America => {
                let from = at(first_sunday(year, 3) + 7, 2);
                (from..at(first_sunday(year, 11), 1)).contains(&standard_ms)
            }
            Summer::Australia => {
                let until = at(first_sunday(year, 4), 2);
                standard_ms < until || standard_ms >= at(first_sunday(year, 10), 2)
            }
        }
    }
}

fn first_sunday(year: i64, month: i64) -> i64 {
    let first = day_of(year, month, 1);
    first + 6 - weekday(first)
}

/// For months with 31 days.
fn last_sunday(year: i64, month: i64) -> i64 {
    let last = day_of(year, month, 31);
    last - (weekday(last) + 1) % 7
}

#[cfg(test)]
mod tests {
    use super::{Summer, zone, zone_on};
    use crate::timestamp::{day_of, read};

    #[test]
    fn summer_time_begins_and_ends_on_the_right_days() {
        let (berlin, york, sydney) =
            (zone(60, Summer::Europe), zone(-300, Summer::America), zone(600, Summer::Australia));
        for (zone, instant, offset) in [
            (&berlin, "2026-03-29T00:59:59Z", "+01:00"),
            (&berlin, "2026-03-29T01:00:00Z", "+02:00"),
            (&berlin, "2026-10-25T00:59:59Z", "+02:00"),
            (&berlin, "2026-10-25T01:00:00Z", "+01:00"),
            (&york, "2026-03-08T06:59:59Z", "-05:00"),
            (&york, "2026-03-08T07:00:00Z", "-04:00"),
            (&york, "2026-11-01T05:59:59Z", "-04:00"),
            (&york, "2026-11-01T06:00:00Z", "-05:00"),
            (&sydney, "2026-04-04T15:59:59Z", "+11:00"),
            (&sydney, "2026-04-04T16:00:00Z", "+10:00"),
            (&sydney, "2026-10-03T15:59:59Z", "+10:00"),
            (&sydney, "2026-10-03T16:00:00Z", "+11:00"),
        ] {
            let at = read(instant).unwrap_or_default();
            assert_eq!(zone.offset_text(at), offset, "{instant}");
        }
    }

    #[test]
    fn a_time_of_day_round_trips() {
        let york = zone(-300, Summer::America);
        let day = day_of(2026, 7, 4);
        let at = york.instant(day, -3_600_000);
        assert_eq!(Some(at), read("2026-07-04T03:00:00Z"));
        assert_eq!(york.day(at), day - 1);
    }

    #[test]
    fn most_people_travel_in_a_year_and_come_home() {
        let day = day_of(2025, 1, 1);
        for seed in 0..20 {
            let days = || (day..day + 365).map(|day| zone_on(seed, day));
            assert!(days().any(|zone| zone != super::home(seed)), "seed {seed} never left");
            let at_home = days().filter(|zone| *zone == super::home(seed)).count();
            assert!(at_home > 200, "seed {seed} was at home {at_home} days");
        }
    }
}
