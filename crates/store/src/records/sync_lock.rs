//! Allows one sync of a service at a time, across all processes of a home. Two at once would
//! corrupt nothing, but would fetch everything twice.

use std::fs::{File, OpenOptions, TryLockError};

use super::{Records, Result};
use crate::home::private;

/// The exclusive right to sync one service. Released on drop and when the process ends.
#[derive(Debug)]
pub struct SyncLock {
    _lock: File,
}

impl Records {
    /// Takes the lock; none while another process or task holds it.
    pub fn try_sync_lock(&self, service: &'static str) -> Result<Option<SyncLock>> {
        let path = self.path().with_extension(format!("db.sync-{service}"));
        private::ensure(&path)?;
        let lock = OpenOptions::new().write(true).open(&path)?;
        match lock.try_lock() {
            Ok(()) => Ok(Some(SyncLock { _lock: lock })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(e)) => Err(e.into()),
        }
    }
}
