//! Tests of internal state: all processes fold the rows into the same state, and a flush may fail.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use platform::files::FileId;
use policy::{Call, Caller, Format, LocalTime, Policy, Subject, ToolFacts, Verdict, Weekday};
use proptest::prelude::{ProptestConfig, any, prop, prop_assert, prop_assert_eq, proptest};

use super::snapshot::StateSnapshot;
use super::{
    Admission, Answer, Durability, Ending, Facts, HeldCall, Ledger, LedgerError, Options, Outcome,
    Permit,
};
use crate::clock::{Clock, Now};

const POLICY: &str = r#"{"version":"1","default":"deny","tools":{
    "free":{"limits":[{"counter":"c","window":"minute","max":40},{"counter":"d","window":"10s","max":9,"scope":"session"}]},
    "long":{"limits":[{"counter":"c","window":"hour","max":90}]},
    "ask":{"action":"require_approval","limits":[{"counter":"c","window":"minute","max":40}]}}}"#;

fn verdict(tool: &str) -> Verdict {
    let policy = Policy::load(POLICY, Format::Json).unwrap();
    policy.decide(&Call {
        subject: Subject::Tool(tool),
        args: None,
        params: None,
        caller: Caller { grant: "alice", session: None, client: None },
        tool: ToolFacts::default(),
        time: LocalTime { hour: 12, weekday: Weekday::Monday },
    })
}

fn facts(tool: &str, digest: u8) -> Facts<'_> {
    Facts {
        grant: "alice",
        server: "bank",
        method: "tools/call",
        subject: Some(Subject::Tool(tool)),
        argument_digest: Some([digest; 32]),
        ..Facts::default()
    }
}

fn snapshot(ledger: &Ledger) -> StateSnapshot {
    let taken = ledger.shared.with_lock(|locked| {
        locked.core.state.forget_expired(locked.tick);
        Ok::<_, LedgerError>(StateSnapshot::of(&locked.core.state))
    });
    taken.unwrap()
}

/// Does one thing out of many; permits and waiting calls stay around for later.
fn act(
    ledger: &Ledger,
    what: u8,
    digest: u8,
    permits: &mut Vec<Permit>,
    waiting: &mut Vec<HeldCall>,
) {
    let tool = match what % 4 {
        0 | 1 => "free",
        2 => "long",
        _ => "ask",
    };
    match what % 11 {
        0..=4 => match ledger.admit(&verdict(tool), &facts(tool, digest)).unwrap() {
            Admission::Permit(permit) => permits.push(permit),
            Admission::Asked(held) => waiting.push(held),
            Admission::Denied(_) => {}
        },
        5 | 6 => drop(permits.pop()),
        7 => {
            if let Some(permit) = permits.pop() {
                permit.release("never left").unwrap();
            }
        }
        8 => {
            if let Some(permit) = permits.pop() {
                let outcome = Outcome::new(Ending::Ok);
                permit.settle_until_continued(&outcome, &facts("free", digest)).unwrap();
            }
        }
        9 => {
            if let Some(held) = waiting.last() {
                let answer = match digest % 3 {
                    0 => Answer::ApproveOnce,
                    1 => Answer::ApproveFor { seconds: 60 },
                    _ => Answer::Deny { words: "no \"way\"".into() },
                };
                let _ = ledger.decide_approval(held.approval_id(), &answer, "owner");
            }
        }
        _ => {
            if let Some(held) = waiting.pop() {
                match ledger.resume(held, &verdict("ask"), &facts("ask", digest)).unwrap() {
                    Admission::Permit(permit) => permits.push(permit),
                    Admission::Asked(held) => waiting.push(held),
                    Admission::Denied(_) => {}
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 24, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn all_processes_and_a_new_one_see_the_same_state(
        acts in prop::collection::vec((any::<u8>(), 0_u8..4, 0_u64..3_000_000), 1..150),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let clock = Clock::set(Now { wall_us: 1_794_571_200_000_000, steady_us: 9 });
        let options = Options { segment_bytes_max: 8_000, ..Options::default() };
        let open = || Ledger::open(folder.path(), clock.clone(), options.clone()).unwrap();
        let (writing, following) = (open(), open());
        let (mut permits, mut waiting) = (Vec::new(), Vec::new());
        for (what, digest, gap_us) in acts {
            clock.advance(gap_us);
            act(&writing, what, digest, &mut permits, &mut waiting);
        }
        let expected = snapshot(&writing);
        prop_assert_eq!(&snapshot(&following), &expected);
        prop_assert_eq!(&snapshot(&open()), &expected);
        prop_assert!(super::Reader::open(folder.path()).unwrap().verify(None).is_ok());
        drop(permits);
    }
}

#[test]
fn a_flush_that_failed_stops_everything_until_one_succeeds() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { durability: Durability::Power, ..Options::default() };
    let ledger = Ledger::open(folder.path(), Clock::System, options).unwrap();
    let admit = || ledger.admit(&verdict("free"), &facts("free", 1));
    let Admission::Permit(permit) = admit().unwrap() else { panic!("denied") };
    permit.wait_durable().unwrap();
    permit.settle(&Outcome::new(Ending::Ok)).unwrap();

    let Admission::Permit(permit) = admit().unwrap() else { panic!("denied") };
    ledger.shared.flush.fail_next();
    let error = permit.wait_durable().unwrap_err().to_string();
    assert!(error.contains("could not be flushed") && error.contains("hint: "), "{error}");
    assert!(matches!(admit(), Err(LedgerError::NotFlushed { .. })));
    drop(permit);
    ledger.flush().unwrap();
    let Admission::Permit(permit) = admit().unwrap() else { panic!("denied") };
    permit.wait_durable().unwrap();
    permit.settle(&Outcome::new(Ending::Ok)).unwrap();
    assert_eq!(ledger.status().unwrap().open_calls, 0, "the dropped one was closed later");
    super::Reader::open(folder.path()).unwrap().verify(None).unwrap();
}

#[test]
fn a_log_that_was_put_back_from_a_copy_is_what_is_flushed() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { durability: Durability::Power, ..Options::default() };
    let ledger = Ledger::open(folder.path(), Clock::System, options).unwrap();
    let path = folder.path().join("00000001.log");
    let mut files = Vec::new();
    for _ in 0..2 {
        let Admission::Permit(permit) = ledger.admit(&verdict("free"), &facts("free", 1)).unwrap()
        else {
            panic!("denied")
        };
        permit.wait_durable().unwrap();
        permit.settle(&Outcome::new(Ending::Ok)).unwrap();
        let flushed = FileId::of(&ledger.shared.flush.flushed_file().unwrap()).unwrap();
        assert_eq!(flushed, FileId::of_path(&path).unwrap());
        files.push(flushed);
        let copy = folder.path().join("copy");
        std::fs::copy(&path, &copy).unwrap();
        std::fs::rename(&copy, &path).unwrap();
    }
    assert_ne!(files.first(), files.last());
}
