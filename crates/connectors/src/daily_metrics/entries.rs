//! Metrics that are computed from entries with a time, such as plays and posts.

use std::collections::{BTreeMap, BTreeSet};

use insights::{Better, Day, Metric, Series, Unit};
use serde_json::{Map, Value};
use store::records::{Records, RecordsError, Window};

use super::OwnersZone;

const DAY_US: i64 = 86_400_000_000;
/// A day without an entry is a zero between two entries, unless they are farther apart than this: then
/// nothing may have been recorded.
pub(super) const GAP_DAYS_MAX: i32 = 14;
/// The late evening, in minutes after midnight. The hours after midnight belong to the day before.
const LATE_FROM_MIN: i64 = 22 * 60;
const LATE_TO_MIN: i64 = 4 * 60;
/// Two readings of a running total that are farther apart do not say on which day it grew.
const READINGS_APART_US_MAX: i64 = 8 * 3_600 * 1_000_000;

/// A metric of mirrored entries.
pub struct EntryMetric {
    pub metric: Metric,
    pub(crate) reading: DayValue,
}

impl EntryMetric {
    /// A metric that adds up what the entries of a day add. Neither direction of it is better.
    pub(crate) const fn sum(
        name: &'static str,
        title: &'static str,
        unit: Unit,
        sources: &'static [EntrySource],
        part: DayPart,
    ) -> EntryMetric {
        let metric = Metric { name, title, unit, better: Better::Neither, is_log: false };
        EntryMetric { metric, reading: DayValue::Sum { sources, part } }
    }
}

/// How the value of a day is computed.
pub(crate) enum DayValue {
    /// The sum over the entries of a day. Of several kinds, the first that has an entry on the day counts,
    /// so that an archive and the API do not count the same play twice.
    Sum { sources: &'static [EntrySource], part: DayPart },
    /// The growth of a running total that was read with each sync.
    Growth { kind: &'static str, total: EntryAmount },
}

/// Entries of one kind and what each adds.
pub(crate) struct EntrySource {
    pub(crate) kind: &'static str,
    pub(crate) amount: EntryAmount,
}

/// What an entry adds, by its derived columns.
pub(crate) type EntryAmount = fn(&Map<String, Value>) -> Option<f64>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DayPart {
    Whole,
    /// From 22:00 to 04:00.
    Late,
}

/// Each entry counts as one.
pub(crate) const ONE: EntryAmount = |_| Some(1.0);

pub(crate) fn number(columns: &Map<String, Value>, name: &str) -> Option<f64> {
    columns.get(name)?.as_f64().filter(|number| *number >= 0.0)
}

/// A column in milliseconds, as minutes.
pub(crate) fn milliseconds(columns: &Map<String, Value>, name: &str) -> Option<f64> {
    number(columns, name).map(|ms| ms / 60_000.0)
}

/// What is loaded.
pub(super) struct MetricsQuery {
    pub(super) service: &'static str,
    pub(super) now_us: i64,
    pub(super) days: Option<i32>,
    pub(super) today: Day,
}

/// An entry with its time.
type Entry = (i64, Map<String, Value>);

pub(super) fn load<'a>(
    records: &Records,
    query: &MetricsQuery,
    zone: &OwnersZone,
    rows: impl Iterator<Item = &'a EntryMetric>,
) -> Result<BTreeMap<&'static str, Series>, RecordsError> {
    let mut read: BTreeMap<&'static str, Vec<Entry>> = BTreeMap::new();
    let mut found = BTreeMap::new();
    for row in rows {
        for kind in row.reading.kinds() {
            if !read.contains_key(kind) {
                read.insert(kind, entries(records, query, kind)?);
            }
        }
        let of = |kind: &str| read.get(kind).map(Vec::as_slice).unwrap_or_default();
        let series = match &row.reading {
            DayValue::Sum { sources, part } => sums(sources, *part, zone, of),
            DayValue::Growth { kind, total } => growth(of(kind), *total, zone),
        };
        // Today is not over.
        found.insert(row.metric.name, series.between(Day::from_number(0), query.today.plus(-1)));
    }
    Ok(found)
}

impl DayValue {
    fn kinds(&self) -> Vec<&'static str> {
        match self {
            DayValue::Sum { sources, .. } => sources.iter().map(|source| source.kind).collect(),
            DayValue::Growth { kind, .. } => vec![*kind],
        }
    }
}

fn entries(
    records: &Records,
    query: &MetricsQuery,
    kind: &str,
) -> Result<Vec<Entry>, RecordsError> {
    let from_us = query.days.map(|days| query.now_us - (i64::from(days) + 1) * DAY_US);
    let window = Window { from_us, ..Window::default() };
    let rows = records.window_timed(query.service, kind, &window)?;
    let entry = |(at_us, flat): (i64, String)| Some((at_us, serde_json::from_str(&flat).ok()?));
    let mut entries: Vec<Entry> = rows.into_iter().filter_map(entry).collect();
    entries.sort_by_key(|(at_us, _)| *at_us);
    Ok(entries)
}

fn sums<'a>(
    sources: &[EntrySource],
    part: DayPart,
    zone: &OwnersZone,
    of: impl Fn(&str) -> &'a [Entry],
) -> Series {
    let mut days: BTreeMap<Day, f64> = BTreeMap::new();
    for source in sources {
        let mut own: BTreeMap<Day, f64> = BTreeMap::new();
        for (at_us, columns) in of(source.kind) {
            let day = evening(zone, *at_us, part);
            // An entry at another time of the day still says that something was recorded.
            let added =
                if is_in(zone, *at_us, part) { (source.amount)(columns) } else { Some(0.0) };
            *own.entry(day).or_default() += added.unwrap_or(0.0);
        }
        for (day, sum) in own {
            days.entry(day).or_insert(sum);
        }
    }
    with_zeros(&days)
}

fn is_in(zone: &OwnersZone, at_us: i64, part: DayPart) -> bool {
    let minute = zone.minute_of_day(at_us);
    part == DayPart::Whole || !(LATE_TO_MIN..LATE_FROM_MIN).contains(&minute)
}

/// The day of an entry; the night belongs to the evening before it where evenings are counted.
fn evening(zone: &OwnersZone, at_us: i64, part: DayPart) -> Day {
    let day = zone.day(at_us);
    let is_night = zone.minute_of_day(at_us) < LATE_TO_MIN;
    if part == DayPart::Late && is_night { day.plus(-1) } else { day }
}

fn with_zeros(days: &BTreeMap<Day, f64>) -> Series {
    let mut points: Vec<(Day, f64)> = Vec::new();
    for (day, sum) in days {
        if let Some((last, _)) = points.last().copied()
            && day.since(last) <= GAP_DAYS_MAX
        {
            points.extend((1..day.since(last)).map(|after| (last.plus(after), 0.0)));
        }
        points.push((*day, *sum));
    }
    Series::from_points(points)
}

/// A day counts only where every growth that touches it is certainly on it.
fn growth(readings: &[Entry], total: EntryAmount, zone: &OwnersZone) -> Series {
    let read = readings.iter().filter_map(|(at_us, columns)| Some((*at_us, total(columns)?)));
    let read: Vec<(i64, f64)> = read.collect();
    let mut days: BTreeMap<Day, f64> = BTreeMap::new();
    let mut unknown: BTreeSet<Day> = BTreeSet::new();
    // What happened on the first day before the first reading is not known.
    unknown.extend(read.first().map(|(at_us, _)| zone.day(*at_us)));
    for (before, after) in read.iter().zip(read.iter().skip(1)) {
        let (from, to) = (zone.day(before.0), zone.day(after.0));
        // A total that falls was reset, or the game was removed.
        let grown = after.1 - before.1;
        let is_certain = from == to || after.0 - before.0 <= READINGS_APART_US_MAX;
        let middle = zone.day(before.0 + (after.0 - before.0) / 2);
        let spanned = (0..=to.since(from)).map(|after| from.plus(after));
        if grown == 0.0 {
            spanned.for_each(|day| *days.entry(day).or_default() += 0.0);
        } else if grown < 0.0 || !is_certain {
            unknown.extend(spanned);
        } else {
            *days.entry(middle).or_default() += grown;
        }
    }
    Series::from_points(days.into_iter().filter(|(day, _)| !unknown.contains(day)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use serde_json::json;

    const HOUR_US: i64 = 3_600_000_000;

    fn entry(day: i64, hour: i64, value: f64) -> Entry {
        (day * DAY_US + hour * HOUR_US, json!({ "v": value }).as_object().unwrap().clone())
    }

    fn berlin() -> OwnersZone {
        OwnersZone::new(&Series::from_points([(Day::from_number(0), 60.0)]))
    }

    fn amount(columns: &Map<String, Value>) -> Option<f64> {
        number(columns, "v")
    }

    const SOURCES: &[EntrySource] =
        &[EntrySource { kind: "best", amount }, EntrySource { kind: "other", amount }];

    fn summed(part: DayPart, best: &[Entry], other: &[Entry]) -> Vec<(i32, f64)> {
        let of = |kind: &str| if kind == "best" { best } else { other };
        let series = sums(SOURCES, part, &berlin(), of);
        series.points().map(|(day, value)| (day.number(), value)).collect()
    }

    #[test]
    fn days_are_local_and_a_day_between_two_entries_is_a_zero() {
        // 23:30 UTC is half past midnight of the next day in Berlin.
        let best = [entry(10, 12, 5.0), entry(11, 23, 7.0), entry(40, 12, 1.0)];
        assert_eq!(
            summed(DayPart::Whole, &best, &[]),
            [(10, 5.0), (11, 0.0), (12, 7.0), (40, 1.0)]
        );
    }

    #[test]
    fn the_better_source_of_a_day_counts_alone() {
        let (best, other) = ([entry(10, 12, 5.0)], [entry(10, 13, 9.0), entry(11, 13, 4.0)]);
        assert_eq!(summed(DayPart::Whole, &best, &other), [(10, 5.0), (11, 4.0)]);
    }

    #[test]
    fn the_hours_after_midnight_belong_to_the_evening_before() {
        // 21:00, 22:30 and 01:00 in Berlin, then noon of the next day.
        let best = [
            entry(10, 20, 1.0),
            (10 * DAY_US + 21 * HOUR_US + HOUR_US / 2, entry(10, 0, 2.0).1),
            entry(11, 0, 4.0),
            entry(11, 11, 8.0),
        ];
        assert_eq!(summed(DayPart::Late, &best, &[]), [(10, 6.0), (11, 0.0)]);
    }

    #[test]
    fn growth_counts_only_on_days_that_are_certain() {
        let read = [
            entry(10, 10, 100.0),
            entry(10, 20, 130.0),
            // Within eight hours over midnight: the middle is day 11 in Berlin.
            entry(11, 3, 150.0),
            entry(11, 20, 190.0),
            // Grew at an unknown time of three days.
            entry(14, 12, 200.0),
            // Did not grow for days.
            entry(17, 12, 200.0),
            entry(18, 12, 200.0),
        ];
        let series = growth(&read, amount, &berlin());
        let points: Vec<(i32, f64)> =
            series.points().map(|(day, value)| (day.number(), value)).collect();
        assert_eq!(points, [(15, 0.0), (16, 0.0), (17, 0.0), (18, 0.0)]);
        let daily: Vec<Entry> = (0..6)
            .flat_map(|day| {
                let before = f64::from(day) * 30.0;
                [entry(i64::from(day), 8, before), entry(i64::from(day), 22, before + 30.0)]
            })
            .collect();
        let series = growth(&daily, amount, &OwnersZone::new(&Series::default()));
        assert_eq!(series.n(), 5, "the first day is not known: {series:?}");
        assert!(series.values().iter().all(|minutes| (minutes - 30.0).abs() < 1e-9));
    }
}
