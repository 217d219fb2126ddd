//! Opens Fernet tokens: AES-128 in CBC mode under HMAC-SHA256, as Python's `cryptography` writes them.
//! We only ever read them.

use aes::Aes128;
use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockModeDecrypt, KeyIvInit};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use store::secret::Secret;
use zeroize::Zeroizing;

const VERSION: u8 = 0x80;
const STAMP_BYTES: usize = 8;
const VECTOR_BYTES: usize = 16;
const MAC_BYTES: usize = 32;
const HALF_BYTES: usize = 16;

/// Prefix of every token: the version and the first bytes of a current timestamp.
pub(super) const START: &str = "gAAAAA";

/// Padding is optional.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// One half signs, the other encrypts.
pub(super) struct Key(Secret<Vec<u8>>);

impl Key {
    pub(super) fn read(text: &str) -> Option<Key> {
        let bytes = BASE64.decode(text.trim()).ok().map(Secret::<Vec<u8>>::new)?;
        (bytes.expose().len() == 2 * HALF_BYTES).then_some(Key(bytes))
    }

    /// `None` if it is not a token, or was made with another key.
    pub(super) fn open(&self, token: &str) -> Option<Secret> {
        let bytes = BASE64.decode(token.trim()).ok()?;
        let (signing, encrypting) = self.0.expose().split_at_checked(HALF_BYTES)?;
        let (signed, mac) = bytes.split_at_checked(bytes.len().checked_sub(MAC_BYTES)?)?;
        let check = <Hmac<Sha256> as KeyInit>::new_from_slice(signing).ok()?;
        check.chain_update(signed).verify_slice(mac).ok()?;
        let (version, rest) = signed.split_first()?;
        let (_, rest) = rest.split_at_checked(STAMP_BYTES)?;
        let (vector, sealed) = rest.split_at_checked(VECTOR_BYTES)?;
        if *version != VERSION {
            return None;
        }
        let mut opened = Zeroizing::new(sealed.to_vec());
        let cipher = cbc::Decryptor::<Aes128>::new_from_slices(encrypting, vector).ok()?;
        let plain = cipher.decrypt_padded::<Pkcs7>(&mut opened).ok()?;
        String::from_utf8(plain.to_vec()).ok().map(Secret::new)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    // From the public specification's vectors.
    const KEY: &str = "cw_0x689RpI-jtRR7oE8h_eQsKImvJapLeSbXpwF4e4=";
    const TOKEN: &str = "gAAAAAAdwJ6wAAECAwQFBgcICQoLDA0ODy021cpGVWKZ_eEwCGM4BLLF_5CV9dOPmrhuVUPgJobwOz7JcbmrR64jVmpU4IwqDA==";

    #[test]
    fn a_token_opens_under_its_key_only() {
        let key = Key::read(KEY).unwrap();
        assert_eq!(key.open(TOKEN).unwrap().expose(), "hello");
        assert_eq!(key.open(TOKEN.trim_end_matches('=')).unwrap().expose(), "hello");
        let other = Key::read(&"A".repeat(43)).unwrap();
        assert!(other.open(TOKEN).is_none());
        for broken in ["", "gAAAAA", "%%", &TOKEN.replace("AwQF", "AwQG")] {
            assert!(key.open(broken).is_none(), "{broken}");
        }
        assert!(Key::read("short").is_none());
    }
}
