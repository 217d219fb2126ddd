//! The lock of one account between threads and processes, and what its holder may do.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Account, Accounts, AccountsError, file, io_error};
use crate::home::private;

/// Longer than a refresh may take, so that a waiter does not give up during one.
const WAIT_S_MAX: u64 = 45;
const PAUSE_MS: u64 = 10;

/// An exclusively locked account. The lock is released on drop and when the process dies.
#[derive(Debug)]
pub struct LockedAccount {
    accounts: Accounts,
    service: String,
    path: PathBuf,
    _lock: File,
}

pub(super) fn attempt(
    accounts: &Accounts,
    service: &str,
) -> Result<Option<LockedAccount>, AccountsError> {
    let lock_path = accounts.path(service, "lock")?;
    let lock = open(&lock_path).map_err(io_error("open", &lock_path))?;
    match lock.try_lock() {
        Ok(()) => Ok(Some(LockedAccount {
            accounts: accounts.clone(),
            service: service.to_owned(),
            path: accounts.path(service, "json")?,
            _lock: lock,
        })),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(e)) => Err(io_error("lock", &lock_path)(e)),
    }
}

pub(super) fn wait(accounts: &Accounts, service: &str) -> Result<LockedAccount, AccountsError> {
    for _ in 0..WAIT_S_MAX * 1_000 / PAUSE_MS {
        if let Some(locked) = attempt(accounts, service)? {
            return Ok(locked);
        }
        std::thread::sleep(Duration::from_millis(PAUSE_MS));
    }
    Err(AccountsError::Busy { service: service.to_owned(), waited_s: WAIT_S_MAX })
}

/// The lock file is never removed: two processes that lock two files of one name would not exclude
/// each other.
fn open(path: &Path) -> io::Result<File> {
    private::ensure(path)?;
    OpenOptions::new().write(true).open(path)
}

impl LockedAccount {
    /// The current account; the previous holder of the lock may have changed it.
    pub fn load(&self) -> Result<Option<Account>, AccountsError> {
        self.accounts.load(&self.service)
    }

    /// Stores the account; it is on disk when this returns.
    pub fn save(&self, account: &Account) -> Result<(), AccountsError> {
        let text = file::seal(account, &self.accounts.vault, &self.accounts.random)?;
        self.sweep();
        let unique = self.accounts.random.name()?;
        private::replace(&self.path, text.as_bytes(), &unique)
            .map_err(io_error("write", &self.path))
    }

    /// Removes the account, overwriting it first so that no copy remains on the disk.
    pub fn wipe(&self) -> Result<bool, AccountsError> {
        self.sweep();
        // The time of last use is deleted too.
        let _ = fs::remove_file(self.accounts.path(&self.service, "used")?);
        match overwrite(&self.path) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(e) => return Err(io_error("overwrite", &self.path)(e)),
        }
        private::remove(&self.path).map_err(io_error("remove", &self.path))?;
        Ok(true)
    }

    /// Removes drafts of a killed process. No other process writes one while we hold the lock.
    fn sweep(&self) {
        let Ok(entries) = fs::read_dir(&self.accounts.folder) else { return };
        let start = format!("{}.json.", self.service);
        for entry in entries.flatten() {
            if entry.file_name().to_string_lossy().starts_with(&start) {
                // What cannot be removed now is retried at the next change.
                let _ = overwrite(&entry.path()).and_then(|()| fs::remove_file(entry.path()));
            }
        }
    }
}

fn overwrite(path: &Path) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).open(path)?;
    let mut left = file.metadata()?.len();
    let zeros = [0; 4096];
    while left > 0 {
        let part = zeros.get(..usize::try_from(left).unwrap_or(zeros.len()).min(zeros.len()));
        let part = part.unwrap_or(&zeros);
        file.write_all(part)?;
        left = left.saturating_sub(part.len() as u64);
    }
    file.sync_all()
}
