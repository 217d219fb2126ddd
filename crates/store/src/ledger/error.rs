//! Why the ledger cannot write a row. In every case the call does not happen.

use std::io;
use std::path::{Path, PathBuf};

use crate::postgres::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    #[error("no space left for the audit log at `{}`\nhint: free some space (`df -h {}`); calls are admitted again at once", .0.display(), .0.display())]
    Full(PathBuf),
    #[error("the audit log at `{}` cannot be written: {source}\nhint: make it writable for the user that runs tollgate; calls are admitted again at once", .path.display())]
    ReadOnly { path: PathBuf, source: io::Error },
    #[error("the audit log `{}` is gone\nhint: restore it; to start a new chain instead, stop tollgate and move the folder away (`mv {} {}.old`)", .0.display(), .0.parent().unwrap_or(.0).display(), .0.parent().unwrap_or(.0).display())]
    Gone(PathBuf),
    #[error("the audit log `{}` is not the one that was being written: {why}\nhint: restore the original, and run `tollgate audit verify`", .path.display())]
    Replaced { path: PathBuf, why: String },
    #[error("the audit log `{}` ends in bytes that tollgate did not write, from byte {offset} on\nhint: `tollgate audit verify` shows them; restarting tollgate truncates them and keeps a copy", .path.display())]
    SqliteCopy { path: PathBuf, offset: u64 },
    #[error("the audit log is damaged at `{}`, byte {offset}: {why}\nhint: run `tollgate audit verify`; restore the file from a copy, or start a new chain by moving the folder away (`mv {} {}.damaged`)", .path.display(), .path.parent().unwrap_or(.path).display(), .path.parent().unwrap_or(.path).display())]
    Damaged { path: PathBuf, offset: u64, why: String },
    #[error("another process has held the lock `{}` for {waited_ms} ms\nhint: `fuser {}` names it; calls are admitted again when it releases the lock", .path.display(), .path.display())]
    Locked { path: PathBuf, waited_ms: u64 },
    #[error("the audit log at `{}` could not be flushed to disk: {words}\nhint: check the disk (`dmesg`); calls are admitted again after a flush that succeeds", .path.display())]
    NotFlushed { path: PathBuf, words: String },
    #[error("the audit log on `{store}` cannot be used: {source}")]
    Store { store: String, source: StoreError },
    #[error(
        "the audit log on `{store}` no longer has row {seq}, which was on disk\nhint: an older copy was put back, or a standby took over that did not have it; `tollgate audit verify` checks the rest, and restarting tollgate accepts it"
    )]
    RowsLost { store: String, seq: u64 },
    #[error(
        "the audit log on `{store}` is damaged at row {seq}: {why}\nhint: run `tollgate audit verify`; restore the database from a copy"
    )]
    DamagedRow { store: String, seq: u64, why: String },
    #[error("the registry has changed on the store, and this gate has not read the change yet")]
    RegistryBehind,
    #[error(
        "there is no audit log on `{0}` yet\nhint: `tollgate up`, or the first change, begins it; if there was one, restore the database"
    )]
    NoLog(String),
    #[error("`{}` has an audit log already\nhint: copy to an empty store or home", .0.display())]
    NotEmpty(PathBuf),
    #[error("the audit log that was copied to `{}` does not end like the original\nhint: stop all gates and copy to another empty place", .0.display())]
    CopyDiffers(PathBuf),
    #[error("cannot {act} `{}`: {source}\nhint: `tollgate doctor` says what is wrong with the folder", .path.display())]
    Io { act: &'static str, path: PathBuf, source: io::Error },
}

impl LedgerError {
    pub(crate) fn io(act: &'static str, path: &Path) -> impl FnOnce(io::Error) -> LedgerError {
        let path = path.to_owned();
        move |source| match source.kind() {
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge => LedgerError::Full(folder(&path)),
            io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
                LedgerError::ReadOnly { path, source }
            }
            _ => LedgerError::Io { act, path, source },
        }
    }

    /// The same error, for another waiter of the same write.
    pub(crate) fn same(&self) -> LedgerError {
        use LedgerError::{Full, Io, ReadOnly, Store};
        let again = |source: &io::Error| io::Error::new(source.kind(), source.to_string());
        match self {
            Full(path) => Full(path.clone()),
            ReadOnly { path, source } => ReadOnly { path: path.clone(), source: again(source) },
            Io { act, path, source } => Io { act, path: path.clone(), source: again(source) },
            Store { store, source } => Store { store: store.clone(), source: source.clone() },
            other => Io {
                act: "write",
                path: PathBuf::from("the audit log"),
                source: io::Error::other(other.to_string()),
            },
        }
    }

    /// The same error, for another waiter of the same flush.
    pub(crate) fn not_flushed(path: &Path, words: &str) -> LedgerError {
        LedgerError::NotFlushed { path: path.to_owned(), words: words.to_owned() }
    }
}

fn folder(path: &Path) -> PathBuf {
    if path.extension().is_some() { path.parent().unwrap_or(path) } else { path }.to_owned()
}
