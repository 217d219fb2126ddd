//! Sealed values open only where they belong and only with the key they were sealed with.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::sync::Arc;

use store::home::Home;
use store::random::Random;
use store::registry::{Registry, RegistryError};
use store::secret::{Secret, redact_known};
use store::vault::{KeyError, Purpose, Vault, VaultError, parse_key, run_no_program};

fn vault(byte: u8) -> Vault {
    Vault::from_key(Secret::new([byte; 32]))
}

#[test]
fn sealed_values_open_again() {
    let random = Random::seeded(1);
    for plain in ["", "a", "Bearer abc", &"long ".repeat(10_000)] {
        let sealed =
            vault(1).seal(Purpose::ServerCredential, "3/x", plain.as_bytes(), &random).unwrap();
        assert_eq!(vault(1).open_text(&sealed).unwrap().expose(), plain);
        assert!(matches!(vault(2).open(&sealed), Err(VaultError::DoesNotOpen { .. })));
    }
}

#[test]
fn a_locked_vault_seals_nothing_opens_nothing_and_leaves_no_mark() {
    let random = Random::System;
    let locked = Vault::locked(&random).unwrap();
    let sealed = vault(1).seal(Purpose::ServerCredential, "3/x", b"kept", &random).unwrap();
    assert!(matches!(locked.open(&sealed), Err(VaultError::Locked)));
    let tried = locked.seal(Purpose::ServerCredential, "3/x", b"new", &random);
    assert!(matches!(tried, Err(VaultError::Locked)));
    let base = tempfile::tempdir().unwrap();
    let home = Home::create(&base.path().join("home")).unwrap();
    Registry::open(&home, Arc::new(locked), random.clone()).unwrap();
    Registry::open(&home, Arc::new(vault(1)), random.clone()).unwrap();
    let other = Registry::open(&home, Arc::new(vault(2)), random.clone());
    assert!(matches!(other, Err(RegistryError::KeyChanged)), "the first real key left its mark");
}

#[test]
fn the_same_text_is_never_sealed_to_the_same_bytes() {
    let random = Random::seeded(1);
    let seal = || vault(1).seal(Purpose::ServerCredential, "3/x", b"same", &random).unwrap();
    assert_ne!(seal(), seal());
}

#[test]
fn every_purpose_has_a_key_of_its_own() {
    let purposes = [
        Purpose::ServerCredential,
        Purpose::ParkedArguments,
        Purpose::ArgumentDigest,
        Purpose::RequestState,
        Purpose::KeyCheck,
    ];
    for (i, one) in purposes.iter().enumerate() {
        for other in purposes.iter().skip(i + 1) {
            assert_ne!(vault(1).derive(*one), vault(1).derive(*other));
        }
        assert_eq!(vault(1).derive(*one), vault(1).derive(*one));
        assert_ne!(vault(1).derive(*one), vault(2).derive(*one));
    }
}

#[test]
fn the_key_file_is_private_made_once_and_read_back() {
    let base = tempfile::tempdir().unwrap();
    let home = Home::create(&base.path().join("home")).unwrap();
    let first = Vault::open_home(&home, &Random::System, run_no_program).unwrap();
    let second = Vault::open_home(&home, &Random::System, run_no_program).unwrap();
    assert_eq!(first.derive(Purpose::KeyCheck), second.derive(Purpose::KeyCheck));
    assert_eq!(platform::private::bits(&fs::metadata(home.vault_key()).unwrap()), 0o600);
    let left: Vec<_> = fs::read_dir(home.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left.len(), 4, "no draft is left behind: {left:?}");
    let text = fs::read_to_string(home.vault_key()).unwrap();
    let handed_in = Vault::from_key(parse_key(&text).unwrap());
    assert_eq!(handed_in.derive(Purpose::KeyCheck), first.derive(Purpose::KeyCheck));
}

#[test]
fn processes_that_start_together_agree_on_one_key() {
    let base = tempfile::tempdir().unwrap();
    let home = Home::create(&base.path().join("home")).unwrap();
    let keys: Vec<_> = std::thread::scope(|scope| {
        let open = || {
            *Vault::open_home(&home, &Random::System, run_no_program)
                .unwrap()
                .derive(Purpose::KeyCheck)
        };
        let threads: Vec<_> = (0..16).map(|_| scope.spawn(open)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(keys.windows(2).all(|pair| pair.first() == pair.last()));
}

#[test]
fn a_lost_key_is_never_replaced_by_a_new_one() {
    let base = tempfile::tempdir().unwrap();
    let home = Home::create(&base.path().join("home")).unwrap();
    Vault::open_home(&home, &Random::System, run_no_program).unwrap();
    fs::write(home.gate_db(), "anything").unwrap();
    fs::remove_file(home.vault_key()).unwrap();
    let error = Vault::open_home(&home, &Random::System, run_no_program).unwrap_err();
    assert!(matches!(error, KeyError::Lost { .. }));
    assert!(error.to_string().contains("from a backup"), "{error}");
    assert!(!home.vault_key().exists());
}

#[test]
fn a_damaged_key_file_is_named_and_left_alone() {
    let base = tempfile::tempdir().unwrap();
    let home = Home::create(&base.path().join("home")).unwrap();
    Vault::open_home(&home, &Random::System, run_no_program).unwrap();
    let good = fs::read_to_string(home.vault_key()).unwrap();
    let one_digit = {
        let at = good.chars().position(|c| c == 'a').unwrap();
        format!("{}b{}", good.get(..at).unwrap(), good.get(at + 1..).unwrap())
    };
    let table: &[&[u8]] = &[
        b"",
        b"hello",
        b"\xff\xfe",
        good.trim_end().split_at(40).0.as_bytes(),
        one_digit.as_bytes(),
    ];
    for bad in table {
        fs::write(home.vault_key(), bad).unwrap();
        let error = Vault::open_home(&home, &Random::System, run_no_program).unwrap_err();
        assert!(matches!(error, KeyError::Damaged(_)), "{error}");
        assert_eq!(&fs::read(home.vault_key()).unwrap(), bad);
    }
}

#[test]
fn a_secret_prints_as_nothing_but_a_mark() {
    let secret = Secret::<String>::new("tg_very_secret");
    assert_eq!(
        format!("{secret} {secret:?} {:?}", Some(&secret)),
        "[secret] [secret] Some([secret])"
    );
    assert_eq!(secret.expose(), "tg_very_secret");
    assert!(!format!("{:?}", vault(1)).contains('1'));
}

#[test]
fn known_secrets_are_blanked_in_every_spelling() {
    let table: &[(&str, &[&str], &str)] = &[
        ("nothing here", &["hunter22"], "nothing here"),
        ("key=hunter22.", &["hunter22"], "key=[secret]."),
        ("hunter22hunter22", &["hunter22"], "[secret][secret]"),
        ("got abcdefgh and abcd", &["abcd", "abcdefgh"], "got [secret] and [secret]"),
        ("abcdefgh", &["abcdef", "cdefgh"], "[secret]"),
        ("sent token-123 only", &["Bearer token-123"], "sent [secret] only"),
        ("u=p%40ss%2Fword", &["p@ss/word"], "u=[secret]"),
        (r#"{"k":"a\"b\\c"}"#, &[r#"a"b\c"#], r#"{"k":"[secret]"}"#),
        ("base64 aHVudGVyMjI=", &["hunter22"], "base64 [secret]="),
        ("a b c", &["a", "b", ""], "a b c"),
        ("größe äöüß", &["äöüß"], "größe [secret]"),
    ];
    for (text, secrets, wanted) in table {
        assert_eq!(redact_known(text, secrets), *wanted);
    }
}
