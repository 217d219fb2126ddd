//! Files with sealed content that replicas share: accounts, logins and sign-ins in progress. They are
//! rows of the store, read from the local copy like the registry, and a lease takes the place of the
//! lock of a file.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension as _};

use super::shared::Lease;
use super::{Registry, RegistryError};
use crate::locked_file::{FileError, io_error};

/// Longer than a refresh of a token may take.
const LEASE_US: i64 = 60_000_000;

/// One folder of shared files.
#[derive(Clone, Debug)]
pub(crate) struct SharedFolder {
    registry: Arc<Registry>,
    name: &'static str,
}

/// The lease of one file.
#[derive(Debug)]
pub(crate) struct SharedLock {
    folder: SharedFolder,
    file: String,
    lease: Lease,
}

impl SharedFolder {
    /// None if no replicas share the registry.
    pub(crate) fn of(registry: &Arc<Registry>, name: &'static str) -> Option<SharedFolder> {
        registry.is_shared().then(|| SharedFolder { registry: Arc::clone(registry), name })
    }

    /// Another folder of the same store.
    pub(crate) fn folder(&self, name: &'static str) -> SharedFolder {
        SharedFolder { registry: Arc::clone(&self.registry), name }
    }

    pub(crate) fn read(&self, file: &str) -> Result<Option<Vec<u8>>, FileError> {
        let select = "SELECT content FROM shared_files WHERE folder = ?1 AND name = ?2";
        let content = self.registry.find(|db| {
            let found = db.query_row(select, (self.name, file), |row| row.get(0));
            Ok(found.optional()?)
        });
        self.done("read", file, content)
    }

    /// The file as it is in the store now.
    pub(crate) fn read_newest(&self, file: &str) -> Result<Option<Vec<u8>>, FileError> {
        self.done("read", file, self.registry.refresh())?;
        self.read(file)
    }

    /// Changes with every change of the file. Asks only the local copy.
    pub(crate) fn version(&self, file: &str) -> Option<i64> {
        let select = "SELECT version FROM shared_files WHERE folder = ?1 AND name = ?2";
        let version = self
            .registry
            .read(|db| Ok(db.query_row(select, (self.name, file), |row| row.get(0)).optional()?));
        version.ok().flatten()
    }

    pub(crate) fn names(&self) -> Result<Vec<String>, FileError> {
        let names = self.registry.read(|db| {
            let mut select =
                db.prepare("SELECT name FROM shared_files WHERE folder = ?1 ORDER BY name")?;
            let names = select.query_map([self.name], |row| row.get(0))?;
            Ok(names.collect::<Result<_, _>>()?)
        });
        self.done("list", "", names)
    }

    /// Replaces a file, without a lease. Others whose names begin with `instead_of`, or that are from
    /// before `old_us`, are removed with it.
    pub(crate) fn put(
        &self,
        file: &str,
        content: &[u8],
        (instead_of, old_us, now_us): (Option<&str>, i64, i64),
    ) -> Result<(), FileError> {
        let done = self.registry.write_quietly(|db| {
            let sweep = "DELETE FROM shared_files WHERE folder = ?1 AND (put_at_us < ?2
                         OR substr(name, 1, length(?3)) = ?3)";
            if let Some(start) = instead_of {
                db.execute(sweep, (self.name, old_us, start))?;
            }
            self.insert(db, file, content, now_us)
        });
        self.done("write", file, done)
    }

    /// Removes the file with this ending and returns it: only one caller gets it.
    pub(crate) fn take(&self, ending: &str) -> Result<Option<Vec<u8>>, FileError> {
        let take = "DELETE FROM shared_files WHERE folder = ?1
                    AND substr(name, -length(?2)) = ?2 RETURNING content";
        let taken = self.registry.write_quietly(|db| {
            Ok(db.query_row(take, (self.name, ending), |row| row.get(0)).optional()?)
        });
        self.done("take", ending, taken)
    }

    /// Whether there is a file with this ending, in the store now.
    pub(crate) fn has(&self, ending: &str) -> bool {
        let select = "SELECT EXISTS (SELECT 1 FROM shared_files WHERE folder = ?1
                      AND substr(name, -length(?2)) = ?2)";
        let found = self.registry.refresh().and_then(|()| {
            self.registry.read(|db| Ok(db.query_row(select, (self.name, ending), |r| r.get(0))?))
        });
        found.unwrap_or(false)
    }

    /// The lease of a file, if nobody has it.
    pub(crate) fn try_lock(&self, file: &str) -> Result<Option<SharedLock>, FileError> {
        let Some(shared) = &self.registry.shared else { return Ok(None) };
        let lease = shared.lease(format!("{}/{file}", self.name), LEASE_US);
        let lease = self.done("lock", file, lease)?;
        let (folder, file) = (self.clone(), file.to_owned());
        Ok(lease.map(|lease| SharedLock { folder, file, lease }))
    }

    fn insert(
        &self,
        db: &Connection,
        file: &str,
        content: &[u8],
        now_us: i64,
    ) -> Result<(), RegistryError> {
        let mut version = [0; 8];
        self.registry.random.fill(&mut version)?;
        db.execute(
            "INSERT INTO shared_files (folder, name, content, version, put_at_us)
             VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (folder, name) DO UPDATE SET
                 content = excluded.content, version = excluded.version,
                 put_at_us = excluded.put_at_us",
            (self.name, file, content, i64::from_be_bytes(version), now_us),
        )?;
        Ok(())
    }

    fn done<T>(
        &self,
        act: &'static str,
        file: &str,
        result: Result<T, RegistryError>,
    ) -> Result<T, FileError> {
        let path = PathBuf::from(self.name).join(file);
        result.map_err(|error| io_error(act, &path)(io::Error::other(error)))
    }
}

impl SharedLock {
    /// Replaces the file; it is in the store when this returns.
    pub(crate) fn replace(&self, content: &[u8]) -> Result<(), FileError> {
        let done = self.change(|db| self.folder.insert(db, &self.file, content, 0));
        self.folder.done("write", &self.file, done)
    }

    /// Removes the file; false if there is none.
    pub(crate) fn remove(&self) -> Result<bool, FileError> {
        let delete = "DELETE FROM shared_files WHERE folder = ?1 AND name = ?2";
        let done = self.change(|db| Ok(db.execute(delete, (self.folder.name, &self.file))? == 1));
        self.folder.done("remove", &self.file, done)
    }

    /// Nothing is changed if another replica has taken the lease over.
    fn change<T>(
        &self,
        change: impl FnOnce(&Connection) -> Result<T, RegistryError>,
    ) -> Result<T, RegistryError> {
        let Some(shared) = &self.folder.registry.shared else { return Err(RegistryError::Locked) };
        shared.write((false, Some(&self.lease)), |db| change(db))
    }
}

impl Drop for SharedLock {
    fn drop(&mut self) {
        if let Some(shared) = &self.folder.registry.shared {
            shared.release(self.lease.clone());
        }
    }
}
