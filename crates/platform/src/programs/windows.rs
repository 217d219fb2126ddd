//! Windows: the extension makes a program.

use std::io;
use std::path::{Path, PathBuf};

/// What `CreateProcess` runs, in the order in which shells try them. Scripts of `cmd` are started by the standard
/// library with arguments quoted for them.
const EXTENSIONS: [&str; 4] = ["com", "exe", "bat", "cmd"];

pub(super) fn own() -> io::Result<PathBuf> {
    std::env::current_exe()
}

/// All processes of the machine have numbers of their own.
pub(super) fn pid_space() -> u64 {
    0
}

pub(super) fn at(path: &Path) -> Option<PathBuf> {
    let has_extension = path
        .extension()
        .and_then(|extension| extension.to_str())
        .is_some_and(|extension| EXTENSIONS.iter().any(|e| e.eq_ignore_ascii_case(extension)));
    if has_extension && path.is_file() {
        return Some(path.to_owned());
    }
    EXTENSIONS.iter().find_map(|extension| {
        let mut name = path.file_name()?.to_owned();
        name.push(".");
        name.push(extension);
        Some(path.with_file_name(name)).filter(|path| path.is_file())
    })
}

pub(super) const BROWSER: &[&str] = &["rundll32", "url.dll,FileProtocolHandler"];
