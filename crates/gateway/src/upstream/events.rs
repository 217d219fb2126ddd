//! A stream of messages from a server, independent of the transport.

use std::sync::Arc;

use bytes::Bytes;

use super::body::ResponseBody;
use super::error::{Excess, UpstreamError};
use super::mask::Mask;
use super::options::HttpBounds;
use super::pending_requests::InboundMessage;
use super::route::{self, Inbound};
use super::waiter::{ResponseWaiter, UnclaimedListener};
use crate::builtin::RunningCall;
use crate::runtime::offload::LARGE_BYTES;
use crate::runtime::response_buffer::{BUFFER_WAIT_MAX, BufferQuota, Share};
use mcp::Id;
use mcp::sse::{self, Decoder};

/// One message of a stream, or an event without a message.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// Empty if the event only contains an id or a retry time.
    pub message: Bytes,
    pub id: Option<String>,
    pub retry_ms: Option<u64>,
}

/// A stream of messages. Dropping it closes the connection, or cancels the request of a child.
pub struct Events {
    source: EventSource,
    /// The secrets of the server.
    mask: Option<Arc<Mask>>,
    /// A received event that is being masked. Dropping `next` must not lose it.
    received: Option<Event>,
}

enum EventSource {
    SseStream(Box<SseStream>),
    Request(Box<ResponseWaiter>),
    UnclaimedListener(UnclaimedListener),
    /// A built-in tool.
    Work(Box<RunningCall>),
}

impl Events {
    /// A stream over HTTP, with the id of the request that it responds to.
    pub(super) fn of_stream(
        body: ResponseBody,
        answers: Option<Id>,
        bounds: &HttpBounds,
        quota: &BufferQuota,
    ) -> Events {
        Events::new(EventSource::SseStream(Box::new(SseStream::new(body, answers, bounds, quota))))
    }

    pub(super) fn of_request(waiter: ResponseWaiter) -> Events {
        Events::new(EventSource::Request(Box::new(waiter)))
    }

    pub(super) fn of_listener(listener: UnclaimedListener) -> Events {
        Events::new(EventSource::UnclaimedListener(listener))
    }

    fn new(source: EventSource) -> Events {
        Events { source, mask: None, received: None }
    }

    /// The same events without these secrets.
    pub(super) fn masked(self, mask: &Arc<Mask>) -> Events {
        Events { mask: Some(Arc::clone(mask)), ..self }
    }

    pub(crate) fn of_work(work: RunningCall) -> Events {
        Events::new(EventSource::Work(Box::new(work)))
    }

    /// The next event, in order. None after a failure.
    pub async fn next(&mut self) -> Option<Result<Event, UpstreamError>> {
        let Some(mask) = self.mask.clone() else { return self.receive().await };
        if self.received.is_none() {
            match self.receive().await? {
                Ok(event) => self.received = Some(event),
                Err(error) => return Some(Err(mask.error(error))),
            }
        }
        let message = self.received.as_ref().map(|event| event.message.clone()).unwrap_or_default();
        let message = mask.message(message).await;
        let event = self.received.take()?;
        let id = event.id.map(|id| mask.text(id));
        Some(Ok(Event { message, id, ..event }))
    }

    async fn receive(&mut self) -> Option<Result<Event, UpstreamError>> {
        match &mut self.source {
            EventSource::SseStream(stream) => stream.next().await.transpose(),
            EventSource::Request(waiter) => {
                if let Some(message) = waiter.first.take() {
                    return Some(Ok(message_event(message)));
                }
                waiter
                    .next()
                    .await
                    .map(|next| next.map(|item: InboundMessage| message_event(item.message)))
            }
            EventSource::UnclaimedListener(listener) => listener
                .next()
                .await
                .map(|next| next.map(|item: InboundMessage| message_event(item.message))),
            EventSource::Work(work) => work.next().await.map(|message| Ok(message_event(message))),
        }
    }

    /// Pauses the timeouts while the client answers a server request. The idle timeout then starts again.
    pub fn set_waiting_for_client(&mut self, waiting: bool) {
        match &mut self.source {
            EventSource::SseStream(stream) => {
                if let Some(body) = &mut stream.body {
                    body.set_waiting_for_client(waiting);
                }
            }
            EventSource::Request(waiter) => waiter.set_waiting_for_client(waiting),
            EventSource::UnclaimedListener(_) | EventSource::Work(_) => {}
        }
    }

    /// Says that the response was read, so that the connection can be reused once the server ends the stream.
    /// Dropping does the same after parsing the last event again; this saves the parsing.
    pub fn finish(mut self) {
        if let EventSource::SseStream(stream) = &mut self.source {
            stream.finish();
        }
    }
}

fn message_event(message: Bytes) -> Event {
    Event { message, ..Event::default() }
}

/// An event stream over HTTP.
pub(super) struct SseStream {
    /// None once it has failed.
    body: Option<ResponseBody>,
    decoder: Decoder,
    /// A received chunk that waits for buffer quota. Dropping `next` must not lose it.
    chunk: Option<Bytes>,
    /// The share of the buffer quota for the event being read.
    share: Share,
    answers: Option<Id>,
    /// The last message, unless it is large.
    last: Bytes,
    bounds: HttpBounds,
}

impl Drop for SseStream {
    fn drop(&mut self) {
        if self.body.is_none() || self.answers.is_none() {
            return;
        }
        if matches!(route::read(&self.last), Some(Inbound::Response(id)) if Some(&id) == self.answers.as_ref())
        {
            self.finish();
        }
    }
}

impl SseStream {
    pub(super) fn new(
        body: ResponseBody,
        answers: Option<Id>,
        bounds: &HttpBounds,
        quota: &BufferQuota,
    ) -> SseStream {
        let decoder = Decoder::new(bounds.event_bytes_max);
        let (body, last) = (Some(body), Bytes::new());
        let share = Share::new(quota);
        SseStream { body, decoder, chunk: None, share, answers, last, bounds: bounds.clone() }
    }

    fn finish(&mut self) {
        if let Some(body) = self.body.take() {
            body.finish(&self.bounds);
        }
    }

    /// The next event with a message, an id or a retry time.
    pub(super) async fn next(&mut self) -> Result<Option<Event>, UpstreamError> {
        loop {
            let Some(event) = self.next_named().await? else {
                return Ok(None);
            };
            if event.event.as_deref().is_none_or(|name| name == "message") {
                let message = self.share.take().of(event.data);
                // A large message is not parsed again only to reuse a connection.
                self.last =
                    if message.len() <= LARGE_BYTES { message.clone() } else { Bytes::new() };
                return Ok(Some(Event { message, id: event.id, retry_ms: event.retry_ms }));
            }
        }
    }

    /// The next event of any name.
    pub(super) async fn next_named(&mut self) -> Result<Option<sse::Event>, UpstreamError> {
        let Some(body) = &mut self.body else {
            return Ok(None);
        };
        let failed = loop {
            match self.decoder.next_event() {
                Ok(Some(event)) => return Ok(Some(event)),
                Ok(None) => {}
                Err(_) => {
                    let bytes_max = self.bounds.event_bytes_max;
                    break UpstreamError::TooLarge { what: Excess::Event, bytes_max };
                }
            }
            if self.chunk.is_none() {
                let chunk = tokio::select! {
                    biased;
                    chunk = body.chunk() => chunk,
                    why = self.share.evicted() => Some(Err(UpstreamError::buffer_full(&why))),
                };
                match chunk {
                    Some(Ok(chunk)) => self.chunk = Some(chunk),
                    Some(Err(error)) => break error,
                    None => return Ok(None),
                }
            }
            let chunk_bytes = self.chunk.as_ref().map_or(0, Bytes::len);
            let held_bytes = self.decoder.held_bytes() + chunk_bytes;
            if let Err(why) = self.share.grow_to(held_bytes, BUFFER_WAIT_MAX).await {
                break UpstreamError::buffer_full(&why);
            }
            if let Some(chunk) = self.chunk.take() {
                self.decoder.feed(&chunk);
            }
        };
        self.body = None;
        Err(failed)
    }
}
