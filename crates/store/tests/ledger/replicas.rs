//! Replicas on one Postgres: processes that are killed and paused, and a server that crashes between
//! a row and its flush. No limit is exceeded, no call leaves without its row, one chain verifies.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use policy::Policy;
use rustix::process::{Pid, Signal, kill_process};
use store::clock::Clock;
use store::ledger::{
    Admission, Durability, Entry, Facts, Filter, Ledger, LedgerError, Options, Permit, Reader,
    Refusal, RefusalKind,
};
use store::postgres::Address;

use super::support::{calls_in, facts, limited, ok, try_call, verdict};
use crate::postgres::Server;

const ADDRESS: &str = "TOLLGATE_TEST_POSTGRES";
const WINDOW_US: u64 = 5_000_000;
const PER_WINDOW: usize = 40;
const PER_MINUTE: usize = 150;

fn power() -> Options {
    Options { durability: Durability::Power, segment_bytes_max: 60_000, ..Options::default() }
}

fn rules() -> Policy {
    limited(&format!(
        r#"{{"counter":"c","window":"5s","max":{PER_WINDOW}}},
           {{"counter":"c","window":"minute","max":{PER_MINUTE}}}"#
    ))
}

fn open(address: &Address) -> Ledger {
    Ledger::open_on_postgres(address, Clock::System, power()).unwrap()
}

/// Not a test of its own: a replica that calls until it is killed. It says `A seq name` once a call
/// may leave, and its row has that name as its session.
#[test]
fn a_replica_that_calls_until_it_is_killed() {
    let Some(address) = std::env::var_os(ADDRESS) else { return };
    let ledger = open(&Address::parse(address.to_str().unwrap(), None).unwrap());
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let ledger = &ledger;
            scope.spawn(move || {
                for number in 0.. {
                    let name = format!("{}-{thread}-{number}", std::process::id());
                    let left = leave(ledger, &name);
                    if left.is_err() {
                        sleep(Duration::from_millis(20));
                    }
                }
            });
        }
    });
}

fn leave(ledger: &Ledger, name: &str) -> Result<(), LedgerError> {
    let facts = Facts { session: Some(name), ..facts() };
    let admission = ledger.admit(&verdict(&rules(), "{}"), &facts)?;
    let Admission::Permit(permit) = admission else {
        sleep(Duration::from_millis(30));
        return Ok(());
    };
    permit.wait_durable()?;
    let line = format!("A {} {name}\n", permit.seq());
    std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
    permit.settle(&ok())
}

struct Replica {
    child: Child,
    said: JoinHandle<Vec<(u64, String)>>,
}

impl Replica {
    fn start(address: &str) -> Replica {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "replicas::a_replica_that_calls_until_it_is_killed", "--nocapture"])
            .env(ADDRESS, address)
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let said = std::thread::spawn(move || {
            let left = lines.map_while(Result::ok).filter_map(|line| {
                let mut words = line.strip_prefix("A ")?.split(' ');
                Some((words.next()?.parse().ok()?, words.next()?.to_owned()))
            });
            left.collect()
        });
        Replica { child, said }
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    fn kill(mut self) -> Vec<(u64, String)> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.said.join().unwrap()
    }
}

/// The most calls in any interval of this length, by the time in their rows.
fn most_in(admitted: &[&Entry], window_us: u64) -> usize {
    let in_window = |start: u64| {
        admitted.iter().filter(|e| (start..start + window_us).contains(&e.tick)).count()
    };
    admitted.iter().map(|entry| in_window(entry.tick)).max().unwrap_or(0)
}

#[test]
fn three_replicas_that_are_killed_paused_and_cut_off_keep_one_limit_and_one_chain() {
    let server = Server::private();
    let address = server.address("public");
    let started = Instant::now();
    let mut replicas: Vec<Replica> = (0..3).map(|_| Replica::start(&address)).collect();
    sleep(Duration::from_secs(4));
    let mut left = replicas.pop().unwrap().kill();
    replicas[0].signal(Signal::STOP);
    sleep(Duration::from_secs(2));
    server.crash();
    sleep(Duration::from_secs(3));
    replicas[0].signal(Signal::CONT);
    replicas.push(Replica::start(&address));
    sleep(Duration::from_secs(4));
    server.crash();
    sleep(Duration::from_secs(5));
    left.extend(replicas.into_iter().flat_map(Replica::kill));
    let seconds = started.elapsed().as_secs();

    let address = Address::parse(&address, None).unwrap();
    let reader = Reader::open_on_postgres(&address).unwrap();
    let rows = reader.verify(None).unwrap().last_seq;
    let entries = calls_in(&reader);
    let by_seq: HashMap<u64, &Entry> = entries.iter().map(|entry| (entry.seq, entry)).collect();
    for (seq, name) in &left {
        let entry = by_seq.get(seq).unwrap_or_else(|| panic!("call {name} left without row {seq}"));
        assert_eq!((&entry.session, entry.decision.as_str()), (name, "admitted"));
    }
    let kept = |entry: &&Entry| entry.decision == "admitted" && !entry.released;
    let admitted: Vec<&Entry> = entries.iter().filter(kept).collect();
    assert!(most_in(&admitted, WINDOW_US) <= PER_WINDOW);
    assert!(most_in(&admitted, 60_000_000) <= PER_MINUTE);
    assert!(seconds < 60, "the whole test is within a minute: {seconds} s");
    assert!((PER_WINDOW + 1..=PER_MINUTE).contains(&left.len()), "{} calls left", left.len());
    println!(
        "3 replicas, 1 killed, 1 paused for 5 s, 2 crashes of the server: {} calls left in {seconds} s, \
         {rows} rows, at most {} in 5 s of {PER_WINDOW}",
        left.len(),
        most_in(&admitted, WINDOW_US)
    );
}

/// A server whose rows stay in memory until a flush is asked for.
fn lazy_server() -> Server {
    let server = Server::private();
    server.sql("ALTER SYSTEM SET wal_writer_delay = '10s'");
    server.sql("ALTER SYSTEM SET wal_writer_flush_after = '1GB'");
    server.sql("SELECT pg_reload_conf()");
    server
}

/// Admits until two rows were lost with a server that crashed; returns the last call.
fn lose_a_row(server: &Server, ledger: &Ledger, rules: &Policy) -> Permit {
    for _ in 0..20 {
        try_call(ledger, rules).unwrap().settle(&ok()).unwrap();
        let permit = try_call(ledger, rules).unwrap();
        server.crash();
        let last: u64 = server.sql("SELECT max(seq) FROM ledger_rows").parse().unwrap();
        if last + 1 < permit.seq() {
            return permit;
        }
        permit.settle(&ok()).unwrap();
    }
    panic!("no rows were lost");
}

#[test]
fn a_call_whose_row_was_lost_with_the_server_does_not_leave_and_ends_no_other_call() {
    let server = lazy_server();
    let address = Address::parse(&server.address("public"), None).unwrap();
    let ledger = open(&address);
    let rules = limited(r#"{"counter":"c","window":"day","max":1000}"#);
    try_call(&ledger, &rules).unwrap().settle(&ok()).unwrap();
    ledger.flush().unwrap();

    let lost = lose_a_row(&server, &ledger, &rules);
    // Another replica gives the number to another call before this one knows.
    let other = open(&address);
    let others: Vec<Permit> = (0..5).map(|_| try_call(&other, &rules).unwrap()).collect();
    assert!(others.iter().any(|permit| permit.seq() == lost.seq()), "the number is used again");
    let error = lost.wait_durable().unwrap_err();
    // Its flush may have met the server while that was still starting. The call does not leave either way.
    let reason = error.to_string();
    assert!(reason.contains("row") || reason.contains("cannot reach the store"), "{reason}");
    assert!(!lost.is_durable());
    // While its ledger remembers the outage, the ending is queued.
    let _ = lost.settle(&ok());
    for permit in others {
        permit.wait_durable().unwrap();
        let seq = permit.seq();
        let is_open = |entry: &Entry| entry.seq == seq && entry.outcome.is_empty();
        let entries = calls_in(&Reader::open_on_postgres(&address).unwrap());
        assert!(entries.iter().any(is_open), "call {seq} was ended by another");
        permit.settle(&ok()).unwrap();
    }
    let back = Instant::now();
    let next = loop {
        match try_call(&ledger, &rules) {
            Ok(permit) => break permit,
            Err(error) => assert!(back.elapsed() < Duration::from_secs(5), "{error:?}"),
        }
        sleep(Duration::from_millis(20));
    };
    next.settle(&ok()).unwrap();
    assert_eq!(ledger.status().unwrap().open_calls, 0);
    Reader::open_on_postgres(&address).unwrap().verify(None).unwrap();
}

#[test]
fn an_older_copy_of_the_database_is_refused_by_replicas_that_know_better() {
    let server = Server::private();
    let address = Address::parse(&server.address("public"), None).unwrap();
    let ledger = open(&address);
    let rules = limited(r#"{"counter":"c","window":"day","max":1000}"#);
    try_call(&ledger, &rules).unwrap().settle(&ok()).unwrap();
    ledger.flush().unwrap();
    let last = server.sql("SELECT max(seq) FROM ledger_rows");
    server.sql(&format!("DELETE FROM ledger_rows WHERE seq >= {last}"));
    let error = try_again(&ledger, &rules).unwrap_err();
    assert!(matches!(error, LedgerError::RowsLost { .. }), "{error}");
}

fn try_again(ledger: &Ledger, rules: &Policy) -> Result<Admission, LedgerError> {
    ledger.admit(&verdict(rules, "{}"), &facts())
}

#[test]
fn a_server_that_is_away_admits_nothing_and_serves_again_once_it_is_back() {
    let server = Server::private();
    let address = Address::parse(&server.address("public"), None).unwrap();
    let ledger = open(&address);
    let rules = limited(r#"{"counter":"c","window":"day","max":1000}"#);
    let running = try_call(&ledger, &rules).unwrap();
    running.wait_durable().unwrap();
    server.stop();
    for _ in 0..3 {
        let error = try_again(&ledger, &rules).unwrap_err();
        assert!(matches!(error, LedgerError::Store { .. }), "{error}");
        assert!(!error.to_string().contains("password"), "{error}");
    }
    assert!(running.settle(&ok()).is_err(), "its outcome waits");
    server.start();
    let back = Instant::now();
    while try_again(&ledger, &rules).is_err() {
        sleep(Duration::from_millis(20));
    }
    assert!(back.elapsed() < Duration::from_secs(5), "{:?}", back.elapsed());
    ledger.poll().unwrap();
    let entries = calls_in(&Reader::open_on_postgres(&address).unwrap());
    assert_eq!(entries[0].outcome, "ok", "{}", entries[0].words);
    Reader::open_on_postgres(&address).unwrap().verify(None).unwrap();
}

fn record_soon(ledger: &Ledger, code: &str) -> Result<(), LedgerError> {
    let refusal = Refusal { kind: RefusalKind::Malformed, code, reason: "not a message" };
    ledger.record_soon(&refusal, &facts(), None).map(|row| assert_eq!(row, None))
}

fn count_of(address: &Address, code: &str) -> usize {
    let entries = Reader::open_on_postgres(address).unwrap();
    let entries = entries.oldest_first(&Filter::default()).unwrap().map(Result::unwrap);
    entries.filter(|entry| entry.code == code).count()
}

/// The processor time of the ledger thread, in hundredths of a second.
fn ledger_thread_ticks() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    let ours = tasks.filter(|task| {
        std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim() == "ledger-turns")
    });
    let ticks = ours.map(|task| {
        let stat = std::fs::read_to_string(task.join("stat")).unwrap();
        let words: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        words[11].parse::<u64>().unwrap() + words[12].parse::<u64>().unwrap()
    });
    ticks.sum()
}

#[test]
fn rows_of_refused_requests_wait_idly_for_a_server_that_is_away() {
    let server = Server::private();
    let address = server.schema();
    let ledger = open(&address);
    leave(&ledger, "before").unwrap();
    // Until the outage is known, rows are queued.
    std::thread::scope(|scope| {
        let ledger = &ledger;
        scope.spawn(move || {
            while record_soon(ledger, "before").is_ok() {
                sleep(Duration::from_millis(1));
            }
        });
        server.stop();
    });
    sleep(Duration::from_millis(500));
    let before = ledger_thread_ticks();
    sleep(Duration::from_secs(2));
    let ticks = ledger_thread_ticks() - before;
    assert!(ticks < 20, "the ledger thread was busy for {ticks} of 200 hundredths");
    server.start();
    let deadline = Instant::now() + Duration::from_secs(5);
    while record_soon(&ledger, "after").is_err() && Instant::now() < deadline {
        sleep(Duration::from_millis(50));
    }
    while count_of(&address, "after") == 0 && Instant::now() < deadline {
        sleep(Duration::from_millis(50));
    }
    assert_eq!(count_of(&address, "after"), 1);
}

#[test]
fn rows_of_refused_requests_are_written_when_the_ledger_is_closed() {
    let address = Server::shared().schema();
    for round in 0..10 {
        let ledger = open(&address);
        record_soon(&ledger, &format!("at_the_end_{round}")).unwrap();
        drop(ledger);
        assert_eq!(count_of(&address, &format!("at_the_end_{round}")), 1, "round {round}");
    }
}

#[test]
fn a_row_that_was_changed_or_removed_in_the_database_is_found() {
    let server = Server::shared();
    let schema = server.new_schema();
    let address = Address::parse(&server.address(&schema), None).unwrap();
    let ledger = open(&address);
    let rules = limited(r#"{"counter":"c","window":"day","max":1000}"#);
    for _ in 0..5 {
        try_call(&ledger, &rules).unwrap().settle(&ok()).unwrap();
    }
    let checkpoint = ledger.checkpoint().unwrap();
    drop(ledger);
    let reader = Reader::open_on_postgres(&address).unwrap();
    reader.verify(Some(&checkpoint)).unwrap();
    let table = format!("{schema}.ledger_rows");
    let line = server.sql(&format!("SELECT convert_from(line, 'UTF8') FROM {table} WHERE seq = 4"));
    let update = |text: &str| {
        server.sql(&format!(
            "UPDATE {table} SET line = convert_to($t${text}$t$, 'UTF8') WHERE seq = 4"
        ));
    };
    update(&line.replace("alice", "mallory"));
    assert!(reader.verify(None).is_err(), "a changed row");
    update(&line);
    reader.verify(None).unwrap();
    server.sql(&format!("DELETE FROM {table} WHERE seq = {}", checkpoint.seq));
    assert!(reader.verify(Some(&checkpoint)).is_err(), "a missing end");
    server.sql(&format!("DELETE FROM {table} WHERE seq = 5"));
    assert!(reader.verify(None).is_err(), "a missing row");
}

fn self_signed() -> (String, String) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    (made.cert.pem(), made.signing_key.serialize_pem())
}

#[test]
fn a_server_is_reached_over_tls_only_with_the_certificate_that_was_asked_for() {
    let server = Server::private();
    server.stop();
    let (certificate, key) = self_signed();
    let certificate = server.file("server.crt", &certificate);
    let key = server.file("server.key", &key);
    let another = server.file("another.crt", &self_signed().0);
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let listen = format!("-c listen_addresses=127.0.0.1 -c port={port}");
    let opens = |host: &str, options: &str| {
        let text = format!("postgres://tollgate@{host}:{port}/postgres?{options}");
        let address = Address::parse(&text, None).unwrap();
        Ledger::open_on_postgres(&address, Clock::System, power()).is_ok()
    };
    server.start_with(&listen);
    assert!(opens("localhost", "sslmode=disable"));
    assert!(!opens("localhost", "sslmode=require"), "it has no TLS, and none is not good enough");
    server.stop();
    let (crt, key) = (certificate.display(), key.display());
    server.start_with(&format!("{listen} -c ssl=on -c ssl_cert_file={crt} -c ssl_key_file={key}"));
    let by = |file: &std::path::Path| format!("sslmode=verify-full&sslrootcert={}", file.display());
    // (host, options, whether it opens)
    let table = [
        ("localhost", "sslmode=require".to_owned(), true),
        ("localhost", by(&certificate), true),
        ("127.0.0.1", by(&certificate), false),
        ("localhost", by(&another), false),
        ("localhost", "sslmode=verify-full".to_owned(), false),
    ];
    for (host, options, expected) in table {
        assert_eq!(opens(host, &options), expected, "{host} {options}");
    }
}
