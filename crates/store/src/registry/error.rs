//! Errors of the registry, worded for the owner.

use std::io;
use std::path::PathBuf;

use rusqlite::ErrorCode;

use super::target::TargetError;
use crate::ledger::timestamp;
use crate::postgres::StoreError;
use crate::random::RandomError;
use crate::records::is_shm_full;
use crate::vault::VaultError;

/// The kind of object that a name refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectKind {
    Server,
    Policy,
    PolicyVersion,
    Grant,
    Tool,
    Setting,
    Approval,
    Person,
    Channel,
}

impl ObjectKind {
    pub fn as_str(self) -> &'static str {
        match self {
            ObjectKind::Server => "server",
            ObjectKind::Policy => "policy",
            ObjectKind::PolicyVersion => "policy version",
            ObjectKind::Grant => "grant",
            ObjectKind::Tool => "tool",
            ObjectKind::Setting => "setting",
            ObjectKind::Approval => "approval",
            ObjectKind::Person => "person",
            ObjectKind::Channel => "channel",
        }
    }
}

/// Where an object is defined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Origin {
    /// In `gate.db`, created by a command or a page.
    Registry,
    /// In `tollgate.toml`; changed by editing that file.
    File,
}

impl Origin {
    pub fn as_str(self) -> &'static str {
        match self {
            Origin::Registry => "gate.db",
            Origin::File => "tollgate.toml",
        }
    }
}

/// How a name becomes free.
fn freeing(kind: ObjectKind, name: &str, place: Origin) -> String {
    match (place, kind) {
        (Origin::File, _) => "remove that one from tollgate.toml first".to_owned(),
        (Origin::Registry, ObjectKind::Grant) => format!("`tollgate grant revoke {name}` first"),
        (Origin::Registry, ObjectKind::Server) => format!("`tollgate server remove {name}` first"),
        (Origin::Registry, _) => "remove that one first".to_owned(),
    }
}

#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    #[error("`gate.db` was locked by another process for more than {} s\nhint: `tollgate status` shows who uses this home; try again", super::BUSY_MS_MAX / 1000)]
    Locked,
    #[error(
        "`gate.db` is damaged: {0}\nhint: nothing was written; `tollgate doctor` lists the copies in `backups/`"
    )]
    Corrupt(String),
    #[error(
        "`gate.db` cannot be written: it or its folder is read-only\nhint: `tollgate doctor` shows what to fix"
    )]
    ReadOnly,
    #[error("the disk is full; `gate.db` was not changed\nhint: free some space and try again")]
    DiskFull,
    #[error("`gate.db` cannot be read or written: {0}\nhint: `tollgate doctor` shows what to fix")]
    Io(String),
    #[error("`{}` disappeared or was replaced while in use\nhint: restore it; it is opened again automatically", .0.display())]
    Vanished(PathBuf),
    #[error("`{}` was written by a newer tollgate (schema {found}, this one knows {known})\nhint: use the newer tollgate; the file was not changed", .path.display())]
    Newer { path: PathBuf, found: i64, known: i64 },
    #[error("`{}` is a database, but not tollgate's\nhint: move it away, or set `TOLLGATE_HOME` to another folder", .0.display())]
    NotOurs(PathBuf),
    #[error(
        "the store was upgraded by a newer tollgate (schema {found}, this one knows {known})\nhint: use the newer tollgate; nothing was changed"
    )]
    NewerStore { found: i64, known: i64 },
    #[error(
        "the registry that is to be filled has servers, policies, grants or people already\nhint: copy to an empty store or home"
    )]
    InUse,
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("it is unknown whether the store has the change: {0}\nhint: look before you repeat it")]
    Unconfirmed(StoreError),
    #[error("cannot copy `gate.db` to `{}` before an upgrade: {words}\nhint: the database was not changed", .path.display())]
    Backup { path: PathBuf, words: String },
    #[error(
        "the vault key is not the one `gate.db` was made with\nhint: restore the right `vault.key` from a backup, or pass the key that was used before"
    )]
    KeyChanged,

    #[error("`{name}` cannot be the name of a {}\nhint: {rule}", .kind.as_str())]
    Name { kind: ObjectKind, name: String, rule: &'static str },
    #[error("the {} `{name}` already exists in {}\nhint: choose another name, or {}", .kind.as_str(), .place.as_str(), freeing(*.kind, name, *.place))]
    Exists { kind: ObjectKind, name: String, place: Origin },
    #[error("there is no {} `{name}`{near}", .kind.as_str())]
    Missing { kind: ObjectKind, name: String, near: String },
    #[error("grant `{label}` was revoked at {}\nhint: `tollgate grant create {label} --server SERVER=POLICY` creates a new one of that name", timestamp::text(*.at_us))]
    Revoked { label: String, at_us: i64 },
    #[error("policy `{name}` is in use by {}\nhint: give those grants another policy first", listed(.grants))]
    PolicyInUse { name: String, grants: Vec<String> },
    #[error("policy `{name}` does not load; nothing was changed\n{source}")]
    PolicyDoesNotLoad { name: String, source: policy::LoadError },
    #[error("{} `{name}` is {bytes} bytes long; the maximum is {bytes_max}", .kind.as_str())]
    TooLarge { kind: ObjectKind, name: String, bytes: usize, bytes_max: usize },
    #[error("a {} can hold {most} {what} at most", .kind.as_str())]
    TooMany { kind: ObjectKind, what: &'static str, most: usize },
    #[error("channel `{name}` is not complete: {words}")]
    Channel { name: String, words: String },
    #[error(
        "server `{server}` is for operator grants only, and `{label}` is not one\nhint: `tollgate grant create {label} --operator --server {server}` creates an operator grant"
    )]
    NotOperator { label: String, server: String },
    #[error("grant `{0}` would expire in the past\nhint: give a later time, or none")]
    ExpiryPast(String),
    #[error("`{0}` is the only admin\nhint: make another person an admin first")]
    LastAdmin(String),
    #[error(
        "the role and e-mail of `{0}` come from the issuer\nhint: change `[oidc.roles]` in tollgate.toml"
    )]
    Mapped(String),
    #[error("`{0}` is not an e-mail address")]
    Email(String),
    #[error("another person has the e-mail address `{0}`")]
    EmailTaken(String),
    #[error("this passkey cannot be used: {0}")]
    Passkey(&'static str),
    #[error("an overlap of {seconds} s is too long; the maximum is {} days", super::grants::OVERLAP_SECONDS_MAX / 86_400)]
    OverlapTooLong { seconds: u64 },
    #[error(
        "tool `{tool}` of server `{server}` has changed again since you reviewed it\nhint: review the difference again"
    )]
    ChangedAgain { server: String, tool: String },
    #[error("the tool list of server `{server}` cannot be read: {words}")]
    ToolList { server: String, words: String },
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error(transparent)]
    Vault(#[from] VaultError),
    #[error(transparent)]
    Random(#[from] RandomError),
}

impl From<rusqlite::Error> for RegistryError {
    fn from(error: rusqlite::Error) -> RegistryError {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => RegistryError::Locked,
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                RegistryError::Corrupt(error.to_string())
            }
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => RegistryError::ReadOnly,
            Some(ErrorCode::DiskFull) => RegistryError::DiskFull,
            Some(_) if is_shm_full(&error) => RegistryError::DiskFull,
            Some(_) => RegistryError::Io(error.to_string()),
            // We did not write a row that does not fit its table's types.
            None => RegistryError::Corrupt(error.to_string()),
        }
    }
}

impl From<io::Error> for RegistryError {
    fn from(error: io::Error) -> RegistryError {
        match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                RegistryError::ReadOnly
            }
            io::ErrorKind::StorageFull => RegistryError::DiskFull,
            _ => RegistryError::Io(error.to_string()),
        }
    }
}

/// `a`, `b` and `c` in backticks.
pub(crate) fn listed(names: &[String]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use rusqlite::Connection;

    use super::RegistryError;

    fn database() -> (tempfile::NamedTempFile, Connection) {
        let file = tempfile::NamedTempFile::new().unwrap();
        let db = Connection::open(file.path()).unwrap();
        db.execute_batch("CREATE TABLE t (x)").unwrap();
        (file, db)
    }

    fn failure(db: &Connection) -> RegistryError {
        db.execute("INSERT INTO t VALUES (zeroblob(100000))", []).unwrap_err().into()
    }

    #[test]
    fn each_failure_of_sqlite_has_its_own_words() {
        let (file, db) = database();
        let other = Connection::open(file.path()).unwrap();
        other.busy_timeout(std::time::Duration::ZERO).unwrap();
        db.execute_batch("BEGIN IMMEDIATE").unwrap();
        assert!(matches!(failure(&other), RegistryError::Locked));
        db.execute_batch("ROLLBACK").unwrap();

        db.execute_batch("PRAGMA query_only = 1").unwrap();
        assert!(matches!(failure(&db), RegistryError::ReadOnly));
        db.execute_batch("PRAGMA query_only = 0; PRAGMA max_page_count = 2").unwrap();
        assert!(matches!(failure(&db), RegistryError::DiskFull));

        std::fs::write(file.path(), "not a database ".repeat(100)).unwrap();
        let damaged = Connection::open(file.path()).unwrap();
        assert!(matches!(failure(&damaged), RegistryError::Corrupt(_)));

        let wrong_type = Connection::open_in_memory().unwrap();
        let error = wrong_type.query_row("SELECT 'a'", [], |r| r.get::<_, i64>(0)).unwrap_err();
        assert!(matches!(RegistryError::from(error), RegistryError::Corrupt(_)));
    }
}
