//! Rows that are decided and not yet in the file: calls that are admitted in the same moment share one
//! write under one lock. Nobody has a permit before that write.

use std::sync::{Arc, OnceLock};

use super::admit::{Judged, Request};
use super::core::Core;
use super::error::LedgerError;
use super::inner::{Inner, Turn};
use super::permit::Permit;
use crate::clock::Now;

/// A draft of this size is written without waiting for more.
const BYTES_MAX: usize = 256 << 10;

/// What became of the rows of one draft; unset while they are not written.
pub(crate) type Fate = OnceLock<Result<(), LedgerError>>;

/// The rows in the journal's batch that wait for their write. While there is a draft, this process
/// holds the lock between processes.
#[derive(Default)]
pub(crate) struct Draft {
    fate: Arc<Fate>,
}

impl Inner {
    /// Judges a request; the row of one that is admitted is left for [`Inner::write_draft`], which
    /// whoever comes next calls. All else is on record when this returns.
    pub(crate) fn judge_soon(
        &self,
        request: &Request<'_>,
    ) -> Result<(Judged, Option<Arc<Fate>>), LedgerError> {
        if let Some(failure) = self.flush.failure() {
            return Err(failure);
        }
        let mut core = self.core();
        let (now, tick) = self.begin_draft(&mut core)?;
        let judged = Turn { core: &mut core, now, tick }.judge(request);
        let fate = core.draft.as_ref().map(|draft| Arc::clone(&draft.fate));
        let waits =
            matches!(judged, Ok(Judged::Admitted { .. })) && core.journal.batch_bytes() < BYTES_MAX;
        if waits {
            self.count_open_calls(&core);
            return Ok((judged?, fate));
        }
        let (written, changed) = self.write_draft(&mut core);
        drop(core);
        self.tell_if(changed);
        written?;
        Ok((judged?, None))
    }

    /// What became of a draft; the one that is open is written now.
    fn fate(&self, fate: &Fate) -> Result<(), LedgerError> {
        if fate.get().is_none() {
            let mut core = self.core();
            let (_, changed) = self.write_draft(&mut core);
            drop(core);
            self.tell_if(changed);
        }
        match fate.get() {
            Some(Ok(())) => Ok(()),
            Some(Err(error)) => Err(error.same()),
            None => Err(never_written(self)),
        }
    }

    /// Takes both locks, unless the draft holds them already.
    fn begin_draft(&self, core: &mut Core) -> Result<(Now, u64), LedgerError> {
        if core.draft.is_some() {
            let now = self.clock.now();
            return Ok((now, core.state.time.at(now)));
        }
        core.lock.acquire()?;
        // What stands in front of every row of a process is written first, with writes of its own.
        let begun = self.prepare(core).and_then(|(now, tick)| {
            core.writer(now, tick)?;
            Ok((now, tick))
        });
        match begun {
            Ok(_) => {
                core.journal.begin();
                core.draft = Some(Draft::default());
            }
            Err(_) => core.lock.release(),
        }
        begun
    }

    /// Writes the draft and the endings that wait, lets go of the lock, and says whether listeners
    /// should hear of it.
    pub(crate) fn write_draft(&self, core: &mut Core) -> (Result<(), LedgerError>, bool) {
        let Some(draft) = core.draft.take() else { return (Ok(()), false) };
        let late = self.take_late(core);
        let now = self.clock.now();
        let tick = core.state.time.at(now);
        let written = core.commit_draft(now, tick);
        if written.is_ok() {
            self.late_is_written(late);
        }
        core.lock.release();
        // Only who takes the draft out of the core decides its fate.
        let _ = draft.fate.set(written.as_ref().copied().map_err(LedgerError::same));
        (written, self.publish(core))
    }
}

impl Draft {
    /// The rows will not be written.
    pub(crate) fn give_up(self, why: LedgerError) {
        // Only who takes the draft out of the core decides its fate.
        let _ = self.fate.set(Err(why));
    }
}

/// A call that is admitted and whose row is about to be written.
#[must_use = "the call has no permit before its row is written"]
pub struct Drafted {
    permit: Option<Permit>,
    inner: Arc<Inner>,
    fate: Arc<Fate>,
}

impl Drafted {
    pub(crate) fn new(permit: Permit, inner: &Arc<Inner>, fate: Arc<Fate>) -> Drafted {
        Drafted { permit: Some(permit), inner: Arc::clone(inner), fate }
    }

    /// Writes the row, if nobody has done so meanwhile, and with it all that were decided since.
    pub fn write(mut self) -> Result<Permit, LedgerError> {
        let written = self.inner.fate(&self.fate);
        match (written, self.permit.take()) {
            (Ok(()), Some(permit)) => Ok(permit),
            (Ok(()), None) => Err(never_written(&self.inner)),
            (Err(error), permit) => {
                // Its number is another row's now.
                if let Some(permit) = permit {
                    permit.forget();
                }
                Err(error)
            }
        }
    }
}

impl Drop for Drafted {
    fn drop(&mut self) {
        let Some(permit) = self.permit.take() else { return };
        if self.inner.fate(&self.fate).is_err() {
            permit.forget();
        }
    }
}

impl std::fmt::Debug for Drafted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Drafted").field("permit", &self.permit).finish_non_exhaustive()
    }
}

fn never_written(inner: &Inner) -> LedgerError {
    LedgerError::not_flushed(inner.places.folder(), "the row was not written")
}
