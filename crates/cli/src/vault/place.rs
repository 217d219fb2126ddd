//! Where the vault key of a home comes from, for whoever asks.

use std::fmt;

use anyhow::Result;
use serde_json::{Value, json};
use store::home::Home;
use store::vault::{Elsewhere, Keeper, KeyFile};

use crate::context::{KEY_VARIABLE, key_is_handed_in};

pub(crate) enum KeyPlace {
    HandedIn,
    File,
    Elsewhere(Elsewhere),
}

impl KeyPlace {
    /// Looks without asking for the key.
    pub(crate) fn of(home: &Home) -> Result<KeyPlace> {
        if key_is_handed_in() {
            return Ok(KeyPlace::HandedIn);
        }
        Ok(match KeyFile::of(home)? {
            Some(KeyFile::Elsewhere(place)) => KeyPlace::Elsewhere(place),
            // A home without a key gets one in the file.
            Some(KeyFile::Key(_)) | None => KeyPlace::File,
        })
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            KeyPlace::HandedIn => "handed_in",
            KeyPlace::File => "file",
            KeyPlace::Elsewhere(place) => match place.keeper {
                Keeper::Keyring => "keyring",
                Keeper::Command => "command",
            },
        }
    }

    /// What a program wants to know of it.
    pub(crate) fn json(&self) -> Value {
        match self {
            KeyPlace::Elsewhere(place) => json!({
                "place": self.name(),
                "command": place.command,
                "wait_seconds_max": place.wait_seconds_max,
            }),
            _ => json!({ "place": self.name() }),
        }
    }
}

impl fmt::Display for KeyPlace {
    /// To stand after "the vault key comes from".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyPlace::HandedIn => write!(f, "`{KEY_VARIABLE}`"),
            KeyPlace::File => f.write_str("the file `vault.key`"),
            KeyPlace::Elsewhere(place) => write!(f, "{place}"),
        }
    }
}
