//! Which gates run on a home: each one holds a lock on a small file of its own, so that what a dead
//! one left behind is told from what a living one says.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

/// What a running gate says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Facts {
    pub(crate) pid: u32,
    /// `up`, `stdio` or `wrap`.
    pub(crate) command: String,
    pub(crate) started_us: i64,
    /// Where clients reach it; none for stdio.
    pub(crate) url: Option<String>,
    pub(crate) durability: String,
    pub(crate) version: String,
}

/// The mark of this process. Removed when dropped; void when the process dies.
pub(crate) struct Mark {
    path: PathBuf,
    /// The lock lives as long as the open file.
    _file: File,
}

impl Mark {
    pub(crate) fn set(home: &Path, facts: &Facts) -> Result<Mark> {
        let folder = folder(home);
        make_folder(&folder)?;
        let path = folder.join(format!("{}.json", facts.pid));
        let shown = path.display().to_string();
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(true)
            .write(true)
            .mode(0o600)
            .open(&path)
            .with_context(|| format!("cannot write `{shown}`"))?;
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)
            .with_context(|| format!("cannot lock `{shown}`"))?;
        file.write_all(&serde_json::to_vec(facts)?)?;
        Ok(Mark { path, _file: file })
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Every gate that runs on this home now, oldest first.
pub(crate) fn all(home: &Path) -> Vec<Facts> {
    let Ok(entries) = fs::read_dir(folder(home)) else { return Vec::new() };
    let mut running: Vec<Facts> =
        entries.flatten().filter_map(|entry| living(&entry.path())).collect();
    running.sort_by_key(|facts| facts.started_us);
    running
}

/// What the file says, if whoever wrote it still lives. What a dead one left is swept away.
fn living(path: &Path) -> Option<Facts> {
    const BYTES_MAX: u64 = 16 << 10;
    let file = File::open(path).ok()?;
    if rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared).is_ok() {
        let _ = fs::remove_file(path);
        return None;
    }
    let mut text = String::new();
    (&file).take(BYTES_MAX).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

fn folder(home: &Path) -> PathBuf {
    home.join("running")
}

fn make_folder(folder: &Path) -> Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(e).with_context(|| format!("cannot make `{}`", folder.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn facts() -> Facts {
        Facts {
            pid: std::process::id(),
            command: "up".into(),
            started_us: 1,
            url: Some("http://127.0.0.1:4180/mcp".into()),
            durability: "process".into(),
            version: "0".into(),
        }
    }

    #[test]
    fn a_gate_is_listed_while_it_lives_and_swept_away_after() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(all(home.path()), []);
        let mark = Mark::set(home.path(), &facts()).unwrap();
        assert_eq!(all(home.path()), [facts()]);
        drop(mark);
        assert_eq!(all(home.path()), []);
    }

    #[test]
    fn what_a_killed_gate_left_behind_is_not_believed() {
        let home = tempfile::tempdir().unwrap();
        make_folder(&folder(home.path())).unwrap();
        let left = folder(home.path()).join("1.json");
        fs::write(&left, serde_json::to_vec(&facts()).unwrap()).unwrap();
        assert_eq!(all(home.path()), []);
        assert!(!left.exists());
    }
}
