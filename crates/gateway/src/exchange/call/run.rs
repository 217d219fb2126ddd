//! Runs an admitted request: finds the peer, prepares the message and sends it.

use super::decide::{Decided, effects, rule};
use super::incoming::{IncomingRequest, OwnedSubject, RequestInfo, Target};
use super::record::CallRecord;
use super::respond::respond;
use crate::exchange::bridge::{self, BridgeStart, Crossing};
use crate::exchange::connect;
use crate::exchange::in_flight::InFlightCall;
use crate::exchange::outbound::Outbound;
use crate::exchange::prepare::{self, OutgoingDraft, Round};
use crate::exchange::response_reader::{ResponseReader, until_cancelled};
use crate::runtime::permits;
use crate::session::InFlightGuard;
use crate::upstream::lists::List;
use crate::upstream::peer::Peer;
use crate::upstream::{Reply, RestoreState};
use mcp::Method;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use store::ledger::Permit;

/// Sends an admitted request. The next step reads the response.
pub(super) async fn run(
    incoming: &IncomingRequest<'_>,
    target: &Target<'_>,
    mut decided: Decided,
    record: CallRecord<'_>,
    permit: Permit,
    in_flight: Option<InFlightGuard>,
) -> Result<ResponseReader, Outbound> {
    let (peer, permit) = match decided.peer.take() {
        Some(peer) => (peer, permit),
        None => connect_peer(incoming, target, permit).await?,
    };
    let round = decided.round();
    let mut call = in_flight_call(incoming, target, &decided, record, (peer, permit), in_flight);
    if !call.crossing.is_none() {
        match Box::pin(bridge::start(incoming, &mut call)).await {
            BridgeStart::Send => {}
            BridgeStart::Respond(outbound) => return Err(outbound),
            BridgeStart::Reply(reply) => return Ok(ResponseReader::new(reply, call)),
        }
    }
    send(incoming, target, call, round).await
}

/// The peer of the server. If it cannot be opened, the permit is released.
async fn connect_peer(
    incoming: &IncomingRequest<'_>,
    target: &Target<'_>,
    permit: Permit,
) -> Result<(Arc<Peer>, Permit), Outbound> {
    match connect::peer_for(incoming.context, target.access, incoming.era, &permit).await {
        Ok(peer) => Ok((peer, permit)),
        Err(error) => {
            permits::release(permit, &error.to_string());
            Err(incoming.not_sent(&target.access.server.name, &error))
        }
    }
}

fn in_flight_call(
    incoming: &IncomingRequest<'_>,
    target: &Target<'_>,
    decided: &Decided,
    record: CallRecord<'_>,
    (peer, permit): (Arc<Peer>, Permit),
    in_flight: Option<InFlightGuard>,
) -> InFlightCall {
    let verdict = decided.verdict.as_ref();
    let request = RequestInfo {
        body: incoming.body.clone(),
        subject: target.subject.map(OwnedSubject::of),
        is_renamed: target.rename.is_some(),
        client_capabilities: incoming.client_capabilities,
        arguments: record.digests.rounds,
        argument_digest: record.digests.of_rounds,
        rule: rule(target, verdict),
        first_seq: decided.round_state.as_ref().map_or(permit.seq(), |state| state.call),
        notification_options: OnceLock::new(),
    };
    InFlightCall {
        trace: record.trace,
        crossing: Crossing::between(incoming.era, peer.era),
        context: incoming.context.clone(),
        permit: Some(permit),
        settled: None,
        began: Instant::now(),
        id: incoming.request.id.clone(),
        sent_id: incoming.request.id.clone(),
        era: incoming.era,
        method: incoming.request.lasting_method_name(),
        list: List::of_method(&incoming.request.method_name),
        effects: effects(target, verdict),
        rules: target.access.rules.clone(),
        client_progress_token: None,
        logs: incoming.logs,
        request,
        in_flight,
        resumable: false,
        peer,
    }
}

/// Sends the request and waits for the start of its response.
async fn send(
    incoming: &IncomingRequest<'_>,
    target: &Target<'_>,
    mut call: InFlightCall,
    round: Round<'_>,
) -> Result<ResponseReader, Outbound> {
    let draft = OutgoingDraft {
        request: incoming.request,
        body: incoming.body,
        crossing: &call.crossing,
        headers: incoming.headers,
        subject: target.subject,
        rename: target.rename,
        round,
        trace: call.trace.as_ref(),
    };
    if incoming.request.method.changes_server_state()
        && let Some(restore_state) = call.peer.restore_state()
    {
        remember_server_state(incoming, restore_state);
    }
    let mut prepared = prepare::outgoing(incoming.context, &call.peer, &draft);
    // Input requests of a task are not answered by its follow-ups.
    prepared.out.client_capabilities =
        Some(incoming.client_capabilities).filter(|_| !incoming.request.method.follows_up_a_task());
    call.sent_id = prepared.id;
    call.client_progress_token = prepared.token;
    if let Some(in_flight) = &call.in_flight {
        in_flight.sent(&call.peer, call.sent_id.clone());
    }
    if call.crossing.hears_server_requests() {
        // The server may send a request before it responds.
        return ResponseReader::waiting(call, prepared.out).ok_or(Outbound::NoResponse);
    }
    let Some(permit) = call.permit.as_ref() else { return Err(Outbound::NoResponse) };
    let outcome = {
        let sent = pin!(call.peer.request(permit, prepared.out));
        until_cancelled(call.in_flight.as_ref(), call.cancel_grace(), sent).await
    };
    let part = match outcome {
        Some(Ok(reply)) => return Ok(ResponseReader::new(reply, call)),
        Some(Err(error)) => call.failed(&error),
        None => call.cancelled(),
    };
    call.wait_until_recorded().await;
    Err(respond(part, ResponseReader::new(Reply::Accepted, call)))
}

/// Records what a legacy client asks its server to remember.
fn remember_server_state(incoming: &IncomingRequest<'_>, restore_state: &RestoreState) {
    let told = |key: &str| incoming.request.params.and_then(|params| params.get(key)?.as_str());
    match (incoming.request.method, told("uri"), told("level")) {
        (Method::SetLevel, _, Some(level)) => restore_state.set_level(&level),
        (Method::ResourcesSubscribe, Some(uri), _) => {
            restore_state.forget(&uri);
            restore_state.subscribe(&uri);
        }
        (Method::ResourcesUnsubscribe, Some(uri), _) => restore_state.forget(&uri),
        _ => {}
    }
}
