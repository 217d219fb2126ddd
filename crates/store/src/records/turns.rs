//! One sync of a service at a time, in all processes that share a home. Two at once would corrupt
//! nothing, but would ask the service for everything twice.

use std::fs::{File, OpenOptions, TryLockError};

use super::{Records, Result};
use crate::home::private;

/// The right to sync one service. It ends when this is dropped, and with the process.
#[derive(Debug)]
pub struct SyncTurn {
    _lock: File,
}

impl Records {
    /// The turn, or nothing while another process or task has it.
    pub fn sync_turn(&self, service: &'static str) -> Result<Option<SyncTurn>> {
        let path = self.path().with_extension(format!("db.sync-{service}"));
        private::ensure(&path)?;
        let lock = OpenOptions::new().write(true).open(&path)?;
        match lock.try_lock() {
            Ok(()) => Ok(Some(SyncTurn { _lock: lock })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(e)) => Err(e.into()),
        }
    }
}
