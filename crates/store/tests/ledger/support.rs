//! Shared fixtures of the ledger tests: a folder, a clock, a policy, one call.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use policy::{
    Call, Caller, Denial, Format, LocalTime, Policy, Subject, ToolFacts, Verdict, Weekday, json,
};
use store::clock::{Clock, Now};
use store::ledger::{
    Admission, Ending, Entry, Facts, Filter, Ledger, LedgerError, Options, Outcome, Permit,
    PolicyRef, Reader,
};
use store::postgres::Address;

use crate::postgres::Server;

pub(crate) const SECOND_US: u64 = 1_000_000;
pub(crate) const MINUTE_US: u64 = 60 * SECOND_US;
pub(crate) const NOON: Now = Now { wall_us: 1_794_571_200_000_000, steady_us: 5_000_000_000 };

/// One test of each engine: the rows are in files, or on Postgres.
macro_rules! on_both {
    ($($(#[$about:meta])* fn $name:ident($fixture:ident) $story:block)*) => {$(
        $(#[$about])*
        mod $name {
            #[allow(unused_imports, reason = "each story uses some of them")]
            use super::*;

            fn story($fixture: LedgerFixture) $story

            #[test]
            fn on_files() {
                story(LedgerFixture::new());
            }

            #[test]
            fn on_postgres() {
                story(LedgerFixture::on_postgres());
            }
        }
    )*};
}
pub(crate) use on_both;

/// Where a ledger is, with its clock; tests may open it several times.
pub(crate) struct LedgerFixture {
    place: Place,
    pub(crate) clock: Clock,
    pub(crate) options: Options,
}

enum Place {
    Folder(tempfile::TempDir),
    Postgres(Address),
}

impl LedgerFixture {
    pub(crate) fn new() -> LedgerFixture {
        LedgerFixture::at(Place::Folder(tempfile::tempdir().unwrap()))
    }

    pub(crate) fn on_postgres() -> LedgerFixture {
        LedgerFixture::at(Place::Postgres(Server::shared().schema()))
    }

    fn at(place: Place) -> LedgerFixture {
        LedgerFixture { place, clock: Clock::set(NOON), options: Options::default() }
    }

    pub(crate) fn with(options: Options) -> LedgerFixture {
        LedgerFixture { options, ..LedgerFixture::new() }
    }

    pub(crate) fn audit(&self) -> PathBuf {
        match &self.place {
            Place::Folder(folder) => folder.path().join("audit"),
            Place::Postgres(address) => panic!("{address} has no folder"),
        }
    }

    pub(crate) fn open(&self) -> Ledger {
        self.open_with(self.clock.clone(), self.options.clone()).unwrap()
    }

    pub(crate) fn open_with(&self, clock: Clock, options: Options) -> Result<Ledger, LedgerError> {
        match &self.place {
            Place::Folder(_) => Ledger::open(&self.audit(), clock, options),
            Place::Postgres(address) => Ledger::open_on_postgres(address, clock, options),
        }
    }

    pub(crate) fn reader(&self) -> Reader {
        match &self.place {
            Place::Folder(_) => Reader::open(&self.audit()).unwrap(),
            Place::Postgres(address) => Reader::open_on_postgres(address).unwrap(),
        }
    }

    pub(crate) fn entries(&self) -> Vec<Entry> {
        calls_in(&self.reader())
    }

    pub(crate) fn is_in_files(&self) -> bool {
        matches!(self.place, Place::Folder(_))
    }

    /// What is in the log within ten seconds, once `find` finds it.
    pub(crate) fn soon<T>(&self, find: impl Fn(&mut Vec<Entry>) -> Option<T>) -> T {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let mut entries = self.entries();
            if let Some(found) = find(&mut entries) {
                return found;
            }
            assert!(Instant::now() < deadline, "not in the log: {entries:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn segment(&self, number: u32) -> PathBuf {
        self.audit().join(format!("{number:08}.log"))
    }
}

/// All requests, oldest first.
pub(crate) fn calls(audit: &Path) -> Vec<Entry> {
    calls_in(&Reader::open(audit).unwrap())
}

pub(crate) fn calls_in(reader: &Reader) -> Vec<Entry> {
    let entries = reader.oldest_first(&Filter::default()).unwrap();
    entries.map(Result::unwrap).filter(|entry| entry.act.is_empty()).collect()
}

pub(crate) fn policy(tools: &str) -> Policy {
    let text = format!(r#"{{"version":"1","default":"deny","tools":{tools}}}"#);
    Policy::load(&text, Format::Json).unwrap_or_else(|e| panic!("{e:?}"))
}

/// One tool `pay` with these limits.
pub(crate) fn limited(limits: &str) -> Policy {
    policy(&format!(r#"{{"pay":{{"limits":[{limits}]}}}}"#))
}

pub(crate) fn verdict(policy: &Policy, arguments: &str) -> Verdict {
    verdict_on(policy, "pay", arguments)
}

pub(crate) fn verdict_on(policy: &Policy, tool: &str, arguments: &str) -> Verdict {
    let doc = json::Doc::read(arguments.as_bytes(), &json::Bounds::MESSAGE).unwrap();
    policy.decide(&Call {
        subject: Subject::Tool(tool),
        args: Some(doc.root()),
        params: None,
        caller: Caller { grant: "alice", session: Some("s1"), client: None },
        tool: ToolFacts::default(),
        time: LocalTime { hour: 12, weekday: Weekday::Monday },
    })
}

pub(crate) fn facts() -> Facts<'static> {
    Facts {
        grant: "alice",
        session: Some("s1"),
        client: Some("test-client"),
        client_version: Some("1.0"),
        server: "bank",
        method: "tools/call",
        subject: Some(Subject::Tool("pay")),
        policy: Some(PolicyRef { name: "p", version: 1 }),
        argument_keys: &["amount"],
        argument_digest: Some([1; 32]),
        ..Facts::default()
    }
}

pub(crate) fn ok() -> Outcome {
    Outcome { latency_us: Some(5), result_bytes: Some(10), ..Outcome::new(Ending::Ok) }
}

/// Admits a call and says how it ended up.
pub(crate) fn try_call(ledger: &Ledger, policy: &Policy) -> Result<Permit, Denial> {
    match ledger.admit(&verdict(policy, "{}"), &facts()).unwrap() {
        Admission::Permit(permit) => Ok(permit),
        Admission::Denied(denial) => Err(denial),
        Admission::Asked(waiting) => Err(waiting.denial().clone()),
    }
}

pub(crate) fn call(ledger: &Ledger, policy: &Policy) -> bool {
    match try_call(ledger, policy) {
        Ok(permit) => {
            permit.settle(&ok()).unwrap();
            true
        }
        Err(_) => false,
    }
}

/// How often a test repeats itself: `TOLLGATE_ROUNDS` for longer runs.
pub(crate) fn rounds(normally: usize) -> usize {
    std::env::var("TOLLGATE_ROUNDS").map_or(normally, |count| count.parse().unwrap())
}

/// Small numbers that look random and are the same on every run.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound.max(1)
    }
}

/// A file system of its own that is small; needs root.
pub(crate) struct Mount<'a>(&'a Path);

impl<'a> Mount<'a> {
    pub(crate) fn tmpfs(at: &'a Path, size: &str) -> Option<Mount<'a>> {
        let options = format!("size={size},mode=0700");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(at);
        let done = mount.stderr(std::process::Stdio::null()).status().ok()?;
        done.success().then_some(Mount(at))
    }

    pub(crate) fn remount(&self, options: &str) {
        let done =
            Command::new("mount").args(["-o", &format!("remount,{options}")]).arg(self.0).status();
        assert!(done.unwrap().success());
    }
}

impl Drop for Mount<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}
