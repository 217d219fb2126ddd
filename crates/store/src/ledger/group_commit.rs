//! Group commit: calls that are admitted concurrently share one write under one lock. No call gets
//! its permit before that write.

use std::sync::{Arc, OnceLock};

use tokio::sync::Notify;

use super::admit::{Judged, Request};
use super::core::Core;
use super::error::LedgerError;
use super::permit::Permit;
use super::shared::{LockedLedger, SharedLedger};
use crate::clock::Now;

/// A batch of this size is written without waiting for more.
pub(super) const BATCH_BYTES_MAX: usize = 256 << 10;

/// The result of one group commit; unset until it is written.
#[derive(Default)]
pub(crate) struct CommitResult {
    result: OnceLock<Result<(), LedgerError>>,
    is_set: Notify,
}

impl CommitResult {
    fn get(&self) -> Option<Result<(), LedgerError>> {
        let result = self.result.get()?;
        Some(result.as_ref().copied().map_err(LedgerError::same))
    }

    fn set(&self, result: Result<(), LedgerError>) {
        // Only the thread that takes the group commit out of the core decides its result.
        let _ = self.result.set(result);
        self.is_set.notify_waiters();
    }

    /// Waits until the group was written.
    pub(crate) async fn wait(&self) -> Result<(), LedgerError> {
        loop {
            let mut is_set = std::pin::pin!(self.is_set.notified());
            // From here on no notification is missed.
            is_set.as_mut().enable();
            if let Some(result) = self.get() {
                return result;
            }
            is_set.await;
        }
    }
}

/// An open group commit: its rows are in the journal's batch. While there is one, this process
/// holds the lock between processes.
#[derive(Default)]
pub(crate) struct GroupCommit {
    pub(super) result: Arc<CommitResult>,
}

impl SharedLedger {
    /// Judges a request; the row of an admitted one is left for [`SharedLedger::commit_group`], which the
    /// next caller runs. Everything else is recorded when this returns.
    pub(crate) fn judge_soon(
        &self,
        request: &Request<'_>,
    ) -> Result<(Judged, Option<Arc<CommitResult>>), LedgerError> {
        if let Some(failure) = self.flush.failure() {
            return Err(failure);
        }
        let mut core = self.core();
        let (now, tick) = self.begin_group(&mut core)?;
        let judged = LockedLedger { core: &mut core, now, tick }.judge(request);
        let result = core.group.as_ref().map(|group| Arc::clone(&group.result));
        let waits = matches!(judged, Ok(Judged::Admitted { .. }))
            && core.journal.batch_bytes() < BATCH_BYTES_MAX;
        if waits {
            self.count_open_calls(&core);
            return Ok((judged?, result));
        }
        let (written, changed) = self.commit_group(&mut core);
        drop(core);
        self.notify_if(changed);
        written?;
        Ok((judged?, None))
    }

    /// The result of a group commit; the open one is written now.
    fn result(&self, result: &CommitResult) -> Result<(), LedgerError> {
        if result.get().is_none() {
            let mut core = self.core();
            let (_, changed) = self.commit_group(&mut core);
            drop(core);
            self.notify_if(changed);
        }
        result.get().unwrap_or_else(|| Err(never_written(self)))
    }

    /// Takes both locks, unless the open group commit already holds them.
    pub(super) fn begin_group(&self, core: &mut Core) -> Result<(Now, u64), LedgerError> {
        if core.group.is_some() {
            let now = core.now();
            return Ok((now, core.state.time.at(now)));
        }
        core.acquire().inspect_err(|e| self.turn_ended(Some(e)))?;
        // What precedes every row of a process is written first, separately.
        let begun = self.prepare(core).and_then(|(now, tick)| {
            core.writer(now, tick)?;
            Ok((now, tick))
        });
        match begun {
            Ok(_) => {
                core.journal.begin();
                core.group = Some(GroupCommit::default());
            }
            Err(_) => core.give_up(),
        }
        begun
    }

    /// Writes the batch and the pending outcomes, releases the lock, and returns whether to notify
    /// listeners.
    pub(crate) fn commit_group(&self, core: &mut Core) -> (Result<(), LedgerError>, bool) {
        let Some(group) = core.group.take() else { return (Ok(()), false) };
        let ticket = self.take_queued(core);
        let now = core.now();
        let tick = core.state.time.at(now);
        let written = core.write_group(now, tick);
        let released = core.release();
        let written = written.and(released);
        if written.is_ok() {
            self.outcomes_written(ticket);
        }
        self.turn_ended(written.as_ref().err());
        let changed = self.publish(core);
        group.result.set(written.as_ref().copied().map_err(LedgerError::same));
        (written, changed)
    }
}

impl GroupCommit {
    /// The rows will not be written.
    pub(crate) fn abandon(self, why: LedgerError) {
        self.result.set(Err(why));
    }
}

/// An admitted call whose row is not written yet.
#[must_use = "the call has no permit before its row is written"]
pub struct PendingPermit {
    permit: Option<Permit>,
    shared: Arc<SharedLedger>,
    result: Arc<CommitResult>,
}

impl PendingPermit {
    pub(crate) fn new(
        permit: Permit,
        shared: &Arc<SharedLedger>,
        result: Arc<CommitResult>,
    ) -> PendingPermit {
        PendingPermit { permit: Some(permit), shared: Arc::clone(shared), result }
    }

    /// Writes the row with all rows of its group, unless that already happened.
    pub fn write(self) -> Result<Permit, LedgerError> {
        let written = self.shared.result(&self.result);
        self.permit(written)
    }

    /// Waits until the row is written: on Postgres the ledger thread writes it.
    pub(crate) async fn written(self) -> Result<Permit, LedgerError> {
        let written = self.result.wait().await;
        self.permit(written)
    }

    fn permit(mut self, written: Result<(), LedgerError>) -> Result<Permit, LedgerError> {
        match (written, self.permit.take()) {
            (Ok(()), Some(permit)) => Ok(permit),
            (Ok(()), None) => Err(never_written(&self.shared)),
            (Err(error), permit) => {
                // Its number now belongs to another row.
                if let Some(permit) = permit {
                    permit.forget();
                }
                Err(error)
            }
        }
    }
}

impl Drop for PendingPermit {
    fn drop(&mut self) {
        let Some(permit) = self.permit.take() else { return };
        if self.shared.source.is_postgres() && self.result.get().is_none() {
            // The caller must not wait. If the group fails, its ending is of an older epoch.
            return;
        }
        if self.shared.result(&self.result).is_err() {
            permit.forget();
        }
    }
}

impl std::fmt::Debug for PendingPermit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PendingPermit").field("permit", &self.permit).finish_non_exhaustive()
    }
}

fn never_written(shared: &SharedLedger) -> LedgerError {
    LedgerError::not_flushed(&shared.source.name(), "the row was not written")
}
