//! Reads the SQLite file of another program without changing it. SQLite may write next to a
//! database even to read it, so a copy is opened, which is removed on drop.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use crate::home::private;
use crate::random::{Random, RandomError};
use crate::records::Records;

/// Ten years of records are some thirty megabytes.
const FILE_BYTES_MAX: u64 = 2 << 30;

#[derive(Debug, thiserror::Error)]
pub enum SqliteCopyError {
    #[error("cannot {act} `{}`: {source}", .path.display())]
    Io { act: &'static str, path: PathBuf, source: io::Error },
    #[error("`{}` is larger than a database of this kind can be", .0.display())]
    TooLarge(PathBuf),
    #[error("`{}` cannot be read: {message}", .path.display())]
    Database { path: PathBuf, message: String },
    #[error(transparent)]
    Random(#[from] RandomError),
}

/// Prefix of the names of the copies. A killed process leaves its copy, and `forget` removes it.
pub(crate) const COPY_PREFIX: &str = "data.db.import-";

/// An open copy of another program's database.
pub struct SqliteCopy {
    source: PathBuf,
    // The copy is removed after its connection, which writes next to it until the end.
    db: Connection,
    _copy: CopyFile,
}

/// A copy on disk, with the files that SQLite keeps next to it.
struct CopyFile(PathBuf);

impl SqliteCopy {
    /// Copies the database with its write-ahead log next to our own records and opens the copy.
    pub fn open(
        source: &Path,
        records: &Records,
        random: &Random,
    ) -> Result<SqliteCopy, SqliteCopyError> {
        let copy =
            CopyFile(records.path().with_file_name(format!("{COPY_PREFIX}{}", random.name()?)));
        for suffix in ["", "-wal"] {
            let from = with_suffix(source, suffix);
            if suffix.is_empty() || from.exists() {
                copy_file(&from, &with_suffix(&copy.0, suffix))?;
            }
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(&copy.0, flags).map_err(|error| {
            SqliteCopyError::Database { path: source.into(), message: error.to_string() }
        })?;
        Ok(SqliteCopy { source: source.into(), db, _copy: copy })
    }

    /// Passes each text of a column to `take`, in table order. A missing table is empty.
    pub fn column<E: From<SqliteCopyError>>(
        &self,
        table: &'static str,
        column: &'static str,
        mut take: impl FnMut(String) -> Result<(), E>,
    ) -> Result<(), E> {
        let failed = |error: rusqlite::Error| {
            E::from(SqliteCopyError::Database {
                path: self.source.clone(),
                message: error.to_string(),
            })
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

impl Drop for CopyFile {
    /// The copies contain the owner's data, so a failure to remove one is reported.
    fn drop(&mut self) {
        for path in ["", "-wal", "-shm"].map(|suffix| with_suffix(&self.0, suffix)) {
            match fs::remove_file(&path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!("cannot remove `{}`: {e}", path.display());
                }
                _ => {}
            }
        }
    }
}

fn copy_file(from: &Path, to: &Path) -> Result<(), SqliteCopyError> {
    let failed = |act, path: &Path| {
        let path = path.to_owned();
        move |source| SqliteCopyError::Io { act, path, source }
    };
    let size = fs::metadata(from).map_err(failed("inspect", from))?.len();
    if size > FILE_BYTES_MAX {
        return Err(SqliteCopyError::TooLarge(from.into()));
    }
    private::create_new(to).map_err(failed("create", to))?;
    let mut source = fs::File::open(from).map_err(failed("open", from))?;
    let mut target = OpenOptions::new().write(true).open(to).map_err(failed("open", to))?;
    io::copy(&mut source, &mut target).map_err(failed("copy", from))?;
    let found = fs::metadata(to).map_err(failed("inspect", to))?;
    platform::private::restrict(to, &found).map_err(failed("restrict", to))?;
    Ok(())
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
