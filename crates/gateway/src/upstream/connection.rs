//! One HTTP/1.1 connection, driven by the task that uses it: no task of its own, so an answer
//! costs one wake-up.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread::ThreadId;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::task::coop::unconstrained;

use super::deadline::Deadline;
use super::error::UpstreamError;
use super::options::{HttpBounds, Waits};
use super::socket::{Stream, Tap};

/// A server on this machine answers within the time it takes to go to sleep and be woken again, so a
/// lone request looks so many times before its thread sleeps.
const LOOKS_MAX: u32 = 400;

type Driver = http1::Connection<TokioIo<Stream>, Full<Bytes>>;

/// A connection with at most one request on it.
pub(super) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    /// Gone once it has finished; a finished driver must not be polled again.
    driver: Option<Box<Driver>>,
    tap: Arc<Tap>,
    /// The thread whose runtime watches the socket.
    pub(super) home: ThreadId,
    /// How long the server says it keeps the connection idle.
    pub(super) keeps: Option<Duration>,
    /// Of the exchange that is under way, or was the last.
    pub(super) deadline: Deadline,
    /// An empty table for the headers of the next request.
    pub(super) table: HeaderMap,
}

/// Why a request has no response.
pub(super) enum Failure {
    /// Not one byte of it left, so it may be sent again elsewhere.
    Unsent(String),
    Failed(UpstreamError),
}

/// For looking without being told of changes.
fn unheard() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

impl Connection {
    pub(super) async fn open(
        stream: Stream,
        tap: Arc<Tap>,
        bounds: &HttpBounds,
        waits: &Waits,
    ) -> Result<Connection, hyper::Error> {
        let (sender, driver) = http1::Builder::new()
            .max_buf_size(bounds.read_bytes_max.max(8192))
            .max_header_size(bounds.head_bytes_max)
            .handshake(TokioIo::new(stream))
            .await?;
        let home = std::thread::current().id();
        Ok(Connection {
            sender,
            driver: Some(Box::new(driver)),
            tap,
            home,
            keeps: None,
            deadline: Deadline::new(waits),
            table: HeaderMap::new(),
        })
    }

    /// Lets go of the task that used it, and says whether it can take another request, as far as can
    /// be seen.
    pub(super) fn comes_to_rest(&mut self) -> bool {
        self.drive(&mut unheard());
        self.deadline.rest();
        self.driver.is_some() && self.sender.is_ready()
    }

    /// Makes the next request look whether the peer closed the connection while it was idle.
    pub(super) fn distrust(&self) {
        self.tap.probe_next();
    }

    /// Lets the connection work; its state tells what came of it.
    pub(super) fn drive(&mut self, cx: &mut Context<'_>) {
        if let Some(driver) = &mut self.driver
            && Pin::new(driver).poll(cx).is_ready()
        {
            self.driver = None;
        }
    }

    /// Sends one request and waits for the head of its answer, by the deadline. Dropping this closes
    /// the connection together with its owner.
    pub(super) async fn exchange(
        &mut self,
        request: Request<Full<Bytes>>,
        calm: bool,
    ) -> Result<Response<Incoming>, Failure> {
        let written_before = self.tap.written_bytes();
        // Only driving the connection, here and below, brings the answer. So nobody need be woken for
        // it, and it is always looked at, whatever the task's budget.
        let mut answer = pin!(unconstrained(self.sender.try_send_request(request)));
        let mut looks = if calm { LOOKS_MAX } else { 0 };
        let outcome = poll_fn(|cx| {
            self.drive(cx);
            if let Poll::Ready(outcome) = answer.as_mut().poll(&mut unheard()) {
                return Poll::Ready(Ok(outcome));
            }
            if looks > 0 {
                looks -= 1;
                cx.waker().wake_by_ref();
            }
            self.deadline.poll(cx).map(Err)
        })
        .await;
        match outcome {
            Ok(Ok(response)) => {
                self.deadline.touch();
                Ok(response)
            }
            Ok(Err(mut error)) => {
                let unsent =
                    error.take_message().is_some() || self.tap.written_bytes() == written_before;
                let error = error.into_error();
                Err(if unsent {
                    Failure::Unsent(error.to_string())
                } else {
                    Failure::Failed(UpstreamError::from_hyper(&error))
                })
            }
            Err(timed_out) => Err(Failure::Failed(timed_out)),
        }
    }
}
