//! Deletes everything a home holds. Files are written over before they are removed, the key first:
//! whatever is sealed cannot be opened any more even where a drive keeps old blocks.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::home::private;

/// What lies in a home, in the order in which it goes: beginnings of names, and words for the owner.
const OURS: &[(&str, &str)] = &[
    ("vault.key", "the key that seals accounts and credentials"),
    ("accounts", "accounts with their tokens"),
    ("data.db", "records fetched from your accounts"),
    ("exports", "files that agents exported"),
    ("audit", "the audit log"),
    ("ledger", "the audit log"),
    ("approvals", "calls that wait for a human"),
    ("catalog", "the catalogue"),
    ("backups", "copies made before upgrades"),
    ("logs", "logs"),
    ("running", "marks of running gates"),
    ("demo", "the demonstration"),
    ("tollgate.toml", "settings"),
    ("gate.db", "servers, policies, grants and pins"),
];

/// What only a home has. `gate.db` goes last, so that a purge that was cut short can be run again.
const MARKS: &[&str] = &["vault.key", "gate.db", "gate.db.lock", "data.db.lock"];

/// Folders of our own are not deeper.
const DEPTH_MAX: usize = 16;

/// One thing that would be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    pub path: PathBuf,
    /// What it is, for the owner.
    pub what: &'static str,
    pub files: u64,
    pub bytes: u64,
}

/// Everything that lies in a home.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    home: PathBuf,
    pub items: Vec<Item>,
    /// Files that are not tollgate's; they stay.
    pub others: Vec<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
#[error("cannot delete `{}`: {source}\nhint: run the command again; what is gone stays gone", .path.display())]
pub struct PurgeError {
    path: PathBuf,
    source: io::Error,
}

/// Is a folder a home? In another one named by mistake, `logs` and `backups` are somebody's own.
pub fn is_home(folder: &Path) -> bool {
    MARKS.iter().any(|name| folder.join(name).is_file())
}

impl Plan {
    /// Looks at a home and changes nothing.
    pub fn of(home: &Path) -> Result<Plan, PurgeError> {
        let mut plan = Plan { home: home.to_owned(), ..Plan::default() };
        for entry in fs::read_dir(home).map_err(fault(home))? {
            let path = entry.map_err(fault(home))?.path();
            match what(&path) {
                Some(what) => {
                    let (mut files, mut bytes) = (0, 0);
                    measure(&path, DEPTH_MAX, &mut files, &mut bytes).map_err(fault(&path))?;
                    plan.items.push(Item { path, what, files, bytes });
                }
                None => plan.others.push(path),
            }
        }
        plan.items.sort_by_key(|item| (rank(&item.path), item.path.clone()));
        plan.others.sort();
        Ok(plan)
    }

    /// Deletes it, and the home itself when nothing else is in it. Answers how many files went.
    pub fn run(&self, told: &mut dyn FnMut(u64)) -> Result<u64, PurgeError> {
        let mut gone = 0;
        for item in &self.items {
            remove(&item.path, DEPTH_MAX, &mut gone, told).map_err(fault(&item.path))?;
        }
        sync(&self.home).map_err(fault(&self.home))?;
        if self.others.is_empty() {
            match fs::remove_dir(&self.home) {
                // Something came to lie there in the meantime.
                Err(e) if e.kind() == io::ErrorKind::DirectoryNotEmpty => {}
                removed => removed.map_err(fault(&self.home))?,
            }
        }
        Ok(gone)
    }
}

fn fault(path: &Path) -> impl FnOnce(io::Error) -> PurgeError {
    let path = path.to_owned();
    move |source| PurgeError { path, source }
}

fn place(path: &Path) -> Option<usize> {
    let name = path.file_name()?.to_string_lossy();
    OURS.iter().position(|(ours, _)| name.starts_with(ours))
}

fn what(path: &Path) -> Option<&'static str> {
    OURS.get(place(path)?).map(|(_, what)| *what)
}

fn rank(path: &Path) -> usize {
    place(path).unwrap_or(usize::MAX)
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
    gone: &mut u64,
    told: &mut dyn FnMut(u64),
) -> io::Result<()> {
    let found = fs::symlink_metadata(path)?;
    if found.is_dir() {
        for entry in fs::read_dir(path)? {
            remove(&entry?.path(), deeper(depth_left)?, gone, told)?;
        }
        return fs::remove_dir(path);
    }
    if found.is_file() {
        write_over(path, found.len())?;
    }
    fs::remove_file(path)?;
    *gone += 1;
    told(*gone);
    Ok(())
}

fn write_over(path: &Path, bytes: u64) -> io::Result<()> {
    const NO_FOLLOW: i32 = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    let mut file = OpenOptions::new().write(true).custom_flags(NO_FOLLOW).open(path)?;
    private::write_over(&mut file, bytes)
}

fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
