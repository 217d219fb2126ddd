//! Copies a registry into an empty one, from a home to Postgres or back.

use std::collections::HashSet;

use rusqlite::Connection;

use super::shared::{RowImage, all_rows, replace_all};
use super::{Registry, RegistryError, schema};

/// A registry with rows in one of these is in use.
const IN_USE: &str = "SELECT EXISTS (SELECT 1 FROM servers) OR EXISTS (SELECT 1 FROM policies)
                      OR EXISTS (SELECT 1 FROM grants) OR EXISTS (SELECT 1 FROM browser_sessions)";

impl Registry {
    /// Fills an empty registry with all rows of this one and compares the two. Returns the number of
    /// rows. Both must have the same vault key.
    pub fn copy_to(&self, target: &Registry) -> Result<usize, RegistryError> {
        self.refresh()?;
        let rows = self.read(|db| all_rows(db))?;
        target.write(|db| {
            if db.query_row(IN_USE, [], |row| row.get(0))? {
                return Err(RegistryError::InUse);
            }
            db.pragma_update(None, "defer_foreign_keys", true)?;
            replace_all(db, &rows)?;
            check_same_key(db, target)
        })?;
        let copied: HashSet<_> = target.read(|db| all_rows(db))?.into_iter().collect();
        // Each counts its own changes.
        let is_copied = |row: &RowImage| copied.contains(row) || row.is_of("meta");
        if copied.len() != rows.len() || !rows.iter().all(is_copied) {
            return Err(RegistryError::Corrupt("the copy differs from the original".to_owned()));
        }
        Ok(rows.len())
    }
}

fn check_same_key(db: &Connection, target: &Registry) -> Result<(), RegistryError> {
    schema::lacks_key(db, &target.vault).map(drop)
}
