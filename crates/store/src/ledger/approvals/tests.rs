//! Which answer applies to which call, and for how long.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::{Answer, Approval, ApprovalError, ApprovalMatch, ApprovalStatus, Approvals, Decided};

fn approval(seq: u64, binding: &str, expires_us: u64) -> Approval {
    Approval {
        id: super::id_of(seq, &crate::ledger::chain::GENESIS),
        seq,
        asked_us: 0,
        expires_us,
        grant: "alice".into(),
        server: "s".into(),
        method: "tools/call".into(),
        subject_kind: "tool".into(),
        subject: "t".into(),
        policy: "p".into(),
        policy_version: 1,
        rule: "/r".into(),
        reason: "why".into(),
        digest: String::new(),
        status: ApprovalStatus::Pending,
        by: String::new(),
        words: String::new(),
        parked_bytes: 0,
        any_arguments: false,
        binding: binding.into(),
        tool_binding: "tool".into(),
    }
}

fn decided(status: ApprovalStatus) -> Decided<'static> {
    Decided { status, any_arguments: false, by: "owner", words: "" }
}

#[test]
fn an_approval_applies_once_or_until_its_end() {
    let mut all = Approvals::default();
    all.ask(approval(1, "a", 100));
    assert!(matches!(all.find("a", "tool", 10), ApprovalMatch::Pending(_)));
    all.decide("ap-1-000000", &decided(ApprovalStatus::ApprovedOnce), 0);
    assert!(matches!(all.find("a", "tool", 10), ApprovalMatch::Approved(_)));
    assert_eq!(all.find("a", "tool", 100), ApprovalMatch::Nothing, "it ends at its timeout");
    all.used("ap-1-000000", 7);
    assert_eq!(all.find("a", "tool", 10), ApprovalMatch::Nothing);

    all.ask(approval(2, "b", 100));
    all.decide("ap-2-000000", &decided(ApprovalStatus::ApprovedUntil(500)), 0);
    all.used("ap-2-000000", 8);
    assert!(matches!(all.find("b", "tool", 499), ApprovalMatch::Approved(_)));
    assert_eq!(all.find("b", "tool", 500), ApprovalMatch::Nothing);
    assert_eq!(all.find("c", "tool", 10), ApprovalMatch::Nothing);
}

#[test]
fn only_open_approvals_can_be_decided() {
    let mut all = Approvals::default();
    all.ask(approval(1, "a", 100));
    let deny = Answer::Deny { words: "no".into() };
    let check = |all: &Approvals, id, answer: &Answer, now| match all.decidable(id, answer, now) {
        Ok(_) => "yes",
        Err(ApprovalError::Unknown(_)) => "unknown",
        Err(ApprovalError::AlreadyDecided { status, .. }) => status,
        Err(ApprovalError::Expired(_)) => "expired",
        Err(ApprovalError::ExactOnly(_)) => "exact only",
        Err(ApprovalError::Ledger(_)) => "ledger",
    };
    assert_eq!(check(&all, "ap-1-000000", &Answer::ApproveOnce, 99), "yes");
    assert_eq!(check(&all, "ap-1-000000", &Answer::ApproveOnce, 100), "expired");
    for unknown in ["ap-1-ffffff", "ap-2-000000", "ap-x", ""] {
        assert_eq!(check(&all, unknown, &deny, 0), "unknown");
    }
    all.decide("ap-1-000000", &decided(ApprovalStatus::ApprovedOnce), 0);
    assert_eq!(check(&all, "ap-1-000000", &Answer::ApproveOnce, 0), "approved");
    assert_eq!(check(&all, "ap-1-000000", &deny, 0), "yes", "an unused yes is taken back");
    all.used("ap-1-000000", 3);
    assert_eq!(check(&all, "ap-1-000000", &deny, 0), "used");
}

#[test]
fn an_approval_for_any_arguments_applies_until_it_ends_or_is_revoked() {
    let mut all = Approvals::default();
    all.ask(approval(1, "a", 100));
    all.ask(approval(2, "b", 100));
    all.ask(Approval { tool_binding: "other".into(), ..approval(3, "c", 100) });
    let until = ApprovalStatus::ApprovedUntil(500);
    all.decide("ap-1-000000", &Decided { any_arguments: true, ..decided(until) }, 10);
    for binding in ["a", "b", "never seen"] {
        assert!(matches!(all.find(binding, "tool", 499), ApprovalMatch::Approved(_)), "{binding}");
        assert_eq!(all.find(binding, "tool", 500), ApprovalMatch::Nothing, "{binding}");
    }
    assert!(matches!(all.find("c", "other", 10), ApprovalMatch::Pending(_)));
    all.ask(approval(4, "d", 100));
    let mut restored = Approvals::default();
    restored.restore(all.iter().cloned().collect());
    for mut all in [all, restored] {
        assert!(matches!(all.find("x", "tool", 10), ApprovalMatch::Approved(_)));
        all.decide("ap-2-000000", &decided(ApprovalStatus::Denied), 10);
        assert!(matches!(all.find("a", "tool", 10), ApprovalMatch::Denied(_)));
        assert_eq!(all.find("x", "tool", 10), ApprovalMatch::Nothing, "asked again");
        assert!(matches!(all.find("d", "tool", 10), ApprovalMatch::Pending(_)), "still asked");
    }
}

#[test]
fn an_approval_of_an_older_version_needs_exact_arguments() {
    let mut all = Approvals::default();
    all.ask(Approval { tool_binding: String::new(), ..approval(1, "a", 100) });
    let any = Answer::ApproveAnyFor { seconds: 1 };
    assert!(matches!(all.decidable("ap-1-000000", &any, 0), Err(ApprovalError::ExactOnly(_))));
}

#[test]
fn too_many_pending_calls_of_a_grant_give_a_retry_time() {
    let mut all = Approvals::default();
    for seq in 0..256 {
        assert_eq!(all.too_many_pending("alice", 0), None);
        all.ask(approval(seq, &seq.to_string(), 1_000 + seq));
    }
    assert_eq!(all.too_many_pending("alice", 100), Some(900));
    assert_eq!(all.too_many_pending("bob", 100), None);
    assert_eq!(all.too_many_pending("alice", 1_000), None, "the first has ended");
}
