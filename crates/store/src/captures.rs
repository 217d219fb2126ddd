//! The captured params of calls, sealed with the vault key, in `captures.db` next to the audit log. An audit row
//! has only the keyed digest of the params; the captured text is found by that digest and must match it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hmac::Mac;
use rusqlite::{Connection, OpenFlags, OptionalExtension};
use subtle::ConstantTimeEq;

use crate::home::private;
use crate::random::Random;
use crate::registry::BUSY_MS_MAX;
use crate::secret::Secret;
use crate::settings::Settings;
use crate::vault::{Purpose, Sealed, Vault, VaultError};

const FILE: &str = "captures.db";
const US_PER_SECOND: u64 = 1_000_000;
const US_PER_DAY: u64 = 86_400 * US_PER_SECOND;
/// The oldest captures are deleted down to this part of the limit, so that not every capture deletes one.
const KEPT_PERCENT: u64 = 90;
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

#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    #[error("cannot use `{}`: {source}", .path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("cannot use the captured arguments: {0}")]
    Database(#[from] rusqlite::Error),
    #[error(transparent)]
    Vault(#[from] VaultError),
    #[error("the write was interrupted")]
    Interrupted,
    #[error("the captured arguments do not match the digest in the audit row")]
    Differs,
}

/// How much is kept, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureLimits {
    /// Larger params are not kept; that they were too large is.
    pub params_bytes_max: usize,
    pub bytes_max: u64,
    pub age_us_max: i64,
}

impl CaptureLimits {
    /// Nothing is kept longer than the audit rows.
    pub fn of(settings: &Settings) -> CaptureLimits {
        let limits = &settings.limits;
        let age_us = limits.capture_days_max.saturating_mul(US_PER_DAY);
        let retention_us =
            settings.retention.age_seconds_max.map(|s| s.saturating_mul(US_PER_SECOND));
        let age_us = retention_us.map_or(age_us, |retention_us| retention_us.min(age_us));
        CaptureLimits {
            params_bytes_max: usize::try_from(limits.capture_params_bytes_max)
                .unwrap_or(usize::MAX),
            bytes_max: limits.capture_bytes_max,
            age_us_max: i64::try_from(age_us).unwrap_or(i64::MAX),
        }
    }
}

/// What was captured of a call.
pub struct Captured {
    /// Nothing if they were too large to keep.
    pub params: Option<Secret<Vec<u8>>>,
    pub bytes: u64,
    /// When a call with these params was last captured.
    pub captured_at_us: i64,
}

/// The captures of one home. The file is opened, and created, when it is first needed.
pub struct Captures {
    path: PathBuf,
    vault: Arc<Vault>,
    random: Random,
    open: Mutex<Option<OpenCaptures>>,
}

struct OpenCaptures {
    db: Connection,
    /// An estimate of all sealed bytes; other processes add to the file, too.
    bytes: u64,
}

impl Captures {
    pub fn new(folder: &Path, vault: Arc<Vault>, random: Random) -> Captures {
        Captures { path: folder.join(FILE), vault, random, open: Mutex::new(None) }
    }

    /// Keeps the params of one call. `params` is the text that the digest covers.
    pub fn put(
        &self,
        server: &str,
        digest: &[u8; 32],
        params: &[u8],
        now_us: i64,
        limits: &CaptureLimits,
    ) -> Result<(), CaptureError> {
        let digest = crate::hex::encode(digest);
        let is_too_large = params.len() > limits.params_bytes_max;
        let sealed = self.vault.seal(
            Purpose::CapturedParams,
            &row(server, &digest),
            if is_too_large { &[] } else { params },
            &self.random,
        )?;
        let sealed = (!is_too_large).then(|| sealed.as_bytes());
        let added = stored_number(sealed.map_or(0, <[u8]>::len)).unsigned_abs();
        self.with_file(|open| {
            open.db.execute(
                "INSERT INTO captures (server, digest, sealed, bytes, captured_at_us)
                 VALUES (?1, ?2, ?3, ?4, ?5)
                 ON CONFLICT (server, digest) DO UPDATE SET
                     sealed = coalesce(sealed, excluded.sealed),
                     captured_at_us = excluded.captured_at_us",
                (server, &digest, sealed, stored_number(params.len()), now_us),
            )?;
            open.bytes = open.bytes.saturating_add(added);
            if open.bytes > limits.bytes_max { open.prune(now_us, limits) } else { Ok(()) }
        })
    }

    /// The params of a call, by the digest in its audit row.
    pub fn get(&self, server: &str, digest: &str) -> Result<Option<Captured>, CaptureError> {
        if digest.is_empty() || !self.path.exists() {
            return Ok(None);
        }
        let found: Option<(Option<Vec<u8>>, i64, i64)> = self.with_file(|open| {
            let select = "SELECT sealed, bytes, captured_at_us FROM captures
                          WHERE server = ?1 AND digest = ?2";
            let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
            Ok(open.db.query_row(select, (server, digest), read).optional()?)
        })?;
        let Some((sealed, bytes, captured_at_us)) = found else { return Ok(None) };
        let params = sealed.map(|sealed| self.open_params(server, digest, sealed)).transpose()?;
        Ok(Some(Captured { params, bytes: bytes.unsigned_abs(), captured_at_us }))
    }

    fn open_params(
        &self,
        server: &str,
        digest: &str,
        sealed: Vec<u8>,
    ) -> Result<Secret<Vec<u8>>, CaptureError> {
        let sealed = Sealed::from_bytes(Purpose::CapturedParams, &row(server, digest), sealed);
        let params = self.vault.open(&sealed)?;
        let mut mac = self.vault.digest(Purpose::ArgumentDigest);
        mac.update(params.expose());
        let found = crate::hex::encode(&mac.finalize().into_bytes());
        if found.as_bytes().ct_eq(digest.as_bytes()).into() {
            Ok(params)
        } else {
            Err(CaptureError::Differs)
        }
    }

    /// Deletes what is too old or too much.
    pub fn prune(&self, now_us: i64, limits: &CaptureLimits) -> Result<(), CaptureError> {
        if !self.path.exists() {
            return Ok(());
        }
        self.with_file(|open| open.prune(now_us, limits))
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
    fn prune(&mut self, now_us: i64, limits: &CaptureLimits) -> Result<(), CaptureError> {
        let before_us = now_us.saturating_sub(limits.age_us_max);
        self.db.execute("DELETE FROM captures WHERE captured_at_us < ?1", [before_us])?;
        self.bytes = sealed_bytes(&self.db)?;
        if self.bytes <= limits.bytes_max {
            return Ok(());
        }
        let kept_max = limits.bytes_max / 100 * KEPT_PERCENT;
        // Newest first, until they are as many as may stay; the rest goes.
        self.db.execute(
            "DELETE FROM captures WHERE rowid IN (
                 SELECT rowid FROM (
                     SELECT rowid, sum(coalesce(length(sealed), 0)) OVER (
                         ORDER BY captured_at_us DESC, rowid DESC
                     ) AS so_far FROM captures
                 ) WHERE so_far > ?1)",
            [i64::try_from(kept_max).unwrap_or(i64::MAX)],
        )?;
        self.bytes = sealed_bytes(&self.db)?;
        Ok(())
    }
}

fn sealed_bytes(db: &Connection) -> Result<u64, CaptureError> {
    let sum = "SELECT coalesce(sum(length(sealed)), 0) FROM captures";
    Ok(db.query_row(sum, [], |row| row.get::<_, i64>(0))?.unsigned_abs())
}

fn stored_number(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// The row that a sealed value belongs to.
fn row(server: &str, digest: &str) -> String {
    format!("{server}/{digest}")
}

#[cfg(test)]
mod tests;
