//! Fetches a list, part by part and page by page. Each page is kept as it comes; a part that came
//! completely also shows what WHOOP has deleted.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use serde_json::value::RawValue;
use store::records::Window;

use super::position::{self, Position};
use super::reread;
use super::segment::{self, Segment};
use super::{DAY_US, Reach, reach};
use crate::sync::{Fault, Turn, some_at_a_time};
use crate::when::utc_millis;
use crate::whoop::SERVICE;
use crate::whoop::api::{self, Bounds, Patience, Tokens};
use crate::whoop::keep::keep;
use crate::whoop::kind::Kind;
use crate::whoop::problem::{Code, Problem};
use crate::whoop::takeout;

/// Parts of one list that are fetched side by side; four lists make sixteen requests at a time.
const PARTS_AT_ONCE: usize = 4;
/// A recovery is listed by its night and kept by its cycle; the two differ by less than this.
const RECOVERY_EDGE_US: i64 = 2 * DAY_US;

pub(super) async fn fetch(turn: &Turn<'_>, kind: Kind) -> Result<Option<String>, Fault> {
    let (records, now_us) = (&turn.desk.records, turn.started_us);
    let Some(reach) = reach(turn.desk, kind, turn.asked, now_us)? else {
        let words =
            "`since` is not a time; write 2026-04-01, 2026-04-01T08:00:00Z or `last 30 days`";
        return Err(Problem::new(Code::ValidationError, "/sync", words).into());
    };
    let left_off_us = position::left_off_us(records, kind)?;
    let (position, gaps) = position::begin(records, kind, reach, now_us)?;
    let from_us = position.from_us;
    let segments = segment::cut(&gaps, now_us);
    turn.expect_us(segments.iter().map(|segment| segment.length_us(now_us)).sum());
    let position = Mutex::new(position);
    let parts = segments.iter().map(|segment| part(turn, kind, *segment, &position));
    some_at_a_time(PARTS_AT_ONCE, parts).await?;
    if let Reach::Recent { .. } = reach {
        let oldest_us = segments.iter().map(|segment| segment.from_us).min().unwrap_or(now_us);
        reread::unscored(turn, kind, oldest_us).await?;
    }
    position::end(records, kind, left_off_us, (from_us, now_us))?;
    let newest = records.newest_updated(SERVICE.name, kind.name())?;
    Ok(newest.map(|(updated, _)| updated))
}

async fn part(
    turn: &Turn<'_>,
    kind: Kind,
    segment: Segment,
    position: &Mutex<Position>,
) -> Result<(), Fault> {
    let records = &turn.desk.records;
    // Taken before the first page: what another process adds meanwhile is nobody's deletion.
    let known = records.ids_in(SERVICE.name, kind.name(), &responsibility(kind, segment))?;
    let seen = pages(turn, kind, segment).await?;
    let gone: Vec<String> = known
        .iter()
        .filter(|id| !seen.contains(*id) && !takeout::is_imported(id))
        .cloned()
        .collect();
    turn.removed(records.remove(SERVICE.name, kind.name(), &gone, turn.started_us)?);
    if known.iter().any(|id| takeout::is_imported(id)) {
        takeout::give_way(turn.desk, kind, segment.from_us, segment.to_us)?;
    }
    let (from_us, to_us) = segment.covers(turn.started_us);
    records.cover(SERVICE.name, kind.name(), from_us, to_us)?;
    let mut position = position.lock().unwrap_or_else(PoisonError::into_inner);
    position::note_done(records, kind, &mut position, (from_us, to_us))?;
    Ok(())
}

/// The records that a complete part must have brought again if they still exist.
fn responsibility(kind: Kind, segment: Segment) -> Window {
    let inside_us = segment.ask_from_us + RECOVERY_EDGE_US;
    let from_us = match kind {
        Kind::Recoveries => segment.from_us.max(inside_us),
        _ => segment.from_us,
    };
    Window { from_us: Some(from_us), to_us: segment.to_us, ..Window::default() }
}

/// Fetches and keeps every page of a part; answers the ids that came.
async fn pages(turn: &Turn<'_>, kind: Kind, segment: Segment) -> Result<HashSet<String>, Fault> {
    let start = utc_millis(segment.ask_from_us);
    let end = segment.ask_to_us.map(utc_millis);
    let bounds = Bounds { start: Some(&start), end: end.as_deref() };
    let mut tokens = Tokens::new(kind);
    let mut seen = HashSet::new();
    let mut reached_us = segment.to_us.unwrap_or(turn.started_us);
    loop {
        let page = api::page(turn.desk, kind, bounds, tokens.last(), Patience::SYNC).await?;
        let is_last = !tokens.advance(page.next)?;
        let oldest_us = keep_page(turn, kind, &page.records, &mut seen, |oldest_us| {
            let down_to_us =
                if is_last { segment.from_us } else { oldest_us.unwrap_or(reached_us) };
            let down_to_us = down_to_us.clamp(segment.from_us, reached_us);
            (reached_us - down_to_us, down_to_us)
        })?;
        reached_us = oldest_us;
        if is_last {
            return Ok(seen);
        }
    }
}

/// Keeps a page and counts it. `step` says how much time it has brought, and how far down we are.
fn keep_page(
    turn: &Turn<'_>,
    kind: Kind,
    raws: &[Box<RawValue>],
    seen: &mut HashSet<String>,
    step: impl FnOnce(Option<i64>) -> (i64, i64),
) -> Result<i64, Fault> {
    let texts: Vec<&str> = raws.iter().map(|raw| raw.get()).collect();
    let kept = keep(turn.desk, kind, &texts)?;
    for warning in kept.warnings {
        turn.warn(warning);
    }
    let ids = || kept.shaped.iter().filter_map(|shaped| shaped.id.as_deref());
    turn.nameless(kept.shaped.len() - ids().count());
    let oldest_us = kept.shaped.iter().filter_map(|shaped| shaped.start_us).min();
    let (done_us, reached_us) = step(oldest_us);
    turn.page(ids(), kept.written, done_us);
    seen.extend(ids().map(str::to_owned));
    Ok(reached_us)
}
