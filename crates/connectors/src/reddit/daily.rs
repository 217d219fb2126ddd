//! Reddit's metrics by day: what the owner wrote. Votes and saved items have no time of their own.

use insights::Unit;

use crate::daily_metrics::{DayPart, EntryMetric, EntrySource, Metrics, ONE};

pub(super) const METRICS: Metrics = Metrics::Entries(&[
    EntryMetric::sum(
        "posts",
        "Posts",
        Unit::Count,
        &[EntrySource { kind: "posts", amount: ONE }],
        DayPart::Whole,
    ),
    EntryMetric::sum("comments", "Comments", Unit::Count, COMMENTS, DayPart::Whole),
    EntryMetric::sum(
        "late_comments",
        "Comments from 22:00 to 04:00",
        Unit::Count,
        COMMENTS,
        DayPart::Late,
    ),
]);

const COMMENTS: &[EntrySource] = &[EntrySource { kind: "comments", amount: ONE }];
