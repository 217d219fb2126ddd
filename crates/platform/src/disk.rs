//! Free space, and whether this process may write somewhere, as far as can be told without trying.

use std::io;
use std::path::Path;

#[cfg_attr(unix, path = "disk/unix.rs")]
#[cfg_attr(windows, path = "disk/windows.rs")]
mod system;

/// Bytes that this user may still write to the disk of `path`.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    system::free_bytes(path)
}

/// What a program wants to do with a file or folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    Write,
    ReadAndWrite,
    /// Of a folder: create something in it.
    NewEntry,
    /// Of a folder: list, change and pass through.
    WholeFolder,
}

/// Fails as the use would, with `ReadOnlyFilesystem` where the disk is mounted so.
pub fn check(path: &Path, wanted: Use) -> io::Result<()> {
    system::check(path, wanted)
}
