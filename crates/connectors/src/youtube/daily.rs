//! YouTube's metrics by day. Videos that were watched come with the archive only.

use insights::Unit;

use crate::daily_metrics::{DayPart, EntryMetric, EntrySource, Metrics, ONE};

pub(super) const METRICS: Metrics = Metrics::Entries(&[
    EntryMetric::sum("videos_watched", "Videos watched", Unit::Count, WATCHED, DayPart::Whole),
    EntryMetric::sum(
        "late_videos",
        "Videos watched from 22:00 to 04:00",
        Unit::Count,
        WATCHED,
        DayPart::Late,
    ),
    EntryMetric::sum("likes", "Likes", Unit::Count, LIKED, DayPart::Whole),
]);

const WATCHED: &[EntrySource] = &[EntrySource { kind: "watches", amount: ONE }];
const LIKED: &[EntrySource] = &[EntrySource { kind: "likes", amount: ONE }];
