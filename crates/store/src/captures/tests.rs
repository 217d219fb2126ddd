//! A file that is in the way; the other stories are in `tests/registry_captures.rs`.

#![allow(clippy::unwrap_used, reason = "tests")]
use super::*;

const LIMITS: CaptureLimits =
    CaptureLimits { params_bytes_max: 1_000, bytes_max: 10_000, age_us_max: 1_000_000 };

#[test]
fn a_file_that_cannot_be_written_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let vault = Arc::new(Vault::from_key(Secret::new([7; 32])));
    let captures = Captures::new(folder.path(), vault, Random::seeded(1));
    std::fs::create_dir(folder.path().join("captures.db")).unwrap();
    let failed = captures.put("bank", &[1; 32], b"{}", 1, &LIMITS);
    assert!(failed.is_err());
}
