//! Continues parked calls: a further round, or answers to the input requests of a task.

use std::sync::Arc;

use mcp::{Id, code, error_body, result_body};
use policy::json::Value;
use store::ledger::{Ending, Permit};

use crate::exchange::call::{IncomingRequest, park, respond};
use crate::exchange::error_responses;
use crate::exchange::outbound::Outbound;
use crate::exchange::parked::{ParkedCall, PendingAnswer, SortedAnswers};
use crate::exchange::response_reader::NextPart;
use crate::runtime::permits;
use crate::upstream::peer::Peer;
use crate::upstream::{self, UpstreamError};

/// A further round of a parked call: forwards the answers to its server and continues. Missing answers are
/// requested again.
pub(in crate::exchange) async fn resume(
    incoming: &IncomingRequest<'_>,
    mut parked: Box<ParkedCall>,
    permit: Permit,
) -> Outbound {
    let id = &incoming.request.id;
    let responses = incoming.request.params.and_then(|params| params.get("inputResponses"));
    parked.reader.call.id = id.clone();
    let SortedAnswers { given, missing } = SortedAnswers::of(parked.requests, responses);
    if given.is_empty() {
        permits::release(permit, "an answer is missing");
        return Outbound::ok(park(parked.reader, missing));
    }
    if let Err(error) = answer(&parked.reader.call.peer, &permit, &given).await {
        let part = parked.reader.call.failed(&error);
        permits::release(permit, "the server is gone");
        return respond(part, parked.reader);
    }
    // The call keeps the permit of its first round. The row of this round only records that it continued.
    permits::settle(permit, Ending::Ok);
    if !missing.is_empty() {
        return Outbound::ok(park(parked.reader, missing));
    }
    parked.reader.set_waiting_for_client(false);
    match parked.reader.next().await {
        NextPart::Ready(first) => respond(first, parked.reader),
        NextPart::Large(large) => {
            let (first, reader) = parked.reader.read_large(large).await;
            respond(first, reader)
        }
    }
}

/// Forwards the client's answers to the server.
async fn answer(
    peer: &Peer,
    permit: &Permit,
    given: &[(Id, Value<'_>)],
) -> Result<(), UpstreamError> {
    for (request_id, answer) in given {
        let body = result_body(request_id, answer.raw());
        peer.send(permit, upstream::UpstreamMessage::response(body.into())).await?;
    }
    Ok(())
}

/// `tasks/update` for a legacy server, which does not have it: the answers go to the pending requests.
pub(in crate::exchange) async fn update_task(
    incoming: &IncomingRequest<'_>,
    peer: &Arc<Peer>,
    permit: Permit,
) -> Outbound {
    let (id, params) = (&incoming.request.id, incoming.request.params);
    let task = params.and_then(|params| params.get("taskId")?.as_str()).unwrap_or_default();
    let parked = incoming.context.parked();
    let key = (incoming.context.grantee.id.clone(), peer.server.name.clone(), task.into_owned());
    let Some((calls, parked)) = parked.and_then(|calls| {
        let parked = calls.unpark_task(&key)?;
        Some((calls, parked))
    }) else {
        permits::release(permit, "the task needs no input");
        let message = "this task does not wait for input";
        return Outbound::ok(error_body(Some(id), code::INVALID_PARAMS, message, None));
    };
    let answers = params.and_then(|params| params.get("inputResponses"));
    let ParkedCall { reader, requests, grant, until_us } = parked;
    let SortedAnswers { given, missing } = SortedAnswers::of(requests, answers);
    if let Err(error) = answer(peer, &permit, &given).await {
        permits::release(permit, "the server is gone");
        return Outbound::ok(error_responses::upstream_failed(id, &peer.server.name, &error));
    }
    if !missing.is_empty() {
        let requests = PendingAnswer::of(incoming.context, peer, missing);
        calls.park_task(key, ParkedCall { reader, requests, grant, until_us });
    }
    permits::settle(permit, Ending::Ok);
    Outbound::ok(result_body(id, "{\"resultType\":\"complete\"}"))
}
