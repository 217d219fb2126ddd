//! A key that moves to another location leaves nothing behind, and is never created again.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs::{self, File};
use std::io::Read as _;

use store::home::Home;
use store::random::Random;
use store::vault::{
    ExternalKey, KeyError, KeyStore, Program, ProgramTimeout, Purpose, RunProgram, Vault, copies,
    parse_key, run_no_program,
};
use zeroize::Zeroizing;

const KEY: &str = "abababababababababababababababababababababababababababababababab";

struct Fixture {
    _base: tempfile::TempDir,
    home: Home,
    vault: Vault,
    place: ExternalKey,
}

/// A home whose key is `KEY`, in its file.
fn fixture() -> Fixture {
    let base = tempfile::tempdir().unwrap();
    let home = Home::create(&base.path().join("home")).unwrap();
    fs::write(home.vault_key(), KEY).unwrap();
    fs::write(home.gate_db(), "anything").unwrap();
    let vault = Vault::from_key(parse_key(KEY).unwrap());
    let place = ExternalKey {
        keeper: KeyStore::Command,
        key: vault.key_id(),
        command: Program::try_from(vec!["never-run".to_owned()]).unwrap(),
        wait_seconds_max: ProgramTimeout::default(),
    };
    Fixture { _base: base, home, vault, place }
}

const ANSWER: RunProgram = |_| Ok(Zeroizing::new(KEY.to_owned()));
const ANSWER_ANOTHER: RunProgram = |_| Ok(Zeroizing::new("cd".repeat(32)));

#[test]
fn the_file_that_held_the_key_is_written_over() {
    let Fixture { home, vault, place, .. } = &fixture();
    let mut before = File::open(home.vault_key()).unwrap();
    vault.move_to(place, home, &Random::System, ANSWER).unwrap();
    let mut left = Vec::new();
    before.read_to_end(&mut left).unwrap();
    assert_eq!(left, vec![0; KEY.len()]);
    let opened = Vault::open_home(home, &Random::System, ANSWER).unwrap();
    assert_eq!(opened.derive(Purpose::KeyCheck), vault.derive(Purpose::KeyCheck));
}

#[test]
fn a_copy_that_is_a_link_to_the_same_file_is_the_owners_and_stays() {
    let Fixture { home, vault, place, .. } = &fixture();
    let copy = home.path().join("vault.key.copy");
    fs::hard_link(home.vault_key(), &copy).unwrap();
    vault.move_to(place, home, &Random::System, ANSWER).unwrap();
    assert_eq!(fs::read_to_string(&copy).unwrap(), KEY);
    assert_eq!(copies(home), [copy]);
}

#[test]
fn a_place_that_has_another_key_is_not_moved_to() {
    let Fixture { home, vault, place, .. } = &fixture();
    for ask in [ANSWER_ANOTHER, run_no_program] {
        let error = vault.move_to(place, home, &Random::System, ask).unwrap_err();
        assert!(matches!(error, KeyError::External { .. }), "{error}");
        assert_eq!(fs::read_to_string(home.vault_key()).unwrap(), KEY);
    }
    // The id is right and the key is not the one in hand.
    let other = Vault::from_key(parse_key(&"cd".repeat(32)).unwrap());
    assert!(other.move_to(place, home, &Random::System, ANSWER).is_err());
    assert_eq!(fs::read_to_string(home.vault_key()).unwrap(), KEY);
}

#[test]
fn no_key_is_made_for_a_home_whose_key_does_not_come() {
    let Fixture { home, vault, place, .. } = &fixture();
    vault.move_to(place, home, &Random::System, ANSWER).unwrap();
    let words = fs::read(home.vault_key()).unwrap();
    for has_database in [true, false] {
        if !has_database {
            fs::remove_file(home.gate_db()).unwrap();
        }
        for ask in [ANSWER_ANOTHER, run_no_program] {
            let error = Vault::open_home(home, &Random::System, ask).unwrap_err();
            assert!(matches!(error, KeyError::External { .. }), "{error}");
            assert_eq!(fs::read(home.vault_key()).unwrap(), words);
        }
    }
}
