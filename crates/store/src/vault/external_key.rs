//! A key outside the home: `vault.key` then names the program that provides it, and which key it
//! is. The binary runs programs; this file defines the commands and checks their output.

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::key_file::{KeyError, parse_key};
use super::{KEY_BYTES, Vault};
use crate::secret::Secret;

/// Less than a refresh waits for its helper, which needs the key too.
pub const WAIT_SECONDS_MAX: u64 = 60;
/// Long enough to type the password of a keyring.
pub const WAIT_SECONDS: u64 = 30;

/// The comment at the top of the file, for people who open it.
const ABOUT: &str = "# The vault key of this home is not in this file. The command below prints it.
# `tollgate vault move --to file` puts it back here.
";

/// Runs the command of a key source and returns what it printed.
pub type RunProgram = fn(&ExternalKey) -> Result<Zeroizing<String>, KeyProgramError>;

/// Identifies a key without revealing it: 16 hexadecimal digits of a hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct KeyId(String);

/// What stores the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyStore {
    /// The keyring of the operating system.
    Keyring,
    /// A program that the owner named.
    Command,
}

/// Where a key outside the home is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExternalKey {
    pub keeper: KeyStore,
    pub key: KeyId,
    pub command: Program,
    #[serde(default)]
    pub wait_seconds_max: ProgramTimeout,
}

/// A program with its arguments, run without a shell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>")]
pub struct Program(Vec<String>);

/// The timeout of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u64")]
pub struct ProgramTimeout(u64);

/// Why no key was provided. None of them contains what the program printed.
#[derive(Debug, thiserror::Error)]
pub enum KeyProgramError {
    #[error("there is no program `{program}`")]
    NoProgram { program: String },
    #[error("`{program}` ended with {status}{}", stderr_text(.message.as_deref()))]
    Failed { program: String, status: String, message: Option<String> },
    #[error("`{program}` did not answer within {seconds} s")]
    Slow { program: String, seconds: u64 },
    #[error("`{program}` printed something that is not a vault key")]
    NotAKey { program: String },
    #[error(
        "`{program}` printed a vault key other than `{wanted}`, which this home was created with"
    )]
    AnotherKey { program: String, wanted: KeyId },
    #[error("cannot run `{program}`: {source}")]
    Io { program: String, source: std::io::Error },
    #[error("no program is run for the key of this home")]
    NoProgramRun,
    #[error(
        "`{program}` was not run: a file in this home names it, and it is not confirmed on this machine"
    )]
    NotConfirmed { program: String },
}

/// Runs no program: for temporary and demo homes, whose key is a file.
pub fn run_no_program(_: &ExternalKey) -> Result<Zeroizing<String>, KeyProgramError> {
    Err(KeyProgramError::NoProgramRun)
}

impl KeyId {
    pub(super) fn of(key: &[u8; KEY_BYTES]) -> KeyId {
        let digest = Sha256::new().chain_update(b"tollgate vault key id\0").chain_update(key);
        KeyId(crate::hex::encode(digest.finalize().get(..8).unwrap_or_default()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for KeyId {
    type Error = &'static str;

    fn try_from(text: String) -> Result<KeyId, &'static str> {
        // Anything else may be the key itself, and is not repeated.
        let good = crate::hex::decode::<8>(&text).is_some();
        if good { Ok(KeyId(text)) } else { Err("`key` is the id of a key, 16 hexadecimal digits") }
    }
}

impl Program {
    pub fn name(&self) -> &str {
        self.0.first().map_or("", String::as_str)
    }

    pub fn arguments(&self) -> &[String] {
        self.0.get(1..).unwrap_or_default()
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(" "))
    }
}

impl TryFrom<Vec<String>> for Program {
    type Error = &'static str;

    fn try_from(words: Vec<String>) -> Result<Program, &'static str> {
        let name = words.first().map_or("", String::as_str);
        if name.is_empty() || words.iter().any(|word| word.contains('\0')) {
            return Err("`command` is a program and its arguments");
        }
        // A path relative to the working directory would be another program each time.
        if name.contains('/') && !Path::new(name).is_absolute() {
            return Err("the program in `command` is a name on the `PATH`, or an absolute path");
        }
        Ok(Program(words))
    }
}

impl ProgramTimeout {
    pub fn seconds(self) -> u64 {
        self.0
    }
}

impl Default for ProgramTimeout {
    fn default() -> ProgramTimeout {
        ProgramTimeout(WAIT_SECONDS)
    }
}

impl TryFrom<u64> for ProgramTimeout {
    type Error = String;

    fn try_from(seconds: u64) -> Result<ProgramTimeout, String> {
        if (1..=WAIT_SECONDS_MAX).contains(&seconds) {
            return Ok(ProgramTimeout(seconds));
        }
        Err(format!("`wait_seconds_max` is between 1 and {WAIT_SECONDS_MAX}"))
    }
}

impl ExternalKey {
    /// Parses a `vault.key` without a key. Only the error is passed on, not the line it is about.
    pub(super) fn parse(text: &str) -> Result<ExternalKey, String> {
        toml::from_str(text).map_err(|e| e.message().to_owned())
    }

    pub(super) fn text(&self) -> String {
        format!("{ABOUT}{}", toml::to_string(self).unwrap_or_default())
    }

    /// Gets the key and checks that it is the expected one.
    pub(super) fn key(&self, ask: RunProgram) -> Result<Secret<[u8; KEY_BYTES]>, KeyError> {
        let failed = |source| KeyError::External { external: Box::new(self.clone()), source };
        let printed = ask(self).map_err(failed)?;
        let program = self.command.name().to_owned();
        let Ok(key) = parse_key(&printed) else {
            return Err(failed(KeyProgramError::NotAKey { program }));
        };
        if KeyId::of(key.expose()) != self.key {
            return Err(failed(KeyProgramError::AnotherKey { program, wanted: self.key.clone() }));
        }
        Ok(key)
    }

    /// What the owner should do first when no key is provided.
    pub fn hint(&self, why: &KeyProgramError) -> String {
        match (why, self.keeper) {
            (KeyProgramError::NoProgram { program }, KeyStore::Keyring) => {
                format!("install `{program}`; on Debian and Ubuntu it is in `libsecret-tools`")
            }
            (KeyProgramError::NoProgram { .. } | KeyProgramError::Io { .. }, _) => {
                "install the program, or correct `command` in `vault.key`".to_owned()
            }
            (KeyProgramError::NotAKey { .. } | KeyProgramError::AnotherKey { .. }, _) => {
                format!("`{}` must print the key `{}`", self.command, self.key)
            }
            (KeyProgramError::NotConfirmed { .. }, _) => format!(
                "if this is your home and you want `{}` to be run: `tollgate vault confirm`",
                self.command
            ),
            (KeyProgramError::NoProgramRun, _) => "move the key into the file `vault.key`".to_owned(),
            (KeyProgramError::Failed { .. } | KeyProgramError::Slow { .. }, KeyStore::Keyring) => {
                "the keyring is locked, or has no such key: sign in to your desktop, then `tollgate vault status`".to_owned()
            }
            (KeyProgramError::Failed { .. } | KeyProgramError::Slow { .. }, KeyStore::Command) => {
                format!("make `{}` print the key, then `tollgate vault status`", self.command)
            }
        }
    }
}

impl fmt::Display for ExternalKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.keeper {
            KeyStore::Keyring => write!(f, "the keyring (`{}`)", self.command.name()),
            KeyStore::Command => write!(f, "the command `{}`", self.command),
        }
    }
}

impl Vault {
    /// The id of this key.
    pub fn key_id(&self) -> KeyId {
        KeyId::of(self.master.expose())
    }
}

fn stderr_text(message: Option<&str>) -> String {
    match message {
        Some(message) => format!(" and said: {message}"),
        None => " and said nothing".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn written_values_read_back_unchanged() {
        let words = ["secret-tool", "lookup", "a b", "\"'\n#"].map(str::to_owned).to_vec();
        let external = ExternalKey {
            keeper: KeyStore::Keyring,
            key: KeyId::of(&[7; KEY_BYTES]),
            command: Program::try_from(words).unwrap(),
            wait_seconds_max: ProgramTimeout::try_from(5).unwrap(),
        };
        assert_eq!(ExternalKey::parse(&external.text()).unwrap(), external);
    }

    #[test]
    fn invalid_answers_are_refused_without_repeating_them() {
        let key = "ab".repeat(32);
        let table = [
            ("keeper = \"keyring\"".to_owned(), "missing field `key`"),
            (format!("keeper = \"keyring\"\nkey = \"{key}\"\ncommand = [\"a\"]"), "16 hexadecimal"),
            (good("command = []"), "a program and its arguments"),
            (good("command = [\"./a\"]"), "an absolute path"),
            (good("command = \"a b\""), "expected a sequence"),
            (good("command = [\"a\"]\nwait_seconds_max = 0"), "between 1 and 60"),
            (good("command = [\"a\"]\nwait = 3"), "unknown field `wait`"),
            (format!("key = {key}"), ""),
        ];
        for (text, complaint) in table {
            let message = ExternalKey::parse(&text).unwrap_err();
            assert!(message.contains(complaint), "{message}");
            assert!(!message.contains(&key), "{message}");
        }
    }

    fn good(rest: &str) -> String {
        format!("keeper = \"command\"\nkey = \"0123456789abcdef\"\n{rest}\n")
    }
}
