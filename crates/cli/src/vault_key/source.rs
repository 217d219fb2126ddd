//! The source of a home's vault key.

use std::fmt;

use anyhow::Result;
use serde_json::{Value, json};
use store::home::Home;
use store::vault::{ExternalKey, KeyFile, KeyStore};

use super::key_is_in_environment;
use crate::variables::KEY_VARIABLE;

pub(crate) enum KeySource {
    Environment,
    File,
    External(ExternalKey),
}

impl KeySource {
    /// Reads the source without fetching the key.
    pub(crate) fn of(home: &Home) -> Result<KeySource> {
        if key_is_in_environment() {
            return Ok(KeySource::Environment);
        }
        Ok(match KeyFile::of(home)? {
            Some(KeyFile::External(external)) => KeySource::External(external),
            // A home without a key gets one in the file.
            Some(KeyFile::Key(_)) | None => KeySource::File,
        })
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            KeySource::Environment => "handed_in",
            KeySource::File => "file",
            KeySource::External(external) => match external.keeper {
                KeyStore::Keyring => "keyring",
                KeyStore::Command => "command",
            },
        }
    }

    pub(crate) fn json(&self) -> Value {
        match self {
            KeySource::External(external) => json!({
                "place": self.name(),
                "command": external.command,
                "wait_seconds_max": external.wait_seconds_max,
            }),
            _ => json!({ "place": self.name() }),
        }
    }
}

impl fmt::Display for KeySource {
    /// Completes "the vault key comes from".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeySource::Environment => write!(f, "`{KEY_VARIABLE}`"),
            KeySource::File => f.write_str("the file `vault.key`"),
            KeySource::External(external) => write!(f, "{external}"),
        }
    }
}
