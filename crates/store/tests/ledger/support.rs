//! Shared fixtures of the ledger tests: a folder, a clock, a policy, one call.

use std::path::{Path, PathBuf};
use std::process::Command;

use policy::{
    Call, Caller, Denial, Format, LocalTime, Policy, Subject, ToolFacts, Verdict, Weekday, json,
};
use store::clock::{Clock, Now};
use store::ledger::{
    Admission, Ending, Entry, Facts, Filter, Ledger, Options, Outcome, Permit, PolicyRef, Reader,
};

pub(crate) const SECOND_US: u64 = 1_000_000;
pub(crate) const MINUTE_US: u64 = 60 * SECOND_US;
pub(crate) const NOON: Now = Now { wall_us: 1_794_571_200_000_000, steady_us: 5_000_000_000 };

/// A ledger's folder with its clock; tests may open it several times.
pub(crate) struct LedgerFixture {
    folder: tempfile::TempDir,
    pub(crate) clock: Clock,
    pub(crate) options: Options,
}

impl LedgerFixture {
    pub(crate) fn new() -> LedgerFixture {
        let folder = tempfile::tempdir().unwrap();
        LedgerFixture { folder, clock: Clock::set(NOON), options: Options::default() }
    }

    pub(crate) fn with(options: Options) -> LedgerFixture {
        LedgerFixture { options, ..LedgerFixture::new() }
    }

    pub(crate) fn audit(&self) -> PathBuf {
        self.folder.path().join("audit")
    }

    pub(crate) fn open(&self) -> Ledger {
        Ledger::open(&self.audit(), self.clock.clone(), self.options.clone()).unwrap()
    }

    pub(crate) fn reader(&self) -> Reader {
        Reader::open(&self.audit()).unwrap()
    }

    pub(crate) fn entries(&self) -> Vec<Entry> {
        calls(&self.audit())
    }

    pub(crate) fn segment(&self, number: u32) -> PathBuf {
        self.audit().join(format!("{number:08}.log"))
    }
}

/// All requests, oldest first.
pub(crate) fn calls(audit: &Path) -> Vec<Entry> {
    let reader = Reader::open(audit).unwrap();
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
