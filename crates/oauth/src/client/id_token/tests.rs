//! Tokens of a hostile or broken issuer, one fault each, and tokens that are no tokens.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use proptest::prelude::*;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _,
};
use serde_json::json;

use super::IdTokenRefused as No;
use super::*;
use crate::signature::PublicKey;

const NOW_S: i64 = 1_800_000_000;
const EXPECTED: Expected<'_> = Expected {
    issuer: "https://id.example",
    client_id: "gate",
    nonce: "n-0S6_WzA2Mj",
    now_s: NOW_S,
};

fn claims() -> Value {
    json!({
        "iss": "https://id.example", "aud": "gate", "sub": "ann", "nonce": "n-0S6_WzA2Mj",
        "exp": NOW_S + 300, "iat": NOW_S - 1,
    })
}

struct Issuer {
    pair: EcdsaKeyPair,
    random: SystemRandom,
}

impl Issuer {
    fn new() -> Issuer {
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).unwrap();
        Issuer { pair, random }
    }

    fn key(&self, kid: Option<&str>) -> SigningKey {
        let point = self.pair.public_key().as_ref();
        let key = PublicKey::p256(&point[1..33], &point[33..]).unwrap();
        SigningKey { kid: kid.map(str::to_owned), key }
    }

    fn token(&self, header: &Value, claims: &Value) -> String {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let message = format!("{}.{}", part(header), part(claims));
        let signed = self.pair.sign(&self.random, message.as_bytes()).unwrap();
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signed))
    }
}

#[test]
fn a_token_of_this_sign_in_is_accepted() {
    let issuer = Issuer::new();
    for header in [json!({ "alg": "ES256" }), json!({ "alg": "ES256", "kid": "1", "typ": "JWT" })] {
        let checked = check(&issuer.token(&header, &claims()), &[issuer.key(Some("1"))], &EXPECTED);
        assert_eq!(checked.unwrap().subject, "ann", "{header}");
    }
    let pair = {
        let document = Ed25519KeyPair::generate_pkcs8(&issuer.random).unwrap();
        Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap()
    };
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let message = format!("{}.{}", part(&json!({ "alg": "EdDSA" })), part(&claims()));
    let token = format!("{message}.{}", URL_SAFE_NO_PAD.encode(pair.sign(message.as_bytes())));
    let key = PublicKey::ed25519(pair.public_key().as_ref()).unwrap();
    assert!(check(&token, &[SigningKey { kid: None, key }], &EXPECTED).is_ok());
}

#[test]
fn every_claim_is_checked() {
    let issuer = Issuer::new();
    let keys = [issuer.key(None)];
    let table = [
        ("iss", json!("https://id.example/"), Err(No::OtherIssuer)),
        ("iss", json!("https://evil.example"), Err(No::OtherIssuer)),
        ("iss", json!(null), Err(No::OtherIssuer)),
        ("aud", json!("other"), Err(No::OtherAudience)),
        ("aud", json!([]), Err(No::OtherAudience)),
        ("aud", json!(null), Err(No::OtherAudience)),
        ("aud", json!(["gate"]), Ok(())),
        ("aud", json!(["gate", "other"]), Err(No::OtherAudience)),
        ("aud", json!(["gate", 7]), Err(No::OtherAudience)),
        ("azp", json!("gate"), Ok(())),
        ("azp", json!("other"), Err(No::OtherAudience)),
        ("azp", json!(1), Err(No::OtherAudience)),
        ("exp", json!(NOW_S - 59), Ok(())),
        ("exp", json!(NOW_S - 60), Err(No::Expired)),
        ("exp", json!(null), Err(No::Expired)),
        ("exp", json!("2099"), Err(No::Expired)),
        ("iat", json!(NOW_S + 60), Ok(())),
        ("iat", json!(NOW_S + 61), Err(No::IssuedAt)),
        ("iat", json!(NOW_S - 600), Ok(())),
        ("iat", json!(NOW_S - 601), Err(No::IssuedAt)),
        ("iat", json!(null), Err(No::IssuedAt)),
        ("nbf", json!(NOW_S + 61), Err(No::IssuedAt)),
        ("nbf", json!(NOW_S), Ok(())),
        ("nbf", json!("soon"), Err(No::IssuedAt)),
        ("nonce", json!("another"), Err(No::OtherNonce)),
        ("nonce", json!(""), Err(No::OtherNonce)),
        ("nonce", json!(null), Err(No::OtherNonce)),
        ("sub", json!(""), Err(No::NoSubject)),
        ("sub", json!("s".repeat(256)), Err(No::NoSubject)),
        ("sub", json!(7), Err(No::NoSubject)),
    ];
    for (name, value, expected) in table {
        let mut claims = claims();
        claims[name] = value.clone();
        let token = issuer.token(&json!({ "alg": "ES256" }), &claims);
        assert_eq!(check(&token, &keys, &EXPECTED).map(drop), expected, "{name} {value}");
    }
    let mut several = claims();
    several["aud"] = json!(["gate", "other"]);
    several["azp"] = json!("gate");
    assert!(check(&issuer.token(&json!({ "alg": "ES256" }), &several), &keys, &EXPECTED).is_ok());
    let mut no_nonce = EXPECTED;
    no_nonce.nonce = "";
    let mut without = claims();
    without["nonce"] = json!("");
    let token = issuer.token(&json!({ "alg": "ES256" }), &without);
    assert_eq!(check(&token, &keys, &no_nonce), Err(No::OtherNonce));
}

#[test]
fn the_algorithm_is_that_of_the_issuers_key() {
    let issuer = Issuer::new();
    let keys = [issuer.key(Some("1"))];
    for (header, expected) in [
        (json!({ "alg": "none" }), No::Algorithm),
        (json!({ "alg": "None" }), No::Algorithm),
        (json!({ "alg": "HS256" }), No::Algorithm),
        (json!({ "alg": "ES384" }), No::Algorithm),
        (json!({ "alg": "" }), No::Algorithm),
        (json!({}), No::Algorithm),
        (json!({ "alg": "RS256" }), No::UnknownKey),
        (json!({ "alg": "EdDSA" }), No::UnknownKey),
        (json!({ "alg": "ES256", "kid": "2" }), No::UnknownKey),
        (json!({ "alg": "ES256", "crit": ["b64"], "b64": false }), No::Critical),
    ] {
        let token = issuer.token(&header, &claims());
        assert_eq!(check(&token, &keys, &EXPECTED), Err(expected), "{header}");
    }
    // The key in the header of a token is not a key of the issuer.
    let other = Issuer::new();
    let point = other.pair.public_key().as_ref();
    let jwk = json!({ "kty": "EC", "crv": "P-256", "x": URL_SAFE_NO_PAD.encode(&point[1..33]), "y": URL_SAFE_NO_PAD.encode(&point[33..]) });
    let token = other.token(&json!({ "alg": "ES256", "jwk": jwk }), &claims());
    assert_eq!(check(&token, &keys, &EXPECTED), Err(No::Signature));
    assert_eq!(check(&token, &[], &EXPECTED), Err(No::UnknownKey));
}

#[test]
fn text_that_is_not_a_token_is_refused() {
    let issuer = Issuer::new();
    let keys = [issuer.key(None)];
    let good = issuer.token(&json!({ "alg": "ES256" }), &claims());
    let (unsigned, _) = good.rsplit_once('.').unwrap();
    for token in [
        String::new(),
        "..".to_owned(),
        unsigned.to_owned(),
        format!("{unsigned}."),
        format!("{good}.x"),
        format!("{good}="),
        format!(" {good}"),
        good.replace('.', ".."),
        "a".repeat(TOKEN_BYTES_MAX + 1),
    ] {
        assert!(check(&token, &keys, &EXPECTED).is_err(), "{token}");
    }
}

proptest! {
    /// A token with one byte changed is not accepted, and nothing panics.
    #[test]
    fn a_changed_token_is_refused(at in 0_usize..400, byte in any::<u8>()) {
        let issuer = Issuer::new();
        let good = issuer.token(&json!({ "alg": "ES256" }), &claims());
        let mut bytes = good.clone().into_bytes();
        let at = at % bytes.len();
        bytes[at] = byte;
        if let Ok(token) = String::from_utf8(bytes) {
            let checked = check(&token, &[issuer.key(None)], &EXPECTED);
            prop_assert!(checked.is_err() || token == good);
        }
    }

    #[test]
    fn any_text_is_read_without_panic(text in ".{0,200}") {
        prop_assert!(check(&text, &[], &EXPECTED).is_err());
    }
}
