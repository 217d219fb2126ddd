//! Reading back: forwards, backwards, by filter, as it grows, as files; and letting old rows go.

use std::fs;
use std::path::PathBuf;

use policy::Subject;
use store::ledger::{
    Admission, Checkpoint, EntryKind, ExportFormat, Facts, Filter, Ledger, Note, Options, Reader,
    Retention, Verified, VerifyError,
};

use super::support::{
    LedgerFixture, MINUTE_US, NOON, SECOND_US, facts, limited, ok, try_call, verdict,
};
use super::tamper::python;

const HOUR_US: i64 = 3_600_000_000;
const YEAR_US: i64 = 365 * 24 * HOUR_US;

fn rules() -> policy::Policy {
    limited(r#"{"counter":"c","window":"day","max":1000000}"#)
}

/// Small segments and 100 calls, a second apart, by two grants on two servers.
fn written() -> (LedgerFixture, Ledger) {
    let fixture = LedgerFixture::with(Options { segment_bytes_max: 4_000, ..Options::default() });
    let ledger = fixture.open();
    for call in 0..100 {
        let facts = Facts {
            grant: if call % 2 == 0 { "alice" } else { "bob" },
            server: if call % 5 == 0 { "shop" } else { "bank" },
            trace: (call == 42).then_some("NeedleInTheHay"),
            ..facts()
        };
        let Admission::Permit(permit) = ledger.admit(&verdict(&rules(), "{}"), &facts).unwrap()
        else {
            panic!("denied");
        };
        permit.settle(&ok()).unwrap();
        fixture.clock.advance(SECOND_US);
    }
    (fixture, ledger)
}

fn seqs(reader: &Reader, filter: &Filter) -> Vec<u64> {
    reader.oldest_first(filter).unwrap().map(|entry| entry.unwrap().seq).collect()
}

fn only_calls() -> Filter {
    Filter { only: Some(EntryKind::Call), ..Filter::default() }
}

#[test]
fn both_directions_tell_the_same_history() {
    let (fixture, _ledger) = written();
    let reader = fixture.reader();
    let forwards = seqs(&reader, &only_calls());
    assert_eq!(forwards.len(), 100);
    assert!(forwards.is_sorted());
    let backwards = reader.newest_first(&only_calls()).unwrap();
    let mut backwards: Vec<u64> = backwards.map(|entry| entry.unwrap().seq).collect();
    backwards.reverse();
    assert_eq!(forwards, backwards);
    assert!(
        reader.oldest_first(&only_calls()).unwrap().all(|entry| entry.unwrap().outcome == "ok")
    );
}

#[test]
fn the_newest_row_is_found_at_the_end_of_the_log() {
    let (fixture, ledger) = written();
    drop(ledger);
    let last = segments_of(&fixture).pop().unwrap();
    let text = fs::read_to_string(&last).unwrap();
    let number = |line: &str| -> u64 {
        let after = line.split_once("\"seq\":").unwrap().1;
        after.split_once(',').unwrap().0.parse().unwrap()
    };
    assert_eq!(fixture.reader().newest_seq().unwrap(), number(text.lines().last().unwrap()));
    // A row that is being written is none yet, and a segment may hold its state row alone.
    fs::write(&last, text.trim_end()).unwrap();
    let before = text.lines().rev().nth(1).unwrap();
    assert_eq!(fixture.reader().newest_seq().unwrap(), number(before));
    let state = text.lines().next().unwrap();
    for cut in [format!("{state}\n"), format!("{state}\n{{\"kind\"")] {
        fs::write(&last, cut).unwrap();
        assert_eq!(fixture.reader().newest_seq().unwrap(), number(state));
    }
}

#[test]
fn filters_find_what_they_say() {
    let (fixture, ledger) = written();
    ledger.note(&Note { act: "grant_revoked", about: "bob", ..Note::default() }).unwrap();
    let reader = fixture.reader();
    let all = seqs(&reader, &only_calls());
    let with = |change: &dyn Fn(&mut Filter)| {
        let mut filter = only_calls();
        change(&mut filter);
        seqs(&reader, &filter)
    };
    assert_eq!(with(&|f| f.grant = Some("bob".into())).len(), 50);
    assert_eq!(with(&|f| f.server = Some("shop".into())).len(), 20);
    assert_eq!(with(&|f| f.subject = Some("pay".into())).len(), 100);
    assert_eq!(with(&|f| f.subject = Some("pa".into())).len(), 0);
    assert_eq!(with(&|f| f.decision = Some("denied".into())).len(), 0);
    assert_eq!(with(&|f| f.outcome = Some("ok".into())).len(), 100);
    assert_eq!(with(&|f| f.text = Some("needleinthehay".into())), [all[42]]);
    assert_eq!(with(&|f| f.seq_min = Some(all[90])), all[90..]);
    assert_eq!(with(&|f| f.seq_max = Some(all[9])), all[..10]);
    let at = |second: i64| NOON.wall_us + second * 1_000_000;
    let span = Filter { since_us: Some(at(30)), until_us: Some(at(40)), ..only_calls() };
    assert_eq!(seqs(&reader, &span), all[30..40]);
    assert_eq!(seqs(&reader, &Filter { since_us: Some(at(98)), ..only_calls() }), all[98..]);
    let notes = |text: &str| Filter {
        only: Some(EntryKind::Note),
        text: Some(text.into()),
        ..Filter::default()
    };
    assert_eq!(seqs(&reader, &notes("grant_revoked")).len(), 1);
    let about = "C:\\new \"x\"\u{1b}\u{202e}";
    ledger.note(&Note { act: "odd", about, ..Note::default() }).unwrap();
    for text in [about, "c:\\NEW", "\"x\"", "\u{1b}", "\u{202e}", "\"act\":\"odd\""] {
        assert_eq!(seqs(&reader, &notes(text)).len(), 1, "{text:?}");
    }
    assert_eq!(reader.entry(all[77]).unwrap().unwrap().seq, all[77]);
    assert_eq!(reader.entry(1_000_000).unwrap(), None);
}

#[test]
fn a_span_is_found_after_the_clock_was_set() {
    for set_to in [NOON.wall_us + YEAR_US, NOON.wall_us - YEAR_US] {
        let fixture =
            LedgerFixture::with(Options { segment_bytes_max: 2_000, ..Options::default() });
        let ledger = fixture.open();
        let call = || {
            try_call(&ledger, &rules()).unwrap().settle(&ok()).unwrap();
            fixture.clock.advance(SECOND_US);
        };
        (0..40).for_each(|_| call());
        fixture.clock.set_wall(set_to);
        (0..40).for_each(|_| call());
        let after = NOON.wall_us + HOUR_US;
        fixture.clock.set_wall(after);
        (0..40).for_each(|_| call());
        let reader = fixture.reader();
        let all = seqs(&reader, &only_calls());
        let at = |second: i64| Some(after + second * 1_000_000);
        let span =
            |since_us, until_us| seqs(&reader, &Filter { since_us, until_us, ..only_calls() });
        assert_eq!(span(at(10), at(20)), all[90..100]);
        let then = |second: i64| Some(set_to + second * 1_000_000);
        assert_eq!(span(then(10), then(20)), all[50..60]);
    }
}

/// Takes the segment after the first away as soon as rows of that one have come.
struct RemovingWriter(LedgerFixture, u64);

impl std::io::Write for RemovingWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let _ = fs::remove_file(self.0.segment(2));
        self.1 += 1;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_chain_retired_during_its_export_does_not_verify_as_complete() {
    let (fixture, _ledger) = written();
    let reader = fixture.reader();
    let mut out = RemovingWriter(fixture, 0);
    let error = reader.export(ExportFormat::Chain, &Filter::default(), &mut out).unwrap_err();
    assert!(error.to_string().contains("retired during the export"), "{error}");
    // What is gone before anything was written leaves a chain that begins later.
    fs::remove_file(out.0.segment(1)).unwrap();
    reader.export(ExportFormat::Chain, &Filter::default(), &mut out).unwrap();
}

#[test]
fn a_call_that_is_open_for_long_is_joined_with_its_ending() {
    let fixture = LedgerFixture::with(Options { segment_bytes_max: 2_000, ..Options::default() });
    let ledger = fixture.open();
    let long = try_call(&ledger, &rules()).unwrap();
    let (seq, open) = (long.seq(), try_call(&ledger, &rules()).unwrap());
    for _ in 0..100 {
        try_call(&ledger, &rules()).unwrap().settle(&ok()).unwrap();
    }
    long.settle(&ok()).unwrap();
    for _ in 0..30 {
        try_call(&ledger, &rules()).unwrap().settle(&ok()).unwrap();
    }
    assert!(ledger.status().unwrap().segment > 10);
    assert_eq!(fixture.reader().entry(seq).unwrap().unwrap().outcome, "ok");
    assert_eq!(fixture.reader().entry(open.seq()).unwrap().unwrap().outcome, "");
    let entries = fixture.entries();
    assert_eq!(entries.iter().filter(|entry| entry.outcome == "ok").count(), 131);
}

#[test]
fn a_follower_sees_each_entry_once_when_it_is_finished() {
    let (fixture, ledger) = written();
    let mut follower = fixture.reader().follow().unwrap();
    assert!(follower.poll().unwrap().is_empty());
    let open = try_call(&ledger, &rules()).unwrap();
    let open_seq = open.seq();
    for _ in 0..30 {
        try_call(&ledger, &rules()).unwrap().settle(&ok()).unwrap();
    }
    assert_eq!(follower.poll().unwrap().len(), 30, "over several segments");
    assert!(follower.poll().unwrap().is_empty());
    let mut late = fixture.reader().follow().unwrap();
    open.settle(&ok()).unwrap();
    for follower in [&mut follower, &mut late] {
        let found = follower.poll().unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].seq, found[0].outcome.as_str()), (open_seq, "ok"));
    }
}

#[test]
fn exports_hold_everything_and_nothing_harmful() {
    let fixture = LedgerFixture::new();
    let ledger = fixture.open();
    let facts = Facts {
        grant: "=cmd|' /C calc'!A0",
        subject: Some(Subject::Tool("say \"hi\",\nok")),
        ..facts()
    };
    let Admission::Permit(permit) = ledger.admit(&verdict(&rules(), "{}"), &facts).unwrap() else {
        panic!("denied");
    };
    permit.settle(&ok()).unwrap();
    let export = |format| {
        let mut out = Vec::new();
        let count = fixture.reader().export(format, &only_calls(), &mut out).unwrap();
        (count, String::from_utf8(out).unwrap())
    };
    let (count, jsonl) = export(ExportFormat::Jsonl);
    assert_eq!((count, jsonl.lines().count()), (1, 1));
    let json: serde_json::Value = serde_json::from_str(&jsonl).unwrap();
    assert_eq!(json["grant"], "=cmd|' /C calc'!A0");
    assert_eq!(
        (json["decision"].as_str(), json["outcome"].as_str()),
        (Some("admitted"), Some("ok"))
    );
    let (count, csv) = export(ExportFormat::Csv);
    assert_eq!(count, 1);
    assert!(csv.starts_with("seq,time,kind,grant,"));
    assert!(csv.contains(",\"'=cmd|' /C calc'!A0\","), "{csv}");
    assert!(csv.contains("\"say \"\"hi\"\",\nok\""), "{csv}");
    let (count, chain) = export(ExportFormat::Chain);
    assert_eq!(chain, fs::read_to_string(fixture.segment(1)).unwrap());
    assert_eq!(usize::try_from(count).unwrap(), chain.lines().count());
}

#[test]
fn old_rows_go_by_age_and_what_stays_verifies() {
    let (fixture, ledger) = written();
    let checkpoint = ledger.checkpoint().unwrap();
    drop(ledger);
    let segments = || {
        fs::read_dir(fixture.audit())
            .unwrap()
            .filter(|e| e.as_ref().unwrap().path().extension().is_some_and(|e| e == "log"))
            .count()
    };
    let before = segments();
    let retention = Retention { age_seconds_max: Some(60), bytes_max: None };
    let ledger = retiring(&fixture, retention);
    let verified = fixture.reader().verify(Some(&checkpoint)).unwrap();
    let retired = verified.retired.unwrap();
    assert!(segments() < before && segments() > 1);
    assert_eq!(verified.first_seq, retired.last_seq + 1);
    let oldest = fixture.entries().remove(0);
    let age_us = ledger.time(fixture.clock.now()) - oldest.tick;
    assert!(age_us > 55 * SECOND_US && age_us < 70 * SECOND_US, "{age_us}");

    // Rows removed from the beginning by anything else are noticed.
    let first = verified.first_seq;
    let path = fs::read_dir(fixture.audit()).unwrap().map(|e| e.unwrap().path());
    let oldest = path.filter(|p| p.extension().is_some_and(|e| e == "log")).min().unwrap();
    fs::remove_file(oldest).unwrap();
    match fixture.reader().verify(None) {
        Err(VerifyError::Found(finding)) => {
            assert!(finding.words.contains("no row says that they were retired"), "{finding}");
        }
        other => panic!("row {first} is gone: {other:?}"),
    }
}

/// Opens a ledger that lets rows go and makes it close a segment, when it looks at them.
fn retiring(fixture: &LedgerFixture, retention: Retention) -> Ledger {
    let options = Options { retention, ..fixture.options.clone() };
    let ledger = Ledger::open(&fixture.audit(), fixture.clock.clone(), options).unwrap();
    let before = ledger.status().unwrap().segment;
    let done = (0..200).any(|_| {
        try_call(&ledger, &rules()).unwrap().settle(&ok()).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(5));
        ledger.status().unwrap().segment > before
    });
    assert!(done);
    std::thread::sleep(std::time::Duration::from_millis(100));
    ledger
}

#[test]
fn old_rows_go_by_size_but_never_those_of_an_open_call() {
    let (fixture, ledger) = written();
    let open = try_call(&ledger, &rules()).unwrap();
    for _ in 0..30 {
        try_call(&ledger, &rules()).unwrap().settle(&ok()).unwrap();
    }
    let size = || -> u64 {
        let logs = fs::read_dir(fixture.audit()).unwrap().map(|e| e.unwrap());
        logs.filter(|e| e.path().extension().is_some_and(|x| x == "log"))
            .map(|e| e.metadata().unwrap().len())
            .sum()
    };
    let retention = Retention { age_seconds_max: None, bytes_max: Some(1) };
    let retiring_ledger = retiring(&fixture, retention);
    fixture.reader().verify(None).unwrap();
    assert_eq!(fixture.reader().entry(open.seq()).unwrap().unwrap().decision, "admitted");
    let with_open = size();
    open.settle(&ok()).unwrap();
    drop(retiring_ledger);
    let _retiring = retiring(&fixture, retention);
    assert!(size() < with_open);
    fixture.reader().verify(None).unwrap();
    assert!(call_counts(&fixture, &ledger), "counters outlive the rows they came from");
}

type Expected = fn(&Result<Verified, VerifyError>) -> bool;

/// A row that is gone tells nothing any more, unless what is left tells the hash it had.
#[test]
fn a_checkpoint_of_a_retired_row_needs_its_hash_in_the_log() {
    let (fixture, ledger) = written();
    let newest = ledger.checkpoint().unwrap();
    let first = fixture.reader().verify(None).unwrap();
    drop(ledger);
    // Rows are retired more than once, so that the end of the former ones is told by a row alone.
    let mut ends = Vec::new();
    while ends.len() < 2 {
        fixture.clock.advance(20 * SECOND_US);
        drop(retiring(&fixture, Retention { age_seconds_max: Some(60), bytes_max: None }));
        let verified = fixture.reader().verify(None).unwrap();
        ends.extend(verified.retired.filter(|now| ends.last().is_none_or(|last| last != now)));
    }
    let text: String =
        segments_of(&fixture).iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    let told = |seq: u64| -> String {
        let (_, after) = text.split_once(&format!("\"last_seq\":{seq},\"last_hash\":\"")).unwrap();
        after.get(..64).unwrap().to_owned()
    };
    let at = |seq: u64, hash: String| Checkpoint { seq, hash, ..newest.clone() };
    let nothing = || "0".repeat(64);
    let (former, last) = (ends[0].last_seq, ends[1].last_seq);
    let holds: Expected = |found| found.is_ok();
    let unproven: Expected =
        |found| matches!(found, Err(VerifyError::Unproven(log)) if log.retired.is_some());
    let rewritten: Expected = |found| matches!(found, Err(VerifyError::Found(_)));
    let cases = [
        (newest.clone(), holds),
        (at(last, told(last)), holds),
        (at(former, told(former)), holds),
        (at(last, nothing()), rewritten),
        (at(former, nothing()), rewritten),
        (at(former - 1, nothing()), unproven),
        (at(1, first.ledger.clone()), unproven),
        (at(newest.seq + 100_000, nothing()), rewritten),
        (Checkpoint { ledger: nothing(), ..at(former, told(former)) }, rewritten),
        (Checkpoint { ledger: nothing(), ..at(former - 1, nothing()) }, rewritten),
    ];
    for (checkpoint, expected) in cases {
        let found = fixture.reader().verify(Some(&checkpoint));
        assert!(expected(&found), "{checkpoint:?}: {found:?}");
        let (agrees, said) = python(&fixture.audit(), Some(&checkpoint));
        assert_eq!(agrees, found.is_ok(), "{checkpoint:?}: {said}");
    }
}

/// Segments in order.
fn segments_of(fixture: &LedgerFixture) -> Vec<PathBuf> {
    let files = fs::read_dir(fixture.audit()).unwrap().map(|entry| entry.unwrap().path());
    let mut logs: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|e| e == "log")).collect();
    logs.sort();
    logs
}

/// A log whose oldest segments were retired: all that were there before under other names, and what is
/// left. None when a segment came and went in between, as it may on a busy machine.
fn retired() -> Option<(LedgerFixture, Vec<PathBuf>, Vec<PathBuf>)> {
    let (fixture, ledger) = written();
    drop(ledger);
    let first = segments_of(&fixture).remove(0);
    let mut before = Vec::new();
    for _ in 0..50 {
        before = segments_of(&fixture);
        // Another name for each, so that what is still written to the newest one is kept, too.
        for path in before.iter().filter(|path| !kept(path).exists()) {
            fs::hard_link(path, kept(path)).unwrap();
        }
        drop(retiring(&fixture, Retention { age_seconds_max: None, bytes_max: Some(1) }));
        // On a busy machine the ledger may be closed before it comes to that.
        if !first.exists() {
            break;
        }
    }
    let left = segments_of(&fixture);
    let number = |path: &PathBuf| path.file_stem()?.to_str()?.parse::<u64>().ok();
    let follows = number(left.first()?)? <= number(before.last()?)? + 1;
    follows.then_some((fixture, before, left))
}

fn kept(path: &std::path::Path) -> PathBuf {
    path.with_extension("log.kept")
}

#[test]
fn a_kill_during_retention_leaves_a_log_that_verifies() {
    let (fixture, before, left) = (0..20).find_map(|_| retired()).unwrap();
    let gone = before.iter().rev().skip_while(|path| left.contains(path));
    let mut last_first_seq = u64::MAX;
    // As if the removal had been cut short before this one, and the one before, and so on.
    for path in gone {
        fs::copy(kept(path), path).unwrap();
        let verified = fixture.reader().verify(None).unwrap();
        assert!(verified.first_seq < last_first_seq);
        assert_eq!(verified.retired.is_none(), verified.first_seq == 1);
        let (agrees, said) = python(&fixture.audit(), None);
        assert!(agrees, "{said}");
        last_first_seq = verified.first_seq;
    }
    // How many went before the ledger was closed is the machine's business; the first did.
    assert_eq!(last_first_seq, 1);
    fs::remove_file(&segments_of(&fixture)[1]).unwrap();
    assert!(fixture.reader().verify(None).is_err(), "a hole is no beginning");
}

#[test]
fn a_stopped_follower_continues_after_retired_rows() {
    let (fixture, ledger) = written();
    let mut follower = fixture.reader().follow().unwrap();
    drop(ledger);
    let behind = segments_of(&fixture).pop().unwrap();
    let retention = Retention { age_seconds_max: None, bytes_max: Some(1) };
    let gone = (0..50).any(|_| {
        drop(retiring(&fixture, retention));
        !behind.exists()
    });
    assert!(gone, "where it was is still there");
    follower.poll().unwrap();
    let ledger = fixture.open();
    let permit = try_call(&ledger, &rules()).unwrap();
    let seq = permit.seq();
    permit.settle(&ok()).unwrap();
    let found = follower.poll().unwrap();
    assert!(found.iter().any(|entry| entry.seq == seq && entry.outcome == "ok"), "{found:?}");
}

fn call_counts(fixture: &LedgerFixture, ledger: &Ledger) -> bool {
    let admitted = try_call(ledger, &limited(r#"{"counter":"c","window":"day","max":80}"#)).is_ok();
    fixture.clock.advance(MINUTE_US);
    !admitted
}
