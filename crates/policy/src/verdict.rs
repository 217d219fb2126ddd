//! The verdict of a policy: allow, ask, deny or hide, with the deciding rule and the required holds.

use std::fmt;
use std::sync::Arc;

use crate::amount::Amount;
use crate::call::{Subject, described};
use crate::result_path::ResultPath;

/// The outcome of one decision. Only [`Policy::decide`](crate::Policy::decide) makes one that allows.
#[derive(Debug)]
pub struct Verdict {
    pub(crate) decision: Decision,
    pub(crate) rule: Arc<str>,
    pub(crate) holds: Vec<Hold>,
    pub(crate) effects: Effects,
    pub(crate) warning: Option<String>,
    pub(crate) aggregate_days: Option<u32>,
}

impl Verdict {
    /// The verdict for every call of a grant without a policy for the server.
    pub fn no_policy(subject: Subject<'_>) -> Verdict {
        let subject = described(subject);
        let reason = format!("no policy is attached for this server, so {subject} is denied");
        let rule = "(no policy)";
        Verdict::refusing(Decision::Deny(Denial::new(Code::NoPolicy, rule, reason)), rule.into())
    }

    pub(crate) fn refusing(decision: Decision, rule: Arc<str>) -> Verdict {
        Verdict {
            decision,
            rule,
            holds: Vec::new(),
            effects: Effects::default(),
            warning: None,
            aggregate_days: None,
        }
    }

    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// JSON pointer of the part of the policy that decided, such as `/tools/x/deny_if/0`.
    pub fn rule(&self) -> &str {
        &self.rule
    }

    /// The same, for a caller that outlives the verdict.
    pub fn shared_rule(&self) -> Arc<str> {
        Arc::clone(&self.rule)
    }

    /// The holds to take before the call is sent: for `Allow`, and for `Ask` once approved.
    pub fn holds(&self) -> &[Hold] {
        &self.holds
    }

    pub fn effects(&self) -> &Effects {
        &self.effects
    }

    /// The server may answer only with aggregates of at least so many days.
    pub fn aggregate_days(&self) -> Option<u32> {
        self.aggregate_days
    }

    /// A warning for the owner that did not decide the call.
    pub fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    Allow,
    /// A human must approve first.
    Ask(Ask),
    Deny(Denial),
    /// The caller must not learn that it exists, so it gets the response for a made-up name.
    Hidden(HiddenAs),
}

impl Decision {
    /// `allow`, `ask`, `deny` or `hide`.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Decision::Allow => "allow",
            Decision::Ask(_) => "ask",
            Decision::Deny(_) => "deny",
            Decision::Hidden(_) => "hide",
        }
    }
}

/// How something that does not exist, or is hidden, appears to the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HiddenAs {
    /// The rules deny every such name.
    Denied(Denial),
    /// The rules would allow it, but no such name exists. The denial is for the audit log.
    Unknown(Denial),
}

impl HiddenAs {
    pub const fn denial(&self) -> &Denial {
        match self {
            HiddenAs::Denied(denial) | HiddenAs::Unknown(denial) => denial,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    pub rule: String,
    pub reason: String,
    pub timeout_seconds: u64,
    pub via: Via,
}

/// Who may approve a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Via {
    #[default]
    Owner,
    /// The user of the client that makes the call; the owner, too.
    Client,
}

impl Via {
    pub const fn as_str(self) -> &'static str {
        match self {
            Via::Owner => "owner",
            Via::Client => "client",
        }
    }
}

/// A denial with everything that the agent may see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    pub code: Code,
    pub rule: String,
    pub reason: String,
    pub retry_after_seconds: Option<u64>,
    pub approval_id: Option<String>,
    pub audit_id: Option<u64>,
}

impl Denial {
    pub fn new(code: Code, rule: impl Into<String>, reason: impl Into<String>) -> Denial {
        Denial {
            code,
            rule: rule.into(),
            reason: reason.into(),
            retry_after_seconds: None,
            approval_id: None,
            audit_id: None,
        }
    }
}

/// Why a call was denied, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Code {
    DeniedByRule,
    DeniedByDefault,
    NoPolicy,
    RateLimited,
    ApprovalPending,
    ApprovalDenied,
    ApprovalExpired,
    ToolChanged,
    DigestMismatch,
    ResultTooLarge,
    StoreUnavailable,
}

impl Code {
    pub const ALL: [Code; 11] = [
        Code::DeniedByRule,
        Code::DeniedByDefault,
        Code::NoPolicy,
        Code::RateLimited,
        Code::ApprovalPending,
        Code::ApprovalDenied,
        Code::ApprovalExpired,
        Code::ToolChanged,
        Code::DigestMismatch,
        Code::ResultTooLarge,
        Code::StoreUnavailable,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Code::DeniedByRule => "denied_by_rule",
            Code::DeniedByDefault => "denied_by_default",
            Code::NoPolicy => "no_policy",
            Code::RateLimited => "rate_limited",
            Code::ApprovalPending => "approval_pending",
            Code::ApprovalDenied => "approval_denied",
            Code::ApprovalExpired => "approval_expired",
            Code::ToolChanged => "tool_changed",
            Code::DigestMismatch => "digest_mismatch",
            Code::ResultTooLarge => "result_too_large",
            Code::StoreUnavailable => "store_unavailable",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An amount to add to one counter. All holds of a call are taken, or none; holds on one counter in one scope
/// have one amount and count once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    pub counter: Arc<str>,
    pub scope: Scope,
    pub window_ms: u64,
    pub max: Amount,
    pub amount: Amount,
    /// JSON pointer of the limit.
    pub rule: Arc<str>,
    /// The owner's message for the agent when the limit is reached.
    pub on_deny: Option<Arc<str>>,
}

/// Who shares a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    Grant,
    Session,
    /// All grants of a server.
    Server,
    Everyone,
}

impl Scope {
    pub const ALL: [Scope; 4] = [Scope::Grant, Scope::Session, Scope::Server, Scope::Everyone];

    pub const fn as_str(self) -> &'static str {
        match self {
            Scope::Grant => "grant",
            Scope::Session => "session",
            Scope::Server => "server",
            Scope::Everyone => "everyone",
        }
    }

    pub fn from_name(name: &str) -> Option<Scope> {
        Scope::ALL.into_iter().find(|scope| scope.as_str() == name)
    }
}

/// What happens to the result of an admitted call.
#[derive(Debug, Clone, Default)]
pub struct Effects {
    /// Removed from the result before the agent sees it; see [`cuts`](crate::cuts).
    pub redact: Arc<[ResultPath]>,
    /// A larger result is rejected, never truncated.
    pub result_bytes_max: Option<u64>,
}
