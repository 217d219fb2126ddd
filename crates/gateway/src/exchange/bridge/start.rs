//! Prepares a call that crosses eras before it is sent, and answers those that need no server.

use std::sync::Arc;

use bytes::Bytes;
use mcp::{Method, ProtocolError, TASKS, meta_keys, result_body};
use store::ledger::Permit;
use tokio::sync::broadcast;

use super::Crossing;
use super::resume::update_task;
use crate::exchange::call::IncomingRequest;
use crate::exchange::in_flight::InFlightCall;
use crate::exchange::outbound::Outbound;
use crate::exchange::tool_check;
use crate::runtime::permits;
use crate::upstream::Reply;
use crate::upstream::peer::Peer;
use crate::upstream::server_requests::ServerRequests;

/// How a call that crosses eras starts.
pub(in crate::exchange) enum BridgeStart {
    Send,
    /// The gate responds; the server is not called.
    Respond(Outbound),
    /// The gate replies in the name of the server.
    Reply(Reply),
}

/// Prepares a call that crosses eras.
pub(in crate::exchange) async fn start(
    incoming: &IncomingRequest<'_>,
    call: &mut InFlightCall,
) -> BridgeStart {
    match &call.crossing {
        Crossing::None => BridgeStart::Send,
        Crossing::OlderToNewer(_) => match finished_task(incoming, call) {
            Some(reply) => BridgeStart::Reply(reply),
            None => BridgeStart::Send,
        },
        Crossing::NewerToOlder(_) => match start_at_older(incoming, call).await {
            Some(outbound) => BridgeStart::Respond(outbound),
            None => BridgeStart::Send,
        },
    }
}

/// A modern client at a legacy server. Returns a response if the gate answers itself.
async fn start_at_older(
    incoming: &IncomingRequest<'_>,
    call: &mut InFlightCall,
) -> Option<Outbound> {
    if is_undeclared(incoming, &call.peer) {
        permits::release(call.permit.take()?, "its client does not declare tasks");
        let refused = ProtocolError::undeclared(TASKS).with_id(&incoming.request.id);
        return Some(Outbound::with_status(refused.http_status, refused.to_body()));
    }
    if incoming.request.method == Method::TasksUpdate {
        let permit = call.permit.take()?;
        return Some(update_task(incoming, &call.peer, permit).await);
    }
    let peer = Arc::clone(&call.peer);
    let logs = subscribe_to_logs(incoming, &peer, call.permit.as_ref()?).await;
    let requests = register_for_requests(incoming, &peer).await;
    if let Some(crossing) = call.crossing.to_older_mut() {
        crossing.logs = logs;
        crossing.requests = requests;
    }
    None
}

/// Log messages that a legacy server sends outside its responses, for a client that wants them. The client
/// requests them per call; the server has one level.
async fn subscribe_to_logs(
    incoming: &IncomingRequest<'_>,
    peer: &Arc<Peer>,
    permit: &Permit,
) -> Option<broadcast::Receiver<Bytes>> {
    // A process that all clients share may log about other clients' calls.
    let wants = incoming.logs && peer.offers("logging") && !peer.server.is_shared_by_all();
    // The server gets `logging/setLevel`, as if the client had sent it.
    let rules = incoming.context.access(&peer.server.name).and_then(|access| access.rules.as_ref());
    let wants = wants && rules.is_some_and(|rules| rules.allows_methods());
    let meta = incoming.request.meta().filter(|_| wants)?;
    let level = meta.get(meta_keys::LOG_LEVEL)?.as_str()?;
    let context = incoming.context;
    tool_check::set_level(context.services(), peer, permit, &level).await;
    Some(context.state.upper_layers.shared_messages(context, peer).await)
}

/// Registers the call for requests that a legacy server sends outside its responses. The server's stream is
/// opened before the first such call is sent.
async fn register_for_requests(
    incoming: &IncomingRequest<'_>,
    peer: &Arc<Peer>,
) -> Option<Box<ServerRequests>> {
    let client_capabilities = incoming.client_capabilities.accepts_questions();
    if !client_capabilities
        || incoming.request.method.follows_up_a_task()
        || !peer.may_send_unrelated_requests()
    {
        return None;
    }
    let stay = || incoming.context.state.upper_layers.keep_stream_open(incoming.context, peer);
    peer.request_router.stream_open.get_or_init(stay).await;
    Some(Box::new(peer.request_router.enter(incoming.client_capabilities)))
}

/// Whether a modern client follows up a task of a legacy server without declaring the tasks extension.
fn is_undeclared(incoming: &IncomingRequest<'_>, peer: &Peer) -> bool {
    incoming.request.method.follows_up_a_task()
        && peer.runs_tasks()
        && !incoming.client_capabilities.accepts_tasks()
}

/// The stored task of a call that its modern server answered without creating a task.
fn finished_task(incoming: &IncomingRequest<'_>, call: &InFlightCall) -> Option<Reply> {
    if !incoming.request.method.follows_up_a_task() {
        return None;
    }
    let (context, server) = (incoming.context, &call.peer.server.name);
    let id = incoming.request.params?.get("taskId")?.as_str()?;
    let now_us = context.services().clock.now().wall_us;
    let task =
        context.state.tasks.finished.find(&incoming.context.grantee.id, server, &id, now_us)?;
    Some(Reply::One { status: 200, body: result_body(&call.sent_id, &task).into() })
}
