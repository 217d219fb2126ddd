//! Asks the client's own user about a call, through the protocol's elicitation, where a rule says `via: "client"`.
//! The question is about the same approval that the owner sees: bound to the exact call and used once.

use std::sync::Arc;

use catalog::pins::visible;
use mcp::{Era, InputKind, Method};
use policy::json::{Kind, Value, write_string};
use policy::{Ask, Decision, Verdict, Via};
use store::ledger::{Answer, ApprovalError};

use crate::exchange::call::IncomingRequest;
use crate::exchange::digests::parked_params;
use crate::runtime::Services;

pub(crate) const METHOD: &str = "elicitation/create";
/// A longer call cannot be read in a client's dialog, so the owner is asked.
const SHOWN_BYTES_MAX: usize = 4_000;
const SCHEMA: &str = r#"{"type":"object","properties":{"decision":{"type":"string","title":"Decision","enum":["approve","deny"]}},"required":["decision"]}"#;

/// What a user decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientDecision {
    Approve,
    Deny,
    /// The user closed the question; the owner is asked.
    None,
}

impl ClientDecision {
    /// From the result of an elicitation. Only an explicit choice counts.
    pub(crate) fn of(result: Option<Value<'_>>) -> ClientDecision {
        let Some(result) = result.filter(|result| result.kind() == Kind::Object) else {
            return ClientDecision::None;
        };
        let content = result.get("content");
        let decision = content.and_then(|content| content.get("decision")?.as_str());
        let action = result.get("action").and_then(Value::as_str);
        match (action.as_deref(), decision.as_deref()) {
            (Some("accept"), Some("approve")) => ClientDecision::Approve,
            (Some("accept"), Some("deny")) | (Some("decline"), _) => ClientDecision::Deny,
            _ => ClientDecision::None,
        }
    }
}

/// The params of the question, if the client's user is to be asked and can read the whole call.
pub(crate) fn question(incoming: &IncomingRequest<'_>, verdict: &Verdict) -> Option<String> {
    let ask = ask_of(verdict)?;
    let is_tool = incoming.request.method == Method::ToolsCall;
    let can_be_asked = incoming.client_capabilities.accepts(InputKind::Form)
        && (incoming.era == Era::Modern || incoming.context.session.is_some());
    if !is_tool || !can_be_asked {
        return None;
    }
    let call = visible(&parked_params(incoming.request));
    let server = incoming.context.endpoint.server().unwrap_or_default();
    let at = if server.is_empty() { String::new() } else { format!(" to server `{server}`") };
    let message = format!("{}\n\nThis is sent{at} if you approve:\n{call}", ask.reason);
    if message.len() > SHOWN_BYTES_MAX {
        return None;
    }
    let mut params = b"{\"message\":".to_vec();
    write_string(&message, &mut params);
    params.extend_from_slice(b",\"requestedSchema\":");
    params.extend_from_slice(SCHEMA.as_bytes());
    params.push(b'}');
    String::from_utf8(params).ok()
}

/// The question that the verdict asks of the client.
pub(crate) fn ask_of(verdict: &Verdict) -> Option<&Ask> {
    match verdict.decision() {
        Decision::Ask(ask) if ask.via == Via::Client => Some(ask),
        _ => None,
    }
}

/// Writes the decision of a client's user into the ledger.
pub(crate) fn record(
    services: &Arc<Services>,
    approval: &str,
    decision: ClientDecision,
    client: &str,
) {
    let answer = match decision {
        ClientDecision::Approve => Answer::ApproveOnce,
        ClientDecision::Deny => {
            Answer::Deny { words: "the user of the client refused it".to_owned() }
        }
        ClientDecision::None => return,
    };
    let by = if client.is_empty() { "client".to_owned() } else { format!("client ({client})") };
    match services.ledger.decide_approval(approval, &answer, &by) {
        // The owner was faster, or it has expired: what is recorded counts.
        Ok(_) | Err(ApprovalError::AlreadyDecided { .. } | ApprovalError::Expired(_)) => {}
        Err(error) => tracing::error!(%error, "could not record the decision of a client's user"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use policy::json::{Bounds, Doc};

    #[test]
    fn only_an_explicit_choice_decides() {
        let table = [
            (r#"{"action":"accept","content":{"decision":"approve"}}"#, ClientDecision::Approve),
            (r#"{"action":"accept","content":{"decision":"deny"}}"#, ClientDecision::Deny),
            (r#"{"action":"decline"}"#, ClientDecision::Deny),
            (r#"{"action":"cancel"}"#, ClientDecision::None),
            (r#"{"action":"accept"}"#, ClientDecision::None),
            (r#"{"action":"accept","content":{"decision":true}}"#, ClientDecision::None),
            (r#"{"content":{"decision":"approve"}}"#, ClientDecision::None),
            (r#""approve""#, ClientDecision::None),
        ];
        for (text, expected) in table {
            let doc = Doc::read(text.as_bytes(), &Bounds::ANSWER).unwrap();
            assert_eq!(ClientDecision::of(Some(doc.root())), expected, "{text}");
        }
        assert_eq!(ClientDecision::of(None), ClientDecision::None);
    }
}
