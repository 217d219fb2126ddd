//! A turn: with both locks held, first learn what other processes wrote, then write. Everything that
//! the ledger records goes through here.

use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Options;
use super::chain;
use super::core::{Core, Owed};
use super::error::LedgerError;
use super::facts::Note;
use super::flush::Flush;
use super::lock::FileLock;
use super::mark::Position;
use super::places::Places;
use super::reader::Reader;
use super::rows::{self, End, Stamp};
use super::seal::{self, SealState};
use super::stamp;
use super::time;
use super::verify::Checkpoint;
use crate::clock::{Clock, Now};

/// A segment that grew to this many times its bound is closed by whoever comes next, although the
/// keeper was asked to.
const OVERDUE: u64 = 2;

pub(crate) type Listener = Arc<dyn Fn() + Send + Sync>;

/// What all handles on one opened ledger share.
pub(crate) struct Inner {
    pub(crate) clock: Clock,
    pub(crate) options: Options,
    pub(crate) places: Places,
    pub(crate) flush: Flush,
    core: Mutex<Core>,
    /// Endings that share the next turn, whoever takes it.
    late: Mutex<Late>,
    /// How many of them are in the log.
    late_written: AtomicU64,
    /// Copies for those who only read.
    last_tick: AtomicU64,
    offset_us: AtomicI64,
    ahead_us: AtomicU64,
    open_calls: AtomicUsize,
    seen: AtomicU64,
    generation: AtomicU64,
    listeners: Mutex<Vec<Listener>>,
    /// Why the log was not the sealed one when it was opened.
    seal_broken: Option<String>,
    /// The row from which on this home seals.
    sealed_since: u64,
}

#[derive(Default)]
struct Late {
    endings: Vec<Owed>,
    count: u64,
}

/// The right to write now, and the time it is.
pub(crate) struct Turn<'c> {
    pub(crate) core: &'c mut Core,
    pub(crate) now: Now,
    pub(crate) tick: u64,
}

impl Turn<'_> {
    pub(crate) fn append(
        &mut self,
        write: impl FnOnce(&Stamp, &mut Vec<u8>),
    ) -> Result<u64, LedgerError> {
        self.core.append(self.now, self.tick, write)
    }

    pub(crate) fn end(&mut self, end: &End<'_>) -> Result<(), LedgerError> {
        self.core.end(self.now, self.tick, end)
    }

    /// The last row that is in the file.
    pub(crate) fn head(&self) -> Checkpoint {
        let head = self.core.journal.tail.head;
        Checkpoint {
            ledger: self.core.state.ledger_text().to_owned(),
            seq: head.seq,
            hash: chain::as_text(&head.hash).to_owned(),
            time: stamp::text(self.now.wall_us),
        }
    }

    /// Where the journal ends after what this turn wrote or drafted.
    pub(crate) fn position(&self) -> Position {
        self.core.journal.end()
    }
}

impl Inner {
    pub(crate) fn open(
        places: Places,
        clock: Clock,
        options: Options,
    ) -> Result<Inner, LedgerError> {
        // The seal first: a log that others append to has at least what was sealed before.
        let sealed = options.seal.as_ref().map(|s| seal::read(&places, &s.key)).transpose()?;
        let mut lock = FileLock::open(places.folder())?;
        lock.acquire()?;
        let is_new = places.segments()?.is_empty();
        let core = Core::open(&places, &clock, &options, lock)?;
        core.lock.release();
        let tail = &core.journal.tail;
        let file = Arc::clone(&tail.file);
        let flush = Flush::new(options.durability, &places, file, tail.position())?;
        let mut inner = Inner {
            clock,
            options,
            places,
            flush,
            core: Mutex::new(core),
            late: Mutex::default(),
            late_written: AtomicU64::new(0),
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
            inner.check_seal(&sealed, is_new)?;
        }
        inner.turn(|turn| turn.core.close_calls_of_the_dead(turn.now, turn.tick))?;
        Ok(inner)
    }

    /// Compares the log with its seal. What does not fit is told by a row before the log, as it is now,
    /// is sealed again.
    fn check_seal(&mut self, sealed: &SealState, is_new: bool) -> Result<(), LedgerError> {
        let Some(sealing) = self.options.seal.clone() else { return Ok(()) };
        let is_new = is_new && *sealed == SealState::Missing;
        let head = self.head()?.0;
        let reader = Reader::open(self.places.folder())?;
        let found =
            if is_new { None } else { seal::broken_in(sealed, sealing.expected, &head, &reader)? };
        match (&found, sealed) {
            (None, SealState::Valid(seal)) if !is_new => {
                self.sealed_since = seal.since;
                return Ok(());
            }
            (Some(words), _) => self.tell("seal_broken", words)?,
            (None, _) if !is_new => {
                let words =
                    format!("rows up to {} were not sealed; they are from now on", head.seq);
                self.tell("log_sealed", &words)?;
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
        seal::renew(&self.places, &sealing.key, &head, self.sealed_since)
    }

    fn tell(&self, act: &str, words: &str) -> Result<(), LedgerError> {
        let note = Note { act, by: "tollgate", about: "audit", words };
        self.turn(|turn| turn.append(|stamp, out| rows::note(stamp, &note, out)))?;
        Ok(())
    }

    pub(crate) fn seal_broken(&self) -> Option<&str> {
        self.seal_broken.as_deref()
    }

    /// The last row and where it ends.
    fn head(&self) -> Result<(Checkpoint, Position), LedgerError> {
        self.turn(|turn| Ok((turn.head(), turn.position())))
    }

    /// Seals a row if it is on disk.
    pub(crate) fn seal(&self, row: &Checkpoint, at: Position) -> Result<bool, LedgerError> {
        let Some(sealing) = self.options.seal.as_ref().filter(|_| self.flush.is_synced(at)) else {
            return Ok(false);
        };
        seal::advance(&self.places, &sealing.key, row, self.sealed_since)?;
        Ok(true)
    }

    /// Seals the last row, flushing it if need be.
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

    /// Runs `work` with both locks held and the state up to date.
    pub(crate) fn turn<T, E: From<LedgerError>>(
        &self,
        work: impl FnOnce(&mut Turn<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        if let Some(failure) = self.flush.failure() {
            return Err(failure.into());
        }
        let mut core = self.core();
        // Whose rows these were hears of a failure; this turn tries for itself.
        let (_, changed_before) = self.write_draft(&mut core);
        let acquired = core.lock.acquire();
        let done = match acquired {
            Ok(()) => self.work(&mut core, work),
            Err(e) => Err(e.into()),
        };
        core.lock.release();
        let changed = self.publish(&core) || changed_before;
        drop(core);
        self.tell_if(changed);
        done
    }

    fn work<T, E: From<LedgerError>>(
        &self,
        core: &mut Core,
        work: impl FnOnce(&mut Turn<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let (now, tick) = self.prepare(core)?;
        let late = self.take_late(core);
        let done = work(&mut Turn { core, now, tick });
        core.write_owed(now, tick)?;
        self.late_is_written(late);
        done
    }

    pub(super) fn late_is_written(&self, late: u64) {
        self.late_written.fetch_max(late, Ordering::AcqRel);
    }

    /// Takes over the endings that wait for a turn, and says how many there have been.
    pub(super) fn take_late(&self, core: &mut Core) -> u64 {
        let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        core.owe(late.endings.drain(..));
        late.count
    }

    pub(super) fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(|poisoned| {
            // Someone panicked in the middle of a turn: what is on disk is the truth.
            let mut core = poisoned.into_inner();
            core.suspect = true;
            if let Some(draft) = core.draft.take() {
                draft.give_up(LedgerError::not_flushed(self.places.folder(), "its turn broke off"));
            }
            self.core.clear_poison();
            core
        })
    }

    pub(super) fn prepare(&self, core: &mut Core) -> Result<(Now, u64), LedgerError> {
        core.catch_up()?;
        let now = self.clock.now();
        let bytes_max = self.options.segment_bytes_max;
        if core.journal.tail.head.closed || core.is_full(bytes_max, OVERDUE) {
            let tick = core.state.time.last();
            core.rotate(now, tick)?;
        } else if core.is_full(bytes_max, 1) {
            self.flush.ask_for_rotation();
        }
        let tick = core.keep_time(now)?;
        Ok((now, tick))
    }

    /// Lets the flusher and the readers see what this turn learned and did.
    pub(super) fn publish(&self, core: &Core) -> bool {
        let tail = &core.journal.tail;
        self.flush.appended(&tail.file, tail.position());
        self.last_tick.store(core.state.time.last(), Ordering::Release);
        self.offset_us.store(core.state.time.offset_us(), Ordering::Release);
        self.ahead_us.store(core.state.time.ahead_us(), Ordering::Release);
        self.count_open_calls(core);
        let seen = core.state.approvals.generation();
        let changed = self.seen.swap(seen, Ordering::AcqRel) != seen;
        if changed {
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

    pub(super) fn tell_if(&self, changed: bool) {
        if !changed {
            return;
        }
        // Called without the lock: a listener may well look at the ledger.
        let listeners: Vec<Listener> = self.listeners().clone();
        for listener in listeners {
            listener();
        }
    }

    pub(crate) fn listen(&self, listener: Listener) {
        self.listeners().push(listener);
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    pub(crate) fn ledger_time(&self, now: Now) -> u64 {
        let last = self.last_tick.load(Ordering::Acquire);
        time::at(last, self.offset_us.load(Ordering::Acquire), now)
    }

    /// Ledger time for expiries, which a wall clock that was right at a boot has put right.
    pub(crate) fn expiry_time(&self, now: Now) -> u64 {
        self.ledger_time(now).saturating_add(self.ahead_us.load(Ordering::Acquire))
    }

    pub(crate) fn keep_time(&self) -> Result<(), LedgerError> {
        let now = self.clock.now();
        time::keep(&self.places, self.ledger_time(now), now.wall_us)
    }

    /// Ends a call now, or as soon as the log can be written again.
    pub(crate) fn end(&self, end: &End<'_>) -> Result<(), LedgerError> {
        let ended = self.turn(|turn| turn.end(end));
        if ended.is_err() {
            let words = "written late: the log could not be written when the call ended";
            self.core().owe([Owed::of(end, words)]);
        }
        ended
    }

    /// Leaves an ending for the next turn, and says which it is.
    pub(crate) fn end_soon(&self, end: &End<'_>) -> u64 {
        let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        late.endings.push(Owed::of(end, ""));
        late.count += 1;
        late.count
    }

    /// Writes what waits to be written, if anything does.
    pub(crate) fn write_late(&self, late: u64) -> Result<(), LedgerError> {
        let mut core = self.core();
        let (written, changed) = self.write_draft(&mut core);
        drop(core);
        self.tell_if(changed);
        if self.is_written(late) {
            return Ok(());
        }
        written?;
        self.turn(|_| Ok(()))
    }

    pub(crate) fn is_written(&self, late: u64) -> bool {
        self.late_written.load(Ordering::Acquire) >= late
    }

    /// Calls without an ending in the log when this process last looked, its own among them.
    pub(crate) fn open_calls(&self) -> usize {
        self.open_calls.load(Ordering::Relaxed)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Nobody is left to hear of a failure; the next process that opens the ledger puts it right.
        let _ = self.turn(|turn| turn.core.close_writer(turn.now, turn.tick));
        let _ = self.keep_time();
        if self.flush.is_dirty() {
            self.flush.sync();
        }
        let _ = self.seal_last();
    }
}
