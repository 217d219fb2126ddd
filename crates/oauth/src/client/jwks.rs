//! The signing keys of an issuer (RFC 7517). Keys of other kinds, for other uses or with an algorithm that does
//! not fit are left out; they never make the rest unreadable.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

use super::text;
use crate::signature::{Algorithm, PublicKey};

/// More keys than any issuer has at a time.
const KEYS_MAX: usize = 64;

/// One signing key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SigningKey {
    pub kid: Option<String>,
    pub key: PublicKey,
}

/// The usable keys of a document.
pub fn read(document: &Value) -> Vec<SigningKey> {
    let keys = document.get("keys").and_then(Value::as_array);
    keys.into_iter().flatten().take(KEYS_MAX).filter_map(signing_key).collect()
}

fn signing_key(value: &Value) -> Option<SigningKey> {
    if text(value, "use").is_some_and(|usage| usage != "sig") {
        return None;
    }
    let number = |name: &str| URL_SAFE_NO_PAD.decode(text(value, name)?).ok();
    let key = match (text(value, "kty")?, text(value, "crv")) {
        ("EC", Some("P-256")) => PublicKey::p256(&number("x")?, &number("y")?)?,
        ("OKP", Some("Ed25519")) => PublicKey::ed25519(&number("x")?)?,
        ("RSA", _) => PublicKey::rsa(&number("n")?, &number("e")?)?,
        _ => return None,
    };
    // A key that names an algorithm is for that one only.
    let is_fitting = |named: &str| Algorithm::parse(named) == Some(key.algorithm());
    if text(value, "alg").is_some_and(|named| !is_fitting(named)) {
        return None;
    }
    Some(SigningKey { kid: text(value, "kid").map(str::to_owned), key })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_signing_keys_of_known_algorithms_are_used() {
        let x = URL_SAFE_NO_PAD.encode([1; 32]);
        let n = URL_SAFE_NO_PAD.encode([1; 256]);
        let table = [
            (json!({ "kty": "EC", "crv": "P-256", "x": x, "y": x }), true),
            (
                json!({ "kty": "EC", "crv": "P-256", "x": x, "y": x, "alg": "ES256", "use": "sig" }),
                true,
            ),
            (json!({ "kty": "OKP", "crv": "Ed25519", "x": x, "alg": "EdDSA" }), true),
            (json!({ "kty": "RSA", "n": n, "e": "AQAB", "alg": "RS256" }), true),
            (json!({ "kty": "RSA", "n": n, "e": "AQAB", "alg": "HS256" }), false),
            (json!({ "kty": "RSA", "n": n, "e": "AQAB", "alg": "PS256" }), false),
            (json!({ "kty": "RSA", "n": n, "e": "AQAB", "use": "enc" }), false),
            (json!({ "kty": "RSA", "n": "AQAB", "e": "AQAB" }), false),
            (json!({ "kty": "EC", "crv": "P-384", "x": x, "y": x }), false),
            (json!({ "kty": "EC", "crv": "P-256", "x": x }), false),
            (json!({ "kty": "oct", "k": x }), false),
            (json!({ "kty": "OKP", "crv": "X25519", "x": x }), false),
            (json!({ "kty": "OKP", "crv": "Ed25519", "x": "not base64url!" }), false),
            (json!("text"), false),
        ];
        for (key, is_used) in table {
            let read = read(&json!({ "keys": [key] }));
            assert_eq!(read.len(), usize::from(is_used), "{key}");
        }
        for document in [json!({}), json!([]), json!({ "keys": {} }), json!(null)] {
            assert!(read(&document).is_empty(), "{document}");
        }
    }
}
