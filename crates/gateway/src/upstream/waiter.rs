//! The receiver of one request's messages, or of those that belong to no request, on a shared stream.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, timeout_at};

use super::Reply;
use super::error::{Stage, UpstreamError};
use super::events::Events;
use super::message::{Pause, UpstreamMessage};
use super::options::Waits;
use super::pending_requests::{InboundMessage, PendingRequest, PendingRequests};
use super::queue::Queue;
use super::route;
use super::sse_channel::SseChannel;
use super::supervise::ChildRun;
use mcp::{Id, notification_body};

/// A link whose requests share one stream.
#[derive(Clone)]
pub(super) enum SharedLink {
    Child(Arc<ChildRun>),
    SseChannel(Arc<SseChannel>),
}

impl SharedLink {
    pub(super) fn pending(&self) -> &PendingRequests {
        match self {
            SharedLink::Child(run) => &run.pending,
            SharedLink::SseChannel(channel) => channel.pending(),
        }
    }

    /// Notifies the server that a request was cancelled.
    fn cancel(&self, id: &Id) {
        let params = format!("{{\"requestId\":{},\"reason\":\"no longer needed\"}}", id.raw());
        let body = notification_body("notifications/cancelled", Some(&params)).into();
        match self {
            SharedLink::Child(run) => run.send(body),
            SharedLink::SseChannel(channel) => channel.send_message(body),
        }
    }
}

/// The receiver of one request. Dropping it before the response cancels the request.
pub(super) struct ResponseWaiter {
    pub(super) request: Arc<PendingRequest>,
    /// The first message, which decides the kind of reply.
    pub(super) first: Option<Bytes>,
    stream: SharedLink,
    waits: Waits,
    began: Instant,
    /// The time in which the client answered server requests.
    pause: Pause,
    seen: Option<Instant>,
    stays_open: bool,
    may_cancel: bool,
    done: bool,
}

impl ResponseWaiter {
    /// Registers the request before it is sent.
    pub(super) fn enter(
        stream: SharedLink,
        id: &Id,
        out: &UpstreamMessage,
        waits: &Waits,
    ) -> Result<ResponseWaiter, UpstreamError> {
        let token = out.progress_token.as_deref().and_then(route::id_of);
        let request = stream.pending().register(id.clone(), token, out.client_capabilities)?;
        Ok(ResponseWaiter {
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

    /// The reply that starts with the first message.
    pub(super) async fn reply(mut self) -> Result<Reply, UpstreamError> {
        match self.next().await {
            Some(Ok(InboundMessage { message, is_answer: true })) => {
                Ok(Reply::One { status: 200, body: message })
            }
            Some(Ok(InboundMessage { message, is_answer: false })) => {
                self.first = Some(message);
                Ok(Reply::Many(Events::of_request(self)))
            }
            Some(Err(error)) => Err(error),
            None => Err(UpstreamError::Closed),
        }
    }

    /// The next message. None after the response or a failure.
    pub(super) async fn next(&mut self) -> Option<Result<InboundMessage, UpstreamError>> {
        if self.done {
            return None;
        }
        let queue = &self.request.queue;
        let popped = if let Some((until, stage, after)) = self.limit() {
            // The total timeout also applies to a server that never makes the task wait.
            let is_over = stage == Stage::Total && until <= Instant::now();
            if !is_over && let Ok(popped) = timeout_at(until, queue.pop()).await {
                popped
            } else {
                // A server that does not read may not have been sent the request, and now never is.
                let stage = if self.abandon() { stage } else { Stage::Queue };
                Some(Err(UpstreamError::TimedOut { stage, after }))
            }
        } else {
            queue.pop().await
        };
        self.seen = Some(Instant::now());
        self.done |= !matches!(popped, Some(Ok(InboundMessage { is_answer: false, .. })));
        popped
    }

    /// Pauses the timeouts while the client answers a server request. The idle timeout then starts again.
    pub(super) fn set_waiting_for_client(&mut self, waiting: bool) {
        self.request.set_waiting_for_client(waiting);
        self.pause.set(waiting);
        self.seen = Some(Instant::now());
    }

    /// The current timeout and its name.
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

    /// Abandons the request and notifies the server. True if it may have been sent.
    fn abandon(&mut self) -> bool {
        self.done = true;
        self.stream.pending().forget(&self.request);
        self.request.queue.close(None);
        let was_sent = self.request.abandon();
        if was_sent && self.may_cancel {
            self.stream.cancel(&self.request.id);
        }
        was_sent
    }
}

impl Drop for ResponseWaiter {
    fn drop(&mut self) {
        if !self.done {
            self.abandon();
        }
    }
}

/// The receiver of messages that belong to no request.
pub(super) struct UnclaimedListener {
    stream: SharedLink,
    queue: Arc<Queue<InboundMessage>>,
}

impl UnclaimedListener {
    /// Includes queued messages.
    pub(super) fn enter(stream: SharedLink) -> Result<UnclaimedListener, UpstreamError> {
        let queue = stream.pending().listen()?;
        Ok(UnclaimedListener { stream, queue })
    }

    pub(super) async fn next(&mut self) -> Option<Result<InboundMessage, UpstreamError>> {
        self.queue.pop().await
    }
}

impl Drop for UnclaimedListener {
    fn drop(&mut self) {
        self.stream.pending().unlisten(&self.queue);
    }
}
