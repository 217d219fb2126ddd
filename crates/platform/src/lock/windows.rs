//! Windows cannot lock a folder, so a file in it is locked. Its locks are mandatory: no one reads the file.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// Never removed: two processes that lock two files of one name would not exclude each other.
const NAME: &str = "folder.lock";

pub(super) fn open(folder: &Path) -> io::Result<(File, PathBuf)> {
    let path = folder.join(NAME);
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path)?;
    Ok((file, path))
}
