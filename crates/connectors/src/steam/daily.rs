//! Steam's metrics by day. Steam has only the total of each game, so play time is how much the total grew
//! between two syncs.

use insights::{Better, Metric, Unit};

use crate::daily_metrics::{DayValue, EntryMetric, Metrics, number};

pub(super) const METRICS: Metrics = Metrics::Entries(&[EntryMetric {
    metric: Metric {
        name: "playing",
        title: "Playing",
        unit: Unit::Minutes,
        better: Better::Neither,
        is_log: false,
    },
    reading: DayValue::Growth {
        kind: super::mirror::PLAY_TIME_KIND,
        total: |columns| number(columns, "minutes_total"),
    },
}]);
