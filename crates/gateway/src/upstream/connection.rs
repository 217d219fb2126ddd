//! One HTTP/1.1 connection, driven by the task that uses it, so that a response costs one wake-up. Small
//! exchanges use the fast path; hyper handles all others.

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

use super::body::BodySource;
use super::deadline::Deadline;
use super::error::UpstreamError;
use super::fast_path::FastPathClient;
use super::options::{HttpBounds, Waits};
use super::preread::PrereadStream;
use super::socket::{SocketMonitor, TcpOrTls};

/// After this time a busy-poll yields the core between polls: the server may be waiting for this core.
const YIELD_AFTER: Duration = Duration::from_micros(60);

/// After this many exchanges in a row that needed hyper, it keeps the connection, because switching costs more
/// than it saves.
const HYPER_STREAK_MAX: u32 = 3;
/// After this many small responses of announced length, a connection in hyper tries the fast path again.
const SMALL_RESPONSES_MIN: u32 = 32;

/// With its head, such a response fits into the fast path's buffer.
const SMALL_RESPONSE_BYTES_MAX: u64 = 4 * 1024;

/// A connection with at most one request.
pub(super) struct Connection {
    protocol: Protocol,
    /// Exchanges in hyper since the last one on the fast path.
    hyper_streak: u32,
    /// Responses since then that would have fit the fast path.
    small_responses: u32,
    /// TLS always uses hyper.
    encrypted: bool,
    sizes: BufferSizes,
    monitor: Arc<SocketMonitor>,
    /// The thread whose runtime polls the socket.
    pub(super) home_thread: ThreadId,
    /// The keep-alive time that the server announced.
    pub(super) keep_alive: Option<Duration>,
    /// The timeouts of the current exchange.
    pub(super) deadline: Deadline,
    /// An empty header map for the next request.
    pub(super) header_buffer: HeaderMap,
}

enum Protocol {
    FastPath(FastPathClient),
    Hyper(HyperPath),
    /// While switching. Nothing can be sent.
    Closed,
}

/// The connection in hyper.
struct HyperPath {
    sender: SendRequest<Full<Bytes>>,
    /// None once it has finished: a finished driver must not be polled again.
    driver: Option<Box<Driver>>,
}

type Driver = http1::Connection<TokioIo<PrereadStream>, Full<Bytes>>;

#[derive(Clone, Copy)]
struct BufferSizes {
    read_bytes_max: usize,
    head_bytes_max: usize,
}

/// Why a request has no response.
pub(super) enum Failure {
    /// No byte was written, so it may be sent on another connection.
    Unsent(String),
    Failed(UpstreamError),
}

/// The outcome of a request on the fast path.
enum FastOutcome {
    Response(Response<BodySource>),
    /// The request or its response does not fit the fast path. True if it was sent.
    Fallback(Request<Bytes>, bool),
}

/// For polling without a wake-up.
fn noop_context() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

impl HyperPath {
    async fn open(
        stream: TcpOrTls,
        monitor: &Arc<SocketMonitor>,
        read: Bytes,
        sizes: BufferSizes,
    ) -> Result<HyperPath, hyper::Error> {
        let (sender, driver) = http1::Builder::new()
            .max_buf_size(sizes.read_bytes_max.max(8192))
            .max_header_size(sizes.head_bytes_max)
            .handshake(TokioIo::new(PrereadStream::new(stream, Arc::clone(monitor), read)))
            .await?;
        Ok(HyperPath { sender, driver: Some(Box::new(driver)) })
    }
}

impl Connection {
    pub(super) async fn open(
        stream: TcpOrTls,
        monitor: Arc<SocketMonitor>,
        bounds: &HttpBounds,
        waits: &Waits,
    ) -> Result<Connection, hyper::Error> {
        let sizes = BufferSizes {
            read_bytes_max: bounds.read_bytes_max,
            head_bytes_max: bounds.head_bytes_max,
        };
        let encrypted = matches!(stream, TcpOrTls::Tls(_));
        let protocol = match stream {
            TcpOrTls::Plain(socket) => Protocol::FastPath(FastPathClient::new(socket)),
            TcpOrTls::Tls(_) => {
                Protocol::Hyper(HyperPath::open(stream, &monitor, Bytes::new(), sizes).await?)
            }
        };
        Ok(Connection {
            protocol,
            hyper_streak: 0,
            small_responses: 0,
            encrypted,
            sizes,
            monitor,
            home_thread: std::thread::current().id(),
            keep_alive: None,
            deadline: Deadline::new(waits),
            header_buffer: HeaderMap::new(),
        })
    }

    /// Releases the task that used it. True if it can take another request.
    pub(super) fn prepare_for_idle(&mut self) -> bool {
        self.deadline.rest();
        match &mut self.protocol {
            Protocol::FastPath(plain) => plain.is_quiet(&mut noop_context()),
            Protocol::Hyper(hyper) => {
                drive(&mut hyper.driver, &mut noop_context());
                self.monitor.set_sent_before(false);
                let is_idle = hyper.driver.is_some() && hyper.sender.is_ready();
                if is_idle && self.may_use_fast_path() {
                    return self.leave_hyper();
                }
                is_idle
            }
            Protocol::Closed => false,
        }
    }

    /// Whether the next exchange may use the fast path.
    fn may_use_fast_path(&self) -> bool {
        !self.encrypted
            && (self.hyper_streak < HYPER_STREAK_MAX || self.small_responses >= SMALL_RESPONSES_MIN)
    }

    /// Takes the connection back from hyper. True if it is idle.
    fn leave_hyper(&mut self) -> bool {
        let Protocol::Hyper(hyper) = std::mem::replace(&mut self.protocol, Protocol::Closed) else {
            return false;
        };
        let Some(parts) = hyper.driver.map(|driver| driver.into_parts()) else { return false };
        let Some(socket) = parts.io.into_inner().into_socket() else { return false };
        let mut plain = FastPathClient::new(socket);
        let is_idle = parts.read_buf.is_empty() && plain.is_quiet(&mut noop_context());
        self.protocol = Protocol::FastPath(plain);
        is_idle
    }

    /// Makes the next request check whether the server closed the idle connection.
    pub(super) fn probe_before_use(&self) {
        self.monitor.probe_next();
    }

    /// Drives the connection.
    pub(super) fn drive(&mut self, cx: &mut Context<'_>) {
        if let Protocol::Hyper(hyper) = &mut self.protocol {
            drive(&mut hyper.driver, cx);
        }
    }

    /// Sends one request and waits for the head of its response. Dropping this closes the connection.
    pub(super) async fn exchange(
        &mut self,
        request: Request<Bytes>,
        busy_poll_max: Duration,
    ) -> Result<Response<BodySource>, Failure> {
        let written_before = self.monitor.written_bytes();
        let mut busy_poll = BusyPoll::start(busy_poll_max);
        match self.exchange_fast(request, &mut busy_poll, written_before).await? {
            FastOutcome::Response(response) => Ok(response),
            FastOutcome::Fallback(request, was_sent) => {
                self.enter_hyper(was_sent).await?;
                self.exchange_hyper(request, busy_poll, written_before).await
            }
        }
    }

    async fn exchange_fast(
        &mut self,
        mut request: Request<Bytes>,
        busy_poll: &mut Option<BusyPoll>,
        written_before: u64,
    ) -> Result<FastOutcome, Failure> {
        let Protocol::FastPath(plain) = &mut self.protocol else {
            return Ok(FastOutcome::Fallback(request, false));
        };
        if !plain.begin(&request) {
            return Ok(FastOutcome::Fallback(request, false));
        }
        let mut checked = false;
        let outcome = poll_fn(|cx| {
            if !std::mem::replace(&mut checked, true) && !plain.is_quiet(cx) {
                let closed = std::io::ErrorKind::ConnectionAborted;
                return Poll::Ready(Ok(Err(closed.into())));
            }
            if let Poll::Ready(came) = plain.poll(cx, request.body()) {
                return Poll::Ready(Ok(came));
            }
            BusyPoll::poll_again(busy_poll, cx);
            self.deadline.poll(cx).map(Err)
        })
        .await;
        match outcome {
            Ok(Ok(())) => {
                let mut header_buffer = std::mem::take(request.headers_mut());
                header_buffer.clear();
                match plain.response(header_buffer) {
                    Some(response) => {
                        self.deadline.touch();
                        self.hyper_streak = 0;
                        self.small_responses = 0;
                        Ok(FastOutcome::Response(response.map(BodySource::Whole)))
                    }
                    None => Ok(FastOutcome::Fallback(request, true)),
                }
            }
            Ok(Err(error)) if self.monitor.written_bytes() == written_before => {
                Err(Failure::Unsent(error.to_string()))
            }
            Ok(Err(error)) => Err(Failure::Failed(UpstreamError::lost(error.to_string()))),
            Err(timed_out) => Err(Failure::Failed(timed_out)),
        }
    }

    /// Switches to hyper. If the request was sent already, hyper reads its response.
    async fn enter_hyper(&mut self, was_sent: bool) -> Result<(), Failure> {
        if matches!(self.protocol, Protocol::Hyper(_)) {
            return Ok(());
        }
        let Protocol::FastPath(plain) = std::mem::replace(&mut self.protocol, Protocol::Closed)
        else {
            return Err(Failure::Unsent("the connection is closed".to_owned()));
        };
        self.hyper_streak = self.hyper_streak.saturating_add(1);
        self.small_responses = 0;
        self.monitor.set_sent_before(was_sent);
        let (socket, read) = plain.into_parts();
        let opened = HyperPath::open(TcpOrTls::Plain(socket), &self.monitor, read, self.sizes);
        // Boxed, because most responses use the fast path.
        let hyper = Box::pin(opened).await;
        let failed = |error| Failure::Failed(UpstreamError::from_hyper(&error));
        self.protocol = Protocol::Hyper(hyper.map_err(failed)?);
        Ok(())
    }

    async fn exchange_hyper(
        &mut self,
        request: Request<Bytes>,
        mut busy_poll: Option<BusyPoll>,
        written_before: u64,
    ) -> Result<Response<BodySource>, Failure> {
        let Protocol::Hyper(HyperPath { sender, driver }) = &mut self.protocol else {
            return Err(Failure::Unsent("the connection is closed".to_owned()));
        };
        // Only driving the connection delivers the response, so no wake-up is needed, and it is polled
        // whatever the task's budget is.
        let mut answer = pin!(unconstrained(sender.try_send_request(request.map(Full::new))));
        let outcome = poll_fn(|cx| {
            drive(driver, cx);
            if let Poll::Ready(outcome) = answer.as_mut().poll(&mut noop_context()) {
                return Poll::Ready(Ok(outcome));
            }
            BusyPoll::poll_again(&mut busy_poll, cx);
            self.deadline.poll(cx).map(Err)
        })
        .await;
        match outcome {
            Ok(Ok(response)) => {
                self.deadline.touch();
                self.small_responses =
                    self.small_responses.saturating_add(fits_fast_path(&response).into());
                Ok(response.map(BodySource::Incoming))
            }
            Ok(Err(mut error)) => {
                let unsent = !self.monitor.was_sent_before()
                    && (error.take_message().is_some()
                        || self.monitor.written_bytes() == written_before);
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

/// Whether a response would fit the fast path.
fn fits_fast_path(response: &Response<Incoming>) -> bool {
    let bytes = response.body().size_hint().exact();
    bytes.is_some_and(|bytes| (1..=SMALL_RESPONSE_BYTES_MAX).contains(&bytes))
}

/// Drives hyper, unless it has finished.
fn drive(driver: &mut Option<Box<Driver>>, cx: &mut Context<'_>) {
    if let Some(connection) = driver
        && Pin::new(connection).poll(cx).is_ready()
    {
        *driver = None;
    }
}

/// A request that polls for its response instead of sleeping.
struct BusyPoll {
    began: Instant,
    max: Duration,
}

impl BusyPoll {
    fn start(max: Duration) -> Option<BusyPoll> {
        (!max.is_zero()).then(|| BusyPoll { began: Instant::now(), max })
    }

    /// Wakes the task for another poll, until the time is over.
    fn poll_again(this: &mut Option<BusyPoll>, cx: &Context<'_>) {
        let Some(busy_poll) = this else { return };
        let elapsed = busy_poll.began.elapsed();
        if elapsed >= busy_poll.max {
            *this = None;
            return;
        }
        if elapsed >= YIELD_AFTER {
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

    #[test]
    fn busy_polling_is_off_by_default_and_ends_after_its_time() {
        assert!(BusyPoll::start(Waits::default().busy_poll_max).is_none());
        let mut busy_poll = BusyPoll::start(Duration::from_hours(1));
        BusyPoll::poll_again(&mut busy_poll, &noop_context());
        assert!(busy_poll.is_some());
        let mut over = Some(BusyPoll { began: Instant::now(), max: Duration::ZERO });
        BusyPoll::poll_again(&mut over, &noop_context());
        assert!(over.is_none());
    }

    const PLAIN: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
    const CHUNKED: &str =
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n";

    /// A connection to a server that sends these responses in order.
    async fn connected(answers: Vec<&'static str>) -> Connection {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut peer, _) = listener.accept().await.unwrap();
            for answer in answers {
                let _ = peer.read(&mut [0; 1024]).await.unwrap();
                peer.write_all(answer.as_bytes()).await.unwrap();
            }
            // Open as long as the client is.
            let _ = peer.read(&mut [0; 1]).await;
        });
        let (socket, monitor) = Socket::new(TcpStream::connect(at).await.unwrap());
        let (bounds, waits) = (HttpBounds::default(), Waits::default());
        Connection::open(TcpOrTls::Plain(socket), monitor, &bounds, &waits).await.unwrap()
    }

    /// One exchange, read to the end.
    async fn exchange(connection: &mut Connection) {
        let request = Request::post("/mcp").header("host", "a").body(Bytes::from("{}")).unwrap();
        let response = connection.exchange(request, Duration::ZERO).await.ok().unwrap();
        if let BodySource::Incoming(mut body) = response.into_body() {
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
        assert!(connection.prepare_for_idle());
    }

    #[tokio::test]
    async fn hyper_returns_the_connection_after_odd_requests() {
        let small_responses = SMALL_RESPONSES_MIN as usize;
        // Response, how often, whether the connection is on the fast path afterwards, and from which
        // repetition on.
        let script: [(&'static str, usize, bool, usize); 7] = [
            (CHUNKED, 2, true, 1),
            (CHUNKED, 6, false, 1),
            (PLAIN, small_responses, true, small_responses),
            (CHUNKED, 1, false, 1),
            (PLAIN, small_responses, true, small_responses),
            (PLAIN, 1, true, 1),
            (CHUNKED, 2, true, 1),
        ];
        let answers = script.iter().flat_map(|(answer, times, ..)| vec![*answer; *times]);
        let mut connection = connected(answers.collect()).await;
        for (step, (_, times, plain, from)) in script.into_iter().enumerate() {
            for n in 1..=times {
                exchange(&mut connection).await;
                let is_plain = matches!(connection.protocol, Protocol::FastPath(_));
                assert_eq!(is_plain == plain, n >= from, "step {step}, answer {n}");
            }
        }
    }
}
