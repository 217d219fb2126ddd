//! The owner's accounts at services: one file each, in which every secret is sealed by itself.
//! A file is replaced whole or not at all, and only by whoever holds the account's lock.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use crate::home::{Home, private};
use crate::random::{Random, RandomError};
use crate::secret::Secret;
use crate::vault::{Vault, VaultError};

mod file;
mod lock;
mod sign;

pub use lock::Locked;
pub use sign::Sign;

/// A service's name is part of a file name.
const NAME_BYTES_MAX: usize = 32;
/// Under these names an account keeps the client secret before the last change, and until when.
const PREVIOUS_SECRET: &str = "previous_client_secret";
const PREVIOUS_UNTIL: &str = "previous_client_secret_until_us";
/// Deliveries are repeated for an hour, and who changes a secret has it changed everywhere in a day.
const PREVIOUS_SECRET_US: i64 = 24 * 3_600 * 1_000_000;
/// A larger file is none of ours.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Everything known about one account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    pub service: String,
    pub client_id: Option<String>,
    pub client_secret: Option<Secret>,
    pub access: Option<Secret>,
    pub refresh: Option<Secret>,
    /// What services without OAuth want: keys and cookies, by name.
    pub extra: BTreeMap<String, Secret>,
    pub token_type: String,
    /// What was granted, which may be less than what was asked for.
    pub scopes: Vec<String>,
    pub expires_us: Option<i64>,
    /// When the owner consented.
    pub created_us: i64,
    pub refreshed_us: Option<i64>,
    /// Set while a refresh is under way. Found afterwards, it says that one was cut short.
    pub refreshing_us: Option<i64>,
    pub state: State,
}

/// Is the login good, as far as we were told?
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum State {
    Live,
    /// The service refuses it for good; only the owner can sign in again.
    Dead {
        since_us: i64,
        words: String,
    },
}

/// An account without its secrets, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Facts {
    pub service: String,
    pub client_id: Option<String>,
    /// Which secrets are kept, by the names of their columns.
    pub kept: Vec<String>,
    pub token_type: String,
    pub scopes: Vec<String>,
    pub expires_us: Option<i64>,
    pub created_us: i64,
    pub refreshed_us: Option<i64>,
    pub refreshing_us: Option<i64>,
    #[serde(flatten)]
    pub state: State,
}

impl Facts {
    pub fn has(&self, column: &str) -> bool {
        self.kept.iter().any(|kept| kept == column)
    }
}

/// Tells whether a file is still the one that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    inode: u64,
    changed_s: i64,
    changed_ns: i64,
    bytes: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum AccountsError {
    #[error("`{0}` is no name of a service")]
    Name(String),
    #[error(
        "the account file of `{service}` is damaged: {why}\nhint: `tollgate connect {service}` signs in again and writes a new one"
    )]
    Damaged { service: String, why: String },
    #[error(
        "a secret of the account `{service}` does not open\nhint: `tollgate connect {service}` signs in again"
    )]
    Sealed { service: String, source: VaultError },
    #[error(
        "the account `{service}` is held by another process for longer than {waited_s} seconds\nhint: `tollgate status` shows what runs"
    )]
    Busy { service: String, waited_s: u64 },
    #[error(transparent)]
    Vault(#[from] VaultError),
    #[error(transparent)]
    Random(#[from] RandomError),
    #[error("cannot {act} `{}`: {source}", .path.display())]
    Io { act: &'static str, path: PathBuf, source: io::Error },
}

/// The accounts of one home.
#[derive(Clone, Debug)]
pub struct Accounts {
    folder: PathBuf,
    vault: Arc<Vault>,
    random: Random,
}

impl Accounts {
    pub fn open(home: &Home, vault: Arc<Vault>, random: Random) -> Result<Accounts, AccountsError> {
        let folder = home.path().join("accounts");
        match private::make_folder(&folder) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
                return Err(io_error("make", &folder)(e));
            }
            _ => {}
        }
        Ok(Accounts { folder, vault, random })
    }

    /// The account of a service, secrets opened; nothing when it was never connected.
    pub fn load(&self, service: &str) -> Result<Option<Account>, AccountsError> {
        self.text(service)?.map(|text| file::open(service, &text, &self.vault)).transpose()
    }

    /// What is known about an account, without opening a secret.
    pub fn facts(&self, service: &str) -> Result<Option<Facts>, AccountsError> {
        self.text(service)?.map(|text| file::facts(service, &text)).transpose()
    }

    /// The services that have an account here, whether or not their files can be read.
    pub fn list(&self) -> Result<Vec<String>, AccountsError> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(io_error("read", &self.folder))? {
            let name = entry.map_err(io_error("read", &self.folder))?.file_name();
            let name = name.to_string_lossy();
            names.extend(name.strip_suffix(".json").filter(|n| is_name(n)).map(str::to_owned));
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Changes whenever the account does; costs one look at the folder.
    pub fn stamp(&self, service: &str) -> Option<Stamp> {
        let found = fs::symlink_metadata(self.path(service, "json").ok()?).ok()?;
        Some(Stamp {
            inode: found.ino(),
            changed_s: found.ctime(),
            changed_ns: found.ctime_nsec(),
            bytes: found.len(),
        })
    }

    /// The sign that tells all processes until when a service is not to be asked.
    pub fn sign(&self, service: &str) -> Result<Sign, AccountsError> {
        Ok(Sign::at(self.path(service, "pace")?))
    }

    /// Keeps when an account was last used, beside it: the account itself stays as it is, and so do
    /// those who have read it.
    pub fn note_use(&self, service: &str, now_us: i64) -> Result<(), AccountsError> {
        let path = self.path(service, "used")?;
        let written = private::ensure(&path).and_then(|()| fs::write(&path, now_us.to_string()));
        written.map_err(io_error("write", &path))
    }

    /// When an account was last used, to the minute.
    pub fn used_us(&self, service: &str) -> Option<i64> {
        let text = fs::read_to_string(self.path(service, "used").ok()?).ok()?;
        text.trim().parse().ok()
    }

    /// Waits for the lock of an account, a bounded time. Blocks the thread.
    pub fn lock(&self, service: &str) -> Result<Locked, AccountsError> {
        lock::wait(self, service)
    }

    /// The lock of an account, if nobody holds it.
    pub fn try_lock(&self, service: &str) -> Result<Option<Locked>, AccountsError> {
        lock::attempt(self, service)
    }

    fn text(&self, service: &str) -> Result<Option<String>, AccountsError> {
        let path = self.path(service, "json")?;
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(io_error("open", &path)(e)),
        };
        let mut text = String::new();
        match io::Read::read_to_string(&mut io::Read::take(file, FILE_BYTES_MAX), &mut text) {
            Ok(_) => Ok(Some(text)),
            Err(e) if e.kind() == io::ErrorKind::InvalidData => {
                Err(damaged(service, "it is not text"))
            }
            Err(e) => Err(io_error("read", &path)(e)),
        }
    }

    fn path(&self, service: &str, suffix: &str) -> Result<PathBuf, AccountsError> {
        if is_name(service) {
            return Ok(self.folder.join(format!("{service}.{suffix}")));
        }
        Err(AccountsError::Name(service.to_owned()))
    }
}

impl Account {
    /// A new account that holds nothing yet.
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
            state: State::Live,
        }
    }

    /// Keeps the client secret that `before` had, if this account has another one of the same app:
    /// what the service signed with it is under way for some time.
    pub fn remember_secret(&mut self, before: &Account) {
        let is_same_app = self.client_id == before.client_id;
        let Some(old) = before.client_secret.as_ref().filter(|_| is_same_app) else { return };
        if self.client_secret.as_ref().is_some_and(|new| new != old) {
            let until_us = self.created_us.saturating_add(PREVIOUS_SECRET_US);
            self.extra.insert(PREVIOUS_SECRET.to_owned(), old.clone());
            self.extra.insert(PREVIOUS_UNTIL.to_owned(), Secret::new(until_us.to_string()));
        }
    }

    /// The client secret before the last change, as long as it still counts.
    pub fn previous_secret(&self, now_us: i64) -> Option<&Secret> {
        let until_us: i64 = self.extra.get(PREVIOUS_UNTIL)?.expose().parse().ok()?;
        self.extra.get(PREVIOUS_SECRET).filter(|_| now_us < until_us)
    }

    /// Every secret of the account, for the scrubber of texts that may quote one.
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

fn damaged(service: &str, why: impl Into<String>) -> AccountsError {
    AccountsError::Damaged { service: service.to_owned(), why: why.into() }
}

fn io_error(act: &'static str, path: &Path) -> impl FnOnce(io::Error) -> AccountsError {
    let path = path.to_owned();
    move |source| AccountsError::Io { act, path, source }
}

#[cfg(test)]
mod tests;
