//! Flushes rows to disk. A row is in the file when the ledger's lock is released, which survives a
//! crash of the process; a flush makes many rows at once survive a crash of the machine.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use platform::files::AtOffset as _;

use super::error::LedgerError;
use super::journal::{Head, LogStorage};
use super::paths::LogPaths;
use super::postgres_table::PostgresTable;
use super::source::LogSource;
use super::sync_mark::{Position, SyncMark};

/// What the row of an admitted call survives before the call is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// A crash of the process at any moment; on disk within a second.
    #[default]
    Process,
    /// A power loss at any moment: the call is sent after its row was flushed.
    Power,
    /// A crash of the process; the operating system decides when rows reach the disk.
    Unflushed,
}

/// Called once, when the row is on disk or the flush failed.
pub type WhenDurable = Box<dyn FnOnce(Result<(), LedgerError>) + Send>;

#[derive(Debug)]
pub(crate) struct Flush {
    durability: Durability,
    /// Ends of the written and of the flushed journal, packed.
    appended: AtomicU64,
    synced: AtomicU64,
    /// Address of the file being flushed, to tell it from another with the same number.
    file_at: AtomicUsize,
    failed: AtomicBool,
    /// Names the log in errors.
    name: PathBuf,
    /// One flush at a time; waiters share the next one.
    flushing: Mutex<FlushTarget>,
    state: Mutex<FlushState>,
    wake_maintenance: Condvar,
    wake_flusher: Condvar,
}

/// What makes rows durable.
#[derive(Debug)]
enum FlushTarget {
    Files { paths: LogPaths, mark: SyncMark },
    Postgres(Arc<PostgresTable>),
}

struct FlushState {
    /// The end of the journal that the next flush covers.
    end: JournalEnd,
    segment: u32,
    waiters: Vec<(u64, WhenDurable)>,
    rotate: bool,
    stop: bool,
    failure: Option<String>,
    #[cfg(test)]
    fail_next: bool,
}

impl std::fmt::Debug for FlushState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FlushState").field("segment", &self.segment).finish_non_exhaustive()
    }
}

/// Why the maintenance thread woke up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WakeReason {
    Timer,
    Rotate,
    Stop,
}

impl Flush {
    pub(crate) fn new(
        durability: Durability,
        source: &LogSource,
        log: &LogStorage,
    ) -> Result<Flush, LedgerError> {
        let (end, at) = JournalEnd::of(log);
        let oldest = source.segments()?.first().copied().unwrap_or(at.segment);
        let unknown = match source {
            LogSource::Files(_) => Position { segment: oldest, offset: 0 },
            LogSource::Postgres(_) => Position { segment: at.segment, offset: 0 },
        };
        let synced = source.flushed().unwrap_or(unknown);
        let target = match source {
            LogSource::Files(paths) => {
                FlushTarget::Files { paths: paths.clone(), mark: SyncMark::open(paths)? }
            }
            LogSource::Postgres(table) => FlushTarget::Postgres(Arc::clone(table)),
        };
        Ok(Flush {
            durability,
            appended: AtomicU64::new(at.pack()),
            synced: AtomicU64::new(synced.pack()),
            file_at: AtomicUsize::new(end.file_at()),
            name: source.name(),
            failed: AtomicBool::new(false),
            flushing: Mutex::new(target),
            state: Mutex::new(FlushState {
                end,
                segment: at.segment,
                waiters: Vec::new(),
                rotate: false,
                stop: false,
                failure: None,
                #[cfg(test)]
                fail_next: false,
            }),
            wake_maintenance: Condvar::new(),
            wake_flusher: Condvar::new(),
        })
    }

    pub(crate) fn durability(&self) -> Durability {
        self.durability
    }

    fn state(&self) -> MutexGuard<'_, FlushState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The journal now ends here. Called under the ledger's own lock.
    pub(crate) fn appended(&self, log: &LogStorage) {
        let (file, at) = match log {
            LogStorage::Files(log) => (&log.tail.file, log.tail.position()),
            LogStorage::Postgres(_) => return self.appended_to_table(log),
        };
        let (before, file_at) = (self.appended.load(Ordering::Relaxed), Arc::as_ptr(file).addr());
        let is_same_file = self.file_at.load(Ordering::Relaxed) == file_at;
        if is_same_file && Position::unpack(before).segment == at.segment {
            self.appended.store(at.pack(), Ordering::Release);
            return;
        }
        let mut state = self.state();
        if state.segment == at.segment {
            // Restored from a copy, of which nothing may be on disk.
            let beginning = Position { segment: at.segment, offset: 0 };
            self.synced.store(beginning.pack(), Ordering::Release);
        }
        state.end = JournalEnd::File(Arc::clone(file));
        state.segment = at.segment;
        self.file_at.store(file_at, Ordering::Relaxed);
        self.appended.store(at.pack(), Ordering::Release);
    }

    /// In a new epoch nothing is known to be on disk: rows may have been lost.
    fn appended_to_table(&self, log: &LogStorage) {
        let (end, at) = JournalEnd::of(log);
        let mut state = self.state();
        if state.segment != at.segment {
            let beginning = Position { segment: at.segment, offset: 0 };
            self.synced.store(beginning.pack(), Ordering::Release);
        }
        state.end = end;
        state.segment = at.segment;
        self.appended.store(at.pack(), Ordering::Release);
    }

    /// A flush failed and none has succeeded since.
    pub(crate) fn failure(&self) -> Option<LedgerError> {
        if !self.has_failed() {
            return None;
        }
        let state = self.state();
        // A server that restarted has to be read again before anything can be flushed.
        let refuses = matches!(state.end, JournalEnd::File(_));
        let failure = state.failure.as_ref().filter(|_| refuses);
        failure.map(|words| LedgerError::not_flushed(&self.name, words))
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    pub(crate) fn is_dirty(&self) -> bool {
        self.appended.load(Ordering::Acquire) > self.synced.load(Ordering::Acquire)
    }

    /// Calls back when everything up to `at` is as durable as required; at once if it already is.
    pub(crate) fn when_durable(&self, at: Position, callback: WhenDurable) {
        if self.is_durable(at) {
            return callback(Ok(()));
        }
        let mut state = self.state();
        if state.is_of_older_epoch(at) {
            drop(state);
            let words = "the store was lost before it was known that the row is on disk";
            return callback(Err(LedgerError::not_flushed(&self.name, words)));
        }
        if self.is_synced(at) {
            drop(state);
            return callback(Ok(()));
        }
        state.waiters.push((at.pack(), callback));
        if state.stop {
            drop(state);
            self.sync();
        } else {
            self.wake_flusher.notify_one();
        }
    }

    pub(crate) fn is_durable(&self, at: Position) -> bool {
        self.durability != Durability::Power || self.is_synced(at)
    }

    /// A position of an older epoch of Postgres is never known to be.
    pub(crate) fn is_synced(&self, at: Position) -> bool {
        let synced = Position::unpack(self.synced.load(Ordering::Acquire));
        synced >= at && !(synced.segment != at.segment && self.state().is_of_older_epoch(at))
    }

    /// Flushes what is written so far and notifies the waiters.
    pub(crate) fn sync(&self) {
        let flushing = self.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        let (end, target, failed) = {
            let state = self.state();
            let target = self.appended.load(Ordering::Acquire);
            (state.end.clone(), Position::unpack(target), state.failure.is_some())
        };
        let flushed = match (&*flushing, &end) {
            (FlushTarget::Files { paths, mark }, JournalEnd::File(file)) => self
                .sync_files(paths, file, target, failed)
                .and_then(|()| mark.advance(target))
                .map_err(|e| e.to_string()),
            (FlushTarget::Postgres(table), JournalEnd::Row(head)) => {
                table.flush(*head).map_err(|e| e.to_string())
            }
            _ => Err("the log is of another kind".to_owned()),
        };
        drop(flushing);
        self.notify_waiters(target, &flushed);
    }

    fn sync_files(
        &self,
        paths: &LogPaths,
        file: &File,
        target: Position,
        failed: bool,
    ) -> io::Result<()> {
        let synced = Position::unpack(self.synced.load(Ordering::Acquire));
        sync_older(paths, synced, target, failed)?;
        if failed {
            rewrite(paths, synced, target)?;
        }
        self.sync_file(file)
    }

    fn sync_file(&self, file: &File) -> io::Result<()> {
        #[cfg(test)]
        if std::mem::take(&mut self.state().fail_next) {
            return Err(io::Error::other("a test says so"));
        }
        let _ = self;
        file.sync_data()
    }

    fn notify_waiters(&self, target: Position, flushed: &Result<(), String>) {
        let done: Vec<(u64, WhenDurable)> = {
            let mut state = self.state();
            if flushed.is_ok() {
                // Not if the epoch ended meanwhile: a newer position is stored already.
                self.synced.fetch_max(target.pack(), Ordering::AcqRel);
            }
            state.failure = flushed.as_ref().err().cloned();
            self.failed.store(flushed.is_err(), Ordering::Release);
            let reached = |at: u64| flushed.is_err() || at <= target.pack();
            state.waiters.extract_if(.., |(at, _)| reached(*at)).collect()
        };
        if let Err(words) = flushed {
            tracing::error!("the audit log could not be flushed: {words}");
        }
        for (_, callback) in done {
            let result =
                flushed.as_ref().map_err(|words| LedgerError::not_flushed(&self.name, words));
            callback(result.copied());
        }
    }

    pub(crate) fn request_rotation(&self) {
        let mut state = self.state();
        if !state.rotate {
            state.rotate = true;
            self.wake_maintenance.notify_one();
        }
    }

    pub(crate) fn stop(&self) {
        self.state().stop = true;
        self.wake_maintenance.notify_all();
        self.wake_flusher.notify_all();
    }

    /// Sleeps until there is work, or until the timeout.
    pub(crate) fn wait_for_work(&self, pause: Duration) -> WakeReason {
        let idle = |state: &mut FlushState| !state.stop && !state.rotate;
        let waited = self.wake_maintenance.wait_timeout_while(self.state(), pause, idle);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if state.stop {
            WakeReason::Stop
        } else if std::mem::take(&mut state.rotate) {
            WakeReason::Rotate
        } else {
            WakeReason::Timer
        }
    }

    /// Sleeps until a flush is requested; false on shutdown.
    pub(crate) fn wait_for_flush_request(&self) -> bool {
        let idle = |state: &mut FlushState| !state.stop && state.waiters.is_empty();
        let waited = self.wake_flusher.wait_while(self.state(), idle);
        !waited.unwrap_or_else(PoisonError::into_inner).stop
    }

    #[cfg(test)]
    pub(crate) fn flushed_file(&self) -> Option<Arc<File>> {
        match &self.state().end {
            JournalEnd::File(file) => Some(Arc::clone(file)),
            JournalEnd::Row(_) => None,
        }
    }

    #[cfg(test)]
    pub(crate) fn fail_next(&self) {
        self.state().fail_next = true;
    }
}

/// What the next flush has to cover.
#[derive(Clone, Debug)]
enum JournalEnd {
    File(Arc<File>),
    /// The last row in the table.
    Row(Head),
}

impl JournalEnd {
    fn of(log: &LogStorage) -> (JournalEnd, Position) {
        match log {
            LogStorage::Files(log) => {
                (JournalEnd::File(Arc::clone(&log.tail.file)), log.tail.position())
            }
            LogStorage::Postgres(log) => {
                let head = log.sent();
                (JournalEnd::Row(head), log.position(head.seq))
            }
        }
    }

    fn file_at(&self) -> usize {
        match self {
            JournalEnd::File(file) => Arc::as_ptr(file).addr(),
            JournalEnd::Row(_) => 0,
        }
    }
}

impl FlushState {
    fn is_of_older_epoch(&self, at: Position) -> bool {
        matches!(self.end, JournalEnd::Row(_)) && at.segment != self.segment
    }
}

/// Segments that were closed since the last flush, and the names of their successors.
fn sync_older(
    paths: &LogPaths,
    synced: Position,
    target: Position,
    failed: bool,
) -> io::Result<()> {
    if synced.segment == target.segment {
        return Ok(());
    }
    for number in synced.segment..target.segment {
        let file = match File::open(paths.segment(number)) {
            Ok(file) => file,
            // It was retired.
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            Err(e) => return Err(e),
        };
        let offset = file.metadata()?.len();
        if failed {
            rewrite(paths, synced, Position { segment: number, offset })?;
        }
        file.sync_data()?;
    }
    platform::files::sync_folder(paths.folder())
}

/// After a failed flush the system may treat pages as clean that never reached the disk.
/// Writing the same bytes again marks them dirty again.
fn rewrite(paths: &LogPaths, from: Position, to: Position) -> io::Result<()> {
    let start = if from.segment == to.segment { from.offset } else { 0 };
    let mut bytes = vec![0; usize::try_from(to.offset.saturating_sub(start)).unwrap_or(0)];
    // Not opened for appending: such a file ignores the offset of a write.
    let path = paths.segment(to.segment);
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    file.read_exact_at(&mut bytes, start)?;
    file.write_all_at(&bytes, start)
}
