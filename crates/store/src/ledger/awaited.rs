//! The ledger as serving threads use it. On files these are the blocking calls, which take
//! microseconds. On Postgres a call is judged in a group of the ledger thread (`turns`) and waits
//! until that is written, while its thread serves others.

use std::sync::Arc;

use policy::Verdict;

use super::admit::{Continuation, Judged, Request};
use super::approvals::Approval;
use super::error::LedgerError;
use super::facts::{Facts, Refusal};
use super::group_commit::PendingPermit;
use super::permit::{Admission, HeldCall, Permit};
use super::row_writer::{self, Ruling};
use super::shared::LockedLedger;
use super::state::OpenCall;
use super::sync_mark::Position;
use super::{Ledger, refusal_ruling};

impl Ledger {
    /// Whether the blocking calls wait for Postgres, so that a serving thread must not use them.
    pub fn waits_for_store(&self) -> bool {
        self.shared.source.is_postgres()
    }

    /// Why calls are refused, while Postgres cannot be reached.
    pub fn outage(&self) -> Option<LedgerError> {
        self.shared.turns.outage()
    }

    /// [`Ledger::admit`].
    pub async fn admitted(
        &self,
        verdict: &Verdict,
        facts: &Facts<'_>,
    ) -> Result<Admission, LedgerError> {
        self.judged(Request { verdict, facts, held: None, continues: None }, None).await
    }

    /// [`Ledger::resume`].
    pub async fn resumed(
        &self,
        waiting: HeldCall,
        verdict: &Verdict,
        facts: &Facts<'_>,
    ) -> Result<Admission, LedgerError> {
        let request = Request { verdict, facts, held: Some(waiting.seq), continues: None };
        self.judged(request, Some(waiting)).await
    }

    /// [`Ledger::continue_call`], or [`Ledger::continue_running`] if that call still runs.
    pub async fn continued(
        &self,
        verdict: &Verdict,
        first: u64,
        running: Option<&Permit>,
        facts: &Facts<'_>,
    ) -> Result<Admission, LedgerError> {
        let continues = match running {
            Some(running) => Continuation::Open(running.seq()),
            None => Continuation::Awaited(first),
        };
        let request = Request { verdict, facts, held: None, continues: Some(continues) };
        self.judged(request, None).await
    }

    async fn judged(
        &self,
        request: Request<'_>,
        held: Option<HeldCall>,
    ) -> Result<Admission, LedgerError> {
        let verdict = request.verdict;
        if !self.waits_for_store() {
            let judged = self.shared.with_lock(|locked| locked.judge(&request))?;
            return Ok(self.admission(judged, verdict, held));
        }
        let judge = |locked: &mut LockedLedger<'_>| locked.judge(&request);
        let (judged, written) = self.shared.grouped(true, judge).await?;
        if let Judged::Admitted { seq, at } = judged {
            let permit = Permit::new(&self.shared, seq, at).bounded_by(verdict);
            let pending = PendingPermit::new(permit, &self.shared, written);
            return pending.written().await.map(Admission::Permit);
        }
        written.wait().await?;
        Ok(self.admission(judged, verdict, held))
    }

    /// [`Ledger::record_repeats`]; on Postgres the row is written by the ledger thread, and its
    /// number is not known yet.
    pub fn record_soon(
        &self,
        refusal: &Refusal<'_>,
        facts: &Facts<'_>,
        count: Option<u64>,
    ) -> Result<Option<u64>, LedgerError> {
        if !self.waits_for_store() {
            return self.record_repeats(refusal, facts, count).map(Some);
        }
        if let Some(outage) = self.outage() {
            return Err(outage);
        }
        let decision = row_writer::decision_later(&refusal_ruling(refusal, count), facts);
        if self.shared.turns.queue_decision(decision) {
            return Ok(None);
        }
        let words = "too many rows of refused requests wait for the store";
        Err(LedgerError::not_flushed(&self.shared.source.name(), words))
    }

    /// [`Ledger::admit_without_policy`].
    pub async fn passed(&self, facts: &Facts<'_>) -> Result<Permit, LedgerError> {
        if !self.waits_for_store() {
            return self.admit_without_policy(facts);
        }
        let pass = self.shared.grouped(!facts.grant.is_empty(), |locked| locked.pass(facts));
        let ((seq, at), written) = pass.await?;
        let permit = Permit::new(&self.shared, seq, at);
        PendingPermit::new(permit, &self.shared, written).written().await
    }

    /// Verdicts of this process are by the registry of this generation from now on. On Postgres a
    /// request of a grant is refused with [`LedgerError::RegistryBehind`] while the store has a newer
    /// one, so a gate that slept learns of a revocation before its next call leaves.
    pub fn registry_loaded(&self, generation: u64) {
        self.shared.turns.registry_loaded(generation);
    }

    /// Waits until a request was refused because the store has a registry after `tried` that is not
    /// loaded; returns its generation.
    pub async fn registry_wanted_after(&self, tried: u64) -> u64 {
        self.shared.turns.registry_wanted_after(tried).await
    }

    /// Waits until the registry is loaded that requests were refused for.
    pub async fn registry_caught_up(&self) {
        self.shared.turns.registry_caught_up().await;
    }

    /// [`Ledger::approvals`]; on Postgres as the last turn left them, at most 150 ms ago while one
    /// is pending.
    pub fn known_approvals(&self) -> Result<Arc<Vec<Approval>>, LedgerError> {
        if self.waits_for_store() {
            return Ok(self.shared.known_approvals());
        }
        self.approvals().map(Arc::new)
    }

    /// [`Ledger::poll`]; on Postgres the generation after the last turn.
    pub fn known_generation(&self) -> Result<u64, LedgerError> {
        if self.waits_for_store() { Ok(self.generation()) } else { self.poll() }
    }
}

impl LockedLedger<'_> {
    /// Admits a request that no policy evaluates.
    pub(crate) fn pass(&mut self, facts: &Facts<'_>) -> Result<(u64, Position), LedgerError> {
        let decision = if facts.grant.is_empty() { "own" } else { "passed" };
        let ruling = Ruling { decision, ..Ruling::default() };
        let writer = self.core.writer(self.now, self.tick)?;
        let seq = self.append(|header, out| row_writer::decision(header, &ruling, facts, out))?;
        let call = OpenCall { writer, tick: self.tick, taken: Vec::new() };
        self.core.state.admitted(seq, call, "");
        Ok((seq, self.position()))
    }
}
