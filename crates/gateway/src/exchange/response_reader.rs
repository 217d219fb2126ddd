//! Reads the response of an in-flight call part by part, until it is settled.

use crate::exchange::bridge::Crossing;
use crate::exchange::bridge::response::BridgeWait;
use crate::exchange::in_flight::InFlightCall;
use crate::exchange::input_required::InputOutcome;
use crate::runtime::offload::{self, offload};
use crate::runtime::response_buffer;
use crate::session::{ClientMessage, InFlightGuard};
use crate::upstream::health::RequestRunning;
use crate::upstream::{Event, Events, Reply, UpstreamError};
use bytes::Bytes;
use mcp::translate::{self, InputRequest};
use mcp::{Id, server_message};
use policy::json::{Bounds, Doc, Value};
use std::pin::{Pin, pin};
use std::time::Duration;

/// One part of a response for the client.
pub(crate) enum ResponsePart {
    Interim(ClientMessage),
    Last {
        status: u16,
        body: Bytes,
    },
    /// A legacy server needs input and the client accepts that only as a result, so the call must be parked.
    /// Each request has the server's id for it.
    InputRequests(Vec<(InputRequest, Id)>),
    /// The stream ended early. A client of a session can resume it by its event id.
    Broken,
    Cancelled,
}

impl ResponsePart {
    fn keep_reserved(self, message: &Bytes) -> ResponsePart {
        match self {
            ResponsePart::Last { status, body } => {
                ResponsePart::Last { status, body: response_buffer::keep_reserved(message, body) }
            }
            ResponsePart::Interim(mut outgoing) => {
                outgoing.message = response_buffer::keep_reserved(message, outgoing.message);
                ResponsePart::Interim(outgoing)
            }
            other => other,
        }
    }
}

/// What was read.
pub(crate) enum NextPart {
    Ready(ResponsePart),
    /// A message that [`ResponseReader::read_large`] parses on another thread.
    Large(LargeMessage),
}

/// A message that takes long to parse.
pub(crate) struct LargeMessage {
    pub(in crate::exchange) status: u16,
    pub(in crate::exchange) event: Event,
}

/// An in-flight call and the source of its response.
pub(crate) struct ResponseReader {
    pub(in crate::exchange) source: ResponseSource,
    pub(crate) call: InFlightCall,
    /// Whether the server streams its response.
    pub(in crate::exchange) is_streamed: bool,
    _running: RequestRunning,
}

/// Where the messages of a response come from.
pub(in crate::exchange) enum ResponseSource {
    One(u16, Bytes),
    Builtin {
        body: Bytes,
        failed: bool,
    },
    Events(Events),
    /// For calls that cross eras, which have their own loop.
    Bridged(Box<BridgeWait>),
    Ended,
}

impl ResponseSource {
    pub(in crate::exchange) fn of(reply: Reply) -> ResponseSource {
        match reply {
            Reply::One { status, body } => ResponseSource::One(status, body),
            Reply::Builtin { body, failed } => ResponseSource::Builtin { body, failed },
            Reply::Many(events) => ResponseSource::Events(events),
            Reply::Accepted => ResponseSource::Ended,
        }
    }
}

/// What the source returned.
pub(in crate::exchange) enum Received {
    Event(u16, Event),
    /// The response of a built-in server, which is not parsed.
    Builtin {
        body: Bytes,
        failed: bool,
    },
    Failed(UpstreamError),
    Ended,
    Cancelled,
}

impl Received {
    pub(in crate::exchange) fn message(status: u16, message: Bytes) -> Received {
        Received::Event(status, Event { message, ..Event::default() })
    }
}

impl ResponseReader {
    pub(crate) fn new(reply: Reply, call: InFlightCall) -> ResponseReader {
        let is_streamed = matches!(reply, Reply::Many(_)) && !call.peer.is_child();
        ResponseReader { is_streamed, ..ResponseReader::with(ResponseSource::of(reply), call) }
    }

    pub(in crate::exchange) fn with(source: ResponseSource, call: InFlightCall) -> ResponseReader {
        let running = call.peer.server.health.track_request();
        ResponseReader { source, call, is_streamed: false, _running: running }
    }

    /// Whether the server streams its response. A stream stays a stream, even with one message.
    pub(crate) fn is_streamed(&self) -> bool {
        self.is_streamed
    }

    /// The next part, after a large message.
    pub(crate) async fn read_large(
        self,
        mut large: LargeMessage,
    ) -> (ResponsePart, ResponseReader) {
        let mut reader = self;
        loop {
            let (part, back) = reader.read(large).await;
            reader = back;
            if let Some(part) = part {
                return (part, reader);
            }
            large = match reader.next().await {
                NextPart::Ready(part) => return (part, reader),
                NextPart::Large(large) => large,
            };
        }
    }

    /// The next part, or a large message that must be parsed elsewhere. There is none after `Last`, `Broken` or
    /// `Cancelled`.
    pub(crate) async fn next(&mut self) -> NextPart {
        if !self.call.crossing.is_none() {
            return self.next_bridged().await;
        }
        loop {
            let part = match self.receive().await {
                Received::Event(status, event) if self.is_large(&event.message) => {
                    return NextPart::Large(LargeMessage { status, event });
                }
                Received::Event(status, event) => self.classify_buffered(status, &event),
                Received::Builtin { body, failed } => Some(self.call.finish_builtin(&body, failed)),
                Received::Failed(error) => Some(self.call.failed(&error)),
                Received::Ended => Some(self.call.stream_ended()),
                Received::Cancelled => return NextPart::Ready(self.call.cancelled()),
            };
            if let Some(part) = part {
                self.call.wait_until_recorded().await;
                return NextPart::Ready(part);
            }
        }
    }

    /// The next message of the server.
    pub(in crate::exchange) async fn receive(&mut self) -> Received {
        match std::mem::replace(&mut self.source, ResponseSource::Ended) {
            ResponseSource::One(status, body) => Received::message(status, body),
            ResponseSource::Builtin { body, failed } if !self.call.needs_edit() => {
                Received::Builtin { body, failed }
            }
            ResponseSource::Builtin { body, .. } => Received::message(200, body),
            ResponseSource::Bridged(_) | ResponseSource::Ended => Received::Ended,
            ResponseSource::Events(mut events) => {
                let next = {
                    let next = pin!(events.next());
                    let grace = self.call.cancel_grace();
                    until_cancelled(self.call.in_flight.as_ref(), grace, next).await
                };
                self.source = ResponseSource::Events(events);
                match next {
                    None => Received::Cancelled,
                    Some(None) => Received::Ended,
                    Some(Some(Ok(event))) => Received::Event(200, event),
                    Some(Some(Err(error))) => Received::Failed(error),
                }
            }
        }
    }

    pub(in crate::exchange) fn is_large(&self, message: &[u8]) -> bool {
        let edits = self.call.needs_edit();
        message.len() > if edits { offload::LARGE_TO_EDIT_BYTES } else { offload::LARGE_BYTES }
    }

    /// Parses a large message on another thread. If dropped, the call ends as if its client had hung up.
    async fn read(mut self, large: LargeMessage) -> (Option<ResponsePart>, ResponseReader) {
        let bytes = large.event.message.len();
        let (part, mut reader) = offload(bytes, move || {
            let part = self.classify_buffered(large.status, &large.event);
            (part, self)
        })
        .await;
        if part.is_some() {
            reader.call.wait_until_recorded().await;
        }
        (part, reader)
    }

    /// What is made of a large message counts against the same buffer quota.
    pub(in crate::exchange) fn classify_buffered(
        &mut self,
        status: u16,
        event: &Event,
    ) -> Option<ResponsePart> {
        let part = self.classify(status, event)?;
        Some(part.keep_reserved(&event.message))
    }

    fn classify(&mut self, status: u16, event: &Event) -> Option<ResponsePart> {
        if event.message.is_empty() {
            return match self.source {
                ResponseSource::Events(_) => self.call.priming(event),
                _ => Some(self.call.garbled("its response is empty")),
            };
        }
        // Deep enough for `result.task.taskId`.
        let Ok(doc) = Doc::read_shallow(&event.message, &Bounds::ANSWER, 3) else {
            return Some(self.call.garbled("its message is not JSON"));
        };
        let root = doc.root();
        if let Some(why) = server_message::fault(root) {
            return Some(self.call.garbled(why));
        }
        let id = root.get("id");
        let Some(method) = root.get("method").and_then(Value::as_str) else {
            // HTTP servers respond with a null id to what they could not parse.
            let ours = id.and_then(|id| self.call.sent_id.is(id)).unwrap_or(status >= 400);
            return if ours { self.answered(status, event, root) } else { stray() };
        };
        match id.and_then(Id::lenient) {
            None => self.call.on_notification(event, &method, root),
            Some(id) => self.call.on_server_request(event, &method, id, root),
        }
    }

    fn answered(&mut self, status: u16, event: &Event, root: Value<'_>) -> Option<ResponsePart> {
        if let ResponseSource::Events(events) =
            std::mem::replace(&mut self.source, ResponseSource::Ended)
        {
            events.finish();
        }
        if let Some(result) = root.get("result") {
            if translate::asks_for_input(result) {
                match self.check_input_requests(event, result) {
                    InputOutcome::Refused(part) => return Some(part),
                    InputOutcome::Input => return self.input_required(event),
                    InputOutcome::ByTask => {}
                }
            }
            if translate::result_asks_for_input(result) {
                return Some(self.call.garbled("the outcome of its task needs input"));
            }
        }
        match self.call.crossing {
            Crossing::None => Some(self.call.finish(status, &event.message, root)),
            Crossing::NewerToOlder(_) => self.on_older_response(status, event, root),
            Crossing::OlderToNewer(_) => self.on_newer_response(status, event, root),
        }
    }
}

/// Waits for `work` until the client cancels, plus a grace period. Takes a pinned reference, so that a call
/// stores the future once.
pub(crate) async fn until_cancelled<T>(
    in_flight: Option<&InFlightGuard>,
    grace: Duration,
    mut work: Pin<&mut impl Future<Output = T>>,
) -> Option<T> {
    let Some(in_flight) = in_flight else { return Some(work.await) };
    // A server that keeps sending does not delay the cancellation.
    if grace.is_zero() && in_flight.flight.is_cancelled() {
        return None;
    }
    tokio::select! {
        biased;
        done = &mut work => Some(done),
        () = in_flight.flight.cancelled.notified() => {
            tokio::time::timeout(grace, work).await.ok()
        }
    }
}

fn stray() -> Option<ResponsePart> {
    tracing::warn!("dropped a response with an unknown request id");
    None
}
