//! Spotify's metrics by day. The archive has how long each play lasted; the API has only the length of the
//! track, so it counts where the archive has nothing.

use insights::Unit;
use serde_json::{Map, Value};

use crate::daily_metrics::{DayPart, EntryMetric, EntrySource, Metrics, milliseconds};

pub(super) const METRICS: Metrics = Metrics::Entries(&[
    EntryMetric::sum("listening", "Listening", Unit::Minutes, PLAYED, DayPart::Whole),
    EntryMetric::sum(
        "late_listening",
        "Listening from 22:00 to 04:00",
        Unit::Minutes,
        PLAYED,
        DayPart::Late,
    ),
]);

const PLAYED: &[EntrySource] = &[
    EntrySource { kind: "streams", amount: minutes_played },
    EntrySource { kind: "plays", amount: track_length },
];

fn minutes_played(columns: &Map<String, Value>) -> Option<f64> {
    milliseconds(columns, "ms_played")
}

fn track_length(columns: &Map<String, Value>) -> Option<f64> {
    milliseconds(columns, "duration_ms")
}
