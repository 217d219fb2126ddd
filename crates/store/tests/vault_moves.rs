//! A key that is taken to another place leaves nothing behind, and is never made anew.
#![allow(clippy::unwrap_used, reason = "a test that cannot set up its stage should fail loudly")]

use std::fs::{self, File};
use std::io::Read as _;

use store::home::Home;
use store::random::Random;
use store::vault::{
    Ask, Elsewhere, Keeper, KeyError, Program, Purpose, Vault, Wait, ask_nobody, copies, parse_key,
};
use zeroize::Zeroizing;

const KEY: &str = "abababababababababababababababababababababababababababababababab";

struct Stage {
    _base: tempfile::TempDir,
    home: Home,
    vault: Vault,
    place: Elsewhere,
}

/// A home whose key is `KEY`, in its file.
fn stage() -> Stage {
    let base = tempfile::tempdir().unwrap();
    let home = Home::create(&base.path().join("home")).unwrap();
    fs::write(home.vault_key(), KEY).unwrap();
    fs::write(home.gate_db(), "anything").unwrap();
    let vault = Vault::from_key(parse_key(KEY).unwrap());
    let place = Elsewhere {
        keeper: Keeper::Command,
        key: vault.key_id(),
        command: Program::try_from(vec!["never-run".to_owned()]).unwrap(),
        wait_seconds_max: Wait::default(),
    };
    Stage { _base: base, home, vault, place }
}

const ANSWER: Ask = |_| Ok(Zeroizing::new(KEY.to_owned()));
const ANSWER_ANOTHER: Ask = |_| Ok(Zeroizing::new("cd".repeat(32)));

#[test]
fn the_file_that_held_the_key_is_written_over() {
    let Stage { home, vault, place, .. } = &stage();
    let mut before = File::open(home.vault_key()).unwrap();
    vault.leave_to(place, home, &Random::System, ANSWER).unwrap();
    let mut left = Vec::new();
    before.read_to_end(&mut left).unwrap();
    assert_eq!(left, vec![0; KEY.len()]);
    let opened = Vault::open_home(home, &Random::System, ANSWER).unwrap();
    assert_eq!(opened.derive(Purpose::KeyCheck), vault.derive(Purpose::KeyCheck));
}

#[test]
fn a_copy_that_is_a_link_to_the_same_file_is_the_owners_and_stays() {
    let Stage { home, vault, place, .. } = &stage();
    let copy = home.path().join("vault.key.copy");
    fs::hard_link(home.vault_key(), &copy).unwrap();
    vault.leave_to(place, home, &Random::System, ANSWER).unwrap();
    assert_eq!(fs::read_to_string(&copy).unwrap(), KEY);
    assert_eq!(copies(home), [copy]);
}

#[test]
fn a_place_that_has_another_key_is_not_moved_to() {
    let Stage { home, vault, place, .. } = &stage();
    for ask in [ANSWER_ANOTHER, ask_nobody] {
        let error = vault.leave_to(place, home, &Random::System, ask).unwrap_err();
        assert!(matches!(error, KeyError::Elsewhere { .. }), "{error}");
        assert_eq!(fs::read_to_string(home.vault_key()).unwrap(), KEY);
    }
    // The id is right and the key is not the one in hand.
    let other = Vault::from_key(parse_key(&"cd".repeat(32)).unwrap());
    assert!(other.leave_to(place, home, &Random::System, ANSWER).is_err());
    assert_eq!(fs::read_to_string(home.vault_key()).unwrap(), KEY);
}

#[test]
fn no_key_is_made_for_a_home_whose_key_does_not_come() {
    let Stage { home, vault, place, .. } = &stage();
    vault.leave_to(place, home, &Random::System, ANSWER).unwrap();
    let words = fs::read(home.vault_key()).unwrap();
    for has_database in [true, false] {
        if !has_database {
            fs::remove_file(home.gate_db()).unwrap();
        }
        for ask in [ANSWER_ANOTHER, ask_nobody] {
            let error = Vault::open_home(home, &Random::System, ask).unwrap_err();
            assert!(matches!(error, KeyError::Elsewhere { .. }), "{error}");
            assert_eq!(fs::read(home.vault_key()).unwrap(), words);
        }
    }
}
