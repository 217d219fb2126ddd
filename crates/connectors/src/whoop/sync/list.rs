//! Fetches a list, part by part and page by page. Each page is kept as it comes; a part that came
//! completely also shows what WHOOP has deleted.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use serde::Deserialize;
use serde_json::value::RawValue;
use store::records::{Records, RecordsError, Window};

use super::position::{self, Gap, Position};
use super::reread;
use super::segment::{EDGE_US, FirstPage, Part, Segment};
use super::{Reach, reach};
use crate::sync::{Fault, Turn, as_they_come};
use crate::when::{self, utc_millis};
use crate::whoop::SERVICE;
use crate::whoop::api::{self, Bounds, Page, Patience, Tokens};
use crate::whoop::keep::{Fetched, KeptPage};
use crate::whoop::kind::Kind;
use crate::whoop::problem::{Code, Problem};
use crate::whoop::takeout;

/// Parts of one list that are fetched side by side; four lists make twenty requests at a time, and ten
/// years come in two turns.
const PARTS_AT_ONCE: usize = 5;

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
    let walk = Walk::new(turn, kind, &gaps, position)?;
    as_they_come(PARTS_AT_ONCE, || walk.next().map(|segment| walk.part(segment))).await?;
    if let Reach::Recent { .. } = reach {
        let oldest_us = gaps.iter().map(|gap| gap.0).min().unwrap_or(now_us);
        reread::unscored(turn, kind, oldest_us).await?;
    }
    let newest = records.newest_updated(SERVICE.name, kind.name())?;
    // What is uploaded late lies after the newest record, not after this moment.
    let to_us = newest.as_ref().map_or(now_us, |(_, newest_us)| now_us.min(*newest_us));
    position::end(records, kind, left_off_us, (from_us, to_us))?;
    Ok(newest.map(|(updated, _)| updated))
}

/// One list on its way here. Parts of it are fetched at the same time; each finds out on its first
/// page whether there is an older one.
struct Walk<'a> {
    turn: &'a Turn<'a>,
    kind: Kind,
    /// Taken before the first page: what another process adds later is not a deletion.
    known: HashSet<String>,
    position: Arc<Mutex<Position>>,
    waiting: Mutex<VecDeque<Segment>>,
}

impl<'a> Walk<'a> {
    fn new(
        turn: &'a Turn<'a>,
        kind: Kind,
        gaps: &[Gap],
        position: Position,
    ) -> Result<Walk<'a>, RecordsError> {
        let mut known = HashSet::new();
        for (from_us, to_us) in gaps {
            let window = Window { from_us: Some(*from_us), to_us: *to_us, ..Window::default() };
            known.extend(turn.desk.records.ids_in(SERVICE.name, kind.name(), &window)?);
        }
        // What people ask about comes before what was years ago.
        let waiting = gaps.iter().rev().map(|gap| Segment::of(*gap)).collect();
        let position = Arc::new(Mutex::new(position));
        Ok(Walk { turn, kind, known, position, waiting: Mutex::new(waiting) })
    }

    fn next(&self) -> Option<Segment> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    async fn part(&self, segment: Segment) -> Result<(), Fault> {
        let (turn, kind) = (self.turn, self.kind);
        let first = self.page(segment, None).await?;
        let newest_us = first.records.first().and_then(|raw| began_us(raw));
        let shown = FirstPage { newest_us, has_next: first.next.is_some() };
        let part = segment.part(shown, turn.started_us);
        if let Some(older) = part.older() {
            self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push_back(older);
        }
        turn.expect_us(part.length_us(turn.started_us));
        let seen = self.pages(segment, part, first).await?;
        let known = turn.desk.records.ids_in(SERVICE.name, kind.name(), &in_charge(kind, part))?;
        let is_imported = known.iter().any(|id| takeout::is_imported(id));
        let is_gone = |id: &String| {
            self.known.contains(id) && !seen.contains(id) && !takeout::is_imported(id)
        };
        let gone: Vec<String> = known.into_iter().filter(is_gone).collect();
        let started_us = turn.started_us;
        let remove =
            move |records: &Records| records.remove(SERVICE.name, kind.name(), &gone, started_us);
        turn.removed(turn.keeper.then(remove).await?);
        if is_imported {
            takeout::give_way(turn.desk, kind, part.from_us, part.to_us)?;
        }
        let (from_us, to_us) = part.covers(started_us);
        let position = Arc::clone(&self.position);
        let cover = move |records: &Records| {
            records.cover(SERVICE.name, kind.name(), from_us, to_us)?;
            let mut position = position.lock().unwrap_or_else(PoisonError::into_inner);
            position::note_done(records, kind, &mut position, (from_us, to_us))
        };
        turn.keeper.then(cover).await
    }

    async fn page(&self, segment: Segment, next: Option<&str>) -> Result<Page, Problem> {
        let start = utc_millis(segment.floor_us);
        let end = segment.ask_to_us().map(utc_millis);
        let bounds = Bounds { start: Some(&start), end: end.as_deref() };
        api::page(self.turn.desk, self.kind, bounds, next, Patience::SYNC).await
    }

    /// Fetches and keeps every page of a part; answers the ids that came. While a page is kept, the
    /// next one is on its way.
    async fn pages(
        &self,
        segment: Segment,
        part: Part,
        first: Page,
    ) -> Result<HashSet<String>, Fault> {
        let turn = self.turn;
        let mut tokens = Tokens::new(self.kind);
        let mut progress = Progress::new(turn, part);
        let mut page = first;
        loop {
            let oldest_us = page.records.last().and_then(|raw| began_us(raw));
            let has_next = tokens.advance(page.next, page.records.len())?;
            let is_last = !has_next || part.ends_with(oldest_us);
            let keeping = turn.keeper.keep(Fetched::new(self.kind, page.records));
            if is_last {
                let (fetched, kept) = keeping.await?;
                progress.kept(fetched.kept(&kept), is_last);
                return Ok(progress.seen);
            }
            let (kept, next) = tokio::join!(keeping, self.page(segment, tokens.last()));
            let (fetched, kept) = kept?;
            progress.kept(fetched.kept(&kept), is_last);
            page = next?;
        }
    }
}

/// When a record began, or later. A recovery does not say when its night began; it was created after
/// that.
fn began_us(raw: &RawValue) -> Option<i64> {
    #[derive(Deserialize)]
    struct Times {
        start: Option<String>,
        created_at: Option<String>,
    }
    let times: Times = serde_json::from_str(raw.get()).ok()?;
    when::instant_us(&times.start.or(times.created_at)?)
}

/// The records that a complete part must have brought again if they still exist. A recovery is listed
/// by its night and kept by its cycle.
fn in_charge(kind: Kind, part: Part) -> Window {
    let is_cut = kind == Kind::Recoveries && part.is_lowest();
    let from_us = part.from_us + if is_cut { EDGE_US } else { 0 };
    Window { from_us: Some(from_us), to_us: part.to_us, ..Window::default() }
}

/// How far a part has come.
struct Progress<'a> {
    turn: &'a Turn<'a>,
    part: Part,
    seen: HashSet<String>,
    reached_us: i64,
}

impl<'a> Progress<'a> {
    fn new(turn: &'a Turn<'a>, part: Part) -> Progress<'a> {
        let (_, reached_us) = part.covers(turn.started_us);
        Progress { turn, part, seen: HashSet::new(), reached_us }
    }

    /// Counts a page that was kept.
    fn kept(&mut self, kept: KeptPage, is_last: bool) {
        let turn = self.turn;
        turn.doubtful(kept.doubtful);
        for warning in kept.warnings {
            turn.warn(warning);
        }
        let ids = || kept.shaped.iter().filter_map(|shaped| shaped.id.as_deref());
        turn.nameless(kept.shaped.len() - ids().count());
        let oldest_us = kept.shaped.iter().filter_map(|shaped| shaped.start_us).min();
        let from_us = self.part.from_us;
        let down_to_us = if is_last { from_us } else { oldest_us.unwrap_or(self.reached_us) };
        let down_to_us = down_to_us.clamp(from_us, self.reached_us);
        turn.page(ids(), kept.written, self.reached_us - down_to_us);
        self.reached_us = down_to_us;
        self.seen.extend(ids().map(str::to_owned));
    }
}
