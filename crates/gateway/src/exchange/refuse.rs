//! Refuses malformed messages and those without a valid grant, each with an audit row.

use policy::json::{Bounds, Doc};

use crate::exchange::context::RequestContext;
use crate::exchange::error_responses;
use crate::exchange::outbound::Outbound;
use mcp::ProtocolError;

/// Refuses a message and records it.
pub(crate) fn refuse(context: &RequestContext, refused: &ProtocolError, method: &str) -> Outbound {
    match context.record_refused(refused, method) {
        Ok(seq) => Outbound::with_status(refused.http_status, with_row(refused, seq).to_body()),
        Err(error) => {
            let denial = error_responses::ledger_failure(&error);
            let body = mcp::error_body(refused.id.as_ref(), refused.code, &denial.reason, None);
            Outbound::with_status(refused.http_status.max(400), body)
        }
    }
}

/// Adds the row number, unless the protocol defines the error's data.
fn with_row(refused: &ProtocolError, seq: Option<u64>) -> ProtocolError {
    match (&refused.raw_data, seq) {
        (Some(_), _) | (_, None) => refused.clone(),
        (None, Some(seq)) => refused.clone().with_data(format!("{{\"audit_id\":{seq}}}")),
    }
}

/// A message under a grant that is no longer valid.
pub(crate) fn revoked(context: &RequestContext, body: &[u8]) -> Outbound {
    let id = id_of(body);
    let message = "this grant has expired, was revoked, or has no access to this server";
    refuse(
        context,
        &ProtocolError { id, ..ProtocolError::new(401, error_responses::code::DENIED, message) },
        "(revoked)",
    )
}

/// The id of a request, if it can be parsed.
pub(crate) fn id_of(body: &[u8]) -> Option<mcp::Id> {
    let doc = Doc::read_shallow(body, &Bounds::MESSAGE, 1).ok()?;
    doc.root().get("id").and_then(mcp::Id::strict)
}
