//! Refuses client messages that contain a grant token of tollgate: no server may receive one, and no row may
//! contain one.

mod encoded;

use memchr::memmem;
use policy::json::{Kind, Value};
use store::ledger::{Facts, Refusal, RefusalKind};
use store::registry::{TOKEN_PREFIX, has_token, redact_tokens};

use crate::exchange::context::RequestContext;
use crate::exchange::error_responses;
use crate::exchange::outbound::Outbound;
use mcp::{Id, Message, error_body};

/// In the row and in the response.
const CODE: &str = "own_token";
const MESSAGE: &str = "the message contains a grant token of tollgate, which must not leave the gate; send it without the token, and let the owner run `tollgate grant rotate` if others may have read it";

/// Refuses a message that contains a token: in a name, a key, an argument, or anywhere else.
pub(crate) fn refuse(
    context: &RequestContext,
    body: &[u8],
    root: Value<'_>,
    message: &Message<'_>,
) -> Option<Outbound> {
    if !is_in(body, root) {
        return None;
    }
    let services = context.services();
    services.metrics.denied(CODE);
    let method = redact_tokens(message.method_name().unwrap_or("(response)"));
    let facts = Facts {
        method: &method,
        server: context.endpoint.server().unwrap_or_default(),
        remote: context.remote(),
        ..context.facts()
    };
    let refusal = Refusal { kind: RefusalKind::Denied, code: CODE, reason: MESSAGE };
    // The id may be a token, too.
    let id = message.id().filter(|id| !is_in_text(id.raw()));
    Some(match services.ledger.record_soon(&refusal, &facts, None) {
        Ok(seq) => {
            let seq = seq.map_or_else(String::new, |seq| format!(",\"audit_id\":{seq}"));
            let data = format!("{{\"code\":\"{CODE}\"{seq}}}");
            refused(message, id, MESSAGE, Some(&data))
        }
        Err(error) => refused(message, id, &error_responses::ledger_failure(&error).reason, None),
    })
}

/// A request is refused with an error response, other messages with the HTTP status.
fn refused(message: &Message<'_>, id: Option<&Id>, text: &str, data: Option<&str>) -> Outbound {
    let status = if matches!(message, Message::Request(_)) { 200 } else { 400 };
    Outbound::with_status(status, error_body(id, error_responses::code::DENIED, text, data))
}

/// Most messages contain neither a token prefix, in any encoding, nor an escape that could hide it.
fn is_in(body: &[u8], root: Value<'_>) -> bool {
    let may_be = memmem::find(body, TOKEN_PREFIX.as_bytes()).is_some()
        || memmem::find(body, b"\\u").is_some()
        || encoded::may_be_in(body);
    may_be && is_in_value(root)
}

fn is_in_text(text: &str) -> bool {
    has_token(text) || encoded::is_in(text)
}

/// To the full depth of the message.
fn is_in_value(value: Value<'_>) -> bool {
    match value.kind() {
        Kind::String => value.as_str().is_some_and(|text| is_in_text(&text)),
        Kind::Array => value.items().any(is_in_value),
        Kind::Object => {
            value.entries().any(|(key, value)| is_in_text(&key.text()) || is_in_value(value))
        }
        Kind::Null | Kind::Bool | Kind::Number => false,
    }
}
