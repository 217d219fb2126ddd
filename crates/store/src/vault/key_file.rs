//! The key file `vault.key`: the key itself, or where it is. Created once and atomically, and never
//! replaced without the owner, because everything sealed with the old key would be lost.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::external_key::{ExternalKey, KeyProgramError, RunProgram};
use super::{KEY_BYTES, Vault};
use crate::home::{Home, private};
use crate::random::{Random, RandomError};
use crate::secret::Secret;

/// The format of a key: `tgvk1_`, 64 hexadecimal digits, `_`, and a checksum of 8 digits.
const KEY_PREFIX: &str = "tgvk1_";
const FILE_BYTES_MAX: u64 = 4096;

/// The content of `vault.key`.
pub enum KeyFile {
    Key(Secret<[u8; KEY_BYTES]>),
    External(ExternalKey),
}

#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error(
        "the vault key `{}` is missing, and `gate.db` was created with it\nhint: restore the file from a backup (or pass the key as before); without it, move `{}` away and add the servers again",
        .path.display(), .database.display()
    )]
    Lost { path: PathBuf, database: PathBuf },
    #[error(
        "the vault key `{}` is damaged\nhint: restore it from a backup; it is one line that starts with `tgvk1_`", .0.display()
    )]
    Damaged(PathBuf),
    #[error(
        "the given vault key is not valid\nhint: a key is one line that starts with `tgvk1_`, or 64 hexadecimal digits"
    )]
    NotAKey,
    #[error("`{}` does not say where the vault key is: {message}\nhint: correct the file, or write the key itself into it: one line that starts with `tgvk1_`", .path.display())]
    Unclear { path: PathBuf, message: String },
    #[error(
        "the vault key cannot be read from {external}\nhint: {}\nhint: otherwise pass the key `{}` as `TOLLGATE_VAULT_KEY`, or write its line into `vault.key`",
        .external.hint(.source), .external.key
    )]
    External { external: Box<ExternalKey>, source: KeyProgramError },
    #[error("cannot {act} the vault key `{}`: {source}", .path.display())]
    Io { act: &'static str, path: PathBuf, source: io::Error },
    #[error(transparent)]
    Random(#[from] RandomError),
}

impl Vault {
    /// Opens the vault of a home by its key file, getting the key from where that says it is. A new
    /// home gets a new key in the file: a gate that starts unattended cannot unlock a keyring.
    pub fn open_home(home: &Home, random: &Random, ask: RunProgram) -> Result<Vault, KeyError> {
        let path = home.vault_key();
        if let Some(found) = read(&path)? {
            return found.vault(ask);
        }
        if has_content(&home.gate_db()) {
            // Another process may have created both between the two checks.
            let found = read(&path)?;
            let lost = || KeyError::Lost { path, database: home.gate_db() };
            return found.ok_or_else(lost)?.vault(ask);
        }
        create_key(&path, random)?.vault(ask)
    }

    /// The vault of a home folder that is only read. None if there is no key file.
    pub fn open_read_only(folder: &Path, ask: RunProgram) -> Result<Option<Vault>, KeyError> {
        read(&folder.join("vault.key"))?.map(|found| found.vault(ask)).transpose()
    }
}

impl KeyFile {
    /// The content of a home's key file; none if there is no file.
    pub fn of(home: &Home) -> Result<Option<KeyFile>, KeyError> {
        read(&home.vault_key())
    }

    /// The same for a folder that is only read.
    pub fn at(folder: &Path) -> Result<Option<KeyFile>, KeyError> {
        read(&folder.join("vault.key"))
    }

    fn vault(self, ask: RunProgram) -> Result<Vault, KeyError> {
        match self {
            KeyFile::Key(key) => Ok(Vault::from_key(key)),
            KeyFile::External(external) => external.key(ask).map(Vault::from_key),
        }
    }
}

/// Parses a key as people give it: the line of a key file, or 64 hexadecimal digits.
pub fn parse_key(text: &str) -> Result<Secret<[u8; KEY_BYTES]>, KeyError> {
    let text = text.trim();
    let Some(rest) = text.strip_prefix(KEY_PREFIX) else {
        return key_from_hex(text).ok_or(KeyError::NotAKey);
    };
    let (hex, check) = rest.split_once('_').ok_or(KeyError::NotAKey)?;
    let key = key_from_hex(hex).ok_or(KeyError::NotAKey)?;
    if check == check_digits(key.expose()) { Ok(key) } else { Err(KeyError::NotAKey) }
}

/// An empty file is an interrupted start: nothing is sealed with it.
fn has_content(database: &Path) -> bool {
    fs::metadata(database).is_ok_and(|found| found.len() > 0)
}

/// A file that was replaced while it was read may have been overwritten by then.
pub(super) fn read(path: &Path) -> Result<Option<KeyFile>, KeyError> {
    match read_once(path) {
        Err(KeyError::Damaged(_)) => read_once(path),
        read => read,
    }
}

fn read_once(path: &Path) -> Result<Option<KeyFile>, KeyError> {
    let mut text = Zeroizing::new(String::new());
    let file = match crate::files::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(io_error("open", path)(e)),
    };
    match file.take(FILE_BYTES_MAX).read_to_string(&mut text) {
        Ok(_) => {}
        Err(e) if e.kind() == io::ErrorKind::InvalidData => {
            return Err(KeyError::Damaged(path.into()));
        }
        Err(e) => return Err(io_error("read", path)(e)),
    }
    if let Ok(key) = parse_key(&text) {
        return Ok(Some(KeyFile::Key(key)));
    }
    // No part of a key has this character, so it is not a damaged key.
    if !text.contains('=') {
        return Err(KeyError::Damaged(path.into()));
    }
    let unclear = |message| KeyError::Unclear { path: path.into(), message };
    ExternalKey::parse(&text).map(|external| Some(KeyFile::External(external))).map_err(unclear)
}

fn create_key(path: &Path, random: &Random) -> Result<KeyFile, KeyError> {
    let mut key = Zeroizing::new([0; KEY_BYTES]);
    random.fill(key.as_mut())?;
    let text = key_text(&key);
    match private::write_new(path, text.as_bytes(), &random.name()?) {
        Ok(()) => Ok(KeyFile::Key(Secret::new(*key))),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            read(path)?.ok_or_else(|| KeyError::Damaged(path.into()))
        }
        Err(e) => Err(io_error("write", path)(e)),
    }
}

pub(super) fn key_text(key: &[u8; KEY_BYTES]) -> Zeroizing<String> {
    let hex = Zeroizing::new(crate::hex::encode(key));
    Zeroizing::new(format!("{KEY_PREFIX}{}_{}\n", *hex, check_digits(key)))
}

fn key_from_hex(hex: &str) -> Option<Secret<[u8; KEY_BYTES]>> {
    crate::hex::decode(hex).map(|bytes: [u8; KEY_BYTES]| Secret::new(bytes))
}

fn check_digits(key: &[u8; KEY_BYTES]) -> String {
    let digest = Sha256::new().chain_update(b"tollgate vault key check\0").chain_update(key);
    crate::hex::encode(digest.finalize().get(..4).unwrap_or_default())
}

pub(super) fn io_error(act: &'static str, path: &Path) -> impl FnOnce(io::Error) -> KeyError {
    let path = path.to_owned();
    move |source| KeyError::Io { act, path, source }
}
