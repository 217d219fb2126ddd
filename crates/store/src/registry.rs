//! `gate.db`: servers, policies, grants, pins and small settings. Every change is one transaction,
//! several processes may share the file, and a damaged or newer file is rejected, never
//! overwritten.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use platform::files::FileId;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use crate::captures::Captures;
use crate::header::Header;
use crate::home::{Home, private};
use crate::ledger::Note;
use crate::open_lock::OpenLock;
use crate::random::Random;
use crate::vault::Vault;

mod acts;
pub mod channels;
pub mod credential;
pub mod error;
pub mod grants;
mod identities;
pub mod names;
pub mod oauth;
mod outbox;
mod parked;
mod passkeys;
pub mod people;
pub mod pins;
pub mod policies;
mod rollback;
mod schema;
mod server_lists;
pub mod servers;
pub mod sessions;
pub mod sign_in_links;
pub mod snapshot;
mod stateless;
pub mod target;
pub mod tasks;
pub mod token;
pub mod values;

pub use acts::{RecordError, StartedAct, has_unrecorded_acts};
pub use channels::{Channel, ChannelTarget, Detail, SmtpSecurity, Topic};
pub use credential::{Credential, EnvValue, SecretLocation, argv_in_clear};
pub use error::{ObjectKind, Origin, RegistryError};
pub use grants::{
    Grant, GrantClient, GrantState, NewGrant, OVERLAP_SECONDS_DEFAULT, OVERLAP_SECONDS_MAX, Prefix,
    ServerAccess, TokenRecord,
};
pub use identities::{Identity, IdentitySignIn};
pub use names::{FileNames, NAME_BYTES_MAX};
pub use oauth::{CodeExchange, IssuedTokens, NewSignIn, OAuthClient, SignInFault, SignInTokens};
pub use outbox::{Delivery, DeliveryState, NewNotice, StoredNotice};
pub use parked::ApprovedParams;
pub use passkeys::{ListedPasskey, NewPasskey, PASSKEYS_PER_PERSON_MAX, StoredPasskey};
pub use people::{BrowserSecret, OWNER, Person, Role};
pub use pins::{Accept, OTHER_CAPABILITIES, Pin, PinReport, PinState, Pinned, SeenBy, ToolSets};
pub use policies::{PolicyText, PolicyVersion};
pub use rollback::Rollback;
pub use server_lists::ServerList;
pub use servers::{NewServer, PINS_FRESH_SECONDS_DEFAULT, Server, ServerOptions};
pub use sessions::{BrowserSession, ListedSession, SignInMethod, session_id};
pub use snapshot::RegistrySnapshot;
pub use stateless::stateless_package;
pub use target::{OPERATOR_SERVICE, Target, TargetError};
pub use tasks::{TASK_OWNERS_MAX, TaskOwner};
pub use token::{TOKEN_PREFIX, Token, TokenFault, TokenHash, has_token, redact_tokens};
pub use values::{RememberedLog, log_remembered_by};

/// How long a statement waits for another process before it fails with `Locked`.
pub const BUSY_MS_MAX: u64 = 5_000;
/// How often a running gate should call [`Registry::changed`], which costs a few microseconds.
pub const POLL_MS: u64 = 250;

/// The open registry of one home. Methods may be called from any thread.
pub struct Registry {
    connection: Mutex<RegistryConnection>,
    path: PathBuf,
    vault: Arc<Vault>,
    random: Random,
    /// How often another file was found in place of the open one.
    replaced: AtomicU64,
    /// The actor, for the audit rows of changes made here.
    actor: String,
    /// The person to whom grants belong that are made here.
    person: Option<String>,
    /// Acts of this process that are not being recorded yet.
    fresh: Mutex<HashSet<String>>,
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Registry({})", self.path.display())
    }
}

struct RegistryConnection {
    db: Connection,
    header: Header,
    /// The value of `PRAGMA data_version` when `generation` was last read.
    data_version: i64,
    generation: u64,
}

impl Registry {
    /// The captured params of calls, in a file of their own next to this one.
    pub fn captures(&self) -> Captures {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        Captures::new(folder, Arc::clone(&self.vault), self.random.clone())
    }

    /// Opens `gate.db` of a home, creating or upgrading it when needed.
    pub fn open(home: &Home, vault: Arc<Vault>, random: Random) -> Result<Registry, RegistryError> {
        let path = home.gate_db();
        let _lock = open_lock(&path)?;
        private::ensure(&path)?;
        schema::refuse_foreign(&path)?;
        let mut connection = RegistryConnection::connect(&path)?;
        schema::upgrade(&mut connection.db, home, &random)?;
        schema::check_key(&mut connection.db, &vault)?;
        Ok(Registry {
            connection: Mutex::new(connection),
            path,
            vault,
            random,
            replaced: AtomicU64::new(0),
            actor: String::new(),
            person: None,
            fresh: Mutex::default(),
        })
    }

    /// The same for a given actor, whom the audit rows of all changes name.
    #[must_use]
    pub fn acting_as(self, actor: &str) -> Registry {
        Registry { actor: actor.to_owned(), ..self }
    }

    /// The same for a person who signed in.
    #[must_use]
    pub fn of_person(self, person: &str) -> Registry {
        Registry { person: Some(person.to_owned()), ..self }
    }

    pub fn vault(&self) -> &Arc<Vault> {
        &self.vault
    }

    /// Checks every page; for `doctor`, because it reads the whole file.
    pub fn check(&self) -> Result<(), RegistryError> {
        let connection = self.lock()?;
        let words: String =
            connection.db.query_row("PRAGMA integrity_check(1)", [], |r| r.get(0))?;
        if words == "ok" { Ok(()) } else { Err(RegistryError::Corrupt(words)) }
    }

    /// Whether anything a gate runs with has changed since `generation`, in this process or another.
    pub fn changed(&self, generation: u64) -> Result<bool, RegistryError> {
        let mut connection = self.lock()?;
        let current = connection.current_generation()?;
        Ok(self.numbered(current) != generation)
    }

    /// A replaced file may have reached the same count by other changes.
    fn numbered(&self, generation: u64) -> u64 {
        generation.wrapping_add(self.replaced.load(Ordering::Relaxed) << 40)
    }

    /// One transaction that a running gate should notice.
    fn write<T>(
        &self,
        change: impl FnOnce(&Transaction<'_>) -> Result<T, RegistryError>,
    ) -> Result<T, RegistryError> {
        let mut connection = self.lock()?;
        let transaction =
            connection.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let done = change(&transaction)?;
        transaction.execute("UPDATE meta SET generation = generation + 1", [])?;
        transaction.commit()?;
        connection.reread_generation()?;
        Ok(done)
    }

    /// The same for an act of a person, which is stored until its row is in the audit log.
    fn act<T>(
        &self,
        (act, about, now_us): (&str, &str, i64),
        change: impl FnOnce(&Transaction<'_>) -> Result<(T, String), RegistryError>,
    ) -> Result<T, RegistryError> {
        self.write(|db| {
            let (done, words) = change(db)?;
            let note = Note { act, by: &self.actor, about, words: &words };
            self.store_act(db, &note, now_us)?;
            Ok(done)
        })
    }

    /// One transaction that does not affect a running gate.
    fn write_quietly<T>(
        &self,
        change: impl FnOnce(&Transaction<'_>) -> Result<T, RegistryError>,
    ) -> Result<T, RegistryError> {
        let mut connection = self.lock()?;
        let transaction =
            connection.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let done = change(&transaction)?;
        transaction.commit()?;
        Ok(done)
    }

    /// One consistent read.
    fn read<T>(
        &self,
        look: impl FnOnce(&Transaction<'_>) -> Result<T, RegistryError>,
    ) -> Result<T, RegistryError> {
        let mut connection = self.lock()?;
        let transaction = connection.db.transaction_with_behavior(TransactionBehavior::Deferred)?;
        look(&transaction)
    }

    /// The connection, after checking that it still refers to the file in the home.
    fn lock(&self) -> Result<MutexGuard<'_, RegistryConnection>, RegistryError> {
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        if FileId::of_path(&self.path).ok() == Some(connection.header.id()) {
            // Cached pages may hide that the file was overwritten; its first bytes show it.
            return match connection.header.is_of_database() {
                Ok(true) => Ok(connection),
                Ok(false) => Err(overwritten(&self.path)),
                Err(error) => Err(RegistryError::Io(error.to_string())),
            };
        }
        // A copy restored by the owner is accepted; a missing or empty file is not a registry.
        match fs::metadata(&self.path) {
            Ok(found) if found.len() > 0 => {
                *connection = self.reconnect()?;
                self.replaced.fetch_add(1, Ordering::Relaxed);
            }
            _ => return Err(RegistryError::Vanished(self.path.clone())),
        }
        Ok(connection)
    }

    fn reconnect(&self) -> Result<RegistryConnection, RegistryError> {
        let _lock = open_lock(&self.path)?;
        schema::refuse_foreign(&self.path)?;
        let mut connection = RegistryConnection::connect(&self.path)?;
        schema::refuse_older(&connection.db, &self.path)?;
        schema::check_key(&mut connection.db, &self.vault)?;
        Ok(connection)
    }
}

fn overwritten(path: &Path) -> RegistryError {
    RegistryError::Corrupt(format!(
        "`{}` no longer starts like a database; restore it from a copy",
        path.display()
    ))
}

impl RegistryConnection {
    fn connect(path: &Path) -> Result<RegistryConnection, RegistryError> {
        let header = Header::of(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => RegistryError::Vanished(path.into()),
            _ => RegistryError::Io(error.to_string()),
        })?;
        let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        db.busy_timeout(Duration::from_millis(BUSY_MS_MAX))?;
        let journal: String =
            db.pragma_update_and_check(None, "journal_mode", "wal", |r| r.get(0))?;
        if journal != "wal" {
            // Without it two processes would block each other; some network drives do not support
            // it.
            return Err(RegistryError::Io("this drive cannot keep a write-ahead log".into()));
        }
        db.pragma_update(None, "synchronous", "full")?;
        db.pragma_update(None, "foreign_keys", true)?;
        // Deleted data is also removed from the file.
        db.pragma_update(None, "secure_delete", true)?;
        db.pragma_update(None, "trusted_schema", false)?;
        Ok(RegistryConnection { db, header, data_version: -1, generation: 0 })
    }

    /// `data_version` is read from shared memory; the table is read only when it changed.
    fn current_generation(&mut self) -> Result<u64, RegistryError> {
        let data_version = self.db.pragma_query_value(None, "data_version", |r| r.get(0))?;
        if self.data_version != data_version {
            self.reread_generation()?;
            self.data_version = data_version;
        }
        Ok(self.generation)
    }

    fn reread_generation(&mut self) -> Result<(), RegistryError> {
        self.generation = generation(&self.db)?;
        Ok(())
    }
}

fn generation(db: &Connection) -> Result<u64, RegistryError> {
    let number: i64 = db.query_row("SELECT generation FROM meta", [], |r| r.get(0))?;
    Ok(number.unsigned_abs())
}

fn open_lock(path: &Path) -> Result<OpenLock, RegistryError> {
    OpenLock::acquire(path, BUSY_MS_MAX)?.ok_or(RegistryError::Locked)
}
