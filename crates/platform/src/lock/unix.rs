//! Linux and macOS lock the folder itself: a folder with files in it is not removed and recreated by mistake.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

pub(super) fn open(folder: &Path) -> io::Result<(File, PathBuf)> {
    Ok((File::open(folder)?, folder.to_owned()))
}

/// The file itself is locked. Its locks do not keep others from reading it.
pub(super) fn lock_alive(file: &File, _path: &Path) -> io::Result<Option<File>> {
    file.try_lock()?;
    Ok(None)
}

pub(super) fn is_unlocked(file: &File, _path: &Path) -> bool {
    file.try_lock_shared().is_ok()
}

/// There is no file but the one that was locked.
pub(super) fn remove_lock(_path: &Path) {}
