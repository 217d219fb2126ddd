//! The gate's sign-ins at servers: one file per login with its tokens sealed, the client known at each issuer, and
//! the sign-ins in progress. Files are replaced atomically; a login only by the holder of its lock.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use url::Url;

use crate::hex;
use crate::home::Home;
use crate::locked_file::{FileError, FileVersion, Folder, FolderLock};
use crate::random::{Random, RandomError};
use crate::registry::{Registry, Server, SharedFolder, Target};
use crate::secret::Secret;
use crate::vault::{Vault, VaultError};

mod attempts;
mod clients;
mod file;

pub use attempts::{AttemptOutcome, StoredAttempt};
pub use clients::KnownClient;

/// Whose login it is: one for all grants of a server, or one per grant.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LoginKey {
    pub server: String,
    /// The id of the grant, for a server with `per_grant`.
    pub grant: Option<String>,
}

impl LoginKey {
    pub fn shared(server: &str) -> LoginKey {
        LoginKey { server: server.to_owned(), grant: None }
    }

    pub fn of_grant(server: &str, grant: &str) -> LoginKey {
        LoginKey { server: server.to_owned(), grant: Some(grant.to_owned()) }
    }

    /// The name of its files. A grant id may hold any character, so its hash is used.
    pub fn file_name(&self) -> String {
        match &self.grant {
            None => self.server.clone(),
            Some(grant) => format!("{}@{}", self.server, short_hash(grant)),
        }
    }
}

/// A login at one server: what is shown of it, and its tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    pub facts: LoginFacts,
    pub tokens: LoginTokens,
}

/// A login without its secrets. Issuer and endpoints are stored with the tokens, so that a refresh goes where the
/// tokens came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoginFacts {
    pub server: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<String>,
    /// The address of the server when it was signed in to.
    pub url: String,
    pub issuer: String,
    pub token_endpoint: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revocation_endpoint: Option<String>,
    /// Whether the server is in a private network, so that its issuer may be, too.
    #[serde(default)]
    pub is_private: bool,
    /// How the client is known to the issuer.
    pub mode: String,
    #[serde(default)]
    pub client_id: String,
    #[serde(default)]
    pub auth_method: String,
    /// The `resource` parameter (RFC 8707); none for servers that refuse it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    #[serde(default)]
    pub scopes_requested: Vec<String>,
    #[serde(default)]
    pub scopes_granted: Vec<String>,
    #[serde(default)]
    pub expires_us: Option<i64>,
    pub created_us: i64,
    #[serde(default)]
    pub refreshed_us: Option<i64>,
    /// Set while a refresh is in flight. If found later, that refresh was interrupted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refreshing_us: Option<i64>,
    pub state: LoginState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs_scope: Option<NeedsScope>,
}

/// Whether the login works, as far as known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum LoginState {
    SignedIn,
    /// The owner must sign in.
    NeedsSignIn {
        since_us: i64,
        #[serde(rename = "words")]
        message: String,
    },
}

/// Scopes that the server asked for and that were not granted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NeedsScope {
    pub scopes: Vec<String>,
    pub since_us: i64,
    /// How often the owner signed in for them.
    pub tries: u32,
}

/// The secrets of a login.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoginTokens {
    pub client_secret: Option<Secret>,
    pub access: Option<Secret>,
    pub refresh: Option<Secret>,
}

impl LoginTokens {
    /// All of them, for masking texts that may quote one.
    pub fn secrets(&self) -> impl Iterator<Item = &Secret> {
        [&self.client_secret, &self.access, &self.refresh].into_iter().flatten()
    }
}

impl LoginFacts {
    pub fn key(&self) -> LoginKey {
        LoginKey { server: self.server.clone(), grant: self.grant.clone() }
    }

    pub fn is_signed_in(&self) -> bool {
        self.state == LoginState::SignedIn
    }

    /// The login as the server at this address can use it: one that was made for another address is none.
    #[must_use]
    pub fn at(mut self, address: &str) -> LoginFacts {
        let is_same = Url::parse(address).is_ok_and(|address| address.as_str() == self.url);
        if self.is_signed_in() && !is_same {
            let message = "the server's address has changed since the sign-in".to_owned();
            self.state = LoginState::NeedsSignIn { since_us: self.created_us, message };
        }
        self
    }

    /// What only the owner can do for this login, if anything.
    pub fn owner_step(&self) -> Option<OwnerStep<'_>> {
        match (&self.state, &self.needs_scope) {
            (LoginState::NeedsSignIn { message, .. }, _) => {
                Some(OwnerStep::SignIn { why: message })
            }
            (LoginState::SignedIn, Some(needs)) if needs.tries < SCOPE_TRIES_MAX => {
                Some(OwnerStep::AllowScopes(&needs.scopes))
            }
            (LoginState::SignedIn, Some(needs)) => Some(OwnerStep::AskForRight(&needs.scopes)),
            (LoginState::SignedIn, None) => None,
        }
    }
}

/// How often the owner is asked to sign in for the same scopes.
pub const SCOPE_TRIES_MAX: u32 = 2;

/// What only the owner can do for a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerStep<'f> {
    SignIn {
        why: &'f str,
    },
    /// Sign in again and allow these scopes.
    AllowScopes(&'f [String]),
    /// Signing in again did not give them: the account may lack the right.
    AskForRight(&'f [String]),
}

#[derive(Debug, thiserror::Error)]
pub enum LoginsError {
    #[error("`{0}` is not a valid login name")]
    Name(String),
    #[error(
        "the login of server `{server}` is damaged: {why}\nhint: `tollgate server sign-in {server}` signs in again"
    )]
    Damaged { server: String, why: String },
    #[error(
        "a secret of the login of server `{server}` cannot be opened\nhint: `tollgate server sign-in {server}` signs in again"
    )]
    Sealed { server: String, source: VaultError },
    #[error("another process has been refreshing the login `{name}` for too long")]
    Busy { name: String },
    #[error(transparent)]
    Vault(#[from] VaultError),
    #[error(transparent)]
    Random(#[from] RandomError),
    #[error(transparent)]
    Io(#[from] FileError),
}

/// The logins of one home, or of all homes that share a store.
#[derive(Clone, Debug)]
pub struct Logins {
    files: Folder,
    folder: PathBuf,
    vault: Arc<Vault>,
    random: Random,
}

impl Logins {
    /// Opens the logins of a home. The folder is created by the first write.
    pub fn at(home: &Home, vault: Arc<Vault>, random: Random) -> Logins {
        let folder = home.path().join("logins");
        Logins { files: Folder::Home(folder.clone()), folder, vault, random }
    }

    /// The logins that belong to a registry: in its home, or on its store.
    pub fn of(home: &Home, registry: &Arc<Registry>, random: Random) -> Logins {
        let logins = Logins::at(home, Arc::clone(registry.vault()), random);
        match SharedFolder::of(registry, "logins") {
            Some(folder) => Logins { files: Folder::Shared(folder), ..logins },
            None => logins,
        }
    }

    /// The login with its secrets opened; none if there never was one.
    pub fn load(&self, key: &LoginKey) -> Result<Option<Login>, LoginsError> {
        self.load_named(&key.file_name())
    }

    /// The same by the name of its file, for the refresh helper.
    pub fn load_named(&self, name: &str) -> Result<Option<Login>, LoginsError> {
        let text = self.files.read(&json(name)?)?;
        text.map(|text| file::open(name, &text, &self.vault)).transpose()
    }

    /// The login without opening a secret.
    pub fn facts(&self, key: &LoginKey) -> Result<Option<LoginFacts>, LoginsError> {
        let name = key.file_name();
        let text = self.files.read(&json(&name)?)?;
        text.map(|text| file::facts(&name, &text)).transpose()
    }

    /// The logins of a server: the shared one and those of grants.
    pub fn of_server(&self, server: &str) -> Result<Vec<LoginFacts>, LoginsError> {
        let mut all = Vec::new();
        for name in self.files.names(is_name)? {
            if name.split('@').next() == Some(server)
                && let Some(text) = self.files.read(&json(&name)?)?
            {
                all.push(file::facts(&name, &text)?);
            }
        }
        all.sort_by(|a, b| a.grant.cmp(&b.grant));
        Ok(all)
    }

    /// Whether there is no login at any server.
    pub fn is_empty(&self) -> Result<bool, LoginsError> {
        Ok(self.files.names(is_name)?.is_empty())
    }

    /// The logins of a server as it can use them now; none for a server without an address.
    pub fn at_server(&self, server: &Server) -> Result<Vec<LoginFacts>, LoginsError> {
        let Target::Url { url, .. } = &server.target else { return Ok(Vec::new()) };
        Ok(self.of_server(&server.name)?.into_iter().map(|facts| facts.at(url)).collect())
    }

    /// Changes whenever the login changes; costs one `stat`, or one read of a local row.
    pub fn version(&self, key: &LoginKey) -> Option<FileVersion> {
        self.files.version(&format!("{}.json", key.file_name()))
    }

    /// Copies all logins and the clients at issuers, for a home that moves. Returns their number.
    pub fn copy_to(&self, target: &Logins) -> Result<usize, LoginsError> {
        let unique = self.random.name()?;
        target.files.make()?;
        let clients = self.clients().copy_to(&target.clients(), is_name, &unique)?;
        Ok(clients + self.files.copy_to(&target.files, is_name, &unique)?)
    }

    /// The lock of a login, if it is free.
    pub fn try_lock(&self, name: &str) -> Result<Option<LockedLogin>, LoginsError> {
        self.files.make()?;
        let locked = self.files.try_lock(&json(name)?)?;
        let (logins, name) = (self.clone(), name.to_owned());
        Ok(locked.map(|file| LockedLogin { logins, name, file }))
    }
}

/// An exclusively locked login.
#[derive(Debug)]
pub struct LockedLogin {
    logins: Logins,
    name: String,
    file: FolderLock,
}

impl LockedLogin {
    /// The current login; the previous holder of the lock may have changed it.
    pub fn load(&self) -> Result<Option<Login>, LoginsError> {
        let text = self.logins.files.read_locked(&json(&self.name)?)?;
        text.map(|text| file::open(&self.name, &text, &self.logins.vault)).transpose()
    }

    /// Stores the login; it is on disk when this returns.
    pub fn save(&self, login: &Login) -> Result<(), LoginsError> {
        let text = file::seal(&self.name, login, &self.logins.vault, &self.logins.random)?;
        Ok(self.file.replace(&text, &self.logins.random.name()?)?)
    }

    /// Removes the login, overwriting it first so that no copy remains on the disk.
    pub fn wipe(&self) -> Result<bool, LoginsError> {
        Ok(self.file.wipe()?)
    }
}

fn json(name: &str) -> Result<String, LoginsError> {
    if is_name(name) {
        return Ok(format!("{name}.json"));
    }
    Err(LoginsError::Name(name.escape_debug().take(64).collect()))
}

fn is_name(name: &str) -> bool {
    let fits =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_@".contains(&byte);
    !name.is_empty() && name.len() <= 128 && name.bytes().all(fits)
}

/// A file name for a text that may hold any character.
fn short_hash(text: &str) -> String {
    let hash: [u8; 32] = Sha256::digest(text.as_bytes()).into();
    hex::encode(hash.first_chunk::<16>().unwrap_or(&[0; 16]))
}

#[cfg(test)]
mod tests;
