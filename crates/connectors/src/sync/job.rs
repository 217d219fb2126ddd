//! One resource's part of a sync: its request, its counts and its row of history.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use store::records::{RecordsError, RunEnd};

use super::{OnProgress, RecordWriter, ResourceError, SyncProgress, SyncRequest, SyncResource};
use crate::ConnectorContext;

/// The number of warnings about unreadable records; further ones are only counted.
const WARNINGS_MAX: usize = 5;

pub struct SyncJob<'a> {
    pub ctx: &'a ConnectorContext,
    pub service: &'static str,
    pub resource: &'static SyncResource,
    pub request: &'a SyncRequest,
    /// The start given by the resource's `since`.
    pub since: Option<String>,
    pub started_us: i64,
    /// Shared by all resources of the sync.
    pub writer: &'a RecordWriter,
    on_progress: OnProgress<'a>,
    row: i64,
    tally: Mutex<JobCounts>,
}

/// The request of a sync, and when it began.
pub(super) struct JobParams<'a> {
    pub(super) request: &'a SyncRequest,
    pub(super) since: Option<String>,
    pub(super) started_us: i64,
}

/// The counts so far.
#[derive(Clone, Debug, Default)]
pub(super) struct JobCounts {
    pub(super) fetched: u64,
    pub(super) upserted: u64,
    pub(super) removed: u64,
    pub(super) doubtful: u64,
    pub(super) warnings: Vec<String>,
    unnamed: u64,
    /// A record on the edge of two windows arrives twice and counts once.
    seen: HashSet<String>,
    whole_us: i64,
    done_us: i64,
}

impl<'a> SyncJob<'a> {
    pub(super) fn begin(
        ctx: &'a ConnectorContext,
        service: &'static str,
        resource: &'static SyncResource,
        course: JobParams<'a>,
        writer: &'a RecordWriter,
        on_progress: OnProgress<'a>,
    ) -> Result<SyncJob<'a>, RecordsError> {
        let JobParams { request, since, started_us } = course;
        let row = ctx.records.run_begin(service, resource.name, started_us, since.as_deref())?;
        let tally = Mutex::default();
        Ok(SyncJob {
            ctx,
            service,
            resource,
            request,
            since,
            started_us,
            writer,
            on_progress,
            row,
            tally,
        })
    }

    /// Fetches the resource and closes its row, also after a failure.
    pub(super) async fn run(&self) -> Result<Option<String>, ResourceError> {
        let mut outcome = (self.resource.fetch)(self).await;
        if let Err(error) = self.end(&outcome) {
            outcome = Err(error.into());
        }
        (self.on_progress)(SyncProgress::Done { resource: self.resource.name });
        outcome
    }

    fn end(&self, outcome: &Result<Option<String>, ResourceError>) -> Result<(), RecordsError> {
        let tally = self.tally();
        let error = outcome.as_ref().err().map(ResourceError::line);
        let (service, resource) = (self.service, self.resource.name);
        match &error {
            None => tracing::info!(
                service,
                resource,
                fetched = tally.fetched,
                upserted = tally.upserted,
                "synced"
            ),
            Some(error) => tracing::warn!(service, resource, error, "could not sync a resource"),
        }
        let end = RunEnd {
            completed_us: self.ctx.clock.now().wall_us,
            status: if error.is_none() { "success" } else { "error" },
            fetched: tally.fetched,
            upserted: tally.upserted,
            error: error.as_deref(),
            until: outcome.as_ref().ok().and_then(Option::as_deref),
        };
        self.ctx.records.run_end(self.row, &end)
    }

    /// Adds time to fetch, for the progress share.
    pub fn expect_us(&self, more_us: i64) {
        let mut tally = self.tally();
        tally.whole_us = tally.whole_us.saturating_add(more_us);
    }

    /// A page was stored: its ids, and how many of them were new or changed.
    pub fn page<'i>(&self, ids: impl IntoIterator<Item = &'i str>, upserted: usize, done_us: i64) {
        let (records, share) = {
            let mut tally = self.tally();
            for id in ids {
                if tally.seen.insert(id.to_owned()) {
                    tally.fetched += 1;
                }
            }
            tally.upserted += upserted as u64;
            tally.done_us = tally.done_us.saturating_add(done_us);
            (tally.fetched, tally.share())
        };
        (self.on_progress)(SyncProgress::Page { resource: self.resource.name, records, share });
    }

    /// Records without an id cannot be distinguished; each counts as fetched.
    pub fn nameless(&self, count: usize) {
        self.tally().fetched += count as u64;
    }

    pub fn removed(&self, count: usize) {
        self.tally().removed += count as u64;
    }

    /// Counts records with impossible times.
    pub fn doubtful(&self, count: usize) {
        self.tally().doubtful += count as u64;
    }

    pub fn warn(&self, warning: String) {
        let mut tally = self.tally();
        if tally.warnings.contains(&warning) {
            return;
        }
        if tally.warnings.len() < WARNINGS_MAX {
            tally.warnings.push(warning);
        } else {
            tally.unnamed += 1;
        }
    }

    pub(super) fn tally(&self) -> MutexGuard<'_, JobCounts> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl JobCounts {
    #[expect(clippy::cast_precision_loss, reason = "a share for people")]
    fn share(&self) -> f64 {
        if self.whole_us <= 0 {
            return 0.0;
        }
        (self.done_us as f64 / self.whole_us as f64).clamp(0.0, 1.0)
    }

    pub(super) fn warnings(&self, resource: &str) -> Vec<String> {
        let mut warnings = self.warnings.clone();
        if self.unnamed > 0 {
            warnings.push(format!("{resource}: {} more like these", self.unnamed));
        }
        warnings
    }
}
