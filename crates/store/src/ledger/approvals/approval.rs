//! One parked call, its status, and the owner's answer to it.

use serde::{Deserialize, Serialize};

/// One parked call. Times named `_us` in ledger time correspond to [`crate::ledger::Ledger::time`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    pub id: String,
    /// The decision row of the request.
    pub seq: u64,
    /// Wall clock at the request.
    pub asked_us: i64,
    /// Ledger time at which it expires.
    pub expires_us: u64,
    pub grant: String,
    pub server: String,
    pub method: String,
    /// `tool`, `resource`, `prompt`, `skill` or `method`.
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
    /// Upper bound of what the call keeps on disk.
    #[serde(default)]
    pub(crate) parked_bytes: u64,
    /// Approved for any arguments of this tool, not only the exact ones.
    #[serde(default)]
    pub any_arguments: bool,
    /// What the approval is bound to: grant, server, subject, definition, arguments, policy
    /// version.
    pub(crate) binding: String,
    /// The same without the arguments. Empty for one of an older version.
    #[serde(default)]
    pub(crate) tool_binding: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalStatus {
    Pending,
    ApprovedOnce,
    /// This exact call, any number of times, until this ledger time.
    ApprovedUntil(u64),
    Denied,
    /// By the call with this sequence number.
    Used(u64),
}

impl Approval {
    /// Expired before it was decided or used.
    pub fn is_expired(&self, ledger_time_us: u64) -> bool {
        match self.status {
            ApprovalStatus::ApprovedUntil(until) => ledger_time_us >= until,
            _ => ledger_time_us >= self.expires_us,
        }
    }

    /// Pending or not yet used: its parked arguments are still needed.
    pub fn is_live(&self, ledger_time_us: u64) -> bool {
        let is_over = matches!(self.status, ApprovalStatus::Denied | ApprovalStatus::Used(_));
        !is_over && !self.is_expired(ledger_time_us)
    }

    pub(super) fn decide(&mut self, decided: &Decided<'_>) {
        self.status = decided.status;
        self.any_arguments = decided.any_arguments;
        decided.by.clone_into(&mut self.by);
        decided.words.clone_into(&mut self.words);
    }

    pub(super) fn ends_us(&self) -> u64 {
        match self.status {
            ApprovalStatus::ApprovedUntil(until) => until.max(self.expires_us),
            _ => self.expires_us,
        }
    }
}

/// The owner's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    ApproveOnce,
    /// This exact call, any number of times, for a time.
    ApproveFor {
        seconds: u64,
    },
    /// This tool of this server with any arguments, any number of times, for a time.
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

    /// What the audit row says about an approval for any arguments; none for other answers.
    pub(crate) fn words_of_any(&self) -> String {
        match self {
            Answer::ApproveAnyFor { seconds } => format!("any arguments, for {seconds} s"),
            _ => String::new(),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ApprovalError {
    #[error("there is no approval `{0}`\nhint: `tollgate approvals list` shows the pending ones")]
    Unknown(String),
    #[error("approval `{id}` is already {status}")]
    AlreadyDecided { id: String, status: &'static str },
    #[error("approval `{0}` has expired\nhint: let the agent send the call again")]
    Expired(String),
    #[error(
        "approval `{0}` was requested by an older version and can only be approved with its exact arguments\nhint: leave out `--any-arguments`, or let the agent send the call again"
    )]
    ExactOnly(String),
    #[error(transparent)]
    Ledger(#[from] crate::ledger::LedgerError),
}

/// A decision as stored.
pub(crate) struct Decided<'a> {
    pub(crate) status: ApprovalStatus,
    pub(crate) any_arguments: bool,
    pub(crate) by: &'a str,
    pub(crate) words: &'a str,
}

/// An id contains its row number and part of the chain, so that ids of two ledgers never collide.
pub(crate) fn id_of(seq: u64, previous: &crate::ledger::chain::Hash) -> String {
    let piece = crate::ledger::chain::as_text(previous).get(..6).unwrap_or_default();
    format!("ap-{seq}-{piece}")
}

pub(super) fn seq_of(id: &str) -> Option<u64> {
    id.strip_prefix("ap-")?.split('-').next()?.parse().ok()
}
