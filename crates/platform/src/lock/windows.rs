//! Windows cannot lock a folder, so a file in it is locked. Its locks are mandatory: no one reads the file.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// Never removed: two processes that lock two files of one name would not exclude each other.
const NAME: &str = "folder.lock";

pub(super) fn open(folder: &Path) -> io::Result<(File, PathBuf)> {
    let path = folder.join(NAME);
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path)?;
    Ok((file, path))
}

/// A locked file cannot be read, so one next to it is locked.
pub(super) fn lock_alive(_file: &File, path: &Path) -> io::Result<Option<File>> {
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(beside(path))?;
    file.try_lock()?;
    Ok(Some(file))
}

pub(super) fn is_unlocked(_file: &File, path: &Path) -> bool {
    match OpenOptions::new().write(true).open(beside(path)) {
        Ok(file) => file.try_lock().is_ok(),
        Err(e) => e.kind() == io::ErrorKind::NotFound,
    }
}

pub(super) fn remove_lock(path: &Path) {
    let _ = fs::remove_file(beside(path));
}

fn beside(path: &Path) -> PathBuf {
    path.with_extension("alive")
}
