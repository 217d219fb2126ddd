//! Deletes records completely: from the tables, the free pages, the log and the backup copies of
//! upgrades.

use std::fs;
use std::path::Path;

use super::{Records, RecordsError, Result, schema};
use crate::sqlite_copy;

/// The rows of a service in each table, children before their parents.
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
    /// Deletes everything of a service and rewrites the file. Backup copies of upgrades and imports
    /// are deleted too, because they contain the same rows. Returns the number of deleted records.
    pub fn forget(&self, service: &str) -> Result<u64> {
        let counts = self.counts(service)?;
        self.write(|db| {
            for delete in DELETES {
                db.execute(delete, [service])?;
            }
            Ok(())
        })?;
        self.rewrite()?;
        remove_with_prefix(&self.pool.backups, schema::COPY_PREFIX)?;
        // A killed import has left its copy.
        if let Some(home) = self.pool.path.parent() {
            remove_with_prefix(home, sqlite_copy::COPY_PREFIX)?;
        }
        Ok(counts.iter().map(|(_, count)| count).sum())
    }

    /// Rewrites the whole file and empties the log, which still contains the old pages.
    fn rewrite(&self) -> Result<()> {
        self.readers().clear();
        let mut writer = self.writer();
        let connection = self.open_writer(&mut writer)?;
        connection.db.execute_batch("VACUUM")?;
        let is_blocked: bool =
            connection.db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |r| r.get(0))?;
        if is_blocked { Err(RecordsError::StillRead) } else { Ok(()) }
    }
}

/// Removes the files of a folder with this name prefix.
fn remove_with_prefix(folder: &Path, prefix: &str) -> Result<()> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
    for entry in entries {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(prefix) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
