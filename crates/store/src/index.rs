//! The catalogue index: servers and tools of registries with their classification, searchable by
//! words. It is `catalog.db`, a separate file that can be rebuilt from the dumps.

use std::path::{Path, PathBuf};
use std::time::Duration;

use catalog::classify::{Category, Risk};
use rusqlite::{Connection, OpenFlags};

use crate::home::{Home, private};

mod dump;
mod import;
mod read;
mod search;
mod split;
mod words;
mod write;

pub use import::{Imported, Source};
pub use read::{ServerRow, ToolRow};
pub use search::{Hit, SearchQuery};

/// How long a statement waits for another process.
const BUSY_MS_MAX: u64 = 5_000;
/// `tlgc`: the application id of this file.
const APPLICATION_ID: i64 = 0x746c_6763;
/// Changes with the tables, and whenever the same definition gives other words or another class.
const FORMAT: i64 = 2;

#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    #[error(
        "the catalogue is empty\nhint: `tollgate catalog import FILE` reads a dump of a registry"
    )]
    Empty,
    #[error("`{}` is not a catalogue of tollgate\nhint: move it away", .0.display())]
    NotOurs(PathBuf),
    #[error(
        "the catalogue was built by another version of tollgate\nhint: `tollgate catalog import FILE --fresh` builds it again"
    )]
    OtherFormat,
    #[error("the dump cannot be read: {0}")]
    Dump(String),
    #[error(
        "nothing in the catalogue is called `{0}`\nhint: `tollgate catalog search WORDS` finds names"
    )]
    Missing(String),
    #[error("search for at least one word")]
    NoWords,
    #[error("the catalogue cannot be used: {0}")]
    Database(#[from] rusqlite::Error),
    #[error("cannot use `{}`: {source}", .path.display())]
    Io { path: PathBuf, source: std::io::Error },
}

/// An open catalogue.
pub struct Index {
    db: Connection,
    path: PathBuf,
}

impl std::fmt::Debug for Index {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Index({})", self.path.display())
    }
}

impl Index {
    /// Opens the catalogue of a home for reading; it must exist.
    pub fn open(home: &Home) -> Result<Index, IndexError> {
        let path = path(home);
        if !path.exists() {
            return Err(IndexError::Empty);
        }
        let db = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        db.busy_timeout(Duration::from_millis(BUSY_MS_MAX))?;
        check(&db, &path)?;
        // The system's page cache serves reads; copying pages into our own costs more.
        db.pragma_update(None, "mmap_size", 1_i64 << 32)?;
        Ok(Index { db, path })
    }

    /// How many servers and tools there are.
    pub fn size(&self) -> Result<(u64, u64), IndexError> {
        let count = |sql: &str| self.db.query_row(sql, [], |r| r.get::<_, i64>(0));
        let servers = count("SELECT count(*) FROM servers")?;
        let tools = count("SELECT coalesce(sum(tools), 0) FROM servers")?;
        Ok((servers.unsigned_abs(), tools.unsigned_abs()))
    }
}

fn path(home: &Home) -> PathBuf {
    home.path().join("catalog.db")
}

fn check(db: &Connection, path: &Path) -> Result<(), IndexError> {
    let application: i64 = db.pragma_query_value(None, "application_id", |r| r.get(0))?;
    let form: i64 = db.pragma_query_value(None, "user_version", |r| r.get(0))?;
    match (application, form) {
        (APPLICATION_ID, FORMAT) => Ok(()),
        (APPLICATION_ID, _) => Err(IndexError::OtherFormat),
        _ => Err(IndexError::NotOurs(path.into())),
    }
}

/// Creates the file and tables of a new catalogue.
fn make(path: &Path) -> Result<Connection, IndexError> {
    private::create_new(path).map_err(|source| IndexError::Io { path: path.into(), source })?;
    let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    db.execute_batch(include_str!("index/schema.sql"))?;
    db.pragma_update(None, "application_id", APPLICATION_ID)?;
    db.pragma_update(None, "user_version", FORMAT)?;
    Ok(db)
}

/// The index of a word in its list, as stored.
fn rank<T: PartialEq + Copy, const N: usize>(all: [T; N], one: T) -> u8 {
    let at = all.iter().position(|other| *other == one).unwrap_or_default();
    u8::try_from(at).unwrap_or_default()
}

fn category(rank: u8) -> Category {
    Category::ALL.get(usize::from(rank)).copied().unwrap_or(Category::Write)
}

fn risk(rank: u8) -> Risk {
    Risk::ALL.get(usize::from(rank)).copied().unwrap_or(Risk::High)
}
