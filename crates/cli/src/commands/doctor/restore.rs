//! How to get back a `gate.db` that is gone or damaged: the copy that an upgrade made, or a new file.

use std::fs;
use std::path::{Path, PathBuf};

use crate::hints::word;

/// How to get an intact `gate.db`: the newest copy, which an upgrade made, or a new one.
pub(super) fn restore_hint(home: &Path) -> String {
    if let Some(copy) = newest_copy(home) {
        return copy_back(home, &copy);
    }
    let gate = word(home.join("gate.db"));
    let [aside, log_aside] = ["gate.db.damaged", "gate.db.damaged-wal"].map(|n| word(home.join(n)));
    let log = write_ahead_log(home).map(|log| format!(" && mv {} {log_aside}", word(log)));
    format!(
        "there is no copy in `backups/`; restore your own copy, or `mv {gate} {aside}{}` and add servers, policies and grants again",
        log.unwrap_or_default()
    )
}

pub(super) fn copy_back(home: &Path, copy: &Path) -> String {
    let log = write_ahead_log(home).map(|log| format!(" && rm {}", word(log)));
    format!(
        "stop the gate, then `cp {} {}{}`: the copy from before the last upgrade",
        word(copy),
        word(home.join("gate.db")),
        log.unwrap_or_default()
    )
}

/// The write-ahead log of a killed process: a restored database would be read with it.
fn write_ahead_log(home: &Path) -> Option<PathBuf> {
    Some(home.join("gate.db-wal")).filter(|log| log.exists())
}

/// The newest copy of `gate.db`, which an upgrade made.
pub(super) fn newest_copy(home: &Path) -> Option<PathBuf> {
    let copies = fs::read_dir(home.join("backups")).into_iter().flatten().flatten();
    let copies = copies.filter(|copy| copy.file_name().to_string_lossy().starts_with("gate-"));
    let made = |copy: &fs::DirEntry| copy.metadata().and_then(|found| found.modified()).ok();
    copies.max_by_key(made).map(|copy| copy.path())
}
