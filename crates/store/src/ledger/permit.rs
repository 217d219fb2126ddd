//! What the ledger hands out: a permit, which alone opens the way out, and the waiting of a call that
//! a human has to decide.

use std::sync::Arc;
use std::sync::mpsc;

use policy::Denial;

use super::error::LedgerError;
use super::facts::{Ending, Facts, Outcome};
use super::flush::WhenDurable;
use super::inner::Inner;
use super::mark::Position;
use super::rows::End;

pub enum Admission {
    Permit(Permit),
    Denied(Denial),
    /// A human has to decide. Hold the call and [`super::Ledger::resume`] it, or answer with
    /// [`Waiting::denial`].
    Asked(Waiting),
}

/// The right to carry out one call, which has its row. It ends with [`settle`](Permit::settle) or
/// [`release`](Permit::release); one that is dropped is recorded as abandoned and still counts,
/// because the call may have happened.
#[must_use = "a permit that is dropped is recorded as an abandoned call"]
pub struct Permit {
    inner: Arc<Inner>,
    seq: u64,
    at: Position,
    ended: bool,
}

impl Permit {
    pub(crate) fn new(inner: &Arc<Inner>, seq: u64, at: Position) -> Permit {
        Permit { inner: Arc::clone(inner), seq, at, ended: false }
    }

    /// Number of the decision row.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Whether the row is as durable already as the ledger was told to make it.
    pub fn is_durable(&self) -> bool {
        self.inner.flush.is_durable(self.at)
    }

    /// Calls back once, from any thread, when the row is as durable as the ledger was told to make
    /// it; at once unless that is [`super::Durability::Power`]. The call must not leave before.
    pub fn when_durable(&self, callback: WhenDurable) {
        self.inner.flush.when_durable(self.at, callback);
    }

    /// The same, waiting.
    pub fn wait_durable(&self) -> Result<(), LedgerError> {
        let (tell, told) = mpsc::sync_channel(1);
        self.when_durable(Box::new(move |flushed| {
            // The receiver waits below until this is called.
            let _ = tell.send(flushed);
        }));
        told.recv().unwrap_or_else(|_| {
            Err(LedgerError::not_flushed(self.inner.places.folder(), "nobody flushed it"))
        })
    }

    /// The call is over. If the log cannot be written now, the ending is written when it can again.
    pub fn settle(mut self, outcome: &Outcome) -> Result<(), LedgerError> {
        self.end(*outcome, false, "", "")
    }

    /// The call is over, and others that end in the same moment may share its turn: the row is written
    /// with whatever is written next, or by [`Settled::write`]. The answer must not leave before.
    pub fn settle_soon(mut self, outcome: &Outcome) -> Settled {
        self.ended = true;
        let end =
            End { of: self.seq, outcome: *outcome, released: false, words: "", continues: "" };
        let late = self.inner.end_soon(&end);
        Settled { inner: Arc::clone(&self.inner), late }
    }

    /// The server answered with a question of its own, and the caller's answer will come as another
    /// request with these facts: the same logical call, which [`super::Ledger::continue_call`] admits
    /// without counting it again.
    pub fn settle_until_continued(
        mut self,
        outcome: &Outcome,
        facts: &Facts<'_>,
    ) -> Result<(), LedgerError> {
        self.end(*outcome, false, "", &facts.call_binding())
    }

    /// The call certainly did not happen, so what it took is given back.
    pub fn release(mut self, why: &str) -> Result<(), LedgerError> {
        self.end(Outcome::new(Ending::Error), true, why, "")
    }

    /// There is no row of it after all.
    pub(super) fn forget(mut self) {
        self.ended = true;
    }

    fn end(
        &mut self,
        outcome: Outcome,
        released: bool,
        words: &str,
        continues: &str,
    ) -> Result<(), LedgerError> {
        self.ended = true;
        self.inner.end(&End { of: self.seq, outcome, released, words, continues })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if !self.ended {
            // It is owed if it cannot be written now.
            let _ = self.end(Outcome::new(Ending::Abandoned), false, "", "");
        }
    }
}

impl std::fmt::Debug for Permit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Permit").field("seq", &self.seq).finish_non_exhaustive()
    }
}

/// A call that is over and whose row is about to be written.
#[must_use = "the answer must not leave before the row is written"]
pub struct Settled {
    inner: Arc<Inner>,
    late: u64,
}

impl Settled {
    /// Whether other calls are under way, so that waiting a moment lets several share one turn.
    pub fn has_company(&self) -> bool {
        !self.inner.is_written(self.late) && self.inner.open_calls() > 1
    }

    /// Writes the row, if no turn has done so meanwhile. If the log cannot be written now, it is written
    /// when it can again.
    pub fn write(mut self) -> Result<(), LedgerError> {
        let written = self.write_now();
        // Tried once; dropping it need not try again.
        self.late = 0;
        written
    }

    fn write_now(&self) -> Result<(), LedgerError> {
        if self.inner.is_written(self.late) {
            return Ok(());
        }
        self.inner.write_late(self.late)
    }
}

impl Drop for Settled {
    fn drop(&mut self) {
        // The ledger keeps the ending and writes it with its next turn.
        let _ = self.write_now();
    }
}

impl std::fmt::Debug for Settled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settled").field("late", &self.late).finish_non_exhaustive()
    }
}

/// A call that waits for a human. Its decision row is written; how it goes on will be another row.
#[derive(Debug)]
pub struct Waiting {
    pub(crate) seq: u64,
    pub(crate) denial: Denial,
}

impl Waiting {
    pub fn seq(&self) -> u64 {
        self.seq
    }

    pub fn approval_id(&self) -> &str {
        self.denial.approval_id.as_deref().unwrap_or_default()
    }

    /// What the agent is told when the call is not held any longer.
    pub fn denial(&self) -> &Denial {
        &self.denial
    }
}

impl std::fmt::Debug for Admission {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Admission::Permit(permit) => permit.fmt(f),
            Admission::Denied(denial) => {
                write!(f, "Denied({}: {})", denial.code.as_str(), denial.reason)
            }
            Admission::Asked(waiting) => waiting.fmt(f),
        }
    }
}
