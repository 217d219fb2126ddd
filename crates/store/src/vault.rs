//! Seals values with XChaCha20-Poly1305 under one key, bound to where they are stored: a sealed
//! value that is moved to another row cannot be opened.

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use hmac::{Hmac, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::random::{Random, RandomError};
use crate::secret::Secret;

mod external_key;
mod key_file;
mod move_key;

pub use external_key::{
    ExternalKey, KeyId, KeyProgramError, KeyStore, Program, ProgramTimeout, RunProgram,
    WAIT_SECONDS, WAIT_SECONDS_MAX, run_no_program,
};
pub use key_file::{KeyError, KeyFile, parse_key};
pub use move_key::copies;

pub const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 24;
/// The first byte of a sealed value, so that other constructions can be added.
const SEAL_VERSION: u8 = 1;
/// Larger plaintexts are rejected: only credentials and the arguments of parked calls are sealed.
pub const SEALED_BYTES_MAX: usize = 8 << 20;

/// A use of the key. Each one has its own derived key, so that no use can weaken another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The header and environment values of a server.
    ServerCredential,
    /// The arguments of a call that waits for a human.
    ParkedArguments,
    /// The params of a call that the owner wanted kept.
    CapturedParams,
    /// The keyed digest of arguments in audit rows.
    ArgumentDigest,
    /// The state a client carries between the rounds of one call.
    RequestState,
    /// A token, key or cookie of one of the owner's accounts.
    AccountSecret,
    /// The tokens of a sign-in at a server, its client, or a sign-in in progress.
    ServerLogin,
    /// The previous content of a client's file, before it was pointed at the gate.
    ClientBackup,
    /// The prompts and resources that a server listed last.
    ServerList,
    /// The seal of the audit log's last row.
    AuditSeal,
    /// The address and the secrets of a channel for notices.
    NoticeChannel,
    /// Checks whether the key is the one this home was created with.
    KeyCheck,
}

impl Purpose {
    pub fn as_str(self) -> &'static str {
        match self {
            Purpose::ServerCredential => "server credential",
            Purpose::ParkedArguments => "parked arguments",
            Purpose::CapturedParams => "captured params",
            Purpose::ArgumentDigest => "argument digest",
            Purpose::RequestState => "request state",
            Purpose::AccountSecret => "account secret",
            Purpose::ServerLogin => "server login",
            Purpose::ClientBackup => "client backup",
            Purpose::ServerList => "server list",
            Purpose::AuditSeal => "audit seal",
            Purpose::NoticeChannel => "notice channel",
            Purpose::KeyCheck => "key check",
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum VaultError {
    #[error(
        "a sealed {} for `{row}` cannot be opened: it was moved, changed, or sealed with another key\nhint: enter the value again", .purpose.as_str()
    )]
    DoesNotOpen { purpose: Purpose, row: String },
    #[error("a value of {bytes} bytes is too large to seal; the maximum is {SEALED_BYTES_MAX}")]
    TooLarge { bytes: usize },
    #[error("a sealed value for `{row}` is not text\nhint: enter the value again")]
    NotText { row: String },
    #[error(
        "nothing is sealed or opened while the vault key cannot be used\nhint: `tollgate doctor` says what is wrong with it"
    )]
    Locked,
    #[error(transparent)]
    Random(#[from] RandomError),
}

/// A sealed value with the location it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    purpose: Purpose,
    row: String,
    bytes: Vec<u8>,
}

impl Sealed {
    /// A stored value, with the location it was read from.
    pub fn from_bytes(purpose: Purpose, row: &str, bytes: Vec<u8>) -> Sealed {
        Sealed { purpose, row: row.to_owned(), bytes }
    }

    /// The bytes to store: unreadable without the key, and useless in another location.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// The key of one home. Cheap to share behind an `Arc`; never printed.
pub struct Vault {
    master: Secret<[u8; KEY_BYTES]>,
    is_locked: bool,
}

impl std::fmt::Debug for Vault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Vault([secret])")
    }
}

impl Vault {
    /// A vault with a key that `cli` was given, for example in an environment variable.
    pub fn from_key(master: Secret<[u8; KEY_BYTES]>) -> Vault {
        Vault { master, is_locked: false }
    }

    /// A vault without an available key: it seals nothing and opens nothing. Its digests are
    /// comparable within this process only.
    pub fn locked(random: &Random) -> Result<Vault, VaultError> {
        let mut passing = Zeroizing::new([0; KEY_BYTES]);
        random.fill(passing.as_mut())?;
        Ok(Vault { master: Secret::new(*passing), is_locked: true })
    }

    pub(crate) fn is_locked(&self) -> bool {
        self.is_locked
    }

    /// A key for one use, derived from the key of this home. The same purpose gives the same key.
    pub fn derive(&self, purpose: Purpose) -> Zeroizing<[u8; KEY_BYTES]> {
        let mut mac = hmac(self.master.expose());
        mac.update(b"tollgate vault 1\0");
        mac.update(purpose.as_str().as_bytes());
        Zeroizing::new(mac.finalize().into_bytes().into())
    }

    /// A keyed digest for one use.
    pub fn digest(&self, purpose: Purpose) -> Hmac<Sha256> {
        hmac(&self.derive(purpose))
    }

    /// Seals `plain` for one row of one use.
    pub fn seal(
        &self,
        purpose: Purpose,
        row: &str,
        plain: &[u8],
        random: &Random,
    ) -> Result<Sealed, VaultError> {
        if self.is_locked {
            return Err(VaultError::Locked);
        }
        if plain.len() > SEALED_BYTES_MAX {
            return Err(VaultError::TooLarge { bytes: plain.len() });
        }
        let mut nonce = [0; NONCE_BYTES];
        random.fill(&mut nonce)?;
        let bound = bound_to(purpose, row);
        let cipher = self.cipher(purpose);
        let boxed = cipher
            .encrypt(&XNonce::from(nonce), Payload { msg: plain, aad: &bound })
            .map_err(|_| VaultError::TooLarge { bytes: plain.len() })?;
        let mut bytes = Vec::with_capacity(1 + NONCE_BYTES + boxed.len());
        bytes.push(SEAL_VERSION);
        bytes.extend_from_slice(&nonce);
        bytes.extend_from_slice(&boxed);
        Ok(Sealed { purpose, row: row.to_owned(), bytes })
    }

    /// Opens a value at the location it was read from.
    pub fn open(&self, sealed: &Sealed) -> Result<Secret<Vec<u8>>, VaultError> {
        if self.is_locked {
            return Err(VaultError::Locked);
        }
        self.open_bytes(sealed).map(Secret::new).ok_or_else(|| VaultError::DoesNotOpen {
            purpose: sealed.purpose,
            row: sealed.row.clone(),
        })
    }

    /// Opens a value that was sealed from text.
    pub fn open_text(&self, sealed: &Sealed) -> Result<Secret, VaultError> {
        let plain = self.open(sealed)?;
        let text = std::str::from_utf8(plain.expose())
            .map_err(|_| VaultError::NotText { row: sealed.row.clone() })?;
        Ok(Secret::new(text))
    }

    fn open_bytes(&self, sealed: &Sealed) -> Option<Vec<u8>> {
        let (version, rest) = sealed.bytes.split_first()?;
        let (nonce, boxed) = rest.split_first_chunk::<NONCE_BYTES>()?;
        if *version != SEAL_VERSION {
            return None;
        }
        let bound = bound_to(sealed.purpose, &sealed.row);
        let payload = Payload { msg: boxed, aad: &bound };
        self.cipher(sealed.purpose).decrypt(&XNonce::from(*nonce), payload).ok()
    }

    fn cipher(&self, purpose: Purpose) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new(&Key::from(*self.derive(purpose)))
    }
}

/// The associated data. The length prefix keeps `ab` + `c` and `a` + `bc` apart.
fn bound_to(purpose: Purpose, row: &str) -> Vec<u8> {
    let purpose = purpose.as_str().as_bytes();
    let mut bound = Vec::with_capacity(9 + purpose.len() + row.len());
    bound.push(SEAL_VERSION);
    bound.extend_from_slice(&(purpose.len() as u64).to_be_bytes());
    bound.extend_from_slice(purpose);
    bound.extend_from_slice(row.as_bytes());
    bound
}

/// A key shorter than the block is padded with zeros, as HMAC defines.
fn hmac(key: &[u8; KEY_BYTES]) -> Hmac<Sha256> {
    let mut block = Zeroizing::new([0; 64]);
    block.iter_mut().zip(key).for_each(|(to, from)| *to = *from);
    Hmac::<Sha256>::new(&(*block).into())
}
