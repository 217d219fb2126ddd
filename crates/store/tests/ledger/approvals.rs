//! Calls that wait for a human.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use policy::{Code, Subject};
use store::ledger::{
    Admission, Answer, ApprovalError, ApprovalStatus, Facts, HeldCall, Ledger, PolicyRef,
};

use super::support::{
    LedgerFixture, MINUTE_US, SECOND_US, facts, ok, on_both, policy, rounds, verdict,
};

const ASK: &str = r#"{"pay":{"action":"require_approval","reason":"money",
    "limits":[{"counter":"c","window":"hour","max":100}]}}"#;

fn ask(ledger: &Ledger, facts: &Facts<'_>) -> Admission {
    ledger.admit(&verdict(&policy(ASK), "{}"), facts).unwrap()
}

fn waiting(ledger: &Ledger, facts: &Facts<'_>) -> HeldCall {
    match ask(ledger, facts) {
        Admission::Asked(waiting) => waiting,
        other => panic!("{other:?}"),
    }
}

on_both! {
fn the_same_call_sent_again_goes_through_after_approval_and_once_only(fixture) {
    let ledger = fixture.open();
    let first = waiting(&ledger, &facts());
    let id = first.approval_id().to_owned();
    assert_eq!(first.denial().code, Code::ApprovalPending);
    assert!(first.denial().reason.contains(&id) && first.denial().reason.contains("money"));
    assert_eq!(
        waiting(&ledger, &facts()).approval_id(),
        id,
        "the same call waits on the same approval"
    );

    let approvals = ledger.approvals().unwrap();
    assert_eq!(approvals.len(), 1);
    assert_eq!((approvals[0].grant.as_str(), approvals[0].subject.as_str()), ("alice", "pay"));
    let decided = ledger.decide_approval(&id, &Answer::ApproveOnce, "owner").unwrap();
    assert_eq!(decided.status, ApprovalStatus::ApprovedOnce);

    let Admission::Permit(permit) = ask(&ledger, &facts()) else { panic!("not admitted") };
    permit.settle(&ok()).unwrap();
    assert_ne!(waiting(&ledger, &facts()).approval_id(), id, "a used approval is used");
    let entries = fixture.entries();
    let words: Vec<_> = entries.iter().map(|e| (e.decision.as_str(), e.outcome.as_str())).collect();
    assert_eq!(words, [("asked", ""), ("asked", ""), ("admitted", "ok"), ("asked", "")]);
    assert_eq!(entries[2].approval, id);
    assert_eq!(entries[2].holds.len(), 1, "an approved call counts");
}
}

on_both! {
fn a_held_call_goes_on_under_the_policy_of_then_and_its_entry_names_it(fixture) {
    let ledger = fixture.open();
    let held = waiting(&ledger, &facts());
    ledger.decide_approval(held.approval_id(), &Answer::ApproveOnce, "owner").unwrap();
    let policy_now = PolicyRef { name: "rules", version: 77 };
    let now = Facts { policy: Some(policy_now), ..facts() };
    match ledger.resume(held, &verdict(&policy(ASK), "{}"), &now).unwrap() {
        Admission::Denied(denial) => assert_eq!(denial.code, Code::ApprovalExpired),
        other => panic!("{other:?}"),
    }
    let entry = fixture.entries().remove(0);
    assert_eq!((entry.policy.as_str(), entry.policy_version), ("rules", Some(77)));
}
}

on_both! {
fn an_approval_serves_no_other_call(fixture) {
    let ledger = fixture.open();
    let id = waiting(&ledger, &facts()).approval_id().to_owned();
    ledger.decide_approval(&id, &Answer::ApproveFor { seconds: 3_600 }, "owner").unwrap();
    let others = [
        Facts { grant: "bob", ..facts() },
        Facts { server: "shop", ..facts() },
        Facts { subject: Some(Subject::Tool("pay2")), ..facts() },
        Facts { argument_digest: Some([2; 32]), ..facts() },
        Facts { argument_digest: None, ..facts() },
        Facts { definition: Some("changed"), ..facts() },
        Facts { policy: Some(PolicyRef { name: "p", version: 2 }), ..facts() },
    ];
    for other in others {
        assert!(matches!(ask(&ledger, &other), Admission::Asked(_)), "{other:?}");
    }
    let elsewhere = Facts { session: Some("s9"), remote: Some("[::1]:9"), ..facts() };
    assert!(matches!(ask(&ledger, &elsewhere), Admission::Permit(_)), "any session of the grant");
}
}

on_both! {
fn a_yes_for_a_time_serves_until_then_and_can_be_taken_back(fixture) {
    let ledger = fixture.open();
    let id = waiting(&ledger, &facts()).approval_id().to_owned();
    ledger.decide_approval(&id, &Answer::ApproveFor { seconds: 7_200 }, "owner").unwrap();
    for _ in 0..3 {
        assert!(matches!(ask(&ledger, &facts()), Admission::Permit(_)));
        fixture.clock.advance(39 * MINUTE_US);
    }
    fixture.clock.advance(3 * MINUTE_US);
    assert!(matches!(ask(&ledger, &facts()), Admission::Asked(_)), "two hours are over");

    let id = ledger.approvals().unwrap().last().unwrap().id.clone();
    ledger.decide_approval(&id, &Answer::ApproveFor { seconds: 7_200 }, "owner").unwrap();
    ledger
        .decide_approval(&id, &Answer::Deny { words: "changed my mind".into() }, "owner")
        .unwrap();
    let Admission::Denied(denial) = ask(&ledger, &facts()) else { panic!("not denied") };
    assert_eq!((denial.code, denial.reason.as_str()), (Code::ApprovalDenied, "changed my mind"));
}
}

on_both! {
fn an_approval_ends_at_its_timeout_decided_or_not(fixture) {
    let ledger = fixture.open();
    let rules =
        policy(r#"{"pay":{"approve_if":[{"conditions":[],"on_deny":"big","timeout":"10m"}]}}"#);
    let ask = || ledger.admit(&verdict(&rules, "{}"), &facts()).unwrap();
    let Admission::Asked(first) = ask() else { panic!("not asked") };
    fixture.clock.advance(9 * MINUTE_US + 59 * SECOND_US);
    ledger.decide_approval(first.approval_id(), &Answer::ApproveOnce, "owner").unwrap();
    fixture.clock.advance(SECOND_US);
    let Admission::Asked(second) = ask() else { panic!("the yes has ended") };
    assert_ne!(second.approval_id(), first.approval_id());
    fixture.clock.advance(10 * MINUTE_US);
    let late = ledger.decide_approval(second.approval_id(), &Answer::ApproveOnce, "owner");
    assert!(matches!(late, Err(ApprovalError::Expired(_))), "{late:?}");
    let unknown = ledger.decide_approval("ap-1-abcdef", &Answer::ApproveOnce, "owner");
    assert!(matches!(unknown, Err(ApprovalError::Unknown(_))));
}
}

on_both! {
fn a_held_call_is_one_entry_however_it_goes_on(fixture) {
    let ledger = fixture.open();
    let rules = policy(ASK);
    let resume = |waiting| ledger.resume(waiting, &verdict(&rules, "{}"), &facts()).unwrap();

    let held = waiting(&ledger, &facts());
    let (seq, id) = (held.seq(), held.approval_id().to_owned());
    let Admission::Asked(held) = resume(held) else { panic!("not decided yet") };
    ledger.decide_approval(&id, &Answer::ApproveOnce, "owner").unwrap();
    let Admission::Permit(permit) = resume(held) else { panic!("approved") };
    assert_eq!(permit.seq(), seq, "it goes on under its own row");
    permit.settle(&ok()).unwrap();

    let held = waiting(&ledger, &facts());
    let no = Answer::Deny { words: "no".into() };
    ledger.decide_approval(held.approval_id(), &no, "owner").unwrap();
    let Admission::Denied(denial) = resume(held) else { panic!("denied") };
    assert_eq!(denial.code, Code::ApprovalDenied);

    fixture.clock.advance(31 * MINUTE_US);
    let held = waiting(&ledger, &facts());
    fixture.clock.advance(31 * MINUTE_US);
    let Admission::Denied(denial) = resume(held) else { panic!("ended") };
    assert_eq!(denial.code, Code::ApprovalExpired);

    let entries = fixture.entries();
    let words: Vec<_> = entries.iter().map(|e| (e.decision.as_str(), e.outcome.as_str())).collect();
    assert_eq!(words, [("admitted", "ok"), ("denied", ""), ("denied", "")]);
    assert_eq!(entries[0].holds.len(), 1);
}
}

on_both! {
fn fifty_threads_race_for_one_approval_and_one_gets_it(fixture) {
    let ledger = fixture.open();
    let other = fixture.open();
    let rules = policy(ASK);
    for round in 0..rounds(20) {
        let digest = [u8::try_from(round % 256).unwrap(); 32];
        let facts = Facts { argument_digest: Some(digest), ..facts() };
        let id = waiting(&ledger, &facts).approval_id().to_owned();
        ledger.decide_approval(&id, &Answer::ApproveOnce, "owner").unwrap();
        let ran = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for thread in 0..50 {
                let ledger = if thread % 2 == 0 { &ledger } else { &other };
                let (rules, facts, ran) = (&rules, &facts, &ran);
                scope.spawn(move || {
                    let admission = ledger.admit(&verdict(rules, "{}"), facts).unwrap();
                    if let Admission::Permit(permit) = admission {
                        ran.fetch_add(1, Ordering::Relaxed);
                        permit.settle(&ok()).unwrap();
                    }
                });
            }
        });
        assert_eq!(ran.load(Ordering::Relaxed), 1, "round {round}");
        // Those who came late asked again; an hour later no call is waiting.
        fixture.clock.advance(60 * MINUTE_US);
    }
    println!(
        "P07: {} approvals raced for by 50 threads at two ledgers, 1 execution each",
        rounds(20)
    );
}
}

on_both! {
fn a_decision_made_by_another_process_is_noticed_and_survives_a_restart(fixture) {
    let gate = fixture.open();
    let heard = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&heard);
    gate.on_approval_change(move || {
        counter.fetch_add(1, Ordering::SeqCst);
    });
    let id = waiting(&gate, &facts()).approval_id().to_owned();
    assert_eq!(heard.load(Ordering::SeqCst), 1);
    let before = gate.generation();

    let cli = fixture.open();
    cli.decide_approval(&id, &Answer::ApproveOnce, "owner").unwrap();
    drop(cli);
    assert_ne!(gate.poll().unwrap(), before);
    assert_eq!(heard.load(Ordering::SeqCst), 2);
    drop(gate);
    let gate = fixture.open();
    assert!(matches!(ask(&gate, &facts()), Admission::Permit(_)));
}
}

on_both! {
fn a_grant_cannot_flood_the_owner_with_approvals(fixture) {
    let ledger = fixture.open();
    let with = |n: u16| Facts {
        argument_digest: Some([u8::try_from(n % 256).unwrap(); 32]),
        definition: (n > 255).then_some("x"),
        ..facts()
    };
    for n in 0..256 {
        assert!(matches!(ask(&ledger, &with(n)), Admission::Asked(_)));
    }
    let Admission::Denied(denial) = ask(&ledger, &with(256)) else { panic!("asked") };
    assert_eq!(denial.code, Code::RateLimited);
    assert_eq!(denial.retry_after_seconds, Some(30 * 60));
    let bob = Facts { grant: "bob", ..facts() };
    assert!(matches!(ask(&ledger, &bob), Admission::Asked(_)));
}
}

#[test]
fn calls_that_wait_hold_a_bounded_number_of_bytes_of_a_grant_and_in_all() {
    use store::ledger::{PARKED_BYTES_MAX, PARKED_BYTES_PER_GRANT_MAX};
    const EACH: u64 = 4 << 20;
    let fixture = LedgerFixture::new();
    let ledger = fixture.open();
    let with = |grant: &'static str, n: u8, parked_bytes: u64| Facts {
        grant,
        argument_digest: Some([n; 32]),
        parked_bytes,
        ..facts()
    };
    let fits = u8::try_from(PARKED_BYTES_PER_GRANT_MAX / EACH).unwrap();
    for n in 0..fits {
        assert!(matches!(ask(&ledger, &with("alice", n, EACH)), Admission::Asked(_)), "{n}");
    }
    // The same call again takes nothing more.
    assert!(matches!(ask(&ledger, &with("alice", 0, EACH)), Admission::Asked(_)));
    let Admission::Denied(denial) = ask(&ledger, &with("alice", fits, EACH)) else {
        panic!("asked")
    };
    assert_eq!(denial.code, Code::RateLimited);
    assert!(denial.reason.contains("16 MiB in total"), "{}", denial.reason);
    assert_eq!(denial.retry_after_seconds, Some(30 * 60));
    // Of several grants, the bound of all.
    for (grant, wanted) in [("bob", true), ("carol", true), ("dave", true), ("eve", false)] {
        for n in 0..fits {
            let asked = matches!(ask(&ledger, &with(grant, n, EACH)), Admission::Asked(_));
            assert_eq!(asked, wanted, "{grant} {n}");
        }
    }
    assert_eq!(PARKED_BYTES_MAX, PARKED_BYTES_PER_GRANT_MAX * 4);
    // What is decided makes room, also for a process that opens the log later.
    let waiting = ledger.approvals().unwrap();
    for approval in waiting.iter().filter(|a| a.grant == "alice") {
        ledger.decide_approval(&approval.id, &Answer::Deny { words: String::new() }, "me").unwrap();
    }
    drop(ledger);
    let ledger = fixture.open();
    assert!(matches!(ask(&ledger, &with("eve", 0, EACH)), Admission::Asked(_)));
    let Admission::Denied(denial) = ask(&ledger, &with("bob", 99, EACH)) else { panic!("asked") };
    assert!(denial.reason.contains("of this grant"), "{}", denial.reason);
    // One that never fits is told so.
    let huge = with("frank", 0, PARKED_BYTES_PER_GRANT_MAX + 1);
    let Admission::Denied(denial) = ask(&ledger, &huge) else { panic!("asked") };
    assert_eq!(denial.retry_after_seconds, None);
    assert!(denial.reason.contains("this one is larger"), "{}", denial.reason);
}
