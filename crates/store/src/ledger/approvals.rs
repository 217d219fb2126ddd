//! Calls that wait for a human: what was asked, what was answered, and that an answer is used once.
//! Everything lies in the ledger's state, so that using an approval and recording the call are one act.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

/// A grant can have this many calls waiting; the next one is refused until one is decided.
pub(crate) const PENDING_PER_GRANT_MAX: usize = 256;

/// Calls that wait for a human, or for their use, keep at most this much on disk: of one grant, and in
/// all. The next one is refused until one is decided, used or ended.
pub const PARKED_BYTES_PER_GRANT_MAX: u64 = 16 << 20;
pub const PARKED_BYTES_MAX: u64 = 64 << 20;

/// How long an ended approval is still listed.
const LISTED_US_AFTER_END: u64 = 60 * 60 * 1_000_000;

/// One parked call. Times named `_us` with ledger time go with [`super::Ledger::time`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    pub id: String,
    /// The decision row that asked.
    pub seq: u64,
    /// Wall clock when it was asked.
    pub asked_us: i64,
    /// Ledger time at which it ends by itself.
    pub expires_us: u64,
    pub grant: String,
    pub server: String,
    pub method: String,
    /// `tool`, `resource`, `prompt` or `method`.
    pub subject_kind: String,
    pub subject: String,
    pub policy: String,
    pub policy_version: u64,
    pub rule: String,
    pub reason: String,
    /// The keyed digest of the exact arguments, in hex.
    #[serde(default)]
    pub digest: String,
    pub status: ApprovalStatus,
    #[serde(default)]
    pub by: String,
    #[serde(default)]
    pub words: String,
    /// What the call keeps on disk, at most.
    #[serde(default)]
    pub(crate) parked_bytes: u64,
    /// The yes is for any arguments of this tool, not for the exact ones that asked.
    #[serde(default)]
    pub any_arguments: bool,
    /// What the approval is bound to: grant, server, subject, definition, arguments, policy version.
    pub(crate) binding: String,
    /// The same without the arguments. Empty for one that was asked by an older version.
    #[serde(default)]
    pub(crate) tool_binding: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalStatus {
    Pending,
    ApprovedOnce,
    /// This exact call, as often as it comes, until this ledger time.
    ApprovedUntil(u64),
    Denied,
    /// By the call with this sequence number.
    Used(u64),
}

impl Approval {
    /// Ended by time: not decided, or not used, before its end.
    pub fn is_expired(&self, ledger_time_us: u64) -> bool {
        match self.status {
            ApprovalStatus::ApprovedUntil(until) => ledger_time_us >= until,
            _ => ledger_time_us >= self.expires_us,
        }
    }

    /// Waits for the owner, or for its use: what was parked for it is still needed.
    pub fn is_live(&self, ledger_time_us: u64) -> bool {
        let is_over = matches!(self.status, ApprovalStatus::Denied | ApprovalStatus::Used(_));
        !is_over && !self.is_expired(ledger_time_us)
    }

    fn decide(&mut self, decided: &Decided<'_>) {
        self.status = decided.status;
        self.any_arguments = decided.any_arguments;
        decided.by.clone_into(&mut self.by);
        decided.words.clone_into(&mut self.words);
    }

    fn ends_us(&self) -> u64 {
        match self.status {
            ApprovalStatus::ApprovedUntil(until) => until.max(self.expires_us),
            _ => self.expires_us,
        }
    }
}

/// What the owner says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    ApproveOnce,
    /// This exact call, any number of times, for so long.
    ApproveFor {
        seconds: u64,
    },
    /// This tool of this server with any arguments, any number of times, for so long.
    ApproveAnyFor {
        seconds: u64,
    },
    Deny {
        words: String,
    },
}

impl Answer {
    pub(crate) fn as_str(&self) -> &'static str {
        match self {
            Answer::ApproveOnce => "once",
            Answer::ApproveFor { .. } => "for",
            Answer::ApproveAnyFor { .. } => "for_any",
            Answer::Deny { .. } => "deny",
        }
    }

    /// What the audit row says of a yes to any arguments; nothing of any other answer.
    pub(crate) fn words_of_any(&self) -> String {
        match self {
            Answer::ApproveAnyFor { seconds } => format!("any arguments, for {seconds} s"),
            _ => String::new(),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ApprovalError {
    #[error("there is no approval `{0}`\nhint: `tollgate approvals list` shows those that wait")]
    Unknown(String),
    #[error("approval `{id}` is already {status}")]
    AlreadyDecided { id: String, status: &'static str },
    #[error("approval `{0}` has ended\nhint: let the agent send the call again")]
    Expired(String),
    #[error(
        "approval `{0}` was asked by an older version and can only be approved with its exact arguments\nhint: leave out `--any-arguments`, or let the agent send the call again"
    )]
    ExactOnly(String),
    #[error(transparent)]
    Ledger(#[from] super::LedgerError),
}

/// A decision as it is kept.
pub(crate) struct Decided<'a> {
    pub(crate) status: ApprovalStatus,
    pub(crate) any_arguments: bool,
    pub(crate) by: &'a str,
    pub(crate) words: &'a str,
}

/// What is known about a call that needs approval.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found<'a> {
    Nothing,
    Pending(&'a Approval),
    Approved(&'a Approval),
    Denied(&'a Approval),
}

/// Why a call cannot be parked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoRoom {
    pub(crate) whose: &'static str,
    pub(crate) bytes_max: u64,
    pub(crate) wait_us: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Approvals {
    by_seq: BTreeMap<u64, Approval>,
    newest: HashMap<String, u64>,
    /// The newest yes to any arguments, by what it is bound to.
    any_arguments: HashMap<String, u64>,
    /// Counts every change, so that a waiting call knows when to look again.
    generation: u64,
}

impl Approvals {
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Approval> {
        self.by_seq.values()
    }

    pub(crate) fn get(&self, id: &str) -> Option<&Approval> {
        self.by_seq.get(&seq_of(id)?).filter(|approval| approval.id == id)
    }

    pub(crate) fn any_pending(&self, now: u64) -> bool {
        self.iter().any(|a| a.status == ApprovalStatus::Pending && !a.is_expired(now))
    }

    /// What the owner said to this exact call, or to this tool with any arguments.
    pub(crate) fn find(&self, binding: &str, tool_binding: &str, now: u64) -> Found<'_> {
        match self.find_exact(binding, now) {
            exact @ (Found::Nothing | Found::Pending(_)) => {
                self.find_any(tool_binding, now).map_or(exact, Found::Approved)
            }
            exact => exact,
        }
    }

    fn find_any(&self, tool_binding: &str, now: u64) -> Option<&Approval> {
        let approval = self.by_seq.get(self.any_arguments.get(tool_binding)?)?;
        let is_yes = matches!(approval.status, ApprovalStatus::ApprovedUntil(_));
        Some(approval).filter(|a| is_yes && a.any_arguments && !a.is_expired(now))
    }

    fn find_exact(&self, binding: &str, now: u64) -> Found<'_> {
        let newest = self.newest.get(binding).and_then(|seq| self.by_seq.get(seq));
        let Some(approval) = newest.filter(|approval| !approval.is_expired(now)) else {
            return Found::Nothing;
        };
        match approval.status {
            ApprovalStatus::Pending => Found::Pending(approval),
            ApprovalStatus::ApprovedOnce | ApprovalStatus::ApprovedUntil(_) => {
                Found::Approved(approval)
            }
            ApprovalStatus::Denied => Found::Denied(approval),
            ApprovalStatus::Used(_) => Found::Nothing,
        }
    }

    /// When there is no room to park so many bytes: the bound, and how long until the first call ends
    /// that is in the way. None of them is when the call alone is too large.
    pub(crate) fn no_room(&self, grant: &str, bytes: u64, now: u64) -> Option<NoRoom> {
        let live = || self.iter().filter(|approval| approval.is_live(now));
        let of_grant = || live().filter(|approval| approval.grant == grant);
        let sum = |taken: &mut dyn Iterator<Item = &Approval>| -> u64 {
            taken.map(|approval| approval.parked_bytes).sum()
        };
        let wait = |taken: &mut dyn Iterator<Item = &Approval>| {
            taken.map(|approval| approval.ends_us().saturating_sub(now)).min()
        };
        if sum(&mut of_grant()).saturating_add(bytes) > PARKED_BYTES_PER_GRANT_MAX {
            let wait_us = wait(&mut of_grant()).filter(|_| bytes <= PARKED_BYTES_PER_GRANT_MAX);
            return Some(NoRoom {
                whose: "of this grant",
                bytes_max: PARKED_BYTES_PER_GRANT_MAX,
                wait_us,
            });
        }
        if sum(&mut live()).saturating_add(bytes) > PARKED_BYTES_MAX {
            let wait_us = wait(&mut live());
            return Some(NoRoom { whose: "of all grants", bytes_max: PARKED_BYTES_MAX, wait_us });
        }
        None
    }

    /// When the grant has too many calls waiting: how long until the first of them ends.
    pub(crate) fn crowded(&self, grant: &str, now: u64) -> Option<u64> {
        let pending = || {
            self.iter().filter(|a| {
                a.grant == grant && a.status == ApprovalStatus::Pending && !a.is_expired(now)
            })
        };
        if pending().count() < PENDING_PER_GRANT_MAX {
            return None;
        }
        pending().map(|a| a.expires_us.saturating_sub(now)).min()
    }

    pub(crate) fn ask(&mut self, approval: Approval) {
        self.generation += 1;
        self.newest.insert(approval.binding.clone(), approval.seq);
        if approval.any_arguments {
            self.any_arguments.insert(approval.tool_binding.clone(), approval.seq);
        }
        self.by_seq.insert(approval.seq, approval);
    }

    /// May this be decided now? A yes that was not used yet can still be taken back.
    pub(crate) fn decidable(
        &self,
        id: &str,
        answer: &Answer,
        now: u64,
    ) -> Result<&Approval, ApprovalError> {
        let approval = self.get(id).ok_or_else(|| ApprovalError::Unknown(id.to_owned()))?;
        let already = |status| Err(ApprovalError::AlreadyDecided { id: id.to_owned(), status });
        match (approval.status, answer) {
            (ApprovalStatus::Used(_), _) => already("used"),
            (ApprovalStatus::Denied, _) => already("denied"),
            _ if approval.is_expired(now) => Err(ApprovalError::Expired(id.to_owned())),
            (_, Answer::ApproveAnyFor { .. }) if approval.tool_binding.is_empty() => {
                Err(ApprovalError::ExactOnly(id.to_owned()))
            }
            (ApprovalStatus::Pending, _) | (_, Answer::Deny { .. }) => Ok(approval),
            _ => already("approved"),
        }
    }

    /// A yes to any arguments also serves the other calls of that tool that wait now, and taking it back
    /// takes it from them, too.
    pub(crate) fn decide(&mut self, id: &str, decided: &Decided<'_>, now: u64) {
        let seq = seq_of(id).unwrap_or_default();
        let Some(approval) = self.by_seq.get_mut(&seq).filter(|approval| approval.id == id) else {
            return;
        };
        let was_any = approval.any_arguments;
        approval.decide(decided);
        self.generation += 1;
        if !was_any && !decided.any_arguments {
            return;
        }
        let tool_binding = approval.tool_binding.clone();
        if decided.any_arguments {
            self.any_arguments.insert(tool_binding.clone(), seq);
        }
        let others = self.by_seq.values_mut().filter(|other| other.tool_binding == tool_binding);
        for other in others {
            let waits = other.status == ApprovalStatus::Pending && !other.is_expired(now);
            if if decided.any_arguments { waits } else { other.any_arguments } {
                other.decide(decided);
            }
        }
    }

    /// A call goes out on this approval. One that holds for a time stays.
    pub(crate) fn used(&mut self, id: &str, call: u64) {
        let seq = seq_of(id).unwrap_or_default();
        if let Some(approval) = self.by_seq.get_mut(&seq)
            && approval.id == id
            && approval.status == ApprovalStatus::ApprovedOnce
        {
            approval.status = ApprovalStatus::Used(call);
            self.generation += 1;
        }
    }

    pub(crate) fn forget_expired(&mut self, now: u64) {
        self.by_seq
            .retain(|_, approval| approval.ends_us().saturating_add(LISTED_US_AFTER_END) > now);
        let by_seq = &self.by_seq;
        self.newest.retain(|_, seq| by_seq.contains_key(seq));
        self.any_arguments.retain(|_, seq| by_seq.contains_key(seq));
    }

    pub(crate) fn restore(&mut self, all: Vec<Approval>) {
        for approval in all {
            self.ask(approval);
        }
    }
}

/// An id names its row and a piece of the chain, so that ids of two ledgers never meet.
pub(crate) fn id_of(seq: u64, previous: &super::chain::Hash) -> String {
    let piece = super::chain::as_text(previous).get(..6).unwrap_or_default();
    format!("ap-{seq}-{piece}")
}

fn seq_of(id: &str) -> Option<u64> {
    id.strip_prefix("ap-")?.split('-').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test says enough")]
    use super::{Answer, Approval, ApprovalError, ApprovalStatus, Approvals, Decided, Found};

    fn approval(seq: u64, binding: &str, expires_us: u64) -> Approval {
        Approval {
            id: super::id_of(seq, &super::super::chain::GENESIS),
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
    fn a_yes_once_serves_one_call_and_a_yes_for_a_time_serves_until_then() {
        let mut all = Approvals::default();
        all.ask(approval(1, "a", 100));
        assert!(matches!(all.find("a", "tool", 10), Found::Pending(_)));
        all.decide("ap-1-000000", &decided(ApprovalStatus::ApprovedOnce), 0);
        assert!(matches!(all.find("a", "tool", 10), Found::Approved(_)));
        assert_eq!(all.find("a", "tool", 100), Found::Nothing, "it ends at its timeout");
        all.used("ap-1-000000", 7);
        assert_eq!(all.find("a", "tool", 10), Found::Nothing);

        all.ask(approval(2, "b", 100));
        all.decide("ap-2-000000", &decided(ApprovalStatus::ApprovedUntil(500)), 0);
        all.used("ap-2-000000", 8);
        assert!(matches!(all.find("b", "tool", 499), Found::Approved(_)));
        assert_eq!(all.find("b", "tool", 500), Found::Nothing);
        assert_eq!(all.find("c", "tool", 10), Found::Nothing);
    }

    #[test]
    fn what_may_be_decided() {
        let mut all = Approvals::default();
        all.ask(approval(1, "a", 100));
        let deny = Answer::Deny { words: "no".into() };
        let check = |all: &Approvals, id, answer: &Answer, now| match all.decidable(id, answer, now)
        {
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
    fn a_yes_to_any_arguments_serves_the_tool_until_it_ends_or_is_taken_back() {
        let mut all = Approvals::default();
        all.ask(approval(1, "a", 100));
        all.ask(approval(2, "b", 100));
        all.ask(Approval { tool_binding: "other".into(), ..approval(3, "c", 100) });
        let until = ApprovalStatus::ApprovedUntil(500);
        all.decide("ap-1-000000", &Decided { any_arguments: true, ..decided(until) }, 10);
        for binding in ["a", "b", "never seen"] {
            assert!(matches!(all.find(binding, "tool", 499), Found::Approved(_)), "{binding}");
            assert_eq!(all.find(binding, "tool", 500), Found::Nothing, "{binding}");
        }
        assert!(matches!(all.find("c", "other", 10), Found::Pending(_)));
        all.ask(approval(4, "d", 100));
        let mut restored = Approvals::default();
        restored.restore(all.iter().cloned().collect());
        for mut all in [all, restored] {
            assert!(matches!(all.find("x", "tool", 10), Found::Approved(_)));
            all.decide("ap-2-000000", &decided(ApprovalStatus::Denied), 10);
            assert!(matches!(all.find("a", "tool", 10), Found::Denied(_)));
            assert_eq!(all.find("x", "tool", 10), Found::Nothing, "asked anew");
            assert!(matches!(all.find("d", "tool", 10), Found::Pending(_)), "still asked");
        }
    }

    #[test]
    fn one_that_an_older_version_asked_is_approved_exactly() {
        let mut all = Approvals::default();
        all.ask(Approval { tool_binding: String::new(), ..approval(1, "a", 100) });
        let any = Answer::ApproveAnyFor { seconds: 1 };
        assert!(matches!(all.decidable("ap-1-000000", &any, 0), Err(ApprovalError::ExactOnly(_))));
    }

    #[test]
    fn a_grant_with_too_many_waiting_calls_is_told_when_to_come_back() {
        let mut all = Approvals::default();
        for seq in 0..256 {
            assert_eq!(all.crowded("alice", 0), None);
            all.ask(approval(seq, &seq.to_string(), 1_000 + seq));
        }
        assert_eq!(all.crowded("alice", 100), Some(900));
        assert_eq!(all.crowded("bob", 100), None);
        assert_eq!(all.crowded("alice", 1_000), None, "the first has ended");
    }
}
