//! The tables of `data.db` and how older files are upgraded: a copy first, then one transaction.
//! Steps are only ever added; a released step is never edited.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::RecordsError;
use crate::home::private;

/// `tldt`: distinguishes the records from other databases, including `gate.db`.
const APPLICATION_ID: i64 = 0x746c_6474;

/// Step N brings a file from version N to N + 1.
const STEPS: &[&str] = &[include_str!("schema/1.sql")];

#[expect(clippy::cast_possible_wrap, reason = "a handful of steps")]
pub(super) const VERSION: i64 = STEPS.len() as i64;

const BACKUPS_MAX: usize = 1_000;

/// The state of a file relative to this version.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SchemaState {
    Current,
    /// Blank or older; [`upgrade`] makes it current.
    Behind,
}

/// Checks through a read-only connection, which changes no byte: another program's database and a
/// newer one are rejected.
pub(super) fn schema_state(db: &Connection, path: &Path) -> Result<SchemaState, RecordsError> {
    schema_state_for(db, path, VERSION)
}

fn schema_state_for(db: &Connection, path: &Path, known: i64) -> Result<SchemaState, RecordsError> {
    let select = "SELECT (SELECT user_version FROM pragma_user_version), \
                (SELECT application_id FROM pragma_application_id), \
                EXISTS (SELECT 1 FROM sqlite_schema)";
    let (found, application, has_tables): (i64, i64, bool) =
        db.query_row(select, [], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?)))?;
    let is_blank = found == 0 && !has_tables;
    if application != APPLICATION_ID && !is_blank {
        return Err(RecordsError::NotOurs(path.into()));
    }
    if found > known {
        return Err(RecordsError::Newer { path: path.into(), found, known });
    }
    Ok(if found == known { SchemaState::Current } else { SchemaState::Behind })
}

/// Upgrades the file to this version. While the write lock is held, another connection makes the
/// copy, so that no process can write between the copy and the change.
pub(super) fn upgrade(
    db: &mut Connection,
    path: &Path,
    backups: &Path,
) -> Result<(), RecordsError> {
    upgrade_by(STEPS, db, path, backups)
}

fn upgrade_by(
    steps: &[&str],
    db: &mut Connection,
    path: &Path,
    backups: &Path,
) -> Result<(), RecordsError> {
    let known = i64::try_from(steps.len()).unwrap_or(i64::MAX);
    let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if schema_state_for(&transaction, path, known)? == SchemaState::Current {
        return Ok(());
    }
    let from: i64 = transaction.pragma_query_value(None, "user_version", |r| r.get(0))?;
    if from > 0 {
        back_up(path, backups, from)?;
    }
    for step in steps.iter().skip(usize::try_from(from).unwrap_or_default()) {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", known)?;
    transaction.commit()?;
    Ok(())
}

fn back_up(path: &Path, backups: &Path, from: i64) -> Result<(), RecordsError> {
    let copy = new_copy(backups, from)?;
    let failed = |message: String| RecordsError::Backup { path: copy.clone(), message };
    let name = copy.to_str().ok_or_else(|| failed("the path is not text".into()))?;
    let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    db.execute("VACUUM INTO ?1", [name]).map_err(|e| failed(e.to_string()))?;
    let synced = fs::File::open(&copy).and_then(|file| file.sync_all());
    synced.map_err(|e| failed(e.to_string()))?;
    tracing::info!("copied data.db to `{}` before the upgrade", copy.display());
    Ok(())
}

/// An empty file under an unused name; a copy never overwrites an older one.
fn new_copy(backups: &Path, from: i64) -> Result<PathBuf, RecordsError> {
    let names = (1..=BACKUPS_MAX).map(|n| backups.join(format!("{COPY_PREFIX}{from}-{n}.db")));
    for path in names {
        match private::create_new(&path) {
            Ok(_) => return Ok(path),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(RecordsError::Backup { path, message: e.to_string() }),
        }
    }
    Err(RecordsError::Backup { path: backups.into(), message: "there are too many copies".into() })
}

/// Prefix of the names of our copies; `forget` removes them too.
pub(super) const COPY_PREFIX: &str = "data-schema";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::fs;
    use std::path::Path;

    use rusqlite::Connection;

    use super::upgrade_by;
    use crate::records::RecordsError;

    const FIRST: &str = "CREATE TABLE t (x); INSERT INTO t VALUES ('old row')";
    const SECOND: &str = "ALTER TABLE t ADD COLUMN y; UPDATE t SET y = 'new'";
    const BROKEN: &str = "UPDATE t SET x = 'spoilt'; SELECT nonsense";

    struct Fixture {
        folder: tempfile::TempDir,
        db: Connection,
    }

    impl Fixture {
        /// A database as the first version left it.
        fn new() -> Fixture {
            let folder = tempfile::tempdir().unwrap();
            fs::create_dir(folder.path().join("backups")).unwrap();
            let db = Connection::open(folder.path().join("data.db")).unwrap();
            let mut fixture = Fixture { folder, db };
            fixture.upgrade(&[FIRST]).unwrap();
            assert!(fixture.copies().is_empty(), "a new file needs no copy");
            fixture
        }

        fn upgrade(&mut self, steps: &[&str]) -> Result<(), RecordsError> {
            let path = self.folder.path();
            upgrade_by(steps, &mut self.db, &path.join("data.db"), &path.join("backups"))
        }

        fn copies(&self) -> Vec<std::path::PathBuf> {
            let entries = fs::read_dir(self.folder.path().join("backups")).unwrap();
            let mut copies: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
            copies.sort();
            copies
        }
    }

    fn query(db: &Connection, sql: &str) -> String {
        db.query_row(sql, [], |r| r.get(0)).unwrap()
    }

    fn query_file(path: &Path, sql: &str) -> String {
        query(&Connection::open(path).unwrap(), sql)
    }

    #[test]
    fn an_upgrade_copies_first_and_keeps_the_rows() {
        let mut fixture = Fixture::new();
        fixture.upgrade(&[FIRST, SECOND]).unwrap();
        assert_eq!(query(&fixture.db, "SELECT x || y FROM t"), "old rownew");
        let copies = fixture.copies();
        assert_eq!(copies.len(), 1);
        assert_eq!(query_file(copies.first().unwrap(), "SELECT x FROM t"), "old row");
        assert_eq!(
            query_file(
                copies.first().unwrap(),
                "SELECT '' || user_version FROM pragma_user_version"
            ),
            "1"
        );
        fixture.upgrade(&[FIRST, SECOND]).unwrap();
        assert_eq!(fixture.copies().len(), 1, "once");
    }

    #[test]
    fn a_step_that_fails_leaves_the_older_file() {
        let mut fixture = Fixture::new();
        assert!(fixture.upgrade(&[FIRST, SECOND, BROKEN]).is_err());
        assert_eq!(query(&fixture.db, "SELECT x FROM t"), "old row");
        assert_eq!(query(&fixture.db, "SELECT '' || user_version FROM pragma_user_version"), "1");
        fixture.upgrade(&[FIRST, SECOND]).unwrap();
        assert_eq!(fixture.copies().len(), 2, "a copy never overwrites another");
    }

    #[test]
    fn without_a_copy_there_is_no_upgrade() {
        let mut fixture = Fixture::new();
        fs::remove_dir(fixture.folder.path().join("backups")).unwrap();
        let error = fixture.upgrade(&[FIRST, SECOND]).unwrap_err();
        assert!(matches!(error, RecordsError::Backup { .. }), "{error}");
        assert_eq!(query(&fixture.db, "SELECT '' || user_version FROM pragma_user_version"), "1");
    }

    #[test]
    fn a_newer_file_is_refused() {
        let mut fixture = Fixture::new();
        fixture.upgrade(&[FIRST, SECOND]).unwrap();
        let error = fixture.upgrade(&[FIRST]).unwrap_err();
        assert!(matches!(error, RecordsError::Newer { found: 2, known: 1, .. }), "{error}");
    }
}
