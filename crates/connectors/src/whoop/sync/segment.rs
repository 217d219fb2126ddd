//! Cuts a long time into parts that can be fetched side by side. Each part asks a little beyond its
//! edges, so that a record that lies across an edge is in one of them whatever WHOOP counts it by.

use super::DAY_US;
use super::position::Gap;

/// Some fifteen pages. Shorter parts would waste a page each on their last, half-filled one.
const PART_US: i64 = 365 * DAY_US;
/// Up to here one part is enough: asked as WHOOP's clients always have, without an end.
const WHOLE_US: i64 = 400 * DAY_US;
/// 2010: nothing was recorded before, so all the time before it is one part, however long.
const OLDEST_US: i64 = 14_610 * DAY_US;
/// No record lasts longer than this but the odd one, and a night belongs to its cycle's day.
const EDGE_US: i64 = 2 * DAY_US;

/// One part: what it is responsible for, and what it asks for.
#[expect(clippy::struct_field_names, reason = "units stand last in names")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) from_us: i64,
    /// Without an end it goes on to now.
    pub(super) to_us: Option<i64>,
    pub(super) ask_from_us: i64,
    pub(super) ask_to_us: Option<i64>,
}

impl Segment {
    /// The time that is completely here once the part was fetched at `now_us`; none of it when the
    /// part lies ahead.
    pub(super) fn covers(&self, now_us: i64) -> (i64, i64) {
        (self.from_us, self.to_us.unwrap_or(now_us).max(self.from_us))
    }

    pub(super) fn length_us(&self, now_us: i64) -> i64 {
        let (from_us, to_us) = self.covers(now_us);
        to_us.saturating_sub(from_us).max(1)
    }
}

/// The parts of all gaps, newest first: what people ask about comes before what was years ago.
pub(super) fn cut(gaps: &[Gap], now_us: i64) -> Vec<Segment> {
    let mut segments: Vec<Segment> = gaps.iter().flat_map(|gap| cut_one(*gap, now_us)).collect();
    segments.sort_unstable_by_key(|segment| std::cmp::Reverse(segment.from_us));
    segments
}

fn cut_one((from_us, to_us): Gap, now_us: i64) -> Vec<Segment> {
    let end_us = to_us.unwrap_or(now_us).max(from_us);
    let mut edges = Vec::new();
    if end_us - from_us > WHOLE_US {
        let oldest_us = from_us.max(OLDEST_US);
        let mut edge_us = end_us - PART_US;
        while edge_us > oldest_us + PART_US / 2 {
            edges.push(edge_us);
            edge_us -= PART_US;
        }
    }
    let mut segments = Vec::new();
    let mut upper = to_us;
    for edge_us in edges {
        segments.push(segment(edge_us, upper, edge_us - EDGE_US));
        upper = Some(edge_us);
    }
    segments.push(segment(from_us, upper, from_us));
    segments
}

fn segment(from_us: i64, to_us: Option<i64>, ask_from_us: i64) -> Segment {
    Segment { from_us, to_us, ask_from_us, ask_to_us: to_us.map(|to_us| to_us + EDGE_US) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing, reason = "tests")]
    use super::*;

    #[test]
    fn a_short_time_is_one_part_without_an_end() {
        let now = 1_000 * DAY_US;
        let from = now - 90 * DAY_US;
        assert_eq!(cut(&[(from, None)], now), [segment(from, None, from)]);
    }

    #[test]
    fn a_long_time_is_cut_without_holes_newest_first() {
        let now = 6_000 * DAY_US;
        for years in [2, 5, 16] {
            let from = now - years * 365 * DAY_US - 17;
            let parts = cut(&[(from, None)], now);
            assert_eq!(parts[0].to_us, None);
            assert_eq!(
                parts.last().map(|part| (part.from_us, part.ask_from_us)),
                Some((from, from))
            );
            for pair in parts.windows(2) {
                assert_eq!(pair[1].to_us, Some(pair[0].from_us));
                assert!(pair[1].ask_to_us > pair[1].to_us && pair[0].ask_from_us < pair[0].from_us);
            }
        }
    }

    #[test]
    fn the_time_before_anything_was_recorded_is_not_cut() {
        let now = 20_000 * DAY_US;
        let since_2010 = cut(&[(OLDEST_US, None)], now);
        for from in [OLDEST_US - 10_000 * DAY_US, OLDEST_US - 700_000 * DAY_US] {
            let parts = cut(&[(from, None)], now);
            assert_eq!(parts.len(), since_2010.len());
            assert_eq!(parts.last().map(|part| part.from_us), Some(from));
        }
    }

    #[test]
    fn a_part_that_lies_ahead_covers_nothing() {
        let now = 1_000 * DAY_US;
        let ahead = now + DAY_US;
        assert_eq!(segment(ahead, None, ahead).covers(now), (ahead, ahead));
    }

    #[test]
    fn a_gap_keeps_its_end() {
        let now = 1_000 * DAY_US;
        let parts = cut(&[(0, Some(10 * DAY_US)), (900 * DAY_US, None)], now);
        assert_eq!(parts[0].to_us, None);
        assert_eq!(parts[1].to_us, Some(10 * DAY_US));
    }
}
