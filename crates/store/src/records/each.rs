//! Iterates over records one at a time, for exports, with constant memory.

use super::query::{window_sql, window_values};
use super::record::Window;
use super::{Records, RecordsError, series};

impl Records {
    /// Passes the derived form of each record of a window to `take`, in order, from one snapshot.
    /// Stops early when `take` says so. Returns the number of records.
    pub fn each<E: From<RecordsError>>(
        &self,
        service: &str,
        kind: &str,
        window: &Window,
        mut take: impl FnMut(&str) -> Result<(), E>,
    ) -> Result<u64, E> {
        let connection = self.reader()?;
        let sql = |e: rusqlite::Error| E::from(RecordsError::from(e));
        let mut seen = 0;
        {
            let db = connection.db.unchecked_transaction().map_err(sql)?;
            let Some(series) = series::find(&db, service, kind)? else { return Ok(0) };
            let text = window_sql("flat, start_us, id", window);
            let mut statement = db.prepare_cached(&text).map_err(sql)?;
            let mut rows = statement.query(window_values(series, window)).map_err(sql)?;
            while let Some(row) = rows.next().map_err(sql)? {
                let flat = row.get_ref(0).map_err(sql)?;
                let flat = flat.as_str().map_err(|e| sql(e.into()))?;
                take(flat)?;
                seen += 1;
            }
        }
        self.release(connection);
        Ok(seen)
    }
}
