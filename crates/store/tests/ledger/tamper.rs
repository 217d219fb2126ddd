//! An edit, a deletion, a swap, an insertion, a truncation or a roll-back is found and the first bad
//! record is named; a program in another language agrees.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use store::ledger::{Checkpoint, ExportFormat, Filter, Options, Reader, Verified, VerifyError};

use super::support::{Dice, LedgerFixture, call, limited};

/// A log of several segments with calls, denials and notes.
fn written() -> (LedgerFixture, Checkpoint) {
    let fixture = LedgerFixture::with(Options { segment_bytes_max: 3_000, ..Options::default() });
    let ledger = fixture.open();
    let rules = limited(r#"{"counter":"c","window":"minute","max":3}"#);
    for _ in 0..40 {
        call(&ledger, &rules);
        fixture.clock.advance(7_000_000);
    }
    drop(ledger);
    // A full segment may be closed in the background; the checkpoint is to be of the very last row.
    loop {
        let checkpoint = fixture.open().checkpoint().unwrap();
        if checkpoint.seq == Log::read(&fixture.audit()).last_seq() {
            return (fixture, checkpoint);
        }
    }
}

fn verify(audit: &Path, checkpoint: Option<&Checkpoint>) -> Result<Verified, VerifyError> {
    Reader::open(audit)?.verify(checkpoint)
}

pub(super) fn python(audit: &Path, checkpoint: Option<&Checkpoint>) -> (bool, String) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/verify_chain.py");
    let mut command = Command::new("python3");
    command.arg(script).arg(audit);
    if let Some(checkpoint) = checkpoint {
        let path = audit.join("checkpoint.json");
        fs::write(&path, serde_json::to_vec(checkpoint).unwrap()).unwrap();
        command.arg(path);
    }
    let output = command.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

fn copy(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

/// The log as a list of segments, each a list of lines.
#[derive(Clone)]
struct Log {
    folder: PathBuf,
    segments: Vec<(PathBuf, Vec<String>)>,
}

impl Log {
    fn read(folder: &Path) -> Log {
        let mut paths: Vec<PathBuf> =
            fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
        paths.retain(|path| path.extension().is_some_and(|e| e == "log"));
        paths.sort();
        let lines =
            |path: &PathBuf| fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect();
        let segments = paths.into_iter().map(|path| (path.clone(), lines(&path))).collect();
        Log { folder: folder.to_owned(), segments }
    }

    fn write(&self) {
        for (path, lines) in &self.segments {
            let mut text = lines.join("\n");
            text.push_str(if lines.is_empty() { "" } else { "\n" });
            fs::write(path, text).unwrap();
        }
    }

    /// A random line: its segment, its place, its sequence number.
    fn pick(&self, dice: &mut Dice) -> (usize, usize, u64) {
        let segment = usize::try_from(dice.below(self.segments.len() as u64)).unwrap();
        let lines = &self.segments[segment].1;
        let line = usize::try_from(dice.below(lines.len() as u64)).unwrap();
        (segment, line, seq(&lines[line]))
    }

    fn last_seq(&self) -> u64 {
        seq(self.segments.last().unwrap().1.last().unwrap())
    }
}

fn seq(line: &str) -> u64 {
    let json: serde_json::Value = serde_json::from_str(&line[65..]).unwrap();
    json["seq"].as_u64().unwrap()
}

/// Changes something at random; gives the first row that is no longer right and whether it takes a
/// checkpoint to see it.
fn mutate(log: &mut Log, dice: &mut Dice) -> (&'static str, u64, bool) {
    let (segment, line, at) = log.pick(dice);
    let total = log.segments.len();
    let lines = &mut log.segments[segment].1;
    let (length, is_last) = (lines.len(), line + 1 == lines.len());
    match dice.below(9) {
        0 | 1 => {
            // One character of the JSON, or of the stored hash.
            let place = if dice.below(4) == 0 {
                dice.below(64)
            } else {
                66 + dice.below(lines[line].len() as u64 - 67)
            };
            let place = usize::try_from(place).unwrap();
            let mut bytes = lines[line].clone().into_bytes();
            bytes[place] = if bytes[place] == b'0' { b'1' } else { b'0' };
            lines[line] = String::from_utf8_lossy(&bytes).into_owned();
            ("edit", at, false)
        }
        2 => {
            lines.remove(line);
            let unseen = is_last && segment + 1 == total && length > 1;
            ("delete", at, unseen)
        }
        3 if !is_last => {
            lines.swap(line, line + 1);
            ("swap", at, false)
        }
        4 => {
            let copied = lines[line].clone();
            lines.insert(line + 1, copied);
            ("insert", at + 1, false)
        }
        5 => {
            lines.truncate(line);
            let unseen = segment + 1 == total && line > 0;
            ("truncate", at, unseen)
        }
        6 if total > 2 => {
            let (path, _) = log.segments.remove(segment);
            fs::remove_file(path).unwrap();
            let first = at - line as u64;
            (
                if segment == 0 { "behead" } else { "remove a segment" },
                if segment == 0 { 1 } else { first },
                segment + 1 == total,
            )
        }
        7 if segment + 1 < total => {
            let mine = std::mem::take(&mut log.segments[segment].1);
            let other = std::mem::replace(&mut log.segments[segment + 1].1, mine);
            log.segments[segment].1 = other;
            ("swap segments", at - line as u64, false)
        }
        _ => {
            let cut = usize::try_from(dice.below(length as u64)).unwrap();
            let first = seq(&lines[cut]);
            lines.truncate(cut);
            for (path, _) in log.segments.drain(segment + 1..) {
                fs::remove_file(path).unwrap();
            }
            ("roll back", first, cut > 0)
        }
    }
}

#[test]
fn a_change_is_found_while_the_log_grows_by_whole_segments() {
    let (fixture, _) = written();
    let text = fs::read_to_string(fixture.segment(1)).unwrap();
    fs::write(fixture.segment(1), text.replacen("tools/call", "tools/cell", 1)).unwrap();
    let ledger = fixture.open();
    let rules = limited(r#"{"counter":"c","window":"minute","max":3}"#);
    let (found, began) = (AtomicBool::new(false), Instant::now());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !found.load(Ordering::Relaxed) && began.elapsed() < Duration::from_mins(1) {
                call(&ledger, &rules);
            }
        });
        assert!(matches!(verify(&fixture.audit(), None), Err(VerifyError::Found(_))));
        found.store(true, Ordering::Relaxed);
    });
    assert!(began.elapsed() < Duration::from_mins(1), "found when nothing came any more");
}

#[test]
fn five_hundred_random_changes_are_all_found_and_the_first_bad_record_is_named() {
    let (fixture, checkpoint) = written();
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("audit");
    let mut dice = Dice::new(7);
    let mut kinds = std::collections::BTreeMap::new();
    copy(&fixture.audit(), &folder);
    // The mark would give truncations away; an attacker removes it.
    fs::remove_file(folder.join("synced")).unwrap();
    let whole = Log::read(&folder);
    for round in 0..500 {
        whole.write();
        let mut log = whole.clone();
        let (kind, first_bad, needs_checkpoint) = mutate(&mut log, &mut dice);
        log.write();
        *kinds.entry(kind).or_insert(0) += 1;
        let context =
            format!("round {round}: {kind} at row {first_bad} of {}", log.folder.display());

        let found = match verify(&folder, Some(&checkpoint)) {
            Err(VerifyError::Found(finding)) => finding,
            other => panic!("{context}: {other:?}"),
        };
        assert!(!found.words.is_empty(), "{context}");
        let named = if kind == "behead" { 1 } else { first_bad };
        assert_eq!(found.seq, named, "{context}: {found}");
        let without = verify(&folder, None);
        assert_eq!(without.is_ok(), needs_checkpoint, "{context}: {without:?}");
        if round % 20 == 0 {
            let (holds, said) = python(&folder, Some(&checkpoint));
            assert!(!holds, "{context}: {said}");
            let (holds, said) = python(&folder, None);
            assert_eq!(holds, needs_checkpoint, "{context}: {said}");
        }
    }
    assert!(kinds.len() >= 8, "{kinds:?}");
    println!("P09: 500 changes of {} kinds, 500 found and named", kinds.len());
}

/// The other program, asked about one log after another: a line in, a line out.
struct Other {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Other {
    fn start() -> Other {
        const LOOP: &str = "
import json, sys
import verify_chain as v
for line in sys.stdin:
    ask = json.loads(line)
    try:
        end = v.verify(ask['folder'], ask['checkpoint'])
        print(f\"ok {end['seq']} {end['hash']}\", flush=True)
    except v.Bad as bad:
        print(f\"bad {bad}\", flush=True)
";
        let mut child = Command::new("python3")
            .args(["-c", LOOP])
            .env("PYTHONPATH", Path::new(env!("CARGO_MANIFEST_DIR")).join("tests"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        Other { child, said }
    }

    fn ask(&mut self, folder: &Path, checkpoint: Option<&Checkpoint>) -> String {
        let ask = serde_json::json!({ "folder": folder, "checkpoint": checkpoint });
        writeln!(self.child.stdin.as_mut().unwrap(), "{ask}").unwrap();
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// A log of random length, segments and endings.
fn any_log(dice: &mut Dice) -> (LedgerFixture, Checkpoint) {
    let segment_bytes_max = 1_500 + dice.below(6_000);
    let fixture = LedgerFixture::with(Options { segment_bytes_max, ..Options::default() });
    let ledger = fixture.open();
    let rules = limited(r#"{"counter":"c","window":"minute","max":3}"#);
    for _ in 0..10 + dice.below(40) {
        call(&ledger, &rules);
        fixture.clock.advance(dice.below(30_000_000));
    }
    drop(ledger);
    loop {
        let checkpoint = fixture.open().checkpoint().unwrap();
        if checkpoint.seq == Log::read(&fixture.audit()).last_seq() {
            return (fixture, checkpoint);
        }
    }
}

#[test]
fn logs_are_judged_alike_here_and_in_python() {
    const CHANGES_PER_LOG: usize = 24;
    let logs = std::env::var("TOLLGATE_LOGS").ok().and_then(|text| text.parse().ok()).unwrap_or(75);
    let seed = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0);
    let mut dice = Dice::new(seed);
    let mut other = Other::start();
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("audit");
    let (mut judged, mut whole_ones) = (0, 0);
    while judged < logs {
        let (fixture, checkpoint) = any_log(&mut dice);
        copy(&fixture.audit(), &folder);
        let _ = fs::remove_file(folder.join("synced"));
        let whole = Log::read(&folder);
        for change in 0..=CHANGES_PER_LOG {
            whole.write();
            let mut log = whole.clone();
            let kind = if change == 0 { "none" } else { mutate(&mut log, &mut dice).0 };
            log.write();
            for checkpoint in [Some(&checkpoint), None] {
                let here = verify(&folder, checkpoint);
                let there = other.ask(&folder, checkpoint);
                match &here {
                    Ok(here) => {
                        let expected = format!("ok {} {}", here.last_seq, here.hash);
                        assert_eq!(there, expected, "{kind}, seed {seed}");
                        whole_ones += 1;
                    }
                    Err(error) => {
                        assert!(
                            there.starts_with("bad "),
                            "{kind}, seed {seed}: {error} / {there}"
                        );
                    }
                }
            }
            judged += 1;
            if judged == logs {
                break;
            }
        }
    }
    println!(
        "P10: {judged} logs judged alike, each with and without a checkpoint; {whole_ones} verdicts of \"whole\""
    );
}

#[test]
fn a_whole_log_verifies_here_and_in_python_and_the_numbers_agree() {
    let (fixture, checkpoint) = written();
    let verified = verify(&fixture.audit(), Some(&checkpoint)).unwrap();
    let log = Log::read(&fixture.audit());
    assert_eq!((verified.first_seq, verified.last_seq), (1, log.last_seq()));
    assert_eq!(verified.segments, log.segments.len());
    assert!(verified.segments > 2 && verified.unfinished_bytes == 0);
    let (holds, said) = python(&fixture.audit(), Some(&checkpoint));
    assert!(holds, "{said}");
    let expected = format!("ok: rows 1 to {}, {}", verified.last_seq, verified.hash);
    assert_eq!(said.trim(), expected);

    let exported = fixture.audit().join("chain.txt");
    let mut out = fs::File::create(&exported).unwrap();
    fixture.reader().export(ExportFormat::Chain, &Filter::default(), &mut out).unwrap();
    let (holds, said) = python(&exported, None);
    assert!(holds, "{said}");
    assert_eq!(said.trim(), expected);
    fs::write(&exported, fs::read_to_string(&exported).unwrap().replacen("alice", "mallory", 1))
        .unwrap();
    assert!(!python(&exported, None).0);
}

#[test]
fn a_checkpoint_of_another_ledger_or_another_past_is_refused() {
    let (fixture, checkpoint) = written();
    let (_, other) = written();
    assert_eq!(other.ledger, checkpoint.ledger, "the same clock makes the same first row");
    for wrong in [
        Checkpoint { ledger: "0".repeat(64), ..checkpoint.clone() },
        Checkpoint { hash: "0".repeat(64), ..checkpoint.clone() },
        Checkpoint { seq: checkpoint.seq + 1_000, ..checkpoint.clone() },
        Checkpoint { seq: 3, ..checkpoint.clone() },
    ] {
        assert!(
            matches!(verify(&fixture.audit(), Some(&wrong)), Err(VerifyError::Found(_))),
            "{wrong:?}"
        );
        assert!(!python(&fixture.audit(), Some(&wrong)).0);
    }
}

#[test]
fn a_log_that_was_cut_below_the_mark_is_found_without_a_checkpoint_and_not_opened() {
    let (fixture, _) = written();
    let mut log = Log::read(&fixture.audit());
    log.segments.last_mut().unwrap().1.pop();
    log.write();
    assert!(matches!(verify(&fixture.audit(), None), Err(VerifyError::Found(_))));
    let opened =
        store::ledger::Ledger::open(&fixture.audit(), fixture.clock.clone(), Options::default());
    let error = opened.unwrap_err().to_string();
    assert!(error.contains("damaged") && error.contains("tollgate audit verify"), "{error}");
}

#[test]
fn an_edited_row_is_not_opened_either() {
    let fixture = LedgerFixture::new();
    let ledger = fixture.open();
    let rules = limited(r#"{"counter":"c","window":"minute","max":3}"#);
    assert!((0..3).all(|_| call(&ledger, &rules)));
    drop(ledger);
    let text = fs::read_to_string(fixture.segment(1)).unwrap();
    fs::write(fixture.segment(1), text.replacen("\"ok\"", "\"no\"", 1)).unwrap();
    let opened =
        store::ledger::Ledger::open(&fixture.audit(), fixture.clock.clone(), Options::default());
    assert!(opened.unwrap_err().to_string().contains("damaged"));
}

/// Rows may be retired faster than the maintenance thread seals; the sealed row stays all the same.
#[test]
fn the_sealed_row_is_never_among_those_that_are_retired() {
    use store::ledger::{Note, Retention, SealKey, SealState, Sealing, Witness};
    use store::secret::Secret;
    use store::vault::Vault;
    let key = SealKey::of(&Vault::from_key(Secret::new([7; 32]))).unwrap();
    let fixture = LedgerFixture::with(Options {
        segment_bytes_max: 1_500,
        retention: Retention { age_seconds_max: None, bytes_max: Some(1) },
        seal: Some(Sealing { key: key.clone(), expected: false }),
        ..Options::default()
    });
    let ledger = fixture.open();
    let note = Note { act: "fill", by: "test", about: "", words: "a row like any other" };
    let began = Instant::now();
    while fixture.segment(1).exists() || fixture.segment(2).exists() {
        ledger.note(&note).unwrap();
        // The maintenance thread needs the lock too.
        std::thread::sleep(Duration::from_millis(1));
        assert!(began.elapsed() < Duration::from_mins(2), "no row was retired");
    }
    let reader = fixture.reader();
    let SealState::Valid(seal) = reader.seal(&key).unwrap() else { panic!("no seal") };
    assert_eq!(seal.since, 1);
    let verified = reader.verify_with(&[Witness::Sealed(&seal.row)]).unwrap();
    assert!(verified.first_seq > 1 && seal.row.seq >= verified.first_seq, "{verified:?}");
    drop(ledger);
    // Closed, the last row is the sealed one; another key does not match.
    let SealState::Valid(seal) = reader.seal(&key).unwrap() else { panic!("no seal") };
    assert_eq!(seal.row.seq, verify(&fixture.audit(), None).unwrap().last_seq);
    let other = SealKey::of(&Vault::from_key(Secret::new([8; 32]))).unwrap();
    assert_eq!(reader.seal(&other).unwrap(), SealState::Broken);
}
