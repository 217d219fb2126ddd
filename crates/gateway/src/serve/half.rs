//! A client that has closed its sending side may still read, as HTTP/1.1 allows. Only writing tells it
//! from one that is gone, so while its answer is not ready it is sent what every client skips.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::Response;
use hyper::body::{Frame, SizeHint};
use hyper::header::CONTENT_TYPE;
use tokio::io::AsyncWrite;
use tokio::time::{Sleep, sleep};

use super::body::Body;

/// An answer before the answer. Of all of its kind this is the one that no client takes for the last.
const INTERIM: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
/// The same in a stream of events.
const COMMENT: &[u8] = b":\n\n";
/// One that is gone answers the first with a reset, which the second meets.
const SECOND_AFTER: Duration = Duration::from_millis(100);
const FURTHER_EVERY: Duration = Duration::from_secs(2);

/// When to write: at once, a moment later, and then now and again.
#[derive(Default)]
struct Rhythm(Option<Pin<Box<Sleep>>>);

impl Rhythm {
    /// Wakes the task when it is time.
    fn is_time(&mut self, context: &mut Context<'_>) -> bool {
        let wait = match self.0.as_mut().map(|due| due.as_mut().poll(context)) {
            None => SECOND_AFTER,
            Some(Poll::Ready(())) => FURTHER_EVERY,
            Some(Poll::Pending) => return false,
        };
        self.0 = Some(Box::pin(sleep(wait)));
        true
    }
}

/// A client that will send no more and has heard nothing of its answer.
#[derive(Default)]
pub(super) struct HalfClosed(Rhythm);

impl HalfClosed {
    /// Whether it was found to be gone. Looks again by itself.
    pub(super) fn is_gone<S>(&mut self, stream: &mut S, context: &mut Context<'_>) -> bool
    where
        S: AsyncWrite + Unpin,
    {
        while self.0.is_time(context) {
            let written = match Pin::new(&mut *stream).poll_write(context, INTERIM) {
                // One that takes less than that at once has stopped reading.
                Poll::Ready(Ok(bytes)) => bytes == INTERIM.len(),
                Poll::Ready(Err(_)) => false,
                Poll::Pending => true,
            };
            let flushed = Pin::new(&mut *stream).poll_flush(context);
            if !written || matches!(flushed, Poll::Ready(Err(_))) {
                return true;
            }
        }
        false
    }
}

/// How far a request is that hyper reads and answers.
#[derive(Clone, Default)]
pub(super) struct Talk(Arc<AtomicU8>);

#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Turn {
    /// No request is being answered, so the end of what is read is the end of all.
    Resting,
    /// Nothing of the answer was written.
    Answering,
    /// The answer is being written, which meets a client that is gone by itself.
    Speaking,
    /// The same to a client that will send no more.
    SpeakingOnly,
}

impl Talk {
    pub(super) fn is(&self, turn: Turn) -> bool {
        self.0.load(Ordering::Relaxed) == turn as u8
    }

    pub(super) fn turns(&self, turn: Turn) {
        self.0.store(turn as u8, Ordering::Relaxed);
    }
}

/// The body of an answer, which ends the turn when it has ended. Between the events of a stream a
/// client that will send no more is sent comments, which only one that is there takes.
pub(super) struct Spoken {
    body: Body,
    talk: Talk,
    is_events: bool,
    /// Whether nothing is said by half.
    is_between: bool,
    rhythm: Rhythm,
}

impl Spoken {
    pub(super) fn answer(response: Response<Body>, talk: Talk) -> Response<Spoken> {
        let media = response.headers().get(CONTENT_TYPE);
        let is_events = media.is_some_and(|media| media.as_bytes() == b"text/event-stream");
        let rhythm = Rhythm::default();
        response.map(|body| Spoken { body, talk, is_events, is_between: true, rhythm })
    }
}

impl Drop for Spoken {
    fn drop(&mut self) {
        self.talk.turns(Turn::Resting);
    }
}

impl hyper::body::Body for Spoken {
    type Data = Bytes;
    type Error = <Body as hyper::body::Body>::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        match &frame {
            Poll::Ready(Some(Ok(frame))) => {
                self.is_between = frame.data_ref().is_none_or(|data| data.ends_with(b"\n\n"));
            }
            Poll::Pending
                if self.is_events
                    && self.is_between
                    && self.talk.is(Turn::SpeakingOnly)
                    && self.rhythm.is_time(context) =>
            {
                return Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(COMMENT)))));
            }
            _ => {}
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
