//! Linux: the execute bits, and the kernel's name for our own program.

use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

pub(super) fn own() -> io::Result<PathBuf> {
    let kernel_name = Path::new("/proc/self/exe");
    if kernel_name.exists() { Ok(kernel_name.to_owned()) } else { std::env::current_exe() }
}

/// The inode of our PID namespace.
pub(super) fn pid_space() -> u64 {
    std::fs::metadata("/proc/self/ns/pid").map_or(0, |space| space.ino())
}

pub(super) fn at(path: &Path) -> Option<PathBuf> {
    let found = path.metadata().ok()?;
    (found.is_file() && found.permissions().mode() & 0o111 != 0).then(|| path.to_owned())
}

pub(super) const BROWSER: &[&str] = &["xdg-open"];
