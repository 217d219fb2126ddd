//! Deleting means that nothing is left: not in the tables, not in free pages, not in the log, not in
//! the copies that upgrades made.

use std::fs;
use std::path::Path;

use super::{Records, RecordsError, Result, schema};
use crate::foreign;

/// What a service leaves in each table, children before what they point at.
const DELETES: &[&str] = &[
    "DELETE FROM gone WHERE series IN (SELECT id FROM series WHERE service = ?1)",
    "DELETE FROM coverage WHERE series IN (SELECT id FROM series WHERE service = ?1)",
    "DELETE FROM record WHERE series IN (SELECT id FROM series WHERE service = ?1)",
    "DELETE FROM series WHERE service = ?1",
    "DELETE FROM run WHERE service = ?1",
    "DELETE FROM state WHERE service = ?1",
    "DELETE FROM shape WHERE service = ?1",
];

impl Records {
    /// Deletes everything of a service and writes the file anew without it. Copies that upgrades and
    /// imports made go as well: they hold the same rows. Answers how many records there were.
    pub fn forget(&self, service: &str) -> Result<u64> {
        let counts = self.counts(service)?;
        self.write(|db| {
            for delete in DELETES {
                db.execute(delete, [service])?;
            }
            Ok(())
        })?;
        self.rewrite()?;
        remove_beginning(&self.inner.backups, schema::COPY_PREFIX)?;
        // An import that was killed has left what it read.
        if let Some(home) = self.inner.path.parent() {
            remove_beginning(home, foreign::COPY_PREFIX)?;
        }
        Ok(counts.iter().map(|(_, count)| count).sum())
    }

    /// Writes the whole file anew and empties the log, which still holds the old pages.
    fn rewrite(&self) -> Result<()> {
        self.readers().clear();
        let mut writer = self.writer();
        let link = self.open_writer(&mut writer)?;
        link.db.execute_batch("VACUUM")?;
        let is_blocked: bool =
            link.db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |r| r.get(0))?;
        if is_blocked { Err(RecordsError::StillRead) } else { Ok(()) }
    }
}

/// Removes the files of a folder whose names begin so.
fn remove_beginning(folder: &Path, prefix: &str) -> Result<()> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
    for entry in entries {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(prefix) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
