//! The approvals of parked calls: finds the owner's answer to a call, and uses an answer once. They
//! are part of the ledger's state, so that using an approval and recording the call are one step.

mod approval;
mod limits;

use std::collections::{BTreeMap, HashMap};

use approval::seq_of;
pub use approval::{Answer, Approval, ApprovalError, ApprovalStatus};
pub(crate) use approval::{Decided, id_of};
pub use limits::{PARKED_BYTES_MAX, PARKED_BYTES_PER_GRANT_MAX};
pub(crate) use limits::{PENDING_PER_GRANT_MAX, ParkedFull};

/// How long an ended approval is still listed.
const LISTED_US_AFTER_END: u64 = 60 * 60 * 1_000_000;

/// The approval state of a call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ApprovalMatch<'a> {
    Nothing,
    Pending(&'a Approval),
    Approved(&'a Approval),
    Denied(&'a Approval),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Approvals {
    by_seq: BTreeMap<u64, Approval>,
    newest: HashMap<String, u64>,
    /// The newest approval for any arguments, by binding.
    any_arguments: HashMap<String, u64>,
    /// Counts every change, so that a waiting call knows when to check again.
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

    /// The owner's answer to this exact call, or to this tool with any arguments.
    pub(crate) fn find(&self, binding: &str, tool_binding: &str, now: u64) -> ApprovalMatch<'_> {
        match self.find_exact(binding, now) {
            exact @ (ApprovalMatch::Nothing | ApprovalMatch::Pending(_)) => {
                self.find_any(tool_binding, now).map_or(exact, ApprovalMatch::Approved)
            }
            exact => exact,
        }
    }

    fn find_any(&self, tool_binding: &str, now: u64) -> Option<&Approval> {
        let approval = self.by_seq.get(self.any_arguments.get(tool_binding)?)?;
        let is_yes = matches!(approval.status, ApprovalStatus::ApprovedUntil(_));
        Some(approval).filter(|a| is_yes && a.any_arguments && !a.is_expired(now))
    }

    fn find_exact(&self, binding: &str, now: u64) -> ApprovalMatch<'_> {
        let newest = self.newest.get(binding).and_then(|seq| self.by_seq.get(seq));
        let Some(approval) = newest.filter(|approval| !approval.is_expired(now)) else {
            return ApprovalMatch::Nothing;
        };
        match approval.status {
            ApprovalStatus::Pending => ApprovalMatch::Pending(approval),
            ApprovalStatus::ApprovedOnce | ApprovalStatus::ApprovedUntil(_) => {
                ApprovalMatch::Approved(approval)
            }
            ApprovalStatus::Denied => ApprovalMatch::Denied(approval),
            ApprovalStatus::Used(_) => ApprovalMatch::Nothing,
        }
    }

    pub(crate) fn ask(&mut self, approval: Approval) {
        self.generation += 1;
        self.newest.insert(approval.binding.clone(), approval.seq);
        if approval.any_arguments {
            self.any_arguments.insert(approval.tool_binding.clone(), approval.seq);
        }
        self.by_seq.insert(approval.seq, approval);
    }

    /// Whether this can be decided now. An unused approval can still be revoked.
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

    /// An approval for any arguments also applies to the other pending calls of that tool, and
    /// revoking it also revokes it for them.
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

    /// Uses the approval for a call. One with a duration stays.
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

#[cfg(test)]
mod tests;
