//! Windows limits neither open handles nor file sizes per process, and writes no core files unless the
//! administrator asks for them.

use super::OpenFiles;

pub(super) fn open_files() -> OpenFiles {
    OpenFiles { current: None, maximum: None }
}

/// There is no limit that could be set.
pub(super) fn set_open_files(_current: u64) {}

pub(super) fn protect_memory() -> bool {
    false
}

/// There is no such limit, so no write fails for it.
pub(super) fn survive_file_size_limit() {}
