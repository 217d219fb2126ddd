//! macOS: the execute bits, and the path of our own program.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

pub(super) fn own() -> io::Result<PathBuf> {
    std::env::current_exe()
}

/// All processes of the machine have numbers of their own.
pub(super) fn pid_space() -> u64 {
    0
}

pub(super) fn at(path: &Path) -> Option<PathBuf> {
    let found = path.metadata().ok()?;
    (found.is_file() && found.permissions().mode() & 0o111 != 0).then(|| path.to_owned())
}

pub(super) const BROWSER: &[&str] = &["open"];
