//! Captures in `captures.db`, which several processes of one machine share.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, OptionalExtension};

use super::{Bounds, CaptureError, StoredCapture, stored_number};
use crate::home::private;
use crate::registry::BUSY_MS_MAX;

const FILE: &str = "captures.db";
const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS captures (
        server TEXT NOT NULL,
        digest TEXT NOT NULL,
        sealed BLOB,
        bytes INTEGER NOT NULL,
        captured_at_us INTEGER NOT NULL,
        PRIMARY KEY (server, digest)
    );
    CREATE INDEX IF NOT EXISTS captures_by_time ON captures (captured_at_us);";

pub(super) struct CaptureFile {
    path: PathBuf,
    open: Mutex<Option<OpenCaptures>>,
}

struct OpenCaptures {
    db: Connection,
    /// An estimate of all sealed bytes; other processes add to the file, too.
    bytes: i64,
}

impl CaptureFile {
    pub(super) fn at(folder: &Path) -> CaptureFile {
        CaptureFile { path: folder.join(FILE), open: Mutex::new(None) }
    }

    pub(super) fn put(&self, new: &StoredCapture, bounds: Bounds) -> Result<(), CaptureError> {
        let added = stored_number(new.sealed.as_ref().map_or(0, Vec::len));
        self.with_file(|open| {
            open.db.execute(
                "INSERT INTO captures (server, digest, sealed, bytes, captured_at_us)
                 VALUES (?1, ?2, ?3, ?4, ?5)
                 ON CONFLICT (server, digest) DO UPDATE SET
                     sealed = coalesce(sealed, excluded.sealed),
                     captured_at_us = excluded.captured_at_us",
                (&new.server, &new.digest, &new.sealed, new.bytes, new.captured_at_us),
            )?;
            open.bytes = open.bytes.saturating_add(added);
            if open.bytes > bounds.bytes_max { open.prune(bounds) } else { Ok(()) }
        })
    }

    pub(super) fn get(
        &self,
        server: &str,
        digest: &str,
    ) -> Result<Option<StoredCapture>, CaptureError> {
        if !self.path.exists() {
            return Ok(None);
        }
        self.with_file(|open| {
            let select = "SELECT server, digest, sealed, bytes, captured_at_us FROM captures
                          WHERE server = ?1 AND digest = ?2";
            Ok(open.db.query_row(select, (server, digest), capture).optional()?)
        })
    }

    /// Up to so many captures after this one, in the order of their keys.
    pub(super) fn page(
        &self,
        (server, digest): (&str, &str),
        count: i64,
    ) -> Result<Vec<StoredCapture>, CaptureError> {
        if !self.path.exists() {
            return Ok(Vec::new());
        }
        self.with_file(|open| {
            let mut select = open.db.prepare(
                "SELECT server, digest, sealed, bytes, captured_at_us FROM captures
                 WHERE (server, digest) > (?1, ?2) ORDER BY server, digest LIMIT ?3",
            )?;
            let rows = select.query_map((server, digest, count), capture)?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }

    pub(super) fn prune(&self, bounds: Bounds) -> Result<(), CaptureError> {
        if !self.path.exists() {
            return Ok(());
        }
        self.with_file(|open| open.prune(bounds))
    }

    fn with_file<T>(
        &self,
        act: impl FnOnce(&mut OpenCaptures) -> Result<T, CaptureError>,
    ) -> Result<T, CaptureError> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        match open.as_mut() {
            // A file that was deleted is not written to any more.
            Some(file) if self.path.exists() => act(file),
            _ => act(open.insert(self.connect()?)),
        }
    }

    fn connect(&self) -> Result<OpenCaptures, CaptureError> {
        private::ensure(&self.path)
            .map_err(|source| CaptureError::Io { path: self.path.clone(), source })?;
        let db = Connection::open_with_flags(&self.path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        db.busy_timeout(Duration::from_millis(BUSY_MS_MAX))?;
        db.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
        // Deleted params are also removed from the file.
        db.pragma_update(None, "secure_delete", true)?;
        db.pragma_update(None, "trusted_schema", false)?;
        db.execute_batch(SCHEMA)?;
        let bytes = sealed_bytes(&db)?;
        Ok(OpenCaptures { db, bytes })
    }
}

impl OpenCaptures {
    fn prune(&mut self, bounds: Bounds) -> Result<(), CaptureError> {
        self.db.execute("DELETE FROM captures WHERE captured_at_us < ?1", [bounds.before_us])?;
        self.bytes = sealed_bytes(&self.db)?;
        if self.bytes <= bounds.bytes_max {
            return Ok(());
        }
        // Newest first, until they are as many as may stay; the rest goes.
        self.db.execute(
            "DELETE FROM captures WHERE rowid IN (
                 SELECT rowid FROM (
                     SELECT rowid, sum(coalesce(length(sealed), 0)) OVER (
                         ORDER BY captured_at_us DESC, rowid DESC
                     ) AS so_far FROM captures
                 ) WHERE so_far > ?1)",
            [bounds.kept_max],
        )?;
        self.bytes = sealed_bytes(&self.db)?;
        Ok(())
    }
}

fn capture(row: &rusqlite::Row<'_>) -> rusqlite::Result<StoredCapture> {
    Ok(StoredCapture {
        server: row.get(0)?,
        digest: row.get(1)?,
        sealed: row.get(2)?,
        bytes: row.get(3)?,
        captured_at_us: row.get(4)?,
    })
}

fn sealed_bytes(db: &Connection) -> Result<i64, CaptureError> {
    let sum = "SELECT coalesce(sum(length(sealed)), 0) FROM captures";
    Ok(db.query_row(sum, [], |row| row.get(0))?)
}
