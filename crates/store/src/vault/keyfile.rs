//! The key file `vault.key`: made once, whole or not at all, and never replaced behind the owner's
//! back, because everything sealed with the old key would be lost.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::{KEY_BYTES, Vault};
use crate::home::{Home, private};
use crate::random::{Random, RandomError};
use crate::secret::Secret;

/// How a key is written: `tgvk1_`, 64 hexadecimal digits, `_`, and 8 digits that tell a damaged key.
const KEY_PREFIX: &str = "tgvk1_";
const KEY_TEXT_BYTES_MAX: u64 = 256;

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
    #[error("cannot {act} the vault key `{}`: {source}", .path.display())]
    Io { act: &'static str, path: PathBuf, source: io::Error },
    #[error(transparent)]
    Random(#[from] RandomError),
}

impl Vault {
    /// Opens the vault of a home by its key file. A fresh home gets a new key.
    pub fn open_home(home: &Home, random: &Random) -> Result<Vault, KeyError> {
        let path = home.vault_key();
        if let Some(key) = read_key(&path)? {
            return Ok(Vault::from_key(key));
        }
        if has_content(&home.gate_db()) {
            // Another process may have made both between the two looks.
            let key = read_key(&path)?;
            let lost = || KeyError::Lost { path, database: home.gate_db() };
            return key.map(Vault::from_key).ok_or_else(lost);
        }
        create_key(&path, random).map(Vault::from_key)
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

fn read_key(path: &Path) -> Result<Option<Secret<[u8; KEY_BYTES]>>, KeyError> {
    let mut text = Zeroizing::new(String::new());
    let file = match fs::File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(io_error("open", path)(e)),
    };
    match file.take(KEY_TEXT_BYTES_MAX).read_to_string(&mut text) {
        Ok(_) => {}
        Err(e) if e.kind() == io::ErrorKind::InvalidData => {
            return Err(KeyError::Damaged(path.into()));
        }
        Err(e) => return Err(io_error("read", path)(e)),
    }
    parse_key(&text).map(Some).map_err(|_| KeyError::Damaged(path.into()))
}

fn create_key(path: &Path, random: &Random) -> Result<Secret<[u8; KEY_BYTES]>, KeyError> {
    let mut key = Zeroizing::new([0; KEY_BYTES]);
    random.fill(key.as_mut())?;
    let text = key_text(&key);
    match private::write_new(path, text.as_bytes(), &random.name()?) {
        Ok(()) => Ok(Secret::new(*key)),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            read_key(path)?.ok_or_else(|| KeyError::Damaged(path.into()))
        }
        Err(e) => Err(io_error("write", path)(e)),
    }
}

fn key_text(key: &[u8; KEY_BYTES]) -> Zeroizing<String> {
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

fn io_error(act: &'static str, path: &Path) -> impl FnOnce(io::Error) -> KeyError {
    let path = path.to_owned();
    move |source| KeyError::Io { act, path, source }
}
