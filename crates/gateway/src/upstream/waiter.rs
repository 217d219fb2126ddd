//! The reading end of one request, or of what belongs to none, on a stream that requests share.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, timeout_at};

use super::Reply;
use super::error::{Stage, UpstreamError};
use super::events::Events;
use super::inflight::{InFlight, Item, Request};
use super::legacy::Channel;
use super::message::{Outgoing, Pause};
use super::options::Waits;
use super::queue::Queue;
use super::route;
use super::supervise::Run;
use crate::wire::{Id, notification_body};

/// A stream that requests share.
#[derive(Clone)]
pub(super) enum Shared {
    Child(Arc<Run>),
    Channel(Arc<Channel>),
}

impl Shared {
    pub(super) fn in_flight(&self) -> &InFlight {
        match self {
            Shared::Child(run) => &run.in_flight,
            Shared::Channel(channel) => channel.in_flight(),
        }
    }

    /// Tells the server that a request is not wanted any more.
    fn cancel(&self, id: &Id) {
        let params = format!("{{\"requestId\":{},\"reason\":\"nobody waits for it\"}}", id.raw());
        let body = notification_body("notifications/cancelled", Some(&params)).into();
        match self {
            Shared::Child(run) => run.tell(body),
            Shared::Channel(channel) => channel.tell(body),
        }
    }
}

/// The reading end of one request. Dropping it before the answer cancels the request.
pub(super) struct Waiter {
    pub(super) request: Arc<Request>,
    /// A message that was taken to see what kind of reply it begins.
    pub(super) first: Option<Bytes>,
    stream: Shared,
    waits: Waits,
    began: Instant,
    /// The time in which the client was asked something.
    pause: Pause,
    seen: Option<Instant>,
    stays_open: bool,
    may_cancel: bool,
    done: bool,
}

impl Waiter {
    /// Takes the request into the table of its stream, before it is sent.
    pub(super) fn enter(
        stream: Shared,
        id: &Id,
        out: &Outgoing,
        waits: &Waits,
    ) -> Result<Waiter, UpstreamError> {
        let token = out.progress_token.as_deref().and_then(route::id_of);
        let request = stream.in_flight().register(id.clone(), token, out.takes)?;
        Ok(Waiter {
            request,
            first: None,
            stream,
            waits: waits.clone(),
            began: out.began.unwrap_or_else(Instant::now),
            pause: Pause::default(),
            seen: None,
            stays_open: out.stays_open,
            may_cancel: !out.opens_session,
            done: false,
        })
    }

    /// The reply that the first message begins.
    pub(super) async fn reply(mut self) -> Result<Reply, UpstreamError> {
        match self.next().await {
            Some(Ok(Item { message, is_answer: true })) => {
                Ok(Reply::One { status: 200, body: message })
            }
            Some(Ok(Item { message, is_answer: false })) => {
                self.first = Some(message);
                Ok(Reply::Many(Events::of_request(self)))
            }
            Some(Err(error)) => Err(error),
            None => Err(UpstreamError::Closed),
        }
    }

    /// The next message of this request; nothing after the answer or a failure.
    pub(super) async fn next(&mut self) -> Option<Result<Item, UpstreamError>> {
        if self.done {
            return None;
        }
        let queue = &self.request.queue;
        let popped = if let Some((until, stage, after)) = self.limit() {
            // One that never makes us wait has no more time than another.
            let is_over = stage == Stage::Total && until <= Instant::now();
            if !is_over && let Ok(popped) = timeout_at(until, queue.pop()).await {
                popped
            } else {
                // A server that reads nothing may not have been sent it yet, and now never is.
                let stage = if self.abandon() { stage } else { Stage::Queue };
                Some(Err(UpstreamError::TimedOut { stage, after }))
            }
        } else {
            queue.pop().await
        };
        self.seen = Some(Instant::now());
        self.done |= !matches!(popped, Some(Ok(Item { is_answer: false, .. })));
        popped
    }

    /// Says whether the client is being asked something. When it has answered, the next message is waited
    /// for as if one had just come.
    pub(super) fn set_asking(&mut self, asking: bool) {
        self.request.set_asking(asking);
        self.pause.set(asking);
        self.seen = Some(Instant::now());
    }

    /// When the wait for the next message ends, and what it is called.
    fn limit(&self) -> Option<(Instant, Stage, Duration)> {
        if self.pause.is_on() {
            return None;
        }
        let waits = &self.waits;
        let next = match self.seen {
            None => (self.began + waits.first_byte_max, Stage::FirstByte, waits.first_byte_max),
            Some(_) if self.stays_open => return None,
            Some(seen) => (seen + waits.idle_max, Stage::Idle, waits.idle_max),
        };
        let ends = self.began + waits.total_max + self.pause.waited;
        let total = (ends, Stage::Total, waits.total_max);
        Some(if total.0 < next.0 { total } else { next })
    }

    /// Nobody waits any more: the server is told, if it knows of the request at all. True if it may.
    fn abandon(&mut self) -> bool {
        self.done = true;
        self.stream.in_flight().forget(&self.request);
        self.request.queue.close(None);
        let was_sent = self.request.abandon();
        if was_sent && self.may_cancel {
            self.stream.cancel(&self.request.id);
        }
        was_sent
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if !self.done {
            self.abandon();
        }
    }
}

/// The reading end of what belongs to no request.
pub(super) struct Listener {
    stream: Shared,
    queue: Arc<Queue<Item>>,
}

impl Listener {
    /// Listens from what was kept on.
    pub(super) fn enter(stream: Shared) -> Result<Listener, UpstreamError> {
        let queue = stream.in_flight().listen()?;
        Ok(Listener { stream, queue })
    }

    pub(super) async fn next(&mut self) -> Option<Result<Item, UpstreamError>> {
        self.queue.pop().await
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stream.in_flight().unlisten(&self.queue);
    }
}
