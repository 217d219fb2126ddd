//! Completes a window of the mirror before it is read: only completely fetched spans count as known;
//! gaps are fetched from WHOOP, newest first, and stored page by page.

use store::records::{RecordsError, RecordsSnapshot};

use super::NAME;
use super::api::{self, Bounds, PageTokens, WaitPolicy};
use super::kind::Kind;
use super::mirror_writer;
use super::problem::WhoopProblem;
use super::shape::Shaped;
use super::truncate::RECORDS_BYTES_MAX;
use crate::ConnectorContext;
use crate::when::utc_millis;

/// 2010-01-01: WHOOP has nothing older.
pub(super) const BEGINNING_US: i64 = 1_262_304_000_000_000;
/// A mirror that was completed this recently counts as complete.
pub(super) const FRESH_US: i64 = 3_600_000_000;
/// Recent records are read again from this far back, because nights are scored late.
const OVERLAP_US: i64 = 36 * 3_600_000_000;

/// WHOOP finds a recovery by its night, the mirror by its cycle, which lasts a day longer: that of the
/// cycle which is under way when a window begins only comes when it is asked for from further back.
pub(super) const NIGHT_US: i64 = 48 * 3_600_000_000;

/// A half-open time span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) from_us: i64,
    pub(super) to_us: i64,
    /// It has no upper bound; `to_us` is only the present.
    pub(super) is_open: bool,
}

impl Stretch {
    /// The part of a window that can hold records: nothing before WHOOP, and nothing after now, unless
    /// the whole window is in the future.
    pub(super) fn of(from_us: Option<i64>, to_us: Option<i64>, now_us: i64) -> Stretch {
        let is_open = to_us.is_none();
        let from_us = from_us.unwrap_or(BEGINNING_US).max(BEGINNING_US);
        let to_us = to_us.unwrap_or(now_us);
        let to_us = if from_us < now_us { to_us.min(now_us) } else { to_us };
        Stretch { from_us, to_us, is_open }
    }
}

/// The gaps of a span that were never fetched completely, newest first.
pub(super) fn missing(
    ctx: &ConnectorContext,
    kind: Kind,
    stretch: Stretch,
) -> Result<Vec<Stretch>, RecordsError> {
    let covered = ctx.records.coverage(NAME, kind.name())?;
    Ok(gaps(&covered, stretch, ctx.clock.now().wall_us))
}

/// Was the whole span fetched?
pub(super) fn is_whole(
    look: &RecordsSnapshot<'_>,
    kind: Kind,
    stretch: Stretch,
    now_us: i64,
) -> Result<bool, RecordsError> {
    Ok(gaps(&look.coverage(NAME, kind.name())?, stretch, now_us).is_empty())
}

fn gaps(covered: &[(i64, i64)], stretch: Stretch, now_us: i64) -> Vec<Stretch> {
    let mut gaps = Vec::new();
    let mut from_us = stretch.from_us;
    for &(covered_from_us, covered_to_us) in covered {
        if covered_from_us > from_us && from_us < stretch.to_us {
            let to_us = covered_from_us.min(stretch.to_us);
            gaps.push(Stretch { from_us, to_us, is_open: false });
        }
        from_us = from_us.max(covered_to_us);
    }
    let is_recent = from_us > stretch.from_us && from_us >= now_us - FRESH_US;
    if from_us < stretch.to_us && !is_recent {
        gaps.push(Stretch { from_us, ..stretch });
    }
    gaps.reverse();
    gaps
}

/// When the mirror was last complete; `None` before the first fetch.
pub(super) fn as_of_us(ctx: &ConnectorContext, kind: Kind) -> Option<i64> {
    let covered = ctx.records.coverage(NAME, kind.name()).ok()?;
    covered.last().map(|(_, to_us)| *to_us)
}

/// Fetches gaps, newest first, until there are `limit` records or a full response.
/// Returns what came, in WHOOP's order.
pub(super) async fn fill(
    ctx: &ConnectorContext,
    kind: Kind,
    stretch: Stretch,
    gaps: &[Stretch],
    limit: Option<usize>,
) -> Result<Vec<Shaped>, WhoopProblem> {
    let mut came = Vec::new();
    let mut left = Left::new(limit);
    for gap in gaps {
        fill_gap(ctx, kind, stretch, *gap, &mut left, &mut came).await?;
        if left.is_nothing() {
            break;
        }
    }
    Ok(came)
}

/// The remaining number of records to fetch.
struct Left {
    records: Option<usize>,
    bytes: usize,
}

impl Left {
    fn new(limit: Option<usize>) -> Left {
        Left { records: limit, bytes: RECORDS_BYTES_MAX }
    }

    fn take(&mut self, page: &[Shaped]) {
        if let Some(records) = &mut self.records {
            let readable = page.iter().filter(|shaped| shaped.flat.is_ok()).count();
            *records = records.saturating_sub(readable);
        } else {
            let bytes: usize = page.iter().map(|shaped| shaped.flat_text().len()).sum();
            self.bytes = self.bytes.saturating_sub(bytes);
        }
    }

    fn is_nothing(&self) -> bool {
        self.records.map_or(self.bytes == 0, |records| records == 0)
    }
}

async fn fill_gap(
    ctx: &ConnectorContext,
    kind: Kind,
    stretch: Stretch,
    gap: Stretch,
    left: &mut Left,
    came: &mut Vec<Shaped>,
) -> Result<(), WhoopProblem> {
    let now_us = ctx.clock.now().wall_us;
    let is_tail = gap.to_us == now_us || gap.to_us == stretch.to_us;
    let back_us = if kind == Kind::Recoveries {
        NIGHT_US
    } else if is_tail && gap.from_us > stretch.from_us {
        OVERLAP_US
    } else {
        0
    };
    let start = (gap.from_us > BEGINNING_US).then(|| utc_millis(gap.from_us - back_us));
    let end = (!gap.is_open).then(|| utc_millis(gap.to_us));
    let bounds = Bounds { start: start.as_deref(), end: end.as_deref() };
    let mut tokens = PageTokens::new(kind);
    loop {
        let page = api::page(ctx, kind, bounds, tokens.last(), WaitPolicy::PROMPT).await?;
        let raws: Vec<&str> = page.records.iter().map(|raw| raw.get()).collect();
        let count = raws.len();
        let kept = mirror_writer::store_page(ctx, kind, &raws)
            .map_err(|e| WhoopProblem::cache(kind.path(), &e))?;
        left.take(&kept.shaped);
        came.extend(kept.shaped);
        if !tokens.advance(page.next, count)? {
            return cover(ctx, kind, gap.from_us, gap.to_us.min(now_us));
        }
        if left.is_nothing() {
            // Complete down to the oldest received; a recovery's start is its cycle's.
            let oldest_us = came.last().and_then(|shaped| start_us(ctx, kind, shaped));
            return match oldest_us {
                Some(oldest_us) => cover(ctx, kind, oldest_us, gap.to_us.min(now_us)),
                None => Ok(()),
            };
        }
    }
}

fn start_us(ctx: &ConnectorContext, kind: Kind, shaped: &Shaped) -> Option<i64> {
    shaped
        .start_us
        .or_else(|| ctx.records.one(NAME, kind.name(), shaped.id.as_deref()?).ok()??.start_us)
}

pub(super) fn cover(
    ctx: &ConnectorContext,
    kind: Kind,
    from_us: i64,
    to_us: i64,
) -> Result<(), WhoopProblem> {
    ctx.records
        .cover(NAME, kind.name(), from_us, to_us)
        .map_err(|error| WhoopProblem::cache(kind.path(), &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000_000;

    fn check(covered: &[(i64, i64)], stretch: (i64, i64), now: i64, expected: &[(i64, i64)]) {
        let stretch =
            Stretch { from_us: stretch.0 * HOUR, to_us: stretch.1 * HOUR, is_open: false };
        let covered: Vec<_> = covered.iter().map(|(a, b)| (a * HOUR, b * HOUR)).collect();
        let found: Vec<_> = gaps(&covered, stretch, now * HOUR)
            .iter()
            .map(|gap| (gap.from_us / HOUR, gap.to_us / HOUR))
            .collect();
        assert_eq!(found, expected, "{covered:?} {stretch:?}");
    }

    #[test]
    fn only_what_was_fetched_whole_is_known() {
        check(&[], (0, 10), 100, &[(0, 10)]);
        check(&[(0, 10)], (0, 10), 100, &[]);
        check(&[(0, 10)], (2, 8), 100, &[]);
        check(&[(2, 4), (6, 8)], (0, 10), 100, &[(8, 10), (4, 6), (0, 2)]);
        check(&[(20, 30)], (0, 10), 100, &[(0, 10)]);
        check(&[(20, 30)], (0, 25), 100, &[(0, 20)]);
    }

    #[test]
    fn a_recent_end_counts_as_now_but_an_unknown_hour_does_not() {
        check(&[(0, 100)], (0, 100), 100, &[]);
        check(&[(0, 99)], (0, 100), 100, &[]);
        check(&[(0, 98)], (0, 100), 100, &[(98, 100)]);
        check(&[], (99, 100), 100, &[(99, 100)]);
        check(&[(0, 99)], (101, 110), 100, &[(101, 110)]);
    }
}
