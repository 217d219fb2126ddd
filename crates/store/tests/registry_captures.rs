//! Captured params are sealed, found by their digest, bounded, and never created by a look.
#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "support/fixture.rs"]
mod fixture;

use fixture::Fixture;
use hmac::Mac as _;
use store::captures::{CaptureError, CaptureLimits, Captures};
use store::vault::{Purpose, VaultError};

const LIMITS: CaptureLimits =
    CaptureLimits { params_bytes_max: 1_000, bytes_max: 10_000, age_us_max: 1_000_000 };

struct Stage {
    fixture: Fixture,
    captures: Captures,
}

impl Stage {
    fn new() -> Stage {
        let fixture = Fixture::new();
        let captures = fixture.registry.captures();
        Stage { fixture, captures }
    }

    fn digest(&self, params: &str) -> [u8; 32] {
        let mut mac = self.fixture.registry.vault().digest(Purpose::ArgumentDigest);
        mac.update(params.as_bytes());
        mac.finalize().into_bytes().into()
    }

    fn put(&self, params: &str, now_us: i64) -> [u8; 32] {
        let digest = self.digest(params);
        self.captures.put("bank", &digest, params.as_bytes(), now_us, &LIMITS).unwrap();
        digest
    }

    /// As another process, or another machine, finds it.
    fn text(&self, server: &str, digest: &[u8; 32]) -> Option<String> {
        let found = self.captures.get(server, &hex(digest)).unwrap()?;
        found.params.map(|params| String::from_utf8(params.expose().clone()).unwrap())
    }
}

fn hex(digest: &[u8; 32]) -> String {
    let digits: Vec<String> = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    digits.concat()
}

#[test]
fn params_are_found_by_their_digest_and_are_sealed_in_the_file() {
    let stage = Stage::new();
    assert_eq!(stage.text("bank", &[0; 32]), None);
    assert!(!stage.fixture.home.path().join("captures.db").exists(), "a look creates no file");
    let digest = stage.put(r#"{"to":"a-person-nobody-else-names"}"#, 1);
    assert_eq!(stage.text("bank", &digest).unwrap(), r#"{"to":"a-person-nobody-else-names"}"#);
    assert_eq!(stage.text("other", &digest), None, "another server captured nothing");
    for (path, bytes) in stage.fixture.bytes() {
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains("a-person-nobody-else-names"), "{}", path.display());
    }
}

#[test]
fn params_that_do_not_match_the_digest_are_refused() {
    let stage = Stage::new();
    let digest = [9; 32];
    stage.captures.put("bank", &digest, b"{}", 1, &LIMITS).unwrap();
    let found = stage.captures.get("bank", &hex(&digest));
    assert!(matches!(found, Err(CaptureError::Differs)));
    // A sealed value that was moved to another row does not open at all.
    stage.put(r#"{"a":1}"#, 1);
    stage.fixture.change_captures("UPDATE captures SET server = 'other'");
    let moved = stage.captures.get("other", &hex(&stage.digest(r#"{"a":1}"#)));
    assert!(matches!(moved, Err(CaptureError::Vault(VaultError::DoesNotOpen { .. }))));
}

#[test]
fn large_params_leave_only_their_size() {
    let stage = Stage::new();
    let params = format!(r#"{{"text":"{}"}}"#, "x".repeat(2_000));
    let digest = stage.put(&params, 1);
    let found = stage.captures.get("bank", &hex(&digest)).unwrap().unwrap();
    assert!(found.params.is_none());
    assert_eq!(found.bytes, params.len() as u64);
}

#[test]
fn old_captures_are_deleted_and_a_repeated_call_renews_its_own() {
    let stage = Stage::new();
    let old = stage.put(r#"{"n":1}"#, 0);
    let renewed = stage.put(r#"{"n":2}"#, 0);
    stage.put(r#"{"n":2}"#, 900_000);
    stage.captures.prune(1_500_000, &LIMITS).unwrap();
    assert_eq!(stage.text("bank", &old), None);
    assert!(stage.text("bank", &renewed).is_some());
}

#[test]
fn the_oldest_captures_make_place_for_new_ones() {
    let stage = Stage::new();
    let digests: Vec<[u8; 32]> = (0..100_i64)
        .map(|n| stage.put(&format!(r#"{{"n":{n},"text":"{}"}}"#, "x".repeat(300)), n))
        .collect();
    let kept: Vec<bool> = digests.iter().map(|one| stage.text("bank", one).is_some()).collect();
    assert!(kept.last().unwrap() & !kept.first().unwrap());
    let count = kept.iter().filter(|kept| **kept).count();
    assert!((15..30).contains(&count), "{count} of about 340 bytes each in 10,000");
    assert!(kept.iter().skip_while(|kept| !**kept).all(|kept| *kept), "the oldest go first");
}

#[test]
fn another_process_or_machine_finds_what_was_captured() {
    let stage = Stage::new();
    let digest = stage.put(r#"{"a":1}"#, 1);
    let found = stage.fixture.second().captures().get("bank", &hex(&digest)).unwrap();
    assert_eq!(found.unwrap().params.unwrap().expose(), br#"{"a":1}"#);
}
