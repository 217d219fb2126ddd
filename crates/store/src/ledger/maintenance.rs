//! The background threads of an open ledger: one maintains it (flushes, closes full segments,
//! closes the calls of dead processes, retires old rows), one serves waiters for a flush.

use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use super::error::LedgerError;
use super::flush::{Durability, WakeReason};
use super::shared::{LockedLedger, SharedLedger};
use super::sync_mark::Position;
use super::turns;
use super::verify::Checkpoint;

/// Half of the second within which a row must be on disk.
const INTERVAL_MS: u64 = 500;

/// While a call waits for a human, decisions of other processes are noticed within this time.
const INTERVAL_MS_WHILE_PENDING: u64 = 150;

/// How often dead writers and old rows are searched for, in intervals.
const SWEEP_INTERVALS: u32 = 2;
const RETIRE_INTERVALS: u32 = 120;

#[derive(Debug)]
pub(crate) struct Maintenance {
    threads: Vec<JoinHandle<()>>,
}

impl Maintenance {
    pub(crate) fn start(shared: &Arc<SharedLedger>) -> Result<Maintenance, LedgerError> {
        let mut maintenance = Maintenance { threads: Vec::new() };
        maintenance.spawn(shared, "ledger-maint", run)?;
        if shared.flush.durability() == Durability::Power {
            maintenance.spawn(shared, "ledger-flusher", serve_flushes)?;
        }
        if shared.source.is_postgres() {
            maintenance.spawn(shared, "ledger-turns", turns::serve)?;
        }
        Ok(maintenance)
    }

    fn spawn(
        &mut self,
        shared: &Arc<SharedLedger>,
        name: &str,
        work: fn(&SharedLedger),
    ) -> Result<(), LedgerError> {
        let shared = Arc::clone(shared);
        let thread = Builder::new().name(name.to_owned()).spawn(move || work(&shared));
        self.threads.push(thread.map_err(LedgerError::io("start", "a thread".as_ref()))?);
        Ok(())
    }

    pub(crate) fn stop(&mut self, shared: &SharedLedger) {
        shared.flush.stop();
        shared.turns.stop();
        for thread in self.threads.drain(..) {
            // A thread that panicked has no work left.
            let _ = thread.join();
        }
        if shared.flush.is_dirty() {
            shared.flush.sync();
        }
    }
}

fn run(shared: &SharedLedger) {
    let mut intervals = 0_u32;
    let mut pending = false;
    let mut trouble = String::new();
    let mut unsealed = Unsealed::default();
    loop {
        let pause = if pending { INTERVAL_MS_WHILE_PENDING } else { INTERVAL_MS };
        let done = match shared.flush.wait_for_work(Duration::from_millis(pause)) {
            WakeReason::Stop => return,
            WakeReason::Rotate => rotate(shared),
            WakeReason::Timer => {
                intervals = intervals.wrapping_add(1);
                flush_if_dirty(shared);
                let sealed = unsealed.seal(shared);
                run_periodic(shared, intervals, &mut pending, &mut unsealed).and(sealed)
            }
        };
        report(done, &mut trouble);
    }
}

fn rotate(shared: &SharedLedger) -> Result<(), LedgerError> {
    shared.with_lock(|locked| {
        if locked.core.is_full(shared.options.segment_bytes_max, 1) {
            locked.core.rotate(locked.now, locked.tick)?;
        }
        Ok::<_, LedgerError>(())
    })?;
    // A process that opens the ledger reads from the segment that was flushed last.
    shared.flush.sync();
    shared.retire()
}

/// The last row at the last interval. It is sealed once it is on disk, without an extra flush.
#[derive(Default)]
struct Unsealed {
    row: Option<(Checkpoint, Position)>,
    sealed_seq: u64,
}

impl Unsealed {
    fn see(&mut self, locked: &LockedLedger<'_>) {
        if self.row.is_none() && locked.core.journal.head().seq > self.sealed_seq {
            self.row = Some((locked.head(), locked.position()));
        }
    }

    fn seal(&mut self, shared: &SharedLedger) -> Result<(), LedgerError> {
        let Some((row, at)) = &self.row else { return Ok(()) };
        if shared.seal(row, *at)? {
            self.sealed_seq = row.seq;
            self.row = None;
        }
        Ok(())
    }
}

fn run_periodic(
    shared: &SharedLedger,
    intervals: u32,
    pending: &mut bool,
    unsealed: &mut Unsealed,
) -> Result<(), LedgerError> {
    shared.with_lock_or_wait(|locked| {
        if shared.options.seal.is_some() {
            unsealed.see(locked);
        }
        *pending = locked.core.state.approvals.any_pending(locked.tick);
        // The log may have moved to another folder and be the same files.
        locked.core.needs_reload |= locked.core.is_moved();
        if intervals.is_multiple_of(SWEEP_INTERVALS) {
            locked.core.renew_writers(locked.now);
            locked.core.close_calls_of_dead_writers(locked.now, locked.tick)?;
            locked.core.state.forget_expired(locked.tick);
        }
        Ok::<_, LedgerError>(())
    })?;
    if intervals.is_multiple_of(RETIRE_INTERVALS) {
        shared.store_time()?;
        shared.retire()?;
    }
    Ok(())
}

fn flush_if_dirty(shared: &SharedLedger) {
    let wanted = shared.flush.durability() != Durability::Unflushed || shared.flush.has_failed();
    if wanted && shared.flush.is_dirty() {
        shared.flush.sync();
    }
}

fn serve_flushes(shared: &SharedLedger) {
    while shared.flush.wait_for_flush_request() {
        if shared.flush.is_dirty() {
            shared.flush.sync();
        }
    }
}

/// Logs a problem once, not twice a second.
fn report(done: Result<(), LedgerError>, trouble: &mut String) {
    let words = done.err().map(|e| e.to_string()).unwrap_or_default();
    if words != *trouble && !words.is_empty() {
        tracing::warn!("ledger maintenance failed: {words}");
    }
    *trouble = words;
}
