//! A power cut: whatever was not flushed may be gone or garbage, whatever was flushed is there.

use std::fs::{self, OpenOptions};
use std::path::Path;
use std::sync::{Arc, Mutex};

use platform::files::AtOffset as _;
use store::clock::Clock;
use store::ledger::{Durability, Ledger, Options, Reader};

use super::support::{Dice, LedgerFixture, call, calls, limited, ok, rounds, try_call};

fn power() -> Options {
    Options { durability: Durability::Power, segment_bytes_max: 6_000, ..Options::default() }
}

/// Segment and offset of what is on disk for certain.
fn mark(audit: &Path) -> Option<(u32, u64)> {
    let text = fs::read_to_string(audit.join("synced")).ok()?;
    let mut parts = text.split(' ');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// What a disk may hold after power was lost: beyond the mark, bytes are missing, zero or garbage, and
/// whole segments may not be there; the mark itself may be an older one, or missing.
fn cut_power(audit: &Path, to: &Path, older_mark: &[u8], dice: &mut Dice) {
    fs::create_dir_all(to).unwrap();
    // No segment is closed while we copy; the mark is copied first, it is only ever too low.
    let lock = fs::File::open(audit).unwrap();
    lock.lock().unwrap();
    fs::copy(audit.join("synced"), to.join("synced")).unwrap();
    let (segment, flushed) = mark(to).unwrap();
    let mut newest = 0;
    for entry in fs::read_dir(audit).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        if let Some(number) = name.strip_suffix(".log") {
            fs::copy(entry.path(), to.join(&name)).unwrap();
            newest = newest.max(number.parse::<u32>().unwrap());
        }
    }
    for number in segment..=newest {
        let path = to.join(format!("{number:08}.log"));
        damage(&path, if number == segment { flushed } else { 0 }, number > segment, dice);
    }
    match dice.below(4) {
        0 => fs::remove_file(to.join("synced")).unwrap(),
        1 => fs::write(to.join("synced"), older_mark).unwrap(),
        _ => {}
    }
}

fn damage(path: &Path, flushed: u64, may_vanish: bool, dice: &mut Dice) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    let size = file.metadata().unwrap().len();
    if size == flushed {
        return;
    }
    let from = flushed + dice.below(size - flushed);
    match dice.below(6) {
        0 => file.set_len(from).unwrap(),
        1 => file.write_all_at(&vec![0; usize::try_from(size - from).unwrap()], from).unwrap(),
        2 => {
            let garbage: Vec<u8> =
                (0..size - from).map(|_| u8::try_from(dice.below(256)).unwrap()).collect();
            file.write_all_at(&garbage, from).unwrap();
        }
        // A hole: the size reached the disk, one page did not.
        3 => file.write_all_at(&[0; 16], from.min(size - 16).max(flushed)).unwrap(),
        4 if may_vanish => fs::remove_file(path).unwrap(),
        _ => {}
    }
}

#[test]
fn no_acknowledged_call_is_lost_by_a_power_cut() {
    let scratch = tempfile::tempdir().unwrap();
    let audit = scratch.path().join("audit");
    let ledger = Arc::new(Ledger::open(&audit, Clock::System, power()).unwrap());
    let rules = limited(r#"{"counter":"c","window":"day","max":1000000}"#);
    let mut dice = Dice::new(11);
    ledger.flush().unwrap();
    let mut older_mark = fs::read(audit.join("synced")).unwrap();
    let acknowledged = Mutex::new(Vec::new());
    for cut in 0..rounds(30) {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let permit = try_call(&ledger, &rules).unwrap();
                    permit.wait_durable().unwrap();
                    acknowledged.lock().unwrap().push(permit.seq());
                    permit.settle(&ok()).unwrap();
                    // Written, not flushed: this may be lost.
                    drop(try_call(&ledger, &rules).unwrap());
                });
            }
        });
        let after = scratch.path().join(format!("after-{cut}"));
        cut_power(&audit, &after, &older_mark, &mut dice);
        if cut % 7 == 0 {
            older_mark = fs::read(audit.join("synced")).unwrap();
        }
        let reopened = Ledger::open(&after, Clock::System, power()).unwrap();
        assert_eq!(reopened.status().unwrap().open_calls, 0, "cut {cut}");
        Reader::open(&after).unwrap().verify(None).unwrap();
        let entries = calls(&after);
        for seq in acknowledged.lock().unwrap().iter() {
            assert!(
                entries.iter().any(|entry| entry.seq == *seq),
                "cut {cut}: row {seq} is missing"
            );
        }
        assert!(call(&reopened, &rules), "it goes on");
    }
    let (cuts, calls) = (rounds(30), acknowledged.lock().unwrap().len());
    println!("P06: {cuts} power cuts, {calls} acknowledged calls, 0 lost");
}

#[test]
fn truncated_entries_are_kept_and_reported() {
    let fixture = LedgerFixture::new();
    let ledger = fixture.open();
    let rules = limited(r#"{"counter":"c","window":"day","max":10}"#);
    assert!(call(&ledger, &rules));
    drop(ledger);
    let torn = b"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef {\"kind\":\"dec";
    let file = OpenOptions::new().append(true).open(fixture.segment(1)).unwrap();
    std::io::Write::write_all(&mut &file, torn).unwrap();

    let ledger = fixture.open();
    assert!(call(&ledger, &rules));
    let kept = fs::read_dir(fixture.audit()).unwrap().map(|e| e.unwrap().path());
    let kept: Vec<_> = kept.filter(|path| path.extension().is_some_and(|e| e == "bin")).collect();
    assert_eq!(kept.len(), 1);
    assert_eq!(fs::read(&kept[0]).unwrap(), torn);
    let notes = fixture.reader().oldest_first(&store::ledger::Filter::default()).unwrap();
    let note = notes.map(Result::unwrap).find(|entry| entry.act == "torn_tail_cut").unwrap();
    assert_eq!(Some(note.about.as_str()), kept[0].file_name().unwrap().to_str());
    fixture.reader().verify(None).unwrap();
}

#[test]
fn in_process_mode_everything_is_flushed_within_a_second() {
    let fixture = LedgerFixture::new();
    let ledger = fixture.open();
    let rules = limited(r#"{"counter":"c","window":"day","max":10}"#);
    assert!(call(&ledger, &rules));
    let size = fs::metadata(fixture.segment(1)).unwrap().len();
    let flushed = (0..20).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        mark(&fixture.audit()) == Some((1, size))
    });
    assert!(flushed);
}

#[test]
fn a_permit_tells_when_its_row_is_on_disk() {
    let fixture = LedgerFixture::with(power());
    let ledger = fixture.open();
    let rules = limited(r#"{"counter":"c","window":"day","max":10}"#);
    let permit = try_call(&ledger, &rules).unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    permit.when_durable(Box::new(move |flushed| sender.send(flushed.is_ok()).unwrap()));
    assert!(receiver.recv_timeout(std::time::Duration::from_secs(10)).unwrap());
    let (segment, offset) = mark(&fixture.audit()).unwrap();
    assert!(segment > 1 || offset >= fs::metadata(fixture.segment(1)).unwrap().len());
    permit.settle(&ok()).unwrap();
}
