//! A message on its way out, and the little that routing needs to know of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use hyper::header::{HeaderName, HeaderValue};

use crate::wire::{Id, Takes, Target};

/// What kind of JSON-RPC message the body is.
#[derive(Clone, Debug)]
pub enum Kind {
    Request(Id),
    Notification,
    Response,
}

/// One message for a server. The bytes go out as they are.
#[derive(Clone, Debug)]
pub struct Outgoing {
    pub body: Bytes,
    pub kind: Kind,
    /// Protocol headers to send along (`mcp-*`, `traceparent`, `tracestate`, `baggage`); a link
    /// sends no other, and a child gets none.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The progress token as written in the body, so that progress finds its request.
    pub progress_token: Option<Box<str>>,
    /// What its client can be asked meanwhile; nothing where the gate asks for itself.
    pub takes: Option<Takes>,
    /// An `initialize`: the session id of its answer becomes the link's, and it is never cancelled.
    pub opens_session: bool,
    /// The client names event streams before JSON; some servers answer by that order.
    pub prefers_stream: bool,
    /// A stream meant to stay open (`subscriptions/listen`): no idle and no total wait.
    pub stays_open: bool,
    /// Where its client may be asked something before its answer begins: has all of its time again then.
    pub patience: Option<Patience>,
    /// What a client's message was judged as, where the gate edited it since; it must still say that.
    pub edited: Option<Box<Target>>,
    /// Send it only if the child is still in this run; a restarted child knows nothing of the
    /// conversation before. See [`State::Running`](super::State::Running).
    pub run: Option<u64>,
}

/// Makes the wait for the first byte of an answer begin anew, for a server that waited for its client.
#[derive(Clone, Debug, Default)]
pub struct Patience(Arc<AtomicBool>);

impl Patience {
    pub fn renew(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether it was renewed since somebody last looked.
    pub(super) fn is_renewed(&self) -> bool {
        self.0.swap(false, Ordering::AcqRel)
    }
}

impl Outgoing {
    pub fn request(id: Id, body: Bytes) -> Outgoing {
        Outgoing::new(Kind::Request(id), body)
    }

    pub fn notification(body: Bytes) -> Outgoing {
        Outgoing::new(Kind::Notification, body)
    }

    pub fn response(body: Bytes) -> Outgoing {
        Outgoing::new(Kind::Response, body)
    }

    fn new(kind: Kind, body: Bytes) -> Outgoing {
        Outgoing {
            body,
            kind,
            headers: Vec::new(),
            progress_token: None,
            takes: None,
            opens_session: false,
            prefers_stream: false,
            stays_open: false,
            patience: None,
            edited: None,
            run: None,
        }
    }

    /// Whether the bytes that leave say what was judged. Bytes that were not edited since do.
    pub fn says_what_was_judged(&self) -> bool {
        self.edited.as_ref().is_none_or(|judged| judged.is_of(&self.body))
    }
}
