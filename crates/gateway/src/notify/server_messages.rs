//! Filters the messages that a server sends outside any request, by policy and session.

use std::sync::Arc;

use bytes::Bytes;
use mcp::{Id, Method, code, error_body, result_body, server_message};
use policy::json::{Bounds, Doc, Value};

use crate::exchange::context::RequestContext;
use crate::exchange::{results, tasks};
use crate::runtime::response_buffer;
use crate::session::{ClientMessage, ResponseTarget, Session};
use crate::snapshot::Rules;
use crate::upstream::Event;
use crate::upstream::own_messages;
use crate::upstream::peer::Peer;

/// The current policy.
fn rules(context: &RequestContext, peer: &Peer) -> Option<Arc<Rules>> {
    let grantee = context.state.snapshots.current_grantee(&context.grantee, None)?;
    grantee.accesses.get(&*peer.server.name)?.rules.clone()
}

/// Whether the policy redacts results of this server.
fn redacts(context: &RequestContext, peer: &Peer) -> bool {
    rules(context, peer).is_none_or(|rules| rules.policy.redacts())
}

/// Whether the policy shows the resource of a notification to this caller.
fn shows_resource(context: &RequestContext, peer: &Peer, notification: Value<'_>) -> bool {
    rules(context, peer)
        .is_some_and(|rules| rules.shows_resource_of(notification, &peer.server.skills()))
}

fn is_about_a_request(method: &str) -> bool {
    matches!(method, "notifications/progress" | "notifications/cancelled")
}

/// A server message outside any request, as the client may receive it.
pub(super) fn for_client(
    context: &RequestContext,
    session: &Arc<Session>,
    peer: &Arc<Peer>,
    event: &Event,
) -> Option<ClientMessage> {
    let message = message_for_client(context, session, peer, &event.message)?;
    let message = response_buffer::keep_reserved(&event.message, message);
    let event_id = session.event_id(&peer.server.name, event.id.as_deref());
    Some(ClientMessage { message, event_id, retry_ms: event.retry_ms })
}

fn message_for_client(
    context: &RequestContext,
    session: &Arc<Session>,
    peer: &Arc<Peer>,
    message: &Bytes,
) -> Option<Bytes> {
    if message.is_empty() {
        return Some(Bytes::new());
    }
    let doc = Doc::read_shallow(message, &Bounds::ANSWER, 3).ok()?;
    let root = doc.root();
    if let Some(why) = server_message::fault(root) {
        tracing::warn!(server = %peer.server.name, "dropped a message of a server: {why}");
        return None;
    }
    let id = root.get("id").and_then(Id::lenient);
    match (root.get("method").and_then(Value::as_str), id) {
        // Only real notifications pass. Where several servers share a session, those about requests
        // are dropped: the request may belong to another server.
        (Some(method), None)
            if !method.starts_with("notifications/")
                || session.server.is_none() && is_about_a_request(&method) =>
        {
            None
        }
        (Some(method), None) => {
            peer.note_notification(&method);
            let may_ask = || rules(context, peer).is_some_and(|rules| rules.may_elicit());
            session.allows_notification(peer, &method, root, may_ask)?;
            notification(context, peer, &method, root, message)
        }
        (Some(method), Some(id)) if method == "ping" => {
            own_messages::answer(context.services(), peer, result_body(&id, "{}").into());
            None
        }
        (Some(method), Some(id)) => {
            let question = question(context, session, peer, (&method, &id), root, message);
            if question.is_none() {
                let text = "the client does not support this request here";
                let refusal = error_body(Some(&id), code::UNKNOWN_METHOD, text, None);
                own_messages::answer(context.services(), peer, refusal.into());
            }
            question
        }
        // A response on this stream belongs to a request whose own stream broke.
        (None, Some(id)) => session.reattach(&id)?.finish(session, message, root),
        (None, None) => None,
    }
}

/// A server notification, without what the policy hides.
fn notification(
    context: &RequestContext,
    peer: &Peer,
    method: &str,
    root: Value<'_>,
    message: &Bytes,
) -> Option<Bytes> {
    match Method::parse(method) {
        // It may concern a call whose result is redacted.
        Method::LogMessage | Method::Other if redacts(context, peer) => None,
        Method::Progress if redacts(context, peer) => {
            Some(results::progress_without_message(root).into())
        }
        Method::ResourceUpdated if !shows_resource(context, peer, root) => None,
        Method::TaskStatus | Method::TasksNotification => {
            let rules = rules(context, peer);
            tasks::notification(context, rules.as_deref(), &peer.server.name, message)
        }
        _ => Some(message.clone()),
    }
}

/// A server request, if the policy and the client's capabilities allow it.
fn question(
    context: &RequestContext,
    session: &Session,
    peer: &Arc<Peer>,
    (method, id): (&str, &Id),
    root: Value<'_>,
    message: &Bytes,
) -> Option<Bytes> {
    let rules = rules(context, peer).filter(|rules| rules.server_may_ask(method))?;
    // The call that it belongs to is unknown.
    let redacted = rules.policy.redacts().then(|| rules.policy.redacted_anywhere());
    let cut = results::redact_request(redacted.as_ref(), message).ok()?;
    let alone = session.server.is_some();
    let to = ResponseTarget::Server { peer: Arc::clone(peer), id: id.clone() };
    if !session.client_capabilities.accepts_method(method) {
        return None;
    }
    let shown = session.add_server_request(alone.then(|| id.clone()), to)?;
    session.note_elicitation(peer, root.get("params"));
    let asked = results::rewrite_request(root, cut.as_deref(), (!alone).then_some(&shown));
    Some(asked.map_or_else(|| message.clone(), Bytes::from))
}
