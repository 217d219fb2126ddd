//! What can go wrong in the registry, in words for the owner.

use std::path::PathBuf;

use rusqlite::ErrorCode;

use super::target::TargetError;
use crate::ledger::stamp;
use crate::random::RandomError;
use crate::records::has_no_room_for_index;
use crate::vault::VaultError;

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thing {
    Server,
    Policy,
    PolicyVersion,
    Grant,
    Tool,
    Setting,
    Approval,
}

impl Thing {
    pub fn as_str(self) -> &'static str {
        match self {
            Thing::Server => "server",
            Thing::Policy => "policy",
            Thing::PolicyVersion => "policy version",
            Thing::Grant => "grant",
            Thing::Tool => "tool",
            Thing::Setting => "setting",
            Thing::Approval => "approval",
        }
    }
}

/// Where an object is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Origin {
    /// In `gate.db`, put there by a command or a page.
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

#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    #[error("`gate.db` is locked by another process for more than {} s\nhint: `tollgate status` shows who uses this home; try again", super::BUSY_MS_MAX / 1000)]
    Locked,
    #[error(
        "`gate.db` is damaged: {0}\nhint: nothing was written; `tollgate doctor` lists the copies in `backups/`"
    )]
    Corrupt(String),
    #[error(
        "`gate.db` cannot be written: it or its folder is read-only\nhint: `tollgate doctor` shows what to mend"
    )]
    ReadOnly,
    #[error("the disk is full; `gate.db` was not changed\nhint: free some space and try again")]
    DiskFull,
    #[error("`gate.db` cannot be read or written: {0}\nhint: `tollgate doctor` shows what to mend")]
    Io(String),
    #[error("`{}` has gone or was replaced while in use\nhint: put it back; it is opened again by itself", .0.display())]
    Vanished(PathBuf),
    #[error("`{}` was written by a newer tollgate (schema {found}, this one knows {known})\nhint: use the newer tollgate; the file was left as it is", .path.display())]
    Newer { path: PathBuf, found: i64, known: i64 },
    #[error("`{}` is a database, but not tollgate's\nhint: move it away, or set `TOLLGATE_HOME` to another folder", .0.display())]
    NotOurs(PathBuf),
    #[error("cannot copy `gate.db` to `{}` before an upgrade: {words}\nhint: the database was not changed", .path.display())]
    Backup { path: PathBuf, words: String },
    #[error(
        "the vault key is not the one `gate.db` was made with\nhint: put the right `vault.key` back from a backup, or hand in the key that was used before"
    )]
    KeyChanged,

    #[error("`{name}` cannot be the name of a {}\nhint: {rule}", .thing.as_str())]
    Name { thing: Thing, name: String, rule: &'static str },
    #[error("there is a {} `{name}` already, in {}\nhint: choose another name, or remove that one first", .thing.as_str(), .place.as_str())]
    Exists { thing: Thing, name: String, place: Origin },
    #[error("there is no {} `{name}`{near}", .thing.as_str())]
    Missing { thing: Thing, name: String, near: String },
    #[error("grant `{label}` was revoked at {}\nhint: `tollgate grant create {label} --server SERVER=POLICY` makes a new one of that name", stamp::text(*.at_us))]
    Revoked { label: String, at_us: i64 },
    #[error("policy `{name}` is in use by {}\nhint: give those grants another policy first", listed(.grants))]
    PolicyInUse { name: String, grants: Vec<String> },
    #[error("policy `{name}` does not load; nothing was changed\n{source}")]
    PolicyDoesNotLoad { name: String, source: policy::LoadError },
    #[error("{} `{name}` is {bytes} bytes long; the most is {bytes_max}", .thing.as_str())]
    TooLarge { thing: Thing, name: String, bytes: usize, bytes_max: usize },
    #[error("a {} can hold {most} {what} at most", .thing.as_str())]
    TooMany { thing: Thing, what: &'static str, most: usize },
    #[error("grant `{0}` would expire in the past\nhint: give a later time, or none")]
    ExpiryPast(String),
    #[error("an overlap of {seconds} s is too long; the most is {} days", super::grants::OVERLAP_SECONDS_MAX / 86_400)]
    OverlapTooLong { seconds: u64 },
    #[error(
        "tool `{tool}` of server `{server}` has changed again since it was looked at\nhint: look at the difference again"
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
            Some(_) if has_no_room_for_index(&error) => RegistryError::DiskFull,
            Some(_) => RegistryError::Io(error.to_string()),
            // A row that does not fit its table's types was not written by us.
            None => RegistryError::Corrupt(error.to_string()),
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
    #![allow(clippy::unwrap_used, reason = "a test fails where the stage does not stand")]

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
