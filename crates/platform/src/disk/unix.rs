//! Linux and macOS: `statvfs` and `access`.

use std::io;
use std::path::Path;

use rustix::fs::{Access, access, statvfs};

use super::Use;

pub(super) fn free_bytes(path: &Path) -> io::Result<u64> {
    let found = statvfs(path)?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

pub(super) fn check(path: &Path, wanted: Use) -> io::Result<()> {
    let wanted = match wanted {
        Use::Write => Access::WRITE_OK,
        Use::NewEntry => Access::WRITE_OK | Access::EXEC_OK,
        Use::ReadAndWrite => Access::READ_OK | Access::WRITE_OK,
        Use::WholeFolder => Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK,
    };
    Ok(access(path, wanted)?)
}
