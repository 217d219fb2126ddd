//! Errors of the owner's records, worded for the owner.

use std::io;
use std::path::PathBuf;

use rusqlite::ErrorCode;

#[derive(Debug, thiserror::Error)]
pub enum RecordsError {
    #[error("`data.db` was locked by another process for more than {} s\nhint: wait for the other sync or export to end and try again", super::BUSY_MS_MAX / 1000)]
    Locked,
    #[error(
        "`data.db` is damaged: {0}\nhint: nothing was written; move the file away and run `tollgate sync SERVICE --full`, or restore a copy"
    )]
    Corrupt(String),
    #[error(
        "`data.db` cannot be written: it or its folder is read-only\nhint: `tollgate doctor` shows what to fix"
    )]
    ReadOnly,
    #[error("the disk is full; `data.db` was not changed\nhint: free some space and try again")]
    DiskFull,
    #[error("`data.db` cannot be read or written: {0}\nhint: `tollgate doctor` shows what to fix")]
    Io(String),
    #[error("`{}` disappeared while in use\nhint: restore it, or start tollgate again", .0.display())]
    Vanished(PathBuf),
    #[error("`{}` was written by a newer tollgate (schema {found}, this one knows {known})\nhint: use the newer tollgate; the file was not changed", .path.display())]
    Newer { path: PathBuf, found: i64, known: i64 },
    #[error("`{}` is a database, but not tollgate's\nhint: move it away, or set `TOLLGATE_HOME` to another folder", .0.display())]
    NotOurs(PathBuf),
    #[error("cannot copy `data.db` to `{}` before an upgrade: {message}\nhint: the database was not changed", .path.display())]
    Backup { path: PathBuf, message: String },
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
            Some(_) if is_shm_full(&error) => RecordsError::DiskFull,
            Some(_) => RecordsError::Io(error.to_string()),
            // We did not write a row that does not fit its table's types.
            None => RecordsError::Corrupt(error.to_string()),
        }
    }
}

/// On a full disk reading fails too, if the write-ahead log has no shared-memory index yet.
pub(crate) fn is_shm_full(error: &rusqlite::Error) -> bool {
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
    fn a_full_disk_is_reported_as_such_from_every_source() {
        let sqlite = |code| rusqlite::Error::SqliteFailure(ffi::Error::new(code), None).into();
        for error in [
            sqlite(ffi::SQLITE_FULL),
            sqlite(ffi::SQLITE_IOERR_SHMSIZE),
            RecordsError::from(io::Error::from(io::ErrorKind::StorageFull)),
        ] {
            let message = error.to_string();
            assert!(
                message.starts_with("the disk is full; `data.db` was not changed\nhint: free ")
            );
        }
        let other: RecordsError = sqlite(ffi::SQLITE_IOERR_READ);
        assert!(!other.to_string().contains("full"));
    }
}
