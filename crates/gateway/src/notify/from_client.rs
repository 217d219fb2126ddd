//! Client notifications, and other messages without a response.

use std::sync::Arc;

use bytes::Bytes;
use policy::json::{Bounds, Doc};
use store::ledger::LedgerError;

use crate::exchange::context::RequestContext;
use crate::exchange::error_responses;
use crate::exchange::outbound::Outbound;
use crate::exchange::refuse;
use crate::notify::server_streams;
use crate::runtime::permits;
use crate::upstream::UpstreamMessage;
use crate::upstream::peer::Peer;
use mcp::edit;
use mcp::{Era, Id, JudgedTarget, Method, Named, Notification, ProtocolError, Sender, error_body};

/// Handles a notification and forwards it to the servers it concerns.
pub(crate) async fn handle(
    context: &RequestContext,
    body: &Bytes,
    notification: &Notification<'_>,
) -> Outbound {
    if notification.method.sender() == Sender::Server {
        return refuse::refuse(
            context,
            &ProtocolError::invalid("only servers send this notification"),
            &notification.method_name,
        );
    }
    match notification.method {
        Method::Cancelled => cancel(context, body, notification).await,
        Method::Other if !allows_unknown_methods(context) => {
            let message = "no rule allows notifications of this method";
            refuse::refuse(
                context,
                &ProtocolError::new(403, error_responses::code::DENIED, message),
                &notification.method_name,
            )
        }
        _ => to_servers(context, body, notification).await,
    }
}

/// Unknown methods may reach data, so they follow the policy's default.
fn allows_unknown_methods(context: &RequestContext) -> bool {
    let mut accesses = context.grantee.accesses.values();
    let open = |access: &crate::snapshot::ServerAccess| {
        access.rules.as_ref().is_some_and(|rules| rules.allows_methods())
    };
    match context.only() {
        Some(access) => open(access),
        None => accesses.all(open),
    }
}

/// Without an audit row nothing is forwarded. The error has no id.
fn ledger_failure(error: &LedgerError) -> Outbound {
    let reason = error_responses::ledger_failure(error).reason;
    Outbound::with_status(
        503,
        error_body(None, error_responses::code::STORE_UNAVAILABLE, &reason, None),
    )
}

/// Forwards to every legacy server of the session; modern servers have no such notifications.
async fn to_servers(
    context: &RequestContext,
    body: &Bytes,
    notification: &Notification<'_>,
) -> Outbound {
    let peers: Vec<Arc<Peer>> = match &context.session {
        Some(session) => {
            session.peers().into_iter().filter(|peer| peer.era == Era::Legacy).collect()
        }
        None => Vec::new(),
    };
    if peers.is_empty() {
        return match context
            .record_passed(&notification.method_name, context.endpoint.server().unwrap_or_default())
            .await
        {
            Ok(()) => Outbound::Accepted,
            Err(error) => ledger_failure(&error),
        };
    }
    let mut last = Outbound::Accepted;
    for peer in peers {
        last = deliver(
            context,
            &peer,
            UpstreamMessage::notification(body.clone()),
            &notification.method_name,
        )
        .await;
        if notification.method == Method::Initialized {
            server_streams::start(context, &peer).await;
        }
    }
    last
}

/// A client cancels a request.
async fn cancel(
    context: &RequestContext,
    body: &Bytes,
    notification: &Notification<'_>,
) -> Outbound {
    let Some(id) =
        notification.params.and_then(|params| params.get("requestId")).and_then(Id::strict)
    else {
        let refused = ProtocolError::invalid("`requestId` must be the id of a request");
        return refuse::refuse(context, &refused, &notification.method_name);
    };
    let flight = context.client_requests().and_then(|client_requests| client_requests.flight(&id));
    let sent = flight.as_ref().and_then(|flight| flight.sent_as());
    let outbound = match &sent {
        Some((peer, sent_id)) if peer.era == Era::Legacy => {
            let mut out = UpstreamMessage::notification(body.clone());
            if *sent_id != id {
                out.body = with_request_id(body, sent_id);
                out.edited =
                    Some(Box::new(JudgedTarget::new(&notification.method_name, Named::Nothing)));
            }
            deliver(context, peer, out, &notification.method_name).await
        }
        // A modern server notices when the stream of the request closes.
        _ => match context.record_passed(&notification.method_name, "").await {
            Ok(()) => Outbound::Accepted,
            Err(error) => ledger_failure(&error),
        },
    };
    if let Some(flight) = flight {
        flight.cancel();
    }
    outbound
}

fn with_request_id(body: &Bytes, id: &Id) -> Bytes {
    let Ok(doc) = Doc::read(body, &Bounds::MESSAGE) else { return body.clone() };
    let root = doc.root();
    match root.get("params") {
        Some(params) => {
            let params = edit::with(params, "requestId", id.raw().to_owned());
            edit::with(root, "params", params).into()
        }
        None => body.clone(),
    }
}

/// Forwards a client's response to the server that sent the request.
pub(crate) async fn pass_on(
    context: &RequestContext,
    peer: &Arc<Peer>,
    body: Bytes,
    is_response: bool,
) -> Outbound {
    let out = if is_response {
        UpstreamMessage::response(body)
    } else {
        UpstreamMessage::notification(body)
    };
    deliver(context, peer, out, "(response)").await
}

/// Sends a message without a response, with its audit row.
async fn deliver(
    context: &RequestContext,
    peer: &Arc<Peer>,
    out: UpstreamMessage,
    method: &str,
) -> Outbound {
    let permit = match context.own_act(method, &peer.server.name).await {
        Ok(permit) => permit,
        Err(error) => return ledger_failure(&error),
    };
    match peer.send(&permit, out).await {
        Ok(()) => {
            permits::settle(permit, store::ledger::Ending::Ok);
            Outbound::Accepted
        }
        Err(error) => {
            tracing::info!(server = %peer.server.name, %error, method, "could not deliver a message to the server");
            if error.may_have_happened() {
                permits::settle(permit, store::ledger::Ending::Unknown);
            } else {
                permits::release(permit, &error.to_string());
            }
            Outbound::Accepted
        }
    }
}
