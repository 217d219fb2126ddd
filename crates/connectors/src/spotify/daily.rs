//! Spotify's metrics by day. The archive has how long each play lasted; the API has only the length of the
//! track, so it counts where the archive has nothing.

use insights::{Better, Metric, Unit};
use serde_json::{Map, Value};

use crate::daily_metrics::{DayPart, DayValue, EntryMetric, EntrySource, Metrics, milliseconds};

pub(super) const METRICS: Metrics = Metrics::Entries(&[
    row("listening", "Listening", DayPart::Whole),
    row("late_listening", "Listening from 22:00 to 04:00", DayPart::Late),
]);

const fn row(name: &'static str, title: &'static str, part: DayPart) -> EntryMetric {
    let metric =
        Metric { name, title, unit: Unit::Minutes, better: Better::Neither, is_log: false };
    EntryMetric { metric, reading: DayValue::Sum { sources: PLAYED, part } }
}

const PLAYED: &[EntrySource] = &[
    EntrySource { kind: "streams", amount: heard },
    EntrySource { kind: "plays", amount: track_length },
];

fn heard(columns: &Map<String, Value>) -> Option<f64> {
    milliseconds(columns, "ms_played")
}

fn track_length(columns: &Map<String, Value>) -> Option<f64> {
    milliseconds(columns, "duration_ms")
}
