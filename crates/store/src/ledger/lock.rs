//! The lock between processes, on the log's folder, with a timeout. Unlike a lock file, a folder
//! that contains the log is not removed and recreated by mistake; and two processes that lock two
//! files of one name would not exclude each other.

use std::fs::TryLockError;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use platform::lock::FolderLock;

use super::error::LedgerError;

/// Others hold the lock for microseconds; a process that holds it this long is stuck.
const WAIT_MS_MAX: u64 = 5_000;

/// While the lock is known to be stuck, callers wait only this long.
const STUCK_WAIT_MS_MAX: u64 = 20;

/// Attempts without sleeping, before the waiting begins.
const QUICK_TRIES: u32 = 32;

const PAUSE_US_MAX: u64 = 1_000;

#[derive(Debug)]
pub(crate) struct FileLock {
    folder: FolderLock,
    path: PathBuf,
    stuck: bool,
}

impl FileLock {
    pub(crate) fn open(path: &Path) -> Result<FileLock, LedgerError> {
        let folder = FolderLock::open(path).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => LedgerError::Gone(path.to_owned()),
            _ => LedgerError::io("open", path)(e),
        })?;
        Ok(FileLock { folder, path: path.to_owned(), stuck: false })
    }

    /// Whether the locked folder still has its name. A folder that was restored from a copy is a
    /// different one, and that is what the other processes lock.
    pub(crate) fn is_current(&self) -> bool {
        self.folder.is_current()
    }

    pub(crate) fn release(&self) {
        // Unlocking a file we have locked does not fail; if it did, closing it at exit would do.
        let _ = self.folder.unlock();
    }

    pub(crate) fn acquire(&mut self) -> Result<(), LedgerError> {
        let wait_us_max = 1_000 * if self.stuck { STUCK_WAIT_MS_MAX } else { WAIT_MS_MAX };
        let (mut tries, mut waited_us, mut pause_us) = (0, 0, 10);
        loop {
            match self.folder.try_lock() {
                Ok(()) => {
                    self.stuck = false;
                    return Ok(());
                }
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(e)) => return Err(LedgerError::io("lock", &self.path)(e)),
            }
            tries += 1;
            if waited_us >= wait_us_max {
                self.stuck = true;
                let path = self.path.clone();
                return Err(LedgerError::Locked { path, waited_ms: waited_us / 1_000 });
            }
            if tries < QUICK_TRIES {
                std::thread::yield_now();
            } else {
                std::thread::sleep(Duration::from_micros(pause_us));
                waited_us += pause_us;
                pause_us = (pause_us * 2).min(PAUSE_US_MAX);
            }
        }
    }
}
