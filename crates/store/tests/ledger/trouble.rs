//! The store in trouble: no call is admitted, the error says what to do, and it goes on by itself
//! when the cause is gone.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::time::Duration;

use store::clock::Clock;
use store::ledger::{Ledger, LedgerError, Options};

use super::support::{LedgerFixture, Mount, call, facts, limited, ok, try_call, verdict};

fn rules() -> policy::Policy {
    limited(r#"{"counter":"c","window":"day","max":1000000}"#)
}

fn trouble(ledger: &Ledger) -> LedgerError {
    match ledger.admit(&verdict(&rules(), "{}"), &facts()) {
        Err(error) => error,
        Ok(admission) => panic!("{admission:?}"),
    }
}

/// In trouble: every admission fails and says what to do, first with these words. After `repair`: the
/// next one succeeds.
fn check(fixture: &LedgerFixture, ledger: &Ledger, words: &str, repair: impl FnOnce()) {
    for round in 0..3 {
        let error = trouble(ledger).to_string();
        assert!(round > 0 || error.contains(words), "{error}");
        assert!(error.contains("hint: "), "{error}");
    }
    repair();
    assert!(call(ledger, &rules()), "it goes on without a restart");
    fixture.reader().verify(None).unwrap();
}

fn begun() -> (LedgerFixture, Ledger) {
    let fixture = LedgerFixture::new();
    let ledger = fixture.open();
    for _ in 0..3 {
        assert!(call(&ledger, &rules()));
    }
    (fixture, ledger)
}

#[test]
fn a_log_that_was_moved_away_stops_everything_until_it_is_back() {
    let (fixture, ledger) = begun();
    let away = fixture.audit().join("away");
    fs::rename(fixture.segment(1), &away).unwrap();
    check(&fixture, &ledger, "is gone", || fs::rename(&away, fixture.segment(1)).unwrap());
}

#[test]
fn a_log_that_was_deleted_stops_everything_until_a_copy_is_back() {
    let (fixture, ledger) = begun();
    let bytes = fs::read(fixture.segment(1)).unwrap();
    fs::remove_file(fixture.segment(1)).unwrap();
    check(&fixture, &ledger, "is gone", || fs::write(fixture.segment(1), bytes).unwrap());
}

#[test]
fn a_copy_that_is_still_being_written_is_left_alone() {
    let (fixture, ledger) = begun();
    let bytes = fs::read(fixture.segment(1)).unwrap();
    fs::remove_file(fixture.segment(1)).unwrap();
    // Without the mark nothing tells that this much was flushed.
    fs::remove_file(fixture.audit().join("synced")).unwrap();
    let part = &bytes[..bytes.len() - 10];
    fs::write(fixture.segment(1), part).unwrap();
    trouble(&ledger);
    assert_eq!(fs::read(fixture.segment(1)).unwrap(), part);
    let mut copy = OpenOptions::new().append(true).open(fixture.segment(1)).unwrap();
    copy.write_all(&bytes[part.len()..]).unwrap();
    assert!(call(&ledger, &rules()));
    fixture.reader().verify(None).unwrap();
}

#[test]
fn a_folder_that_was_moved_away_stops_everything_until_it_is_back() {
    let (fixture, ledger) = begun();
    let away = fixture.audit().with_file_name("away");
    fs::rename(fixture.audit(), &away).unwrap();
    check(&fixture, &ledger, "is gone", || fs::rename(&away, fixture.audit()).unwrap());
}

#[test]
fn a_folder_that_was_put_back_from_a_copy_is_shared_with_others_as_before() {
    let (fixture, ledger) = begun();
    let away = fixture.audit().with_file_name("away");
    fs::rename(fixture.audit(), &away).unwrap();
    fs::create_dir(fixture.audit()).unwrap();
    // Only the files: empty folders are what copies lack first.
    for file in fs::read_dir(&away).unwrap().map(Result::unwrap).filter(|e| e.path().is_file()) {
        fs::copy(file.path(), fixture.audit().join(file.file_name())).unwrap();
    }
    fs::remove_dir_all(&away).unwrap();
    let open = try_call(&ledger, &rules()).unwrap();
    let other = fixture.open();
    open.settle(&ok()).unwrap();
    std::thread::scope(|scope| {
        for one in [&ledger, &other] {
            scope.spawn(|| (0..300).for_each(|_| assert!(call(one, &rules()))));
        }
    });
    fixture.reader().verify(None).unwrap();
    let endings: Vec<String> = fixture.entries().into_iter().map(|entry| entry.outcome).collect();
    assert_eq!((endings.len(), endings.iter().all(|ending| ending == "ok")), (604, true));
}

#[test]
fn another_file_in_its_place_stops_everything_until_it_is_gone() {
    let (fixture, ledger) = begun();
    let away = fixture.audit().join("away");
    fs::rename(fixture.segment(1), &away).unwrap();
    let other = begun();
    fs::copy(other.0.segment(1), fixture.segment(1)).unwrap();
    // The two chains may be equal up to here; this one goes on differently.
    fs::write(fixture.segment(1), b"nothing of ours\n").unwrap();
    check(&fixture, &ledger, "not the one that was being written", || {
        fs::rename(&away, fixture.segment(1)).unwrap();
    });
}

#[test]
fn an_older_copy_in_its_place_is_not_accepted() {
    let (fixture, ledger) = begun();
    let older = fs::read(fixture.segment(1)).unwrap();
    assert!(call(&ledger, &rules()));
    let newer = fs::read(fixture.segment(1)).unwrap();
    fs::remove_file(fixture.segment(1)).unwrap();
    fs::write(fixture.segment(1), older).unwrap();
    check(&fixture, &ledger, "not the one that was being written", || {
        fs::write(fixture.segment(1), newer).unwrap();
    });
}

#[test]
fn a_log_that_shrank_stops_everything_until_it_is_whole() {
    let (fixture, ledger) = begun();
    let bytes = fs::read(fixture.segment(1)).unwrap();
    let file = OpenOptions::new().write(true).open(fixture.segment(1)).unwrap();
    file.set_len(bytes.len() as u64 / 2).unwrap();
    check(&fixture, &ledger, "not the one that was being written", || {
        file.set_len(0).unwrap();
        (&file).write_all(&bytes).unwrap();
    });
}

#[test]
fn unknown_bytes_at_the_end_stop_writes_until_removed() {
    for garbage in [&b"garbage\n"[..], b"no newline", b"{\"kind\":\"decision\"}\n", &[0; 100]] {
        let (fixture, ledger) = begun();
        let size = fs::metadata(fixture.segment(1)).unwrap().len();
        let mut file = OpenOptions::new().append(true).open(fixture.segment(1)).unwrap();
        file.write_all(garbage).unwrap();
        check(&fixture, &ledger, "tollgate did not write", || file.set_len(size).unwrap());
    }
}

#[test]
fn half_a_row_of_a_killed_process_is_cut_off_without_a_restart() {
    let (fixture, ledger) = begun();
    let text = fs::read_to_string(fixture.segment(1)).unwrap();
    let half: String = text.lines().last().unwrap().chars().take(90).collect();
    let mut file = OpenOptions::new().append(true).open(fixture.segment(1)).unwrap();
    file.write_all(half.as_bytes()).unwrap();
    assert!(call(&ledger, &rules()));
    fixture.reader().verify(None).unwrap();
}

#[test]
fn a_lock_that_another_holds_is_waited_for_a_bounded_time() {
    let (fixture, ledger) = begun();
    let lock = File::open(fixture.audit()).unwrap();
    lock.lock().unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| trouble(&ledger).to_string());
        let error = waiting.join().unwrap();
        assert!(error.contains("another process has held the lock"), "{error}");
    });
    // Known to be stuck, later callers wait only briefly.
    check(&fixture, &ledger, "another process has held the lock", || lock.unlock().unwrap());
}

#[test]
fn a_short_lock_of_another_process_is_only_a_pause() {
    let (fixture, ledger) = begun();
    let lock = File::open(fixture.audit()).unwrap();
    lock.lock().unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| call(&ledger, &rules()));
        std::thread::sleep(Duration::from_millis(50));
        lock.unlock().unwrap();
        assert!(waiting.join().unwrap());
    });
}

#[test]
fn a_journal_that_vanished_is_not_begun_again() {
    let (fixture, ledger) = begun();
    drop(ledger);
    fs::remove_file(fixture.segment(1)).unwrap();
    let opened = Ledger::open(&fixture.audit(), fixture.clock.clone(), Options::default());
    assert!(matches!(opened, Err(LedgerError::Gone(_))));
}

#[test]
fn endings_that_could_not_be_written_are_written_later() {
    let (fixture, ledger) = begun();
    let [settled, dropped, together] = [(); 3].map(|()| try_call(&ledger, &rules()).unwrap());
    let away = fixture.audit().join("away");
    fs::rename(fixture.segment(1), &away).unwrap();
    assert!(settled.settle(&ok()).is_err());
    drop(dropped);
    assert!(together.settle_soon(&ok()).write().is_err());
    fs::rename(&away, fixture.segment(1)).unwrap();
    assert_eq!(ledger.status().unwrap().open_calls, 0);
    let outcomes: Vec<String> = fixture.entries().into_iter().map(|entry| entry.outcome).collect();
    assert_eq!(outcomes, ["ok", "ok", "ok", "ok", "abandoned", "ok"]);
}

#[test]
fn a_full_disk_stops_everything_until_there_is_space() {
    let folder = tempfile::tempdir().unwrap();
    let Some(_mount) = Mount::tmpfs(folder.path(), "400k") else {
        println!("skipped: only root can mount a small file system");
        return;
    };
    let audit = folder.path().join("audit");
    let options = Options { segment_bytes_max: 40_000, ..Options::default() };
    let ledger = Ledger::open(&audit, Clock::System, options).unwrap();
    let ballast = folder.path().join("ballast");
    fs::write(&ballast, vec![1; 250_000]).unwrap();
    let mut rows = 0;
    let error = loop {
        match ledger.admit(&verdict(&rules(), "{}"), &facts()) {
            Ok(_) => rows += 1,
            Err(error) => break error,
        }
        assert!(rows < 10_000, "it never filled up");
    };
    assert!(matches!(error, LedgerError::Full(_)), "{error}");
    assert!(error.to_string().contains("free some space"), "{error}");
    assert!(ledger.admit(&verdict(&rules(), "{}"), &facts()).is_err());
    fs::remove_file(&ballast).unwrap();
    assert!(call(&ledger, &rules()));
    store::ledger::Reader::open(&audit).unwrap().verify(None).unwrap();
    assert_eq!(ledger.status().unwrap().open_calls, 0, "pending outcomes were written");
}

#[test]
fn a_read_only_disk_stops_everything_until_it_is_writable() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mount) = Mount::tmpfs(folder.path(), "4m") else {
        println!("skipped: only root can mount a small file system");
        return;
    };
    let audit = folder.path().join("audit");
    {
        let ledger = Ledger::open(&audit, Clock::System, Options::default()).unwrap();
        assert!(call(&ledger, &rules()));
    }
    mount.remount("ro");
    let opened = Ledger::open(&audit, Clock::System, Options::default());
    let error = opened.unwrap_err().to_string();
    assert!(error.contains("cannot be written") && error.contains("hint: "), "{error}");
    mount.remount("rw");
    let ledger = Ledger::open(&audit, Clock::System, Options::default()).unwrap();
    assert!(call(&ledger, &rules()));
}
