//! What changed since: by the time of the change upstream, and by the order in which it came here.

use rusqlite::{Connection, params_from_iter, types::Value};

use super::row::{After, COLUMNS, Gone, LAST_TEXT, Row, row};
use super::series::{self, Series};
use super::{Records, Result};

/// A record's place in the order of changes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Spot<'a> {
    updated_us: i64,
    kind: &'a str,
    id: String,
}

impl Records {
    /// Records that changed after a place and before an instant, by (change, kind, id) as text,
    /// oldest first. A record that changed twice is there once, as it is now.
    pub fn changes(
        &self,
        service: &str,
        kinds: &[&str],
        after: After<'_>,
        before_us: i64,
        limit: usize,
    ) -> Result<Vec<Row>> {
        self.read(|db| {
            let db = db.unchecked_transaction()?;
            let mut spots = Vec::new();
            for kind in unique(kinds) {
                if let Some(series) = series::find(&db, service, kind)? {
                    spots.extend(spots_of(&db, series, kind, after, before_us, limit)?);
                }
            }
            spots.sort_unstable();
            spots.truncate(limit);
            spots.iter().map(|spot| row_at(&db, service, spot)).collect()
        })
    }

    /// Records that came or changed here after the change of this number, in that order. Nothing is
    /// missed: a number becomes visible together with every smaller one.
    pub fn changes_since(
        &self,
        service: &str,
        kinds: &[&str],
        after_seq: i64,
        limit: usize,
    ) -> Result<Vec<Row>> {
        // The plus keeps SQLite from walking over whole lists instead of the newest changes.
        let sql = format!(
            "SELECT {COLUMNS}, (SELECT kind FROM series WHERE series.id = series) FROM record \
             WHERE seq > ?1 AND +series IN \
             (SELECT id FROM series WHERE service = ?2 AND kind IN ({})) ORDER BY seq LIMIT ?3",
            places(kinds.len(), 4)
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

    /// Records that the service has deleted, noticed after the change of this number.
    pub fn gone_since(
        &self,
        service: &str,
        kinds: &[&str],
        after_seq: i64,
        limit: usize,
    ) -> Result<Vec<Gone>> {
        let sql = format!(
            "SELECT (SELECT kind FROM series WHERE series.id = series), id, seq, at_us FROM gone \
             WHERE seq > ?1 AND +series IN \
             (SELECT id FROM series WHERE service = ?2 AND kind IN ({})) ORDER BY seq LIMIT ?3",
            places(kinds.len(), 4)
        );
        self.read(|db| {
            let mut statement = db.prepare_cached(&sql)?;
            let found = statement.query_map(
                params_from_iter(since_params(service, kinds, after_seq, limit)),
                |r| Ok(Gone { kind: r.get(0)?, id: r.get(1)?, seq: r.get(2)?, at_us: r.get(3)? }),
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

/// The first places of one kind, from the index alone.
fn spots_of<'a>(
    db: &Connection,
    series: Series,
    kind: &'a str,
    after: After<'_>,
    before_us: i64,
    limit: usize,
) -> Result<Vec<Spot<'a>>> {
    // At the instant of `after` itself, kinds before its kind are past, kinds after it still to come.
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
            Ok(Spot { updated_us: r.get(0)?, kind, id: r.get(1)? })
        })?;
    Ok(found.collect::<rusqlite::Result<_>>()?)
}

fn row_at(db: &Connection, service: &str, spot: &Spot<'_>) -> Result<Row> {
    let sql = format!(
        "SELECT {COLUMNS} FROM record WHERE id = ?3 AND series = \
         (SELECT id FROM series WHERE service = ?1 AND kind = ?2)"
    );
    let mut statement = db.prepare_cached(&sql)?;
    Ok(statement.query_row((service, spot.kind, &spot.id), |r| row(service, spot.kind, r))?)
}

/// `?4, ?5, ?6`
fn places(count: usize, first: usize) -> String {
    let places: Vec<String> = (first..first + count).map(|n| format!("?{n}")).collect();
    places.join(", ")
}

fn since_params(service: &str, kinds: &[&str], after_seq: i64, limit: usize) -> Vec<Value> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut params =
        vec![Value::Integer(after_seq), Value::Text(service.into()), Value::Integer(limit)];
    params.extend(kinds.iter().map(|kind| Value::Text((*kind).to_owned())));
    params
}
