//! A message for a server, with what its transport needs to know.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use hyper::header::{HeaderName, HeaderValue};
use tokio::time::Instant;

use mcp::{ClientCapabilities, Id, JudgedTarget};

/// The kind of JSON-RPC message.
#[derive(Clone, Debug)]
pub enum MessageKind {
    Request(Id),
    Notification,
    Response,
}

/// A message for a server. The bytes are sent unchanged.
#[derive(Clone, Debug)]
pub struct UpstreamMessage {
    pub body: Bytes,
    pub kind: MessageKind,
    /// Protocol headers (`mcp-*`, `traceparent`, `tracestate`, `baggage`). Others are not sent, and a child
    /// gets none.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The progress token in the body, to route progress notifications.
    pub progress_token: Option<Box<str>>,
    /// The capabilities of the client, to route server requests. None for requests of the gate.
    pub client_capabilities: Option<ClientCapabilities>,
    /// An `initialize` request: the link takes the session id of its response, and it is never cancelled.
    pub opens_session: bool,
    /// The client prefers event streams over JSON; some servers follow that order.
    pub prefers_stream: bool,
    /// A stream that stays open (`subscriptions/listen`): no idle and no total timeout.
    pub stays_open: bool,
    /// Pauses the timeouts while the client answers a server request before the response starts.
    pub client_pause: Option<SharedPause>,
    /// What the message was judged as, if the gate edited it. It must still name that.
    pub edited: Option<Box<JudgedTarget>>,
    /// The start of the call that this is a further round of. The total timeout counts from there.
    pub began: Option<Instant>,
    /// Send it only in this run of the child: a restarted child has a new session. See
    /// [`ChildState::Running`](super::ChildState::Running).
    pub run: Option<u64>,
}

/// Pauses a server's timeouts while its client answers a server request. Afterwards the wait for the first byte
/// starts again, and the total is extended by the pause.
#[derive(Clone, Debug, Default)]
pub struct SharedPause(Arc<Mutex<Pause>>);

impl SharedPause {
    pub fn set_waiting_for_client(&self, paused: bool) {
        self.lock().set(paused);
    }

    /// Whether it is paused now.
    pub(super) fn is_paused(&self) -> bool {
        self.lock().is_on()
    }

    /// The total time of all pauses.
    pub(super) fn waited(&self) -> Duration {
        self.lock().waited
    }

    fn lock(&self) -> MutexGuard<'_, Pause> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The time in which a client answered server requests.
#[derive(Debug, Default)]
pub(super) struct Pause {
    since: Option<Instant>,
    pub(super) waited: Duration,
}

impl Pause {
    pub(super) fn set(&mut self, paused: bool) {
        if paused {
            self.since.get_or_insert_with(Instant::now);
        } else if let Some(since) = self.since.take() {
            self.waited += since.elapsed();
        }
    }

    pub(super) fn is_on(&self) -> bool {
        self.since.is_some()
    }
}

impl UpstreamMessage {
    pub fn request(id: Id, body: Bytes) -> UpstreamMessage {
        UpstreamMessage::new(MessageKind::Request(id), body)
    }

    pub fn notification(body: Bytes) -> UpstreamMessage {
        UpstreamMessage::new(MessageKind::Notification, body)
    }

    pub fn response(body: Bytes) -> UpstreamMessage {
        UpstreamMessage::new(MessageKind::Response, body)
    }

    fn new(kind: MessageKind, body: Bytes) -> UpstreamMessage {
        UpstreamMessage {
            body,
            kind,
            headers: Vec::new(),
            progress_token: None,
            client_capabilities: None,
            opens_session: false,
            prefers_stream: false,
            stays_open: false,
            client_pause: None,
            edited: None,
            began: None,
            run: None,
        }
    }

    /// Whether the bytes still name what was judged. Unedited bytes do.
    pub fn says_what_was_judged(&self) -> bool {
        self.edited.as_ref().is_none_or(|judged| judged.is_of(&self.body))
    }
}
