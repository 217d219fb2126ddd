//! What the ledger hands out: a permit, which is required to send a call, and the pending state of
//! a call that a human has to decide.

use std::sync::Arc;
use std::sync::mpsc;

use policy::{Denial, Verdict};

use super::error::LedgerError;
use super::facts::{Ending, Facts, Outcome};
use super::flush::WhenDurable;
use super::row_writer::End;
use super::shared::SharedLedger;
use super::sync_mark::Position;

pub enum Admission {
    Permit(Permit),
    Denied(Denial),
    /// A human has to decide. Hold the call and [`super::Ledger::resume`] it, or respond with
    /// [`HeldCall::denial`].
    Asked(HeldCall),
}

/// The right to carry out one call, which has its row. It ends with [`settle`](Permit::settle) or
/// [`release`](Permit::release); one that is dropped is recorded as abandoned and still counts,
/// because the call may have happened.
#[must_use = "a permit that is dropped is recorded as an abandoned call"]
pub struct Permit {
    shared: Arc<SharedLedger>,
    seq: u64,
    at: Position,
    ended: bool,
    aggregate_days: Option<u32>,
}

impl Permit {
    pub(crate) fn new(shared: &Arc<SharedLedger>, seq: u64, at: Position) -> Permit {
        Permit { shared: Arc::clone(shared), seq, at, ended: false, aggregate_days: None }
    }

    /// With the bound of the verdict that admitted the call.
    pub(crate) fn bounded_by(mut self, verdict: &Verdict) -> Permit {
        self.aggregate_days = verdict.aggregate_days();
        self
    }

    /// The call may be answered only with aggregates of at least so many days.
    pub fn aggregate_days(&self) -> Option<u32> {
        self.aggregate_days
    }

    /// Number of the decision row.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Whether the row is already as durable as configured.
    pub fn is_durable(&self) -> bool {
        self.shared.flush.is_durable(self.at)
    }

    /// Calls back once, from any thread, when the row is as durable as configured; at once unless
    /// that is [`super::Durability::Power`]. The call must not be sent before.
    pub fn when_durable(&self, callback: WhenDurable) {
        self.shared.flush.when_durable(self.at, callback);
    }

    /// The blocking form.
    pub fn wait_durable(&self) -> Result<(), LedgerError> {
        let (sender, receiver) = mpsc::sync_channel(1);
        self.when_durable(Box::new(move |flushed| {
            // The receiver waits below until this is called.
            let _ = sender.send(flushed);
        }));
        receiver.recv().unwrap_or_else(|_| {
            Err(LedgerError::not_flushed(
                &self.shared.source.name(),
                "the flush thread has stopped",
            ))
        })
    }

    /// The call is over. If the log cannot be written now, the ending is written as soon as
    /// possible.
    pub fn settle(mut self, outcome: &Outcome) -> Result<(), LedgerError> {
        self.end(*outcome, false, "", "")
    }

    /// The call is over, and concurrent outcomes may share its write: the row is written with
    /// whatever is written next, or by [`Settled::write`]. The response must not be sent before.
    pub fn settle_soon(mut self, outcome: &Outcome) -> Settled {
        self.queue_end(*outcome, false, "", "")
    }

    fn queue_end(
        &mut self,
        outcome: Outcome,
        released: bool,
        words: &str,
        continues: &str,
    ) -> Settled {
        self.ended = true;
        let end = End { of: self.seq, outcome, released, words, continues };
        let ticket = self.shared.queue_end(&end, self.at);
        Settled { shared: Arc::clone(&self.shared), ticket }
    }

    /// The call certainly did not happen, so its holds are returned; written like
    /// [`settle_soon`](Permit::settle_soon).
    pub fn release_soon(mut self, why: &str) -> Settled {
        self.queue_end(Outcome::new(Ending::Error), true, why, "")
    }

    /// [`settle_until_continued`](Permit::settle_until_continued), written like
    /// [`settle_soon`](Permit::settle_soon).
    pub fn settle_until_continued_soon(mut self, outcome: &Outcome, facts: &Facts<'_>) -> Settled {
        self.queue_end(*outcome, false, "", &facts.call_binding())
    }

    /// The server replied with a question, and the caller's answer will come as another request
    /// with these facts: the same logical call, which [`super::Ledger::continue_call`] admits
    /// without counting it again.
    pub fn settle_until_continued(
        mut self,
        outcome: &Outcome,
        facts: &Facts<'_>,
    ) -> Result<(), LedgerError> {
        self.end(*outcome, false, "", &facts.call_binding())
    }

    /// The call certainly did not happen, so its holds are returned.
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
        let end = End { of: self.seq, outcome, released, words, continues };
        self.shared.end(&end, self.at)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        if self.shared.source.is_postgres() {
            // A serving thread must not wait for the store.
            drop(self.queue_end(Outcome::new(Ending::Abandoned), false, "", ""));
        } else {
            // It is queued if it cannot be written now.
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
#[must_use = "the response must not be sent before the row is written"]
pub struct Settled {
    shared: Arc<SharedLedger>,
    ticket: u64,
}

impl Settled {
    /// Whether other calls are in flight, so that a short wait lets several share one write.
    pub fn has_concurrent_calls(&self) -> bool {
        !self.shared.is_written(self.ticket) && self.shared.open_calls() > 1
    }

    /// Writes the row, unless that already happened. If the log cannot be written now, it is
    /// written as soon as possible.
    pub fn write(mut self) -> Result<(), LedgerError> {
        let written = self.write_now();
        // Tried once; drop need not try again.
        self.ticket = 0;
        written
    }

    /// The same, but on Postgres the ledger thread writes the row and this does not wait for it.
    pub fn leave(self) -> Result<(), LedgerError> {
        if self.shared.source.is_postgres() { Ok(()) } else { self.write() }
    }

    /// Waits until the row is written: on Postgres the ledger thread writes it. If the log cannot
    /// be written now, it is written as soon as possible.
    pub async fn written(self) -> Result<(), LedgerError> {
        if !self.shared.source.is_postgres() {
            return self.write();
        }
        let mut known = self.shared.turns.settlements();
        let failures = known.borrow_and_update().failures;
        let done = known.wait_for(|now| now.ticket >= self.ticket || now.failures != failures);
        match done.await {
            Ok(now) if now.ticket >= self.ticket => Ok(()),
            _ => Err(LedgerError::not_flushed(
                &self.shared.source.name(),
                "the ending of a call is written once the store can be reached",
            )),
        }
    }

    fn write_now(&self) -> Result<(), LedgerError> {
        if self.shared.is_written(self.ticket) {
            return Ok(());
        }
        self.shared.write_queued(self.ticket)
    }
}

impl Drop for Settled {
    fn drop(&mut self) {
        // The ledger keeps the outcome and writes it with its next row.
        if !self.shared.source.is_postgres() {
            let _ = self.write_now();
        }
    }
}

impl std::fmt::Debug for Settled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settled").field("ticket", &self.ticket).finish_non_exhaustive()
    }
}

/// A call that waits for a human. Its decision row is written; how it continues will be another
/// row.
#[derive(Debug)]
pub struct HeldCall {
    pub(crate) seq: u64,
    pub(crate) denial: Denial,
}

impl HeldCall {
    pub fn seq(&self) -> u64 {
        self.seq
    }

    pub fn approval_id(&self) -> &str {
        self.denial.approval_id.as_deref().unwrap_or_default()
    }

    /// The response to the agent when the call is no longer held.
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
