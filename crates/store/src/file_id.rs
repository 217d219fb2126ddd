//! Distinguishes an open file from another one that replaced it under the same name.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    /// None if there is no such file.
    pub(crate) fn of(path: &Path) -> Option<FileId> {
        let found = fs::metadata(path).ok()?;
        Some(FileId { device: found.dev(), inode: found.ino() })
    }
}
