//! Walks over records one at a time, for exports: however long the history, memory stays flat.

use super::look::{window_sql, window_values};
use super::row::Window;
use super::{Records, RecordsError, series};

impl Records {
    /// Hands the derived form of each record of a window to `take`, in the order of the window, as
    /// of one moment. Ends early with what `take` says. Answers how many there were.
    pub fn each<E: From<RecordsError>>(
        &self,
        service: &str,
        kind: &str,
        window: &Window,
        mut take: impl FnMut(&str) -> Result<(), E>,
    ) -> Result<u64, E> {
        let link = self.reader()?;
        let sql = |e: rusqlite::Error| E::from(RecordsError::from(e));
        let mut seen = 0;
        {
            let db = link.db.unchecked_transaction().map_err(sql)?;
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
        self.give_back(link);
        Ok(seen)
    }
}
