//! One approval as commands and pages show it: the call with everything that is bound, its state, and why a
//! yes would no longer let anything through.

use crate::effective::Effective;
use crate::ledger::{Approval, ApprovalStatus};
use crate::registry::{GrantState, Registry, RegistryError};
use policy::json::{Bounds, Doc, write_string};
use serde::Serialize;

const COMPLETION: &str = "completion/complete";
/// Stands before the params. Older versions parked the arguments alone, which begin with a brace.
const PARAMS: &str = "params ";

/// What became of an approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalState {
    Waiting,
    Approved,
    Denied,
    Used,
    Ended,
}

impl ApprovalState {
    pub fn of(approval: &Approval, time: u64) -> ApprovalState {
        match approval.status {
            ApprovalStatus::Denied => ApprovalState::Denied,
            ApprovalStatus::Used(_) => ApprovalState::Used,
            _ if approval.is_expired(time) => ApprovalState::Ended,
            ApprovalStatus::Pending => ApprovalState::Waiting,
            ApprovalStatus::ApprovedOnce | ApprovalStatus::ApprovedUntil(_) => {
                ApprovalState::Approved
            }
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            ApprovalState::Waiting => "waiting",
            ApprovalState::Approved => "approved",
            ApprovalState::Denied => "denied",
            ApprovalState::Used => "used",
            ApprovalState::Ended => "ended",
        }
    }

    /// Whether an answer still matters.
    pub fn is_open(self) -> bool {
        matches!(self, ApprovalState::Waiting | ApprovalState::Approved)
    }
}

/// Whether it is a yes that lets further calls through.
pub fn is_standing(approval: &Approval, time: u64) -> bool {
    matches!(approval.status, ApprovalStatus::ApprovedUntil(_))
        && ApprovalState::of(approval, time) == ApprovalState::Approved
}

pub fn seconds_left(approval: &Approval, time: u64) -> Option<u64> {
    let end = match approval.status {
        ApprovalStatus::Denied | ApprovalStatus::Used(_) => return None,
        ApprovalStatus::ApprovedUntil(until) => until,
        ApprovalStatus::Pending | ApprovalStatus::ApprovedOnce => approval.expires_us,
    };
    end.checked_sub(time).map(|left| left / 1_000_000)
}

/// The params of a parked call as they were sent, as JSON text.
pub enum ParkedParams {
    /// All params that the approval is bound to.
    All(String),
    /// What an older version kept and bound.
    ArgumentsOnly(String),
}

impl ParkedParams {
    /// Nothing when they are not kept any more.
    pub fn of(
        approval: &Approval,
        registry: &Registry,
    ) -> Result<Option<ParkedParams>, RegistryError> {
        let parked = registry.parked(&approval.id)?;
        Ok(parked.map(|bytes| ParkedParams::read(&String::from_utf8_lossy(bytes.expose()))))
    }

    fn read(text: &str) -> ParkedParams {
        match text.strip_prefix(PARAMS) {
            Some(params) => ParkedParams::All(params.to_owned()),
            None => ParkedParams::ArgumentsOnly(text.to_owned()),
        }
    }

    pub fn is_older(&self) -> bool {
        matches!(self, ParkedParams::ArgumentsOnly(_))
    }

    /// The exact arguments.
    pub fn arguments(&self) -> String {
        let params = match self {
            ParkedParams::All(params) => params,
            ParkedParams::ArgumentsOnly(arguments) => return arguments.clone(),
        };
        let doc = Doc::read(params.as_bytes(), &Bounds::MESSAGE).ok();
        let arguments = doc.as_ref().and_then(|doc| doc.root().get("arguments"));
        arguments.map_or("{}", |arguments| arguments.raw()).to_owned()
    }

    pub fn all(&self) -> Option<&str> {
        match self {
            ParkedParams::All(params) => Some(params),
            ParkedParams::ArgumentsOnly(_) => None,
        }
    }

    /// What is bound beyond the arguments and the name that is shown as the subject.
    pub fn others(&self) -> Option<String> {
        let doc = Doc::read(self.all()?.as_bytes(), &Bounds::MESSAGE).ok()?;
        let mut out = Vec::new();
        for (key, value) in doc.root().entries() {
            let key = key.text();
            if matches!(&*key, "arguments" | "name" | "uri") {
                continue;
            }
            out.push(if out.is_empty() { b'{' } else { b',' });
            write_string(&key, &mut out);
            out.push(b':');
            out.extend_from_slice(value.raw().as_bytes());
        }
        out.push(b'}');
        String::from_utf8(out).ok().filter(|text| text != "}")
    }
}

/// Names a tool of a server for one grant.
fn call_key(approval: &Approval) -> String {
    let Approval { grant, server, method, subject, .. } = approval;
    format!("{grant}\n{server}\n{method}\n{subject}")
}

/// Keeps the params of a call that the owner approves, so that the next call of the same tool can be compared
/// with it. To be called before the decision: a running gate deletes what was decided.
pub fn keep_for_comparison(
    approval: &Approval,
    registry: &Registry,
    now_us: i64,
) -> Result<(), RegistryError> {
    let Some(parked) = registry.parked(&approval.id)? else { return Ok(()) };
    registry.keep_approved_params(&call_key(approval), parked.expose(), now_us)
}

/// The arguments of the last approved call of the same tool, and when it was approved.
pub fn last_approved(approval: &Approval, registry: &Registry) -> Option<(String, i64)> {
    let last = registry.approved_params(&call_key(approval)).ok().flatten()?;
    let text = String::from_utf8_lossy(last.params.expose()).into_owned();
    Some((ParkedParams::read(&text).arguments(), last.approved_at_us))
}

/// Why an approval can no longer be used, where that is known. A call is judged by the snapshot that is
/// current when it comes, so a yes would let nothing through.
pub fn void(
    approval: &Approval,
    parked: Option<&ParkedParams>,
    effective: &Effective,
    now_us: i64,
) -> Option<String> {
    let Approval { grant: label, server, policy, policy_version, .. } = approval;
    if approval.method == COMPLETION && parked.is_some_and(ParkedParams::is_older) {
        return Some("an older version parked it without binding what is completed".to_owned());
    }
    let Some(grant) = effective.grant(label) else {
        return Some(format!("grant `{label}` is gone"));
    };
    if grant.state(now_us) != GrantState::Active {
        return Some(format!("grant `{label}` has ended"));
    }
    let access = grant.access(server).filter(|_| effective.servers.contains_key(server));
    let Some(access) = access else {
        return Some(format!("grant `{label}` no longer holds server `{server}`"));
    };
    let named = access.policy.as_ref()?;
    let now = effective.policies.get(named)?;
    (named != policy || now.number() != *policy_version)
        .then(|| format!("`{label}` is now judged by `{}` on `{server}`", now.label()))
}

#[cfg(test)]
mod tests {
    use super::ParkedParams;

    #[test]
    fn parked_params_are_shown_in_two_parts_and_older_ones_as_arguments() {
        let table = [
            (r#"{"a":1}"#, r#"{"a":1}"#, None),
            (r#"params {"name":"x","arguments":{"a":1.10}}"#, r#"{"a":1.10}"#, None),
            (
                r#"params {"_meta":{"to":"m"},"name":"x","task":{}}"#,
                "{}",
                Some(r#"{"_meta":{"to":"m"},"task":{}}"#),
            ),
            (r#"params {"uri":"x:y"}"#, "{}", None),
            ("params {}", "{}", None),
        ];
        for (text, arguments, others) in table {
            let parked = ParkedParams::read(text);
            assert_eq!(parked.arguments(), arguments, "{text}");
            assert_eq!(parked.others().as_deref(), others, "{text}");
        }
    }
}
