//! Deletes a home. Files are overwritten before they are removed, the key first, so that sealed
//! data cannot be opened even where a drive keeps old blocks.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use crate::home::private;

/// The content of a home in the order of deletion: name prefixes with descriptions for the owner.
const OURS: &[(&str, &str)] = &[
    ("vault.key", "the key that seals accounts and credentials"),
    ("accounts", "accounts with their tokens"),
    ("logins", "sign-ins at servers with their tokens"),
    ("captures.db", "captured arguments of calls"),
    ("data.db", "records fetched from your accounts"),
    ("exports", "files that agents exported"),
    ("bundles", "files of servers added from bundles"),
    ("audit", "the audit log"),
    ("ledger", "the audit log"),
    ("approvals", "calls that wait for approval"),
    ("catalog", "the catalogue"),
    ("backups", "copies made before upgrades"),
    ("logs", "logs"),
    ("running", "markers of running gates"),
    ("replicas", "copies of a registry on Postgres, which stays"),
    ("demo", "the demo"),
    ("tollgate.toml", "settings"),
    ("gate.db", "servers, policies, grants and pins"),
];

/// What only a home has. `gate.db` goes last, so that an interrupted purge can be run again.
const MARKS: &[&str] = &["vault.key", "gate.db", "gate.db.lock", "data.db.lock"];

/// Our folders are at most this deep. A bundle may have 64 folders in each other.
const DEPTH_MAX: usize = 80;

/// One item that would be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PurgeItem {
    pub path: PathBuf,
    /// What it is, for the owner.
    pub what: &'static str,
    pub files: u64,
    pub bytes: u64,
}

/// The content of a home.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PurgePlan {
    home: PathBuf,
    pub items: Vec<PurgeItem>,
    /// Files of other programs; they stay.
    pub others: Vec<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
#[error("cannot delete `{}`: {source}\nhint: run the command again; deleted files stay deleted", .path.display())]
pub struct PurgeError {
    path: PathBuf,
    source: io::Error,
}

/// Whether a folder is a home. In any other folder, `logs` and `backups` belong to someone else.
pub fn is_home(folder: &Path) -> bool {
    MARKS.iter().any(|name| folder.join(name).is_file())
}

impl PurgePlan {
    /// Lists a home and changes nothing.
    pub fn of(home: &Path) -> Result<PurgePlan, PurgeError> {
        let mut plan = PurgePlan { home: home.to_owned(), ..PurgePlan::default() };
        for entry in fs::read_dir(home).map_err(fault(home))? {
            let path = entry.map_err(fault(home))?.path();
            match what(&path) {
                Some(what) => {
                    let (mut files, mut bytes) = (0, 0);
                    measure(&path, DEPTH_MAX, &mut files, &mut bytes).map_err(fault(&path))?;
                    plan.items.push(PurgeItem { path, what, files, bytes });
                }
                None => plan.others.push(path),
            }
        }
        plan.items.sort_by_key(|item| (rank(&item.path), item.path.clone()));
        plan.others.sort();
        Ok(plan)
    }

    /// Deletes it, and the home itself if it is then empty. Returns the number of deleted files.
    pub fn run(&self, progress: &mut dyn FnMut(u64)) -> Result<u64, PurgeError> {
        let mut removed = 0;
        for item in &self.items {
            remove(&item.path, DEPTH_MAX, &mut removed, progress).map_err(fault(&item.path))?;
        }
        sync(&self.home).map_err(fault(&self.home))?;
        if self.others.is_empty() {
            match fs::remove_dir(&self.home) {
                // Another file appeared there.
                Err(e) if e.kind() == io::ErrorKind::DirectoryNotEmpty => {}
                removed => removed.map_err(fault(&self.home))?,
            }
        }
        Ok(removed)
    }
}

fn fault(path: &Path) -> impl FnOnce(io::Error) -> PurgeError {
    let path = path.to_owned();
    move |source| PurgeError { path, source }
}

fn position(path: &Path) -> Option<usize> {
    let name = path.file_name()?.to_string_lossy();
    OURS.iter().position(|(ours, _)| name.starts_with(ours))
}

fn what(path: &Path) -> Option<&'static str> {
    OURS.get(position(path)?).map(|(_, what)| *what)
}

fn rank(path: &Path) -> usize {
    position(path).unwrap_or(usize::MAX)
}

fn measure(path: &Path, depth_left: usize, files: &mut u64, bytes: &mut u64) -> io::Result<()> {
    let found = fs::symlink_metadata(path)?;
    if !found.is_dir() {
        *files += 1;
        *bytes += if found.is_file() { found.len() } else { 0 };
        return Ok(());
    }
    for entry in fs::read_dir(path)? {
        measure(&entry?.path(), deeper(depth_left)?, files, bytes)?;
    }
    Ok(())
}

fn deeper(depth_left: usize) -> io::Result<usize> {
    depth_left.checked_sub(1).ok_or_else(|| io::Error::other("the folders are too deep"))
}

/// Links are removed, never followed.
fn remove(
    path: &Path,
    depth_left: usize,
    removed: &mut u64,
    progress: &mut dyn FnMut(u64),
) -> io::Result<()> {
    let found = fs::symlink_metadata(path)?;
    if found.is_dir() {
        for entry in fs::read_dir(path)? {
            remove(&entry?.path(), deeper(depth_left)?, removed, progress)?;
        }
        return fs::remove_dir(path);
    }
    if found.is_file() {
        write_over(path, found.len())?;
    }
    fs::remove_file(path)?;
    *removed += 1;
    progress(*removed);
    Ok(())
}

fn write_over(path: &Path, bytes: u64) -> io::Result<()> {
    let mut file = platform::files::open_no_follow(OpenOptions::new().write(true), path)?;
    private::write_over(&mut file, bytes)
}

fn sync(folder: &Path) -> io::Result<()> {
    platform::files::sync_folder(folder)
}

#[cfg(test)]
mod tests {
    use super::OURS;

    /// Parts of homes that no version since the first writes.
    const FORMER: &[&str] = &["ledger", "approvals", "demo"];

    #[test]
    fn the_privacy_page_names_everything_in_a_home() {
        let page = include_str!("../../../PRIVACY.md");
        let names = OURS.iter().map(|(name, _)| *name).filter(|name| !FORMER.contains(name));
        let missing: Vec<&str> =
            names.filter(|name| !page.contains(&format!("| `{name}"))).collect();
        assert!(missing.is_empty(), "PRIVACY.md does not say what {missing:?} holds");
    }
}
