//! Windows: opening with the wanted rights tells, and changes nothing.

use std::fs::OpenOptions;
use std::io;
use std::os::windows::fs::OpenOptionsExt as _;
use std::path::Path;

use super::Use;

/// `FILE_FLAG_BACKUP_SEMANTICS`: folders too.
const FOLDERS_TOO: u32 = 0x0200_0000;
/// `FILE_LIST_DIRECTORY` or `FILE_READ_DATA`.
const READ: u32 = 0x1;
/// `FILE_ADD_FILE | FILE_ADD_SUBDIRECTORY`, or `FILE_WRITE_DATA | FILE_APPEND_DATA`.
const WRITE: u32 = 0x2 | 0x4;

pub(super) fn free_bytes(path: &Path) -> io::Result<u64> {
    fs4::available_space(path)
}

pub(super) fn check(path: &Path, wanted: Use) -> io::Result<()> {
    let rights = match wanted {
        Use::Write | Use::NewEntry => WRITE,
        Use::ReadAndWrite | Use::WholeFolder => READ | WRITE,
    };
    OpenOptions::new().access_mode(rights).custom_flags(FOLDERS_TOO).open(path).map(drop)
}
