//! Programs: our own, and whether a file is one that may be run.

use std::io;
use std::path::{Path, PathBuf};

#[cfg_attr(target_os = "linux", path = "programs/linux.rs")]
#[cfg_attr(target_os = "macos", path = "programs/macos.rs")]
#[cfg_attr(windows, path = "programs/windows.rs")]
mod system;

/// How to start our own program again. On Linux it stays right when the file is replaced by an upgrade.
pub fn own() -> io::Result<PathBuf> {
    system::own()
}

/// Distinguishes processes of one number: containers that share a folder may use the same. 0 if the system has no
/// such thing, or does not tell.
pub fn pid_space() -> u64 {
    system::pid_space()
}

/// The program that a path without its last extension leads to: itself, or with an extension that the system adds.
/// None if there is no program that may be run.
pub fn at(path: &Path) -> Option<PathBuf> {
    system::at(path)
}

/// The program of this name in the folders of a `PATH`, as a shell finds it.
pub fn find(name: &Path, search_path: &std::ffi::OsStr) -> Option<PathBuf> {
    std::env::split_paths(search_path).find_map(|folder| at(&folder.join(name)))
}

/// The program, with its first arguments, that opens an address in the owner's browser.
pub const BROWSER: &[&str] = system::BROWSER;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn our_own_program_is_found_and_a_text_is_no_program() {
        assert!(at(&own().unwrap()).is_some());
        let folder = tempfile::tempdir().unwrap();
        let text = folder.path().join("text");
        std::fs::write(&text, "text").unwrap();
        assert_eq!(at(&text), None);
        assert_eq!(at(folder.path()), None);
        assert_eq!(find(Path::new("text"), folder.path().as_os_str()), None);
    }
}
