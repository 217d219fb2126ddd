//! What changed since a point: by the time of the change upstream, and by the local order of
//! changes.

use rusqlite::{Connection, params_from_iter, types::Value};

use super::record::{COLUMNS, ChangeCursor, DeletedRecord, LAST_TEXT, StoredRecord, row};
use super::series::{self, Series};
use super::{Records, Result};

/// A record's position in the order of changes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ChangePosition<'a> {
    updated_us: i64,
    kind: &'a str,
    id: String,
}

impl Records {
    /// Records that changed after a position and before an instant, ordered by (change, kind, id)
    /// as text, oldest first. A record that changed twice appears once, in its current form.
    pub fn changes(
        &self,
        service: &str,
        kinds: &[&str],
        after: ChangeCursor<'_>,
        before_us: i64,
        limit: usize,
    ) -> Result<Vec<StoredRecord>> {
        self.read(|db| {
            let db = db.unchecked_transaction()?;
            let mut positions = Vec::new();
            for kind in unique(kinds) {
                if let Some(series) = series::find(&db, service, kind)? {
                    positions.extend(positions_of(&db, series, kind, after, before_us, limit)?);
                }
            }
            positions.sort_unstable();
            positions.truncate(limit);
            positions.iter().map(|position| row_at(&db, service, position)).collect()
        })
    }

    /// Records that were added or changed here after this change number, in order. Nothing is
    /// missed: a number becomes visible together with every smaller one.
    pub fn changes_since(
        &self,
        service: &str,
        kinds: &[&str],
        after_seq: i64,
        limit: usize,
    ) -> Result<Vec<StoredRecord>> {
        // The plus keeps SQLite from scanning whole lists instead of the newest changes.
        let sql = format!(
            "SELECT {COLUMNS}, (SELECT kind FROM series WHERE series.id = series) FROM record \
             WHERE seq > ?1 AND +series IN \
             (SELECT id FROM series WHERE service = ?2 AND kind IN ({})) ORDER BY seq LIMIT ?3",
            placeholders(kinds.len(), 4)
        );
        self.read(|db| {
            let mut statement = db.prepare_cached(&sql)?;
            let found = statement.query_map(
                params_from_iter(since_params(service, kinds, after_seq, limit)),
                |r| {
                    let kind: String = r.get(11)?;
                    row(service, &kind, r)
                },
            )?;
            Ok(found.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Records that the service has deleted, noticed after this change number.
    pub fn deleted_since(
        &self,
        service: &str,
        kinds: &[&str],
        after_seq: i64,
        limit: usize,
    ) -> Result<Vec<DeletedRecord>> {
        let sql = format!(
            "SELECT (SELECT kind FROM series WHERE series.id = series), id, seq, at_us FROM gone \
             WHERE seq > ?1 AND +series IN \
             (SELECT id FROM series WHERE service = ?2 AND kind IN ({})) ORDER BY seq LIMIT ?3",
            placeholders(kinds.len(), 4)
        );
        self.read(|db| {
            let mut statement = db.prepare_cached(&sql)?;
            let found = statement.query_map(
                params_from_iter(since_params(service, kinds, after_seq, limit)),
                |r| {
                    Ok(DeletedRecord {
                        kind: r.get(0)?,
                        id: r.get(1)?,
                        seq: r.get(2)?,
                        at_us: r.get(3)?,
                    })
                },
            )?;
            Ok(found.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// The number of the newest change.
    pub fn newest_seq(&self) -> Result<i64> {
        self.read(|db| {
            Ok(db.prepare_cached("SELECT seq FROM meta")?.query_row([], |r| r.get(0))?)
        })
    }
}

fn unique<'a>(kinds: &[&'a str]) -> Vec<&'a str> {
    let mut kinds = kinds.to_vec();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

/// The first positions of one kind, from the index alone.
fn positions_of<'a>(
    db: &Connection,
    series: Series,
    kind: &'a str,
    after: ChangeCursor<'_>,
    before_us: i64,
    limit: usize,
) -> Result<Vec<ChangePosition<'a>>> {
    // At the instant of `after` itself, kinds before its kind are done, kinds after it still to
    // come.
    let last_id = match kind.cmp(after.kind) {
        std::cmp::Ordering::Less => LAST_TEXT,
        std::cmp::Ordering::Equal => after.id,
        std::cmp::Ordering::Greater => "",
    };
    let mut statement = db.prepare_cached(
        "SELECT updated_us, id FROM record WHERE series = ?1 AND (updated_us, id) > (?2, ?3) \
         AND updated_us < ?4 ORDER BY updated_us, id LIMIT ?5",
    )?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let found = statement
        .query_map((series.id, after.updated_us, last_id, before_us, limit), |r| {
            Ok(ChangePosition { updated_us: r.get(0)?, kind, id: r.get(1)? })
        })?;
    Ok(found.collect::<rusqlite::Result<_>>()?)
}

fn row_at(db: &Connection, service: &str, position: &ChangePosition<'_>) -> Result<StoredRecord> {
    let sql = format!(
        "SELECT {COLUMNS} FROM record WHERE id = ?3 AND series = \
         (SELECT id FROM series WHERE service = ?1 AND kind = ?2)"
    );
    let mut statement = db.prepare_cached(&sql)?;
    Ok(statement
        .query_row((service, position.kind, &position.id), |r| row(service, position.kind, r))?)
}

/// `?4, ?5, ?6`
fn placeholders(count: usize, first: usize) -> String {
    let placeholders: Vec<String> = (first..first + count).map(|n| format!("?{n}")).collect();
    placeholders.join(", ")
}

fn since_params(service: &str, kinds: &[&str], after_seq: i64, limit: usize) -> Vec<Value> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut params =
        vec![Value::Integer(after_seq), Value::Text(service.into()), Value::Integer(limit)];
    params.extend(kinds.iter().map(|kind| Value::Text((*kind).to_owned())));
    params
}
