//! Lists of records: from the mirror where it is complete, from WHOOP where it is not or where the
//! caller requests it. Bounds are instants; an open cycle ends now.

use std::collections::HashSet;

use serde_json::{Map, Value};
use store::records::{RecordsError, RecordsSnapshot, Window};

use super::api::{self, Bounds, WaitPolicy};
use super::fill::{self, Stretch};
use super::kind::Kind;
use super::problem::WhoopProblem;
use super::shape::{Shaped, shape_text};
use super::{NAME, mirror_writer, single, takeout, truncate};
use crate::{ConnectorContext, when};

const MILLISECOND_US: i64 = 1_000;
/// The assumed number of cycles without a recovery between those with one.
const CYCLES_BESIDE: usize = 5;
/// A cycle that is open for longer was left open: it does not reach into later days, and its data
/// is stale.
pub(super) const OPEN_LASTS_US_MAX: i64 = 48 * 3_600_000_000;

/// The parameters of a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct ListRequest {
    pub(super) from_us: Option<i64>,
    pub(super) to_us: Option<i64>,
    pub(super) limit: Option<usize>,
}

/// Derived records, newest first, with warnings.
#[derive(Debug, Default)]
pub(super) struct ListResult {
    pub(super) texts: Vec<String>,
    pub(super) warnings: Vec<String>,
    /// Why the mirror could not be completed first.
    pub(super) problem: Option<WhoopProblem>,
    /// WHOOP's records, if they were just fetched.
    pub(super) sent: Vec<Shaped>,
}

/// The span that must be complete.
pub(super) fn requested_stretch(from_us: Option<i64>, to_us: Option<i64>, now_us: i64) -> Stretch {
    let mut stretch = Stretch::of(from_us, to_us, now_us);
    if stretch.from_us == stretch.to_us {
        // An instant: records across it match.
        stretch.to_us += MILLISECOND_US;
    }
    stretch
}

/// WHOOP's response in its own order; the records are also stored.
pub(super) async fn live(
    ctx: &ConnectorContext,
    kind: Kind,
    wanted: ListRequest,
) -> Result<ListResult, WhoopProblem> {
    let now_us = ctx.clock.now().wall_us;
    let (start, end) = (wanted.from_us.map(when::utc_millis), wanted.to_us.map(when::utc_millis));
    let bounds = Bounds { start: start.as_deref(), end: end.as_deref() };
    // Read before the first page: records that another process adds during the fetch are not deleted.
    let known = starting(ctx, kind, wanted);
    let collected = api::collect(ctx, kind, bounds, wanted.limit, WaitPolicy::PROMPT).await?;
    let raws: Vec<&str> = collected.records.iter().map(|raw| raw.get()).collect();
    let shaped = match mirror_writer::store_page(ctx, kind, &raws) {
        Ok(kept) => {
            if collected.complete {
                let stretch = Stretch::of(wanted.from_us, wanted.to_us, now_us);
                cover_whole(ctx, kind, wanted, stretch, now_us);
                forget_deleted(ctx, kind, known, &kept.shaped);
            }
            kept.shaped
        }
        Err(error) => {
            tracing::warn!(kind = kind.name(), %error, "an answer of WHOOP was not kept");
            raws.iter().map(|raw| shape_text(kind, raw)).collect()
        }
    };
    let mut found = ListResult::default();
    if kind == Kind::Recoveries && shaped.iter().any(|one| single::is_undated(ctx, one)) {
        let stretch = Stretch::of(wanted.from_us, wanted.to_us, now_us);
        bring_cycles(ctx, stretch, Some(shaped.len() + CYCLES_BESIDE)).await;
    }
    for shaped in &shaped {
        found.push(kind, shaped, ctx);
    }
    found.sent = shaped;
    Ok(found)
}

/// Recoveries are listed by their nights: that of a cycle that began before the window may be missing.
fn cover_whole(
    ctx: &ConnectorContext,
    kind: Kind,
    wanted: ListRequest,
    stretch: Stretch,
    now_us: i64,
) {
    let is_cut = kind == Kind::Recoveries && wanted.from_us.is_some();
    let from_us = stretch.from_us + if is_cut { fill::NIGHT_US } else { 0 };
    let to_us = stretch.to_us.min(now_us);
    if from_us < to_us
        && let Err(problem) = fill::cover(ctx, kind, from_us, to_us)
    {
        tracing::warn!(%problem, "could not remember a completely fetched window");
    }
}

/// The ids that a complete response must contain. Recoveries are exempt: WHOOP selects them by
/// their sleep, the mirror by their cycle.
fn starting(ctx: &ConnectorContext, kind: Kind, wanted: ListRequest) -> Vec<String> {
    if kind == Kind::Recoveries {
        return Vec::new();
    }
    let starting = Window { overlap: false, limit: None, ..window(ctx, wanted) };
    ctx.records.ids_in(NAME, kind.name(), &starting).unwrap_or_default()
}

/// A record missing from a complete response was deleted at WHOOP. Rows of its data export stay: the
/// API does not have them.
fn forget_deleted(ctx: &ConnectorContext, kind: Kind, mut known: Vec<String>, came: &[Shaped]) {
    let came: HashSet<&str> = came.iter().filter_map(|shaped| shaped.id.as_deref()).collect();
    known.retain(|id| !takeout::is_imported(id) && !came.contains(id.as_str()));
    if known.is_empty() {
        return;
    }
    let now_us = ctx.clock.now().wall_us;
    if let Err(error) = ctx.records.remove(NAME, kind.name(), &known, now_us) {
        tracing::warn!(kind = kind.name(), %error, "deleted records stay in the mirror");
    }
}

/// The mirror, after its gaps were filled. If WHOOP cannot be reached, the stored records are
/// returned with a warning; without any records the failure is returned.
pub(super) async fn mirrored(
    ctx: &ConnectorContext,
    kind: Kind,
    wanted: ListRequest,
) -> Result<ListResult, WhoopProblem> {
    let failed = |error| WhoopProblem::cache(kind.path(), &error);
    let now_us = ctx.clock.now().wall_us;
    let stretch = requested_stretch(wanted.from_us, wanted.to_us, now_us);
    if stretch.from_us > stretch.to_us && stretch.from_us < now_us {
        return Ok(ListResult { texts: read(ctx, kind, wanted)?, ..ListResult::default() });
    }
    let shown = shown_window(ctx, wanted);
    let known = ctx.records.snapshot(|look| {
        let is_known = is_known(look, kind, stretch, now_us)?;
        is_known.then(|| readable(look, kind, &shown)).transpose()
    });
    if let Some(texts) = known.map_err(failed)? {
        return Ok(ListResult { texts, ..ListResult::default() });
    }
    let stretch = enough(ctx, kind, wanted, stretch)?;
    let gaps = fill::missing(ctx, kind, stretch).map_err(failed)?;
    match fill::fill(ctx, kind, stretch, &gaps, wanted.limit).await {
        Ok(came) => completed(ctx, kind, wanted, stretch, &came).await,
        Err(problem) => {
            let texts = read(ctx, kind, wanted)?;
            if texts.is_empty() {
                return Err(problem);
            }
            Ok(ListResult { texts, problem: Some(problem), ..ListResult::default() })
        }
    }
}

/// Was the whole span fetched? Recoveries are found by the times of their cycles, so both count.
pub(super) fn is_known(
    look: &RecordsSnapshot<'_>,
    kind: Kind,
    stretch: Stretch,
    now_us: i64,
) -> Result<bool, RecordsError> {
    if !fill::is_whole(look, kind, stretch, now_us)? {
        return Ok(false);
    }
    Ok(kind != Kind::Recoveries || fill::is_whole(look, Kind::Cycles, stretch, now_us)?)
}

/// Recoveries take the times of their cycles, so those are fetched as well; a recovery whose cycle
/// stays unknown is returned anyway.
async fn completed(
    ctx: &ConnectorContext,
    kind: Kind,
    wanted: ListRequest,
    stretch: Stretch,
    came: &[Shaped],
) -> Result<ListResult, WhoopProblem> {
    if kind == Kind::Recoveries {
        bring_cycles(ctx, stretch, wanted.limit).await;
    }
    let mut found = ListResult { texts: read(ctx, kind, wanted)?, ..ListResult::default() };
    for shaped in came {
        if !is_placed(ctx, kind, shaped) {
            found.push(kind, shaped, ctx);
        }
    }
    cut(&mut found.texts, wanted.limit.unwrap_or(usize::MAX));
    Ok(found)
}

/// Fetches the cycles of the requested recoveries.
async fn bring_cycles(ctx: &ConnectorContext, stretch: Stretch, limit: Option<usize>) {
    let cycles = Stretch { from_us: stretch.from_us - fill::NIGHT_US, ..stretch };
    let gaps = fill::missing(ctx, Kind::Cycles, cycles).unwrap_or_default();
    if let Err(problem) = fill::fill(ctx, Kind::Cycles, cycles, &gaps, limit).await {
        tracing::warn!(%problem, "could not fetch the cycles of recoveries");
    }
}

/// Is the record in the mirror, at a time?
fn is_placed(ctx: &ConnectorContext, kind: Kind, shaped: &Shaped) -> bool {
    let Some(id) = shaped.id.as_deref() else { return false };
    let row = ctx.records.one(NAME, kind.name(), id).ok().flatten();
    row.is_some_and(|row| row.start_us.is_some())
}

/// The part of the span that a response needs: with `limit` stored records, nothing older.
fn enough(
    ctx: &ConnectorContext,
    kind: Kind,
    wanted: ListRequest,
    stretch: Stretch,
) -> Result<Stretch, WhoopProblem> {
    let rows = ctx
        .records
        .window(NAME, kind.name(), &shown_window(ctx, wanted))
        .map_err(|error| WhoopProblem::cache(kind.path(), &error))?;
    let needed = wanted.limit.unwrap_or_else(|| {
        truncate::fitting(rows.iter().map(|row| row.flat.as_str())).saturating_add(1)
    });
    let mut readable = rows.iter().filter(|row| !truncate::is_unreadable(&row.flat));
    let last = needed.checked_sub(1).and_then(|at| readable.nth(at)).and_then(|row| row.start_us);
    Ok(match last {
        Some(start_us) => Stretch { from_us: stretch.from_us.max(start_us), ..stretch },
        None => stretch,
    })
}

fn read(
    ctx: &ConnectorContext,
    kind: Kind,
    wanted: ListRequest,
) -> Result<Vec<String>, WhoopProblem> {
    let shown = shown_window(ctx, wanted);
    ctx.records
        .snapshot(|look| readable(look, kind, &shown))
        .map_err(|error| WhoopProblem::cache(kind.path(), &error))
}

/// The texts of a window, with those that cannot be read between them. The limit is one of records that
/// can: unreadable ones are reported and do not count.
fn readable(
    look: &RecordsSnapshot<'_>,
    kind: Kind,
    window: &Window,
) -> Result<Vec<String>, RecordsError> {
    let wanted = window.limit.unwrap_or(usize::MAX);
    let mut limit = wanted;
    loop {
        let window = Window { limit: Some(limit), ..*window };
        let mut texts = look.window_flat(NAME, kind.name(), &window)?;
        let is_all = texts.len() < limit;
        let unreadable = texts.iter().filter(|text| truncate::is_unreadable(text)).count();
        if is_all || texts.len() - unreadable >= wanted {
            cut(&mut texts, wanted);
            return Ok(texts);
        }
        limit = limit.saturating_mul(2);
    }
}

/// Truncates after the given number of readable records.
fn cut(texts: &mut Vec<String>, wanted: usize) {
    let mut readable = texts.iter().enumerate().filter(|(_, text)| !truncate::is_unreadable(text));
    if let Some((at, _)) = wanted.checked_sub(1).and_then(|last| readable.nth(last)) {
        texts.truncate(at + 1);
    }
}

/// The window, up to the size of a response.
fn shown_window(ctx: &ConnectorContext, wanted: ListRequest) -> Window {
    Window { limit: wanted.limit.or(Some(truncate::RECORDS_MAX)), ..window(ctx, wanted) }
}

pub(super) fn window(ctx: &ConnectorContext, wanted: ListRequest) -> Window {
    Window {
        from_us: wanted.from_us,
        to_us: wanted.to_us,
        limit: wanted.limit,
        newest_first: true,
        overlap: true,
        open_end_us: Some(ctx.clock.now().wall_us),
        open_lasts_us_max: Some(OPEN_LASTS_US_MAX),
        // Unreadable records are selected as well, for the warnings.
        except_state: None,
    }
}

impl ListResult {
    fn push(&mut self, kind: Kind, shaped: &Shaped, ctx: &ConnectorContext) {
        match shaped.warning(kind) {
            Some(warning) => self.warnings.push(warning),
            None => self.texts.push(single::dated_text(ctx, kind, shaped)),
        }
    }
}

/// The start of a cycle that was left open.
pub(super) fn left_open_since(cycle: &Map<String, Value>, now_us: i64) -> Option<String> {
    let start = cycle.get("start_utc")?.as_str()?;
    let is_open = cycle.get("end_utc").is_some_and(Value::is_null);
    let open_us = now_us.saturating_sub(when::instant_us(start)?);
    (is_open && open_us > OPEN_LASTS_US_MAX).then(|| start.to_owned())
}
