//! One process at a time makes or upgrades `data.db`. SQLite answers "busy" at once, without
//! waiting, when two switch a new file to its write-ahead log together.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;
use std::time::Duration;

use super::{BUSY_MS_MAX, RecordsError};
use crate::home::private;

const TRY_EVERY_MS: u64 = 10;

/// The right to change the file as a whole. It ends when this is dropped, and with the process.
pub(super) struct Turn {
    _lock: File,
}

/// Waits for the turn as long as a statement would wait. The lock is a file of its own: SQLite's
/// locks on the database are lost when any other handle of that file is closed.
pub(super) fn turn(database: &Path) -> Result<Turn, RecordsError> {
    let path = database.with_extension("db.lock");
    private::ensure(&path)?;
    let lock = OpenOptions::new().write(true).open(&path)?;
    for _ in 0..BUSY_MS_MAX / TRY_EVERY_MS {
        match lock.try_lock() {
            Ok(()) => return Ok(Turn { _lock: lock }),
            Err(TryLockError::WouldBlock) => {
                std::thread::sleep(Duration::from_millis(TRY_EVERY_MS));
            }
            Err(TryLockError::Error(e)) => return Err(e.into()),
        }
    }
    Err(RecordsError::Locked)
}
