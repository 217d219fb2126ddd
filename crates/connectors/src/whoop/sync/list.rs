//! Fetches a list, part by part and page by page. Each page is stored at once; a complete part also
//! shows which records WHOOP has deleted.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use serde::Deserialize;
use serde_json::value::RawValue;
use store::records::{Records, RecordsError, Window};

use super::position::{self, Gap, Position};
use super::reread;
use super::segment::{EDGE_US, FirstPage, Segment, SegmentPart};
use super::{FetchStart, reach};
use crate::sync::{ResourceError, SyncJob, as_they_come};
use crate::when::{self, utc_millis};
use crate::whoop::SERVICE;
use crate::whoop::api::{self, Bounds, PageTokens, RecordPage, WaitPolicy};
use crate::whoop::kind::Kind;
use crate::whoop::mirror_writer::{FetchedPage, StoredPage};
use crate::whoop::problem::{WhoopCode, WhoopProblem};
use crate::whoop::takeout;

/// Parts of one list that are fetched concurrently; four lists make twenty requests at a time, and ten
/// years take two rounds.
const PARTS_AT_ONCE: usize = 5;

pub(super) async fn fetch(job: &SyncJob<'_>, kind: Kind) -> Result<Option<String>, ResourceError> {
    let (records, now_us) = (&job.ctx.records, job.started_us);
    let Some(reach) = reach(job.ctx, kind, job.request, now_us)? else {
        let message =
            "`since` is not a time; write 2026-04-01, 2026-04-01T08:00:00Z or `last 30 days`";
        return Err(WhoopProblem::new(WhoopCode::ValidationError, "/sync", message).into());
    };
    let left_off_us = position::left_off_us(records, kind)?;
    let (position, gaps) = position::begin(records, kind, reach, now_us)?;
    let from_us = position.from_us;
    let walk = Walk::new(job, kind, &gaps, position)?;
    as_they_come(PARTS_AT_ONCE, || walk.next().map(|segment| walk.part(segment))).await?;
    if let FetchStart::Recent { .. } = reach {
        let oldest_us = gaps.iter().map(|gap| gap.0).min().unwrap_or(now_us);
        reread::unscored(job, kind, oldest_us).await?;
    }
    let newest = records.newest_updated(SERVICE.name, kind.name())?;
    // Late uploads are after the newest record, not after the current time.
    let to_us = newest.as_ref().map_or(now_us, |(_, newest_us)| now_us.min(*newest_us));
    position::end(records, kind, left_off_us, (from_us, to_us))?;
    Ok(newest.map(|(updated, _)| updated))
}

/// One list during a sync. Its parts are fetched concurrently; the first page of each shows
/// whether there is an older one.
struct Walk<'a> {
    job: &'a SyncJob<'a>,
    kind: Kind,
    /// Read before the first page: a record that another process adds later is not a deletion.
    known: HashSet<String>,
    position: Arc<Mutex<Position>>,
    waiting: Mutex<VecDeque<Segment>>,
}

impl<'a> Walk<'a> {
    fn new(
        job: &'a SyncJob<'a>,
        kind: Kind,
        gaps: &[Gap],
        position: Position,
    ) -> Result<Walk<'a>, RecordsError> {
        let mut known = HashSet::new();
        for (from_us, to_us) in gaps {
            let window = Window { from_us: Some(*from_us), to_us: *to_us, ..Window::default() };
            known.extend(job.ctx.records.ids_in(SERVICE.name, kind.name(), &window)?);
        }
        // Recent records first.
        let waiting = gaps.iter().rev().map(|gap| Segment::of(*gap)).collect();
        let position = Arc::new(Mutex::new(position));
        Ok(Walk { job, kind, known, position, waiting: Mutex::new(waiting) })
    }

    fn next(&self) -> Option<Segment> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    async fn part(&self, segment: Segment) -> Result<(), ResourceError> {
        let (job, kind) = (self.job, self.kind);
        let first = self.page(segment, None).await?;
        let newest_us = first.records.first().and_then(|raw| began_us(raw));
        let shown = FirstPage { newest_us, has_next: first.next.is_some() };
        let part = segment.part(shown, job.started_us);
        if let Some(older) = part.older() {
            self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push_back(older);
        }
        job.expect_us(part.length_us(job.started_us));
        let seen = self.pages(segment, part, first).await?;
        let known = job.ctx.records.ids_in(SERVICE.name, kind.name(), &in_charge(kind, part))?;
        let is_imported = known.iter().any(|id| takeout::is_imported(id));
        let is_gone = |id: &String| {
            self.known.contains(id) && !seen.contains(id) && !takeout::is_imported(id)
        };
        let gone: Vec<String> = known.into_iter().filter(is_gone).collect();
        let started_us = job.started_us;
        let remove =
            move |records: &Records| records.remove(SERVICE.name, kind.name(), &gone, started_us);
        job.removed(job.writer.then(remove).await?);
        if is_imported {
            takeout::give_way(job.ctx, kind, part.from_us, part.to_us)?;
        }
        let (from_us, to_us) = part.covers(started_us);
        let position = Arc::clone(&self.position);
        let cover = move |records: &Records| {
            records.cover(SERVICE.name, kind.name(), from_us, to_us)?;
            let mut position = position.lock().unwrap_or_else(PoisonError::into_inner);
            position::note_done(records, kind, &mut position, (from_us, to_us))
        };
        job.writer.then(cover).await
    }

    async fn page(&self, segment: Segment, next: Option<&str>) -> Result<RecordPage, WhoopProblem> {
        let start = utc_millis(segment.floor_us);
        let end = segment.ask_to_us().map(utc_millis);
        let bounds = Bounds { start: Some(&start), end: end.as_deref() };
        api::page(self.job.ctx, self.kind, bounds, next, WaitPolicy::SYNC).await
    }

    /// Fetches and stores every page of a part; returns the received ids. While a page is stored, the
    /// next one is fetched.
    async fn pages(
        &self,
        segment: Segment,
        part: SegmentPart,
        first: RecordPage,
    ) -> Result<HashSet<String>, ResourceError> {
        let job = self.job;
        let mut tokens = PageTokens::new(self.kind);
        let mut progress = PartProgress::new(job, part);
        let mut page = first;
        loop {
            let oldest_us = page.records.last().and_then(|raw| began_us(raw));
            let has_next = tokens.advance(page.next, page.records.len())?;
            let is_last = !has_next || part.ends_with(oldest_us);
            let keeping = job.writer.keep(FetchedPage::new(self.kind, page.records));
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

/// When a record began, or later. A recovery has no start of its night; it was created after
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

/// The records that a complete part must contain if they still exist. A recovery is listed
/// by its night and stored by its cycle.
fn in_charge(kind: Kind, part: SegmentPart) -> Window {
    let is_cut = kind == Kind::Recoveries && part.is_lowest();
    let from_us = part.from_us + if is_cut { EDGE_US } else { 0 };
    Window { from_us: Some(from_us), to_us: part.to_us, ..Window::default() }
}

/// Progress of a part.
struct PartProgress<'a> {
    job: &'a SyncJob<'a>,
    part: SegmentPart,
    seen: HashSet<String>,
    reached_us: i64,
}

impl<'a> PartProgress<'a> {
    fn new(job: &'a SyncJob<'a>, part: SegmentPart) -> PartProgress<'a> {
        let (_, reached_us) = part.covers(job.started_us);
        PartProgress { job, part, seen: HashSet::new(), reached_us }
    }

    /// Counts a stored page.
    fn kept(&mut self, kept: StoredPage, is_last: bool) {
        let job = self.job;
        job.doubtful(kept.doubtful);
        for warning in kept.warnings {
            job.warn(warning);
        }
        let ids = || kept.shaped.iter().filter_map(|shaped| shaped.id.as_deref());
        job.nameless(kept.shaped.len() - ids().count());
        let oldest_us = kept.shaped.iter().filter_map(|shaped| shaped.start_us).min();
        let from_us = self.part.from_us;
        let down_to_us = if is_last { from_us } else { oldest_us.unwrap_or(self.reached_us) };
        let down_to_us = down_to_us.clamp(from_us, self.reached_us);
        job.page(ids(), kept.written, self.reached_us - down_to_us);
        self.reached_us = down_to_us;
        self.seen.extend(ids().map(str::to_owned));
    }
}
