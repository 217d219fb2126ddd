//! Flushes rows to disk. A row is in the file when the ledger's lock is released, which survives a
//! crash of the process; a flush makes many rows at once survive a crash of the machine.

use std::fs::{File, OpenOptions};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use platform::files::AtOffset as _;

use super::error::LedgerError;
use super::paths::LogPaths;
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
    paths: LogPaths,
    /// One flush at a time; waiters share the next one.
    flushing: Mutex<SyncMark>,
    state: Mutex<FlushState>,
    wake_maintenance: Condvar,
    wake_flusher: Condvar,
}

struct FlushState {
    file: Arc<File>,
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
        paths: &LogPaths,
        file: Arc<File>,
        at: Position,
    ) -> Result<Flush, LedgerError> {
        let oldest = paths.segments()?.first().copied().unwrap_or(at.segment);
        let synced = SyncMark::read(paths).unwrap_or(Position { segment: oldest, offset: 0 });
        Ok(Flush {
            durability,
            appended: AtomicU64::new(at.pack()),
            synced: AtomicU64::new(synced.pack()),
            file_at: AtomicUsize::new(Arc::as_ptr(&file).addr()),
            paths: paths.clone(),
            failed: AtomicBool::new(false),
            flushing: Mutex::new(SyncMark::open(paths)?),
            state: Mutex::new(FlushState {
                file,
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
    pub(crate) fn appended(&self, file: &Arc<File>, at: Position) {
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
        state.file = Arc::clone(file);
        state.segment = at.segment;
        self.file_at.store(file_at, Ordering::Relaxed);
        self.appended.store(at.pack(), Ordering::Release);
    }

    /// A flush failed and none has succeeded since.
    pub(crate) fn failure(&self) -> Option<LedgerError> {
        if !self.has_failed() {
            return None;
        }
        let state = self.state();
        state.failure.as_ref().map(|words| LedgerError::not_flushed(self.paths.folder(), words))
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

    pub(crate) fn is_synced(&self, at: Position) -> bool {
        self.synced.load(Ordering::Acquire) >= at.pack()
    }

    /// Flushes what is written so far and notifies the waiters.
    pub(crate) fn sync(&self) {
        let mark = self.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        let (file, target, failed) = {
            let state = self.state();
            let target = self.appended.load(Ordering::Acquire);
            (Arc::clone(&state.file), Position::unpack(target), state.failure.is_some())
        };
        let synced = Position::unpack(self.synced.load(Ordering::Acquire));
        let flushed = self
            .sync_older(synced, target, failed)
            .and_then(|()| if failed { self.rewrite(synced, target) } else { Ok(()) })
            .and_then(|()| self.sync_file(&file))
            .and_then(|()| mark.advance(target));
        drop(mark);
        self.notify_waiters(target, &flushed.map_err(|e| e.to_string()));
    }

    /// Segments that were closed since the last flush, and the names of their successors.
    fn sync_older(&self, synced: Position, target: Position, failed: bool) -> io::Result<()> {
        if synced.segment == target.segment {
            return Ok(());
        }
        for number in synced.segment..target.segment {
            let file = match File::open(self.paths.segment(number)) {
                Ok(file) => file,
                // It was retired.
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                Err(e) => return Err(e),
            };
            let offset = file.metadata()?.len();
            if failed {
                self.rewrite(synced, Position { segment: number, offset })?;
            }
            file.sync_data()?;
        }
        platform::files::sync_folder(self.paths.folder())
    }

    fn sync_file(&self, file: &File) -> io::Result<()> {
        #[cfg(test)]
        if std::mem::take(&mut self.state().fail_next) {
            return Err(io::Error::other("a test says so"));
        }
        let _ = self;
        file.sync_data()
    }

    /// After a failed flush the system may treat pages as clean that never reached the disk.
    /// Writing the same bytes again marks them dirty again.
    fn rewrite(&self, from: Position, to: Position) -> io::Result<()> {
        let start = if from.segment == to.segment { from.offset } else { 0 };
        let mut bytes = vec![0; usize::try_from(to.offset.saturating_sub(start)).unwrap_or(0)];
        // Not opened for appending: such a file ignores the offset of a write.
        let path = self.paths.segment(to.segment);
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        file.read_exact_at(&mut bytes, start)?;
        file.write_all_at(&bytes, start)
    }

    fn notify_waiters(&self, target: Position, flushed: &Result<(), String>) {
        let done: Vec<(u64, WhenDurable)> = {
            let mut state = self.state();
            if flushed.is_ok() {
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
            let result = flushed
                .as_ref()
                .map_err(|words| LedgerError::not_flushed(self.paths.folder(), words));
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
    pub(crate) fn flushed_file(&self) -> Arc<File> {
        Arc::clone(&self.state().file)
    }

    #[cfg(test)]
    pub(crate) fn fail_next(&self) {
        self.state().fail_next = true;
    }
}
