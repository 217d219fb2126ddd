//! Sign-ins in progress, shared by all processes of a home: the command that starts one, and the gate whose port
//! receives the redirect. Each is sealed, found by its state, used once and valid for ten minutes.

use std::fs;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{LoginKey, Logins, LoginsError, short_hash};
use crate::home::private;
use crate::locked_file::{self, Folder, io_error};
use crate::secret::Secret;
use crate::vault::{Purpose, Sealed};

/// Where they are on a store that replicas share.
const ATTEMPTS: &str = "sign-ins";
const OUTCOMES: &str = "sign-in-outcomes";
/// How long a sign-in may take.
pub(super) const ATTEMPT_US_MAX: i64 = 10 * 60 * 1_000_000;

/// A sign-in in progress, as its creator stored it.
#[derive(Debug)]
pub struct StoredAttempt {
    /// The creator's own text, with the verifier and all that the exchange needs.
    pub text: Secret,
}

/// How a sign-in ended, for the command that waits for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttemptOutcome {
    pub is_signed_in: bool,
    /// Why not; empty otherwise.
    #[serde(rename = "words")]
    pub message: String,
}

#[derive(Serialize, Deserialize)]
struct PlainAttempt {
    expires_us: i64,
    text: String,
}

impl Logins {
    /// Stores a sign-in in progress under its state. It replaces an earlier one of the same login: one flow per
    /// credential.
    pub fn begin_attempt(
        &self,
        key: &LoginKey,
        state: &str,
        text: &str,
        now_us: i64,
    ) -> Result<(), LoginsError> {
        let expires_us = now_us.saturating_add(ATTEMPT_US_MAX);
        let plain = PlainAttempt { expires_us, text: text.to_owned() };
        let plain = zeroize::Zeroizing::new(serde_json::to_vec(&plain).unwrap_or_default());
        let sealed = self.vault.seal(Purpose::ServerLogin, &row(state), &plain, &self.random)?;
        let name = attempt_name(key, state);
        if let Folder::Shared(folder) = &self.files {
            let earlier = format!("{}.", key.file_name());
            let old_us = now_us.saturating_sub(2 * ATTEMPT_US_MAX);
            let sweep = (Some(&*earlier), old_us, now_us);
            return Ok(folder.folder(ATTEMPTS).put(&name, sealed.as_bytes(), sweep)?);
        }
        locked_file::make_folder(&self.folder)?;
        locked_file::make_folder(&self.attempts())?;
        self.sweep_attempts(key, now_us);
        let path = self.attempts().join(name);
        let written = private::replace(&path, sealed.as_bytes(), &self.random.name()?);
        Ok(written.map_err(io_error("write", &path))?)
    }

    /// Takes the sign-in of a state: a second call finds nothing, in any process.
    pub fn take_attempt(
        &self,
        state: &str,
        now_us: i64,
    ) -> Result<Option<StoredAttempt>, LoginsError> {
        let Some(bytes) = self.take_sealed(state)? else { return Ok(None) };
        let sealed = Sealed::from_bytes(Purpose::ServerLogin, &row(state), bytes);
        let opened = self.vault.open(&sealed)?;
        let Ok(plain) = serde_json::from_slice::<PlainAttempt>(opened.expose()) else {
            return Ok(None);
        };
        let begun_us = plain.expires_us.saturating_sub(ATTEMPT_US_MAX);
        // A clock that was set back does not extend it.
        if !(begun_us..plain.expires_us).contains(&now_us) {
            return Ok(None);
        }
        Ok(Some(StoredAttempt { text: Secret::new(plain.text) }))
    }

    fn take_sealed(&self, state: &str) -> Result<Option<Vec<u8>>, LoginsError> {
        if let Folder::Shared(folder) = &self.files {
            return Ok(folder.folder(ATTEMPTS).take(&attempt_end(state))?);
        }
        let Some(path) = self.find_attempt(state) else { return Ok(None) };
        let taken = path.with_extension(format!("taken-{}", self.random.name()?));
        // Only one process can rename it.
        if fs::rename(&path, &taken).is_err() {
            return Ok(None);
        }
        let read = fs::read(&taken);
        let _ = locked_file::overwrite(&taken).and_then(|()| fs::remove_file(&taken));
        Ok(Some(read.map_err(io_error("read", &taken))?))
    }

    /// Whether the sign-in of this state still waits for its redirect.
    pub fn is_attempt_open(&self, state: &str) -> bool {
        match &self.files {
            Folder::Shared(folder) => folder.folder(ATTEMPTS).has(&attempt_end(state)),
            Folder::Home(_) => self.find_attempt(state).is_some(),
        }
    }

    /// Leaves the outcome for the command that waits.
    pub fn finish_attempt(&self, state: &str, outcome: &AttemptOutcome) -> Result<(), LoginsError> {
        let text = serde_json::to_vec(outcome).unwrap_or_default();
        if let Folder::Shared(folder) = &self.files {
            let sweep = (None, i64::MIN, i64::MAX);
            return Ok(folder.folder(OUTCOMES).put(&short_hash(state), &text, sweep)?);
        }
        let path = self.outcome_path(state);
        let written = private::replace(&path, &text, &self.random.name()?);
        Ok(written.map_err(io_error("write", &path))?)
    }

    /// The outcome, once there is one. It is removed.
    pub fn take_outcome(&self, state: &str) -> Option<AttemptOutcome> {
        if let Folder::Shared(folder) = &self.files {
            let (folder, name) = (folder.folder(OUTCOMES), short_hash(state));
            let text = if folder.has(&name) { folder.take(&name).ok()? } else { None };
            return serde_json::from_slice(&text?).ok();
        }
        let path = self.outcome_path(state);
        let text = fs::read(&path).ok()?;
        let _ = fs::remove_file(&path);
        serde_json::from_slice(&text).ok()
    }

    fn attempts(&self) -> PathBuf {
        self.folder.join("attempts")
    }

    fn outcome_path(&self, state: &str) -> PathBuf {
        self.attempts().join(format!("{}.outcome", short_hash(state)))
    }

    fn find_attempt(&self, state: &str) -> Option<PathBuf> {
        let end = attempt_end(state);
        let entries = fs::read_dir(self.attempts()).ok()?;
        let mut paths = entries.flatten().map(|entry| entry.path());
        paths.find(|path| path.to_string_lossy().ends_with(&end))
    }

    /// Removes earlier sign-ins of this login, and what others left behind.
    fn sweep_attempts(&self, key: &LoginKey, now_us: i64) {
        let Ok(entries) = fs::read_dir(self.attempts()) else { return };
        let start = format!("{}.", key.file_name());
        for entry in entries.flatten() {
            let is_earlier = entry.file_name().to_string_lossy().starts_with(&start);
            let written = entry.metadata().and_then(|found| found.modified()).ok();
            let written = written.and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
            let written_us = written.and_then(|at| i64::try_from(at.as_micros()).ok());
            let is_old =
                written_us.is_some_and(|at| (now_us.saturating_sub(at)).abs() > 2 * ATTEMPT_US_MAX);
            if is_earlier || is_old {
                let _ = locked_file::overwrite(&entry.path())
                    .and_then(|()| fs::remove_file(entry.path()));
            }
        }
    }
}

fn attempt_name(key: &LoginKey, state: &str) -> String {
    format!("{}{}", key.file_name(), attempt_end(state))
}

fn attempt_end(state: &str) -> String {
    format!(".{}.attempt", short_hash(state))
}

fn row(state: &str) -> String {
    format!("attempt\n{state}")
}
