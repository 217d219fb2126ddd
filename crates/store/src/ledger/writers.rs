//! Which processes write: each holds a lock on its own file, so that the others notice its death
//! and close the calls it left open.

use std::collections::HashSet;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::error::LedgerError;
use super::paths::{self, LogPaths};
use crate::home::private;

#[derive(Debug)]
pub(crate) struct WriterLock {
    pub(crate) id: Arc<str>,
    path: PathBuf,
    /// Held while the process lives.
    _lock: File,
}

impl WriterLock {
    /// Called under the ledger's lock, with the number of the row that will announce the writer.
    pub(crate) fn open(paths: &LogPaths, seq: u64) -> Result<WriterLock, LedgerError> {
        let id = format!("w{seq}");
        let path = paths.writers().join(&id);
        let file = match paths::open_or_create(&path) {
            // The folder is usually empty, and tools that copy folders may skip empty ones.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                private::make_folder(&paths.writers()).and_then(|()| paths::open_or_create(&path))
            }
            opened => opened,
        };
        let file = file.map_err(LedgerError::io("make", &path))?;
        file.try_lock().map_err(|e| match e {
            TryLockError::Error(e) => LedgerError::io("lock", &path)(e),
            TryLockError::WouldBlock => LedgerError::Locked { path: path.clone(), waited_ms: 0 },
        })?;
        Ok(WriterLock { id: id.into(), path, _lock: file })
    }

    pub(crate) fn close(self) {
        // A remaining file is found dead and removed by the next check.
        let _ = fs::remove_file(&self.path);
    }
}

/// Those of these writers whose process has ended. Called under the ledger's lock; their files are
/// removed.
pub(crate) fn dead(
    paths: &LogPaths,
    writers: &HashSet<Arc<str>>,
) -> Result<HashSet<Arc<str>>, LedgerError> {
    let mut dead = HashSet::new();
    for id in writers {
        let path = paths.writers().join(&**id);
        match is_dead(&path) {
            Ok(true) => {
                let _ = fs::remove_file(&path);
                dead.insert(Arc::clone(id));
            }
            Ok(false) => {}
            Err(e) => return Err(LedgerError::io("look at", &path)(e)),
        }
    }
    Ok(dead)
}

fn is_dead(path: &std::path::Path) -> io::Result<bool> {
    match File::open(path) {
        Ok(file) => match file.try_lock_shared() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(e)) => Err(e),
        },
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(e) => Err(e),
    }
}

/// Removes the files of processes that died without open calls.
pub(crate) fn remove_dead(paths: &LogPaths) {
    for entry in fs::read_dir(paths.writers()).into_iter().flatten().flatten() {
        if is_dead(&entry.path()).unwrap_or(false) {
            let _ = fs::remove_file(entry.path());
        }
    }
}
