//! PKCE (RFC 7636), method S256 only.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq as _;

/// The only method that is sent or accepted.
pub const METHOD: &str = "S256";

/// The `code_challenge` of a verifier.
#[must_use]
pub fn challenge(verifier: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()))
}

/// Whether a text can be an S256 challenge: the base64url form of 32 bytes.
#[must_use]
pub fn is_challenge(text: &str) -> bool {
    URL_SAFE_NO_PAD.decode(text).is_ok_and(|bytes| bytes.len() == 32)
}

/// Whether a verifier belongs to a challenge. A verifier of a length that the RFC forbids never does.
#[must_use]
pub fn is_verifier_of(verifier: &str, expected: &str) -> bool {
    let is_allowed = |c: u8| c.is_ascii_alphanumeric() || b"-._~".contains(&c);
    (43..=128).contains(&verifier.len())
        && verifier.bytes().all(is_allowed)
        && challenge(verifier).as_bytes().ct_eq(expected.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7636, appendix B.
    #[test]
    fn a_challenge_is_that_of_the_rfc() {
        assert_eq!(
            challenge("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"),
            "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
        );
    }

    #[test]
    fn only_the_verifier_of_a_challenge_fits() {
        let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
        let expected = challenge(verifier);
        assert!(is_challenge(&expected) && is_verifier_of(verifier, &expected));
        let long = "a".repeat(129);
        let odd = format!("{}!", "a".repeat(43));
        for wrong in ["", "short", &expected, &long, &odd] {
            assert!(!is_verifier_of(wrong, &expected), "{wrong}");
            assert!(!is_verifier_of(wrong, &challenge(wrong)) || wrong == expected, "{wrong}");
        }
        for wrong in ["", "plain-text-challenge", verifier.get(..42).unwrap_or_default()] {
            assert!(!is_challenge(wrong), "{wrong}");
        }
    }
}
