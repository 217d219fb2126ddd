//! Updates the mirror of a service. Common to all services: one sync at a time, all resources
//! concurrently, a row of history for each, and the report that tools and commands show. How a
//! resource is fetched is up to the service.

mod concurrent;
mod job;
mod report;
mod snapshot;
mod writer;

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use serde_json::Value;
use store::export::ServiceExports;
use store::records::{Derived, Records, RecordsError, SyncLock, View};

use crate::ConnectorContext;

pub use concurrent::{all, as_they_come, some_at_a_time};
use job::JobParams;
pub use job::SyncJob;
pub use report::{ResourceReport, SyncReport, SyncStatus};
pub use snapshot::{CURRENT, Snapshot, is_same};
pub use writer::{RecordWriter, StorablePage};

/// Counts some records of a mirror.
pub type CountRecords = fn(&Records) -> Result<u64, RecordsError>;

/// The local mirror of a service's records.
pub struct Mirror {
    pub service: &'static str,
    /// In the order of their rows of history.
    pub resources: &'static [SyncResource],
    /// What changed in it.
    pub events: fn(&ConnectorContext, &EventsRequest<'_>) -> Result<Value, ResourceError>,
    /// The kinds that can be exported, with their views.
    pub export: &'static ServiceExports,
    /// Views of kinds that cannot be exported.
    pub more_views: &'static [&'static View],
    /// Increase when `derive` changes.
    pub version: u32,
    /// Derives the columns of a raw record of a kind.
    pub derive: fn(kind: &str, raw: &str) -> Option<Derived>,
    /// The owner's offset from UTC, where the records say it.
    pub offset_s: Option<fn(&Records) -> Option<i32>>,
    /// Counts records with impossible times.
    pub doubtful: Option<CountRecords>,
}

impl Mirror {
    /// Updates the views and the derived columns to this version. Cheap when nothing has changed; sends
    /// no request.
    pub fn prepare(&self, records: &Records) -> Result<(), RecordsError> {
        let exported = self.export.kinds.iter().map(|kind| kind.view);
        let views: Vec<&View> = exported.chain(self.more_views.iter().copied()).collect();
        records.declare(&views)?;
        records.reshape(self.service, self.version, self.derive)?;
        Ok(())
    }
}

/// A request for changes.
#[derive(Clone, Copy, Debug)]
pub struct EventsRequest<'a> {
    /// A time, or the cursor of an earlier answer.
    pub since: &'a str,
    pub until: Option<&'a str>,
    pub resources: Option<&'a [String]>,
    pub limit: i64,
}

/// One list or snapshot of a service.
pub struct SyncResource {
    pub name: &'static str,
    /// The start of a run, as the history records it; `None` for resources without a time.
    pub since: Option<SinceFn>,
    pub fetch: Fetch,
}

impl SyncResource {
    /// A list that is fetched from its newest entry.
    pub(crate) const fn list(name: &'static str, fetch: Fetch) -> SyncResource {
        SyncResource { name, since: None, fetch }
    }
}

pub type SinceFn =
    fn(&ConnectorContext, &SyncRequest, now_us: i64) -> Result<Option<String>, RecordsError>;

/// Fetches a resource and stores it page by page. Returns its newest time of change.
pub type Fetch = for<'a> fn(&'a SyncJob<'a>) -> Fetching<'a>;
pub type Fetching<'a> =
    Pin<Box<dyn Future<Output = Result<Option<String>, ResourceError>> + Send + 'a>>;

/// The request of a sync. By default it fetches new records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SyncRequest {
    /// Everything from the beginning; stronger than `since`.
    pub full: bool,
    pub since: Option<String>,
    /// Some of the resources instead of all.
    pub resources: Option<Vec<String>>,
}

/// Why one resource failed: a stable code and a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceError {
    pub code: &'static str,
    pub message: String,
}

/// Progress of a sync.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SyncProgress<'a> {
    /// Another sync of the service is running; this one waits for it.
    Waits,
    /// Fetched records so far; `share` of the resource's time is done, from 0 to 1.
    Page {
        resource: &'a str,
        records: u64,
        share: f64,
    },
    Done {
        resource: &'a str,
    },
}

/// Receives the progress.
pub type OnProgress<'a> = &'a (dyn Fn(SyncProgress<'_>) + Sync);

/// Why a sync could not start.
#[derive(Debug, thiserror::Error)]
pub enum SyncError {
    #[error(transparent)]
    Records(#[from] RecordsError),
    #[error("another sync of `{service}` has been running for {} minutes\nhint: `tollgate status` shows what runs", TURN_WAIT_S_MAX / 60)]
    Busy { service: &'static str },
}

/// A sync of ten years takes some seven minutes at WHOOP's pace.
const TURN_WAIT_S_MAX: u64 = 15 * 60;
const TURN_POLL_EVERY: Duration = Duration::from_millis(100);

/// Runs a sync to its end. A resource that fails does not stop the others.
pub async fn run(
    ctx: &ConnectorContext,
    mirror: &Mirror,
    request: &SyncRequest,
    on_progress: OnProgress<'_>,
) -> Result<SyncReport, SyncError> {
    let chosen = match chosen(mirror, request) {
        Ok(chosen) => chosen,
        Err(unknown) => return Ok(SyncReport::of_unknown(ctx.clock.now().wall_us, unknown)),
    };
    let _turn = wait_for_turn(ctx, mirror.service, on_progress).await?;
    mirror.prepare(&ctx.records)?;
    let started_us = ctx.clock.now().wall_us;
    // The rows are created before anything is fetched, so that they have the requested order.
    let writer = RecordWriter::start(&ctx.records, mirror.service);
    let mut jobs = Vec::new();
    for resource in chosen {
        let since = match resource.since {
            Some(since) => since(ctx, request, started_us)?,
            None => None,
        };
        let course = JobParams { request, since, started_us };
        jobs.push(SyncJob::begin(ctx, mirror.service, resource, course, &writer, on_progress)?);
    }
    let outcomes = all(jobs.iter().map(SyncJob::run)).await;
    let completed_us = ctx.clock.now().wall_us;
    let resources =
        jobs.iter().zip(outcomes).map(|(job, outcome)| ResourceReport::of(job, outcome)).collect();
    Ok(SyncReport { started_us, completed_us, resources, unknown: Vec::new() })
}

/// The requested resources in the requested order, or the unknown names.
fn chosen(
    mirror: &Mirror,
    request: &SyncRequest,
) -> Result<Vec<&'static SyncResource>, Vec<String>> {
    let Some(names) = &request.resources else { return Ok(mirror.resources.iter().collect()) };
    let find = |name: &String| mirror.resources.iter().find(|r| r.name == name);
    let unknown: Vec<String> = names.iter().filter(|name| find(name).is_none()).cloned().collect();
    if unknown.is_empty() { Ok(names.iter().filter_map(find).collect()) } else { Err(unknown) }
}

async fn wait_for_turn(
    ctx: &ConnectorContext,
    service: &'static str,
    on_progress: OnProgress<'_>,
) -> Result<SyncLock, SyncError> {
    let tries = Duration::from_secs(TURN_WAIT_S_MAX).as_millis() / TURN_POLL_EVERY.as_millis();
    for attempt in 0..tries {
        if let Some(job) = ctx.records.try_sync_lock(service)? {
            return Ok(job);
        }
        if attempt == 0 {
            on_progress(SyncProgress::Waits);
        }
        tokio::time::sleep(TURN_POLL_EVERY).await;
    }
    Err(SyncError::Busy { service })
}

impl From<RecordsError> for ResourceError {
    fn from(error: RecordsError) -> ResourceError {
        let message = error.to_string();
        let message = message.lines().next().unwrap_or_default();
        ResourceError {
            code: "CACHE_ERROR",
            message: format!("the local mirror failed: {message}"),
        }
    }
}

impl ResourceError {
    /// Whether the service's rate limit ended the sync.
    pub fn is_rate_limited(&self) -> bool {
        self.code.eq_ignore_ascii_case("rate_limited")
    }

    /// `CODE: message`, as results and the history show it.
    pub fn line(&self) -> String {
        format!("{}: {}", self.code, self.message)
    }
}
