//! What callers report to the ledger: requests, their outcomes, and the owner's acts.

use policy::{Code, Subject, Via};
use sha2::{Digest, Sha256};

use super::chain;

/// Everything that an audit row says about a request besides the decision. Unknown fields stay
/// empty.
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts<'a> {
    /// The grant's label; empty for an unknown caller.
    pub grant: &'a str,
    /// Distinguishes the grant from an earlier one with the same label.
    pub grant_id: &'a str,
    pub session: Option<&'a str>,
    pub client: Option<&'a str>,
    pub client_version: Option<&'a str>,
    pub server: &'a str,
    /// The JSON-RPC method, or the HTTP method of a request that never became a message.
    pub method: &'a str,
    pub subject: Option<Subject<'a>>,
    pub policy: Option<PolicyRef<'a>>,
    /// Names of the top-level arguments; the first 32 are kept.
    pub argument_keys: &'a [&'a str],
    /// Keyed digest of the canonical arguments; never the arguments.
    pub argument_digest: Option<[u8; 32]>,
    /// Fingerprint of the current tool definition.
    pub definition: Option<&'a str>,
    pub trace: Option<&'a str>,
    pub remote: Option<&'a str>,
    /// Upper bound of what is kept on disk if the call has to wait for a human.
    pub parked_bytes: u64,
}

/// Which version of which policy decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicyRef<'a> {
    pub name: &'a str,
    pub version: u64,
}

impl<'a> Facts<'a> {
    /// Whose counters a limit of a grant uses: a new grant with the label of a revoked one is a
    /// different grant. Without an id, as in a replay of old rows, the label is used.
    pub(crate) fn whose(&self) -> &'a str {
        if self.grant_id.is_empty() { self.grant } else { self.grant_id }
    }

    /// What an approval is bound to: grant, server, subject, definition, arguments, policy. A hash
    /// over the full texts, which the row may truncate. What a client's user may approve is another
    /// approval, so it never fits a rule that asks the owner.
    pub(crate) fn approval_binding(&self, via: Via) -> String {
        let policy = self.policy.unwrap_or(PolicyRef { name: "", version: 0 });
        let mut hash = Binding::new(match via {
            Via::Owner => "approval",
            Via::Client => "approval by the client",
        });
        hash.call(self);
        hash.part(self.definition.unwrap_or_default().as_bytes());
        hash.part(policy.name.as_bytes());
        hash.part(&policy.version.to_be_bytes());
        hash.finish()
    }

    /// The binding of an approval for any arguments: [`Facts::approval_binding`] without the
    /// arguments.
    pub(crate) fn tool_binding(&self, via: Via) -> String {
        let any = Facts { argument_digest: None, ..*self };
        let policy = any.policy.unwrap_or(PolicyRef { name: "", version: 0 });
        let mut hash = Binding::new(match via {
            Via::Owner => "approval of any arguments",
            Via::Client => "approval of any arguments by the client",
        });
        hash.call(&any);
        hash.part(any.definition.unwrap_or_default().as_bytes());
        hash.part(policy.name.as_bytes());
        hash.part(&policy.version.to_be_bytes());
        hash.finish()
    }

    /// What makes a retry the same logical call.
    pub(crate) fn call_binding(&self) -> String {
        let mut hash = Binding::new("call");
        hash.call(self);
        hash.finish()
    }
}

struct Binding(Sha256);

impl Binding {
    fn new(purpose: &str) -> Binding {
        let mut hash = Binding(Sha256::new());
        hash.part(purpose.as_bytes());
        hash
    }

    /// With its length, so that different lists of parts never hash alike.
    fn part(&mut self, bytes: &[u8]) {
        self.0.update(u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_be_bytes());
        self.0.update(bytes);
    }

    fn call(&mut self, facts: &Facts<'_>) {
        for text in [facts.grant, facts.grant_id, facts.server, facts.method] {
            self.part(text.as_bytes());
        }
        self.part(facts.subject.map_or("", Subject::kind).as_bytes());
        self.part(facts.subject.map_or("", Subject::name).as_bytes());
        self.part(facts.argument_digest.as_ref().map_or(&[][..], |digest| &digest[..]));
    }

    fn finish(self) -> String {
        chain::as_text(&chain::hex(&self.0.finalize())).to_owned()
    }
}

/// A request that was rejected without policy evaluation.
#[derive(Clone, Copy, Debug)]
pub struct Refusal<'a> {
    pub kind: RefusalKind,
    /// A code for programs, such as `duplicate_key` or `expired_grant`.
    pub code: &'a str,
    /// For people; never an argument value, never a token.
    pub reason: &'a str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalKind {
    /// It has no meaning or more than one, or exceeds a limit.
    Malformed,
    /// No grant, or one that is unknown, expired, revoked or not for this server.
    Unauthenticated,
    /// The caller is known and the message is valid, but the gate itself rejects it.
    Denied,
}

impl RefusalKind {
    pub fn as_str(self) -> &'static str {
        match self {
            RefusalKind::Malformed => "refused",
            RefusalKind::Unauthenticated => "unauthenticated",
            RefusalKind::Denied => "denied",
        }
    }
}

/// How an admitted call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Ok,
    /// The server responded with an error, or the call failed in transit.
    Error,
    Cancelled,
    /// Sent, with unknown result.
    Unknown,
    /// The gate dropped the call without an ending.
    Abandoned,
}

impl Ending {
    pub fn as_str(self) -> &'static str {
        match self {
            Ending::Ok => "ok",
            Ending::Error => "error",
            Ending::Cancelled => "cancelled",
            Ending::Unknown => "unknown",
            Ending::Abandoned => "abandoned",
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    pub ending: Ending,
    /// The HTTP status of the server's response, or its equivalent.
    pub status: Option<u16>,
    pub latency_us: Option<u64>,
    pub result_bytes: Option<u64>,
    /// For readers of the log, such as `result_too_large`.
    pub code: Option<Code>,
}

impl Outcome {
    pub fn new(ending: Ending) -> Outcome {
        Outcome { ending, status: None, latency_us: None, result_bytes: None, code: None }
    }
}

/// An act of the owner or of the gate itself that is not a call.
#[derive(Clone, Copy, Debug, Default)]
pub struct Note<'a> {
    /// What was done, such as `grant_created`, `policy_saved`, `pins_accepted`, `start`, `stop`.
    pub act: &'a str,
    /// Who did it.
    pub by: &'a str,
    /// What it was done to.
    pub about: &'a str,
    pub words: &'a str,
}

#[cfg(test)]
mod tests {
    use super::{Facts, PolicyRef};
    use policy::{Subject, Via};

    #[test]
    fn every_part_of_a_call_changes_what_an_approval_is_bound_to() {
        let base = Facts {
            grant: "alice",
            server: "bank",
            method: "tools/call",
            subject: Some(Subject::Tool("pay")),
            policy: Some(PolicyRef { name: "p", version: 1 }),
            argument_digest: Some([1; 32]),
            definition: Some("d"),
            ..Facts::default()
        };
        let changed = [
            Facts { grant: "alic", ..base },
            Facts { grant_id: "another that is called alice", ..base },
            Facts { server: "ebank", ..base },
            Facts { method: "x", ..base },
            Facts { subject: Some(Subject::Prompt("pay")), ..base },
            Facts { subject: Some(Subject::Tool("pay2")), ..base },
            Facts { policy: Some(PolicyRef { name: "p", version: 2 }), ..base },
            Facts { policy: Some(PolicyRef { name: "q", version: 1 }), ..base },
            Facts { policy: None, ..base },
            Facts { argument_digest: Some([2; 32]), ..base },
            Facts { argument_digest: None, ..base },
            Facts { definition: None, ..base },
        ];
        let mut seen = std::collections::HashSet::from([base.approval_binding(Via::Owner)]);
        for facts in changed {
            assert!(seen.insert(facts.approval_binding(Via::Owner)), "{facts:?}");
        }
        let same = Facts { session: Some("other"), client: Some("c"), trace: Some("t"), ..base };
        assert_eq!(same.approval_binding(Via::Owner), base.approval_binding(Via::Owner));
        assert_ne!(base.call_binding(), base.approval_binding(Via::Owner));
        assert_ne!(base.approval_binding(Via::Client), base.approval_binding(Via::Owner));
        assert_ne!(base.tool_binding(Via::Client), base.tool_binding(Via::Owner));
    }
}
