//! Checks of the settings file and the files it names, shared by `up` and `doctor`.

use std::fs;
use std::path::Path;

use platform::private::Access;

/// An empty file is taken for a failed write; this is how to remove all settings on purpose.
pub(crate) const EMPTY_HINT: &str =
    "write it again; a file with one comment (`# nothing`) removes all its settings";

/// Whether a settings file has no bytes at all, not even a comment.
pub(crate) fn is_empty(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() == 0)
}

/// The access to a key file that others can read, or that others or its group can write.
pub(crate) fn open_to_others(key_file: &Path) -> Option<Access> {
    let found = fs::metadata(key_file).ok()?;
    let access = platform::private::access(key_file, &found).ok()?;
    access.is_too_open_for_a_key().then_some(access)
}
