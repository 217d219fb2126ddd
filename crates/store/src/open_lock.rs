//! Lets one process at a time create, upgrade or open a database. SQLite answers "busy" at once,
//! without waiting, when two processes switch a new file to its write-ahead log together.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;
use std::time::Duration;

use crate::home::private;

const TRY_EVERY_MS: u64 = 10;

/// The exclusive right to change the file as a whole. Released on drop and when the process ends.
pub(crate) struct OpenLock {
    _lock: File,
}

impl OpenLock {
    /// Waits for the lock; none after the timeout. The lock is a separate file: SQLite's locks on
    /// the database are lost when any other handle of that file is closed.
    pub(crate) fn acquire(database: &Path, wait_ms_max: u64) -> io::Result<Option<OpenLock>> {
        let path = database.with_extension("db.lock");
        private::ensure(&path)?;
        let lock = OpenOptions::new().write(true).open(&path)?;
        for _ in 0..wait_ms_max / TRY_EVERY_MS {
            match lock.try_lock() {
                Ok(()) => return Ok(Some(OpenLock { _lock: lock })),
                Err(TryLockError::WouldBlock) => {
                    std::thread::sleep(Duration::from_millis(TRY_EVERY_MS));
                }
                Err(TryLockError::Error(e)) => return Err(e),
            }
        }
        Ok(None)
    }
}
