//! `data.db`: the owner's records as they came and in derived form. Many readers and one writer at a
//! time, in any number of processes; a damaged or newer file is refused, never overwritten.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use crate::half_made;
use crate::home::{Home, private};

mod changes;
mod coverage;
mod each;
mod error;
mod forget;
mod keep;
mod look;
mod opening;
mod reshape;
mod row;
mod runs;
mod schema;
mod series;
mod sql;
mod turns;
mod view;

pub use error::RecordsError;
pub(crate) use error::has_no_room_for_index;
pub use look::{Look, Version};
pub use reshape::Derived;
pub use row::{ARCHIVED, After, Gone, Incoming, Kept, Row, Run, RunEnd, Unsettled, Window};
pub use sql::{Cell, SqlError, Told};
pub use turns::SyncTurn;
pub use view::{Column, Is, View};

use schema::Standing;

/// How long a statement waits for another process before the answer is `Locked`.
pub const BUSY_MS_MAX: u64 = 10_000;
/// Connections that are kept for the next reader; more are made when needed and closed after use.
const READERS_KEPT_MAX: usize = 4;
/// Every statement of this room stays prepared.
const STATEMENTS_KEPT_MAX: usize = 64;

/// A connection is used by one thread at a time, which the compiler sees to; SQLite need not lock it.
const ONE_THREAD: OpenFlags = OpenFlags::SQLITE_OPEN_NO_MUTEX;

/// Pages that gather in the log before they are carried over to the file.
const LOG_PAGES_MAX: u32 = 4_000;
const LOG_BYTES_KEPT: u32 = 4 << 20;

type Result<T> = std::result::Result<T, RecordsError>;

/// The open records of one home. Cheap to clone; methods may be called from any thread.
#[derive(Clone)]
pub struct Records {
    inner: Arc<Inner>,
}

struct Inner {
    path: PathBuf,
    backups: PathBuf,
    readers: Mutex<Vec<Link>>,
    /// Opened by the first write.
    writer: Mutex<Option<Link>>,
    /// Whether the file was found good, or made, by this process.
    opened: AtomicBool,
}

/// A connection and the file it stands for.
struct Link {
    db: Connection,
    file: FileId,
    /// Of all connections of this process only this one has it.
    number: u64,
}

static LINKS: AtomicU64 = AtomicU64::new(0);

/// Tells the file that is open from another one that was put in its place.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FileId {
    device: u64,
    inode: u64,
}

impl std::fmt::Debug for Records {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Records({})", self.inner.path.display())
    }
}

impl Records {
    /// Opens `data.db` of a home, making or upgrading it when needed.
    pub fn open(home: &Home) -> Result<Records> {
        let records = Records::at(home);
        let reader = records.reader()?;
        records.give_back(reader);
        Ok(records)
    }

    /// The same without a look: the first use opens it, and says what is wrong with it.
    pub fn at(home: &Home) -> Records {
        let inner = Inner {
            path: home.path().join("data.db"),
            backups: home.backups(),
            readers: Mutex::default(),
            writer: Mutex::default(),
            opened: AtomicBool::new(false),
        };
        Records { inner: Arc::new(inner) }
    }

    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Looks at every page; for `doctor`, because it reads the whole file.
    pub fn check(&self) -> Result<()> {
        self.read(|db| {
            let words: String = db.query_row("PRAGMA integrity_check(1)", [], |r| r.get(0))?;
            if words == "ok" { Ok(()) } else { Err(RecordsError::Corrupt(words)) }
        })
    }

    /// The first connection of this process, and the one that made or upgraded the file if one had
    /// to. Of several threads at once each may do it; the file is made once.
    fn first_link(&self) -> Result<(Link, Option<Link>)> {
        let path = &self.inner.path;
        if half_made::is_left(path) {
            let _turn = opening::turn(path)?;
            half_made::undo(path, Duration::from_millis(BUSY_MS_MAX))?;
        }
        if is_written(path) {
            let link = Link::for_reading(path)?;
            if schema::standing(&link.db, path)? == Standing::Current {
                self.inner.opened.store(true, Ordering::Release);
                return Ok((link, None));
            }
        }
        let _turn = opening::turn(path)?;
        private::ensure(path)?;
        let mut writer = Link::for_writing(path)?;
        schema::upgrade(&mut writer.db, path, &self.inner.backups)?;
        let reader = Link::for_reading(path)?;
        self.inner.opened.store(true, Ordering::Release);
        Ok((reader, Some(writer)))
    }

    /// One look. Several statements that must agree with each other begin a transaction themselves.
    fn read<T>(&self, look: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let link = self.reader()?;
        let found = look(&link.db);
        self.give_back(link);
        found
    }

    /// One transaction. Whatever goes wrong in it, the file stays as it was.
    fn write<T>(&self, change: impl FnOnce(&Transaction<'_>) -> Result<T>) -> Result<T> {
        let mut writer = self.writer();
        let link = self.open_writer(&mut writer)?;
        let transaction = link.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let done = change(&transaction)?;
        transaction.commit()?;
        Ok(done)
    }

    fn writer(&self) -> MutexGuard<'_, Option<Link>> {
        self.inner.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open_writer<'a>(&self, writer: &'a mut Option<Link>) -> Result<&'a mut Link> {
        let path = &self.inner.path;
        if !self.inner.opened.load(Ordering::Acquire) {
            let upgraded = self.first_link()?;
            self.give_back(upgraded.0);
            *writer = upgraded.1;
        }
        let now = FileId::of(path)?;
        if writer.as_ref().is_none_or(|link| link.file != now) {
            *writer = None;
            let reader = self.reader()?;
            quick_check(&reader.db)?;
            self.give_back(reader);
        }
        match writer {
            Some(link) => Ok(link),
            None => Ok(writer.insert(Link::for_writing(path)?)),
        }
    }

    fn reader(&self) -> Result<Link> {
        if !self.inner.opened.load(Ordering::Acquire) {
            let (reader, _) = self.first_link()?;
            return Ok(reader);
        }
        let path = &self.inner.path;
        let now = FileId::of(path)?;
        let kept = self.readers().pop();
        if let Some(link) = kept.filter(|link| link.file == now) {
            return Ok(link);
        }
        let link = Link::for_reading(path)?;
        match schema::standing(&link.db, path)? {
            Standing::Current => Ok(link),
            // Put in place of the open file while it was in use.
            Standing::Behind => Err(RecordsError::Vanished(path.clone())),
        }
    }

    fn give_back(&self, link: Link) {
        let mut readers = self.readers();
        // One that could not end its look would have every later one fail.
        if readers.len() < READERS_KEPT_MAX && link.db.is_autocommit() {
            readers.push(link);
        }
    }

    fn readers(&self) -> MutexGuard<'_, Vec<Link>> {
        self.inner.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Link {
    fn new(db: Connection, file: FileId) -> Link {
        Link { db, file, number: LINKS.fetch_add(1, Ordering::Relaxed) }
    }

    fn for_reading(path: &Path) -> Result<Link> {
        let file = FileId::of(path)?;
        let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY | ONE_THREAD)?;
        prepare(&db)?;
        Ok(Link::new(db, file))
    }

    fn for_writing(path: &Path) -> Result<Link> {
        let file = FileId::of(path)?;
        let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | ONE_THREAD)?;
        prepare(&db)?;
        let journal: String =
            db.pragma_update_and_check(None, "journal_mode", "wal", |r| r.get(0))?;
        if journal != "wal" {
            // Without it two processes would block each other; some network drives cannot do it.
            return Err(RecordsError::Io("this drive cannot keep a write-ahead log".into()));
        }
        // A power cut may take the newest pages, in order; the next sync brings them again.
        db.pragma_update(None, "synchronous", "normal")?;
        db.pragma_update(None, "foreign_keys", true)?;
        // What is deleted is gone from the file, too, and leaves no copy among temporary files.
        db.pragma_update(None, "secure_delete", true)?;
        db.pragma_update(None, "temp_store", "memory")?;
        // A full sync writes the pages of its indexes over and over; only their last state need go
        // into the file. The log is cut back when it starts over.
        db.pragma_update(None, "wal_autocheckpoint", LOG_PAGES_MAX)?;
        db.pragma_update(None, "journal_size_limit", LOG_BYTES_KEPT)?;
        Ok(Link::new(db, file))
    }
}

fn prepare(db: &Connection) -> Result<()> {
    db.busy_timeout(Duration::from_millis(BUSY_MS_MAX))?;
    db.set_prepared_statement_cache_capacity(STATEMENTS_KEPT_MAX);
    db.pragma_update(None, "trusted_schema", false)?;
    // One plan for every value that is bound. Without it SQLite prepares a statement anew whenever a
    // value could matter to a partial index, which took a fifth of every call.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

/// Nothing is written to a file whose pages do not fit together. Once for each writing process.
fn quick_check(db: &Connection) -> Result<()> {
    let words: String = db.query_row("PRAGMA quick_check(1)", [], |r| r.get(0))?;
    if words == "ok" { Ok(()) } else { Err(RecordsError::Corrupt(words)) }
}

/// Whether anything was ever written; a new file is empty and has no log.
fn is_written(path: &Path) -> bool {
    let has_bytes = fs::metadata(path).is_ok_and(|found| found.len() > 0);
    has_bytes || path.with_extension("db-wal").exists()
}

impl FileId {
    fn of(path: &Path) -> Result<FileId> {
        match fs::metadata(path) {
            Ok(found) => Ok(FileId { device: found.dev(), inode: found.ino() }),
            Err(_) => Err(RecordsError::Vanished(path.into())),
        }
    }
}
