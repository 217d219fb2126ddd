//! Authenticators that lie, one way each, and messages that are no messages.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderMap;
use proptest::prelude::*;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use store::random::Random;

use super::PasskeyRefused as No;
use super::challenges::CHALLENGE_SECONDS_MAX;
use super::*;

const ORIGIN: &str = "http://localhost:4180";
const NOW_US: i64 = 1_800_000_000_000_000;
const REGISTER: Purpose<'_> = Purpose::Register { cookie: "tg_session_a" };
const SIGN_IN: Purpose<'_> = Purpose::SignIn { rp_id: "localhost" };
/// Present and verified.
pub(crate) const GOOD_FLAGS: u8 = 0b101;
pub(crate) const HAS_CREDENTIAL: u8 = 1 << 6;
const HAS_EXTENSIONS: u8 = 1 << 7;

fn site(host: &str) -> Site {
    let mut headers = HeaderMap::new();
    headers.insert("host", host.parse().unwrap());
    Site::of(&headers)
}

/// A message of CBOR, written by hand.
mod cbor {
    pub(super) fn head(major: u8, length: usize) -> Vec<u8> {
        let length = u16::try_from(length).unwrap();
        let [high, low] = length.to_be_bytes();
        match length {
            0..=23 => vec![major << 5 | low],
            24..=255 => vec![major << 5 | 0x18, low],
            _ => vec![major << 5 | 0x19, high, low],
        }
    }

    pub(super) fn bytes(value: &[u8]) -> Vec<u8> {
        [head(2, value.len()), value.to_vec()].concat()
    }

    pub(super) fn text(value: &str) -> Vec<u8> {
        [head(3, value.len()), value.as_bytes().to_vec()].concat()
    }
}

pub(crate) struct Device {
    pair: EcdsaKeyPair,
    random: SystemRandom,
}

impl Device {
    pub(crate) fn new() -> Device {
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_ASN1_SIGNING;
        let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).unwrap();
        Device { pair, random }
    }

    pub(crate) fn cose(&self) -> Vec<u8> {
        let point = self.pair.public_key().as_ref();
        // kty EC2, alg ES256, crv P-256, x, y.
        let start = vec![0xa5, 0x01, 0x02, 0x03, 0x26, 0x20, 0x01];
        let (x, y) = (cbor::bytes(&point[1..33]), cbor::bytes(&point[33..]));
        [start, vec![0x21], x, vec![0x22], y].concat()
    }

    pub(crate) fn sign(&self, data: &[u8], client_data: &[u8]) -> Vec<u8> {
        let message = [data, &Sha256::digest(client_data)].concat();
        self.pair.sign(&self.random, &message).unwrap().as_ref().to_vec()
    }
}

pub(crate) fn data(rp_id: &str, flags: u8, count: u32, rest: &[u8]) -> Vec<u8> {
    [&Sha256::digest(rp_id)[..], &[flags], &count.to_be_bytes(), rest].concat()
}

pub(crate) fn credential(id: &[u8], cose: &[u8]) -> Vec<u8> {
    let length = u16::try_from(id.len()).unwrap().to_be_bytes();
    [&[0; 16][..], &length, id, cose].concat()
}

pub(crate) fn object(format: &str, statement: &[u8], data: &[u8]) -> Vec<u8> {
    let parts = [
        vec![0xa3],
        cbor::text("fmt"),
        cbor::text(format),
        cbor::text("attStmt"),
        statement.to_vec(),
        cbor::text("authData"),
        cbor::bytes(data),
    ];
    parts.concat()
}

pub(crate) fn client(kind: &str, challenge: &[u8]) -> Value {
    let challenge = URL_SAFE_NO_PAD.encode(challenge);
    json!({ "type": kind, "challenge": challenge, "origin": ORIGIN, "crossOrigin": false })
}

struct Stage {
    challenges: Challenges,
    random: Random,
    device: Device,
}

impl Stage {
    fn new() -> Stage {
        Stage {
            challenges: Challenges::default(),
            random: Random::seeded(3),
            device: Device::new(),
        }
    }

    fn challenge(&self, purpose: Purpose<'_>) -> Vec<u8> {
        self.challenges.make(purpose, &self.random, NOW_US).unwrap()
    }

    fn register(&self, client: &Value, object: &[u8]) -> Result<(), PasskeyRefused> {
        let place = (&self.challenges, REGISTER, &site("localhost:4180"));
        new_credential(place, client.to_string().as_bytes(), object, NOW_US).map(drop)
    }

    fn good_object(&self) -> Vec<u8> {
        let flags = GOOD_FLAGS | HAS_CREDENTIAL;
        let rest = credential(b"credential", &self.device.cose());
        object("none", &[0xa0], &data("localhost", flags, 0, &rest))
    }

    /// Signs as the device would, and checks it.
    fn sign_in(&self, client: &Value, data: &[u8]) -> Result<u32, PasskeyRefused> {
        let client_data = client.to_string().into_bytes();
        let signature = self.device.sign(data, &client_data);
        let signed =
            Signed { client_data: &client_data, authenticator_data: data, signature: &signature };
        let place = (&self.challenges, SIGN_IN, &site("localhost:4180"));
        assertion(place, &signed, &self.device.cose(), NOW_US)
    }
}

#[test]
fn a_passkey_is_registered_and_signs_in_once_per_challenge() {
    let stage = Stage::new();
    let create = client("webauthn.create", &stage.challenge(REGISTER));
    assert_eq!(stage.register(&create, &stage.good_object()), Ok(()));
    assert_eq!(
        stage.register(&create, &stage.good_object()),
        Err(PasskeyRefused::Challenge),
        "used"
    );

    let get = client("webauthn.get", &stage.challenge(SIGN_IN));
    let good = data("localhost", GOOD_FLAGS, 7, &[]);
    assert_eq!(stage.sign_in(&get, &good), Ok(7));
    assert_eq!(stage.sign_in(&get, &good), Err(PasskeyRefused::Challenge), "replayed");
}

#[test]
fn client_data_of_the_browser_is_checked() {
    let stage = Stage::new();
    let good = data("localhost", GOOD_FLAGS, 0, &[]);
    let table = [
        ("type", json!("webauthn.create"), No::OtherType),
        ("type", json!(null), No::Malformed),
        ("origin", json!("https://evil.example"), No::OtherOrigin),
        ("origin", json!("http://localhost:9999"), No::OtherOrigin),
        ("origin", json!("http://localhost:4180.evil.example"), No::OtherOrigin),
        ("origin", json!("http://127.0.0.1:4180"), No::OtherOrigin),
        ("origin", json!("http://localhost:4180/"), No::OtherOrigin),
        ("origin", json!("null"), No::OtherOrigin),
        ("crossOrigin", json!(true), No::OtherOrigin),
        ("topOrigin", json!("https://evil.example"), No::OtherOrigin),
        ("challenge", json!(""), No::Challenge),
        ("challenge", json!("not base64url!"), No::Malformed),
        ("challenge", json!(URL_SAFE_NO_PAD.encode([7; 56])), No::Challenge),
        ("challenge", json!(URL_SAFE_NO_PAD.encode(stage.challenge(REGISTER))), No::Challenge),
        (
            "challenge",
            json!(URL_SAFE_NO_PAD.encode(stage.challenge(Purpose::SignIn { rp_id: "evil" }))),
            No::Challenge,
        ),
    ];
    for (name, value, expected) in table {
        let mut get = client("webauthn.get", &stage.challenge(SIGN_IN));
        get[name] = value.clone();
        assert_eq!(stage.sign_in(&get, &good), Err(expected), "{name} {value}");
    }
    let twice = r#"{"type":"webauthn.get","type":"webauthn.get","challenge":"","origin":""}"#;
    let signed =
        Signed { client_data: twice.as_bytes(), authenticator_data: &good, signature: &[] };
    let place = (&stage.challenges, SIGN_IN, &site("localhost:4180"));
    assert_eq!(assertion(place, &signed, &stage.device.cose(), NOW_US), Err(No::Malformed));
}

#[test]
fn authenticator_data_is_checked() {
    let stage = Stage::new();
    let good = data("localhost", GOOD_FLAGS, 1, &[]);
    let table: Vec<(&str, Vec<u8>, Result<u32, No>)> = vec![
        ("good", good.clone(), Ok(1)),
        ("synced", data("localhost", GOOD_FLAGS | 0b1_1000, 1, &[]), Ok(1)),
        ("another host", data("evil.example", GOOD_FLAGS, 1, &[]), Err(No::OtherHost)),
        ("not present", data("localhost", 0b100, 1, &[]), Err(No::NotVerified)),
        ("not verified", data("localhost", 0b001, 1, &[]), Err(No::NotVerified)),
        ("no flag", data("localhost", 0, 1, &[]), Err(No::NotVerified)),
        (
            "backed up, not eligible",
            data("localhost", GOOD_FLAGS | 0b1_0000, 1, &[]),
            Err(No::Malformed),
        ),
        ("something left", data("localhost", GOOD_FLAGS, 1, &[0]), Err(No::Malformed)),
        ("extensions", data("localhost", GOOD_FLAGS | HAS_EXTENSIONS, 1, &[0xa0]), Ok(1)),
        (
            "extensions that are none",
            data("localhost", GOOD_FLAGS | HAS_EXTENSIONS, 1, &[]),
            Err(No::Malformed),
        ),
        (
            "extensions of another kind",
            data("localhost", GOOD_FLAGS | HAS_EXTENSIONS, 1, &[0x01]),
            Err(No::Malformed),
        ),
        ("too short", good[..36].to_vec(), Err(No::Malformed)),
        ("empty", Vec::new(), Err(No::Malformed)),
        ("huge", vec![0; 1 << 20], Err(No::Malformed)),
    ];
    for (what, data, expected) in table {
        let get = client("webauthn.get", &stage.challenge(SIGN_IN));
        assert_eq!(stage.sign_in(&get, &data), expected, "{what}");
    }
}

#[test]
fn a_signature_of_another_key_or_message_is_refused() {
    let stage = Stage::new();
    let good = data("localhost", GOOD_FLAGS, 1, &[]);
    let client_data = client("webauthn.get", &stage.challenge(SIGN_IN)).to_string().into_bytes();
    let own = stage.device.sign(&good, &client_data);
    let other = Device::new().sign(&good, &client_data);
    let elsewhere = stage.device.sign(&good, b"{}");
    let place = (&stage.challenges, SIGN_IN, &site("localhost:4180"));
    for signature in [&other[..], &elsewhere, &[], &own[..own.len() - 1]] {
        let signed = Signed { client_data: &client_data, authenticator_data: &good, signature };
        let checked = assertion(place, &signed, &stage.device.cose(), NOW_US);
        assert_eq!(checked, Err(PasskeyRefused::Signature));
    }
    let signed = Signed { client_data: &client_data, authenticator_data: &good, signature: &own };
    assert_eq!(assertion(place, &signed, b"no key", NOW_US), Err(PasskeyRefused::Key));
    assert_eq!(assertion(place, &signed, &stage.device.cose(), NOW_US), Ok(1), "still unused");
}

#[test]
fn a_new_credential_is_read_strictly() {
    let stage = Stage::new();
    let flags = GOOD_FLAGS | HAS_CREDENTIAL;
    let cose = stage.device.cose();
    let with = |cose: &[u8]| {
        object("none", &[0xa0], &data("localhost", flags, 0, &credential(b"id", cose)))
    };
    let ed25519 = {
        let document = Ed25519KeyPair::generate_pkcs8(&stage.device.random).unwrap();
        let pair = Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap();
        let x = cbor::bytes(pair.public_key().as_ref());
        [vec![0xa4, 0x01, 0x01, 0x03, 0x27, 0x20, 0x06, 0x21], x].concat()
    };
    let rsa = {
        let (n, e) = (cbor::bytes(&[0xc1; 256]), cbor::bytes(&[1, 0, 1]));
        [vec![0xa4, 0x01, 0x03, 0x03, 0x39, 0x01, 0x00, 0x20], n, vec![0x21], e].concat()
    };
    let replaced = |at: usize, byte: u8| {
        let mut cose = cose.clone();
        cose[at] = byte;
        cose
    };
    let good_data = data("localhost", flags, 0, &credential(b"id", &cose));
    let table: Vec<(&str, Vec<u8>, Result<(), No>)> = vec![
        ("ES256", with(&cose), Ok(())),
        ("EdDSA", with(&ed25519), Ok(())),
        ("RS256", with(&rsa), Ok(())),
        ("another kind of key", with(&replaced(2, 0x01)), Err(No::Key)),
        ("another algorithm", with(&replaced(4, 0x27)), Err(No::Key)),
        ("another curve", with(&replaced(6, 0x02)), Err(No::Key)),
        ("a member twice", with(&replaced(5, 0x01)), Err(No::Key)),
        ("too few members", with(&[0xa1, 0x01, 0x02]), Err(No::Key)),
        ("no map", with(&[0x01]), Err(No::Key)),
        ("an endless map", with(&[0xbf, 0xff]), Err(No::Key)),
        ("no key", with(&[]), Err(No::Malformed)),
        ("another format", object("packed", &[0xa0], &good_data), Err(No::Attestation)),
        ("a statement", object("none", &[0xa1, 0x01, 0x02], &good_data), Err(No::Attestation)),
        (
            "no id",
            object("none", &[0xa0], &data("localhost", flags, 0, &credential(b"", &cose))),
            Err(No::Malformed),
        ),
        (
            "a long id",
            object("none", &[0xa0], &data("localhost", flags, 0, &credential(&[1; 1024], &cose))),
            Err(No::Malformed),
        ),
        (
            "no credential",
            object("none", &[0xa0], &data("localhost", GOOD_FLAGS, 0, &[])),
            Err(No::Malformed),
        ),
        (
            "not verified",
            object(
                "none",
                &[0xa0],
                &data("localhost", HAS_CREDENTIAL | 1, 0, &credential(b"id", &cose)),
            ),
            Err(No::NotVerified),
        ),
        (
            "another host",
            object("none", &[0xa0], &data("evil.example", flags, 0, &credential(b"id", &cose))),
            Err(No::OtherHost),
        ),
        ("something left", [with(&cose), vec![0]].concat(), Err(No::Malformed)),
        ("empty", Vec::new(), Err(No::Malformed)),
        ("a list", vec![0x83, 0x01, 0x02, 0x03], Err(No::Malformed)),
        ("deep", vec![0x81; 10_000], Err(No::Malformed)),
        (
            "a length beyond the end",
            vec![0xa3, 0x7b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            Err(No::Malformed),
        ),
    ];
    for (what, object, expected) in table {
        let create = client("webauthn.create", &stage.challenge(REGISTER));
        assert_eq!(stage.register(&create, &object), expected, "{what}");
    }
}

#[test]
fn a_challenge_fits_its_session_its_host_and_its_time() {
    let stage = Stage::new();
    let challenge = stage.challenge(REGISTER);
    let open = |purpose, at_us| stage.challenges.is_open(purpose, &challenge, at_us);
    let end_us = NOW_US + CHALLENGE_SECONDS_MAX * 1_000_000;
    assert!(open(REGISTER, NOW_US) && open(REGISTER, end_us - 1));
    assert!(!open(REGISTER, end_us), "expired");
    assert!(!open(Purpose::Register { cookie: "tg_session_b" }, NOW_US), "another session");
    assert!(!open(Purpose::SignIn { rp_id: "tg_session_a" }, NOW_US), "another purpose");
    let other = Challenges::default();
    assert!(!other.is_open(REGISTER, &challenge, NOW_US), "another process");
    assert!(stage.challenges.spend(&challenge, NOW_US));
    assert!(!stage.challenges.spend(&challenge, NOW_US));
}

#[test]
fn used_challenges_fill_no_memory() {
    let stage = Stage::new();
    let spend = |at_us| stage.challenges.spend(&stage.challenge(SIGN_IN), at_us);
    assert!((0..4096).all(|_| spend(NOW_US)));
    assert!(!spend(NOW_US), "full");
    assert!(spend(NOW_US + CHALLENGE_SECONDS_MAX * 1_000_000), "older ones have expired");
}

#[test]
fn a_host_name_has_passkeys_and_an_address_has_not() {
    for (host, rp_id, localhost) in [
        ("localhost:4180", Some("localhost"), None),
        ("Gate.Example", Some("gate.example"), None),
        ("gate.example:8443", Some("gate.example"), None),
        ("127.0.0.1:4180", None, Some("http://localhost:4180")),
        ("[::1]:4180", None, Some("http://localhost:4180")),
        ("192.168.1.7:4180", None, None),
        ("[2001:db8::1]", None, None),
    ] {
        let site = site(host);
        assert_eq!(site.rp_id(), rp_id, "{host}");
        assert_eq!(site.as_localhost(false).as_deref(), localhost, "{host}");
    }
    for (host, origin, is_good) in [
        ("localhost:4180", "http://localhost:4180", true),
        ("localhost:4180", "https://localhost:4180", true),
        ("gate.example", "https://gate.example", true),
        ("gate.example", "http://gate.example", false),
        ("gate.example", "https://gate.example.evil.example", false),
        ("127.0.0.1:4180", "http://127.0.0.1:4180", false),
    ] {
        assert_eq!(site(host).is_origin(origin), is_good, "{host} {origin}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let stage = Stage::new();
        let create = client("webauthn.create", &stage.challenge(REGISTER));
        prop_assert!(stage.register(&create, &bytes).is_err());
        prop_assert!(stage.sign_in(&client("webauthn.get", &stage.challenge(SIGN_IN)), &bytes).is_err());
    }

    /// A good object with one byte changed never has another key's credential accepted by accident: it is refused,
    /// or only the id, the counter, the AAGUID or the key itself differs.
    #[test]
    fn a_changed_object_is_read_without_panic(at in any::<usize>(), byte in any::<u8>()) {
        let stage = Stage::new();
        let mut object = stage.good_object();
        let at = at % object.len();
        object[at] = byte;
        let create = client("webauthn.create", &stage.challenge(REGISTER));
        let _ = stage.register(&create, &object);
    }

    #[test]
    fn a_changed_assertion_is_refused(at in 0_usize..37, byte in any::<u8>()) {
        let stage = Stage::new();
        let good = data("localhost", GOOD_FLAGS, 1, &[]);
        let client_data = client("webauthn.get", &stage.challenge(SIGN_IN)).to_string().into_bytes();
        let signature = stage.device.sign(&good, &client_data);
        let mut changed = good.clone();
        changed[at] = byte;
        let signed = Signed { client_data: &client_data, authenticator_data: &changed, signature: &signature };
        let place = (&stage.challenges, SIGN_IN, &site("localhost:4180"));
        let checked = assertion(place, &signed, &stage.device.cose(), NOW_US);
        prop_assert!(checked.is_err() || changed == good);
    }
}
