//! Splits a long window into parts that are fetched concurrently. The end of a part is only known from its
//! first page, so years without records cost no request.

use super::DAY_US;
use super::position::Gap;

/// Some fifteen pages. Shorter parts would waste a page each on their last one.
const PART_US: i64 = 365 * DAY_US;
/// A window up to this length is one part.
const WHOLE_US: i64 = 400 * DAY_US;
/// Almost no record lasts longer than this, and a night belongs to its cycle's day. Each part
/// reads so far beyond its edges that a record across an edge is in one of them.
pub(super) const EDGE_US: i64 = 2 * DAY_US;

/// A time span that was not requested yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// The lower bound.
    pub(super) floor_us: i64,
    /// `None` means now.
    pub(super) to_us: Option<i64>,
}

/// The part of a segment that one list of pages is responsible for.
#[expect(clippy::struct_field_names, reason = "units stand last in names")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentPart {
    pub(super) from_us: i64,
    pub(super) to_us: Option<i64>,
    floor_us: i64,
}

/// Facts from the first page of a segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct FirstPage {
    /// When its newest record took place, or later.
    pub(super) newest_us: Option<i64>,
    pub(super) has_next: bool,
}

impl Segment {
    pub(super) fn of((floor_us, to_us): Gap) -> Segment {
        Segment { floor_us, to_us }
    }

    /// The upper bound of the request.
    pub(super) fn ask_to_us(self) -> Option<i64> {
        self.to_us.map(|to_us| to_us + EDGE_US)
    }

    /// The span that its own pages cover: a year, counted from the newest record, or the whole
    /// segment if that is little more than a year or if there is no second page.
    pub(super) fn part(self, first: FirstPage, now_us: i64) -> SegmentPart {
        let Segment { floor_us, to_us } = self;
        let upper_us = to_us.unwrap_or(now_us);
        let newest_us = first.newest_us.map_or(upper_us, |newest_us| newest_us.min(upper_us));
        let is_long = newest_us.saturating_sub(floor_us) > WHOLE_US;
        let from_us = if first.has_next && is_long { newest_us - PART_US } else { floor_us };
        SegmentPart { from_us, to_us, floor_us }
    }
}

impl SegmentPart {
    /// The rest of the segment below this part.
    pub(super) fn older(self) -> Option<Segment> {
        let SegmentPart { from_us, floor_us, .. } = self;
        (from_us > floor_us).then_some(Segment { floor_us, to_us: Some(from_us) })
    }

    /// Whether a page that reaches back to `oldest_us` is the last one that this part needs.
    pub(super) fn ends_with(self, oldest_us: Option<i64>) -> bool {
        let end_us = self.from_us.saturating_sub(EDGE_US);
        self.from_us > self.floor_us && oldest_us.is_some_and(|oldest_us| oldest_us < end_us)
    }

    /// The span that is complete once the part was fetched at `now_us`; empty if the part is in the
    /// future.
    pub(super) fn covers(self, now_us: i64) -> (i64, i64) {
        (self.from_us, self.to_us.unwrap_or(now_us).max(self.from_us))
    }

    pub(super) fn length_us(self, now_us: i64) -> i64 {
        let (from_us, to_us) = self.covers(now_us);
        to_us.saturating_sub(from_us).max(1)
    }

    /// Whether there are no pages below it that another part reads.
    pub(super) fn is_lowest(self) -> bool {
        self.from_us == self.floor_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 20_000 * DAY_US;

    fn first(newest_us: i64) -> FirstPage {
        FirstPage { newest_us: Some(newest_us), has_next: true }
    }

    #[test]
    fn a_short_time_is_one_part() {
        let segment = Segment::of((NOW - 390 * DAY_US, None));
        let part = segment.part(first(NOW), NOW);
        assert_eq!((part.from_us, part.older()), (NOW - 390 * DAY_US, None));
        assert_eq!(segment.ask_to_us(), None);
        assert!(!part.ends_with(Some(0)), "its pages end by themselves");
    }

    #[test]
    fn a_long_time_is_cut_into_years_without_holes() {
        let (floor, mut upper, mut parts) = (NOW - 2_000 * DAY_US, None, 0);
        loop {
            let segment = Segment { floor_us: floor, to_us: upper };
            // Records lie across the edge.
            let part = segment.part(first(upper.unwrap_or(NOW) + DAY_US), NOW);
            parts += 1;
            assert_eq!(part.to_us, upper);
            assert_eq!(segment.ask_to_us(), upper.map(|upper| upper + EDGE_US));
            let Some(older) = part.older() else { break };
            assert!(!part.ends_with(Some(part.from_us - DAY_US)), "it reads beyond its edge");
            assert!(part.ends_with(Some(part.from_us - 3 * DAY_US)));
            upper = older.to_us;
        }
        assert_eq!(parts, 6);
    }

    #[test]
    fn years_without_records_are_jumped_over() {
        let segment = Segment { floor_us: 0, to_us: None };
        let pause = NOW - 3_000 * DAY_US;
        assert_eq!(segment.part(first(pause), NOW).from_us, pause - PART_US);
        let last = FirstPage { newest_us: Some(pause), has_next: false };
        assert_eq!(segment.part(last, NOW).older(), None, "there is nothing below the last page");
        let empty = FirstPage { newest_us: None, has_next: false };
        assert_eq!(segment.part(empty, NOW).covers(NOW), (0, NOW));
    }

    #[test]
    fn a_part_that_lies_ahead_covers_nothing() {
        let ahead = NOW + DAY_US;
        let none = FirstPage { newest_us: None, has_next: false };
        let part = Segment::of((ahead, None)).part(none, NOW);
        assert_eq!(part.covers(NOW), (ahead, ahead));
    }
}
