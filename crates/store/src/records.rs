//! `data.db`: the owner's records, raw and derived. Many readers and one writer at a time, in any
//! number of processes; a damaged or newer file is rejected, never overwritten.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use platform::files::FileId;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use crate::home::{Home, private};
use crate::interrupted_create;
use crate::open_lock::OpenLock;

mod changes;
mod coverage;
mod each;
mod error;
mod forget;
mod query;
mod record;
mod reshape;
mod runs;
mod schema;
mod series;
mod sql;
mod sql_limits;
mod sync_lock;
mod upsert;
mod view;

pub use error::RecordsError;
pub(crate) use error::is_shm_full;
pub use query::RecordsSnapshot;
pub use record::{
    ARCHIVED, ChangeCursor, DeletedRecord, Incoming, Run, RunEnd, StoredRecord, Unsettled,
    Upserted, Window,
};
pub use reshape::Derived;
pub use sql::{Cell, QueryOutput, SqlError};
pub use sql_limits::QueryLimits;
pub use sync_lock::SyncLock;
pub use view::{Column, ColumnType, View};

use schema::SchemaState;

/// How long a statement waits for another process before it fails with `Locked`.
pub const BUSY_MS_MAX: u64 = 10_000;
/// Idle connections that are kept for readers; more are opened when needed and closed after use.
const READERS_KEPT_MAX: usize = 4;
/// Every statement of this module stays prepared.
const STATEMENTS_KEPT_MAX: usize = 64;

/// A connection is used by one thread at a time, which the compiler guarantees; SQLite need not
/// lock it.
const ONE_THREAD: OpenFlags = OpenFlags::SQLITE_OPEN_NO_MUTEX;

/// Pages in the write-ahead log that trigger a checkpoint.
const LOG_PAGES_MAX: u32 = 4_000;
const LOG_BYTES_KEPT: u32 = 4 << 20;

type Result<T> = std::result::Result<T, RecordsError>;

/// The open records of one home. Cheap to clone; methods may be called from any thread.
#[derive(Clone)]
pub struct Records {
    pool: Arc<ConnectionPool>,
}

struct ConnectionPool {
    path: PathBuf,
    backups: PathBuf,
    readers: Mutex<Vec<PooledConnection>>,
    /// Opened by the first write.
    writer: Mutex<Option<PooledConnection>>,
    /// Whether this process has checked or created the file.
    opened: AtomicBool,
}

/// A connection with the identity of its file.
struct PooledConnection {
    db: Connection,
    file: FileId,
}

impl std::fmt::Debug for Records {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Records({})", self.pool.path.display())
    }
}

impl Records {
    /// Opens `data.db` of a home, creating or upgrading it when needed.
    pub fn open(home: &Home) -> Result<Records> {
        let records = Records::at(home);
        let reader = records.reader()?;
        records.release(reader);
        Ok(records)
    }

    /// The same lazily: the first use opens it and reports errors.
    pub fn at(home: &Home) -> Records {
        let pool = ConnectionPool {
            path: home.path().join("data.db"),
            backups: home.backups(),
            readers: Mutex::default(),
            writer: Mutex::default(),
            opened: AtomicBool::new(false),
        };
        Records { pool: Arc::new(pool) }
    }

    pub fn path(&self) -> &Path {
        &self.pool.path
    }

    /// Checks every page; for `doctor`, because it reads the whole file.
    pub fn check(&self) -> Result<()> {
        self.read(|db| {
            let message: String = db.query_row("PRAGMA integrity_check(1)", [], |r| r.get(0))?;
            if message == "ok" { Ok(()) } else { Err(RecordsError::Corrupt(message)) }
        })
    }

    /// The first connection of this process, after creating or upgrading the file if necessary.
    /// Several threads may do this concurrently; the file is created once.
    fn first_connection(&self) -> Result<(PooledConnection, Option<PooledConnection>)> {
        let path = &self.pool.path;
        if interrupted_create::is_interrupted(path) {
            let _lock = open_lock(path)?;
            interrupted_create::roll_back(path, Duration::from_millis(BUSY_MS_MAX))?;
        }
        if is_written(path) {
            let connection = PooledConnection::for_reading(path)?;
            if schema::schema_state(&connection.db, path)? == SchemaState::Current {
                self.pool.opened.store(true, Ordering::Release);
                return Ok((connection, None));
            }
        }
        let _lock = open_lock(path)?;
        private::ensure(path)?;
        let mut writer = PooledConnection::for_writing(path)?;
        schema::upgrade(&mut writer.db, path, &self.pool.backups)?;
        let reader = PooledConnection::for_reading(path)?;
        self.pool.opened.store(true, Ordering::Release);
        Ok((reader, Some(writer)))
    }

    /// One read. Statements that must be consistent with each other start a transaction themselves.
    fn read<T>(&self, query: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let connection = self.reader()?;
        let found = query(&connection.db);
        self.release(connection);
        found
    }

    /// One transaction. On any error the file stays unchanged.
    fn write<T>(&self, change: impl FnOnce(&Transaction<'_>) -> Result<T>) -> Result<T> {
        let mut writer = self.writer();
        let connection = self.open_writer(&mut writer)?;
        let transaction =
            connection.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let done = change(&transaction)?;
        transaction.commit()?;
        Ok(done)
    }

    fn writer(&self) -> MutexGuard<'_, Option<PooledConnection>> {
        self.pool.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open_writer<'a>(
        &self,
        writer: &'a mut Option<PooledConnection>,
    ) -> Result<&'a mut PooledConnection> {
        let path = &self.pool.path;
        if !self.pool.opened.load(Ordering::Acquire) {
            let upgraded = self.first_connection()?;
            self.release(upgraded.0);
            *writer = upgraded.1;
        }
        let now = file_id(path)?;
        if writer.as_ref().is_none_or(|connection| connection.file != now) {
            *writer = None;
            let reader = self.reader()?;
            quick_check(&reader.db)?;
            self.release(reader);
        }
        match writer {
            Some(connection) => Ok(connection),
            None => Ok(writer.insert(PooledConnection::for_writing(path)?)),
        }
    }

    fn reader(&self) -> Result<PooledConnection> {
        if !self.pool.opened.load(Ordering::Acquire) {
            let (reader, _) = self.first_connection()?;
            return Ok(reader);
        }
        let path = &self.pool.path;
        let now = file_id(path)?;
        let kept = self.readers().pop();
        if let Some(connection) = kept.filter(|connection| connection.file == now) {
            return Ok(connection);
        }
        let connection = PooledConnection::for_reading(path)?;
        match schema::schema_state(&connection.db, path)? {
            SchemaState::Current => Ok(connection),
            // The open file was replaced while in use.
            SchemaState::Behind => Err(RecordsError::Vanished(path.clone())),
        }
    }

    fn release(&self, connection: PooledConnection) {
        let mut readers = self.readers();
        // A connection that could not end its read would make every later one fail.
        if readers.len() < READERS_KEPT_MAX && connection.db.is_autocommit() {
            readers.push(connection);
        }
    }

    fn readers(&self) -> MutexGuard<'_, Vec<PooledConnection>> {
        self.pool.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PooledConnection {
    fn new(db: Connection, file: FileId) -> PooledConnection {
        PooledConnection { db, file }
    }

    fn for_reading(path: &Path) -> Result<PooledConnection> {
        let file = file_id(path)?;
        let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY | ONE_THREAD)?;
        prepare(&db)?;
        Ok(PooledConnection::new(db, file))
    }

    fn for_writing(path: &Path) -> Result<PooledConnection> {
        let file = file_id(path)?;
        let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | ONE_THREAD)?;
        prepare(&db)?;
        let journal: String =
            db.pragma_update_and_check(None, "journal_mode", "wal", |r| r.get(0))?;
        if journal != "wal" {
            // Without it two processes would block each other; some network drives do not support
            // it.
            return Err(RecordsError::Io("this drive cannot keep a write-ahead log".into()));
        }
        // A power cut may lose the newest pages, in order; the next sync fetches them again.
        db.pragma_update(None, "synchronous", "normal")?;
        db.pragma_update(None, "foreign_keys", true)?;
        // Deleted data is also removed from the file and leaves no copy in temporary files.
        db.pragma_update(None, "secure_delete", true)?;
        db.pragma_update(None, "temp_store", "memory")?;
        // A full sync writes the pages of its indexes repeatedly; only their last state need go
        // into the file. The log is truncated when it starts over.
        db.pragma_update(None, "wal_autocheckpoint", LOG_PAGES_MAX)?;
        db.pragma_update(None, "journal_size_limit", LOG_BYTES_KEPT)?;
        Ok(PooledConnection::new(db, file))
    }
}

fn prepare(db: &Connection) -> Result<()> {
    db.busy_timeout(Duration::from_millis(BUSY_MS_MAX))?;
    db.set_prepared_statement_cache_capacity(STATEMENTS_KEPT_MAX);
    db.pragma_update(None, "trusted_schema", false)?;
    // One query plan for all bound values. Without it SQLite prepares a statement again whenever a
    // value could matter to a partial index, which took a fifth of every call.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

/// A file with inconsistent pages is not written to. Checked once per writing process.
fn quick_check(db: &Connection) -> Result<()> {
    let message: String = db.query_row("PRAGMA quick_check(1)", [], |r| r.get(0))?;
    if message == "ok" { Ok(()) } else { Err(RecordsError::Corrupt(message)) }
}

/// Whether anything was ever written; a new file is empty and has no log.
fn is_written(path: &Path) -> bool {
    let has_bytes = fs::metadata(path).is_ok_and(|found| found.len() > 0);
    has_bytes || path.with_extension("db-wal").exists()
}

fn file_id(path: &Path) -> Result<FileId> {
    FileId::of_path(path).map_err(|_| RecordsError::Vanished(path.into()))
}

fn open_lock(path: &Path) -> Result<OpenLock> {
    OpenLock::acquire(path, BUSY_MS_MAX)?.ok_or(RecordsError::Locked)
}
