//! Reads records by id, by parent, by state and by time. Every query is answered from an index.

use rusqlite::types::Value;
use rusqlite::{
    CachedStatement, Connection, OptionalExtension, Params, ParamsFromIter, params_from_iter,
};

use super::record::{COLUMNS, StoredRecord, Unsettled, Window, row};
use super::series::{self, Series};
use super::{PooledConnection, Records, Result};

/// A snapshot of the records: several queries on it are consistent with each other, and the file is
/// checked once for all of them.
pub struct RecordsSnapshot<'a> {
    pub(super) db: &'a Connection,
}

impl RecordsSnapshot<'_> {
    pub fn one(&self, service: &str, kind: &str, id: &str) -> Result<Option<StoredRecord>> {
        self.of_series(service, kind, None, |db, series| {
            let sql = format!("SELECT {COLUMNS} FROM record WHERE series = ?1 AND id = ?2");
            let mut statement = db.prepare_cached(&sql)?;
            let found = statement.query_row((series.id, id), |r| row(service, kind, r));
            Ok(found.optional()?)
        })
    }

    pub fn window(&self, service: &str, kind: &str, window: &Window) -> Result<Vec<StoredRecord>> {
        self.of_series(service, kind, Vec::new(), |db, series| {
            let sql = window_sql(COLUMNS, window);
            rows(service, kind, db.prepare_cached(&sql)?, window_values(series, window))
        })
    }

    /// Only the derived form of the results of [`RecordsSnapshot::window`]: reads far fewer bytes.
    pub fn window_flat(&self, service: &str, kind: &str, window: &Window) -> Result<Vec<String>> {
        self.of_series(service, kind, Vec::new(), |db, series| {
            let mut statement = db.prepare_cached(&window_sql("flat, start_us, id", window))?;
            let found =
                statement.query_map(window_values(series, window), |r| r.get::<_, String>(0))?;
            Ok(found.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// The time and the derived form of the results of [`RecordsSnapshot::window`] that have a time.
    pub fn window_timed(
        &self,
        service: &str,
        kind: &str,
        window: &Window,
    ) -> Result<Vec<(i64, String)>> {
        self.of_series(service, kind, Vec::new(), |db, series| {
            let mut statement = db.prepare_cached(&window_sql("flat, start_us, id", window))?;
            let found = statement.query_map(window_values(series, window), |r| {
                Ok((r.get::<_, Option<i64>>(1)?, r.get::<_, String>(0)?))
            })?;
            let timed = found.filter_map(|row| match row {
                Ok((at_us, flat)) => at_us.map(|at_us| Ok((at_us, flat))),
                Err(error) => Some(Err(error)),
            });
            Ok(timed.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// The list, or `nothing` if it does not exist.
    pub(super) fn of_series<T>(
        &self,
        service: &str,
        kind: &str,
        nothing: T,
        query: impl FnOnce(&Connection, Series) -> Result<T>,
    ) -> Result<T> {
        match series::find(self.db, service, kind)? {
            Some(series) => query(self.db, series),
            None => Ok(nothing),
        }
    }
}

impl Records {
    /// Runs several queries on one snapshot. They may not block on anything but the file.
    pub fn snapshot<T>(
        &self,
        queries: impl FnOnce(&RecordsSnapshot<'_>) -> Result<T>,
    ) -> Result<T> {
        let connection = self.reader()?;
        let found = query_once(&connection, queries);
        self.release(connection);
        found
    }

    pub fn one(&self, service: &str, kind: &str, id: &str) -> Result<Option<StoredRecord>> {
        self.snapshot(|snapshot| snapshot.one(service, kind, id))
    }

    /// The records whose parent has this id, newest start first.
    pub fn by_parent(&self, service: &str, kind: &str, parent: &str) -> Result<Vec<StoredRecord>> {
        let sql = format!(
            "SELECT {COLUMNS} FROM record WHERE series = ?1 AND parent = ?2 \
             ORDER BY start_us DESC, id DESC"
        );
        self.of_series(service, kind, Vec::new(), |db, series| {
            rows(service, kind, db.prepare_cached(&sql)?, (series.id, parent))
        })
    }

    pub fn window(&self, service: &str, kind: &str, window: &Window) -> Result<Vec<StoredRecord>> {
        self.snapshot(|snapshot| snapshot.window(service, kind, window))
    }

    /// Only the derived form of the results of [`Records::window`].
    pub fn window_flat(&self, service: &str, kind: &str, window: &Window) -> Result<Vec<String>> {
        self.snapshot(|snapshot| snapshot.window_flat(service, kind, window))
    }

    /// The time and the derived form of the results of [`Records::window`] that have a time.
    pub fn window_timed(
        &self,
        service: &str,
        kind: &str,
        window: &Window,
    ) -> Result<Vec<(i64, String)>> {
        self.snapshot(|snapshot| snapshot.window_timed(service, kind, window))
    }

    /// The ids of the results of [`Records::window`].
    pub fn ids_in(&self, service: &str, kind: &str, window: &Window) -> Result<Vec<String>> {
        self.of_series(service, kind, Vec::new(), |db, series| {
            let mut statement = db.prepare_cached(&window_sql("id, start_us", window))?;
            let found =
                statement.query_map(window_values(series, window), |r| r.get::<_, String>(0))?;
            Ok(found.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Records in any other state than this, or in none; oldest start first, without their texts.
    pub fn unsettled(&self, service: &str, kind: &str, state: &str) -> Result<Vec<Unsettled>> {
        // Three ranges of the state index; with one combined condition SQLite scans the history.
        let select =
            "SELECT id, start_us, updated_us, state FROM record WHERE series = ?1 AND state";
        let sql = format!("{select} < ?2 UNION ALL {select} > ?2 UNION ALL {select} IS NULL");
        self.of_series(service, kind, Vec::new(), |db, series| {
            let mut statement = db.prepare_cached(&sql)?;
            let found = statement.query_map((series.id, state), |r| {
                Ok(Unsettled {
                    id: r.get(0)?,
                    start_us: r.get(1)?,
                    updated_us: r.get(2)?,
                    state: r.get(3)?,
                })
            })?;
            let mut found = found.collect::<rusqlite::Result<Vec<_>>>()?;
            found.sort_by(|a, b| (a.start_us, &a.id).cmp(&(b.start_us, &b.id)));
            Ok(found)
        })
    }

    /// The newest change timestamp of a kind, in upstream's format and as an instant.
    pub fn newest_updated(&self, service: &str, kind: &str) -> Result<Option<(String, i64)>> {
        let sql = "SELECT updated, updated_us FROM record WHERE series = ?1 \
                   ORDER BY updated_us DESC, id DESC LIMIT 1";
        self.of_series(service, kind, None, |db, series| {
            let mut statement = db.prepare_cached(sql)?;
            Ok(statement.query_row([series.id], |r| Ok((r.get(0)?, r.get(1)?))).optional()?)
        })
    }

    pub fn count(&self, service: &str, kind: &str) -> Result<u64> {
        self.of_series(service, kind, 0, |db, series| count(db, series.id))
    }

    /// Records without a start or without an offset, so that they belong to no day; except those in
    /// `except`.
    pub fn count_unplaced(&self, service: &str, kind: &str, except: &str) -> Result<u64> {
        let sql = "SELECT count(*) FROM record WHERE series = ?1 AND state IS NOT ?2 \
                   AND (start_us IS NULL OR offset_s IS NULL)";
        self.of_series(service, kind, 0, |db, series| {
            let mut statement = db.prepare_cached(sql)?;
            let count: i64 = statement.query_row((series.id, except), |r| r.get(0))?;
            Ok(count.unsigned_abs())
        })
    }

    /// Every kind of a service that was ever stored, with the number of its records.
    pub fn counts(&self, service: &str) -> Result<Vec<(String, u64)>> {
        self.read(|db| {
            let sql = "SELECT kind, id FROM series WHERE service = ?1 ORDER BY kind";
            let mut statement = db.prepare_cached(sql)?;
            let series = statement.query_map([service], |r| Ok((r.get(0)?, r.get(1)?)))?;
            let series = series.collect::<rusqlite::Result<Vec<(String, i64)>>>()?;
            series.into_iter().map(|(kind, id)| Ok((kind, count(db, id)?))).collect()
        })
    }

    /// The services with records here.
    pub fn services(&self) -> Result<Vec<String>> {
        self.read(|db| {
            let sql = "SELECT DISTINCT service FROM series ORDER BY service";
            let mut statement = db.prepare_cached(sql)?;
            let found = statement.query_map([], |r| r.get(0))?;
            Ok(found.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// A consistent read of one list; `nothing` if it does not exist.
    pub(super) fn of_series<T>(
        &self,
        service: &str,
        kind: &str,
        nothing: T,
        query: impl FnOnce(&Connection, Series) -> Result<T>,
    ) -> Result<T> {
        self.snapshot(|snapshot| snapshot.of_series(service, kind, nothing, query))
    }
}

fn query_once<T>(
    connection: &PooledConnection,
    queries: impl FnOnce(&RecordsSnapshot<'_>) -> Result<T>,
) -> Result<T> {
    let db = &connection.db;
    db.prepare_cached("BEGIN")?.execute([])?;
    let found = queries(&RecordsSnapshot { db });
    // Nothing was written, so nothing is lost.
    let ended = db.prepare_cached("ROLLBACK").and_then(|mut end| end.execute([]));
    let found = found?;
    ended?;
    Ok(found)
}

fn count(db: &Connection, series: i64) -> Result<u64> {
    let mut statement = db.prepare_cached("SELECT count(*) FROM record WHERE series = ?1")?;
    let count: i64 = statement.query_row([series], |r| r.get(0))?;
    Ok(count.unsigned_abs())
}

fn rows(
    service: &str,
    kind: &str,
    mut statement: CachedStatement<'_>,
    params: impl Params,
) -> Result<Vec<StoredRecord>> {
    let found = statement.query_map(params, |r| row(service, kind, r))?;
    Ok(found.collect::<rusqlite::Result<_>>()?)
}

/// The statement of a window. `columns` must include `start_us` and `id`, by which it sorts.
pub(super) fn window_sql(columns: &str, window: &Window) -> String {
    let (start, id) =
        if window.newest_first { ("start_us DESC", "id DESC") } else { ("start_us", "id") };
    let except = if window.except_state.is_some() { " AND state IS NOT ?2" } else { "" };
    let select = format!("SELECT {columns} FROM record WHERE series = ?1{except}");
    let order = format!("ORDER BY {start}, {id} LIMIT ?3");
    match WindowScope::of(window) {
        WindowScope::All => format!("{select} {order}"),
        WindowScope::Inside => format!("{select} AND start_us >= ?4 AND start_us < ?5 {order}"),
        // Closed and open records, each from their own index in the requested order; SQLite merges
        // the two while reading.
        WindowScope::Overlap => format!(
            "{select} AND start_us > ?6 AND start_us < ?5 AND end_us > ?4 UNION ALL \
             {select} AND end_us IS NULL AND start_us > ?8 AND start_us < ?5 AND ?7 {order}"
        ),
    }
}

/// The values for [`window_sql`].
pub(super) fn window_values(series: Series, window: &Window) -> ParamsFromIter<Vec<Value>> {
    let from_us = window.from_us.unwrap_or(i64::MIN);
    let to_us = window.to_us.unwrap_or(i64::MAX);
    let limit = window.limit.map_or(-1, |limit| i64::try_from(limit).unwrap_or(i64::MAX));
    // A record that ends after `from_us` cannot start earlier than this.
    let earliest_us = from_us.saturating_sub(series.longest_us).saturating_sub(1);
    let mut values = vec![
        series.id.into(),
        window.except_state.map(str::to_owned).into(),
        limit.into(),
        from_us.into(),
        to_us.into(),
        earliest_us.into(),
        i64::from(window.reaches_open()).into(),
        window.open_lasts_us_max.map_or(i64::MIN, |max| from_us.saturating_sub(max)).into(),
    ];
    values.truncate(match WindowScope::of(window) {
        WindowScope::All => 3,
        WindowScope::Inside => 5,
        WindowScope::Overlap => 8,
    });
    params_from_iter(values)
}

/// Which records of a list a window selects.
enum WindowScope {
    All,
    Inside,
    Overlap,
}

impl WindowScope {
    fn of(window: &Window) -> WindowScope {
        match (window.from_us, window.to_us, window.overlap) {
            (None, None, _) => WindowScope::All,
            (_, _, true) => WindowScope::Overlap,
            (_, _, false) => WindowScope::Inside,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use rusqlite::{Connection, Params};

    use super::{Series, Window, window_sql, window_values};
    use crate::records::prepare;

    fn plan(sql: &str, values: impl Params) -> String {
        let db = Connection::open_in_memory().unwrap();
        prepare(&db).unwrap();
        db.execute_batch(include_str!("schema/1.sql")).unwrap();
        let mut statement = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let steps = statement.query_map(values, |r| r.get::<_, String>(3)).unwrap();
        steps.collect::<rusqlite::Result<Vec<_>>>().unwrap().join("\n")
    }

    #[test]
    fn the_records_of_a_parent_are_found_by_their_index_whatever_is_bound() {
        let update = "UPDATE record SET start_us = 1 WHERE series = ?1 AND parent = ?2";
        let select = "SELECT id FROM record WHERE series = ?1 AND parent = ?2 \
                      ORDER BY start_us DESC, id DESC";
        for sql in [update, select] {
            let plan = plan(sql, (1, "7"));
            assert!(plan.contains("record_parent (series=? AND parent=?)"), "{plan}");
            assert!(!plan.contains("TEMP B-TREE"), "{plan}");
        }
    }

    #[test]
    fn a_window_is_bounded_on_both_sides_by_an_index_and_never_sorted() {
        let bounds = Window { from_us: Some(1), to_us: Some(2), ..Window::default() };
        for newest_first in [false, true] {
            for overlap in [false, true] {
                let window = Window { newest_first, overlap, except_state: Some("x"), ..bounds };
                let values = window_values(Series { id: 1, longest_us: 0 }, &window);
                let plan = plan(&window_sql("flat, start_us, id", &window), values);
                assert!(
                    plan.contains("record_start (series=? AND start_us>? AND start_us<?)"),
                    "{plan}"
                );
                assert_eq!(
                    overlap,
                    plan.contains("record_open (series=? AND start_us>? AND start_us<?)"),
                    "{plan}"
                );
                assert!(!plan.contains("TEMP B-TREE") && !plan.contains("SCAN"), "{plan}");
            }
        }
    }
}
