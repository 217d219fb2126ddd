//! Checks signatures with public keys, for ID tokens and passkeys. Only signatures: nothing here signs, and no
//! secret is a key, so a public key can never be taken for an HMAC secret.

use ring::signature::{self, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm};

/// An RSA modulus of 2048 to 4096 bits.
const RSA_BYTES_MIN: usize = 256;
const RSA_BYTES_MAX: usize = 512;
/// 65537 has three bytes; some keys use one.
const RSA_EXPONENT_BYTES_MAX: usize = 4;
const COORDINATE_BYTES: usize = 32;
/// The mark of a point with both coordinates (SEC 1).
const UNCOMPRESSED: u8 = 4;

/// The algorithms that are accepted, by their names in JOSE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    Es256,
    EdDsa,
    Rs256,
}

impl Algorithm {
    pub const ALL: [Algorithm; 3] = [Algorithm::Es256, Algorithm::EdDsa, Algorithm::Rs256];

    pub fn as_str(self) -> &'static str {
        match self {
            Algorithm::Es256 => "ES256",
            Algorithm::EdDsa => "EdDSA",
            Algorithm::Rs256 => "RS256",
        }
    }

    pub fn parse(text: &str) -> Option<Algorithm> {
        Algorithm::ALL.into_iter().find(|algorithm| algorithm.as_str() == text)
    }
}

/// How the two numbers of an ECDSA signature are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EcdsaForm {
    /// One after the other, in JOSE.
    Fixed,
    /// As DER, in WebAuthn.
    Der,
}

/// A public key. Its algorithm follows from its kind and from nothing that a message says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PublicKey {
    /// A point with both coordinates.
    P256([u8; 65]),
    Ed25519([u8; COORDINATE_BYTES]),
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
}

impl PublicKey {
    pub fn p256(x: &[u8], y: &[u8]) -> Option<PublicKey> {
        let (x, y) = (<[u8; COORDINATE_BYTES]>::try_from(x).ok()?, y);
        let y = <[u8; COORDINATE_BYTES]>::try_from(y).ok()?;
        let point: Vec<u8> = [&[UNCOMPRESSED][..], &x, &y].concat();
        Some(PublicKey::P256(point.try_into().ok()?))
    }

    pub fn ed25519(x: &[u8]) -> Option<PublicKey> {
        Some(PublicKey::Ed25519(x.try_into().ok()?))
    }

    /// Both as big-endian numbers without leading zeros.
    pub fn rsa(n: &[u8], e: &[u8]) -> Option<PublicKey> {
        let begins_well = |number: &[u8]| number.first().is_some_and(|byte| *byte != 0);
        let fits = (RSA_BYTES_MIN..=RSA_BYTES_MAX).contains(&n.len())
            && e.len() <= RSA_EXPONENT_BYTES_MAX
            && begins_well(n)
            && begins_well(e);
        fits.then(|| PublicKey::Rsa { n: n.to_vec(), e: e.to_vec() })
    }

    pub fn algorithm(&self) -> Algorithm {
        match self {
            PublicKey::P256(_) => Algorithm::Es256,
            PublicKey::Ed25519(_) => Algorithm::EdDsa,
            PublicKey::Rsa { .. } => Algorithm::Rs256,
        }
    }

    /// Whether the holder of the private key signed this message.
    #[must_use]
    pub fn is_signature_of(&self, message: &[u8], signature: &[u8], form: EcdsaForm) -> bool {
        let checked = |algorithm: &'static dyn VerificationAlgorithm, key: &[u8]| {
            UnparsedPublicKey::new(algorithm, key).verify(message, signature).is_ok()
        };
        match (self, form) {
            (PublicKey::P256(point), EcdsaForm::Fixed) => {
                checked(&signature::ECDSA_P256_SHA256_FIXED, point)
            }
            (PublicKey::P256(point), EcdsaForm::Der) => {
                checked(&signature::ECDSA_P256_SHA256_ASN1, point)
            }
            (PublicKey::Ed25519(key), _) => checked(&signature::ED25519, key),
            (PublicKey::Rsa { n, e }, _) => RsaPublicKeyComponents { n, e }
                .verify(&signature::RSA_PKCS1_2048_8192_SHA256, message, signature)
                .is_ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use ring::rand::SystemRandom;
    use ring::signature::{EcdsaKeyPair, Ed25519KeyPair, KeyPair as _};

    use super::*;

    #[test]
    fn a_signature_fits_one_key_one_message_and_one_form() {
        let random = SystemRandom::new();
        for (signing, form, other_form) in [
            (&signature::ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaForm::Fixed, EcdsaForm::Der),
            (&signature::ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaForm::Der, EcdsaForm::Fixed),
        ] {
            let document = EcdsaKeyPair::generate_pkcs8(signing, &random).unwrap();
            let pair = EcdsaKeyPair::from_pkcs8(signing, document.as_ref(), &random).unwrap();
            let signed = pair.sign(&random, b"message").unwrap();
            let point = pair.public_key().as_ref();
            let key = PublicKey::p256(point.get(1..33).unwrap(), point.get(33..).unwrap()).unwrap();
            assert_eq!(key.algorithm(), Algorithm::Es256);
            assert!(key.is_signature_of(b"message", signed.as_ref(), form));
            assert!(!key.is_signature_of(b"message", signed.as_ref(), other_form));
            assert!(!key.is_signature_of(b"massage", signed.as_ref(), form));
            assert!(!key.is_signature_of(b"message", &[], form));
        }
        let document = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
        let pair = Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap();
        let key = PublicKey::ed25519(pair.public_key().as_ref()).unwrap();
        let signed = pair.sign(b"message");
        assert!(key.is_signature_of(b"message", signed.as_ref(), EcdsaForm::Der));
        assert!(!key.is_signature_of(b"other", signed.as_ref(), EcdsaForm::Der));
    }

    #[test]
    fn a_key_of_another_size_is_none() {
        assert!(PublicKey::p256(&[1; 31], &[1; 32]).is_none());
        assert!(PublicKey::p256(&[1; 32], &[1; 33]).is_none());
        assert!(PublicKey::ed25519(&[1; 33]).is_none());
        for (n, e, is_good) in [
            (vec![1; 256], vec![1, 0, 1], true),
            (vec![1; 128], vec![1, 0, 1], false),
            (vec![1; 513], vec![1, 0, 1], false),
            (vec![0; 256], vec![1, 0, 1], false),
            (vec![1; 256], vec![], false),
            (vec![1; 256], vec![0, 3], false),
            (vec![1; 256], vec![1; 5], false),
        ] {
            assert_eq!(PublicKey::rsa(&n, &e).is_some(), is_good, "{} {e:?}", n.len());
        }
    }

    #[test]
    fn a_point_that_is_not_on_the_curve_has_no_signatures() {
        let key = PublicKey::p256(&[7; 32], &[9; 32]).unwrap();
        assert!(!key.is_signature_of(b"message", &[1; 64], EcdsaForm::Fixed));
    }
}
