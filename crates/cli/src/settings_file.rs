//! Checks of the settings file and the files it names, shared by `up` and `doctor`.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// An empty file is taken for a failed write; this is how to remove all settings on purpose.
pub(crate) const EMPTY_HINT: &str =
    "write it again; a file with one comment (`# nothing`) removes all its settings";

/// Whether a settings file has no bytes at all, not even a comment.
pub(crate) fn is_empty(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() == 0)
}

/// The mode of a key file that others can read, or that others or its group can write. Read access for the
/// group is allowed, because services share keys that way.
pub(crate) fn open_to_others(key_file: &Path) -> Option<u32> {
    const TOO_MUCH: u32 = 0o027;
    let mode = fs::metadata(key_file).ok()?.mode() & 0o777;
    (mode & TOO_MUCH != 0).then_some(mode)
}
