//! Messages that the gate itself sends to servers: responses to their requests, and notifications. Each has its
//! own row.

use std::sync::Arc;

use bytes::Bytes;
use policy::json::{Bounds, Doc, Value};
use store::ledger::Facts;
use tokio::sync::OwnedSemaphorePermit;

use crate::runtime::{Services, permits};
use crate::upstream::peer::Peer;
use crate::upstream::{MessageKind, UpstreamMessage};
use mcp::{Id, code, error_body, result_body};

/// Responds to a server request without the client.
pub(crate) fn answer(services: &Arc<Services>, peer: &Arc<Peer>, body: Bytes) {
    match peer.acquire_reply_slot() {
        Some(permit) => {
            send(services, peer, UpstreamMessage::response(body), "(response)", Some(permit));
        }
        None => {
            tracing::warn!(server = %peer.server.name, "a server sends requests faster than it reads responses; not answered");
        }
    }
}

/// Sends a notification of the gate to a server.
pub(crate) fn notify(services: &Arc<Services>, peer: &Arc<Peer>, body: Bytes) {
    send(services, peer, UpstreamMessage::notification(body), "(notification)", None);
}

/// Sends a request whose response is ignored.
pub(crate) fn request(services: &Arc<Services>, peer: &Arc<Peer>, out: UpstreamMessage) {
    let out = UpstreamMessage { kind: MessageKind::Notification, ..out };
    send(services, peer, out, "(notification)", None);
}

/// Handles a server request: routes it to a call in flight, or refuses it. False if the message is not a
/// request.
pub(crate) fn answer_server_request(
    services: &Arc<Services>,
    peer: &Arc<Peer>,
    message: &Bytes,
) -> bool {
    let Ok(doc) = Doc::read_shallow(message, &Bounds::ANSWER, 3) else { return false };
    let root = doc.root();
    let id = root.get("id").and_then(Id::lenient);
    let (Some(method), Some(id)) = (root.get("method").and_then(Value::as_str), id) else {
        return false;
    };
    if method == "ping" {
        answer(services, peer, result_body(&id, "{}").into());
    } else if !peer.request_router.put(&method, root.get("params"), message) {
        let text = "no client supports this request here";
        let refusal = error_body(Some(&id), code::UNKNOWN_METHOD, text, None);
        answer(services, peer, refusal.into());
    }
    true
}

fn send(
    services: &Arc<Services>,
    peer: &Arc<Peer>,
    out: UpstreamMessage,
    method: &'static str,
    place: Option<OwnedSemaphorePermit>,
) {
    let (services, peer) = (Arc::clone(services), Arc::clone(peer));
    // At the end of the process there is no runtime; the server notices by itself.
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    runtime.spawn(async move {
        let _place = place;
        let facts = Facts { method, server: &peer.server.name, ..Facts::default() };
        let Ok(permit) = services.ledger.passed(&facts).await else { return };
        let sent = peer.send(&permit, out).await;
        permits::settle_by(permit, &sent);
    });
}
