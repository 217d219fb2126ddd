//! What can go wrong with the owner's records, in words for the owner.

use std::io;
use std::path::PathBuf;

use rusqlite::ErrorCode;

#[derive(Debug, thiserror::Error)]
pub enum RecordsError {
    #[error("`data.db` is in use by another process for more than {} s\nhint: wait for the other sync or export to end and try again", super::BUSY_MS_MAX / 1000)]
    Locked,
    #[error(
        "`data.db` is damaged: {0}\nhint: nothing was written; move the file away and run `tollgate sync`, or put a copy back"
    )]
    Corrupt(String),
    #[error(
        "`data.db` cannot be written: it or its folder is read-only\nhint: `tollgate doctor` shows what to mend"
    )]
    ReadOnly,
    #[error("the disk is full; `data.db` was not changed\nhint: free some space and try again")]
    DiskFull,
    #[error("`data.db` cannot be read or written: {0}\nhint: `tollgate doctor` shows what to mend")]
    Io(String),
    #[error("`{}` has gone while in use\nhint: put it back, or start tollgate again", .0.display())]
    Vanished(PathBuf),
    #[error("`{}` was written by a newer tollgate (schema {found}, this one knows {known})\nhint: use the newer tollgate; the file was left as it is", .path.display())]
    Newer { path: PathBuf, found: i64, known: i64 },
    #[error("`{}` is a database, but not tollgate's\nhint: move it away, or set `TOLLGATE_HOME` to another folder", .0.display())]
    NotOurs(PathBuf),
    #[error("cannot copy `data.db` to `{}` before an upgrade: {words}\nhint: the database was not changed", .path.display())]
    Backup { path: PathBuf, words: String },
    #[error(
        "the rows are deleted, but another process still reads `data.db` and keeps their old pages\nhint: stop it (`tollgate status` shows who uses this home) and run the command again"
    )]
    StillRead,
}

impl From<rusqlite::Error> for RecordsError {
    fn from(error: rusqlite::Error) -> RecordsError {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => RecordsError::Locked,
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                RecordsError::Corrupt(error.to_string())
            }
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => RecordsError::ReadOnly,
            Some(ErrorCode::DiskFull) => RecordsError::DiskFull,
            Some(_) if has_no_room_for_index(&error) => RecordsError::DiskFull,
            Some(_) => RecordsError::Io(error.to_string()),
            // A row that does not fit its table's types was not written by us.
            None => RecordsError::Corrupt(error.to_string()),
        }
    }
}

/// On a full disk reading fails, too, where the log has no index yet.
pub(crate) fn has_no_room_for_index(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error().map(|error| error.extended_code);
    code == Some(rusqlite::ffi::SQLITE_IOERR_SHMSIZE)
}

impl From<io::Error> for RecordsError {
    fn from(error: io::Error) -> RecordsError {
        match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                RecordsError::ReadOnly
            }
            io::ErrorKind::StorageFull => RecordsError::DiskFull,
            _ => RecordsError::Io(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    #[test]
    fn a_full_disk_is_called_so_whoever_noticed_it() {
        let sqlite = |code| rusqlite::Error::SqliteFailure(ffi::Error::new(code), None).into();
        for error in [
            sqlite(ffi::SQLITE_FULL),
            sqlite(ffi::SQLITE_IOERR_SHMSIZE),
            RecordsError::from(io::Error::from(io::ErrorKind::StorageFull)),
        ] {
            let words = error.to_string();
            assert!(words.starts_with("the disk is full; `data.db` was not changed\nhint: free "));
        }
        let other: RecordsError = sqlite(ffi::SQLITE_IOERR_READ);
        assert!(!other.to_string().contains("full"));
    }
}
