//! Fetches a list, part by part and page by page. Each page is kept as it comes; a part that came
//! completely also shows what WHOOP has deleted.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use store::records::{Records, Window};

use super::position::{self, Position};
use super::reread;
use super::segment::{self, Segment};
use super::{DAY_US, Reach, reach};
use crate::sync::{Fault, Turn, some_at_a_time};
use crate::when::utc_millis;
use crate::whoop::SERVICE;
use crate::whoop::api::{self, Bounds, Patience, Tokens};
use crate::whoop::keep::{Fetched, KeptPage};
use crate::whoop::kind::Kind;
use crate::whoop::problem::{Code, Problem};
use crate::whoop::takeout;

/// Parts of one list that are fetched side by side; four lists make twenty requests at a time, and ten
/// years come in two turns.
const PARTS_AT_ONCE: usize = 5;
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
    let position = Arc::new(Mutex::new(position));
    let parts = segments.iter().map(|segment| part(turn, kind, *segment, &position));
    some_at_a_time(PARTS_AT_ONCE, parts).await?;
    if let Reach::Recent { .. } = reach {
        let oldest_us = segments.iter().map(|segment| segment.from_us).min().unwrap_or(now_us);
        reread::unscored(turn, kind, oldest_us).await?;
    }
    let newest = records.newest_updated(SERVICE.name, kind.name())?;
    // What is uploaded late lies after the newest record, not after this moment.
    let to_us = newest.as_ref().map_or(now_us, |(_, newest_us)| now_us.min(*newest_us));
    position::end(records, kind, left_off_us, (from_us, to_us))?;
    Ok(newest.map(|(updated, _)| updated))
}

async fn part(
    turn: &Turn<'_>,
    kind: Kind,
    segment: Segment,
    position: &Arc<Mutex<Position>>,
) -> Result<(), Fault> {
    let records = &turn.desk.records;
    // Taken before the first page: what another process adds meanwhile is nobody's deletion.
    let known = records.ids_in(SERVICE.name, kind.name(), &responsibility(kind, segment))?;
    let seen = pages(turn, kind, segment).await?;
    let is_imported = known.iter().any(|id| takeout::is_imported(id));
    let gone: Vec<String> =
        known.into_iter().filter(|id| !seen.contains(id) && !takeout::is_imported(id)).collect();
    let started_us = turn.started_us;
    let remove =
        move |records: &Records| records.remove(SERVICE.name, kind.name(), &gone, started_us);
    turn.removed(turn.keeper.then(remove).await?);
    if is_imported {
        takeout::give_way(turn.desk, kind, segment.from_us, segment.to_us)?;
    }
    let (from_us, to_us) = segment.covers(started_us);
    let position = Arc::clone(position);
    let cover = move |records: &Records| {
        records.cover(SERVICE.name, kind.name(), from_us, to_us)?;
        let mut position = position.lock().unwrap_or_else(PoisonError::into_inner);
        position::note_done(records, kind, &mut position, (from_us, to_us))
    };
    turn.keeper.then(cover).await
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

/// Fetches and keeps every page of a part; answers the ids that came. While a page is kept, the next
/// one is on its way.
async fn pages(turn: &Turn<'_>, kind: Kind, segment: Segment) -> Result<HashSet<String>, Fault> {
    let start = utc_millis(segment.ask_from_us);
    let end = segment.ask_to_us.map(utc_millis);
    let bounds = Bounds { start: Some(&start), end: end.as_deref() };
    let fetch =
        async |next: Option<&str>| api::page(turn.desk, kind, bounds, next, Patience::SYNC).await;
    let mut tokens = Tokens::new(kind);
    let mut progress = Progress::new(turn, segment);
    let mut page = fetch(None).await?;
    loop {
        let is_last = !tokens.advance(page.next, page.records.len())?;
        let keeping = turn.keeper.keep(Fetched::new(kind, page.records));
        if is_last {
            let (fetched, kept) = keeping.await?;
            progress.kept(fetched.kept(&kept), is_last);
            return Ok(progress.seen);
        }
        let (kept, next) = tokio::join!(keeping, fetch(tokens.last()));
        let (fetched, kept) = kept?;
        progress.kept(fetched.kept(&kept), is_last);
        page = next?;
    }
}

/// How far a part has come.
struct Progress<'a> {
    turn: &'a Turn<'a>,
    segment: Segment,
    seen: HashSet<String>,
    reached_us: i64,
}

impl<'a> Progress<'a> {
    fn new(turn: &'a Turn<'a>, segment: Segment) -> Progress<'a> {
        let (_, reached_us) = segment.covers(turn.started_us);
        Progress { turn, segment, seen: HashSet::new(), reached_us }
    }

    /// Counts a page that was kept.
    fn kept(&mut self, kept: KeptPage, is_last: bool) {
        let turn = self.turn;
        for warning in kept.warnings {
            turn.warn(warning);
        }
        let ids = || kept.shaped.iter().filter_map(|shaped| shaped.id.as_deref());
        turn.nameless(kept.shaped.len() - ids().count());
        let oldest_us = kept.shaped.iter().filter_map(|shaped| shaped.start_us).min();
        let from_us = self.segment.from_us;
        let down_to_us = if is_last { from_us } else { oldest_us.unwrap_or(self.reached_us) };
        let down_to_us = down_to_us.clamp(from_us, self.reached_us);
        turn.page(ids(), kept.written, self.reached_us - down_to_us);
        self.reached_us = down_to_us;
        self.seen.extend(ids().map(str::to_owned));
    }
}
