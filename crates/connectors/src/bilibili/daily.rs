//! Bilibili's metrics by day, from the watch history.

use insights::Unit;
use serde_json::{Map, Value};

use crate::daily_metrics::{DayPart, EntryMetric, EntrySource, Metrics, number};

pub(super) const METRICS: Metrics = Metrics::Entries(&[
    EntryMetric::sum("watching", "Watching", Unit::Minutes, HISTORY, DayPart::Whole),
    EntryMetric::sum(
        "late_watching",
        "Watching from 22:00 to 04:00",
        Unit::Minutes,
        HISTORY,
        DayPart::Late,
    ),
]);

const HISTORY: &[EntrySource] = &[EntrySource { kind: "history", amount: watched }];

/// The position where the video was left; a video that was watched to its end has −1.
fn watched(columns: &Map<String, Value>) -> Option<f64> {
    let seconds = number(columns, "progress_s").or_else(|| number(columns, "duration_s"));
    seconds.map(|seconds| seconds / 60.0)
}
