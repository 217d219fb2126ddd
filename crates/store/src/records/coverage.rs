//! The time windows that were fetched completely. Only inside them does a missing record mean that
//! the service has none.

use rusqlite::{OptionalExtension, Transaction};

use super::{Records, RecordsSnapshot, Result, series};

impl RecordsSnapshot<'_> {
    /// The windows of a kind that were fetched completely, in order; they neither touch nor overlap.
    pub fn coverage(&self, service: &str, kind: &str) -> Result<Vec<(i64, i64)>> {
        let sql = "SELECT from_us, to_us FROM coverage WHERE series = \
                   (SELECT id FROM series WHERE service = ?1 AND kind = ?2) ORDER BY from_us";
        let mut statement = self.db.prepare_cached(sql)?;
        let found = statement.query_map([service, kind], |r| Ok((r.get(0)?, r.get(1)?)))?;
        Ok(found.collect::<rusqlite::Result<_>>()?)
    }
}

impl Records {
    /// The windows of a kind that were fetched completely, in order; they neither touch nor overlap.
    pub fn coverage(&self, service: &str, kind: &str) -> Result<Vec<(i64, i64)>> {
        self.snapshot(|snapshot| snapshot.coverage(service, kind))
    }

    /// Whether a whole window was fetched.
    pub fn is_covered(&self, service: &str, kind: &str, from_us: i64, to_us: i64) -> Result<bool> {
        self.of_series(service, kind, false, |db, series| {
            let sql = "SELECT to_us FROM coverage WHERE series = ?1 AND from_us <= ?2 \
                       ORDER BY from_us DESC LIMIT 1";
            let mut statement = db.prepare_cached(sql)?;
            let until: Option<i64> =
                statement.query_row((series.id, from_us), |r| r.get(0)).optional()?;
            Ok(until.is_some_and(|until| until >= to_us))
        })
    }

    /// Records that a window was fetched completely, and merges it with adjacent ones.
    pub fn cover(&self, service: &str, kind: &str, from_us: i64, to_us: i64) -> Result<()> {
        if from_us >= to_us {
            return Ok(());
        }
        self.write(|db| {
            let series = series::find_or_create(db, service, kind)?.id;
            let (from_us, to_us) = absorb(db, series, from_us, to_us)?;
            db.prepare_cached("INSERT INTO coverage (series, from_us, to_us) VALUES (?1, ?2, ?3)")?
                .execute((series, from_us, to_us))?;
            Ok(())
        })
    }

    /// Drops the coverage, so that the next sync fetches everything again.
    pub fn uncover(&self, service: &str, kind: &str) -> Result<()> {
        self.write(|db| {
            if let Some(series) = series::find(db, service, kind)? {
                db.prepare_cached("DELETE FROM coverage WHERE series = ?1")?
                    .execute([series.id])?;
            }
            Ok(())
        })
    }
}

/// Removes the windows that touch this one, and returns their union.
fn absorb(db: &Transaction<'_>, series: i64, from_us: i64, to_us: i64) -> Result<(i64, i64)> {
    let met = "series = ?1 AND from_us <= ?3 AND to_us >= ?2";
    let widest = format!(
        "SELECT min(?2, min(from_us)), max(?3, max(to_us)) FROM coverage WHERE {met} HAVING count(*) > 0"
    );
    let joined = db
        .prepare_cached(&widest)?
        .query_row((series, from_us, to_us), |r| Ok((r.get(0)?, r.get(1)?)))
        .optional()?;
    let delete = format!("DELETE FROM coverage WHERE {met}");
    db.prepare_cached(&delete)?.execute((series, from_us, to_us))?;
    Ok(joined.unwrap_or((from_us, to_us)))
}
