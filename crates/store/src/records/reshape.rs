//! Derives all columns again from the raw records, when a newer version derives them differently.
//! Does not contact the service.

use rusqlite::{OptionalExtension, Transaction, params};

use super::upsert::with_parent_times;
use super::{Records, Result};

/// Records read at a time; bounds the memory of a reshape.
const BATCH_ROWS_MAX: i64 = 500;

/// The columns that come from a raw record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Derived {
    pub start_us: Option<i64>,
    pub end_us: Option<i64>,
    pub offset_s: Option<i32>,
    pub parent: Option<String>,
    pub state: Option<String>,
    pub flat: String,
}

/// A raw record being reshaped.
struct Raw {
    rowid: i64,
    kind: String,
    has_own_times: bool,
    text: String,
}

impl Records {
    /// Derives every record of a service again, unless that was done by this version. A record that
    /// `shape` cannot read stays unchanged. Returns how many were derived.
    pub fn reshape(
        &self,
        service: &str,
        version: u32,
        shape: impl Fn(&str, &str) -> Option<Derived>,
    ) -> Result<usize> {
        if self.shape_version(service)? == Some(version) {
            return Ok(0);
        }
        self.write(|db| {
            let mut shaped = 0;
            let mut last = i64::MIN;
            loop {
                let batch = batch(db, service, last)?;
                let Some(end) = batch.last() else { break };
                last = end.rowid;
                for raw in &batch {
                    if let Some(derived) = shape(&raw.kind, &raw.text) {
                        put(db, raw, &derived)?;
                        shaped += 1;
                    }
                }
            }
            update_followers(db, service)?;
            update_longest(db, service)?;
            db.prepare_cached("INSERT OR REPLACE INTO shape (service, version) VALUES (?1, ?2)")?
                .execute((service, version))?;
            Ok(shaped)
        })
    }

    fn shape_version(&self, service: &str) -> Result<Option<u32>> {
        self.read(|db| {
            let mut statement =
                db.prepare_cached("SELECT version FROM shape WHERE service = ?1")?;
            Ok(statement.query_row([service], |r| r.get(0)).optional()?)
        })
    }
}

fn batch(db: &Transaction<'_>, service: &str, after: i64) -> Result<Vec<Raw>> {
    let mut statement = db.prepare_cached(
        "SELECT r.rowid, s.kind, s.follows IS NULL, r.raw FROM record r \
         JOIN series s ON s.id = r.series WHERE r.rowid > ?1 AND s.service = ?2 \
         ORDER BY r.rowid LIMIT ?3",
    )?;
    let found = statement.query_map((after, service, BATCH_ROWS_MAX), |r| {
        Ok(Raw { rowid: r.get(0)?, kind: r.get(1)?, has_own_times: r.get(2)?, text: r.get(3)? })
    })?;
    Ok(found.collect::<rusqlite::Result<_>>()?)
}

fn put(db: &Transaction<'_>, raw: &Raw, derived: &Derived) -> Result<()> {
    db.prepare_cached("UPDATE record SET parent = ?2, state = ?3, flat = ?4 WHERE rowid = ?1")?
        .execute(params![raw.rowid, derived.parent, derived.state, derived.flat])?;
    if raw.has_own_times {
        let sql = "UPDATE record SET start_us = ?2, end_us = ?3, offset_s = ?4 WHERE rowid = ?1";
        db.prepare_cached(sql)?.execute(params![
            raw.rowid,
            derived.start_us,
            derived.end_us,
            derived.offset_s
        ])?;
    }
    Ok(())
}

/// Records without times of their own take those of their parents, which may have changed.
fn update_followers(db: &Transaction<'_>, service: &str) -> Result<()> {
    let sql = format!(
        "UPDATE record SET (start_us, end_us, offset_s, flat) = \
         (p.start_us, p.end_us, p.offset_s, {}) FROM record p, series s, series ps \
         WHERE s.id = record.series AND s.service = ?1 AND ps.service = ?1 AND ps.kind = s.follows \
         AND p.series = ps.id AND p.id = record.parent",
        with_parent_times("record.flat", "p.flat")
    );
    db.execute(&sql, [service])?;
    Ok(())
}

fn update_longest(db: &Transaction<'_>, service: &str) -> Result<()> {
    db.execute(
        "UPDATE series SET longest_us = (SELECT coalesce(max(end_us - start_us), 0) FROM record \
         WHERE record.series = series.id) WHERE service = ?1",
        [service],
    )?;
    Ok(())
}
