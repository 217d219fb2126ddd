//! YouTube's metrics by day. Videos that were watched come with the archive only.

use insights::{Better, Metric, Unit};

use crate::daily_metrics::{DayPart, DayValue, EntryMetric, EntrySource, Metrics, ONE};

pub(super) const METRICS: Metrics = Metrics::Entries(&[
    row("videos_watched", "Videos watched", WATCHED, DayPart::Whole),
    row("late_videos", "Videos watched from 22:00 to 04:00", WATCHED, DayPart::Late),
    row("likes", "Likes", LIKED, DayPart::Whole),
]);

const fn row(
    name: &'static str,
    title: &'static str,
    sources: &'static [EntrySource],
    part: DayPart,
) -> EntryMetric {
    let metric = Metric { name, title, unit: Unit::Count, better: Better::Neither, is_log: false };
    EntryMetric { metric, reading: DayValue::Sum { sources, part } }
}

const WATCHED: &[EntrySource] = &[EntrySource { kind: "watches", amount: ONE }];
const LIKED: &[EntrySource] = &[EntrySource { kind: "likes", amount: ONE }];
