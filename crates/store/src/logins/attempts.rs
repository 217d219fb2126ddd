//! Sign-ins in progress, shared by all processes of a home: the command that starts one, and the gate whose port
//! receives the redirect. Each is sealed, found by its state, used once and valid for ten minutes.

use std::fs;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{LoginKey, Logins, LoginsError, short_hash};
use crate::home::private;
use crate::locked_file::{self, io_error};
use crate::secret::Secret;
use crate::vault::{Purpose, Sealed};

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
        locked_file::make_folder(&self.folder)?;
        locked_file::make_folder(&self.attempts())?;
        self.sweep_attempts(key, now_us);
        let expires_us = now_us.saturating_add(ATTEMPT_US_MAX);
        let plain = PlainAttempt { expires_us, text: text.to_owned() };
        let plain = zeroize::Zeroizing::new(serde_json::to_vec(&plain).unwrap_or_default());
        let sealed = self.vault.seal(Purpose::ServerLogin, &row(state), &plain, &self.random)?;
        let path = self.attempt_path(key, state);
        let written = private::replace(&path, sealed.as_bytes(), &self.random.name()?);
        Ok(written.map_err(io_error("write", &path))?)
    }

    /// Takes the sign-in of a state: a second call finds nothing, in any process.
    pub fn take_attempt(
        &self,
        state: &str,
        now_us: i64,
    ) -> Result<Option<StoredAttempt>, LoginsError> {
        let Some(path) = self.find_attempt(state) else { return Ok(None) };
        let taken = path.with_extension(format!("taken-{}", self.random.name()?));
        // Only one process can rename it.
        if fs::rename(&path, &taken).is_err() {
            return Ok(None);
        }
        let read = fs::read(&taken);
        let _ = locked_file::overwrite(&taken).and_then(|()| fs::remove_file(&taken));
        let bytes = read.map_err(io_error("read", &taken))?;
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

    /// Whether the sign-in of this state still waits for its redirect.
    pub fn is_attempt_open(&self, state: &str) -> bool {
        self.find_attempt(state).is_some()
    }

    /// Leaves the outcome for the command that waits.
    pub fn finish_attempt(&self, state: &str, outcome: &AttemptOutcome) -> Result<(), LoginsError> {
        let path = self.outcome_path(state);
        let text = serde_json::to_vec(outcome).unwrap_or_default();
        let written = private::replace(&path, &text, &self.random.name()?);
        Ok(written.map_err(io_error("write", &path))?)
    }

    /// The outcome, once there is one. It is removed.
    pub fn take_outcome(&self, state: &str) -> Option<AttemptOutcome> {
        let path = self.outcome_path(state);
        let text = fs::read(&path).ok()?;
        let _ = fs::remove_file(&path);
        serde_json::from_slice(&text).ok()
    }

    fn attempts(&self) -> PathBuf {
        self.folder.join("attempts")
    }

    fn attempt_path(&self, key: &LoginKey, state: &str) -> PathBuf {
        let name = format!("{}.{}.attempt", key.file_name(), short_hash(state));
        self.attempts().join(name)
    }

    fn outcome_path(&self, state: &str) -> PathBuf {
        self.attempts().join(format!("{}.outcome", short_hash(state)))
    }

    fn find_attempt(&self, state: &str) -> Option<PathBuf> {
        let end = format!(".{}.attempt", short_hash(state));
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

fn row(state: &str) -> String {
    format!("attempt\n{state}")
}
