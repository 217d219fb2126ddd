//! What goes back over HTTP: nothing, one piece, or pieces as they come.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tokio::sync::mpsc;

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
