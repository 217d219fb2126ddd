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
use crate::postgres::Address;
use crate::random::Random;
use crate::vault::Vault;
use shared::Shared;

mod acts;
pub mod channels;
mod copy;
pub mod credential;
pub mod error;
mod files;
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
mod shared;
pub mod sign_in_links;
pub mod snapshot;
mod stateless;
pub mod target;
pub mod tasks;
pub mod token;
pub mod values;

pub use acts::{RecordError, StartedAct, has_unrecorded_acts, has_unrecorded_acts_on};
pub use channels::{Channel, ChannelTarget, Detail, SmtpSecurity, Topic};
pub use credential::{Credential, EnvValue, SecretLocation, argv_in_clear};
pub use error::{ObjectKind, Origin, RegistryError};
pub(crate) use files::{SharedFolder, SharedLock};
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
pub use token::{
    TOKEN_BYTES, TOKEN_PREFIX, Token, TokenFault, TokenHash, has_token, redact_tokens,
};
pub use values::{RememberedLog, log_remembered_by, log_remembered_on};

/// How long a statement waits for another process before it fails with `Locked`.
pub const BUSY_MS_MAX: u64 = 5_000;
/// How often a running gate should call [`Registry::changed`], which costs a few microseconds.
pub const POLL_MS: u64 = 250;

/// Above these bits of a generation is how often another file was found.
const REPLACED_SHIFT: u32 = 40;

/// The open registry of one home. Methods may be called from any thread.
pub struct Registry {
    connection: Mutex<RegistryConnection>,
    path: PathBuf,
    home: PathBuf,
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
    /// Where the rows are if replicas share them; the file is a copy then.
    shared: Option<Arc<Shared>>,
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
    /// The captured params of calls, in a file of their own next to this one, or on the store.
    pub fn captures(&self) -> Captures {
        let (vault, random) = (Arc::clone(&self.vault), self.random.clone());
        match &self.shared {
            Some(shared) => Captures::on(Arc::clone(&shared.captures), vault, random),
            None => Captures::new(&self.home, vault, random),
        }
    }

    /// Opens `gate.db` of a home, creating or upgrading it when needed.
    pub fn open(home: &Home, vault: Arc<Vault>, random: Random) -> Result<Registry, RegistryError> {
        let path = home.gate_db();
        let _lock = open_lock(&path)?;
        private::ensure(&path)?;
        schema::refuse_foreign(&path)?;
        let mut connection = RegistryConnection::connect(&path)?;
        schema::upgrade(&mut connection.db, home, &random)?;
        schema::check_key(&connection.db, &vault)?;
        Ok(Registry::new(connection, (path, home.path().to_owned()), vault, random))
    }

    /// Opens the registry that replicas share on Postgres, with a local copy in the home. What is in
    /// `gate.db` of the home is not used.
    pub fn open_on(
        home: &Home,
        store: &Address,
        vault: Arc<Vault>,
        random: Random,
    ) -> Result<Registry, RegistryError> {
        let path = shared::path_of_copy(home, store)?;
        let shared = Arc::new(Shared::open(store, &path, &random)?);
        let connection = shared::open_copy(&path)?;
        let is_first = schema::lacks_key(&connection.db, &vault)?;
        let files = (path, home.path().to_owned());
        let registry = Registry::new(connection, files, vault, random);
        let registry = Registry { shared: Some(shared), ..registry };
        if is_first {
            registry.write_quietly(|db| schema::put_key(db, &registry.vault))?;
        }
        Ok(registry)
    }

    fn new(
        connection: RegistryConnection,
        (path, home): (PathBuf, PathBuf),
        vault: Arc<Vault>,
        random: Random,
    ) -> Registry {
        Registry {
            connection: Mutex::new(connection),
            path,
            home,
            vault,
            random,
            replaced: AtomicU64::new(0),
            actor: String::new(),
            person: None,
            fresh: Mutex::default(),
            shared: None,
        }
    }

    /// Another registry on the same store, for another actor.
    pub fn another(&self) -> Result<Registry, RegistryError> {
        let connection = match &self.shared {
            Some(_) => shared::open_copy(&self.path)?,
            None => self.reconnect()?,
        };
        let files = (self.path.clone(), self.home.clone());
        let vault = Arc::clone(&self.vault);
        let another = Registry::new(connection, files, vault, self.random.clone());
        Ok(Registry { shared: self.shared.clone(), ..another })
    }

    /// Whether replicas share this registry.
    pub fn is_shared(&self) -> bool {
        self.shared.is_some()
    }

    /// Takes what other replicas changed into the local copy. After it returns, all reads see it.
    pub fn refresh(&self) -> Result<(), RegistryError> {
        self.shared.as_ref().map_or(Ok(()), |shared| shared.pull())
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

    /// Whether anything a gate runs with has changed since `generation`, in this process or another,
    /// on this machine or another.
    pub fn changed(&self, generation: u64) -> Result<bool, RegistryError> {
        self.refresh()?;
        let mut connection = self.lock()?;
        let current = connection.current_generation()?;
        Ok(self.numbered(current) != generation)
    }

    /// The number that the store counts its loud changes by, of a snapshot's generation.
    pub fn store_generation(generation: u64) -> u64 {
        generation & ((1 << REPLACED_SHIFT) - 1)
    }

    /// A replaced file may have reached the same count by other changes.
    fn numbered(&self, generation: u64) -> u64 {
        generation.wrapping_add(self.replaced.load(Ordering::Relaxed) << REPLACED_SHIFT)
    }

    /// One transaction that a running gate should notice.
    fn write<T>(
        &self,
        change: impl FnOnce(&Transaction<'_>) -> Result<T, RegistryError>,
    ) -> Result<T, RegistryError> {
        let Some(shared) = &self.shared else {
            let mut connection = self.lock()?;
            let transaction =
                connection.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let done = change(&transaction)?;
            count(&transaction)?;
            transaction.commit()?;
            connection.reread_generation()?;
            return Ok(done);
        };
        let done = shared.write((true, None), change)?;
        self.lock()?.reread_generation()?;
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
        self.transact(change)
    }

    /// The same for a change that may fail for other reasons.
    fn transact<T, E: From<RegistryError>>(
        &self,
        change: impl FnOnce(&Transaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        if let Some(shared) = &self.shared {
            return shared.write((false, None), change);
        }
        self.lock()?.write(change)
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

    /// The same for one object that may have been made a moment ago by another replica, for a client
    /// that was sent there before: one that is not found is looked for again.
    fn find<T>(
        &self,
        look: impl Fn(&Transaction<'_>) -> Result<Option<T>, RegistryError>,
    ) -> Result<Option<T>, RegistryError> {
        let found = self.read(&look)?;
        // A serving thread must not wait for a store that is away: the reload loop asks it again.
        if found.is_some() || self.shared.as_ref().is_none_or(|shared| shared.is_away()) {
            return Ok(found);
        }
        self.refresh()?;
        self.read(look)
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
        if let Some(shared) = &self.shared {
            *connection = shared::open_copy(&self.path)?;
            self.replaced.fetch_add(1, Ordering::Relaxed);
            shared.pull()?;
            return Ok(connection);
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
        let connection = RegistryConnection::connect(&self.path)?;
        schema::refuse_older(&connection.db, &self.path)?;
        schema::check_key(&connection.db, &self.vault)?;
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

    /// One transaction that does not affect a running gate.
    fn write<T, E: From<RegistryError>>(
        &mut self,
        change: impl FnOnce(&Transaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let behavior = TransactionBehavior::Immediate;
        let begun = self.db.transaction_with_behavior(behavior);
        let transaction = begun.map_err(RegistryError::from)?;
        let done = change(&transaction)?;
        transaction.commit().map_err(RegistryError::from)?;
        Ok(done)
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

/// One more change that a running gate should notice.
fn count(db: &Connection) -> Result<(), RegistryError> {
    db.execute("UPDATE meta SET generation = generation + 1", [])?;
    Ok(())
}

fn generation(db: &Connection) -> Result<u64, RegistryError> {
    let number: i64 = db.query_row("SELECT generation FROM meta", [], |r| r.get(0))?;
    Ok(number.unsigned_abs())
}

fn open_lock(path: &Path) -> Result<OpenLock, RegistryError> {
    OpenLock::acquire(path, BUSY_MS_MAX)?.ok_or(RegistryError::Locked)
}
