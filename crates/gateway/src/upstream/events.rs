//! What a server sends piece by piece, whichever way it comes.

use std::sync::Arc;

use bytes::Bytes;

use super::body::Body;
use super::error::{Excess, UpstreamError};
use super::inflight::Item;
use super::mask::Mask;
use super::options::HttpBounds;
use super::route::{self, Inbound};
use super::waiter::{Listener, Waiter};
use crate::aside::LARGE_BYTES;
use crate::builtin::Work;
use crate::room::{Account, ROOM_WAIT_MAX, Share};
use crate::wire::Id;
use crate::wire::sse::{self, Decoder};

/// One message of a stream, or a sign that comes without one.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// Empty if the event only tells its id or how long to wait before asking again.
    pub message: Bytes,
    pub id: Option<String>,
    pub retry_ms: Option<u64>,
}

/// A stream of messages. Dropping it ends the stream: the connection is closed, a child is told that
/// the request is cancelled.
pub struct Events {
    source: Source,
    /// The secrets that the server knows, where it knows any.
    mask: Option<Arc<Mask>>,
    /// An event that was received and is searched for secrets; dropping `next` must not lose it.
    received: Option<Event>,
}

enum Source {
    Stream(Box<Stream>),
    Request(Box<Waiter>),
    Listener(Listener),
    /// A tool of our own.
    Work(Box<Work>),
}

impl Events {
    /// A stream over HTTP; the id is that of the request it answers, if it answers one.
    pub(super) fn of_stream(
        body: Body,
        answers: Option<Id>,
        bounds: &HttpBounds,
        account: &Account,
    ) -> Events {
        Events::new(Source::Stream(Box::new(Stream::new(body, answers, bounds, account))))
    }

    pub(super) fn of_request(waiter: Waiter) -> Events {
        Events::new(Source::Request(Box::new(waiter)))
    }

    pub(super) fn of_listener(listener: Listener) -> Events {
        Events::new(Source::Listener(listener))
    }

    fn new(source: Source) -> Events {
        Events { source, mask: None, received: None }
    }

    /// The same events without these secrets.
    pub(super) fn masked(self, mask: &Arc<Mask>) -> Events {
        Events { mask: Some(Arc::clone(mask)), ..self }
    }

    pub(crate) fn of_work(work: Work) -> Events {
        Events::new(Source::Work(Box::new(work)))
    }

    /// The next event, in the order the server sent them. After a failure comes nothing more.
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
            Source::Stream(stream) => stream.next().await.transpose(),
            Source::Request(waiter) => {
                if let Some(message) = waiter.first.take() {
                    return Some(Ok(bare(message)));
                }
                waiter.next().await.map(|next| next.map(|item: Item| bare(item.message)))
            }
            Source::Listener(listener) => {
                listener.next().await.map(|next| next.map(|item: Item| bare(item.message)))
            }
            Source::Work(work) => work.next().await.map(|message| Ok(bare(message))),
        }
    }

    /// Says whether the client is being asked something. When it has answered, the next event is waited
    /// for as if one had just come.
    pub fn set_asking(&mut self, asking: bool) {
        match &mut self.source {
            Source::Stream(stream) => {
                if let Some(body) = &mut stream.body {
                    body.wait_anew();
                }
            }
            Source::Request(waiter) => waiter.set_asking(asking),
            Source::Listener(_) | Source::Work(_) => {}
        }
    }

    /// Says that the answer was among the events taken, so that the connection can be used again once
    /// the server ends the stream. Dropping does the same after it has read the last event to see
    /// whether it was the answer; this saves the reading.
    pub fn finish(mut self) {
        if let Source::Stream(stream) = &mut self.source {
            stream.finish();
        }
    }
}

fn bare(message: Bytes) -> Event {
    Event { message, ..Event::default() }
}

/// An event stream over HTTP.
pub(super) struct Stream {
    /// Gone once it has failed.
    body: Option<Body>,
    decoder: Decoder,
    /// Came, and waits for room; whoever stops waiting for an event must not lose it.
    piece: Option<Bytes>,
    /// The part of the room for large answers that the event being read takes.
    share: Share,
    answers: Option<Id>,
    /// The last message, unless it is large.
    last: Bytes,
    bounds: HttpBounds,
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.body.is_none() || self.answers.is_none() {
            return;
        }
        if matches!(route::read(&self.last), Some(Inbound::Answer(id)) if Some(&id) == self.answers.as_ref())
        {
            self.finish();
        }
    }
}

impl Stream {
    pub(super) fn new(
        body: Body,
        answers: Option<Id>,
        bounds: &HttpBounds,
        account: &Account,
    ) -> Stream {
        let decoder = Decoder::new(bounds.event_bytes_max);
        let (body, last) = (Some(body), Bytes::new());
        let share = Share::new(account);
        Stream { body, decoder, piece: None, share, answers, last, bounds: bounds.clone() }
    }

    fn finish(&mut self) {
        if let Some(body) = self.body.take() {
            body.finish(&self.bounds);
        }
    }

    /// The next event that is a message or tells something about the stream.
    pub(super) async fn next(&mut self) -> Result<Option<Event>, UpstreamError> {
        loop {
            let Some(event) = self.next_named().await? else {
                return Ok(None);
            };
            if event.event.as_deref().is_none_or(|name| name == "message") {
                let message = self.share.take().of(event.data);
                // A large one is not worth keeping, or reading again, for a connection.
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
            if self.piece.is_none() {
                let piece = tokio::select! {
                    biased;
                    piece = body.piece() => piece,
                    why = self.share.outstays() => Some(Err(UpstreamError::no_room(&why))),
                };
                match piece {
                    Some(Ok(piece)) => self.piece = Some(piece),
                    Some(Err(error)) => break error,
                    None => return Ok(None),
                }
            }
            let piece_bytes = self.piece.as_ref().map_or(0, Bytes::len);
            let held_bytes = self.decoder.held_bytes() + piece_bytes;
            if let Err(why) = self.share.grow_to(held_bytes, ROOM_WAIT_MAX).await {
                break UpstreamError::no_room(&why);
            }
            if let Some(piece) = self.piece.take() {
                self.decoder.feed(&piece);
            }
        };
        self.body = None;
        Err(failed)
    }
}
