//! WHOOP's mirror: its lists and snapshots, and the start of each fetch.

mod list;
mod position;
mod reread;
mod segment;

use serde_json::Value;
use store::records::{Derived, RecordsError, Window};

use super::api::{self, ApiPath, WaitPolicy};
use super::export::EXPORTS;
use super::kind::Kind;
use super::mirror_writer::store_snapshot;
use super::problem::{WhoopCode, WhoopProblem};
use super::takeout::JOURNAL_VIEW;
use super::{SERVICE, shape};
use crate::sync::{
    self, EventsRequest, Fetching, Mirror, OnProgress, ResourceError, SyncJob, SyncReport,
    SyncRequest, SyncResource,
};
use crate::when::{self, Here, utc_millis};
use crate::{Caller, ConnectorContext};

pub const MIRROR: Mirror = Mirror {
    service: "whoop",
    resources: &[
        SyncResource { name: "cycles", since: Some(since_cycles), fetch: cycles },
        SyncResource { name: "recoveries", since: Some(since_recoveries), fetch: recoveries },
        SyncResource { name: "sleeps", since: Some(since_sleeps), fetch: sleeps },
        SyncResource { name: "workouts", since: Some(since_workouts), fetch: workouts },
        SyncResource { name: "body_measurement", since: None, fetch: body },
        SyncResource { name: "profile", since: None, fetch: profile },
    ],
    events,
    export: &EXPORTS,
    more_views: &[&JOURNAL_VIEW],
    version: shape::VERSION,
    derive,
    offset_s: Some(super::offset_s),
    doubtful: Some(super::doubtful),
};

fn derive(kind: &str, raw: &str) -> Option<Derived> {
    let kind = Kind::parse(kind)?;
    let raw: Value = serde_json::from_str(raw).ok()?;
    let shaped = shape::shape(kind, &raw);
    let flat = shaped.flat_text();
    Some(Derived {
        start_us: shaped.start_us,
        end_us: shaped.end_us,
        offset_s: shaped.offset_s,
        parent: shaped.parent,
        state: shaped.state,
        flat,
    })
}

fn events(ctx: &ConnectorContext, request: &EventsRequest<'_>) -> Result<Value, ResourceError> {
    Ok(super::events::find(ctx, &Caller::owner(), request, true)?.value())
}

const SECOND_US: i64 = 1_000_000;
const DAY_US: i64 = 86_400 * SECOND_US;
/// WHOOP filters by when a record took place, not by when it changed: late scores, late uploads and
/// edits of the last days are only seen by reading those days again.
const OVERLAP_US: i64 = 7 * DAY_US;
/// How far a window may be extended to include pending records.
const PENDING_BACK_US: i64 = 60 * DAY_US;
/// Known records that fit on one page together with some new ones.
const ONE_PAGE_RECORDS: usize = 20;
/// The required kinds of a mirror.
const FRESH_US: i64 = 90 * DAY_US;
/// Before there was anything to record.
const FULL_FROM: &str = "2010-01-01T00:00:00Z";

/// Runs a sync for the tool: its report, or why it could not start.
pub(super) async fn sync_whoop(
    ctx: &ConnectorContext,
    request: &SyncRequest,
    on_progress: OnProgress<'_>,
) -> Result<SyncReport, WhoopProblem> {
    sync::run(ctx, &MIRROR, request, on_progress).await.map_err(|error| {
        let message = error.to_string().replace("\nhint: ", "; ");
        WhoopProblem::new(WhoopCode::SyncError, "/sync", message)
    })
}

/// The start of a list's fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FetchStart {
    /// Given by the owner: everything after it is read again.
    Asked(i64),
    /// New records, and gaps before them.
    Recent { from_us: i64, again_us: i64 },
}

fn since_cycles(
    ctx: &ConnectorContext,
    request: &SyncRequest,
    now_us: i64,
) -> Result<Option<String>, RecordsError> {
    since(ctx, Kind::Cycles, request, now_us)
}

fn since_recoveries(
    ctx: &ConnectorContext,
    request: &SyncRequest,
    now_us: i64,
) -> Result<Option<String>, RecordsError> {
    since(ctx, Kind::Recoveries, request, now_us)
}

fn since_sleeps(
    ctx: &ConnectorContext,
    request: &SyncRequest,
    now_us: i64,
) -> Result<Option<String>, RecordsError> {
    since(ctx, Kind::Sleeps, request, now_us)
}

fn since_workouts(
    ctx: &ConnectorContext,
    request: &SyncRequest,
    now_us: i64,
) -> Result<Option<String>, RecordsError> {
    since(ctx, Kind::Workouts, request, now_us)
}

/// The lower bound as the history records it. An unreadable value is recorded as given.
fn since(
    ctx: &ConnectorContext,
    kind: Kind,
    request: &SyncRequest,
    now_us: i64,
) -> Result<Option<String>, RecordsError> {
    if request.full {
        return Ok(Some(FULL_FROM.to_owned()));
    }
    match (&request.since, reach(ctx, kind, request, now_us)?) {
        (Some(text), Some(FetchStart::Asked(from_us))) if when::strict_date(text).is_some() => {
            Ok(Some(utc_millis(from_us)))
        }
        (Some(text), None | Some(FetchStart::Asked(_))) => Ok(Some(text.clone())),
        (_, Some(FetchStart::Recent { from_us, .. } | FetchStart::Asked(from_us))) => {
            Ok(Some(utc_millis(from_us)))
        }
        (None, None) => Ok(None),
    }
}

/// `None` if the owner's `since` cannot be read.
fn reach(
    ctx: &ConnectorContext,
    kind: Kind,
    request: &SyncRequest,
    now_us: i64,
) -> Result<Option<FetchStart>, RecordsError> {
    if request.full {
        return Ok(when::instant_us(FULL_FROM).map(FetchStart::Asked));
    }
    if let Some(text) = request.since.as_deref().filter(|text| !text.is_empty()) {
        let here = Here { now_us, offset_s: super::offset_s(&ctx.records).unwrap_or(0) };
        return Ok(when::start_us(text, here).ok().map(FetchStart::Asked));
    }
    let newest = ctx.records.newest_updated(SERVICE.name, kind.name())?;
    let again_us = newest.map_or(now_us - FRESH_US, |(_, newest_us)| newest_us - OVERLAP_US);
    // A tool call or a `since` may have stored newer records than the last sync.
    let synced_us = position::synced_us(&ctx.records, kind)?;
    let again_us = again_us.min(synced_us.unwrap_or(now_us) - OVERLAP_US).min(now_us - OVERLAP_US);
    let again_us = back_to_pending(ctx, kind, again_us, now_us)?;
    let mut from_us = again_us.min(now_us - FRESH_US);
    if let Some(pending) = position::pending(&ctx.records, kind)? {
        from_us = from_us.min(pending.from_us);
    }
    let covered = ctx.records.coverage(SERVICE.name, kind.name())?;
    // The known part is skipped, so this is where fetching begins.
    let gaps = position::gaps(from_us, again_us, &covered);
    let first_us = gaps.first().map_or(again_us, |gap| gap.0);
    Ok(Some(FetchStart::Recent { from_us: whole_second(first_us), again_us }))
}

/// The same or earlier: pending records a little before it are read again with the others, as long as
/// one page still holds all of it.
fn back_to_pending(
    ctx: &ConnectorContext,
    kind: Kind,
    again_us: i64,
    now_us: i64,
) -> Result<i64, RecordsError> {
    let (service, kind) = (SERVICE.name, kind.name());
    let near_us = now_us - PENDING_BACK_US;
    let rows = ctx.records.unsettled(service, kind, reread::SCORED)?;
    let pending = rows.iter().filter(|row| row.state.as_deref() == Some(reread::PENDING));
    // Oldest first, so the first match reaches farthest back.
    for start_us in
        pending.filter_map(|row| row.start_us).filter(|us| (near_us..again_us).contains(us))
    {
        let window = Window { from_us: Some(start_us), ..Window::default() };
        if ctx.records.ids_in(service, kind, &window)?.len() <= ONE_PAGE_RECORDS {
            return Ok(start_us);
        }
    }
    Ok(again_us)
}

/// Instants are sent with milliseconds; a whole second is easier to read and no less exact here.
fn whole_second(us: i64) -> i64 {
    us.div_euclid(SECOND_US) * SECOND_US
}

fn cycles<'a>(job: &'a SyncJob<'a>) -> Fetching<'a> {
    Box::pin(list::fetch(job, Kind::Cycles))
}

fn recoveries<'a>(job: &'a SyncJob<'a>) -> Fetching<'a> {
    Box::pin(list::fetch(job, Kind::Recoveries))
}

fn sleeps<'a>(job: &'a SyncJob<'a>) -> Fetching<'a> {
    Box::pin(list::fetch(job, Kind::Sleeps))
}

fn workouts<'a>(job: &'a SyncJob<'a>) -> Fetching<'a> {
    Box::pin(list::fetch(job, Kind::Workouts))
}

fn body<'a>(job: &'a SyncJob<'a>) -> Fetching<'a> {
    Box::pin(snapshot(job, Kind::BodyMeasurement, ApiPath::Body))
}

fn profile<'a>(job: &'a SyncJob<'a>) -> Fetching<'a> {
    Box::pin(snapshot(job, Kind::Profile, ApiPath::Profile))
}

async fn snapshot(
    job: &SyncJob<'_>,
    kind: Kind,
    endpoint: ApiPath<'_>,
) -> Result<Option<String>, ResourceError> {
    let fetched = api::get(job.ctx, endpoint, &[], WaitPolicy::SYNC).await?;
    let changed = store_snapshot(job.ctx, kind, fetched.text())?;
    job.page([sync::CURRENT], usize::from(changed), 0);
    Ok(None)
}

impl From<WhoopProblem> for ResourceError {
    fn from(problem: WhoopProblem) -> ResourceError {
        ResourceError { code: problem.code.as_str(), message: problem.message }
    }
}
