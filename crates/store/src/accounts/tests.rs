//! Tests of accounts: what is stored, what is rejected, and what is on disk.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]
use std::path::Path;

use super::*;
use crate::vault::KEY_BYTES;

const PLANTED: [&str; 4] =
    ["planted-client-secret", "planted-access", "planted-refresh", "planted-cookie"];

fn open(folder: &Path) -> Accounts {
    let home = Home::create(&folder.join("home")).unwrap();
    let vault = Arc::new(Vault::from_key(Secret::new([7; KEY_BYTES])));
    Accounts::open(&home, vault, Random::System).unwrap()
}

fn account(service: &str) -> Account {
    let mut account = Account::new(service, 5);
    account.client_id = Some("client".to_owned());
    account.client_secret = Some(Secret::new(PLANTED[0]));
    account.access = Some(Secret::new(PLANTED[1]));
    account.refresh = Some(Secret::new(PLANTED[2]));
    account.extra.insert("SESSDATA".to_owned(), Secret::new(PLANTED[3]));
    account.scopes = vec!["read".to_owned(), "offline".to_owned()];
    account.expires_us = Some(9);
    account.state =
        AccountState::Dead { since_us: 8, message: "it answered `invalid_grant`".to_owned() };
    account
}

fn file(accounts: &Accounts, service: &str) -> PathBuf {
    accounts.folder.join(format!("{service}.json"))
}

#[test]
fn saved_values_load_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let accounts = open(folder.path());
    assert_eq!(accounts.load("whoop").unwrap(), None);
    assert_eq!(accounts.version("whoop"), None);
    let kept = account("whoop");
    accounts.lock("whoop").unwrap().save(&kept).unwrap();
    assert_eq!(accounts.load("whoop").unwrap(), Some(kept.clone()));
    assert_eq!(accounts.list().unwrap(), ["whoop"]);
    let version = accounts.version("whoop");
    accounts.lock("whoop").unwrap().save(&kept).unwrap();
    assert_ne!(accounts.version("whoop"), version);
}

#[test]
fn the_file_has_no_secret_in_clear_and_only_its_owner_may_read_it() {
    let folder = tempfile::tempdir().unwrap();
    let accounts = open(folder.path());
    accounts.lock("whoop").unwrap().save(&account("whoop")).unwrap();
    let text = fs::read_to_string(file(&accounts, "whoop")).unwrap();
    let summary = accounts.summary("whoop").unwrap().unwrap();
    let shown =
        format!("{summary:?} {} {:?}", serde_json::to_string(&summary).unwrap(), account("x"));
    for planted in PLANTED {
        assert!(!text.contains(planted) && !shown.contains(planted), "{planted}");
    }
    assert_eq!(summary.kept, ["access", "client_secret", "extra.SESSDATA", "refresh"]);
    for entry in fs::read_dir(&accounts.folder).unwrap() {
        assert_eq!(platform::private::bits(&entry.unwrap().metadata().unwrap()), 0o600);
    }
    assert_eq!(platform::private::bits(&fs::metadata(&accounts.folder).unwrap()), 0o700);
}

#[test]
fn a_sealed_value_that_is_moved_does_not_open() {
    let folder = tempfile::tempdir().unwrap();
    let accounts = open(folder.path());
    for service in ["whoop", "spotify"] {
        accounts.lock(service).unwrap().save(&account(service)).unwrap();
    }
    let read = |service| -> serde_json::Value {
        serde_json::from_str(&fs::read_to_string(file(&accounts, service)).unwrap()).unwrap()
    };
    let (whoop, spotify) = (read("whoop"), read("spotify"));
    // To another column of the same account, and to the same column of another service.
    let mut moved = whoop.clone();
    moved["sealed"]["access"] = whoop["sealed"]["refresh"].clone();
    fs::write(file(&accounts, "whoop"), moved.to_string()).unwrap();
    assert!(matches!(accounts.load("whoop"), Err(AccountsError::Sealed { .. })));
    let mut moved = whoop.clone();
    moved["sealed"]["access"] = spotify["sealed"]["access"].clone();
    fs::write(file(&accounts, "whoop"), moved.to_string()).unwrap();
    assert!(matches!(accounts.load("whoop"), Err(AccountsError::Sealed { .. })));
    // A whole file under another name.
    fs::copy(file(&accounts, "spotify"), file(&accounts, "whoop")).unwrap();
    assert!(matches!(accounts.load("whoop"), Err(AccountsError::Damaged { .. })));
}

#[test]
fn a_damaged_file_is_an_error_that_has_a_hint_and_is_not_changed() {
    let folder = tempfile::tempdir().unwrap();
    let accounts = open(folder.path());
    accounts.lock("whoop").unwrap().save(&account("whoop")).unwrap();
    let good = fs::read(file(&accounts, "whoop")).unwrap();
    for damage in
        [b"".to_vec(), good[..good.len() / 2].to_vec(), b"\xff\xfe".to_vec(), b"[]".to_vec()]
    {
        fs::write(file(&accounts, "whoop"), &damage).unwrap();
        for error in [accounts.load("whoop").err(), accounts.summary("whoop").err()] {
            let message = error.unwrap().to_string();
            assert!(message.contains("tollgate connect whoop"), "{message}");
        }
        assert_eq!(fs::read(file(&accounts, "whoop")).unwrap(), damage);
    }
    let whole = account("whoop");
    accounts.lock("whoop").unwrap().save(&whole).unwrap();
    assert_eq!(accounts.load("whoop").unwrap(), Some(whole));
}

#[test]
fn wiping_leaves_no_file_and_no_draft() {
    let folder = tempfile::tempdir().unwrap();
    let accounts = open(folder.path());
    let locked = accounts.lock("whoop").unwrap();
    locked.save(&account("whoop")).unwrap();
    // The same inode, seen through a second name, shows what was left on the disk.
    let seen = folder.path().join("seen");
    fs::hard_link(file(&accounts, "whoop"), &seen).unwrap();
    fs::write(accounts.folder.join("whoop.json.0123"), "a draft of a killed process").unwrap();
    assert!(locked.wipe().unwrap());
    assert!(!locked.wipe().unwrap());
    assert!(fs::read(&seen).unwrap().iter().all(|byte| *byte == 0));
    drop(locked);
    assert_eq!(accounts.load("whoop").unwrap(), None);
    let left: Vec<_> =
        fs::read_dir(&accounts.folder).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["whoop.lock"]);
}

#[test]
fn one_process_holds_the_lock_and_the_others_wait() {
    let folder = tempfile::tempdir().unwrap();
    let accounts = open(folder.path());
    let locked = accounts.try_lock("whoop").unwrap().unwrap();
    assert!(accounts.try_lock("whoop").unwrap().is_none());
    assert!(accounts.try_lock("spotify").unwrap().is_some());
    drop(locked);
    assert!(accounts.try_lock("whoop").unwrap().is_some());
}

#[test]
fn a_name_cannot_lead_out_of_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let accounts = open(folder.path());
    for name in ["", "../x", "a/b", "A", "x.json", "\0", &"x".repeat(33)] {
        assert!(matches!(accounts.load(name), Err(AccountsError::Name(_))), "{name}");
        assert!(accounts.lock(name).is_err(), "{name}");
    }
}

#[test]
fn a_back_off_marker_is_seen_by_all_and_only_ever_moved_forward() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (open(folder.path()), open(folder.path()));
    let (ours, theirs) = (one.back_off("whoop").unwrap(), two.back_off("whoop").unwrap());
    assert_eq!(theirs.until_us(), None);
    ours.set(1_800_000_000_123_456).unwrap();
    assert_eq!(theirs.until_us(), Some(1_800_000_000_123_456));
    theirs.set(1_700_000_000_000_000).unwrap();
    assert_eq!(ours.until_us(), Some(1_800_000_000_123_456));
    assert_eq!(one.back_off("spotify").unwrap().until_us(), None);
    assert!(one.back_off("../x").is_err());
    assert_eq!(one.list().unwrap(), Vec::<String>::new());
}

#[test]
fn the_secret_before_a_change_is_kept_for_a_day_and_only_of_the_same_app() {
    const DAY_US: i64 = 86_400_000_000;
    let before = account("whoop");
    let mut after = Account { created_us: 5 * DAY_US, ..account("whoop") };
    after.remember_secret(&before);
    assert_eq!(after.previous_secret(5 * DAY_US), None, "nothing changed");
    after.client_secret = Some(Secret::new("another"));
    let mut stranger = Account { client_id: Some("another app".to_owned()), ..after.clone() };
    after.remember_secret(&before);
    assert_eq!(after.previous_secret(6 * DAY_US - 1), before.client_secret.as_ref());
    assert_eq!(after.previous_secret(6 * DAY_US), None);
    stranger.remember_secret(&before);
    assert_eq!(stranger.previous_secret(5 * DAY_US), None);
}
