//! Grant tokens of tollgate inside messages of clients. A token opens this gate, so no server may get one
//! and no row may hold one, wherever in a message it stands.

use memchr::memmem;
use policy::json::{Kind, Value};
use store::ledger::{Facts, Refusal, RefusalKind};
use store::registry::{TOKEN_PREFIX, has_token, redact_tokens};

use crate::answers;
use crate::outbound::Outbound;
use crate::scene::Scene;
use crate::wire::{Id, Message, error_body};

/// In the row and in the answer.
const CODE: &str = "own_token";
const WORDS: &str = "the message holds a grant token of tollgate, which must not leave the gate; send it without the token, and let the owner run `tollgate grant rotate` if others may have read it";

/// Refuses a message that holds a token: in a name, a key, an argument, or anywhere else.
pub(crate) fn refuse(
    scene: &Scene,
    body: &[u8],
    root: Value<'_>,
    message: &Message<'_>,
) -> Option<Outbound> {
    if !is_in(body, root) {
        return None;
    }
    let gate = &scene.gate;
    gate.metrics.denied(CODE);
    let method = redact_tokens(message.method_name().unwrap_or("(response)"));
    let facts = Facts {
        method: &method,
        server: scene.endpoint.server().unwrap_or_default(),
        remote: scene.remote(),
        ..scene.facts()
    };
    let refusal = Refusal { kind: RefusalKind::Denied, code: CODE, reason: WORDS };
    // An id may be a token, too.
    let id = message.id().filter(|id| !has_token(id.raw()));
    Some(match gate.ledger.record(&refusal, &facts) {
        Ok(seq) => {
            let data = format!("{{\"code\":\"{CODE}\",\"audit_id\":{seq}}}");
            refused(message, id, WORDS, Some(&data))
        }
        Err(error) => refused(message, id, &answers::no_record(&error).reason, None),
    })
}

/// What asks for an answer is refused in it, everything else by the status.
fn refused(message: &Message<'_>, id: Option<&Id>, words: &str, data: Option<&str>) -> Outbound {
    let status = if matches!(message, Message::Request(_)) { 200 } else { 400 };
    Outbound::with_status(status, error_body(id, answers::code::DENIED, words, data))
}

/// Most messages hold neither the beginning of a token nor an escape that could hide it.
fn is_in(body: &[u8], root: Value<'_>) -> bool {
    let may_be = memmem::find(body, TOKEN_PREFIX.as_bytes()).is_some()
        || memmem::find(body, b"\\u").is_some();
    may_be && is_in_value(root)
}

/// As deep as messages are read.
fn is_in_value(value: Value<'_>) -> bool {
    match value.kind() {
        Kind::String => value.as_str().is_some_and(|text| has_token(&text)),
        Kind::Array => value.items().any(is_in_value),
        Kind::Object => {
            value.entries().any(|(key, value)| has_token(&key.text()) || is_in_value(value))
        }
        Kind::Null | Kind::Bool | Kind::Number => false,
    }
}
