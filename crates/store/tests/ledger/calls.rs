//! A call from its decision to its ending, and what the rows say about it.

use policy::{Code, Subject};
use store::ledger::{Admission, Ending, Entry, Facts, Note, Outcome, Refusal, RefusalKind};

use super::support::{
    LedgerFixture, MINUTE_US, call, facts, limited, ok, on_both, policy, try_call, verdict,
    verdict_on,
};

const THREE: &str = r#"{"counter":"c","window":"minute","max":3}"#;

on_both! {
fn an_admitted_call_is_one_entry_with_its_facts_its_holds_and_its_ending(fixture) {
    let ledger = fixture.open();
    let permit = try_call(&ledger, &limited(THREE)).unwrap();
    let seq = permit.seq();
    let outcome = Outcome {
        status: Some(200),
        latency_us: Some(812),
        result_bytes: Some(2_048),
        ..Outcome::new(Ending::Ok)
    };
    permit.settle(&outcome).unwrap();

    let entries = fixture.entries();
    assert_eq!(entries.len(), 1);
    let entry = &entries[0];
    assert_eq!(entry.seq, seq);
    assert_eq!(entry.time, "2026-11-13T12:00:00.000000Z");
    assert_eq!((entry.grant.as_str(), entry.server.as_str()), ("alice", "bank"));
    assert_eq!((entry.method.as_str(), entry.tool.as_str()), ("tools/call", "pay"));
    assert_eq!((entry.client.as_str(), entry.client_version.as_str()), ("test-client", "1.0"));
    assert_eq!((entry.decision.as_str(), entry.outcome.as_str()), ("admitted", "ok"));
    assert_eq!((entry.policy.as_str(), entry.policy_version), ("p", Some(1)));
    assert_eq!(entry.keys, ["amount"]);
    assert_eq!(entry.digest, "01".repeat(32));
    assert_eq!(entry.status, "200");
    assert_eq!((entry.latency_us, entry.result_bytes), (Some(812), Some(2_048)));
    let hold = &entry.holds[0];
    assert_eq!(
        (hold.scope.as_str(), hold.id.as_str(), hold.counter.as_str()),
        ("grant", "alice", "c")
    );
    assert_eq!((hold.amount.as_str(), hold.windows_ms.as_slice()), ("1", &[60_000][..]));
}
}

on_both! {
fn every_request_is_exactly_one_decision_whatever_comes_of_it(fixture) {
    let ledger = fixture.open();
    let rules = policy(
        r#"{"pay":{"limits":[{"counter":"c","window":"minute","max":1}]},
            "no":{"action":"deny","reason":"never"},"ask":{"action":"require_approval"}}"#,
    );
    let mut expected = Vec::new();
    for round in 0..5 {
        let admitted = call(&ledger, &rules);
        assert_eq!(admitted, round == 0);
        expected.push(if admitted { "admitted" } else { "limited" });
        for (tool, word) in [("no", "denied"), ("ask", "asked"), ("unknown", "denied")] {
            let facts = Facts { subject: Some(Subject::Tool(tool)), ..facts() };
            let admission = ledger.admit(&verdict_on(&rules, tool, "{}"), &facts).unwrap();
            assert!(!matches!(admission, Admission::Permit(_)));
            expected.push(word);
        }
        let refusal = |kind, code| Refusal { kind, code, reason: "because" };
        ledger.record(&refusal(RefusalKind::Malformed, "duplicate_key"), &facts()).unwrap();
        ledger
            .record(&refusal(RefusalKind::Unauthenticated, "no_token"), &Facts::default())
            .unwrap();
        expected.extend(["refused", "unauthenticated"]);
    }
    let entries = fixture.entries();
    let decisions: Vec<&str> = entries.iter().map(|entry| entry.decision.as_str()).collect();
    assert_eq!(decisions, expected);
    assert!(entries.is_sorted_by_key(|entry| entry.seq));
    let limited = entries.iter().find(|entry| entry.decision == "limited").unwrap();
    assert_eq!(limited.code, "rate_limited");
    assert_eq!(limited.rule, "/tools/pay/limits/0");
    assert_eq!(limited.retry_after_seconds, Some(60));
    let denied = entries.iter().find(|entry| entry.decision == "denied").unwrap();
    assert_eq!(denied.reason, "never");
}
}

on_both! {
fn a_denial_names_its_row_its_limit_and_how_long_to_wait(fixture) {
    let ledger = fixture.open();
    let rules = limited(r#"{"counter":"c","window":"90s","max":1,"on_deny":"slow down"}"#);
    assert!(call(&ledger, &rules));
    fixture.clock.advance(30_500_000);
    let denial = try_call(&ledger, &rules).unwrap_err();
    assert_eq!(denial.code, Code::RateLimited);
    assert_eq!(denial.reason, "slow down");
    assert_eq!(denial.retry_after_seconds, Some(60), "59.5 s, rounded up");
    let row = fixture.entries().pop().unwrap();
    assert_eq!(denial.audit_id, Some(row.seq));
    fixture.clock.advance(59_499_999);
    assert!(!call(&ledger, &rules));
    fixture.clock.advance(1);
    assert!(call(&ledger, &rules));
}
}

on_both! {
fn a_dropped_permit_is_recorded_and_still_counts(fixture) {
    let ledger = fixture.open();
    let rules = limited(r#"{"counter":"c","window":"minute","max":1}"#);
    drop(try_call(&ledger, &rules).unwrap());
    let ended = |entries: &mut Vec<Entry>| entries.pop().filter(|last| !last.outcome.is_empty());
    assert_eq!(fixture.soon(ended).outcome, "abandoned");
    assert!(!call(&ledger, &rules));
}
}

on_both! {
fn a_released_call_gives_back_all_it_took_and_every_other_ending_keeps_it(fixture) {
    let ledger = fixture.open();
    let rules = limited(
        r#"{"counter":"c","window":"minute","max":1},{"counter":"d","window":"hour","max":1}"#,
    );
    let permit = try_call(&ledger, &rules).unwrap();
    permit.release("connection refused").unwrap();
    let entry = fixture.entries().pop().unwrap();
    assert!(entry.released);
    assert_eq!((entry.outcome.as_str(), entry.words.as_str()), ("error", "connection refused"));
    for ending in [Ending::Ok, Ending::Error, Ending::Cancelled, Ending::Unknown] {
        let permit = try_call(&ledger, &rules).unwrap();
        permit.settle(&Outcome::new(ending)).unwrap();
        assert!(!call(&ledger, &rules), "{ending:?}");
        fixture.clock.advance(60 * MINUTE_US);
    }
}
}

on_both! {
fn a_continued_call_counts_once_and_only_if_it_is_the_same_call(fixture) {
    let ledger = fixture.open();
    let rules = limited(r#"{"counter":"c","window":"hour","max":1}"#);
    let first = try_call(&ledger, &rules).unwrap();
    let first_seq = first.seq();
    first.settle_until_continued(&ok(), &facts()).unwrap();

    let again = |first_seq, facts: &Facts<'_>| {
        ledger.continue_call(&verdict(&rules, "{}"), first_seq, facts).unwrap()
    };
    let other = Facts { argument_digest: Some([2; 32]), ..facts() };
    assert!(matches!(again(first_seq, &other), Admission::Denied(_)), "other arguments");
    let other = Facts { grant: "bob", ..facts() };
    assert!(matches!(again(first_seq, &other), Admission::Permit(_)), "bob's own allowance");
    assert!(matches!(again(first_seq + 1, &facts()), Admission::Denied(_)), "no such call");

    let Admission::Permit(second) = again(first_seq, &facts()) else { panic!("not continued") };
    let second_seq = second.seq();
    assert!(matches!(again(first_seq, &facts()), Admission::Denied(_)), "it is continued once");
    second.settle_until_continued(&ok(), &facts()).unwrap();
    let Admission::Permit(third) = again(second_seq, &facts()) else { panic!("not continued") };
    third.settle(&ok()).unwrap();
    let entries = fixture.entries();
    let last = entries.iter().rfind(|entry| entry.decision == "admitted").unwrap();
    assert_eq!(last.continuation_of, Some(second_seq));
    assert!(last.holds.is_empty());

    let deny = policy(r#"{"pay":{"action":"deny"}}"#);
    fixture.clock.advance(60 * MINUTE_US);
    let first = try_call(&ledger, &rules).unwrap();
    let seq = first.seq();
    first.settle_until_continued(&ok(), &facts()).unwrap();
    let denied = ledger.continue_call(&verdict(&deny, "{}"), seq, &facts()).unwrap();
    assert!(matches!(denied, Admission::Denied(_)), "the policy of now still decides");
}
}

on_both! {
fn endings_that_come_together_are_in_the_log_before_anyone_says_so(fixture) {
    let ledger = fixture.open();
    let rules = limited(r#"{"counter":"c","window":"minute","max":100}"#);
    let permits: Vec<_> = (0..5).map(|_| try_call(&ledger, &rules).unwrap()).collect();
    let mut settled: Vec<_> = permits.into_iter().map(|permit| permit.settle_soon(&ok())).collect();
    let endings = || fixture.entries().iter().filter(|entry| entry.outcome == "ok").count();
    if fixture.is_in_files() {
        // On Postgres the ledger thread may be faster.
        assert_eq!(endings(), 0, "not written yet");
        assert!(settled.iter().all(store::ledger::Settled::has_concurrent_calls));
    }

    settled.pop().unwrap().write().unwrap();
    assert_eq!(endings(), 5, "one write for all");
    let rows = fixture.reader().verify(None).unwrap().last_seq;
    settled.drain(..).for_each(|settled| settled.write().unwrap());
    assert_eq!(fixture.reader().verify(None).unwrap().last_seq, rows, "and none of them twice");

    let (first, second) = (try_call(&ledger, &rules).unwrap(), try_call(&ledger, &rules).unwrap());
    let waits = first.settle_soon(&Outcome { status: Some(200), ..ok() });
    second.settle(&ok()).unwrap();
    assert_eq!(endings(), 7, "the next write includes the queued outcomes");
    assert!(!waits.has_concurrent_calls());
    drop(waits);
    drop(try_call(&ledger, &rules).unwrap().settle_soon(&ok()));
    // A dropped one is written too.
    fixture.soon(|_| (endings() == 8).then_some(()));
    assert!(fixture.entries().iter().any(|entry| entry.status == "200"));
}
}

on_both! {
fn the_gates_own_requests_and_the_owners_acts_have_rows_too(fixture) {
    let ledger = fixture.open();
    for (grant, word) in [("", "own"), ("alice-laptop", "passed")] {
        let permit =
            ledger.admit_without_policy(&Facts { method: "tools/list", grant, ..facts() }).unwrap();
        permit.settle(&ok()).unwrap();
        let row = fixture.entries().pop().unwrap();
        assert_eq!((row.decision.as_str(), row.outcome.as_str()), (word, "ok"));
    }
    let note =
        Note { act: "grant_created", by: "owner", about: "alice-laptop", words: "for tests" };
    let seq = ledger.note(&note).unwrap();
    let found = fixture.reader().entry(seq).unwrap().unwrap();
    assert_eq!((found.act.as_str(), found.by.as_str()), ("grant_created", "owner"));
    assert_eq!((found.about.as_str(), found.words.as_str()), ("alice-laptop", "for tests"));
}
}

#[test]
fn no_text_can_forge_a_row_or_grow_without_bound() {
    let fixture = LedgerFixture::new();
    let ledger = fixture.open();
    let long = "x".repeat(100_000);
    let keys: Vec<&str> = std::iter::repeat_n(long.as_str(), 1_000).collect();
    let facts = Facts {
        grant: "a\n{\"kind\":\"decision\"}\u{2028}",
        session: Some(&long),
        subject: Some(Subject::Tool(&long)),
        argument_keys: &keys,
        remote: Some("\u{1b}[2J\u{202e}"),
        ..facts()
    };
    let rules = limited(THREE);
    let Admission::Permit(permit) = ledger.admit(&verdict(&rules, "{}"), &facts).unwrap() else {
        panic!("denied");
    };
    permit.settle(&ok()).unwrap();
    let entry = fixture.entries().pop().unwrap();
    assert_eq!(entry.grant, "a\n{\"kind\":\"decision\"}\u{2028}");
    assert!(entry.tool.len() <= 512 && entry.tool.ends_with('…'));
    assert_eq!((entry.keys.len(), entry.keys_left_out), (32, Some(968)));
    let text = std::fs::read_to_string(fixture.segment(1)).unwrap();
    assert!(text.lines().all(|line| line.len() < 6_000));
    assert!(!text.contains(['\u{1b}', '\u{202e}', '\u{2028}']));
}
