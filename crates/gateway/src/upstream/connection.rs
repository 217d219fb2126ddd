//! One HTTP/1.1 connection, driven by the task that uses it: no task of its own, so an answer
//! costs one wake-up. What is plain is spoken plainly; for what is not, hyper takes over.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::task::coop::unconstrained;

use super::body::Source;
use super::deadline::Deadline;
use super::error::UpstreamError;
use super::options::{HttpBounds, Waits};
use super::plain::Plain;
use super::replay::Replay;
use super::socket::{Stream, Tap};

/// A server on this machine answers within the time it takes to go to sleep and be woken again, so a
/// lone request looks for so long before its thread sleeps.
const LOOK_FOR: Duration = Duration::from_micros(400);
/// The last part of that, in which whoever else is ready to run on this core goes first: after 60 µs
/// without an answer the server may be waiting for the very core that looks for it.
const LOOK_POLITELY_FOR: Duration = Duration::from_micros(340);

/// After so many exchanges in a row that were not plain, hyper keeps the connection: taking it over for
/// each costs more than it would save.
const ODD_MAX: u32 = 3;
/// After so many answers that were small and of announced length, a connection that hyper keeps is tried
/// plainly once more: many conversations that begin together have all their long lists in a row.
const APT_MAX: u32 = 32;

/// With its head it is shorter than what is read plainly.
const APT_BYTES_MAX: u64 = 4 * 1024;

/// A connection with at most one request on it.
pub(super) struct Connection {
    way: Way,
    /// The exchanges since the last plain one that hyper had to be asked for.
    odd: u32,
    /// The answers since then that may have been plain.
    apt: u32,
    /// All its exchanges are hyper's.
    encrypted: bool,
    sizes: Sizes,
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

enum Way {
    Plain(Plain),
    Hyper(Spoken),
    /// Between the two; nothing can be sent.
    Gone,
}

/// What hyper speaks.
struct Spoken {
    sender: SendRequest<Full<Bytes>>,
    /// Gone once it has finished; a finished driver must not be polled again.
    driver: Option<Box<Driver>>,
}

type Driver = http1::Connection<TokioIo<Replay>, Full<Bytes>>;

#[derive(Clone, Copy)]
struct Sizes {
    read_bytes_max: usize,
    head_bytes_max: usize,
}

/// Why a request has no response.
pub(super) enum Failure {
    /// Not one byte of it left, so it may be sent again elsewhere.
    Unsent(String),
    Failed(UpstreamError),
}

/// What came of a request on a connection that is spoken plainly.
enum Plainly {
    Answer(Response<Source>),
    /// It or its answer is not plain; whether it left.
    Not(Request<Bytes>, bool),
}

/// For looking without being told of changes.
fn unheard() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

impl Spoken {
    async fn open(
        stream: Stream,
        tap: &Arc<Tap>,
        read: Bytes,
        sizes: Sizes,
    ) -> Result<Spoken, hyper::Error> {
        let (sender, driver) = http1::Builder::new()
            .max_buf_size(sizes.read_bytes_max.max(8192))
            .max_header_size(sizes.head_bytes_max)
            .handshake(TokioIo::new(Replay::new(stream, Arc::clone(tap), read)))
            .await?;
        Ok(Spoken { sender, driver: Some(Box::new(driver)) })
    }
}

impl Connection {
    pub(super) async fn open(
        stream: Stream,
        tap: Arc<Tap>,
        bounds: &HttpBounds,
        waits: &Waits,
    ) -> Result<Connection, hyper::Error> {
        let sizes =
            Sizes { read_bytes_max: bounds.read_bytes_max, head_bytes_max: bounds.head_bytes_max };
        let encrypted = matches!(stream, Stream::Tls(_));
        let way = match stream {
            Stream::Plain(socket) => Way::Plain(Plain::new(socket)),
            Stream::Tls(_) => Way::Hyper(Spoken::open(stream, &tap, Bytes::new(), sizes).await?),
        };
        Ok(Connection {
            way,
            odd: 0,
            apt: 0,
            encrypted,
            sizes,
            tap,
            home: std::thread::current().id(),
            keeps: None,
            deadline: Deadline::new(waits),
            table: HeaderMap::new(),
        })
    }

    /// Lets go of the task that used it, and says whether it can take another request, as far as can
    /// be seen.
    pub(super) fn comes_to_rest(&mut self) -> bool {
        self.deadline.rest();
        match &mut self.way {
            Way::Plain(plain) => plain.is_quiet(&mut unheard()),
            Way::Hyper(spoken) => {
                drive(&mut spoken.driver, &mut unheard());
                self.tap.set_left(false);
                let rests = spoken.driver.is_some() && spoken.sender.is_ready();
                if rests && self.goes_back() {
                    return self.take_back();
                }
                rests
            }
            Way::Gone => false,
        }
    }

    /// Whether the next exchange may be plain, as far as the last ones tell.
    fn goes_back(&self) -> bool {
        !self.encrypted && (self.odd < ODD_MAX || self.apt >= APT_MAX)
    }

    /// Takes the connection from hyper, which was needed for one exchange, and says whether it rests.
    fn take_back(&mut self) -> bool {
        let Way::Hyper(spoken) = std::mem::replace(&mut self.way, Way::Gone) else { return false };
        let Some(parts) = spoken.driver.map(|driver| driver.into_parts()) else { return false };
        let Some(socket) = parts.io.into_inner().into_socket() else { return false };
        let mut plain = Plain::new(socket);
        let rests = parts.read_buf.is_empty() && plain.is_quiet(&mut unheard());
        self.way = Way::Plain(plain);
        rests
    }

    /// Makes the next request look whether the peer closed the connection while it was idle.
    pub(super) fn distrust(&self) {
        self.tap.probe_next();
    }

    /// Lets the connection work; its state tells what came of it.
    pub(super) fn drive(&mut self, cx: &mut Context<'_>) {
        if let Way::Hyper(spoken) = &mut self.way {
            drive(&mut spoken.driver, cx);
        }
    }

    /// Sends one request and waits for the head of its answer, by the deadline. Dropping this closes
    /// the connection together with its owner.
    pub(super) async fn exchange(
        &mut self,
        request: Request<Bytes>,
        calm: bool,
    ) -> Result<Response<Source>, Failure> {
        let written_before = self.tap.written_bytes();
        let mut looks = calm.then(|| Instant::now() + LOOK_FOR);
        match self.plainly(request, &mut looks, written_before).await? {
            Plainly::Answer(response) => Ok(response),
            Plainly::Not(request, left) => {
                self.hand_over(left).await?;
                self.spoken(request, looks, written_before).await
            }
        }
    }

    async fn plainly(
        &mut self,
        mut request: Request<Bytes>,
        looks: &mut Option<Instant>,
        written_before: u64,
    ) -> Result<Plainly, Failure> {
        let Way::Plain(plain) = &mut self.way else { return Ok(Plainly::Not(request, false)) };
        if !plain.begin(&request) {
            return Ok(Plainly::Not(request, false));
        }
        let mut looked = false;
        let outcome = poll_fn(|cx| {
            if !std::mem::replace(&mut looked, true) && !plain.is_quiet(cx) {
                let closed = std::io::ErrorKind::ConnectionAborted;
                return Poll::Ready(Ok(Err(closed.into())));
            }
            if let Poll::Ready(came) = plain.poll(cx, request.body()) {
                return Poll::Ready(Ok(came));
            }
            look_again(looks, cx);
            self.deadline.poll(cx).map(Err)
        })
        .await;
        match outcome {
            Ok(Ok(())) => {
                let mut table = std::mem::take(request.headers_mut());
                table.clear();
                match plain.answer(table) {
                    Some(response) => {
                        self.deadline.touch();
                        self.odd = 0;
                        self.apt = 0;
                        Ok(Plainly::Answer(response.map(Source::Whole)))
                    }
                    None => Ok(Plainly::Not(request, true)),
                }
            }
            Ok(Err(error)) if self.tap.written_bytes() == written_before => {
                Err(Failure::Unsent(error.to_string()))
            }
            Ok(Err(error)) => Err(Failure::Failed(UpstreamError::lost(error.to_string()))),
            Err(timed_out) => Err(Failure::Failed(timed_out)),
        }
    }

    /// From now on hyper speaks, if it does not yet: of a request that left, it reads the answer.
    async fn hand_over(&mut self, left: bool) -> Result<(), Failure> {
        if matches!(self.way, Way::Hyper(_)) {
            return Ok(());
        }
        let Way::Plain(plain) = std::mem::replace(&mut self.way, Way::Gone) else {
            return Err(Failure::Unsent("the connection is closed".to_owned()));
        };
        self.odd = self.odd.saturating_add(1);
        self.apt = 0;
        self.tap.set_left(left);
        let (socket, read) = plain.into_parts();
        let opened = Spoken::open(Stream::Plain(socket), &self.tap, read, self.sizes);
        // Boxed, because most answers are plain.
        let spoken = Box::pin(opened).await;
        let failed = |error| Failure::Failed(UpstreamError::from_hyper(&error));
        self.way = Way::Hyper(spoken.map_err(failed)?);
        Ok(())
    }

    async fn spoken(
        &mut self,
        request: Request<Bytes>,
        mut looks: Option<Instant>,
        written_before: u64,
    ) -> Result<Response<Source>, Failure> {
        let Way::Hyper(Spoken { sender, driver }) = &mut self.way else {
            return Err(Failure::Unsent("the connection is closed".to_owned()));
        };
        // Only driving the connection, here and below, brings the answer. So nobody need be woken for
        // it, and it is always looked at, whatever the task's budget.
        let mut answer = pin!(unconstrained(sender.try_send_request(request.map(Full::new))));
        let outcome = poll_fn(|cx| {
            drive(driver, cx);
            if let Poll::Ready(outcome) = answer.as_mut().poll(&mut unheard()) {
                return Poll::Ready(Ok(outcome));
            }
            look_again(&mut looks, cx);
            self.deadline.poll(cx).map(Err)
        })
        .await;
        match outcome {
            Ok(Ok(response)) => {
                self.deadline.touch();
                self.apt = self.apt.saturating_add(may_be_plain(&response).into());
                Ok(response.map(Source::Incoming))
            }
            Ok(Err(mut error)) => {
                let unsent = !self.tap.has_left()
                    && (error.take_message().is_some()
                        || self.tap.written_bytes() == written_before);
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

/// Whether an answer is in the shape that is read plainly, if it came in one piece.
fn may_be_plain(response: &Response<Incoming>) -> bool {
    let bytes = response.body().size_hint().exact();
    bytes.is_some_and(|bytes| (1..=APT_BYTES_MAX).contains(&bytes))
}

/// Lets hyper work, unless it has finished.
fn drive(driver: &mut Option<Box<Driver>>, cx: &mut Context<'_>) {
    if let Some(connection) = driver
        && Pin::new(connection).poll(cx).is_ready()
    {
        *driver = None;
    }
}

/// Looks again at once, as long as there is time for it.
fn look_again(until: &mut Option<Instant>, cx: &Context<'_>) {
    let now = Instant::now();
    *until = until.filter(|until| now < *until);
    if let Some(until) = *until {
        if until.saturating_duration_since(now) < LOOK_POLITELY_FOR {
            std::thread::yield_now();
        }
        cx.waker().wake_by_ref();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};

    use super::super::socket::Socket;
    use super::*;

    const PLAIN: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
    const CHUNKED: &str =
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n";

    /// A connection to a server that gives one of these answers after the other.
    async fn connected(answers: Vec<&'static str>) -> Connection {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut peer, _) = listener.accept().await.unwrap();
            for answer in answers {
                let _ = peer.read(&mut [0; 1024]).await.unwrap();
                peer.write_all(answer.as_bytes()).await.unwrap();
            }
            // Open for as long as the client is.
            let _ = peer.read(&mut [0; 1]).await;
        });
        let (socket, tap) = Socket::new(TcpStream::connect(at).await.unwrap());
        let (bounds, waits) = (HttpBounds::default(), Waits::default());
        Connection::open(Stream::Plain(socket), tap, &bounds, &waits).await.unwrap()
    }

    /// One exchange, read to the end.
    async fn exchange(connection: &mut Connection) {
        let request = Request::post("/mcp").header("host", "a").body(Bytes::from("{}")).unwrap();
        let response = connection.exchange(request, false).await.ok().unwrap();
        if let Source::Incoming(mut body) = response.into_body() {
            let read = poll_fn(|cx| {
                connection.drive(cx);
                while let Poll::Ready(frame) = Pin::new(&mut body).poll_frame(cx) {
                    if frame.is_none() {
                        return Poll::Ready(());
                    }
                }
                Poll::Pending
            });
            read.await;
        }
        assert!(connection.comes_to_rest());
    }

    #[tokio::test]
    async fn hyper_keeps_what_is_never_plain_and_gives_back_what_may_be() {
        let apt = APT_MAX as usize;
        // What the server says, how often, and how often before the connection is plain or hyper's.
        let script: [(&'static str, usize, bool, usize); 7] = [
            (CHUNKED, 2, true, 1),
            (CHUNKED, 6, false, 1),
            (PLAIN, apt, true, apt),
            (CHUNKED, 1, false, 1),
            (PLAIN, apt, true, apt),
            (PLAIN, 1, true, 1),
            (CHUNKED, 2, true, 1),
        ];
        let answers = script.iter().flat_map(|(answer, times, ..)| vec![*answer; *times]);
        let mut connection = connected(answers.collect()).await;
        for (step, (_, times, plain, from)) in script.into_iter().enumerate() {
            for n in 1..=times {
                exchange(&mut connection).await;
                let is_plain = matches!(connection.way, Way::Plain(_));
                assert_eq!(is_plain == plain, n >= from, "step {step}, answer {n}");
            }
        }
    }
}
