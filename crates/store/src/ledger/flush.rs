//! When rows reach the disk. Rows are in the file when a turn ends, which survives the death of the
//! process; here they are flushed, which survives the death of the machine, many rows at a time.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::error::LedgerError;
use super::mark::{Mark, Position};
use super::places::Places;

/// What an admitted call has survived before it leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// The death of the process at any moment; on disk within a second.
    #[default]
    Process,
    /// The loss of power at any moment: the call leaves after its row was flushed.
    Power,
    /// The death of the process; when rows reach the disk is left to the operating system.
    Unflushed,
}

/// Called once, when the row is on disk or it is known that it is not.
pub type WhenDurable = Box<dyn FnOnce(Result<(), LedgerError>) + Send>;

#[derive(Debug)]
pub(crate) struct Flush {
    durability: Durability,
    /// Ends of the written and of the flushed journal, packed.
    appended: AtomicU64,
    synced: AtomicU64,
    /// Address of the file that is being flushed, to tell it from another of the same number.
    file_at: AtomicUsize,
    failed: AtomicBool,
    places: Places,
    /// One flush at a time; who waits here shares the next one.
    flushing: Mutex<Mark>,
    shared: Mutex<Shared>,
    wake_keeper: Condvar,
    wake_flusher: Condvar,
}

struct Shared {
    file: Arc<File>,
    segment: u32,
    waiters: Vec<(u64, WhenDurable)>,
    rotate: bool,
    stop: bool,
    failure: Option<String>,
    #[cfg(test)]
    fail_next: bool,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("segment", &self.segment).finish_non_exhaustive()
    }
}

/// Why the keeper woke up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beat {
    Time,
    Rotate,
    Stop,
}

impl Flush {
    pub(crate) fn new(
        durability: Durability,
        places: &Places,
        file: Arc<File>,
        at: Position,
    ) -> Result<Flush, LedgerError> {
        let oldest = places.segments()?.first().copied().unwrap_or(at.segment);
        let synced = Mark::read(places).unwrap_or(Position { segment: oldest, offset: 0 });
        Ok(Flush {
            durability,
            appended: AtomicU64::new(at.pack()),
            synced: AtomicU64::new(synced.pack()),
            file_at: AtomicUsize::new(Arc::as_ptr(&file).addr()),
            places: places.clone(),
            failed: AtomicBool::new(false),
            flushing: Mutex::new(Mark::open(places)?),
            shared: Mutex::new(Shared {
                file,
                segment: at.segment,
                waiters: Vec::new(),
                rotate: false,
                stop: false,
                failure: None,
                #[cfg(test)]
                fail_next: false,
            }),
            wake_keeper: Condvar::new(),
            wake_flusher: Condvar::new(),
        })
    }

    pub(crate) fn durability(&self) -> Durability {
        self.durability
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The journal now ends here. Called under the ledger's own lock.
    pub(crate) fn appended(&self, file: &Arc<File>, at: Position) {
        let (before, file_at) = (self.appended.load(Ordering::Relaxed), Arc::as_ptr(file).addr());
        let is_same_file = self.file_at.load(Ordering::Relaxed) == file_at;
        if is_same_file && Position::unpack(before).segment == at.segment {
            self.appended.store(at.pack(), Ordering::Release);
            return;
        }
        let mut shared = self.shared();
        if shared.segment == at.segment {
            // Put back from a copy, of which nothing need be on disk.
            let beginning = Position { segment: at.segment, offset: 0 };
            self.synced.store(beginning.pack(), Ordering::Release);
        }
        shared.file = Arc::clone(file);
        shared.segment = at.segment;
        self.file_at.store(file_at, Ordering::Relaxed);
        self.appended.store(at.pack(), Ordering::Release);
    }

    /// A flush failed and none has succeeded since.
    pub(crate) fn failure(&self) -> Option<LedgerError> {
        if !self.has_failed() {
            return None;
        }
        let shared = self.shared();
        shared.failure.as_ref().map(|words| LedgerError::not_flushed(self.places.folder(), words))
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    pub(crate) fn is_dirty(&self) -> bool {
        self.appended.load(Ordering::Acquire) > self.synced.load(Ordering::Acquire)
    }

    /// Calls back when everything up to `at` is as durable as was asked for; at once if it is.
    pub(crate) fn when_durable(&self, at: Position, callback: WhenDurable) {
        if self.is_durable(at) {
            return callback(Ok(()));
        }
        let mut shared = self.shared();
        if self.is_synced(at) {
            drop(shared);
            return callback(Ok(()));
        }
        shared.waiters.push((at.pack(), callback));
        if shared.stop {
            drop(shared);
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

    /// Flushes what is written so far and tells those who wait for it.
    pub(crate) fn sync(&self) {
        let mark = self.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        let (file, target, failed) = {
            let shared = self.shared();
            let target = self.appended.load(Ordering::Acquire);
            (Arc::clone(&shared.file), Position::unpack(target), shared.failure.is_some())
        };
        let synced = Position::unpack(self.synced.load(Ordering::Acquire));
        let flushed = self
            .sync_older(synced, target, failed)
            .and_then(|()| if failed { self.rewrite(synced, target) } else { Ok(()) })
            .and_then(|()| self.sync_file(&file))
            .and_then(|()| mark.advance(target));
        drop(mark);
        self.tell(target, &flushed.map_err(|e| e.to_string()));
    }

    /// Segments that were closed since the last flush, and the names of those that came after them.
    fn sync_older(&self, synced: Position, target: Position, failed: bool) -> io::Result<()> {
        if synced.segment == target.segment {
            return Ok(());
        }
        for number in synced.segment..target.segment {
            let file = match File::open(self.places.segment(number)) {
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
        File::open(self.places.folder())?.sync_all()
    }

    fn sync_file(&self, file: &File) -> io::Result<()> {
        #[cfg(test)]
        if std::mem::take(&mut self.shared().fail_next) {
            return Err(io::Error::other("a test says so"));
        }
        let _ = self;
        file.sync_data()
    }

    /// After a failed flush the system may hold pages as clean that never reached the disk. Writing
    /// the same bytes again makes them dirty again.
    fn rewrite(&self, from: Position, to: Position) -> io::Result<()> {
        let start = if from.segment == to.segment { from.offset } else { 0 };
        let mut bytes = vec![0; usize::try_from(to.offset.saturating_sub(start)).unwrap_or(0)];
        // Not opened for appending: such a file ignores the place it is told.
        let path = self.places.segment(to.segment);
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        file.read_exact_at(&mut bytes, start)?;
        file.write_all_at(&bytes, start)
    }

    fn tell(&self, target: Position, flushed: &Result<(), String>) {
        let done: Vec<(u64, WhenDurable)> = {
            let mut shared = self.shared();
            if flushed.is_ok() {
                self.synced.fetch_max(target.pack(), Ordering::AcqRel);
            }
            shared.failure = flushed.as_ref().err().cloned();
            self.failed.store(flushed.is_err(), Ordering::Release);
            let reached = |at: u64| flushed.is_err() || at <= target.pack();
            shared.waiters.extract_if(.., |(at, _)| reached(*at)).collect()
        };
        if let Err(words) = flushed {
            tracing::error!("the audit log could not be flushed: {words}");
        }
        for (_, callback) in done {
            let told = flushed
                .as_ref()
                .map_err(|words| LedgerError::not_flushed(self.places.folder(), words));
            callback(told.copied());
        }
    }

    pub(crate) fn ask_for_rotation(&self) {
        let mut shared = self.shared();
        if !shared.rotate {
            shared.rotate = true;
            self.wake_keeper.notify_one();
        }
    }

    pub(crate) fn stop(&self) {
        self.shared().stop = true;
        self.wake_keeper.notify_all();
        self.wake_flusher.notify_all();
    }

    /// Sleeps until there is something to keep in order, or the time has passed.
    pub(crate) fn next_beat(&self, pause: Duration) -> Beat {
        let idle = |shared: &mut Shared| !shared.stop && !shared.rotate;
        let waited = self.wake_keeper.wait_timeout_while(self.shared(), pause, idle);
        let (mut shared, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if shared.stop {
            Beat::Stop
        } else if std::mem::take(&mut shared.rotate) {
            Beat::Rotate
        } else {
            Beat::Time
        }
    }

    /// Sleeps until someone waits for a flush; false when it is time to stop.
    pub(crate) fn next_wish(&self) -> bool {
        let idle = |shared: &mut Shared| !shared.stop && shared.waiters.is_empty();
        let waited = self.wake_flusher.wait_while(self.shared(), idle);
        !waited.unwrap_or_else(PoisonError::into_inner).stop
    }

    #[cfg(test)]
    pub(crate) fn flushed_file(&self) -> Arc<File> {
        Arc::clone(&self.shared().file)
    }

    #[cfg(test)]
    pub(crate) fn fail_next(&self) {
        self.shared().fail_next = true;
    }
}
