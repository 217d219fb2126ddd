//! Small settings by key, and the latest time this home has seen. Not for secrets.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::{Connection, OpenFlags, OptionalExtension};
use serde::Deserialize;

use super::error::{ObjectKind, RegistryError};
use super::names::check_key;
use super::{Registry, shared};
use crate::ledger::Checkpoint;
use crate::postgres::Address;

pub const VALUE_BYTES_MAX: usize = 64 << 10;

/// Where a row of the audit log is remembered.
const LOG_KEY: &str = "audit-log";
/// Marks that the audit log of this home has a seal.
const SEALED_KEY: &str = "audit-sealed";

/// What a `gate.db` knows about the audit log.
#[derive(Clone, Debug, Default)]
pub struct RememberedLog {
    pub row: Option<Checkpoint>,
    /// The log was sealed, so its seal must exist.
    pub is_sealed: bool,
}

/// A row of the settings as the store has it.
#[derive(Deserialize)]
struct StoredValue {
    key: String,
    value: String,
}

impl Registry {
    pub fn set_value(&self, key: &str, value: &str, now_us: i64) -> Result<(), RegistryError> {
        check_key(key)?;
        if value.len() > VALUE_BYTES_MAX {
            return Err(RegistryError::TooLarge {
                kind: ObjectKind::Setting,
                name: key.to_owned(),
                bytes: value.len(),
                bytes_max: VALUE_BYTES_MAX,
            });
        }
        self.write(|db| put(db, key, value, now_us))
    }

    pub fn value(&self, key: &str) -> Result<Option<String>, RegistryError> {
        self.read(|db| get(db, key))
    }

    /// Remembers a row of the audit log, so that a removed log is noticed. Not while an act waits
    /// for its row, because that is searched for after the remembered row.
    pub fn remember_log(&self, row: &Checkpoint, now_us: i64) -> Result<(), RegistryError> {
        self.write_quietly(|db| {
            let waits = "SELECT EXISTS (SELECT 1 FROM unrecorded)";
            if db.query_row(waits, [], |found| found.get(0))? {
                Ok(())
            } else {
                put_log(db, row, now_us)
            }
        })
    }

    /// The row that was remembered last.
    pub fn remembered_log(&self) -> Result<Option<Checkpoint>, RegistryError> {
        self.read(|db| log(db))
    }

    /// Whether the audit log was ever sealed.
    pub fn log_is_sealed(&self) -> Result<bool, RegistryError> {
        self.read(|db| Ok(get(db, SEALED_KEY)?.is_some()))
    }

    /// The audit log has a seal from now on.
    pub fn log_was_sealed(&self, now_us: i64) -> Result<(), RegistryError> {
        self.write_quietly(|db| put(db, SEALED_KEY, "1", now_us))
    }

    /// Removes a setting; returns whether it existed.
    pub fn unset_value(&self, key: &str) -> Result<bool, RegistryError> {
        self.write(|db| Ok(db.execute("DELETE FROM settings WHERE key = ?1", [key])? == 1))
    }

    pub fn values(&self) -> Result<BTreeMap<String, String>, RegistryError> {
        self.read(|db| all(db))
    }

    /// Stores the clock's time and returns the latest time ever stored. A gate starts from that, so
    /// that setting the clock back while it was down does not revive what had expired.
    pub fn note_time(&self, now_us: i64) -> Result<i64, RegistryError> {
        self.write_quietly(|db| {
            let set = "UPDATE meta SET latest_time_us = max(coalesce(latest_time_us, ?1), ?1)
                       RETURNING latest_time_us";
            Ok(db.query_row(set, [now_us], |r| r.get(0))?)
        })
    }

    /// Drops the stored time, after a clock that ran ahead was corrected.
    pub fn forget_time(&self) -> Result<(), RegistryError> {
        self.write_quietly(|db| {
            db.execute("UPDATE meta SET latest_time_us = NULL", [])?;
            Ok(())
        })
    }
}

fn put(db: &Connection, key: &str, value: &str, now_us: i64) -> Result<(), RegistryError> {
    db.execute(
        "INSERT INTO settings (key, value, updated_at_us) VALUES (?1, ?2, ?3)
         ON CONFLICT (key) DO UPDATE SET
             value = excluded.value, updated_at_us = excluded.updated_at_us",
        (key, value, now_us),
    )?;
    Ok(())
}

fn get(db: &Connection, key: &str) -> Result<Option<String>, RegistryError> {
    let select = "SELECT value FROM settings WHERE key = ?1";
    Ok(db.query_row(select, [key], |r| r.get(0)).optional()?)
}

pub(super) fn put_log(db: &Connection, row: &Checkpoint, now_us: i64) -> Result<(), RegistryError> {
    put(db, LOG_KEY, &serde_json::to_string(row).unwrap_or_default(), now_us)
}

pub(super) fn log(db: &Connection) -> Result<Option<Checkpoint>, RegistryError> {
    Ok(get(db, LOG_KEY)?.and_then(|text| serde_json::from_str(&text).ok()))
}

/// What a `gate.db` remembers, readable without the key. An unreadable or missing file knows no
/// row; only a readable one can say that the log was never sealed.
pub fn log_remembered_by(gate_db: &Path) -> RememberedLog {
    let unknown = RememberedLog { row: None, is_sealed: true };
    let Ok(db) = Connection::open_with_flags(gate_db, OpenFlags::SQLITE_OPEN_READ_ONLY) else {
        return unknown;
    };
    let (Ok(row), Ok(sealed)) = (get(&db, LOG_KEY), get(&db, SEALED_KEY)) else {
        return unknown;
    };
    let row = row.and_then(|text| serde_json::from_str(&text).ok());
    RememberedLog { row, is_sealed: sealed.is_some() }
}

/// The same for a registry that replicas share. Reads the store alone, without a home or a key.
pub fn log_remembered_on(store: &Address) -> RememberedLog {
    let unknown = RememberedLog { row: None, is_sealed: true };
    let Ok(images) = shared::images_of(store, "settings") else { return unknown };
    let values = images.iter().filter_map(|image| serde_json::from_str::<StoredValue>(image).ok());
    let values: BTreeMap<_, _> = values.map(|value| (value.key, value.value)).collect();
    let row = values.get(LOG_KEY).and_then(|text| serde_json::from_str(text).ok());
    RememberedLog { row, is_sealed: values.contains_key(SEALED_KEY) }
}

pub(super) fn all(db: &Connection) -> Result<BTreeMap<String, String>, RegistryError> {
    let mut select = db.prepare_cached("SELECT key, value FROM settings")?;
    let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}
