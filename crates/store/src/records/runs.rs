//! The sync history, and small values that a sync stores for the next one.

use rusqlite::OptionalExtension;

use super::record::{Run, RunEnd};
use super::{Records, Result};

impl Records {
    /// Records that a sync of one resource starts; a process that dies leaves it `running`.
    pub fn run_begin(
        &self,
        service: &str,
        resource: &str,
        started_us: i64,
        since: Option<&str>,
    ) -> Result<i64> {
        self.write(|db| {
            let sql = "INSERT INTO run (service, resource, started_us, status, since) \
                       VALUES (?1, ?2, ?3, 'running', ?4)";
            db.prepare_cached(sql)?.execute((service, resource, started_us, since))?;
            Ok(db.last_insert_rowid())
        })
    }

    pub fn run_end(&self, run: i64, end: &RunEnd<'_>) -> Result<()> {
        self.write(|db| {
            let sql = "UPDATE run SET completed_us = ?2, status = ?3, fetched = ?4, upserted = ?5, \
                       error = ?6, until = ?7 WHERE id = ?1";
            let fetched = i64::try_from(end.fetched).unwrap_or(i64::MAX);
            let upserted = i64::try_from(end.upserted).unwrap_or(i64::MAX);
            db.prepare_cached(sql)?.execute((
                run,
                end.completed_us,
                end.status,
                fetched,
                upserted,
                end.error,
                end.until,
            ))?;
            Ok(())
        })
    }

    /// The newest runs of a service, newest first.
    pub fn runs(&self, service: &str, limit: usize) -> Result<Vec<Run>> {
        let sql = "SELECT id, service, resource, started_us, completed_us, status, fetched, \
                   upserted, error, since, until FROM run WHERE service = ?1 \
                   ORDER BY id DESC LIMIT ?2";
        self.read(|db| {
            let mut statement = db.prepare_cached(sql)?;
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            let found = statement.query_map((service, limit), |r| {
                Ok(Run {
                    id: r.get(0)?,
                    service: r.get(1)?,
                    resource: r.get(2)?,
                    started_us: r.get(3)?,
                    completed_us: r.get(4)?,
                    status: r.get(5)?,
                    fetched: r.get::<_, i64>(6)?.unsigned_abs(),
                    upserted: r.get::<_, i64>(7)?.unsigned_abs(),
                    error: r.get(8)?,
                    since: r.get(9)?,
                    until: r.get(10)?,
                })
            })?;
            Ok(found.collect::<rusqlite::Result<_>>()?)
        })
    }

    pub fn state_get(&self, service: &str, key: &str) -> Result<Option<String>> {
        self.read(|db| {
            let sql = "SELECT value FROM state WHERE service = ?1 AND key = ?2";
            let mut statement = db.prepare_cached(sql)?;
            Ok(statement.query_row([service, key], |r| r.get(0)).optional()?)
        })
    }

    pub fn state_put(&self, service: &str, key: &str, value: &str) -> Result<()> {
        self.write(|db| {
            let sql = "INSERT OR REPLACE INTO state (service, key, value) VALUES (?1, ?2, ?3)";
            db.prepare_cached(sql)?.execute([service, key, value])?;
            Ok(())
        })
    }

    /// Updates the value of a key atomically.
    pub fn state_change(
        &self,
        service: &str,
        key: &str,
        change: impl FnOnce(Option<String>) -> String,
    ) -> Result<()> {
        self.write(|db| {
            let sql = "SELECT value FROM state WHERE service = ?1 AND key = ?2";
            let mut statement = db.prepare_cached(sql)?;
            let known = statement.query_row([service, key], |r| r.get(0)).optional()?;
            let sql = "INSERT OR REPLACE INTO state (service, key, value) VALUES (?1, ?2, ?3)";
            db.prepare_cached(sql)?.execute([service, key, &change(known)])?;
            Ok(())
        })
    }

    pub fn state_drop(&self, service: &str, key: &str) -> Result<()> {
        self.write(|db| {
            let sql = "DELETE FROM state WHERE service = ?1 AND key = ?2";
            db.prepare_cached(sql)?.execute([service, key])?;
            Ok(())
        })
    }
}
