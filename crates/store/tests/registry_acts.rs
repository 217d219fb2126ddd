//! Acts of the owner on their way from `gate.db` into the audit log: each comes there once.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

#[path = "support/fixture.rs"]
mod fixture;

use fixture::{Fixture, NOW_US};
use store::clock::Clock;
use store::ledger::{EntryKind, Filter, Ledger, Options, Reader};

fn ledger(fixture: &Fixture) -> Ledger {
    Ledger::open(&fixture.home.audit(), Clock::System, Options::default()).unwrap()
}

fn notes(fixture: &Fixture) -> Vec<(String, String)> {
    let only = Filter { only: Some(EntryKind::Note), ..Filter::default() };
    let entries = Reader::open(&fixture.home.audit()).unwrap().oldest_first(&only).unwrap();
    let entries = entries.map(Result::unwrap).filter(|entry| entry.act != "clock");
    entries.map(|entry| (entry.act, entry.words)).collect()
}

#[test]
fn an_act_is_recorded_once_by_the_first_process() {
    let fixture = Fixture::new();
    fixture.add_builtin("demo");
    fixture.grant("alice", &[("demo", None)]);
    let ledger = ledger(&fixture);
    assert_eq!(fixture.second().record_acts(&ledger, NOW_US).unwrap(), 2);
    assert_eq!(fixture.registry.record_acts(&ledger, NOW_US).unwrap(), 0);
    let found = notes(&fixture);
    let [(first, _), (second, words)] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!([first, second], ["server_added", "grant_created"]);
    assert_eq!(
        words,
        "demo (no policy named); done at 2027-01-15T08:00:00.000000Z by a command that ended before it was recorded"
    );
}

#[test]
fn an_act_whose_row_was_written_before_the_kill_is_not_recorded_again() {
    let fixture = Fixture::new();
    fixture.add_builtin("demo");
    // What a process leaves that is killed between the row and the end of its transaction: the row is
    // there, and the registry is as it was before.
    fixture.save();
    let ledger = ledger(&fixture);
    assert_eq!(fixture.registry.record_acts(&ledger, NOW_US).unwrap(), 1);
    let fixture = fixture.restore();
    assert_eq!(fixture.registry.record_acts(&ledger, NOW_US).unwrap(), 0);
    assert_eq!(notes(&fixture).len(), 1);
    assert!(!store::registry::has_unrecorded_acts(&fixture.db()));
}

#[test]
fn a_change_that_fails_leaves_no_act() {
    let fixture = Fixture::new();
    assert!(fixture.registry.revoke_grant("unknown", NOW_US).is_err());
    assert!(!store::registry::has_unrecorded_acts(&fixture.db()));
    assert_eq!(fixture.registry.record_acts(&ledger(&fixture), NOW_US).unwrap(), 0);
}

#[test]
fn an_outside_change_is_recorded_even_without_its_result() {
    let fixture = Fixture::new();
    let ledger = ledger(&fixture);
    let begin = |act: &str| fixture.registry.begin_act(act, "whoop", NOW_US).unwrap();
    let (done, refused, slow, left) =
        (begin("connect"), begin("disconnect"), begin("vault_moved"), begin("forget"));
    drop(left);
    assert_eq!(fixture.registry.record_acts(&ledger, NOW_US + 1).unwrap(), 0, "they are under way");
    fixture.registry.finish_act(&done, "by hand", NOW_US).unwrap();
    fixture.registry.cancel_act(&refused).unwrap();
    assert_eq!(fixture.registry.record_acts(&ledger, NOW_US + 1).unwrap(), 1);
    let later_us = NOW_US + 61_000_000;
    assert_eq!(fixture.second().record_acts(&ledger, later_us).unwrap(), 2);
    fixture.registry.finish_act(&slow, "file to keyring", later_us).unwrap();
    assert_eq!(fixture.registry.record_acts(&ledger, later_us).unwrap(), 1);
    let late = "started at 2027-01-15T08:00:00.000000Z by a command that ended before it reported the result";
    let row = |act: &str, words: &str| (act.to_owned(), words.to_owned());
    assert_eq!(
        notes(&fixture),
        [
            row("connect", "by hand"),
            row("vault_moved", late),
            row("forget", late),
            row("vault_moved", "file to keyring"),
        ]
    );
}
