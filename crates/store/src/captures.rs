//! The captured params of calls, sealed with the vault key, in `captures.db` next to the audit log or on the store
//! that replicas share. An audit row has only the keyed digest of the params; the captured text is found by that
//! digest and must match it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hmac::Mac;
use subtle::ConstantTimeEq;

use crate::postgres::StoreError;
use crate::random::Random;
use crate::secret::Secret;
use crate::settings::Settings;
use crate::vault::{Purpose, Sealed, Vault, VaultError};
use file::CaptureFile;

pub(crate) use table::CaptureTable;

mod file;
mod table;

const US_PER_SECOND: u64 = 1_000_000;
const US_PER_DAY: u64 = 86_400 * US_PER_SECOND;
/// The oldest captures are deleted down to this part of the limit, so that not every capture deletes one.
const KEPT_PERCENT: u64 = 90;
const COPIED_AT_ONCE: i64 = 200;

#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    #[error("cannot use `{}`: {source}", .path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("cannot use the captured arguments: {0}")]
    Database(#[from] rusqlite::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
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

/// The captures of one home, or of all homes that share a store.
pub struct Captures {
    rows: Rows,
    vault: Arc<Vault>,
    random: Random,
}

enum Rows {
    /// Opened, and created, when it is first needed.
    File(CaptureFile),
    Store(Arc<CaptureTable>),
}

/// One capture as it is stored.
struct StoredCapture {
    server: String,
    digest: String,
    sealed: Option<Vec<u8>>,
    /// The length of the params, sealed or not.
    bytes: i64,
    captured_at_us: i64,
}

/// What is kept: nothing from before a time, and not more bytes than this, or when there are more, only as many as
/// the second number says.
#[derive(Clone, Copy)]
struct Bounds {
    before_us: i64,
    bytes_max: i64,
    kept_max: i64,
}

impl Captures {
    pub fn new(folder: &Path, vault: Arc<Vault>, random: Random) -> Captures {
        Captures { rows: Rows::File(CaptureFile::at(folder)), vault, random }
    }

    pub(crate) fn on(table: Arc<CaptureTable>, vault: Arc<Vault>, random: Random) -> Captures {
        Captures { rows: Rows::Store(table), vault, random }
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
        let capture = StoredCapture {
            server: server.to_owned(),
            digest,
            sealed: (!is_too_large).then(|| sealed.as_bytes().to_vec()),
            bytes: stored_number(params.len()),
            captured_at_us: now_us,
        };
        self.store(capture, Bounds::of(limits, now_us))
    }

    /// The params of a call, by the digest in its audit row.
    pub fn get(&self, server: &str, digest: &str) -> Result<Option<Captured>, CaptureError> {
        if digest.is_empty() {
            return Ok(None);
        }
        let found = match &self.rows {
            Rows::File(file) => file.get(server, digest)?,
            Rows::Store(table) => table.get(server, digest)?,
        };
        let Some(StoredCapture { sealed, bytes, captured_at_us, .. }) = found else {
            return Ok(None);
        };
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

    /// Copies all captures, for a home that moves. Returns their number.
    pub fn copy_to(&self, target: &Captures) -> Result<usize, CaptureError> {
        let (mut last, mut count) = ((String::new(), String::new()), 0);
        loop {
            let after = (&*last.0, &*last.1);
            let page = match &self.rows {
                Rows::File(file) => file.page(after, COPIED_AT_ONCE)?,
                Rows::Store(table) => table.page(after, COPIED_AT_ONCE)?,
            };
            let Some(newest) = page.last() else { return Ok(count) };
            last = (newest.server.clone(), newest.digest.clone());
            count += page.len();
            for capture in page {
                target.store(capture, Bounds::NONE)?;
            }
        }
    }

    fn store(&self, capture: StoredCapture, bounds: Bounds) -> Result<(), CaptureError> {
        match &self.rows {
            Rows::File(file) => file.put(&capture, bounds),
            Rows::Store(table) => Ok(table.put(capture, bounds)?),
        }
    }

    /// Deletes what is too old or too much.
    pub fn prune(&self, now_us: i64, limits: &CaptureLimits) -> Result<(), CaptureError> {
        let bounds = Bounds::of(limits, now_us);
        match &self.rows {
            Rows::File(file) => file.prune(bounds),
            Rows::Store(table) => Ok(table.prune(bounds)?),
        }
    }
}

impl Bounds {
    const NONE: Bounds = Bounds { before_us: i64::MIN, bytes_max: i64::MAX, kept_max: i64::MAX };

    fn of(limits: &CaptureLimits, now_us: i64) -> Bounds {
        let bytes = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        Bounds {
            before_us: now_us.saturating_sub(limits.age_us_max),
            bytes_max: bytes(limits.bytes_max),
            kept_max: bytes(limits.bytes_max / 100 * KEPT_PERCENT),
        }
    }
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
