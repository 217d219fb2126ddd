//! One resource's part of a sync: what it was asked, what it has counted, and its row of history.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use store::records::{RecordsError, RunEnd};

use super::{Asked, Fault, Keeper, Resource, Step, Told};
use crate::Desk;

/// Records that cannot be read are named so often; then they are only counted.
const WARNINGS_MAX: usize = 5;

pub struct Turn<'a> {
    pub desk: &'a Desk,
    pub service: &'static str,
    pub resource: &'static Resource,
    pub asked: &'a Asked,
    /// What `since` of the resource said.
    pub since: Option<String>,
    pub started_us: i64,
    /// Shared by all resources of the sync.
    pub keeper: &'a Keeper,
    told: Told<'a>,
    row: i64,
    tally: Mutex<Tally>,
}

/// What a sync was asked, and when it began.
pub(super) struct Course<'a> {
    pub(super) asked: &'a Asked,
    pub(super) since: Option<String>,
    pub(super) started_us: i64,
}

/// What was counted so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) fetched: u64,
    pub(super) upserted: u64,
    pub(super) removed: u64,
    pub(super) doubtful: u64,
    pub(super) warnings: Vec<String>,
    unnamed: u64,
    /// A record that lies on the edge of two windows comes twice and counts once.
    seen: HashSet<String>,
    whole_us: i64,
    done_us: i64,
}

impl<'a> Turn<'a> {
    pub(super) fn begin(
        desk: &'a Desk,
        service: &'static str,
        resource: &'static Resource,
        course: Course<'a>,
        keeper: &'a Keeper,
        told: Told<'a>,
    ) -> Result<Turn<'a>, RecordsError> {
        let Course { asked, since, started_us } = course;
        let row = desk.records.run_begin(service, resource.name, started_us, since.as_deref())?;
        let tally = Mutex::default();
        Ok(Turn { desk, service, resource, asked, since, started_us, keeper, told, row, tally })
    }

    /// Fetches the resource and closes its row, whatever happened.
    pub(super) async fn run(&self) -> Result<Option<String>, Fault> {
        let mut outcome = (self.resource.fetch)(self).await;
        if let Err(error) = self.end(&outcome) {
            outcome = Err(error.into());
        }
        (self.told)(Step::Done { resource: self.resource.name });
        outcome
    }

    fn end(&self, outcome: &Result<Option<String>, Fault>) -> Result<(), RecordsError> {
        let tally = self.tally();
        let error = outcome.as_ref().err().map(Fault::line);
        let (service, resource) = (self.service, self.resource.name);
        match &error {
            None => tracing::info!(
                service,
                resource,
                fetched = tally.fetched,
                upserted = tally.upserted,
                "synced"
            ),
            Some(error) => tracing::warn!(service, resource, error, "not synced"),
        }
        let end = RunEnd {
            completed_us: self.desk.clock.now().wall_us,
            status: if error.is_none() { "success" } else { "error" },
            fetched: tally.fetched,
            upserted: tally.upserted,
            error: error.as_deref(),
            until: outcome.as_ref().ok().and_then(Option::as_deref),
        };
        self.desk.records.run_end(self.row, &end)
    }

    /// More time to fetch was found, for the share that is done.
    pub fn expect_us(&self, more_us: i64) {
        let mut tally = self.tally();
        tally.whole_us = tally.whole_us.saturating_add(more_us);
    }

    /// A page was kept: the ids that came with it, and how many of them were new or changed.
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
        (self.told)(Step::Page { resource: self.resource.name, records, share });
    }

    /// Records without any id cannot be told apart; each counts as fetched.
    pub fn nameless(&self, count: usize) {
        self.tally().fetched += count as u64;
    }

    pub fn removed(&self, count: usize) {
        self.tally().removed += count as u64;
    }

    /// Records came whose times cannot be.
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

    pub(super) fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tally {
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
