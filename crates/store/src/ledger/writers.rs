//! Which processes write: each holds a lock on a file of its own, so that the others know when it died
//! and close the calls it left open.

use std::collections::HashSet;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::error::LedgerError;
use super::places::{self, Places};
use crate::home::private;

#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) id: Arc<str>,
    path: PathBuf,
    /// Held for as long as the process lives.
    _lock: File,
}

impl Writer {
    /// Called under the ledger's lock, with the number of the row that will announce the writer.
    pub(crate) fn open(places: &Places, seq: u64) -> Result<Writer, LedgerError> {
        let id = format!("w{seq}");
        let path = places.writers().join(&id);
        let file = match places::open_or_make(&path) {
            // It is empty most of the time, which copies of a folder may leave out.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                private::make_folder(&places.writers()).and_then(|()| places::open_or_make(&path))
            }
            opened => opened,
        };
        let file = file.map_err(LedgerError::io("make", &path))?;
        file.try_lock().map_err(|e| match e {
            TryLockError::Error(e) => LedgerError::io("lock", &path)(e),
            TryLockError::WouldBlock => LedgerError::Locked { path: path.clone(), waited_ms: 0 },
        })?;
        Ok(Writer { id: id.into(), path, _lock: file })
    }

    pub(crate) fn close(self) {
        // A file that stays is found dead and removed by whoever looks next.
        let _ = fs::remove_file(&self.path);
    }
}

/// Of these writers, those whose process has ended. Called under the ledger's lock; the files of the
/// dead are removed.
pub(crate) fn dead(
    places: &Places,
    writers: &HashSet<Arc<str>>,
) -> Result<HashSet<Arc<str>>, LedgerError> {
    let mut dead = HashSet::new();
    for id in writers {
        let path = places.writers().join(&**id);
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
pub(crate) fn tidy(places: &Places) {
    for entry in fs::read_dir(places.writers()).into_iter().flatten().flatten() {
        if is_dead(&entry.path()).unwrap_or(false) {
            let _ = fs::remove_file(entry.path());
        }
    }
}
