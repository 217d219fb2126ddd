//! The key file `vault.key`: the key itself or the words where it is. Made once, whole or not at all, and
//! never replaced behind the owner's back, because everything sealed with the old key would be lost.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::elsewhere::{Ask, AskError, Elsewhere};
use super::{KEY_BYTES, Vault};
use crate::home::{Home, private};
use crate::random::{Random, RandomError};
use crate::secret::Secret;

/// How a key is written: `tgvk1_`, 64 hexadecimal digits, `_`, and 8 digits that tell a damaged key.
const KEY_PREFIX: &str = "tgvk1_";
const FILE_BYTES_MAX: u64 = 4096;

/// What `vault.key` holds.
pub enum KeyFile {
    Key(Secret<[u8; KEY_BYTES]>),
    Elsewhere(Elsewhere),
}

#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error(
        "the vault key `{}` has gone, and `gate.db` was made with it\nhint: put the file back from a backup (or hand the key in as before); without it, move `{}` away and connect the servers again",
        .path.display(), .database.display()
    )]
    Lost { path: PathBuf, database: PathBuf },
    #[error(
        "the vault key `{}` is damaged\nhint: put it back from a backup; it is one line that starts with `tgvk1_`", .0.display()
    )]
    Damaged(PathBuf),
    #[error(
        "the vault key that was handed in is not one\nhint: a key is one line that starts with `tgvk1_`, or 64 hexadecimal digits"
    )]
    NotAKey,
    #[error("`{}` does not say where the vault key is: {words}\nhint: mend the file, or put the key itself into it: one line that starts with `tgvk1_`", .path.display())]
    Unclear { path: PathBuf, words: String },
    #[error(
        "the vault key does not come from {place}\nhint: {}\nhint: without that, hand the key `{}` in as `TOLLGATE_VAULT_KEY`, or write its line into `vault.key`",
        .place.way_out(.source), .place.key
    )]
    Elsewhere { place: Box<Elsewhere>, source: AskError },
    #[error("cannot {act} the vault key `{}`: {source}", .path.display())]
    Io { act: &'static str, path: PathBuf, source: io::Error },
    #[error(transparent)]
    Random(#[from] RandomError),
}

impl Vault {
    /// Opens the vault of a home by its key file, asking for the key where that says it is. A fresh
    /// home gets a new key, in the file: a gate that starts at night has nobody to unlock a keyring.
    pub fn open_home(home: &Home, random: &Random, ask: Ask) -> Result<Vault, KeyError> {
        let path = home.vault_key();
        if let Some(found) = read(&path)? {
            return found.vault(ask);
        }
        if has_content(&home.gate_db()) {
            // Another process may have made both between the two looks.
            let found = read(&path)?;
            let lost = || KeyError::Lost { path, database: home.gate_db() };
            return found.ok_or_else(lost)?.vault(ask);
        }
        create_key(&path, random)?.vault(ask)
    }

    /// The vault of a home folder that is only looked at. None where there is no key file.
    pub fn look(folder: &Path, ask: Ask) -> Result<Option<Vault>, KeyError> {
        read(&folder.join("vault.key"))?.map(|found| found.vault(ask)).transpose()
    }
}

impl KeyFile {
    /// What the file of a home holds; nothing when there is none.
    pub fn of(home: &Home) -> Result<Option<KeyFile>, KeyError> {
        read(&home.vault_key())
    }

    /// The same of a folder that is only looked at.
    pub fn at(folder: &Path) -> Result<Option<KeyFile>, KeyError> {
        read(&folder.join("vault.key"))
    }

    fn vault(self, ask: Ask) -> Result<Vault, KeyError> {
        match self {
            KeyFile::Key(key) => Ok(Vault::from_key(key)),
            KeyFile::Elsewhere(place) => place.key(ask).map(Vault::from_key),
        }
    }
}

/// Reads a key as people hand it in: the line of a key file, or 64 hexadecimal digits.
pub fn parse_key(text: &str) -> Result<Secret<[u8; KEY_BYTES]>, KeyError> {
    let text = text.trim();
    let Some(rest) = text.strip_prefix(KEY_PREFIX) else {
        return key_from_hex(text).ok_or(KeyError::NotAKey);
    };
    let (hex, check) = rest.split_once('_').ok_or(KeyError::NotAKey)?;
    let key = key_from_hex(hex).ok_or(KeyError::NotAKey)?;
    if check == check_digits(key.expose()) { Ok(key) } else { Err(KeyError::NotAKey) }
}

/// An empty file is a start that was cut short: nothing is sealed in it.
fn has_content(database: &Path) -> bool {
    fs::metadata(database).is_ok_and(|found| found.len() > 0)
}

/// A file that was replaced while it was read may have been written over by then.
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
    // No part of a key has this character, so it is not a damaged one.
    if !text.contains('=') {
        return Err(KeyError::Damaged(path.into()));
    }
    let unclear = |words| KeyError::Unclear { path: path.into(), words };
    Elsewhere::parse(&text).map(|place| Some(KeyFile::Elsewhere(place))).map_err(unclear)
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
