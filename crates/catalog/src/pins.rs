//! Pins tool definitions: a fingerprint over the whole definition, and a readable difference when it
//! no longer matches.

use std::fmt;

use policy::json;
use serde::Serialize;
use sha2::{Digest, Sha256};

mod definition_path;
mod difference;
mod oddities;
mod visible;
mod word_diff;

pub use difference::{Change, ChangeKind, Part, difference, render};
pub use oddities::{Oddity, OddityKind, look_alike_key, oddities};
pub use visible::{is_hidden, visible};

/// SHA-256 of a canonical tool definition, as 64 lower-case hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Fingerprint(String);

impl Fingerprint {
    /// Reads a fingerprint back from storage; anything but 64 lower-case hex digits is not one.
    pub fn from_hex(text: &str) -> Option<Self> {
        let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        (text.len() == 64 && text.bytes().all(hex)).then(|| Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Enough digits to distinguish two definitions on a terminal.
    pub fn short(&self) -> &str {
        self.0.get(..12).unwrap_or(&self.0)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The fingerprint of the whole tool object: name, title, description, schemas, annotations, icons
/// and unknown members. A rug pull may use any of them.
pub fn fingerprint(tool: json::Value<'_>) -> Fingerprint {
    fingerprint_of_canonical(&canonical_definition(tool))
}

/// The fingerprint of a definition in canonical form, as stored with a pin.
pub fn fingerprint_of_canonical(canonical: &str) -> Fingerprint {
    fingerprint_of_bytes(canonical.as_bytes())
}

/// The SHA-256 of any bytes, such as a file of a skill.
pub fn fingerprint_of_bytes(bytes: &[u8]) -> Fingerprint {
    let digest = Sha256::digest(bytes);
    let mut hex = String::with_capacity(64);
    for byte in digest {
        hex.push(char::from_digit(u32::from(byte >> 4), 16).unwrap_or('0'));
        hex.push(char::from_digit(u32::from(byte & 15), 16).unwrap_or('0'));
    }
    Fingerprint(hex)
}

/// The canonical form: independent of key order, white space and number format.
pub fn canonical_definition(tool: json::Value<'_>) -> String {
    let mut bytes = Vec::new();
    json::canonical(tool, &mut bytes);
    // The canonical form of a UTF-8 document is UTF-8; the lossy path is never taken.
    String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned())
}
