//! The lock of one account between threads and processes, and what its holder may do.

use std::fs;
use std::time::Duration;

use super::{Account, Accounts, AccountsError, file, file_name};
use crate::locked_file::FolderLock;

/// Longer than a refresh may take, so that a waiter does not give up during one.
const WAIT_S_MAX: u64 = 45;
const PAUSE_MS: u64 = 10;

/// An exclusively locked account.
#[derive(Debug)]
pub struct LockedAccount {
    accounts: Accounts,
    service: String,
    file: FolderLock,
}

pub(super) fn attempt(
    accounts: &Accounts,
    service: &str,
) -> Result<Option<LockedAccount>, AccountsError> {
    let locked = accounts.files.try_lock(&file_name(service)?)?;
    let (accounts, service) = (accounts.clone(), service.to_owned());
    Ok(locked.map(|file| LockedAccount { accounts, service, file }))
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

impl LockedAccount {
    /// The current account; the previous holder of the lock may have changed it.
    pub fn load(&self) -> Result<Option<Account>, AccountsError> {
        self.accounts.load_locked(&self.service)
    }

    /// Stores the account; it is on disk when this returns.
    pub fn save(&self, account: &Account) -> Result<(), AccountsError> {
        let text = file::seal(account, &self.accounts.vault, &self.accounts.random)?;
        Ok(self.file.replace(&text, &self.accounts.random.name()?)?)
    }

    /// Removes the account, overwriting it first so that no copy remains on the disk.
    pub fn wipe(&self) -> Result<bool, AccountsError> {
        // The time of last use is deleted too.
        let _ = fs::remove_file(self.accounts.path(&self.service, "used")?);
        Ok(self.file.wipe()?)
    }
}
