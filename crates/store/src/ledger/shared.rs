//! The state that all handles of an open ledger share. Every write goes through
//! [`SharedLedger::with_lock`]: take both locks, read what other processes wrote, then write.

use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Options;
use super::approvals::Approval;
use super::chain;
use super::core::Core;
use super::error::LedgerError;
use super::facts::Note;
use super::flush::Flush;
use super::pending_outcome::PendingOutcome;
use super::reader::Reader;
use super::row_writer::{self, End, RowHeader};
use super::seal::{self, SealState};
use super::source::LogSource;
use super::sync_mark::Position;
use super::time;
use super::timestamp;
use super::turns::Turns;
use super::verify::Checkpoint;
use crate::clock::{Clock, Now};

/// A segment that has grown to this many times its bound is closed by the next writer, without
/// waiting for the maintenance thread.
const OVERDUE: u64 = 2;

/// The note of an ending that was not written when its call ended.
const WRITTEN_LATE: &str = "written late: the log could not be written when the call ended";

pub(crate) type Listener = Arc<dyn Fn() + Send + Sync>;

/// What all handles on one opened ledger share.
pub(crate) struct SharedLedger {
    pub(crate) clock: Clock,
    pub(crate) options: Options,
    pub(crate) source: LogSource,
    pub(crate) flush: Flush,
    core: Mutex<Core>,
    pub(super) turns: Turns,
    /// The approvals after the last turn.
    pub(super) approvals: Mutex<Arc<Vec<Approval>>>,
    /// Outcomes that the next write includes.
    queue: Mutex<OutcomeQueue>,
    /// The newest ticket whose outcome is in the log.
    tickets_written: AtomicU64,
    /// Copies for readers.
    last_tick: AtomicU64,
    offset_us: AtomicI64,
    ahead_us: AtomicU64,
    open_calls: AtomicUsize,
    seen: AtomicU64,
    generation: AtomicU64,
    listeners: Mutex<Vec<Listener>>,
    /// Why the log was not the sealed one when it was opened.
    seal_broken: Option<String>,
    /// The row at which this home began to seal.
    sealed_since: u64,
}

#[derive(Default)]
struct OutcomeQueue {
    outcomes: Vec<PendingOutcome>,
    count: u64,
}

/// The exclusive right to write, with the current time.
pub(crate) struct LockedLedger<'c> {
    pub(crate) core: &'c mut Core,
    pub(crate) now: Now,
    pub(crate) tick: u64,
}

impl LockedLedger<'_> {
    pub(crate) fn append(
        &mut self,
        write: impl FnOnce(&RowHeader, &mut Vec<u8>),
    ) -> Result<u64, LedgerError> {
        self.core.append(self.now, self.tick, write)
    }

    pub(crate) fn end(&mut self, end: &End<'_>, at: Position) -> Result<(), LedgerError> {
        self.core.end(self.now, self.tick, end, at)
    }

    /// The last row that is in the file.
    pub(crate) fn head(&self) -> Checkpoint {
        let head = self.core.journal.head();
        Checkpoint {
            ledger: self.core.state.ledger_text().to_owned(),
            seq: head.seq,
            hash: chain::as_text(&head.hash).to_owned(),
            time: timestamp::text(self.now.wall_us),
        }
    }

    /// Where the journal ends after what was written or batched under this lock.
    pub(crate) fn position(&self) -> Position {
        self.core.journal.end()
    }
}

impl SharedLedger {
    pub(crate) fn open(
        source: LogSource,
        clock: Clock,
        options: Options,
    ) -> Result<SharedLedger, LedgerError> {
        // The seal first: a log that others append to contains at least what was sealed before.
        let sealed = options.seal.as_ref().map(|s| seal::read(&source, &s.key)).transpose()?;
        let is_new = source.segments()?.is_empty();
        let mut core = Core::open(&source, &clock, &options)?;
        core.release()?;
        let flush = Flush::new(options.durability, &source, &core.journal.log)?;
        let mut shared = SharedLedger {
            clock,
            options,
            source,
            flush,
            core: Mutex::new(core),
            turns: Turns::default(),
            approvals: Mutex::default(),
            queue: Mutex::default(),
            tickets_written: AtomicU64::new(0),
            open_calls: AtomicUsize::new(0),
            last_tick: AtomicU64::new(0),
            offset_us: AtomicI64::new(0),
            ahead_us: AtomicU64::new(0),
            seen: AtomicU64::new(0),
            generation: AtomicU64::new(0),
            listeners: Mutex::new(Vec::new()),
            seal_broken: None,
            sealed_since: 1,
        };
        if let Some(sealed) = sealed {
            shared.check_seal(&sealed, is_new)?;
        }
        shared
            .with_lock(|locked| locked.core.close_calls_of_dead_writers(locked.now, locked.tick))?;
        Ok(shared)
    }

    /// Compares the log with its seal. A mismatch is recorded by a row before the current log is
    /// sealed again.
    fn check_seal(&mut self, sealed: &SealState, is_new: bool) -> Result<(), LedgerError> {
        let Some(sealing) = self.options.seal.clone() else { return Ok(()) };
        let is_new = is_new && *sealed == SealState::Missing;
        let head = self.head()?.0;
        let reader = self.reader()?;
        let found =
            if is_new { None } else { seal::broken_in(sealed, sealing.expected, &head, &reader)? };
        match (&found, sealed) {
            (None, SealState::Valid(seal)) if !is_new => {
                self.sealed_since = seal.since;
                return Ok(());
            }
            (Some(words), _) => self.note("seal_broken", words)?,
            (None, _) if !is_new => {
                let words =
                    format!("rows up to {} were not sealed; they are from now on", head.seq);
                self.note("log_sealed", &words)?;
            }
            (None, _) => {}
        }
        self.sealed_since = if is_new { 1 } else { head.seq + 1 };
        self.seal_broken = found;
        let (head, at) = self.head()?;
        self.flush.sync();
        if let Some(failure) = self.flush.failure() {
            return Err(failure);
        }
        debug_assert!(self.flush.is_synced(at), "flushed just now");
        seal::renew(&self.source, &sealing.key, &head, self.sealed_since)
    }

    fn note(&self, act: &str, words: &str) -> Result<(), LedgerError> {
        let note = Note { act, by: "tollgate", about: "audit", words };
        self.with_lock(|locked| locked.append(|header, out| row_writer::note(header, &note, out)))?;
        Ok(())
    }

    pub(crate) fn reader(&self) -> Result<Reader, LedgerError> {
        Reader::of(self.source.clone())
    }

    pub(crate) fn seal_broken(&self) -> Option<&str> {
        self.seal_broken.as_deref()
    }

    /// The last row and where it ends.
    fn head(&self) -> Result<(Checkpoint, Position), LedgerError> {
        self.with_lock(|locked| Ok((locked.head(), locked.position())))
    }

    /// Seals a row if it is on disk.
    pub(crate) fn seal(&self, row: &Checkpoint, at: Position) -> Result<bool, LedgerError> {
        let Some(sealing) = self.options.seal.as_ref().filter(|_| self.flush.is_synced(at)) else {
            return Ok(false);
        };
        seal::advance(&self.source, &sealing.key, row, self.sealed_since)?;
        Ok(true)
    }

    /// Seals the last row, flushing it if necessary.
    pub(crate) fn seal_last(&self) -> Result<(), LedgerError> {
        if self.options.seal.is_some() {
            let (row, at) = self.head()?;
            if self.flush.is_dirty() {
                self.flush.sync();
            }
            self.seal(&row, at)?;
        }
        Ok(())
    }

    /// Runs `work` with both locks held and the state up to date. Fails at once while the store
    /// cannot be reached.
    pub(crate) fn with_lock<T, E: From<LedgerError>>(
        &self,
        work: impl FnOnce(&mut LockedLedger<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        if self.source.is_postgres()
            && let Some(outage) = self.turns.outage()
        {
            return Err(outage.into());
        }
        self.with_lock_or_wait(work)
    }

    /// The same, but tries again to reach the store.
    pub(crate) fn with_lock_or_wait<T, E: From<LedgerError>>(
        &self,
        work: impl FnOnce(&mut LockedLedger<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        if let Some(failure) = self.flush.failure() {
            return Err(failure.into());
        }
        let mut core = self.core();
        // The owners of these rows get the error; this caller proceeds.
        let (_, changed_before) = self.commit_group(&mut core);
        let done = match core.acquire() {
            Ok(()) => self.work(&mut core, work),
            Err(e) => {
                self.turn_ended(Some(&e));
                Err(e.into())
            }
        };
        let changed = self.publish(&core) || changed_before;
        drop(core);
        self.notify_if(changed);
        done
    }

    fn work<T, E: From<LedgerError>>(
        &self,
        core: &mut Core,
        work: impl FnOnce(&mut LockedLedger<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let ticket = self.take_queued(core);
        let prepared = self.prepare(core);
        let failed = prepared.as_ref().err().map(LedgerError::same);
        let done = prepared.map_err(E::from).and_then(|(now, tick)| {
            let done = work(&mut LockedLedger { core: &mut *core, now, tick });
            core.write_pending_outcomes(now, tick)?;
            Ok(done)
        });
        let released = core.release();
        self.turn_ended(failed.as_ref().or(released.as_ref().err()));
        let done = done?;
        released?;
        self.outcomes_written(ticket);
        done
    }

    pub(super) fn outcomes_written(&self, ticket: u64) {
        self.tickets_written.fetch_max(ticket, Ordering::AcqRel);
        if self.source.is_postgres() {
            self.turns.outcomes_written(ticket);
        }
    }

    /// Takes over the queued outcomes and returns the newest ticket.
    pub(super) fn take_queued(&self, core: &mut Core) -> u64 {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        core.queue_outcomes(queue.outcomes.drain(..));
        queue.count
    }

    pub(super) fn lock_core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(|poisoned| {
            // A thread panicked while it held the lock: read the disk again.
            let mut core = poisoned.into_inner();
            core.needs_reload = true;
            if let Some(group) = core.group.take() {
                group.abandon(LedgerError::not_flushed(
                    &self.source.name(),
                    "a thread panicked while writing it",
                ));
            }
            self.core.clear_poison();
            core
        })
    }

    pub(super) fn prepare(&self, core: &mut Core) -> Result<(Now, u64), LedgerError> {
        core.catch_up()?;
        let now = core.now();
        let bytes_max = self.options.segment_bytes_max;
        if core.journal.head().closed || core.is_full(bytes_max, OVERDUE) {
            let tick = core.state.time.last();
            core.rotate(now, tick)?;
        } else if core.is_full(bytes_max, 1) {
            self.flush.request_rotation();
        }
        let tick = core.sync_time(now)?;
        Ok((now, tick))
    }

    /// Publishes what was read and written under the lock to the flusher and the readers.
    pub(super) fn publish(&self, core: &Core) -> bool {
        self.flush.appended(&core.journal.log);
        self.last_tick.store(core.state.time.last(), Ordering::Release);
        self.offset_us.store(core.offset_us(), Ordering::Release);
        self.ahead_us.store(core.state.time.ahead_us(), Ordering::Release);
        self.count_open_calls(core);
        let seen = core.state.approvals.generation();
        let changed = self.seen.swap(seen, Ordering::AcqRel) != seen;
        if changed {
            if self.source.is_postgres() {
                *self.approvals.lock().unwrap_or_else(PoisonError::into_inner) =
                    Arc::new(core.state.approvals.iter().cloned().collect());
            }
            self.generation.fetch_add(1, Ordering::AcqRel);
        }
        changed
    }

    pub(super) fn count_open_calls(&self, core: &Core) {
        self.open_calls.store(core.state.open.len(), Ordering::Relaxed);
    }

    fn listeners(&self) -> MutexGuard<'_, Vec<Listener>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn notify_if(&self, changed: bool) {
        if !changed {
            return;
        }
        // Called without the lock: a listener may access the ledger.
        let listeners: Vec<Listener> = self.listeners().clone();
        for listener in listeners {
            listener();
        }
    }

    pub(crate) fn add_listener(&self, listener: Listener) {
        self.listeners().push(listener);
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    pub(crate) fn ledger_time(&self, now: Now) -> u64 {
        let last = self.last_tick.load(Ordering::Acquire);
        time::at(last, self.offset_us.load(Ordering::Acquire), now)
    }

    /// Ledger time for expiries, corrected by the wall clock at each boot.
    pub(crate) fn expiry_time(&self, now: Now) -> u64 {
        self.ledger_time(now).saturating_add(self.ahead_us.load(Ordering::Acquire))
    }

    pub(crate) fn store_time(&self) -> Result<(), LedgerError> {
        // On Postgres the rows and the server know the time.
        let LogSource::Files(paths) = &self.source else { return Ok(()) };
        let now = self.clock.now();
        time::store(paths, self.ledger_time(now), now.wall_us)
    }

    /// Ends a call now, or as soon as the log can be written again.
    pub(crate) fn end(&self, end: &End<'_>, at: Position) -> Result<(), LedgerError> {
        let ended = self.with_lock(|locked| locked.end(end, at));
        if ended.is_err() {
            self.queue_end(&End { words: WRITTEN_LATE, ..*end }, at);
        }
        ended
    }

    /// Queues an outcome for the next write and returns its ticket.
    pub(crate) fn queue_end(&self, end: &End<'_>, at: Position) -> u64 {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.outcomes.push(PendingOutcome::of(end, at));
        queue.count += 1;
        let ticket = queue.count;
        drop(queue);
        if self.source.is_postgres() {
            self.turns.want_outcomes();
        }
        ticket
    }

    /// Writes queued outcomes up to this ticket.
    pub(crate) fn write_queued(&self, ticket: u64) -> Result<(), LedgerError> {
        let mut core = self.core();
        let (written, changed) = self.commit_group(&mut core);
        drop(core);
        self.notify_if(changed);
        if self.is_written(ticket) {
            return Ok(());
        }
        written?;
        self.with_lock(|_| Ok(()))
    }

    pub(crate) fn is_written(&self, ticket: u64) -> bool {
        self.tickets_written.load(Ordering::Acquire) >= ticket
    }

    /// Calls without an ending in the log when this process last read it, including its own.
    pub(crate) fn open_calls(&self) -> usize {
        self.open_calls.load(Ordering::Relaxed)
    }
}

impl Drop for SharedLedger {
    fn drop(&mut self) {
        // There is no caller left to report a failure to; the next process that opens the ledger
        // repairs it.
        let _ = self.with_lock_or_wait(|locked| locked.core.close_writer(locked.now, locked.tick));
        let _ = self.store_time();
        if self.flush.is_dirty() {
            self.flush.sync();
        }
        let _ = self.seal_last();
    }
}
