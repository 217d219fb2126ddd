//! Turns on Postgres, where taking the lock and writing wait for the store. A blocking caller
//! occupies the ledger for its whole turn. A serving thread never waits in one: it judges in a
//! group that the ledger thread has opened, and awaits the write of that group.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use super::approvals::Approval;
use super::core::Core;
use super::error::LedgerError;
use super::group_commit::{BATCH_BYTES_MAX, CommitResult};
use super::row_writer::{self, RowHeader};
use super::shared::{LockedLedger, SharedLedger};
use crate::postgres::StoreError;

/// How long an open group waits for the calls that were woken for it. The lock is held meanwhile.
const GROUP_OPEN_MS_MAX: u64 = 3;

/// Rows of refused requests that wait for the store take at most this.
const QUEUED_DECISION_BYTES_MAX: usize = 1 << 20;

/// Who has the ledger's state, and who waits for a group.
#[derive(Default)]
pub(crate) struct Turns {
    state: Mutex<TurnState>,
    /// A turn has ended.
    free: Condvar,
    /// There is work for the ledger thread, or its group is complete.
    demand: Condvar,
    settled: watch::Sender<Settlements>,
    registry: watch::Sender<RegistryRead>,
}

#[derive(Default)]
struct TurnState {
    /// A thread is in a turn and may wait for the store.
    occupied: bool,
    /// Calls that wait until a group is open.
    waiting: Vec<oneshot::Sender<Result<(), LedgerError>>>,
    /// Calls that were woken for the open group and have not judged yet.
    expected: usize,
    is_full: bool,
    /// Outcomes that are queued.
    outcomes: usize,
    /// Decisions whose callers do not wait for their rows.
    decisions: Vec<Vec<u8>>,
    decision_bytes: usize,
    stop: bool,
    last_turn: LastTurn,
}

/// How the last turn ended. After one that failed, queued decisions wait for one that does not: the
/// maintenance thread tries twice a second.
#[derive(Default)]
enum LastTurn {
    #[default]
    Done,
    Failed,
    /// The store cannot be reached.
    Unreachable(LedgerError),
}

/// What is known of queued outcomes.
#[derive(Clone, Copy, Default)]
pub(crate) struct Settlements {
    pub(crate) ticket: u64,
    /// Turns that failed.
    pub(crate) failures: u64,
}

/// Which registry this process judges by, by its generation.
#[derive(Clone, Copy)]
struct RegistryRead {
    loaded: u64,
    /// A turn has seen that the store has this one.
    wanted: u64,
}

impl Default for RegistryRead {
    /// A process that loads none is not held to one.
    fn default() -> RegistryRead {
        RegistryRead { loaded: u64::MAX, wanted: 0 }
    }
}

/// The ledger's state. On Postgres no other thread has it until this is dropped.
pub(crate) struct CoreGuard<'s> {
    core: MutexGuard<'s, Core>,
    turns: Option<&'s Turns>,
}

/// What became of work that needs an open group.
enum Joined<T> {
    Done(T, Arc<CommitResult>),
    Waits(oneshot::Receiver<Result<(), LedgerError>>),
}

impl TurnState {
    fn outage(&self) -> Option<LedgerError> {
        match &self.last_turn {
            LastTurn::Unreachable(error) => Some(error.same()),
            LastTurn::Done | LastTurn::Failed => None,
        }
    }
}

impl Turns {
    fn state(&self) -> MutexGuard<'_, TurnState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn occupy(&self) {
        let free = self.free.wait_while(self.state(), |state| state.occupied);
        free.unwrap_or_else(PoisonError::into_inner).occupied = true;
    }

    /// Outcomes are queued for the ledger thread.
    pub(crate) fn want_outcomes(&self) {
        self.state().outcomes += 1;
        self.demand.notify_all();
    }

    /// Queues a decision for the ledger thread. False if there are too many.
    pub(crate) fn queue_decision(&self, decision: Vec<u8>) -> bool {
        let mut state = self.state();
        let bytes = state.decision_bytes + decision.len();
        if bytes > QUEUED_DECISION_BYTES_MAX {
            return false;
        }
        state.decision_bytes = bytes;
        state.decisions.push(decision);
        drop(state);
        self.demand.notify_all();
        true
    }

    fn take_decisions(&self) -> Vec<Vec<u8>> {
        let mut state = self.state();
        state.decision_bytes = 0;
        std::mem::take(&mut state.decisions)
    }

    pub(crate) fn stop(&self) {
        self.state().stop = true;
        self.demand.notify_all();
    }

    pub(crate) fn settlements(&self) -> watch::Receiver<Settlements> {
        self.settled.subscribe()
    }

    pub(crate) fn outcomes_written(&self, ticket: u64) {
        self.settled.send_modify(|known| known.ticket = known.ticket.max(ticket));
    }

    /// Whether this process judges by an older registry than the store had when the turn began.
    fn is_behind(&self, stored: u64) -> bool {
        let is_behind = self.registry.borrow().loaded < stored;
        if is_behind {
            self.registry.send_modify(|known| known.wanted = known.wanted.max(stored));
        }
        is_behind
    }

    pub(crate) fn registry_loaded(&self, generation: u64) {
        self.registry.send_modify(|known| known.loaded = generation);
    }

    /// Returns the generation that a turn has seen, once that is newer than what is loaded and than
    /// this one.
    pub(crate) async fn registry_wanted_after(&self, tried: u64) -> u64 {
        let mut known = self.registry.subscribe();
        let wanted = known.wait_for(|now| now.wanted > now.loaded.max(tried)).await;
        wanted.map_or(tried, |now| now.wanted)
    }

    /// Returns when all is loaded that a turn has seen.
    pub(crate) async fn registry_caught_up(&self) {
        let mut known = self.registry.subscribe();
        // It fails only without a sender, which is here.
        let _ = known.wait_for(|now| now.loaded >= now.wanted).await;
    }

    /// Remembers whether the store can be reached; until it can, callers fail at once.
    pub(crate) fn turn_ended(&self, error: Option<&LedgerError>) {
        use StoreError::{TimedOut, Unreachable};
        let is_outage = |error: &&LedgerError| {
            matches!(error, LedgerError::Store { source: Unreachable { .. } | TimedOut { .. }, .. })
        };
        let this_turn = match error {
            None => LastTurn::Done,
            Some(error) if is_outage(&error) => LastTurn::Unreachable(error.same()),
            Some(_) => LastTurn::Failed,
        };
        let before = std::mem::replace(&mut self.state().last_turn, this_turn);
        if error.is_none() && !matches!(before, LastTurn::Done) {
            self.demand.notify_all();
        }
        if error.is_some() {
            self.settled.send_modify(|known| known.failures += 1);
        }
    }

    pub(crate) fn outage(&self) -> Option<LedgerError> {
        self.state().outage()
    }
}

impl SharedLedger {
    /// The state for a turn. Waits until no other thread is in one.
    pub(super) fn core(&self) -> CoreGuard<'_> {
        let turns = self.source.is_postgres().then_some(&self.turns);
        if let Some(turns) = turns {
            turns.occupy();
        }
        CoreGuard { core: self.lock_core(), turns }
    }

    /// Runs work in an open group and returns its result with that of the group, which must be
    /// awaited before the result is used. Only on Postgres. For a grant, the registry that the caller
    /// has judged by must not be older than the store's.
    pub(crate) async fn grouped<T>(
        &self,
        is_of_grant: bool,
        work: impl FnOnce(&mut LockedLedger<'_>) -> Result<T, LedgerError>,
    ) -> Result<(T, Arc<CommitResult>), LedgerError> {
        let mut work = Some(work);
        let mut was_woken = false;
        loop {
            match self.join_group(&mut work, is_of_grant, was_woken)? {
                Joined::Done(done, result) => return Ok((done, result)),
                Joined::Waits(opened) => opened.await.unwrap_or_else(|_| Err(self.stopped()))?,
            }
            was_woken = true;
        }
    }

    fn join_group<T>(
        &self,
        work: &mut Option<impl FnOnce(&mut LockedLedger<'_>) -> Result<T, LedgerError>>,
        is_of_grant: bool,
        was_woken: bool,
    ) -> Result<Joined<T>, LedgerError> {
        let mut state = self.turns.state();
        if let Some(outage) = state.outage() {
            return Err(outage);
        }
        if state.stop {
            return Err(self.stopped());
        }
        if was_woken {
            state.expected = state.expected.saturating_sub(1);
        }
        let is_complete = state.expected == 0;
        if !state.occupied {
            // No thread waits for the store while it has this lock.
            let mut core = self.lock_core();
            let group = core.group.as_ref().filter(|_| !state.is_full);
            if let Some(result) = group.map(|group| Arc::clone(&group.result))
                && let Some(work) = work.take()
            {
                let now = core.now();
                let tick = core.state.time.at(now);
                let done = if is_of_grant && self.turns.is_behind(core.registry()) {
                    Err(LedgerError::RegistryBehind)
                } else {
                    work(&mut LockedLedger { core: &mut core, now, tick })
                };
                self.count_open_calls(&core);
                state.is_full = core.journal.batch_bytes() >= BATCH_BYTES_MAX;
                if is_complete || state.is_full {
                    self.turns.demand.notify_all();
                }
                return done.map(|done| Joined::Done(done, result));
            }
        }
        let (sender, opened) = oneshot::channel();
        state.waiting.push(sender);
        self.turns.demand.notify_all();
        Ok(Joined::Waits(opened))
    }

    pub(super) fn turn_ended(&self, error: Option<&LedgerError>) {
        if self.source.is_postgres() {
            self.turns.turn_ended(error);
        }
    }

    /// The approvals after the last turn, without one.
    pub(super) fn known_approvals(&self) -> Arc<Vec<Approval>> {
        Arc::clone(&self.approvals.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn stopped(&self) -> LedgerError {
        LedgerError::not_flushed(&self.source.name(), "the ledger is being closed")
    }
}

/// The ledger thread: opens a group when calls or outcomes wait for one, and writes it once the
/// calls have been judged.
pub(crate) fn serve(shared: &SharedLedger) {
    let turns = &shared.turns;
    loop {
        let idle = |state: &mut TurnState| {
            let has_decisions =
                !state.decisions.is_empty() && matches!(state.last_turn, LastTurn::Done);
            !state.stop && state.outcomes == 0 && state.waiting.is_empty() && !has_decisions
        };
        let mut state =
            turns.demand.wait_while(turns.state(), idle).unwrap_or_else(PoisonError::into_inner);
        if state.stop {
            // Dropping them tells the waiting calls.
            state.waiting.clear();
            let has_decisions = !state.decisions.is_empty();
            drop(state);
            if has_decisions && open_group(shared) {
                write_group(shared);
            }
            return;
        }
        state.outcomes = 0;
        drop(state);
        if open_group(shared) {
            wait_for_calls(turns);
            write_group(shared);
        }
    }
}

/// Writes the group with the decisions that nobody waits for.
fn write_group(shared: &SharedLedger) {
    let decisions = shared.turns.take_decisions();
    let mut core = shared.core();
    if core.group.is_some() {
        let now = core.now();
        let tick = core.state.time.at(now);
        for decision in &decisions {
            let write = |header: &RowHeader, out: &mut Vec<u8>| {
                row_writer::late_decision(header, decision, out);
            };
            // In a group this only adds to the batch.
            let _ = core.append(now, tick, write);
        }
    }
    let has_group = core.group.is_some();
    let (written, changed) = shared.commit_group(&mut core);
    drop(core);
    shared.notify_if(changed);
    if written.is_err() || !has_group {
        // Written with the next group; those that do not fit are lost with the outage.
        for decision in decisions {
            shared.turns.queue_decision(decision);
        }
    }
}

/// Opens a group and wakes the calls that wait for it, or tells them why there is none.
fn open_group(shared: &SharedLedger) -> bool {
    let mut core = shared.core();
    let opened = match shared.turns.outage() {
        // The maintenance thread tries again twice a second.
        Some(outage) => Err(outage),
        None => shared.begin_group(&mut core),
    };
    if let Err(error) = &opened {
        shared.turns.turn_ended(Some(error));
    }
    drop(core);
    let mut state = shared.turns.state();
    let waiting = std::mem::take(&mut state.waiting);
    state.expected = if opened.is_ok() { waiting.len() } else { 0 };
    state.is_full = false;
    drop(state);
    let result = opened.map(|_| ());
    for call in waiting {
        // A call that was cancelled waits no longer.
        let _ = call.send(result.as_ref().copied().map_err(LedgerError::same));
    }
    result.is_ok()
}

fn wait_for_calls(turns: &Turns) {
    let incomplete = |state: &mut TurnState| state.expected > 0 && !state.is_full && !state.stop;
    let limit = Duration::from_millis(GROUP_OPEN_MS_MAX);
    drop(turns.demand.wait_timeout_while(turns.state(), limit, incomplete));
}

impl std::ops::Deref for CoreGuard<'_> {
    type Target = Core;

    fn deref(&self) -> &Core {
        &self.core
    }
}

impl std::ops::DerefMut for CoreGuard<'_> {
    fn deref_mut(&mut self) -> &mut Core {
        &mut self.core
    }
}

impl Drop for CoreGuard<'_> {
    fn drop(&mut self) {
        let Some(turns) = self.turns else { return };
        turns.state().occupied = false;
        turns.free.notify_one();
    }
}
