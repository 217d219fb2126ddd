//! The tables of `gate.db` and how older files are upgraded: a copy first, then one transaction.
//! Steps are only ever added; a released step is never edited.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, OptionalExtension, TransactionBehavior};
use subtle::ConstantTimeEq;

use super::{BUSY_MS_MAX, RegistryError};
use crate::home::{Home, private};
use crate::interrupted_create;
use crate::random::Random;
use crate::vault::{Purpose, Vault};

/// `tlgt`: distinguishes our databases from others.
const APPLICATION_ID: i64 = 0x746c_6774;

/// Step N brings a file from version N to N + 1.
const STEPS: &[&str] = &[
    include_str!("schema/1.sql"),
    include_str!("schema/2.sql"),
    include_str!("schema/3.sql"),
    include_str!("schema/4.sql"),
    include_str!("schema/5.sql"),
    include_str!("schema/6.sql"),
    include_str!("schema/7.sql"),
    include_str!("schema/8.sql"),
    include_str!("schema/9.sql"),
    include_str!("schema/10.sql"),
    include_str!("schema/11.sql"),
    include_str!("schema/12.sql"),
    include_str!("schema/13.sql"),
    include_str!("schema/14.sql"),
    include_str!("schema/15.sql"),
];

#[expect(clippy::cast_possible_wrap, reason = "a handful of steps")]
pub(super) const VERSION: i64 = STEPS.len() as i64;

/// Checks a file without changing a byte of it, unless its creation was interrupted: another
/// program's database and a newer one stay unchanged. Even closing a writable connection could fold
/// its write-ahead log into the file.
pub(super) fn refuse_foreign(path: &Path) -> Result<(), RegistryError> {
    interrupted_create::roll_back(path, Duration::from_millis(BUSY_MS_MAX))?;
    let is_empty = fs::metadata(path).is_ok_and(|found| found.len() == 0);
    if is_empty && !path.with_extension("db-wal").exists() {
        return Ok(());
    }
    let mut db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    db.busy_timeout(Duration::from_millis(BUSY_MS_MAX))?;
    // One read: another process may be creating the tables.
    let db = db.transaction()?;
    let found = version(&db)?;
    let application: i64 = db.pragma_query_value(None, "application_id", |r| r.get(0))?;
    let is_blank = found == 0 && !has_tables(&db)?;
    if application != APPLICATION_ID && !is_blank {
        return Err(RegistryError::NotOurs(path.into()));
    }
    if found > VERSION {
        return Err(RegistryError::Newer { path: path.into(), found, known: VERSION });
    }
    Ok(())
}

/// A file that replaced the open one is not upgraded.
pub(super) fn refuse_older(db: &Connection, path: &Path) -> Result<(), RegistryError> {
    if version(db)? == VERSION { Ok(()) } else { Err(RegistryError::Vanished(path.into())) }
}

/// Upgrades the file to this version. Holding the write lock, another connection makes the copy, so
/// that no process can write between the copy and the change.
pub(super) fn upgrade(
    db: &mut Connection,
    home: &Home,
    random: &Random,
) -> Result<(), RegistryError> {
    if version(db)? == VERSION {
        return Ok(());
    }
    let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let from = version(&transaction)?;
    if from > VERSION {
        return Err(RegistryError::Newer { path: home.gate_db(), found: from, known: VERSION });
    }
    if from > 0 && from < VERSION {
        back_up(home, from, random)?;
    }
    run_steps(&transaction, from, VERSION)?;
    transaction.commit()?;
    Ok(())
}

/// Brings an empty or older database to a version, without a copy.
pub(super) fn make(db: &mut Connection, to: i64) -> Result<(), RegistryError> {
    if version(db)? == to {
        return Ok(());
    }
    let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let from = version(&transaction)?;
    run_steps(&transaction, from, to)?;
    transaction.commit()?;
    Ok(())
}

fn run_steps(db: &Connection, from: i64, to: i64) -> Result<(), RegistryError> {
    let [from, to] = [from, to].map(|n| usize::try_from(n).unwrap_or_default());
    for step in STEPS.iter().take(to).skip(from) {
        db.execute_batch(step)?;
    }
    db.pragma_update(None, "application_id", APPLICATION_ID)?;
    db.pragma_update(None, "user_version", i64::try_from(to).unwrap_or(VERSION))?;
    Ok(())
}

fn back_up(home: &Home, from: i64, random: &Random) -> Result<(), RegistryError> {
    let path = home.backups().join(format!("gate-schema{from}-{}.db", random.name()?));
    let failed = |words: String| RegistryError::Backup { path: path.clone(), words };
    private::create_new(&path).map_err(|e| failed(e.to_string()))?;
    let name = path.to_str().ok_or_else(|| failed("the path is not text".into()))?;
    let db = Connection::open_with_flags(home.gate_db(), OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    db.execute("VACUUM INTO ?1", [name]).map_err(|e| failed(e.to_string()))?;
    tracing::info!("copied gate.db to `{}` before the upgrade", path.display());
    Ok(())
}

/// Compares the key with a mark of the first one that was used here; true if none was. A locked
/// vault opens nothing that is sealed here and has no key to store a mark of.
pub(super) fn lacks_key(db: &Connection, vault: &Vault) -> Result<bool, RegistryError> {
    if vault.is_locked() {
        return Ok(false);
    }
    let mark = *vault.derive(Purpose::KeyCheck);
    let known: Option<Vec<u8>> =
        db.query_row("SELECT key_mark FROM meta", [], |r| r.get(0)).optional()?.flatten();
    match known {
        Some(known) if known.ct_eq(&mark).into() => Ok(false),
        Some(_) => Err(RegistryError::KeyChanged),
        None => Ok(true),
    }
}

/// Stores the mark of the first key.
pub(super) fn put_key(db: &Connection, vault: &Vault) -> Result<(), RegistryError> {
    let mark = *vault.derive(Purpose::KeyCheck);
    db.execute("UPDATE meta SET key_mark = ?1 WHERE key_mark IS NULL", [mark])?;
    // Another process may have stored the mark of another key.
    lacks_key(db, vault)?;
    Ok(())
}

/// Compares the key with the first one that was used here; the first use stores its mark.
pub(super) fn check_key(db: &Connection, vault: &Vault) -> Result<(), RegistryError> {
    if lacks_key(db, vault)? { put_key(db, vault) } else { Ok(()) }
}

fn version(db: &Connection) -> Result<i64, RegistryError> {
    Ok(db.pragma_query_value(None, "user_version", |r| r.get(0))?)
}

fn has_tables(db: &Connection) -> Result<bool, RegistryError> {
    Ok(db.query_row("SELECT EXISTS (SELECT 1 FROM sqlite_schema)", [], |r| r.get(0))?)
}
