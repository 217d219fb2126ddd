//! Half-closed connections: a client that closed its sending side may still read, as HTTP/1.1
//! allows. Only writing distinguishes it from one that is gone, so it is sent interim responses or
//! comments, which clients skip, until its response is ready.

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

/// Of all interim responses, the one that no client takes for the final response.
const INTERIM: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
/// The equivalent in an event stream.
const COMMENT: &[u8] = b":\n\n";
/// A client that is gone answers the first probe with a reset, so the second one fails.
const SECOND_AFTER: Duration = Duration::from_millis(100);
const NEXT_EVERY: Duration = Duration::from_secs(2);

/// When to probe: at once, shortly after, then at intervals.
#[derive(Default)]
struct ProbeTimer(Option<Pin<Box<Sleep>>>);

impl ProbeTimer {
    /// Whether a probe is due. Wakes the task for the next one.
    fn is_due(&mut self, context: &mut Context<'_>) -> bool {
        let wait = match self.0.as_mut().map(|due| due.as_mut().poll(context)) {
            None => SECOND_AFTER,
            Some(Poll::Ready(())) => NEXT_EVERY,
            Some(Poll::Pending) => return false,
        };
        self.0 = Some(Box::pin(sleep(wait)));
        true
    }
}

/// Probes a client that closed its sending side before its response began.
#[derive(Default)]
pub(super) struct HalfCloseProbe(ProbeTimer);

impl HalfCloseProbe {
    /// Whether the client was found to be gone. Schedules the next probe.
    pub(super) fn is_gone<S>(&mut self, stream: &mut S, context: &mut Context<'_>) -> bool
    where
        S: AsyncWrite + Unpin,
    {
        while self.0.is_due(context) {
            let written = match Pin::new(&mut *stream).poll_write(context, INTERIM) {
                // A client that accepts fewer bytes has stopped reading.
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

/// The phase of the request that hyper handles.
#[derive(Clone, Default)]
pub(super) struct SharedPhase(Arc<AtomicU8>);

#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Phase {
    /// No request is being handled, so end of input closes the connection.
    Idle,
    /// No byte of the response was written.
    Handling,
    /// The response is being written, and writing detects a client that is gone.
    Responding,
    /// The same, to a client that closed its sending side.
    RespondingHalfClosed,
}

impl SharedPhase {
    pub(super) fn is(&self, phase: Phase) -> bool {
        self.0.load(Ordering::Relaxed) == phase as u8
    }

    pub(super) fn set(&self, phase: Phase) {
        self.0.store(phase as u8, Ordering::Relaxed);
    }
}

/// A response body that resets the phase at its end. Between the events of a stream it sends
/// comments to a half-closed client, to detect whether it is gone.
pub(super) struct PhasedBody {
    body: Body,
    phase: SharedPhase,
    is_events: bool,
    /// Whether the last chunk ended an event.
    at_event_end: bool,
    probe_timer: ProbeTimer,
}

impl PhasedBody {
    pub(super) fn wrap(response: Response<Body>, phase: SharedPhase) -> Response<PhasedBody> {
        let media = response.headers().get(CONTENT_TYPE);
        let is_events = media.is_some_and(|media| media.as_bytes() == b"text/event-stream");
        let probe_timer = ProbeTimer::default();
        response.map(|body| PhasedBody { body, phase, is_events, at_event_end: true, probe_timer })
    }
}

impl Drop for PhasedBody {
    fn drop(&mut self) {
        self.phase.set(Phase::Idle);
    }
}

impl hyper::body::Body for PhasedBody {
    type Data = Bytes;
    type Error = <Body as hyper::body::Body>::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        match &frame {
            Poll::Ready(Some(Ok(frame))) => {
                self.at_event_end = frame.data_ref().is_none_or(|data| data.ends_with(b"\n\n"));
            }
            Poll::Pending
                if self.is_events
                    && self.at_event_end
                    && self.phase.is(Phase::RespondingHalfClosed)
                    && self.probe_timer.is_due(context) =>
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
