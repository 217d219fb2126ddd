//! `gate.db`: servers, policies, grants, pins and small settings. Every change is one transaction,
//! several processes may share the file, and a damaged or newer file is refused, never overwritten.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use crate::home::{Home, private};
use crate::ledger::Note;
use crate::random::Random;
use crate::vault::Vault;

mod acts;
pub mod credential;
pub mod error;
pub mod grants;
pub mod names;
mod opening;
mod parked;
pub mod pins;
pub mod policies;
mod schema;
pub mod servers;
pub mod snapshot;
mod stateless;
pub mod target;
pub mod tasks;
pub mod token;
pub mod values;

pub use acts::{Begun, RecordError, acts_wait_in};
pub use credential::{Credential, EnvValue, Place};
pub use error::{Origin, RegistryError, Thing};
pub use grants::{
    Grant, GrantState, Holding, NewGrant, OVERLAP_SECONDS_DEFAULT, OVERLAP_SECONDS_MAX, TokenRecord,
};
pub use names::{FileNames, NAME_BYTES_MAX};
pub use pins::{Accept, OTHER_CAPABILITIES, Pin, PinReport, PinState, Pinned, SeenBy, ToolSets};
pub use policies::{PolicyText, PolicyVersion};
pub use servers::{NewServer, PINS_FRESH_SECONDS_DEFAULT, Server, ServerOptions};
pub use snapshot::Snapshot;
pub use stateless::stateless_package;
pub use target::{Target, TargetError};
pub use tasks::{TASK_OWNERS_MAX, TaskOwner};
pub use token::{TOKEN_PREFIX, Token, TokenFault, TokenHash, has_token, redact_tokens};
pub use values::{RememberedLog, log_remembered_by};

/// How long a statement waits for another process before the answer is `Locked`.
pub const BUSY_MS_MAX: u64 = 5_000;
/// How often a running gate should ask [`Registry::changed`]; asking costs a few microseconds.
pub const POLL_MS: u64 = 250;

/// The open registry of one home. Methods may be called from any thread.
pub struct Registry {
    inner: Mutex<Inner>,
    path: PathBuf,
    vault: Arc<Vault>,
    random: Random,
    /// How often another file was found in place of the open one.
    replaced: AtomicU64,
    /// Who is acting, for the rows of what is changed here.
    actor: String,
    /// Acts of this process that nobody has begun to record.
    fresh: Mutex<HashSet<String>>,
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Registry({})", self.path.display())
    }
}

struct Inner {
    db: Connection,
    file: FileId,
    /// What `PRAGMA data_version` said when `generation` was last read.
    data_version: i64,
    generation: u64,
}

/// Tells the file that is open from another one that was put in its place.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FileId {
    device: u64,
    inode: u64,
}

impl Registry {
    /// Opens `gate.db` of a home, making or upgrading it when needed.
    pub fn open(home: &Home, vault: Arc<Vault>, random: Random) -> Result<Registry, RegistryError> {
        let path = home.gate_db();
        let _turn = opening::turn(&path)?;
        private::ensure(&path).map_err(|e| opening::error(&e))?;
        schema::refuse_foreign(&path)?;
        let mut inner = Inner::connect(&path)?;
        schema::upgrade(&mut inner.db, home, &random)?;
        schema::check_key(&mut inner.db, &vault)?;
        Ok(Registry {
            inner: Mutex::new(inner),
            path,
            vault,
            random,
            replaced: AtomicU64::new(0),
            actor: String::new(),
            fresh: Mutex::default(),
        })
    }

    /// The same in the name of somebody, whom the rows of all changes name.
    #[must_use]
    pub fn acting_as(self, actor: &str) -> Registry {
        Registry { actor: actor.to_owned(), ..self }
    }

    pub fn vault(&self) -> &Arc<Vault> {
        &self.vault
    }

    /// Looks at every page; for `doctor`, because it reads the whole file.
    pub fn check(&self) -> Result<(), RegistryError> {
        let inner = self.lock()?;
        let words: String = inner.db.query_row("PRAGMA integrity_check(1)", [], |r| r.get(0))?;
        if words == "ok" { Ok(()) } else { Err(RegistryError::Corrupt(words)) }
    }

    /// Whether anything a gate runs with has changed since `generation`, in this process or another.
    pub fn changed(&self, generation: u64) -> Result<bool, RegistryError> {
        let mut inner = self.lock()?;
        let current = inner.current_generation()?;
        Ok(self.numbered(current) != generation)
    }

    /// A file that was put in place of another may have come to the same count by other changes.
    fn numbered(&self, generation: u64) -> u64 {
        generation.wrapping_add(self.replaced.load(Ordering::Relaxed) << 40)
    }

    /// One transaction that a running gate should notice.
    fn write<T>(
        &self,
        change: impl FnOnce(&Transaction<'_>) -> Result<T, RegistryError>,
    ) -> Result<T, RegistryError> {
        let mut inner = self.lock()?;
        let transaction = inner.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let done = change(&transaction)?;
        transaction.execute("UPDATE meta SET generation = generation + 1", [])?;
        transaction.commit()?;
        inner.reread_generation()?;
        Ok(done)
    }

    /// The same for an act of a person, which is kept until its row is in the audit log.
    fn act<T>(
        &self,
        (act, about, now_us): (&str, &str, i64),
        change: impl FnOnce(&Transaction<'_>) -> Result<(T, String), RegistryError>,
    ) -> Result<T, RegistryError> {
        self.write(|db| {
            let (done, words) = change(db)?;
            let note = Note { act, by: &self.actor, about, words: &words };
            self.keep_act(db, &note, now_us)?;
            Ok(done)
        })
    }

    /// One transaction that changes nothing a gate runs with.
    fn write_aside<T>(
        &self,
        change: impl FnOnce(&Transaction<'_>) -> Result<T, RegistryError>,
    ) -> Result<T, RegistryError> {
        let mut inner = self.lock()?;
        let transaction = inner.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let done = change(&transaction)?;
        transaction.commit()?;
        Ok(done)
    }

    /// One consistent look.
    fn read<T>(
        &self,
        look: impl FnOnce(&Transaction<'_>) -> Result<T, RegistryError>,
    ) -> Result<T, RegistryError> {
        let mut inner = self.lock()?;
        let transaction = inner.db.transaction_with_behavior(TransactionBehavior::Deferred)?;
        look(&transaction)
    }

    /// The connection, after making sure that it still stands for the file in the home.
    fn lock(&self) -> Result<MutexGuard<'_, Inner>, RegistryError> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if FileId::of(&self.path) == Some(inner.file) {
            // What is in memory may hide that the file was written over; its first bytes tell.
            return match begins_as_database(&self.path) {
                Ok(true) => Ok(inner),
                Ok(false) => Err(overwritten(&self.path)),
                // Too many open files, for one, say nothing about this one.
                Err(error) => Err(RegistryError::Io(error.to_string())),
            };
        }
        // A copy put back by the owner is taken; an absent or empty file is not a registry.
        match fs::metadata(&self.path) {
            Ok(found) if found.len() > 0 => {
                *inner = self.reconnect()?;
                self.replaced.fetch_add(1, Ordering::Relaxed);
            }
            _ => return Err(RegistryError::Vanished(self.path.clone())),
        }
        Ok(inner)
    }

    fn reconnect(&self) -> Result<Inner, RegistryError> {
        let _turn = opening::turn(&self.path)?;
        schema::refuse_foreign(&self.path)?;
        let mut inner = Inner::connect(&self.path)?;
        schema::refuse_older(&inner.db, &self.path)?;
        schema::check_key(&mut inner.db, &self.vault)?;
        Ok(inner)
    }
}

/// Whether the file begins as every SQLite database does.
fn begins_as_database(path: &Path) -> io::Result<bool> {
    use std::io::Read as _;
    const BEGINNING: &[u8; 16] = b"SQLite format 3\0";
    let mut found = [0; BEGINNING.len()];
    match fs::File::open(path)?.read_exact(&mut found) {
        Ok(()) => Ok(found == *BEGINNING),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

fn overwritten(path: &Path) -> RegistryError {
    RegistryError::Corrupt(format!(
        "`{}` no longer begins as a database; put it back from a copy",
        path.display()
    ))
}

impl Inner {
    fn connect(path: &Path) -> Result<Inner, RegistryError> {
        let file = FileId::of(path).ok_or_else(|| RegistryError::Vanished(path.into()))?;
        let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        db.busy_timeout(Duration::from_millis(BUSY_MS_MAX))?;
        let journal: String =
            db.pragma_update_and_check(None, "journal_mode", "wal", |r| r.get(0))?;
        if journal != "wal" {
            // Without it two processes would block each other; some network drives cannot do it.
            return Err(RegistryError::Io("this drive cannot keep a write-ahead log".into()));
        }
        db.pragma_update(None, "synchronous", "full")?;
        db.pragma_update(None, "foreign_keys", true)?;
        // What is deleted is gone from the file, too.
        db.pragma_update(None, "secure_delete", true)?;
        db.pragma_update(None, "trusted_schema", false)?;
        Ok(Inner { db, file, data_version: -1, generation: 0 })
    }

    /// `data_version` is answered from shared memory; the table is read only when it moved.
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

impl FileId {
    fn of(path: &Path) -> Option<FileId> {
        let found = fs::metadata(path).ok()?;
        Some(FileId { device: found.dev(), inode: found.ino() })
    }
}
