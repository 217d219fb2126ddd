//! The state that the rows add up to: counters, open calls, approvals, ledger time. Every process
//! that shares a ledger folds the same rows into the same state.

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashMap;

use super::approvals::{Approval, ApprovalStatus, Approvals, Decided};
use super::chain::{self, Hash};
use super::counters::{Counters, Taken};
use super::row::{AuditRow, BadLine, HoldRow, RowKind};
use super::time::{Anchor, LedgerTime};
use super::timestamp;

/// A retry must come within this time to count as the same logical call.
const CONTINUE_US_MAX: u64 = 60 * 60 * 1_000_000;

/// So many calls may wait for their retry; then the oldest is dropped, and its retry is an ordinary
/// call.
const AWAITING_MAX: usize = 10_000;

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct LedgerState {
    /// Hash of the very first row: the id of this ledger.
    pub(crate) ledger: Option<Hash>,
    pub(crate) time: LedgerTime,
    pub(crate) counters: Counters,
    pub(crate) open: HashMap<u64, OpenCall>,
    /// Calls that the server answered with a question; the reply is the same call.
    pub(crate) awaiting: BTreeMap<u64, Awaiting>,
    pub(crate) approvals: Approvals,
    pub(crate) archived: Option<Archived>,
}

/// An admitted call without an ending yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OpenCall {
    pub(crate) writer: Arc<str>,
    pub(crate) tick: u64,
    pub(crate) taken: Vec<Taken>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Awaiting {
    pub(crate) binding: String,
    pub(crate) until: u64,
}

/// How far the oldest rows were retired.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Archived {
    pub(crate) segment: u32,
    pub(crate) last_seq: u64,
    pub(crate) last_hash: String,
    pub(crate) time: String,
}

impl LedgerState {
    pub(crate) fn admitted(&mut self, seq: u64, call: OpenCall, approval: &str) {
        self.counters.take(&call.taken, call.tick);
        if !approval.is_empty() {
            self.approvals.used(approval, seq);
        }
        self.open.insert(seq, call);
    }

    pub(crate) fn continued(&mut self, first: u64) {
        self.awaiting.remove(&first);
    }

    /// The call is over; with `released` it never happened. `continues` binds the retry it waits
    /// for.
    pub(crate) fn ended(&mut self, of: u64, tick: u64, released: bool, continues: &str) {
        let Some(call) = self.open.remove(&of) else { return };
        if released {
            self.counters.give_back(&call.taken, call.tick, tick);
        }
        if !continues.is_empty() {
            let until = tick.saturating_add(CONTINUE_US_MAX);
            self.awaiting.insert(of, Awaiting { binding: continues.to_owned(), until });
            if self.awaiting.len() > AWAITING_MAX {
                self.awaiting.pop_first();
            }
        }
    }

    pub(crate) fn is_open(&self, seq: u64) -> bool {
        self.open.contains_key(&seq)
    }

    pub(crate) fn is_awaited(&self, first: u64, binding: &str, now: u64) -> bool {
        self.awaiting.get(&first).is_some_and(|a| a.binding == binding && now < a.until)
    }

    /// The lowest sequence number that must stay in the log because something still refers to it.
    pub(crate) fn oldest_needed(&self) -> Option<u64> {
        self.open.keys().chain(self.awaiting.keys()).min().copied()
    }

    pub(crate) fn forget_expired(&mut self, now: u64) {
        self.counters.forget_expired(now);
        self.approvals.forget_expired(now);
        self.awaiting.retain(|_, awaiting| now < awaiting.until);
    }

    /// Folds in a row that was read. Rows that this process writes use the same methods directly.
    pub(crate) fn apply(&mut self, row: &mut AuditRow<'_>, hash: &Hash) -> Result<(), BadLine> {
        self.time.observe(row.tick, timestamp::parse(&row.time).unwrap_or_default());
        match row.kind {
            RowKind::Decision => self.apply_decision(row),
            RowKind::Resolved => self.apply_admission(row, row.of),
            RowKind::Outcome => {
                self.ended(row.of, row.tick, row.released, &row.continues);
                Ok(())
            }
            RowKind::Note => {
                self.apply_note(row);
                Ok(())
            }
            RowKind::State => self.apply_state(row, hash),
            RowKind::Checkpoint => Ok(()),
        }
    }

    fn apply_decision(&mut self, row: &AuditRow<'_>) -> Result<(), BadLine> {
        if let Some(first) = row.continuation_of {
            self.continued(first);
        }
        if !row.binding.is_empty() {
            self.approvals.ask(asked(row));
        }
        self.apply_admission(row, row.seq)
    }

    fn apply_admission(&mut self, row: &AuditRow<'_>, call: u64) -> Result<(), BadLine> {
        if !matches!(row.decision.as_ref(), "admitted" | "passed" | "own") {
            return Ok(());
        }
        let taken: Option<Vec<Taken>> = row.holds.iter().map(HoldRow::taken).collect();
        let taken = taken.ok_or_else(|| BadLine::Unreadable("a hold is invalid".to_owned()))?;
        let writer = row.writer.as_ref().into();
        self.admitted(call, OpenCall { writer, tick: row.tick, taken }, &row.approval);
        Ok(())
    }

    fn apply_note(&mut self, row: &AuditRow<'_>) {
        match row.act.as_ref() {
            "approval_decided" => {
                let status = match row.answer.as_ref() {
                    "once" => ApprovalStatus::ApprovedOnce,
                    "for" | "for_any" => ApprovalStatus::ApprovedUntil(row.until),
                    _ => ApprovalStatus::Denied,
                };
                let any_arguments = row.answer.as_ref() == "for_any";
                let decided = Decided { status, any_arguments, by: &row.by, words: &row.words };
                self.approvals.decide(&row.approval, &decided, row.tick);
            }
            "clock" => {
                let anchor = Anchor { tick: row.tick, steady_us: row.steady, ahead_us: row.ahead };
                self.time.anchor(&row.boot, anchor);
            }
            "archive" => {
                self.archived = Some(Archived {
                    segment: row.segment,
                    last_seq: row.last_seq,
                    last_hash: row.last_hash.to_string(),
                    time: row.time.to_string(),
                });
            }
            _ => {}
        }
    }

    fn apply_state(&mut self, row: &mut AuditRow<'_>, hash: &Hash) -> Result<(), BadLine> {
        if row.seq == 1 {
            self.ledger = Some(*hash);
            return Ok(());
        }
        // A process that has followed the log so far already knows all this.
        if self.ledger.is_some() {
            return Ok(());
        }
        let snapshot = row.state.take();
        let snapshot = snapshot.ok_or_else(|| BadLine::Unreadable("it has no state".into()))?;
        *self = snapshot
            .restore()
            .ok_or_else(|| BadLine::Unreadable("its state cannot be restored".into()))?;
        self.time.observe(row.tick, timestamp::parse(&row.time).unwrap_or_default());
        Ok(())
    }
}

fn asked(row: &AuditRow<'_>) -> Approval {
    let (kind, subject) = row.subject();
    Approval {
        id: row.approval.to_string(),
        seq: row.seq,
        asked_us: timestamp::parse(&row.time).unwrap_or_default(),
        expires_us: row.expires,
        grant: row.grant.to_string(),
        server: row.server.to_string(),
        method: row.method.to_string(),
        subject_kind: kind.to_owned(),
        subject: subject.to_owned(),
        policy: row.policy.to_string(),
        policy_version: row.policy_version.unwrap_or_default(),
        rule: row.rule.to_string(),
        reason: row.reason.to_string(),
        digest: row.digest.to_string(),
        status: ApprovalStatus::Pending,
        by: String::new(),
        words: String::new(),
        any_arguments: false,
        binding: row.binding.to_string(),
        parked_bytes: row.parked_bytes,
        tool_binding: row.tool_binding.to_string(),
    }
}

impl LedgerState {
    pub(crate) fn ledger_text(&self) -> &str {
        self.ledger.as_ref().map_or("", |hash| chain::as_text(hash))
    }
}

#[cfg(test)]
mod tests {
    use super::{AWAITING_MAX, LedgerState, OpenCall};

    #[test]
    fn calls_that_wait_for_their_retry_are_bounded_and_the_oldest_goes_first() {
        let mut state = LedgerState::default();
        let calls = AWAITING_MAX as u64 + 5;
        for seq in 1..=calls {
            let call = OpenCall { writer: "w".into(), tick: 0, taken: Vec::new() };
            state.admitted(seq, call, "");
            state.ended(seq, 0, false, "call");
        }
        let awaited = |seq| state.is_awaited(seq, "call", 1);
        assert_eq!((awaited(5), awaited(6), awaited(calls)), (false, true, true));
        assert_eq!(state.awaiting.len(), AWAITING_MAX);
    }
}
