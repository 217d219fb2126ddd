//! Acts of the owner on their way from `gate.db` into the audit log: each comes there once.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails where the stage does not stand"
)]

#[path = "support/stage.rs"]
mod stage;

use std::fs;

use stage::{NOW_US, Stage};
use store::clock::Clock;
use store::ledger::{EntryKind, Filter, Ledger, Options, Reader};

fn ledger(stage: &Stage) -> Ledger {
    Ledger::open(&stage.home.audit(), Clock::System, Options::default()).unwrap()
}

fn notes(stage: &Stage) -> Vec<(String, String)> {
    let only = Filter { only: Some(EntryKind::Note), ..Filter::default() };
    let entries = Reader::open(&stage.home.audit()).unwrap().oldest_first(&only).unwrap();
    let entries = entries.map(Result::unwrap).filter(|entry| entry.act != "clock");
    entries.map(|entry| (entry.act, entry.words)).collect()
}

#[test]
fn an_act_is_recorded_once_by_whoever_comes_first() {
    let stage = Stage::new();
    stage.add_builtin("demo");
    stage.grant("alice", &[("demo", None)]);
    let ledger = ledger(&stage);
    assert_eq!(stage.second().record_acts(&ledger, NOW_US).unwrap(), 2);
    assert_eq!(stage.registry.record_acts(&ledger, NOW_US).unwrap(), 0);
    let found = notes(&stage);
    let [(first, _), (second, words)] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!([first, second], ["server_added", "grant_created"]);
    assert_eq!(
        words,
        "demo (no policy named); done at 2027-01-15T08:00:00.000000Z, by a command that ended before it was recorded"
    );
}

#[test]
fn an_act_whose_row_was_written_before_the_kill_is_not_recorded_again() {
    let stage = Stage::new();
    stage.add_builtin("demo");
    // What a process leaves that is killed between the row and the end of its transaction: the row is
    // there, and `gate.db` is as it was before.
    let before = stage.path("before");
    let (db, wal) = (stage.home.gate_db(), stage.home.gate_db().with_extension("db-wal"));
    fs::create_dir(&before).unwrap();
    for file in [&db, &wal] {
        fs::copy(file, before.join(file.file_name().unwrap())).unwrap();
    }
    let ledger = ledger(&stage);
    assert_eq!(stage.registry.record_acts(&ledger, NOW_US).unwrap(), 1);
    let home = stage.home.clone();
    let folder = stage.into_folder();
    for file in [&db, &wal] {
        fs::copy(before.join(file.file_name().unwrap()), file).unwrap();
    }
    let _ = fs::remove_file(db.with_extension("db-shm"));
    let stage = Stage::on(home, folder);
    assert_eq!(stage.registry.record_acts(&ledger, NOW_US).unwrap(), 0);
    assert_eq!(notes(&stage).len(), 1);
    assert!(!store::registry::acts_wait_in(&db));
}

#[test]
fn a_change_that_fails_leaves_no_act() {
    let stage = Stage::new();
    assert!(stage.registry.revoke_grant("nobody", NOW_US).is_err());
    assert!(!store::registry::acts_wait_in(&stage.home.gate_db()));
    assert_eq!(stage.registry.record_acts(&ledger(&stage), NOW_US).unwrap(), 0);
}

#[test]
fn a_change_elsewhere_is_told_when_nobody_says_how_it_went() {
    let stage = Stage::new();
    let ledger = ledger(&stage);
    let begin = |act: &str| stage.registry.begin_act(act, "whoop", NOW_US).unwrap();
    let (done, refused, slow, left) =
        (begin("connect"), begin("disconnect"), begin("vault_moved"), begin("forget"));
    drop(left);
    assert_eq!(stage.registry.record_acts(&ledger, NOW_US + 1).unwrap(), 0, "they are under way");
    stage.registry.act_is_done(&done, "by hand", NOW_US).unwrap();
    stage.registry.act_did_not_happen(&refused).unwrap();
    assert_eq!(stage.registry.record_acts(&ledger, NOW_US + 1).unwrap(), 1);
    let later_us = NOW_US + 61_000_000;
    assert_eq!(stage.second().record_acts(&ledger, later_us).unwrap(), 2);
    stage.registry.act_is_done(&slow, "file to keyring", later_us).unwrap();
    assert_eq!(stage.registry.record_acts(&ledger, later_us).unwrap(), 1);
    let late =
        "begun at 2027-01-15T08:00:00.000000Z, by a command that ended before it said how it went";
    let row = |act: &str, words: &str| (act.to_owned(), words.to_owned());
    assert_eq!(
        notes(&stage),
        [
            row("connect", "by hand"),
            row("vault_moved", late),
            row("forget", late),
            row("vault_moved", "file to keyring"),
        ]
    );
}
