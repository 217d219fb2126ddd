//! Calls that are admitted in the same moment: one write for all, no permit before it, and the limits,
//! the numbers and the endings as if each had come alone.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use policy::{Denial, Policy};
use store::clock::Clock;
use store::ledger::{
    Admission, GroupedAdmission, Ledger, LedgerError, Note, Options, PendingPermit,
};

use super::support::{
    Dice, LedgerFixture, Mount, call, calls, facts, limited, ok, on_both, rounds, try_call, verdict,
};

fn many() -> Policy {
    limited(r#"{"counter":"c","window":"day","max":1000000}"#)
}

fn soon(ledger: &Ledger, rules: &Policy) -> Result<PendingPermit, Denial> {
    match ledger.admit_soon(&verdict(rules, "{}"), &facts()).unwrap() {
        GroupedAdmission::Pending(pending) => Ok(pending),
        GroupedAdmission::Now(Admission::Denied(denial)) => Err(denial),
        GroupedAdmission::Now(other) => panic!("{other:?}"),
    }
}

fn admitted(fixture: &LedgerFixture) -> usize {
    fixture.entries().iter().filter(|entry| entry.decision == "admitted").count()
}

on_both! {
fn a_call_that_is_alone_has_its_row_at_once(fixture) {
    let ledger = fixture.open();
    let soon = ledger.admit_soon(&verdict(&many(), "{}"), &facts()).unwrap();
    assert!(matches!(soon, GroupedAdmission::Now(Admission::Permit(_))), "{soon:?}");
    assert_eq!(admitted(&fixture), 1);
}
}

on_both! {
fn calls_that_come_together_are_in_the_log_before_anyone_has_a_permit(fixture) {
    let ledger = fixture.open();
    let company = try_call(&ledger, &many()).unwrap();
    let mut pending: Vec<_> = (0..4).map(|_| soon(&ledger, &many()).unwrap()).collect();
    assert_eq!(admitted(&fixture), 1, "not written yet");

    let first = pending.remove(0).write().unwrap();
    assert_eq!(admitted(&fixture), 5, "one write for all");
    let rows = fixture.reader().verify(None).unwrap().last_seq;
    let mut permits: Vec<_> = pending.into_iter().map(|call| call.write().unwrap()).collect();
    assert_eq!(fixture.reader().verify(None).unwrap().last_seq, rows, "and none of them twice");

    permits.extend([first, company]);
    let mut numbers: Vec<_> = permits.iter().map(store::ledger::Permit::seq).collect();
    numbers.sort_unstable();
    let mut entries: Vec<_> = fixture.entries().iter().map(|entry| entry.seq).collect();
    entries.sort_unstable();
    assert_eq!(numbers, entries);
    for permit in permits {
        permit.settle(&ok()).unwrap();
    }
    assert!(fixture.entries().iter().all(|entry| entry.outcome == "ok"));
}
}

on_both! {
fn the_next_write_writes_an_open_group_first(fixture) {
    let ledger = fixture.open();
    let _company = try_call(&ledger, &many()).unwrap();
    let writes: [fn(&Ledger); 3] = [
        |ledger| {
            ledger.note(&Note { act: "grant_created", ..Note::default() }).unwrap();
        },
        |ledger| {
            ledger.status().unwrap();
        },
        |ledger| drop(try_call(ledger, &many()).unwrap().settle_soon(&ok())),
    ];
    for write in writes {
        let before = admitted(&fixture);
        let pending = soon(&ledger, &many()).unwrap();
        write(&ledger);
        assert!(admitted(&fixture) > before, "it is in the log");
        pending.write().unwrap().settle(&ok()).unwrap();
    }
    fixture.reader().verify(None).unwrap();
}
}

on_both! {
fn a_limit_counts_pending_permits_and_a_denial_is_recorded_at_once(fixture) {
    let ledger = fixture.open();
    let rules = limited(r#"{"counter":"c","window":"minute","max":3}"#);
    let _company = try_call(&ledger, &rules).unwrap();
    let (second, third) = (soon(&ledger, &rules).unwrap(), soon(&ledger, &rules).unwrap());
    let denial = soon(&ledger, &rules).unwrap_err();
    let row =
        fixture.entries().into_iter().find(|entry| Some(entry.seq) == denial.audit_id).unwrap();
    assert_eq!(row.decision, "limited");
    assert_eq!(admitted(&fixture), 3, "its write took the others along");
    drop((second.write().unwrap(), third.write().unwrap()));
    fixture.reader().verify(None).unwrap();
}
}

on_both! {
fn a_dropped_pending_permit_is_recorded_and_still_counts(fixture) {
    let ledger = fixture.open();
    let rules = limited(r#"{"counter":"c","window":"minute","max":2}"#);
    let company = try_call(&ledger, &rules).unwrap();
    drop(soon(&ledger, &rules).unwrap());
    // On Postgres the ledger thread writes it, because a caller must not wait for the store.
    let last = fixture.soon(|entries| entries.pop().filter(|last| !last.outcome.is_empty()));
    assert_eq!((last.decision.as_str(), last.outcome.as_str()), ("admitted", "abandoned"));
    assert!(soon(&ledger, &rules).is_err(), "it may have happened");
    company.settle(&ok()).unwrap();
}
}

on_both! {
fn an_open_group_is_written_by_the_maintenance_thread(fixture) {
    let ledger = fixture.open();
    let _company = try_call(&ledger, &many()).unwrap();
    let pending = soon(&ledger, &many()).unwrap();
    // Another process waits for the same lock; it gets it although this process writes nothing more.
    let other = fixture.open();
    assert_eq!(admitted(&fixture), 2);
    assert!(call(&other, &many()));
    pending.write().unwrap().settle(&ok()).unwrap();
    fixture.reader().verify(None).unwrap();
}
}

#[test]
fn a_group_that_does_not_fit_on_the_disk_gives_no_permit() {
    let folder = tempfile::tempdir().unwrap();
    let Some(_mount) = Mount::tmpfs(folder.path(), "400k") else {
        println!("skipped: only root can mount a small file system");
        return;
    };
    let audit = folder.path().join("audit");
    let ledger = Ledger::open(&audit, Clock::System, Options::default()).unwrap();
    let company = try_call(&ledger, &many()).unwrap();
    let ballast = folder.path().join("ballast");
    // The page that the log ends in has room left, so a group has to be larger than that.
    let _ = fs::write(&ballast, vec![1; 500_000]);
    let pending: Vec<_> = (0..40).map(|_| soon(&ledger, &many()).unwrap()).collect();
    let before = calls(&audit).len();
    let mut kept = None;
    for (place, pending) in pending.into_iter().enumerate() {
        if place == 20 {
            kept = Some(pending);
            continue;
        }
        let error = pending.write().unwrap_err();
        assert!(matches!(error, LedgerError::Full(_)), "{error}");
    }
    assert_eq!(calls(&audit).len(), before, "no row of any of them");

    fs::remove_file(&ballast).unwrap();
    let again: Vec<_> = (0..40).map(|_| try_call(&ledger, &many()).unwrap()).collect();
    // One of the failed calls is only now let go: the number it had is another call's.
    drop(kept);
    let open = ledger.status().unwrap().open_calls;
    assert_eq!(open, again.len() + 1, "it ends no other call");
    for permit in again.into_iter().chain([company]) {
        permit.settle(&ok()).unwrap();
    }
    assert_eq!(ledger.status().unwrap().open_calls, 0);
    store::ledger::Reader::open(&audit).unwrap().verify(None).unwrap();
}

#[test]
fn a_limit_holds_among_threads_that_queue_write_and_drop() {
    for round in 0..rounds(6) {
        let fixture = LedgerFixture::new();
        let ledger = Arc::new(fixture.open());
        let rules = limited(r#"{"counter":"c","window":"day","max":60}"#);
        let _company = ledger.admit_without_policy(&facts()).unwrap();
        let allowed = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let (ledger, rules, allowed) = (&ledger, &rules, &allowed);
                let mut dice = Dice::new(thread + 1 + 4 * u64::try_from(round).unwrap());
                scope.spawn(move || {
                    let mut kept = Vec::new();
                    for _ in 0..40 {
                        match soon(ledger, rules) {
                            Ok(pending) => kept.push(pending),
                            Err(denial) => assert!(denial.audit_id.is_some()),
                        }
                        if dice.below(3) == 0 {
                            for pending in kept.drain(..) {
                                let permit = pending.write().unwrap();
                                allowed.fetch_add(1, Ordering::Relaxed);
                                match dice.below(3) {
                                    0 => permit.settle(&ok()).unwrap(),
                                    1 => permit.settle_soon(&ok()).write().unwrap(),
                                    _ => drop(permit),
                                }
                            }
                        }
                    }
                    allowed.fetch_add(kept.len(), Ordering::Relaxed);
                });
            }
        });
        assert_eq!(allowed.into_inner(), 60);
        let entries = fixture.entries();
        let count = |word: &str| entries.iter().filter(|entry| entry.decision == word).count();
        assert_eq!((count("admitted"), count("limited")), (60, 100));
        assert_eq!(ledger.status().unwrap().open_calls, 1, "all but the company ended");
        fixture.reader().verify(None).unwrap();
    }
}
