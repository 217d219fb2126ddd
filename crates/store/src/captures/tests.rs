//! What is captured is sealed, found by its digest, bounded, and never created by a look.

#![allow(clippy::unwrap_used, reason = "tests")]
use super::*;

const LIMITS: CaptureLimits =
    CaptureLimits { params_bytes_max: 1_000, bytes_max: 10_000, age_us_max: 1_000_000 };

struct Stage {
    folder: tempfile::TempDir,
    captures: Captures,
    vault: Arc<Vault>,
}

fn stage() -> Stage {
    let folder = tempfile::tempdir().unwrap();
    let vault = Arc::new(Vault::from_key(Secret::new([7; 32])));
    let captures = Captures::new(folder.path(), Arc::clone(&vault), Random::seeded(1));
    Stage { folder, captures, vault }
}

impl Stage {
    fn digest(&self, params: &str) -> [u8; 32] {
        let mut mac = self.vault.digest(Purpose::ArgumentDigest);
        mac.update(params.as_bytes());
        mac.finalize().into_bytes().into()
    }

    fn put(&self, params: &str, now_us: i64) -> [u8; 32] {
        let digest = self.digest(params);
        self.captures.put("bank", &digest, params.as_bytes(), now_us, &LIMITS).unwrap();
        digest
    }

    fn text(&self, server: &str, digest: &[u8; 32]) -> Option<String> {
        let found = self.captures.get(server, &crate::hex::encode(digest)).unwrap()?;
        found.params.map(|params| String::from_utf8(params.expose().clone()).unwrap())
    }

    fn file(&self) -> Vec<u8> {
        let read = |name: &str| std::fs::read(self.folder.path().join(name)).unwrap_or_default();
        [read("captures.db"), read("captures.db-wal")].concat()
    }
}

#[test]
fn params_are_found_by_their_digest_and_are_sealed_in_the_file() {
    let stage = stage();
    assert_eq!(stage.text("bank", &[0; 32]), None);
    assert!(!stage.folder.path().join("captures.db").exists(), "a look creates no file");
    let digest = stage.put(r#"{"to":"a-person-nobody-else-names"}"#, 1);
    assert_eq!(stage.text("bank", &digest).unwrap(), r#"{"to":"a-person-nobody-else-names"}"#);
    assert_eq!(stage.text("other", &digest), None, "another server captured nothing");
    let file = String::from_utf8_lossy(&stage.file()).into_owned();
    assert!(!file.contains("a-person-nobody-else-names"));
}

#[test]
fn params_that_do_not_match_the_digest_are_refused() {
    let stage = stage();
    let digest = [9; 32];
    stage.captures.put("bank", &digest, b"{}", 1, &LIMITS).unwrap();
    let found = stage.captures.get("bank", &crate::hex::encode(&digest));
    assert!(matches!(found, Err(CaptureError::Differs)));
    // A sealed value that was moved to another row does not open at all.
    stage.put(r#"{"a":1}"#, 1);
    let db = Connection::open(stage.folder.path().join("captures.db")).unwrap();
    db.execute("UPDATE captures SET server = 'other'", []).unwrap();
    let moved = stage.captures.get("other", &crate::hex::encode(&stage.digest(r#"{"a":1}"#)));
    assert!(matches!(moved, Err(CaptureError::Vault(VaultError::DoesNotOpen { .. }))));
}

#[test]
fn large_params_leave_only_their_size() {
    let stage = stage();
    let params = format!(r#"{{"text":"{}"}}"#, "x".repeat(2_000));
    let digest = stage.put(&params, 1);
    let found = stage.captures.get("bank", &crate::hex::encode(&digest)).unwrap().unwrap();
    assert!(found.params.is_none());
    assert_eq!(found.bytes, params.len() as u64);
}

#[test]
fn old_captures_are_deleted_and_a_repeated_call_renews_its_own() {
    let stage = stage();
    let old = stage.put(r#"{"n":1}"#, 0);
    let renewed = stage.put(r#"{"n":2}"#, 0);
    stage.put(r#"{"n":2}"#, 900_000);
    stage.captures.prune(1_500_000, &LIMITS).unwrap();
    assert_eq!(stage.text("bank", &old), None);
    assert!(stage.text("bank", &renewed).is_some());
}

#[test]
fn the_oldest_captures_make_place_for_new_ones() {
    let stage = stage();
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
fn a_file_that_cannot_be_written_is_an_error() {
    let stage = stage();
    std::fs::create_dir(stage.folder.path().join("captures.db")).unwrap();
    let failed = stage.captures.put("bank", &[1; 32], b"{}", 1, &LIMITS);
    assert!(failed.is_err());
}
