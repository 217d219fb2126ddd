//! Turns the result of an admitted request into the response: at once, as a stream, or parked until the client
//! answers.

use crate::exchange::outbound::{Outbound, QUEUED_PARTS_MAX};
use crate::exchange::parked::{ParkedCall, PendingAnswer};
use crate::exchange::response_reader::{LargeMessage, NextPart, ResponsePart, ResponseReader};
use crate::exchange::rounds::{self, ROUND_SECONDS_MAX, RoundContent};
use crate::session::ClientMessage;
use bytes::Bytes;
use mcp::translate::{self, InputRequest};
use mcp::{Id, error_body};
use tokio::sync::mpsc;

/// Reads the response of a call and settles it: the outcome row is written with the last part.
pub(super) async fn settle(mut reader: ResponseReader) -> Outbound {
    match reader.next().await {
        NextPart::Ready(ResponsePart::Last { status: 200, body }) if reader.is_streamed() => {
            Outbound::stream_of(body)
        }
        NextPart::Ready(first) => respond(first, reader),
        NextPart::Large(large) => Box::pin(read_large(reader, large)).await,
    }
}

/// The same for a large first message. A separate function keeps the future of most calls small.
async fn read_large(reader: ResponseReader, large: LargeMessage) -> Outbound {
    match reader.read_large(large).await {
        (ResponsePart::Last { status: 200, body }, reader) if reader.is_streamed() => {
            Outbound::stream_of(body)
        }
        (first, reader) => respond(first, reader),
    }
}

/// Turns the first part into the response. A task of its own forwards further parts.
pub(in crate::exchange) fn respond(first: ResponsePart, reader: ResponseReader) -> Outbound {
    match first {
        ResponsePart::Last { status, body } => Outbound::with_status(status, body),
        ResponsePart::Cancelled => Outbound::NoResponse,
        ResponsePart::InputRequests(input_requests) => Outbound::ok(park(reader, input_requests)),
        ResponsePart::Broken => {
            detach(reader);
            Outbound::NoResponse
        }
        ResponsePart::Interim(first) => {
            let (sender, parts) = mpsc::channel(QUEUED_PARTS_MAX);
            tokio::spawn(forward_parts(first, reader, sender));
            Outbound::Many(parts)
        }
    }
}

async fn forward_parts(
    first: ClientMessage,
    mut reader: ResponseReader,
    to: mpsc::Sender<ClientMessage>,
) {
    let mut next = Some(first);
    loop {
        if let Some(outgoing) = next.take()
            && to.send(outgoing).await.is_err()
        {
            return detach(reader);
        }
        let came = tokio::select! {
            came = reader.next() => came,
            () = to.closed() => return detach(reader),
        };
        let part = match came {
            NextPart::Ready(part) => part,
            NextPart::Large(large) => {
                let (part, back) = reader.read_large(large).await;
                reader = back;
                part
            }
        };
        match part {
            ResponsePart::Interim(outgoing) => next = Some(outgoing),
            ResponsePart::Last { body, .. } => {
                let _ = to.send(ClientMessage::plain(body)).await;
                return;
            }
            ResponsePart::InputRequests(input_requests) => {
                let body = park(reader, input_requests);
                let _ = to.send(ClientMessage::plain(body)).await;
                return;
            }
            ResponsePart::Broken => return detach(reader),
            ResponsePart::Cancelled => return,
        }
    }
}

/// The client or the server hung up. In a session the response may still come on another stream.
fn detach(reader: ResponseReader) {
    if let Some(session) = reader.call.context.session.clone()
        && reader.call.resumable
    {
        session.detach(reader.call.sent_id.clone(), Box::new(reader.call.detached()));
    }
}

/// Parks a call whose server needs input, and returns the `input_required` result.
pub(in crate::exchange) fn park(
    mut reader: ResponseReader,
    input_requests: Vec<(InputRequest, Id)>,
) -> Bytes {
    if reader.is_task_request() {
        return reader.park_task(input_requests);
    }
    reader.set_waiting_for_client(true);
    let (context, client_id) = (reader.call.context.clone(), reader.call.id.clone());
    let until_us = context.services().clock.now().wall_us + ROUND_SECONDS_MAX * 1_000_000;
    let grant = reader.call.context.grantee.id.clone();
    let requests: Vec<InputRequest> =
        input_requests.iter().map(|(request, _)| request.clone()).collect();
    let info = reader.call.request.clone();
    let server = reader.call.peer.server.name.clone();
    let pending = PendingAnswer::of(&context, &reader.call.peer, input_requests);
    let waiting = ParkedCall { reader, requests: pending, grant, until_us };
    let parked = context.parked().and_then(|parked| parked.park(waiting).ok());
    let sealed = parked.zip(info.digest(context.services())).and_then(|(handle, digest)| {
        rounds::seal(&context, &server, &digest, info.first_seq, RoundContent::Parked(handle))
    });
    match sealed {
        Some(state) => {
            let result = translate::input_required(&requests, &state);
            mcp::result_body(&client_id, &result).into()
        }
        None => error_body(
            Some(&client_id),
            -32603,
            "too many calls wait for input; answer some of them first",
            None,
        )
        .into(),
    }
}
