//! A standby that takes over. With synchronous replication it has the row of every call that left. Without,
//! rows may be missing: replicas that know them stop, and a checkpoint shows it.

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use policy::Policy;
use store::clock::Clock;
use store::ledger::{Durability, Ledger, LedgerError, Options, Reader};
use store::postgres::Address;

use super::support::{calls_in, limited, ok, try_call};
use crate::postgres::Server;

const BACK_MAX: Duration = Duration::from_secs(10);

/// An address that leads to one server after the other.
struct Pair {
    primary: Server,
    standby: Server,
    link: PathBuf,
    _folder: tempfile::TempDir,
}

impl Pair {
    fn new() -> Pair {
        let (primary, folder) = (Server::private(), tempfile::tempdir().unwrap());
        let standby = primary.standby();
        let link = folder.path().join("current");
        symlink(primary.folder(), &link).unwrap();
        Pair { primary, standby, link, _folder: folder }
    }

    fn address(&self) -> Address {
        let text = format!("postgres://tollgate@/postgres?host={}", self.link.display());
        Address::parse(&text, None).unwrap()
    }

    fn open(&self) -> Ledger {
        let options = Options { durability: Durability::Power, ..Options::default() };
        Ledger::open_on_postgres(&self.address(), Clock::System, options).unwrap()
    }

    /// The primary has ended.
    fn promote(&self) {
        self.standby.promote();
        std::fs::remove_file(&self.link).unwrap();
        symlink(self.standby.folder(), &self.link).unwrap();
    }

    fn calls(&self) -> usize {
        calls_in(&Reader::open_on_postgres(&self.address()).unwrap()).len()
    }
}

fn rules() -> Policy {
    limited(r#"{"counter":"c","window":"day","max":30}"#)
}

/// Calls that left, with their endings.
fn leave(ledger: &Ledger, count: usize) {
    for _ in 0..count {
        let permit = try_call(ledger, &rules()).unwrap();
        permit.wait_durable().unwrap();
        permit.settle(&ok()).unwrap();
    }
}

#[test]
fn a_synchronous_standby_that_takes_over_has_every_call_that_left() {
    let pair = Pair::new();
    pair.primary.sql("ALTER SYSTEM SET synchronous_standby_names = '*'");
    pair.primary.sql("SELECT pg_reload_conf()");
    let ledger = pair.open();
    leave(&ledger, 20);
    pair.primary.stop();
    pair.promote();
    let back = Instant::now();
    while ledger.poll().is_err() {
        assert!(back.elapsed() < BACK_MAX, "{:?}", ledger.poll());
        sleep(Duration::from_millis(20));
    }
    assert_eq!(pair.calls(), 20);
    leave(&ledger, 10);
    assert!(try_call(&ledger, &rules()).is_err(), "the limit counts what left before");
    Reader::open_on_postgres(&pair.address()).unwrap().verify(None).unwrap();
}

#[test]
fn a_standby_that_lacks_calls_that_left_stops_the_replicas_that_know_them() {
    let pair = Pair::new();
    let ledger = pair.open();
    leave(&ledger, 10);
    let count = "SELECT count(*) FROM ledger_rows";
    let followed = Instant::now();
    while pair.standby.sql(count) != pair.primary.sql(count) {
        assert!(followed.elapsed() < BACK_MAX, "the standby does not follow");
        sleep(Duration::from_millis(20));
    }
    pair.standby.stop();
    leave(&ledger, 5);
    let checkpoint = ledger.checkpoint().unwrap();
    pair.primary.stop();
    pair.standby.start();
    pair.promote();
    let stopped = Instant::now();
    loop {
        match ledger.poll() {
            Err(LedgerError::RowsLost { .. }) => break,
            other => assert!(stopped.elapsed() < BACK_MAX, "{other:?}"),
        }
        sleep(Duration::from_millis(20));
    }
    drop(ledger);
    // What is lost: the rows of the last calls, and what they took from limits. A checkpoint shows it.
    assert_eq!(pair.calls(), 10);
    let reader = Reader::open_on_postgres(&pair.address()).unwrap();
    assert!(reader.verify(Some(&checkpoint)).is_err());
    reader.verify(None).unwrap();
    leave(&pair.open(), 20);
}
