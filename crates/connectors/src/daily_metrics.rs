//! Daily metrics of the mirrored services, by the owner's local day, so that any of them can be compared
//! with any other. A service names its metrics in its `Connector`; a new one is one row in its table.

mod entries;
pub mod notices;

use std::collections::BTreeMap;

use insights::across::SourceMetric;
use insights::survey::Measured;
use insights::{Day, Metric, Series, Units};
use store::records::{Records, RecordsError};

use crate::connector::Connector;
use crate::when::local_date;

pub(crate) use entries::{DayPart, DayValue, EntryMetric, EntrySource, ONE, milliseconds, number};

/// The metrics of a service.
pub enum Metrics {
    /// The service computes all its series at once.
    Whole(WholeMetrics),
    /// Each metric is computed from the entries of mirrored lists.
    Entries(&'static [EntryMetric]),
}

/// Series that are computed together.
pub struct WholeMetrics {
    pub table: &'static [Metric],
    /// Those that a survey of all pairs looks at.
    pub surveyed: &'static [&'static str],
    /// The last days before now, or all: records, now, days.
    pub load: fn(&Records, i64, Option<i32>) -> Result<LoadedMetrics, RecordsError>,
}

/// The series of one service.
#[derive(Default)]
pub struct LoadedMetrics {
    pub series: BTreeMap<&'static str, Series>,
    /// Minutes east of Greenwich by day, where the records have them.
    pub offsets: Series,
}

impl Metrics {
    /// The metrics, in the order of their table.
    pub(crate) fn table(&self) -> Vec<&'static Metric> {
        match self {
            Metrics::Whole(whole) => whole.table.iter().collect(),
            Metrics::Entries(rows) => rows.iter().map(|row| &row.metric).collect(),
        }
    }

    fn is_surveyed(&self, name: &str) -> bool {
        match self {
            Metrics::Whole(whole) => whole.surveyed.contains(&name),
            Metrics::Entries(_) => true,
        }
    }
}

/// A metric of a service, with its values.
pub(crate) struct SourceSeries {
    pub(crate) connector: &'static Connector,
    pub(crate) metric: Metric,
    pub(crate) series: Series,
    pub(crate) is_surveyed: bool,
}

impl SourceSeries {
    /// `spotify.late_listening`.
    pub(crate) fn name(&self) -> String {
        full_name(self.connector, &self.metric)
    }

    /// The last day whose value no later entry can change. A day without an entry is zero once there is a
    /// later entry, so it would tell when that one came.
    pub(crate) fn settled_until(&self, today: Day) -> Day {
        match self.connector.metrics {
            Some(Metrics::Entries(_)) => today.plus(-1 - entries::GAP_DAYS_MAX),
            _ => today.plus(-1),
        }
    }

    /// The same metric with other values.
    pub(crate) fn with(&self, series: Series) -> SourceSeries {
        SourceSeries {
            connector: self.connector,
            metric: self.metric,
            series,
            is_surveyed: self.is_surveyed,
        }
    }

    pub(crate) fn tested(&self) -> SourceMetric {
        let measured = Measured { metric: self.metric, series: self.series.clone() };
        SourceMetric { name: self.name(), tested: measured.tested() }
    }
}

fn full_name(connector: &Connector, metric: &Metric) -> String {
    format!("{}.{}", connector.name(), metric.name)
}

/// Every metric of every service, with the name that an argument uses.
pub(crate) fn known() -> impl Iterator<Item = (String, &'static Connector, &'static Metric)> {
    services().flat_map(|(connector, metrics)| {
        let of = move |metric| (full_name(connector, metric), connector, metric);
        metrics.table().into_iter().map(of)
    })
}

fn services() -> impl Iterator<Item = (&'static Connector, &'static Metrics)> {
    crate::SERVICES.iter().filter_map(|connector| Some((*connector, connector.metrics?)))
}

/// The metrics of all services over the last days before `now_us`, or of all days.
pub(crate) struct AllMetrics {
    pub(crate) today: Day,
    pub(crate) all: Vec<SourceSeries>,
    /// Whether some service has the owner's time zone; days are UTC days otherwise.
    pub(crate) has_zone: bool,
}

impl AllMetrics {
    /// `wanted` selects by full name.
    pub(crate) fn load(
        records: &Records,
        now_us: i64,
        days: Option<i32>,
        units: Units,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<AllMetrics, RecordsError> {
        let mut loaded = Vec::new();
        // The records of one service know the time zone for all of them.
        let mut offsets = Series::default();
        for (_, metrics) in services() {
            let Metrics::Whole(whole) = metrics else { continue };
            let own = (whole.load)(records, now_us, days)?;
            if offsets.is_empty() {
                offsets = own.offsets;
            }
            loaded.push(own.series);
        }
        let zone = OwnersZone::new(&offsets);
        let today = zone.day(now_us);
        let mut all = Vec::new();
        let mut whole = loaded.into_iter();
        for (connector, metrics) in services() {
            let mut own = match metrics {
                Metrics::Whole(_) => whole.next().unwrap_or_default(),
                Metrics::Entries(rows) => {
                    let is_wanted = |row: &&EntryMetric| wanted(&full_name(connector, &row.metric));
                    let rows = rows.iter().filter(is_wanted);
                    let query =
                        entries::MetricsQuery { service: connector.name(), now_us, days, today };
                    entries::load(records, &query, &zone, rows)?
                }
            };
            for metric in metrics.table() {
                if wanted(&full_name(connector, metric)) {
                    let series = own.remove(metric.name).unwrap_or_default();
                    let is_surveyed = metrics.is_surveyed(metric.name);
                    let Measured { metric, series } =
                        Measured { metric: *metric, series }.in_units(units);
                    all.push(SourceSeries { connector, metric, series, is_surveyed });
                }
            }
        }
        Ok(AllMetrics { today, all, has_zone: !offsets.is_empty() })
    }
}

/// The owner's offset from UTC by day, so that a late evening on a journey is a late evening.
pub(crate) struct OwnersZone(Vec<(Day, i32)>);

impl OwnersZone {
    fn new(offset_minutes: &Series) -> OwnersZone {
        let seconds = |minutes: f64| {
            // Offsets are below a day, and a cast of such a number is exact.
            #[allow(clippy::cast_possible_truncation, reason = "within a day")]
            let seconds = (minutes.clamp(-1440.0, 1440.0) * 60.0).round() as i32;
            seconds
        };
        OwnersZone(offset_minutes.points().map(|(day, minutes)| (day, seconds(minutes))).collect())
    }

    /// The offset of the last day up to this instant that has one, or of the first.
    fn offset_s(&self, instant_us: i64) -> i32 {
        let day = local_date(instant_us, 0).map_or(Day::default(), Day::from_date);
        let after = self.0.partition_point(|(own, _)| *own <= day);
        let found = self.0.get(after.saturating_sub(1));
        found.map_or(0, |(_, offset_s)| *offset_s)
    }

    fn day(&self, instant_us: i64) -> Day {
        local_date(instant_us, self.offset_s(instant_us)).map_or(Day::default(), Day::from_date)
    }

    /// Minutes after local midnight.
    fn minute_of_day(&self, instant_us: i64) -> i64 {
        let local_us = instant_us + i64::from(self.offset_s(instant_us)) * 1_000_000;
        local_us.div_euclid(60_000_000).rem_euclid(1440)
    }
}
