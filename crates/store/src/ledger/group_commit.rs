//! Group commit: calls that are admitted concurrently share one write under one lock. No call gets
//! its permit before that write.

use std::sync::{Arc, OnceLock};

use super::admit::{Judged, Request};
use super::core::Core;
use super::error::LedgerError;
use super::permit::Permit;
use super::shared::{LockedLedger, SharedLedger};
use crate::clock::Now;

/// A batch of this size is written without waiting for more.
const BATCH_BYTES_MAX: usize = 256 << 10;

/// The result of one group commit; unset until it is written.
pub(crate) type CommitResult = OnceLock<Result<(), LedgerError>>;

/// An open group commit: its rows are in the journal's batch. While there is one, this process
/// holds the lock between processes.
#[derive(Default)]
pub(crate) struct GroupCommit {
    result: Arc<CommitResult>,
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
        match result.get() {
            Some(Ok(())) => Ok(()),
            Some(Err(error)) => Err(error.same()),
            None => Err(never_written(self)),
        }
    }

    /// Takes both locks, unless the open group commit already holds them.
    fn begin_group(&self, core: &mut Core) -> Result<(Now, u64), LedgerError> {
        if core.group.is_some() {
            let now = core.now();
            return Ok((now, core.state.time.at(now)));
        }
        core.acquire()?;
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
        // Only the thread that takes the group commit out of the core decides its result.
        let _ = group.result.set(written.as_ref().copied().map_err(LedgerError::same));
        (written, self.publish(core))
    }
}

impl GroupCommit {
    /// The rows will not be written.
    pub(crate) fn abandon(self, why: LedgerError) {
        // Only the thread that takes the group commit out of the core decides its result.
        let _ = self.result.set(Err(why));
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
    pub fn write(mut self) -> Result<Permit, LedgerError> {
        let written = self.shared.result(&self.result);
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
