//! The owner's accounts at services: one file each, with every secret sealed separately. A file is
//! replaced atomically, and only by the holder of the account's lock.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;

use crate::home::{Home, private};
use crate::locked_file::{self, FileError, Folder, io_error};
use crate::random::{Random, RandomError};
use crate::registry::{Registry, SharedFolder};
use crate::secret::Secret;
use crate::vault::{Vault, VaultError};

mod back_off;
mod file;
mod lock;

pub use crate::locked_file::FileVersion;
pub use back_off::BackOffMarker;
pub use lock::LockedAccount;

/// The name of a service is part of a file name.
const NAME_BYTES_MAX: usize = 32;
/// The columns of the previous client secret and of the time until which it is valid.
const PREVIOUS_SECRET: &str = "previous_client_secret";
const PREVIOUS_UNTIL: &str = "previous_client_secret_until_us";
/// Services retry webhooks for an hour, and a changed secret is in use everywhere within a day.
const PREVIOUS_SECRET_US: i64 = 24 * 3_600 * 1_000_000;

/// Everything known about one account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    pub service: String,
    pub client_id: Option<String>,
    pub client_secret: Option<Secret>,
    pub access: Option<Secret>,
    pub refresh: Option<Secret>,
    /// Keys and cookies by name, for services without OAuth.
    pub extra: BTreeMap<String, Secret>,
    pub token_type: String,
    /// The granted scopes, which may be fewer than requested.
    pub scopes: Vec<String>,
    pub expires_us: Option<i64>,
    /// When the owner consented.
    pub created_us: i64,
    pub refreshed_us: Option<i64>,
    /// Set while a refresh is in flight. If found later, that refresh was interrupted.
    pub refreshing_us: Option<i64>,
    pub state: AccountState,
}

/// Whether the sign-in is valid, as far as known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum AccountState {
    Live,
    /// The service rejects it permanently; the owner must sign in again.
    Dead {
        since_us: i64,
        #[serde(rename = "words")]
        message: String,
    },
}

/// An account without its secrets, for display.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AccountSummary {
    pub service: String,
    pub client_id: Option<String>,
    /// Which secrets are stored, by column name.
    pub kept: Vec<String>,
    pub token_type: String,
    pub scopes: Vec<String>,
    pub expires_us: Option<i64>,
    pub created_us: i64,
    pub refreshed_us: Option<i64>,
    pub refreshing_us: Option<i64>,
    #[serde(flatten)]
    pub state: AccountState,
}

impl AccountSummary {
    pub fn has(&self, column: &str) -> bool {
        self.kept.iter().any(|kept| kept == column)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum AccountsError {
    #[error("`{0}` is not a valid service name")]
    Name(String),
    #[error(
        "the account file of `{service}` is damaged: {why}\nhint: `tollgate connect {service}` signs in again and writes a new one"
    )]
    Damaged { service: String, why: String },
    #[error(
        "a secret of the account `{service}` cannot be opened\nhint: `tollgate connect {service}` signs in again"
    )]
    Sealed { service: String, source: VaultError },
    #[error(
        "the account `{service}` was locked by another process for more than {waited_s} seconds\nhint: `tollgate status` shows what is running"
    )]
    Busy { service: String, waited_s: u64 },
    #[error(transparent)]
    Vault(#[from] VaultError),
    #[error(transparent)]
    Random(#[from] RandomError),
    #[error(transparent)]
    Io(#[from] FileError),
}

/// The accounts of one home, or of all homes that share a store.
#[derive(Clone, Debug)]
pub struct Accounts {
    files: Folder,
    /// For what concerns this machine alone: back-off and last use.
    folder: PathBuf,
    vault: Arc<Vault>,
    random: Random,
}

impl Accounts {
    pub fn open(home: &Home, vault: Arc<Vault>, random: Random) -> Result<Accounts, AccountsError> {
        let folder = home.path().join("accounts");
        locked_file::make_folder(&folder)?;
        Ok(Accounts { files: Folder::Home(folder.clone()), folder, vault, random })
    }

    /// The accounts that belong to a registry: in its home, or on its store.
    pub fn of(
        home: &Home,
        registry: &Arc<Registry>,
        random: Random,
    ) -> Result<Accounts, AccountsError> {
        let accounts = Accounts::open(home, Arc::clone(registry.vault()), random)?;
        Ok(match SharedFolder::of(registry, "accounts") {
            Some(folder) => Accounts { files: Folder::Shared(folder), ..accounts },
            None => accounts,
        })
    }

    /// The account of a service with its secrets opened; none if it was never connected.
    pub fn load(&self, service: &str) -> Result<Option<Account>, AccountsError> {
        self.text(service)?.map(|text| file::open(service, &text, &self.vault)).transpose()
    }

    /// The summary of an account, without opening a secret.
    pub fn summary(&self, service: &str) -> Result<Option<AccountSummary>, AccountsError> {
        self.text(service)?.map(|text| file::summary(service, &text)).transpose()
    }

    /// The services with an account here, whether or not their files are readable.
    pub fn list(&self) -> Result<Vec<String>, AccountsError> {
        Ok(self.files.names(is_name)?)
    }

    /// Changes whenever the account changes; costs one `stat`, or one read of a local row.
    pub fn version(&self, service: &str) -> Option<FileVersion> {
        self.files.version(&file_name(service).ok()?)
    }

    /// The back-off marker, which tells all processes until when not to call a service.
    pub fn back_off(&self, service: &str) -> Result<BackOffMarker, AccountsError> {
        Ok(BackOffMarker::at(self.path(service, "pace")?))
    }

    /// Records when an account was last used in a separate file, so that the account file itself
    /// does not change.
    pub fn note_use(&self, service: &str, now_us: i64) -> Result<(), AccountsError> {
        let path = self.path(service, "used")?;
        let written = private::ensure(&path).and_then(|()| fs::write(&path, now_us.to_string()));
        Ok(written.map_err(io_error("write", &path))?)
    }

    /// When an account was last used, with a resolution of one minute.
    pub fn used_us(&self, service: &str) -> Option<i64> {
        let text = fs::read_to_string(self.path(service, "used").ok()?).ok()?;
        text.trim().parse().ok()
    }

    /// Copies all accounts, for a home that moves. Returns their number.
    pub fn copy_to(&self, target: &Accounts) -> Result<usize, AccountsError> {
        Ok(self.files.copy_to(&target.files, is_name, &self.random.name()?)?)
    }

    /// Waits for the lock of an account with a timeout. Blocks the thread.
    pub fn lock(&self, service: &str) -> Result<LockedAccount, AccountsError> {
        lock::wait(self, service)
    }

    /// The lock of an account, if it is free.
    pub fn try_lock(&self, service: &str) -> Result<Option<LockedAccount>, AccountsError> {
        lock::attempt(self, service)
    }

    fn text(&self, service: &str) -> Result<Option<String>, AccountsError> {
        self.files.read(&file_name(service)?).map_err(|error| unreadable(service, error))
    }

    /// The account as the holder of its lock must see it.
    fn load_locked(&self, service: &str) -> Result<Option<Account>, AccountsError> {
        let text = self.files.read_locked(&file_name(service)?);
        let text = text.map_err(|error| unreadable(service, error))?;
        text.map(|text| file::open(service, &text, &self.vault)).transpose()
    }

    fn path(&self, service: &str, suffix: &str) -> Result<PathBuf, AccountsError> {
        if is_name(service) {
            return Ok(self.folder.join(format!("{service}.{suffix}")));
        }
        Err(AccountsError::Name(service.to_owned()))
    }
}

impl Account {
    /// A new, empty account.
    pub fn new(service: &str, now_us: i64) -> Account {
        Account {
            service: service.to_owned(),
            client_id: None,
            client_secret: None,
            access: None,
            refresh: None,
            extra: BTreeMap::new(),
            token_type: "bearer".to_owned(),
            scopes: Vec::new(),
            expires_us: None,
            created_us: now_us,
            refreshed_us: None,
            refreshing_us: None,
            state: AccountState::Live,
        }
    }

    /// Keeps the previous client secret if `before` had another one of the same app, because
    /// webhooks signed with it may still be in transit.
    pub fn remember_secret(&mut self, before: &Account) {
        let is_same_app = self.client_id == before.client_id;
        let Some(old) = before.client_secret.as_ref().filter(|_| is_same_app) else { return };
        if self.client_secret.as_ref().is_some_and(|new| new != old) {
            let until_us = self.created_us.saturating_add(PREVIOUS_SECRET_US);
            self.extra.insert(PREVIOUS_SECRET.to_owned(), old.clone());
            self.extra.insert(PREVIOUS_UNTIL.to_owned(), Secret::new(until_us.to_string()));
        }
    }

    /// The previous client secret, while it is still valid.
    pub fn previous_secret(&self, now_us: i64) -> Option<&Secret> {
        let until_us: i64 = self.extra.get(PREVIOUS_UNTIL)?.expose().parse().ok()?;
        self.extra.get(PREVIOUS_SECRET).filter(|_| now_us < until_us)
    }

    /// All secrets of the account, for redacting texts that may quote one.
    pub fn secrets(&self) -> impl Iterator<Item = &Secret> {
        let tokens = [&self.client_secret, &self.access, &self.refresh];
        tokens.into_iter().flatten().chain(self.extra.values())
    }
}

fn is_name(name: &str) -> bool {
    let fits =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
    !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.bytes().all(fits)
}

fn file_name(service: &str) -> Result<String, AccountsError> {
    if is_name(service) {
        return Ok(format!("{service}.json"));
    }
    Err(AccountsError::Name(service.to_owned()))
}

fn unreadable(service: &str, error: FileError) -> AccountsError {
    if error.is_invalid() { damaged(service, "it is not text") } else { error.into() }
}

fn damaged(service: &str, why: impl Into<String>) -> AccountsError {
    AccountsError::Damaged { service: service.to_owned(), why: why.into() }
}

#[cfg(test)]
mod tests;
