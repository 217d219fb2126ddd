//! What the gate tells the ledger about a request, its ending, and the owner's acts.

use policy::{Code, Subject};
use sha2::{Digest, Sha256};

use super::chain;

/// Everything an audit row says about a request beyond the decision. What is not known stays empty.
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts<'a> {
    /// The grant's label; empty when the caller is nobody we know.
    pub grant: &'a str,
    /// What tells the grant from another one that had its label before.
    pub grant_id: &'a str,
    pub session: Option<&'a str>,
    pub client: Option<&'a str>,
    pub client_version: Option<&'a str>,
    pub server: &'a str,
    /// The JSON-RPC method, or the HTTP method of a request that never became a message.
    pub method: &'a str,
    pub subject: Option<Subject<'a>>,
    pub policy: Option<PolicyVersion<'a>>,
    /// Names of the top-level arguments; the first 32 are kept.
    pub argument_keys: &'a [&'a str],
    /// Keyed digest of the canonical arguments; never the arguments.
    pub argument_digest: Option<[u8; 32]>,
    /// Fingerprint of the tool definition in force.
    pub definition: Option<&'a str>,
    pub trace: Option<&'a str>,
    pub remote: Option<&'a str>,
    /// What is kept on disk if the call has to wait for a human, at most.
    pub parked_bytes: u64,
}

/// Which version of which policy decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicyVersion<'a> {
    pub name: &'a str,
    pub version: u64,
}

impl<'a> Facts<'a> {
    /// Whose counters a limit of a grant draws on: a new grant that is called like a revoked one is
    /// another. Without an id, as in a replay of old rows, the label is all there is.
    pub(crate) fn whose(&self) -> &'a str {
        if self.grant_id.is_empty() { self.grant } else { self.grant_id }
    }

    /// What an approval is bound to: who, where, what, in which definition, with which arguments,
    /// under which policy. As a hash over the whole texts, which the row may cut.
    pub(crate) fn approval_binding(&self) -> String {
        let policy = self.policy.unwrap_or(PolicyVersion { name: "", version: 0 });
        let mut hash = Binding::new("approval");
        hash.call(self);
        hash.part(self.definition.unwrap_or_default().as_bytes());
        hash.part(policy.name.as_bytes());
        hash.part(&policy.version.to_be_bytes());
        hash.finish()
    }

    /// What an approval of any arguments is bound to: the same as [`Facts::approval_binding`] without the
    /// arguments.
    pub(crate) fn tool_binding(&self) -> String {
        let any = Facts { argument_digest: None, ..*self };
        let policy = any.policy.unwrap_or(PolicyVersion { name: "", version: 0 });
        let mut hash = Binding::new("approval of any arguments");
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

    /// With its length, so that no two lists of parts hash alike.
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

/// A request that no policy was asked about.
#[derive(Clone, Copy, Debug)]
pub struct Refusal<'a> {
    pub kind: RefusalKind,
    /// A word for programs, such as `duplicate_key` or `expired_grant`.
    pub code: &'a str,
    /// For people; never an argument value, never a token.
    pub reason: &'a str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalKind {
    /// It has no meaning or more than one, or breaks a bound.
    Malformed,
    /// No grant, or one that is unknown, expired, revoked or not for this server.
    Unauthenticated,
    /// The caller is known and the message is clear, but the gate itself says no.
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
    /// The server answered with an error, or the call failed on its way.
    Error,
    Cancelled,
    /// Sent, and nobody knows what came of it.
    Unknown,
    /// The gate let go of the call without an ending.
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
    /// The HTTP status that the server answered with, or what stands for it.
    pub status: Option<u16>,
    pub latency_us: Option<u64>,
    pub result_bytes: Option<u64>,
    /// For the reader of the log, such as `result_too_large`.
    pub code: Option<Code>,
}

impl Outcome {
    pub fn new(ending: Ending) -> Outcome {
        Outcome { ending, status: None, latency_us: None, result_bytes: None, code: None }
    }
}

/// An act of the owner, or of the gate itself, that is not a call.
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
    use super::{Facts, PolicyVersion};
    use policy::Subject;

    #[test]
    fn every_part_of_a_call_changes_what_an_approval_is_bound_to() {
        let base = Facts {
            grant: "alice",
            server: "bank",
            method: "tools/call",
            subject: Some(Subject::Tool("pay")),
            policy: Some(PolicyVersion { name: "p", version: 1 }),
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
            Facts { policy: Some(PolicyVersion { name: "p", version: 2 }), ..base },
            Facts { policy: Some(PolicyVersion { name: "q", version: 1 }), ..base },
            Facts { policy: None, ..base },
            Facts { argument_digest: Some([2; 32]), ..base },
            Facts { argument_digest: None, ..base },
            Facts { definition: None, ..base },
        ];
        let mut seen = std::collections::HashSet::from([base.approval_binding()]);
        for facts in changed {
            assert!(seen.insert(facts.approval_binding()), "{facts:?}");
        }
        let same = Facts { session: Some("other"), client: Some("c"), trace: Some("t"), ..base };
        assert_eq!(same.approval_binding(), base.approval_binding());
        assert_ne!(base.call_binding(), base.approval_binding());
    }
}
