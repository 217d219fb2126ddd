//! Processes that die and processes that share: no admitted call is missing, no limit is exceeded,
//! every call is closed, and the chain holds.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use store::clock::Clock;
use store::ledger::{Durability, Ledger, Options};

use super::support::{Dice, call, calls, limited, ok, try_call};

const FOLDER: &str = "TOLLGATE_TEST_LEDGER";
const THREADS: &str = "TOLLGATE_TEST_THREADS";
const CALLS: &str = "TOLLGATE_TEST_CALLS";

/// Small segments, so that processes also die while one is closed and the next is opened.
fn options() -> Options {
    Options { segment_bytes_max: 30_000, ..Options::default() }
}

fn rules(max: u32) -> policy::Policy {
    limited(&format!(r#"{{"counter":"c","window":"day","max":{max}}}"#))
}

/// Not a test of its own: the other tests start this binary again to run it as a process. It says
/// `A seq` once a call is admitted and `S seq` once it is settled, each with one write.
#[test]
fn a_process_that_writes_until_it_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let number = |name: &str| std::env::var(name).unwrap().parse::<u32>().unwrap();
    let ledger = Arc::new(Ledger::open(Path::new(&folder), Clock::System, options()).unwrap());
    let rules = Arc::new(rules(1_000_000));
    std::thread::scope(|scope| {
        for _ in 0..number(THREADS) {
            scope.spawn(|| {
                for _ in 0..number(CALLS) {
                    let permit = try_call(&ledger, &rules).unwrap();
                    let seq = permit.seq();
                    say(&format!("A {seq}\n"));
                    permit.settle(&ok()).unwrap();
                    say(&format!("S {seq}\n"));
                }
            });
        }
    });
}

fn say(line: &str) {
    std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
}

fn start(folder: &Path, threads: u32, calls: u32) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::a_process_that_writes_until_it_is_killed", "--nocapture"])
        .env(FOLDER, folder)
        .env(THREADS, threads.to_string())
        .env(CALLS, calls.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap()
}

/// What a process managed to say: the calls it was granted and those it settled.
#[derive(Default)]
struct Said {
    admitted: HashSet<u64>,
    settled: HashSet<u64>,
}

fn listen(child: &mut Child) -> Said {
    let mut said = Said::default();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        match line.unwrap_or_default().split_once(' ') {
            Some(("A", seq)) => said.admitted.extend(seq.parse::<u64>()),
            Some(("S", seq)) => said.settled.extend(seq.parse::<u64>()),
            _ => {}
        }
    }
    said
}

#[test]
fn a_process_killed_at_any_moment_loses_no_admitted_call() {
    let kills = std::env::var("TOLLGATE_KILLS").map_or(20, |count| count.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let audit = folder.path().join("audit");
    let mut dice = Dice::new(3);
    let (mut admitted, mut settled) = (HashSet::new(), HashSet::new());
    for _ in 0..kills {
        let mut child = start(&audit, 4, 1_000_000);
        std::thread::sleep(Duration::from_micros(20_000 + dice.below(80_000)));
        child.kill().unwrap();
        let said = listen(&mut child);
        child.wait().unwrap();
        admitted.extend(said.admitted);
        settled.extend(said.settled);
    }
    let ledger = Ledger::open(&audit, Clock::System, options()).unwrap();
    assert_eq!(ledger.status().unwrap().open_calls, 0);
    store::ledger::Reader::open(&audit).unwrap().verify(None).unwrap();

    let entries = calls(&audit);
    assert!(entries.len() > 100, "there was load: {}", entries.len());
    let in_log: HashSet<u64> = entries.iter().map(|entry| entry.seq).collect();
    assert_eq!(in_log.len(), entries.len(), "no row twice");
    assert!(admitted.is_subset(&in_log), "every call that was let out has its row");
    for entry in &entries {
        assert!(matches!(entry.outcome.as_str(), "ok" | "unknown"), "{entry:?}");
        let is_known = settled.contains(&entry.seq);
        assert!(!is_known || entry.outcome == "ok", "unknown only for calls in flight: {entry:?}");
    }
    let unknown = entries.iter().filter(|entry| entry.outcome == "unknown").count();
    assert!(unknown <= kills * 4, "at most one for each thread that was killed: {unknown}");

    println!(
        "P01: {kills} kills of a writer, {} calls, {unknown} unknown, 0 missing",
        entries.len()
    );

    // Every admitted call was counted once: exactly the rest fits.
    let total = u32::try_from(entries.len()).unwrap() + 5;
    let rest = (0..10).filter(|_| call(&ledger, &rules(total))).count();
    assert_eq!(rest, 5);
}

#[test]
fn three_processes_share_one_allowance_and_one_chain() {
    let folder = tempfile::tempdir().unwrap();
    let audit = folder.path().join("audit");
    let mut children: Vec<Child> = (0..3).map(|_| start(&audit, 2, 150)).collect();
    let said: Vec<Said> = children.iter_mut().map(listen).collect();
    assert!(children.iter_mut().all(|child| child.wait().unwrap().success()));
    let seqs: HashSet<u64> = said.iter().flat_map(|said| &said.settled).copied().collect();
    assert_eq!(seqs.len(), 900, "no number twice");

    store::ledger::Reader::open(&audit).unwrap().verify(None).unwrap();
    let entries = calls(&audit);
    assert_eq!(entries.len(), 900);
    assert!(entries.iter().all(|entry| entry.outcome == "ok" && seqs.contains(&entry.seq)));
    let writers: HashSet<&str> = entries.iter().map(|entry| entry.writer.as_str()).collect();
    assert_eq!(writers.len(), 3);
    let ledger = Ledger::open(&audit, Clock::System, options()).unwrap();
    let rest = (0..20).filter(|_| call(&ledger, &rules(910))).count();
    assert_eq!(rest, 10, "each process counted the calls of the others");
}

#[test]
fn the_calls_of_a_dead_process_are_closed_by_one_that_lives() {
    let folder = tempfile::tempdir().unwrap();
    let audit = folder.path().join("audit");
    let living = Ledger::open(&audit, Clock::System, options()).unwrap();
    let ours = try_call(&living, &rules(1_000_000)).unwrap();
    let mut child = start(&audit, 8, 1_000_000);
    std::thread::sleep(Duration::from_millis(300));
    child.kill().unwrap();
    listen(&mut child);
    child.wait().unwrap();
    let closed = (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        living.status().unwrap().open_calls == 1
    });
    assert!(closed, "within seconds, without a restart");
    ours.settle(&ok()).unwrap();
    assert!(calls(&audit).iter().all(|entry| matches!(entry.outcome.as_str(), "ok" | "unknown")));
}

#[test]
fn two_ledgers_in_power_mode_flush_for_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let audit = folder.path().join("audit");
    let power = Options { durability: Durability::Power, ..options() };
    let ledgers = [(); 2].map(|()| Ledger::open(&audit, Clock::System, power.clone()).unwrap());
    std::thread::scope(|scope| {
        for ledger in &ledgers {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10 {
                        let permit = try_call(ledger, &rules(1_000_000)).unwrap();
                        permit.wait_durable().unwrap();
                        permit.settle(&ok()).unwrap();
                    }
                });
            }
        }
    });
    drop(ledgers);
    assert_eq!(calls(&audit).len(), 80);
}
