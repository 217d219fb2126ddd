//! Reddit's metrics by day: what the owner wrote. Votes and saved items have no time of their own.

use insights::{Better, Metric, Unit};

use crate::daily_metrics::{DayPart, DayValue, EntryMetric, EntrySource, Metrics, ONE};

pub(super) const METRICS: Metrics = Metrics::Entries(&[
    row("posts", "Posts", &[EntrySource { kind: "posts", amount: ONE }], DayPart::Whole),
    row("comments", "Comments", COMMENTS, DayPart::Whole),
    row("late_comments", "Comments from 22:00 to 04:00", COMMENTS, DayPart::Late),
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

const COMMENTS: &[EntrySource] = &[EntrySource { kind: "comments", amount: ONE }];
