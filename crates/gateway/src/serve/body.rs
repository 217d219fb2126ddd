//! What comes in over HTTP, whole or bit by bit, and what goes back: nothing, one piece, or pieces as
//! they come.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Frame, Incoming, SizeHint};
use tokio::sync::mpsc;

/// A request body.
pub(crate) enum Arriving {
    /// All of it is here; empty once it was taken.
    Whole(Bytes),
    Coming(Coming),
}

/// What hyper reads, bit by bit.
pub(crate) struct Coming {
    incoming: Incoming,
    has_ended: bool,
    /// Set when it is let go of before its end.
    left: Arc<AtomicBool>,
}

impl Coming {
    pub(super) fn new(incoming: Incoming, left: Arc<AtomicBool>) -> Coming {
        Coming { incoming, has_ended: false, left }
    }
}

impl Drop for Coming {
    fn drop(&mut self) {
        if !self.has_ended && !hyper::body::Body::is_end_stream(&self.incoming) {
            self.left.store(true, Ordering::Relaxed);
        }
    }
}

impl hyper::body::Body for Arriving {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match &mut *self {
            Arriving::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Arriving::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Arriving::Coming(coming) => {
                let frame = Pin::new(&mut coming.incoming).poll_frame(context);
                coming.has_ended |= matches!(frame, Poll::Ready(None));
                frame
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Arriving::Whole(bytes) => bytes.is_empty(),
            Arriving::Coming(coming) => coming.incoming.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Arriving::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Arriving::Coming(coming) => coming.incoming.size_hint(),
        }
    }
}

/// A response body.
pub(crate) enum Body {
    Whole(Option<Bytes>),
    Pieces(mpsc::Receiver<Bytes>),
}

/// The writing end of a body that comes in pieces. Dropping it ends the body.
pub(crate) type Feed = mpsc::Sender<Bytes>;

/// Pieces that may wait unread; a client that is slower makes the sender wait.
const PIECES_WAITING_MAX: usize = 16;

impl Body {
    pub(crate) fn empty() -> Body {
        Body::Whole(None)
    }

    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Body {
        Body::Whole(Some(bytes.into()))
    }

    pub(crate) fn pieces() -> (Feed, Body) {
        let (feed, pieces) = mpsc::channel(PIECES_WAITING_MAX);
        (feed, Body::Pieces(pieces))
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            Body::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Body::Pieces(pieces) => {
                pieces.poll_recv(context).map(|piece| piece.map(|bytes| Ok(Frame::data(bytes))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Body::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64))
            }
            Body::Pieces(_) => SizeHint::default(),
        }
    }
}
