//! Reads the SQLite file of another program without changing a byte of it. SQLite may write beside a
//! database even to read it, so what is opened is a copy, which goes when this is dropped.

use std::fs::{self, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use crate::home::private;
use crate::random::{Random, RandomError};
use crate::records::Records;

/// Ten years of records are some thirty megabytes.
const FILE_BYTES_MAX: u64 = 2 << 30;

#[derive(Debug, thiserror::Error)]
pub enum ForeignError {
    #[error("cannot {act} `{}`: {source}", .path.display())]
    Io { act: &'static str, path: PathBuf, source: io::Error },
    #[error("`{}` is larger than a database of this kind can be", .0.display())]
    TooLarge(PathBuf),
    #[error("`{}` cannot be read: {words}", .path.display())]
    Database { path: PathBuf, words: String },
    #[error(transparent)]
    Random(#[from] RandomError),
}

/// How the names of the copies begin. One that was killed leaves its own behind, and forgetting
/// removes it.
pub(crate) const COPY_PREFIX: &str = "data.db.import-";

/// An open copy of somebody else's database.
pub struct Foreign {
    source: PathBuf,
    // The copy goes after its connection, which writes beside it to the end.
    db: Connection,
    _copy: Copied,
}

/// A copy on the disk, with what SQLite keeps beside it.
struct Copied(PathBuf);

impl Foreign {
    /// Copies the database, with what its log still holds, beside our own records and opens that.
    pub fn open(
        source: &Path,
        records: &Records,
        random: &Random,
    ) -> Result<Foreign, ForeignError> {
        let copy =
            Copied(records.path().with_file_name(format!("{COPY_PREFIX}{}", random.name()?)));
        for end in ["", "-wal"] {
            let from = with_end(source, end);
            if end.is_empty() || from.exists() {
                take(&from, &with_end(&copy.0, end))?;
            }
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(&copy.0, flags).map_err(|error| {
            ForeignError::Database { path: source.into(), words: error.to_string() }
        })?;
        Ok(Foreign { source: source.into(), db, _copy: copy })
    }

    /// Hands each text of a column to `take`, in the order of the table. A table that is not there
    /// holds nothing.
    pub fn column<E: From<ForeignError>>(
        &self,
        table: &'static str,
        column: &'static str,
        mut take: impl FnMut(String) -> Result<(), E>,
    ) -> Result<(), E> {
        let failed = |error: rusqlite::Error| {
            E::from(ForeignError::Database { path: self.source.clone(), words: error.to_string() })
        };
        let is_there: bool = self
            .db
            .query_row(
                "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1)",
                [table],
                |row| row.get(0),
            )
            .map_err(failed)?;
        if !is_there {
            return Ok(());
        }
        let sql =
            format!("SELECT {column} FROM {table} WHERE typeof({column}) = 'text' ORDER BY rowid");
        let mut statement = self.db.prepare(&sql).map_err(failed)?;
        let mut rows = statement.query([]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            take(row.get(0).map_err(failed)?)?;
        }
        Ok(())
    }
}

impl Drop for Copied {
    /// The copies hold the owner's data; a failure to remove one is said and not hidden.
    fn drop(&mut self) {
        for path in ["", "-wal", "-shm"].map(|end| with_end(&self.0, end)) {
            match fs::remove_file(&path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!("cannot remove `{}`: {e}", path.display());
                }
                _ => {}
            }
        }
    }
}

fn take(from: &Path, to: &Path) -> Result<(), ForeignError> {
    let failed = |act, path: &Path| {
        let path = path.to_owned();
        move |source| ForeignError::Io { act, path, source }
    };
    let size = fs::metadata(from).map_err(failed("look at", from))?.len();
    if size > FILE_BYTES_MAX {
        return Err(ForeignError::TooLarge(from.into()));
    }
    private::create_new(to).map_err(failed("make", to))?;
    let mut source = fs::File::open(from).map_err(failed("open", from))?;
    let mut target = OpenOptions::new().write(true).open(to).map_err(failed("open", to))?;
    io::copy(&mut source, &mut target).map_err(failed("copy", from))?;
    fs::set_permissions(to, Permissions::from_mode(0o600)).map_err(failed("set the mode of", to))
}

fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}
