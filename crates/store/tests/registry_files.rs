//! `gate.db` as a file: shared by processes, upgraded after a copy, refused when damaged, newer or
//! under another key, and found again after it was away.
#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "support/fixture.rs"]
mod fixture;
#[path = "support/interrupted_create.rs"]
mod interrupted_create;

use std::fs;
use std::sync::Arc;

use fixture::{DENY_ALL, Fixture, NOW_US, bytes_of, open};
use interrupted_create::leave_interrupted_create;
use rusqlite::Connection;
use store::home::Home;
use store::random::Random;
use store::registry::{Registry, RegistryError};
use store::secret::Secret;
use store::vault::{Vault, run_no_program};

/// A database as the first schema left it, with a row in most tables.
const OLDER: &str = include_str!("fixtures/gate-schema1.sql");

#[test]
fn the_database_and_its_log_are_private() {
    let fixture = Fixture::new();
    fixture.add_builtin("demo");
    for (path, _) in bytes_of(fixture.home.path()) {
        let mode = platform::private::bits(&fs::metadata(&path).unwrap());
        assert_eq!(mode, 0o600, "{}", path.display());
    }
}

#[test]
fn a_file_whose_creation_was_interrupted_is_created_again() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::create(&folder.path().join("home")).unwrap();
    leave_interrupted_create(&home.gate_db());
    let vault = Arc::new(Vault::from_key(Secret::new([7; 32])));
    Registry::open(&home, vault, Random::seeded(1)).unwrap().check().unwrap();
}

#[test]
fn two_processes_see_each_others_changes() {
    let fixture = Fixture::new();
    let other = fixture.second();
    let before = other.snapshot().unwrap();
    assert!(!other.changed(before.generation).unwrap());
    fixture.add_builtin("demo");
    assert!(other.changed(before.generation).unwrap());
    let after = other.snapshot().unwrap();
    assert_eq!(after.servers.len(), 1);
    assert!(!other.changed(after.generation).unwrap());
    assert!(!fixture.registry.changed(after.generation).unwrap(), "both count alike");
    other.set_value("k", "v", NOW_US).unwrap();
    assert!(fixture.registry.changed(after.generation).unwrap());
    assert!(other.changed(after.generation).unwrap(), "its own changes, too");
    assert_eq!(fixture.registry.value("k").unwrap().as_deref(), Some("v"));
}

#[test]
fn changes_that_a_gate_does_not_use_do_not_wake_it() {
    let fixture = Fixture::new();
    let other = fixture.second();
    let generation = other.snapshot().unwrap().generation;
    fixture.registry.put_parked("a", b"x", NOW_US).unwrap();
    fixture.registry.note_time(NOW_US).unwrap();
    assert!(!other.changed(generation).unwrap());
    assert!(!fixture.registry.changed(generation).unwrap());
}

#[test]
fn many_processes_may_start_and_write_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::create(&folder.path().join("home")).unwrap();
    std::thread::scope(|scope| {
        for i in 0..8 {
            let home = &home;
            scope.spawn(move || {
                let registry = open(home).unwrap();
                for j in 0..5 {
                    registry.set_value(&format!("k{i}.{j}"), "v", NOW_US).unwrap();
                }
            });
        }
    });
    let registry = open(&home).unwrap();
    assert_eq!(registry.values().unwrap().len(), 40);
    assert_eq!(registry.snapshot().unwrap().generation, 41, "every change counts once");
    registry.check().unwrap();
    assert_eq!(fs::read_dir(home.backups()).unwrap().count(), 0, "a new file needs no copy");
}

#[test]
fn a_snapshot_is_of_one_moment() {
    let fixture = Fixture::new();
    let other = fixture.second();
    let writer = std::thread::spawn(move || {
        for i in 0..50 {
            other.set_value("left", &i.to_string(), NOW_US).unwrap();
        }
    });
    while !writer.is_finished() {
        let snapshot = fixture.registry.snapshot().unwrap();
        let left = snapshot.values.get("left").map_or(1, |text| text.parse::<u64>().unwrap() + 2);
        assert_eq!(snapshot.generation, left);
    }
    writer.join().unwrap();
}

fn older_home() -> (tempfile::TempDir, Home) {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::create(&folder.path().join("home")).unwrap();
    Vault::open_home(&home, &Random::System, run_no_program).unwrap();
    Connection::open(home.gate_db()).unwrap().execute_batch(OLDER).unwrap();
    (folder, Home::open(home.path()).unwrap())
}

#[test]
fn an_older_database_is_copied_and_upgraded_with_all_it_holds() {
    let (_folder, home) = older_home();
    let registry = open(&home).unwrap();
    assert_eq!(registry.server("demo").unwrap().created_at_us, 1);
    assert_eq!(registry.policy("p").unwrap().source, DENY_ALL);
    let grant = registry.grant("alice").unwrap();
    assert_eq!((grant.server_access.len(), grant.tokens.len(), grant.expired_at_us), (1, 1, None));
    assert_eq!(registry.pins("demo").unwrap().len(), 1);
    registry.put_parked("new-table", b"x", NOW_US).unwrap();
    assert_eq!(registry.task_owners(NOW_US).unwrap(), []);

    let copies: Vec<_> = fs::read_dir(home.backups()).unwrap().map(|e| e.unwrap().path()).collect();
    let [copy] = copies.as_slice() else { unreachable!("{copies:?}") };
    assert_eq!(platform::private::bits(&fs::metadata(copy).unwrap()), 0o600);
    let copy = Connection::open(copy).unwrap();
    let version: i64 = copy.query_row("PRAGMA user_version", [], |r| r.get(0)).unwrap();
    let labels: String = copy.query_row("SELECT label FROM grants", [], |r| r.get(0)).unwrap();
    assert_eq!((version, labels.as_str()), (1, "alice"));
    drop(registry);
    open(&home).unwrap();
    assert_eq!(fs::read_dir(home.backups()).unwrap().count(), 1, "once upgraded, no more copies");
}

#[test]
fn an_upgrade_that_fails_leaves_the_older_database() {
    let (_folder, home) = older_home();
    // In the way of a table that the next schema makes.
    let db = Connection::open(home.gate_db()).unwrap();
    db.execute_batch("CREATE TABLE file_policies (x)").unwrap();
    drop(db);
    assert!(open(&home).is_err());
    let db = Connection::open(home.gate_db()).unwrap();
    let version: i64 = db.query_row("PRAGMA user_version", [], |r| r.get(0)).unwrap();
    let half: i64 = db
        .query_row("SELECT count(*) FROM sqlite_schema WHERE name = 'parked'", [], |r| r.get(0))
        .unwrap();
    assert_eq!((version, half), (1, 0));
}

#[test]
fn a_newer_database_is_refused_and_left_byte_for_byte() {
    let fixture = Fixture::new();
    fixture.add_builtin("demo");
    let home = fixture.home.clone();
    let folder = fixture.into_folder();
    let newer = Connection::open(home.gate_db()).unwrap();
    newer.execute_batch("PRAGMA user_version = 99; CREATE TABLE future (x)").unwrap();
    // The newer tollgate may still be running: its log is not folded into the file yet.
    let before = bytes_of(home.path());
    assert!(before.iter().any(|(path, bytes)| path.ends_with("gate.db-wal") && !bytes.is_empty()));
    let error = open(&home).unwrap_err();
    assert!(matches!(error, RegistryError::Newer { found: 99, .. }), "{error}");
    assert!(error.to_string().contains("newer tollgate"), "{error}");
    let kept = |all: &[(std::path::PathBuf, Vec<u8>)]| -> Vec<_> {
        let kept = ["gate.db", "gate.db-wal", "vault.key"];
        all.iter().filter(|(path, _)| kept.iter().any(|k| path.ends_with(k))).cloned().collect()
    };
    assert_eq!(kept(&bytes_of(home.path())), kept(&before));

    // Nor is it folded by us after the newer one was killed and no other process has the file open.
    let killed = tempfile::tempdir().unwrap();
    let home = Home::create(&killed.path().join("home")).unwrap();
    for (path, bytes) in kept(&before) {
        fs::write(home.path().join(path.file_name().unwrap()), bytes).unwrap();
    }
    let before = bytes_of(home.path());
    assert!(matches!(open(&home), Err(RegistryError::Newer { .. })));
    assert_eq!(kept(&bytes_of(home.path())), kept(&before));
    drop(newer);
    drop(folder);
}

#[test]
fn another_programs_database_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::create(&folder.path().join("home")).unwrap();
    Vault::open_home(&home, &Random::System, run_no_program).unwrap();
    Connection::open(home.gate_db()).unwrap().execute_batch("CREATE TABLE notes (x)").unwrap();
    let before = fs::read(home.gate_db()).unwrap();
    assert!(matches!(open(&home), Err(RegistryError::NotOurs(_))));
    assert_eq!(fs::read(home.gate_db()).unwrap(), before);
}

#[test]
fn a_damaged_database_is_named_and_not_overwritten() {
    let fixture = Fixture::new();
    fixture.add_builtin("demo");
    let home = fixture.home.clone();
    let _folder = fixture.into_folder();
    let good = fs::read(home.gate_db()).unwrap();
    let garbled: Vec<u8> =
        good.iter().enumerate().map(|(i, b)| if i < 100 { *b } else { !b }).collect();
    let cut = good.get(..good.len() / 2).unwrap().to_vec();
    let words = b"this is not a database at all, but long enough to be read as one ".repeat(20);
    for bad in [words, garbled, cut] {
        fs::write(home.gate_db(), &bad).unwrap();
        let found = open(&home)
            .and_then(|registry| registry.check().map(|()| registry.snapshot().map(drop)));
        assert!(matches!(found, Err(RegistryError::Corrupt(_))), "{:?}", found.err());
        assert_eq!(fs::read(home.gate_db()).unwrap(), bad);
        for extra in ["gate.db-wal", "gate.db-shm"] {
            let _ = fs::remove_file(home.path().join(extra));
        }
    }
}

#[test]
fn another_key_is_noticed_before_anything_is_sealed_with_it() {
    let fixture = Fixture::new();
    let other = Arc::new(Vault::from_key(Secret::new([7; 32])));
    let error = Registry::open(&fixture.home, other, Random::System).unwrap_err();
    assert!(matches!(error, RegistryError::KeyChanged));
    assert!(error.to_string().contains("vault.key"), "{error}");
    fixture.second();
}

#[test]
fn a_database_that_vanished_is_an_error_until_it_is_back() {
    let fixture = Fixture::new();
    fixture.add_builtin("demo");
    let generation = fixture.registry.snapshot().unwrap().generation;
    let aside = fixture.home.path().join("aside");
    fs::rename(fixture.home.gate_db(), &aside).unwrap();
    assert!(matches!(fixture.registry.changed(generation), Err(RegistryError::Vanished(_))));
    assert!(matches!(fixture.registry.snapshot(), Err(RegistryError::Vanished(_))));
    fs::write(fixture.home.gate_db(), "").unwrap();
    assert!(matches!(fixture.registry.snapshot(), Err(RegistryError::Vanished(_))));
    fs::remove_file(fixture.home.gate_db()).unwrap();
    fs::rename(&aside, fixture.home.gate_db()).unwrap();
    assert_eq!(fixture.registry.snapshot().unwrap().servers.len(), 1);

    // Another file in its place (a restored copy) is opened without a restart.
    let copy = fixture.home.path().join("copy");
    let db = Connection::open(fixture.home.gate_db()).unwrap();
    db.execute("VACUUM INTO ?1", [copy.to_str().unwrap()]).unwrap();
    drop(db);
    for old in ["gate.db-wal", "gate.db-shm"] {
        let _ = fs::remove_file(fixture.home.path().join(old));
    }
    fs::rename(&copy, fixture.home.gate_db()).unwrap();
    assert!(
        fixture.registry.changed(generation).unwrap(),
        "the same count in another file is a change"
    );
    fixture.registry.set_value("k", "v", NOW_US).unwrap();
    assert_eq!(fixture.second().value("k").unwrap().as_deref(), Some("v"));
}

#[test]
fn settings_have_fit_keys_and_sizes() {
    let fixture = Fixture::new();
    let registry = &fixture.registry;
    registry.set_value("dashboard.theme", "dark", NOW_US).unwrap();
    assert_eq!(registry.value("dashboard.theme").unwrap().as_deref(), Some("dark"));
    assert!(registry.unset_value("dashboard.theme").unwrap());
    assert!(!registry.unset_value("dashboard.theme").unwrap());
    for key in ["", "A", ".a", "a b"] {
        assert!(matches!(registry.set_value(key, "", NOW_US), Err(RegistryError::Name { .. })));
    }
    let large = "x".repeat((64 << 10) + 1);
    assert!(matches!(registry.set_value("k", &large, NOW_US), Err(RegistryError::TooLarge { .. })));
}
