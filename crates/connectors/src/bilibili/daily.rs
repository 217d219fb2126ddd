//! Bilibili's metrics by day, from the watch history.

use insights::{Better, Metric, Unit};
use serde_json::{Map, Value};

use crate::daily_metrics::{DayPart, DayValue, EntryMetric, EntrySource, Metrics, number};

pub(super) const METRICS: Metrics = Metrics::Entries(&[
    row("watching", "Watching", DayPart::Whole),
    row("late_watching", "Watching from 22:00 to 04:00", DayPart::Late),
]);

const fn row(name: &'static str, title: &'static str, part: DayPart) -> EntryMetric {
    let metric =
        Metric { name, title, unit: Unit::Minutes, better: Better::Neither, is_log: false };
    EntryMetric { metric, reading: DayValue::Sum { sources: HISTORY, part } }
}

const HISTORY: &[EntrySource] = &[EntrySource { kind: "history", amount: watched }];

/// The position where the video was left; a video that was watched to its end has −1.
fn watched(columns: &Map<String, Value>) -> Option<f64> {
    let seconds = number(columns, "progress_s").or_else(|| number(columns, "duration_s"));
    seconds.map(|seconds| seconds / 60.0)
}
