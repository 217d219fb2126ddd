//! `data.db` as a file: private, forgotten without a trace, upgraded after a copy, refused when it is
//! damaged or newer, whole after a kill and on a full disk.
#![allow(clippy::print_stdout, reason = "the figures of a promise are for people")]

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rusqlite::Connection;
use store::home::Home;
use store::records::{Records, RecordsError, RunEnd, Window};

use super::fixture::{Dice, Fixture, TestRecord, bytes_of, holds, lasting_bytes_of};
use super::interrupted_create::leave_interrupted_create;

const HOME: &str = "TOLLGATE_TEST_RECORDS";
const PLANTED: &str = "PLANTED-heart-rate-of-the-owner";

#[test]
fn the_database_and_its_log_are_private() {
    let fixture = Fixture::new();
    fixture.store(&TestRecord::new("cycles", "1", 0, None));
    for (path, _) in bytes_of(fixture.home.path()) {
        let mode = platform::private::bits(&fs::metadata(&path).unwrap());
        assert_eq!(mode, 0o600, "{}", path.display());
    }
}

/// Records with the planted words in every place that is written.
fn plant(fixture: &Fixture, service: &str) {
    let records = &fixture.records;
    for version in 1..4 {
        let kept: Vec<TestRecord> = (0..300)
            .map(|n| TestRecord {
                parent: Some(format!("{PLANTED}-parent")),
                ..TestRecord::new("cycles", &format!("{PLANTED}-{n}"), n, Some(n + 1))
                    .version(version, &PLANTED.repeat(1 + usize::try_from(n % 90).unwrap()))
                    .in_state(PLANTED)
            })
            .collect();
        let page: Vec<_> = kept.iter().map(TestRecord::incoming).collect();
        records.upsert(service, &page).unwrap();
    }
    records.remove(service, "cycles", &[format!("{PLANTED}-7")], 1).unwrap();
    records.cover(service, "cycles", 0, 10).unwrap();
    records.state_put(service, PLANTED, PLANTED).unwrap();
    let run = records.run_begin(service, PLANTED, 1, Some(PLANTED)).unwrap();
    let end = RunEnd { status: PLANTED, error: Some(PLANTED), ..RunEnd::default() };
    records.run_end(run, &end).unwrap();
}

#[test]
fn deleted_values_are_in_no_file() {
    let fixture = Fixture::new();
    plant(&fixture, "forgotten");
    fixture.store(&TestRecord::new("cycles", "kept", 0, None));
    fs::write(fixture.home.backups().join("data-schema1-1.db"), PLANTED).unwrap();
    fs::write(fixture.home.backups().join("gate-schema1-1.db"), "another's").unwrap();
    fs::write(fixture.home.path().join("data.db.import-killed"), PLANTED).unwrap();
    assert!(bytes_of(fixture.home.path()).iter().any(|(_, bytes)| holds(bytes, PLANTED)));
    // A second process has read them and keeps its connection.
    let other = fixture.second();
    assert_eq!(other.count("forgotten", "cycles").unwrap(), 299);

    assert_eq!(fixture.records.forget("forgotten").unwrap(), 299);

    let files = bytes_of(fixture.home.path());
    for (path, bytes) in &files {
        assert!(!holds(bytes, "PLANTED"), "{}", path.display());
        assert!(!holds(bytes, "forgotten"), "{}", path.display());
    }
    println!("P31: 299 records forgotten, 0 planted words in {} files", files.len());
    assert!(fixture.home.backups().join("gate-schema1-1.db").exists());
    assert_eq!(fixture.ids("cycles", &Window::default()), ["kept"]);
    assert_eq!(other.counts("forgotten").unwrap(), []);
    assert_eq!(fixture.records.forget("forgotten").unwrap(), 0, "again does no harm");
    fixture.records.check().unwrap();
}

#[test]
fn a_reader_that_keeps_the_old_pages_is_told_of() {
    let fixture = Fixture::new();
    plant(&fixture, "forgotten");
    let held = Connection::open(fixture.records.path()).unwrap();
    held.execute_batch("BEGIN; SELECT count(*) FROM record").unwrap();
    let held_rows: i64 = held.query_row("SELECT count(*) FROM record", [], |r| r.get(0)).unwrap();
    assert_eq!(held_rows, 299);
    let error = fixture.records.forget("forgotten").unwrap_err();
    assert!(matches!(error, RecordsError::StillRead | RecordsError::Locked), "{error}");
    drop(held);
    fixture.records.forget("forgotten").unwrap();
    assert!(!bytes_of(fixture.home.path()).iter().any(|(_, bytes)| holds(bytes, "PLANTED")));
}

/// A home whose `data.db` has these bytes.
fn home_with(bytes: &[u8]) -> (tempfile::TempDir, Home) {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::create(&folder.path().join("home")).unwrap();
    fs::write(home.path().join("data.db"), bytes).unwrap();
    (folder, home)
}

fn database(make: impl FnOnce(&Connection)) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("some.db");
    let db = Connection::open(&path).unwrap();
    make(&db);
    drop(db);
    fs::read(&path).unwrap()
}

#[test]
fn a_file_whose_creation_was_interrupted_is_created_again() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::create(&folder.path().join("home")).unwrap();
    let path = home.path().join("data.db");
    leave_interrupted_create(&path);
    let records = Records::open(&home).unwrap();
    assert_eq!(records.counts("whoop").unwrap(), []);
    records.state_put("whoop", "key", "value").unwrap();
    records.check().unwrap();
}

/// Opening fails with these words and changes nothing.
fn check_refused(bytes: &[u8], words: &str) {
    let (_folder, home) = home_with(bytes);
    let error = Records::open(&home).unwrap_err().to_string();
    assert!(error.contains(words) && error.contains("hint: "), "{error}");
    assert!(fs::read(home.path().join("data.db")).unwrap() == bytes, "not a byte was changed");
    assert_eq!(fs::read_dir(home.backups()).unwrap().count(), 0);
}

#[test]
fn files_that_are_not_ours_are_refused_and_stay_as_they_are() {
    check_refused("not a database ".repeat(1000).as_bytes(), "is damaged");
    check_refused(
        &database(|db| db.execute_batch("CREATE TABLE t (x)").unwrap()),
        "not tollgate's",
    );
    let newer = database(|db| {
        db.execute_batch(
            "CREATE TABLE record (x); PRAGMA application_id = 1953260660; PRAGMA user_version = 999",
        )
        .unwrap();
    });
    check_refused(&newer, "newer tollgate (schema 999");
    println!("P33: a damaged, a foreign and a newer database refused, 0 bytes changed");
}

#[test]
fn a_newer_file_stays_as_it_is_even_with_pages_in_its_log() {
    let fixture = Fixture::new();
    fixture.store(&TestRecord::new("cycles", "1", 0, None));
    let path = fixture.records.path().to_owned();
    let newer = Connection::open(&path).unwrap();
    newer.pragma_update(None, "user_version", 2).unwrap();
    let before = lasting_bytes_of(fixture.home.path());
    let error = Records::open(&fixture.home).unwrap_err();
    assert!(matches!(error, RecordsError::Newer { found: 2, known: 1, .. }), "{error}");
    assert!(before == lasting_bytes_of(fixture.home.path()), "not a byte was changed");
}

#[test]
fn a_file_damaged_in_the_middle_is_not_written_to() {
    let fixture = Fixture::new();
    plant(&fixture, "svc");
    let Fixture { home, records, folder } = fixture;
    drop(records);
    let path = home.path().join("data.db");
    // Everything into the file itself, so that no log hides the damage.
    Connection::open(&path).unwrap().execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2 / 4096 * 4096;
    bytes[middle..middle + 4096 * 8].fill(0xA5);
    fs::write(&path, &bytes).unwrap();

    let records = Records::open(&home).unwrap();
    let error =
        records.upsert("svc", &[TestRecord::new("cycles", "1", 0, None).incoming()]).unwrap_err();
    assert!(matches!(error, RecordsError::Corrupt(_)), "{error}");
    assert!(matches!(records.check(), Err(RecordsError::Corrupt(_))));
    drop(records);
    assert!(fs::read(&path).unwrap() == bytes, "not a byte was changed");
    drop(folder);
}

#[test]
fn a_file_that_vanishes_is_missed_and_another_in_its_place_is_used() {
    let fixture = Fixture::new();
    fixture.store(&TestRecord::new("cycles", "1", 0, None));
    let path = fixture.records.path().to_owned();
    Connection::open(&path).unwrap().execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    let away = fixture.path("away.db");
    fs::rename(&path, &away).unwrap();
    assert!(matches!(fixture.records.count("svc", "cycles"), Err(RecordsError::Vanished(_))));
    let page = [TestRecord::new("cycles", "2", 0, None)];
    let kept = fixture.records.upsert("svc", &[page[0].incoming()]);
    assert!(matches!(kept, Err(RecordsError::Vanished(_))), "{kept:?}");
    fs::copy(&away, &path).unwrap();
    assert_eq!(fixture.records.count("svc", "cycles").unwrap(), 1);
    fixture.store(&page[0]);
    assert_eq!(fixture.records.count("svc", "cycles").unwrap(), 2);
}

#[test]
fn many_processes_may_start_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::create(&folder.path().join("home")).unwrap();
    std::thread::scope(|scope| {
        for n in 0..8 {
            let home = &home;
            scope.spawn(move || {
                let records = Records::open(home).unwrap();
                let record = TestRecord::new("cycles", &format!("{n}"), n, None);
                records.upsert("svc", &[record.incoming()]).unwrap();
            });
        }
    });
    assert_eq!(Records::open(&home).unwrap().count("svc", "cycles").unwrap(), 8);
}

/// Not a test of its own: other tests start this binary again to run it as a process. It keeps pages
/// and notes after each that it is covered.
#[test]
fn a_process_that_keeps_pages_until_it_is_killed() {
    let Some(home) = std::env::var_os(HOME) else { return };
    let records = Records::open(&Home::open(Path::new(&home)).unwrap()).unwrap();
    let begin = records.coverage("svc", "cycles").unwrap().last().map_or(0, |(_, to)| *to);
    for page in begin.. {
        let kept: Vec<TestRecord> = (0..25)
            .map(|n| {
                let at = page * 25 + n;
                TestRecord::new("cycles", &format!("{at}"), at, Some(at + 1))
                    .version(1, &"x".repeat(900))
            })
            .collect();
        let page_rows: Vec<_> = kept.iter().map(TestRecord::incoming).collect();
        if let Err(error) = records.upsert("svc", &page_rows) {
            eprintln!("SAID {error}");
            return;
        }
        records.cover("svc", "cycles", page, page + 1).unwrap();
    }
}

fn start(home: &Home, before: &str) -> Child {
    let test = std::env::current_exe().unwrap();
    let arguments = "--exact files::a_process_that_keeps_pages_until_it_is_killed --nocapture";
    Command::new("sh")
        .arg("-c")
        .arg(format!("{before} exec '{}' {arguments}", test.display()))
        .env(HOME, home.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn a_process_killed_in_mid_sync_leaves_whole_pages_and_the_next_one_goes_on() {
    let fixture = Fixture::new();
    let mut dice = Dice(9);
    let mut pages = 0;
    for _ in 0..12 {
        let mut child = start(&fixture.home, "");
        std::thread::sleep(Duration::from_millis(30 + dice.below(120)));
        child.kill().unwrap();
        child.wait().unwrap();
        let count = i64::try_from(fixture.records.count("svc", "cycles").unwrap()).unwrap();
        assert_eq!(count % 25, 0, "a page is there whole or not at all");
        let covered = fixture.records.coverage("svc", "cycles").unwrap();
        let covered = covered.last().map_or(0, |(_, to)| *to);
        assert!(covered * 25 <= count, "what counts as fetched is here");
        assert!(covered >= pages, "nothing is lost");
        pages = covered;
    }
    assert!(pages > 10, "there was load: {pages} pages");
    fixture.records.check().unwrap();
}

#[test]
fn a_full_disk_is_reported_and_keeps_the_old_file() {
    let fixture = Fixture::new();
    fixture.store(&TestRecord::new("sleeps", "before", 0, None));
    // Files of this process may not grow beyond 400 blocks of 512 bytes.
    let child = start(&fixture.home, "trap '' XFSZ; ulimit -f 400;");
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("SAID") && said.contains("hint: "), "{said}");
    assert!(said.contains("cannot be read or written") || said.contains("disk is full"), "{said}");
    assert_eq!(fixture.records.count("svc", "sleeps").unwrap(), 1);
    assert_eq!(fixture.records.count("svc", "cycles").unwrap() % 25, 0);
    fixture.records.check().unwrap();
    fixture.store(&TestRecord::new("sleeps", "after", 0, None));
}
