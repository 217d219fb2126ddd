//! Request bodies, complete or streamed, and response bodies: empty, complete or streamed.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Frame, Incoming, SizeHint};
use tokio::sync::mpsc;

/// A request body.
pub(crate) enum IncomingBody {
    /// The complete body; empty once taken.
    Complete(Bytes),
    Streamed(StreamedBody),
}

/// A body that hyper reads in frames.
pub(crate) struct StreamedBody {
    incoming: Incoming,
    has_ended: bool,
    /// Set when the body is dropped before its end.
    unread: Arc<AtomicBool>,
}

impl StreamedBody {
    pub(super) fn new(incoming: Incoming, unread: Arc<AtomicBool>) -> StreamedBody {
        StreamedBody { incoming, has_ended: false, unread }
    }
}

impl Drop for StreamedBody {
    fn drop(&mut self) {
        if !self.has_ended && !hyper::body::Body::is_end_stream(&self.incoming) {
            self.unread.store(true, Ordering::Relaxed);
        }
    }
}

impl hyper::body::Body for IncomingBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match &mut *self {
            IncomingBody::Complete(bytes) if bytes.is_empty() => Poll::Ready(None),
            IncomingBody::Complete(bytes) => {
                Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes)))))
            }
            IncomingBody::Streamed(streamed) => {
                let frame = Pin::new(&mut streamed.incoming).poll_frame(context);
                streamed.has_ended |= matches!(frame, Poll::Ready(None));
                frame
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            IncomingBody::Complete(bytes) => bytes.is_empty(),
            IncomingBody::Streamed(streamed) => streamed.incoming.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            IncomingBody::Complete(bytes) => SizeHint::with_exact(bytes.len() as u64),
            IncomingBody::Streamed(streamed) => streamed.incoming.size_hint(),
        }
    }
}

/// A response body.
pub(crate) enum Body {
    Complete(Option<Bytes>),
    Streamed(mpsc::Receiver<Bytes>),
}

/// The writing end of a streamed body. Dropping it ends the body.
pub(crate) type BodySender = mpsc::Sender<Bytes>;

/// Chunks that may be queued; a slow client blocks the sender.
const QUEUED_CHUNKS_MAX: usize = 16;

impl Body {
    pub(crate) fn empty() -> Body {
        Body::Complete(None)
    }

    pub(crate) fn complete(bytes: impl Into<Bytes>) -> Body {
        Body::Complete(Some(bytes.into()))
    }

    pub(crate) fn streamed() -> (BodySender, Body) {
        let (sender, chunks) = mpsc::channel(QUEUED_CHUNKS_MAX);
        (sender, Body::Streamed(chunks))
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
            Body::Complete(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Body::Streamed(chunks) => {
                chunks.poll_recv(context).map(|chunk| chunk.map(|bytes| Ok(Frame::data(bytes))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Body::Complete(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Complete(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64))
            }
            Body::Streamed(_) => SizeHint::default(),
        }
    }
}
