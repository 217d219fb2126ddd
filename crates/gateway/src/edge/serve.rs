//! The HTTP listener: accepts connections, enforces their bounds, and passes each request to its
//! handler. Nothing here knows MCP.

mod allowed_hosts;
mod body;
mod buffered_body;
mod client_stream;
mod connections;
mod date;
mod fast_path;
mod half_close;
mod head_check;
mod head_filter;
mod linger;
#[cfg(test)]
mod tests;
mod tls;
mod workers;

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use store::clock::Clock;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

pub(crate) use allowed_hosts::{AllowedHosts, HostError};
pub(crate) use body::{Body, BodySender, IncomingBody};
pub(crate) use buffered_body::{BodyError, BufferedBody, read_buffered, reserve};
pub(crate) use connections::Remote;
pub use tls::{Tls, TlsError, Validity};
pub(crate) use workers::Workers;

use crate::runtime::bounds::Bounds;
use crate::runtime::stop_signal::{turned_true, unless_stopped};
use body::StreamedBody;
use client_stream::BusyPollFlag;
use connections::{ConnectionEntry, OpenConnections};
use date::Date;
use fast_path::{FastPath, FastPathEnd, HandOver};
use half_close::{Phase, PhasedBody, SharedPhase};
use head_check::Fault;
use head_filter::HeadFilter;
use linger::Linger;

/// Read buffer beyond the largest head. Every open connection holds it, and more does not make a
/// fast client faster.
const READ_BYTES: usize = 8 * 1024;

/// After the drain bound requests in flight are answered with an error; their clients have this
/// long to read it.
const ABORT_WAIT_MAX: Duration = Duration::from_millis(300);

/// hyper drops a slow head silently, so its own timeout is this much longer than ours.
const SLOW_HEAD_ANSWER_WAIT: Duration = Duration::from_secs(1);

/// Clients beyond `connections_max` that may complete a TLS handshake to read the reason, and the
/// time for it.
const REJECTING_MAX: usize = 64;
const REJECT_WAIT_MAX: Duration = Duration::from_secs(2);

/// How long an evicted connection may take to close.
const EVICTION_WAIT_MAX: Duration = Duration::from_millis(100);

/// Called for connections that never sent a valid request: the remote address, the status and the
/// reason.
pub(crate) type OnBadConnection =
    Arc<dyn Fn(&Remote, u16, &'static str) -> Response<Body> + Send + Sync>;

/// Why the gate cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    #[error("cannot listen on `{address}`: {source}\nhint: {hint}")]
    Bind { address: SocketAddr, source: std::io::Error, hint: &'static str },
    #[error(
        "`{0}` can be reached from other machines and there is no TLS\nhint: listen on 127.0.0.1, or name `tls_cert_file` and `tls_key_file` in tollgate.toml"
    )]
    PublicWithoutTls(SocketAddr),
}

/// A bound socket, not yet serving.
pub(crate) struct Listener {
    socket: TcpListener,
    tls: Option<Tls>,
    bounds: Arc<Bounds>,
}

impl Listener {
    /// Binds. An address other than loopback needs TLS.
    pub(crate) async fn bind(
        address: SocketAddr,
        tls: Option<Tls>,
        bounds: Arc<Bounds>,
    ) -> Result<Listener, ListenError> {
        if !address.ip().is_loopback() && tls.is_none() {
            return Err(ListenError::PublicWithoutTls(address));
        }
        let socket = TcpListener::bind(address).await.map_err(|source| ListenError::Bind {
            address,
            hint: bind_hint(&source),
            source,
        })?;
        Ok(Listener { socket, tls, bounds })
    }

    pub(crate) fn address(&self) -> std::io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Serves until `stop` turns true, then drains requests in flight within the drain bound.
    /// Connections without a valid request are reported to `on_bad_connection`.
    pub(crate) async fn serve<F, R>(
        self,
        workers: &Workers,
        clock: Clock,
        answer: F,
        on_bad_connection: OnBadConnection,
        mut stop: watch::Receiver<bool>,
    ) where
        F: Fn(Remote, Request<IncomingBody>) -> R + Clone + Send + Sync + 'static,
        R: Future<Output = Response<Body>> + Send + 'static,
    {
        let slots = Arc::new(Semaphore::new(self.bounds.connections_max));
        let busy = Arc::new(AtomicUsize::new(0));
        let rejecting = Arc::new(Semaphore::new(REJECTING_MAX));
        let connections = OpenConnections::new(self.bounds.connections_per_grant_max);
        loop {
            let accepted = tokio::select! {
                accepted = self.socket.accept() => accepted,
                () = turned_true(&mut stop) => break,
            };
            let Ok((stream, address)) = accepted else {
                // Probably out of file descriptors: wait until some are closed.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let remote = connections.remote(address);
            let Some(slot) = acquire_slot(&slots, &connections, &on_bad_connection).await else {
                let message = "more connections are open than `connections_max`";
                let response = on_bad_connection(&remote, 503, message);
                self.reject_over_limit(stream, response, &rejecting);
                continue;
            };
            let entry = connections.add(remote.clone());
            let number = entry.number();
            let connection = ClientConnection {
                remote,
                _entry: entry,
                bounds: Arc::clone(&self.bounds),
                tls: self.tls.clone(),
                clock: clock.clone(),
                stop: stop.clone(),
                on_bad: Arc::clone(&on_bad_connection),
                busy: Arc::clone(&busy),
                slot,
            };
            let answer = answer.clone();
            let spawned =
                workers.spawn_on_next(stream, move |stream| connection.run(stream, answer));
            if let Some(end) = spawned.ok().flatten() {
                connections.set_abort_handle(number, end);
            }
        }
        let all_slots = u32::try_from(self.bounds.connections_max).unwrap_or(u32::MAX);
        let wait_max = self.bounds.drain_wait_max + ABORT_WAIT_MAX;
        let _ = tokio::time::timeout(wait_max, slots.acquire_many(all_slots)).await;
    }
}

impl Listener {
    /// Responds to a connection over the limit, over TLS if configured.
    fn reject_over_limit(
        &self,
        stream: TcpStream,
        response: Response<Body>,
        slots: &Arc<Semaphore>,
    ) {
        let Some(tls) = self.tls.clone() else {
            tokio::spawn(head_check::respond_and_close(stream, response));
            return;
        };
        // Beyond that many the connection is only closed: a handshake costs more than a refusal.
        if let Ok(slot) = Arc::clone(slots).try_acquire_owned() {
            tokio::spawn(async move {
                let _slot = slot;
                let accepted = tokio::time::timeout(REJECT_WAIT_MAX, tls.accept(stream)).await;
                if let Ok(Ok(stream)) = accepted {
                    head_check::respond_and_close(stream, response).await;
                }
            });
        }
    }
}

/// A slot for one more connection: a free one, or that of an evicted connection. An unauthenticated
/// connection is evicted first, then an idle one of the grant with the most connections.
async fn acquire_slot(
    slots: &Arc<Semaphore>,
    connections: &OpenConnections,
    on_bad_connection: &OnBadConnection,
) -> Option<OwnedSemaphorePermit> {
    if let Ok(slot) = Arc::clone(slots).try_acquire_owned() {
        return Some(slot);
    }
    let ended = connections.evict_one()?;
    let message = "closed to free a connection, because `connections_max` were open and this one was unauthenticated or its grant had the most";
    on_bad_connection(&ended, 503, message);
    let freed = tokio::time::timeout(EVICTION_WAIT_MAX, Arc::clone(slots).acquire_owned()).await;
    freed.ok()?.ok()
}

fn bind_hint(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            "another program (perhaps another `tollgate up`) has this port; choose one with `--listen 127.0.0.1:PORT`"
        }
        std::io::ErrorKind::PermissionDenied => {
            "ports below 1024 need privileges; choose a higher one"
        }
        _ => "choose an address of this machine with `--listen`",
    }
}

/// A response after which the connection closes.
fn with_close(mut response: Response<Body>) -> Response<Body> {
    let close = hyper::header::HeaderValue::from_static("close");
    response.headers_mut().insert(hyper::header::CONNECTION, close);
    response
}

/// The response to a request that was still in flight when the gate had to exit.
fn shutdown_response() -> Response<Body> {
    const MESSAGE: &str = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-31052,"message":"the gate stopped before the response; whether the call happened is unknown"}}"#;
    let mut response = Response::new(Body::complete(MESSAGE));
    *response.status_mut() = hyper::StatusCode::SERVICE_UNAVAILABLE;
    let json = hyper::header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(hyper::header::CONTENT_TYPE, json);
    response
}

struct ClientConnection {
    remote: Remote,
    _entry: ConnectionEntry,
    bounds: Arc<Bounds>,
    tls: Option<Tls>,
    clock: Clock,
    stop: watch::Receiver<bool>,
    on_bad: OnBadConnection,
    /// Requests being handled, on all connections.
    busy: Arc<AtomicUsize>,
    slot: OwnedSemaphorePermit,
}

/// Counts a request while it is being handled.
struct Busy<'c>(&'c AtomicUsize);

impl Busy<'_> {
    fn begin(count: &AtomicUsize) -> Busy<'_> {
        count.fetch_add(1, Ordering::Relaxed);
        Busy(count)
    }

    /// Whether it is the only one.
    fn was_only_one(self) -> bool {
        self.0.load(Ordering::Relaxed) == 1
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Handles the requests of one connection.
struct Handler<F> {
    answer: F,
    remote: Remote,
    busy_poll: BusyPollFlag,
    busy: Arc<AtomicUsize>,
    /// Whether to stop waiting for requests in flight.
    is_aborted: AtomicBool,
}

impl<F, R> Handler<F>
where
    F: Fn(Remote, Request<IncomingBody>) -> R,
    R: Future<Output = Response<Body>>,
{
    async fn answer(&self, request: Request<IncomingBody>) -> Response<Body> {
        let busy = Busy::begin(&self.busy);
        let _handling = self.remote.handling();
        // The flag is checked whenever the connection is polled.
        let mut handler = pin!((self.answer)(self.remote.clone(), request));
        let response = poll_fn(|context| match handler.as_mut().poll(context) {
            Poll::Pending if self.is_aborted.load(Ordering::Relaxed) => {
                Poll::Ready(shutdown_response())
            }
            other => other,
        });
        let response = response.await;
        if busy.was_only_one() {
            self.busy_poll.begin();
        }
        response
    }

    /// Handles a request that hyper parsed. A fast-path response exists if it was handled there.
    async fn answer_parsed(
        &self,
        request: Request<Incoming>,
        fast_path_response: Option<Response<Body>>,
        unread: Arc<AtomicBool>,
    ) -> hyper::Result<Response<Body>> {
        let Some(response) = fast_path_response else {
            let streamed = |body| IncomingBody::Streamed(StreamedBody::new(body, unread));
            return Ok(self.answer(request.map(streamed)).await);
        };
        // Its body is complete.
        request.into_body().collect().await?;
        Ok(response)
    }
}

impl ClientConnection {
    async fn run<F, R>(self, stream: TcpStream, answer: F)
    where
        F: Fn(Remote, Request<IncomingBody>) -> R + Clone + Send + Sync + 'static,
        R: Future<Output = Response<Body>> + Send + 'static,
    {
        // Disables Nagle's algorithm: small responses must not wait for a delayed ACK.
        let _ = stream.set_nodelay(true);
        let (busy_poll, bounds) = (BusyPollFlag::default(), Arc::clone(&self.bounds));
        let client_stream =
            |stream| client_stream::ClientStream::new(stream, &bounds, busy_poll.clone());
        let Some(tls) = self.tls.clone() else {
            return self.serve_http(client_stream(stream), busy_poll, answer).await;
        };
        let handshake = async {
            if tls::is_plain_http(&stream).await {
                return Err(stream);
            }
            Ok(tls.accept(client_stream(stream)).await)
        };
        match tokio::time::timeout(self.bounds.tls_handshake_wait_max, handshake).await {
            Ok(Ok(Ok(stream))) => self.serve_http(stream, busy_poll, answer).await,
            Ok(Err(stream)) => {
                let message = "this address needs TLS; use `https://`";
                let response = (self.on_bad)(&self.remote, 400, message);
                head_check::respond_and_drain(stream, response).await;
            }
            Ok(Ok(Err(_))) | Err(_) => {}
        }
    }

    /// Serves requests on the fast path and switches to hyper at the first one that needs it.
    async fn serve_http<S, F, R>(mut self, stream: S, busy_poll: BusyPollFlag, answer: F)
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
        F: Fn(Remote, Request<IncomingBody>) -> R + Clone + Send + Sync + 'static,
        R: Future<Output = Response<Body>> + Send + 'static,
    {
        let handler = Arc::new(Handler {
            answer,
            remote: self.remote.clone(),
            busy_poll,
            busy: Arc::clone(&self.busy),
            is_aborted: AtomicBool::new(false),
        });
        let (bounds, stopping) = (Arc::clone(&self.bounds), AtomicBool::new(false));
        let fast_path = FastPath::new(stream, &bounds, &stopping, Date::new(self.clock.clone()));
        let mut fast_path = pin!(fast_path.serve(|request| handler.answer(request)));
        let ended = if let Some(ended) = unless_stopped(fast_path.as_mut(), &mut self.stop).await {
            ended
        } else {
            stopping.store(true, Ordering::Relaxed);
            let drained = tokio::time::timeout(bounds.drain_wait_max, fast_path.as_mut());
            if let Ok(ended) = drained.await {
                ended
            } else {
                handler.is_aborted.store(true, Ordering::Relaxed);
                fast_path.await
            }
        };
        // Boxed, because most connections stay on the fast path.
        match ended {
            FastPathEnd::Closed => {}
            FastPathEnd::NeedsHyper(handed) => {
                Box::pin(self.serve_with_hyper(handed, Arc::clone(&handler))).await;
            }
        }
    }

    /// Serves the rest of a connection with hyper, which handles all of HTTP/1.
    async fn serve_with_hyper<S, F, R>(mut self, handed: HandOver<S>, handler: Arc<Handler<F>>)
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
        F: Fn(Remote, Request<IncomingBody>) -> R + Send + Sync + 'static,
        R: Future<Output = Response<Body>> + Send + 'static,
    {
        let all = Arc::clone(&handler);
        let first = Cell::new(handed.answer);
        let has_input = Arc::new(AtomicBool::new(true));
        let answered = Arc::clone(&has_input);
        let unread = Arc::new(AtomicBool::new(false));
        let linger = Linger::new(Arc::clone(&unread));
        let (bounds, input) = (Arc::clone(&self.bounds), Arc::clone(&has_input));
        let phase = SharedPhase::default();
        let stream =
            HeadFilter::new(handed.stream, handed.read, bounds, input, linger, phase.clone());
        let refused = stream.refused();
        let (on_bad, remote) = (Arc::clone(&self.on_bad), self.remote.clone());
        let service = service_fn(move |request: Request<Incoming>| {
            let (handler, first) = (Arc::clone(&handler), first.take());
            let (has_input, unread) = (Arc::clone(&answered), Arc::clone(&unread));
            let phase = phase.clone();
            // HTTP/1.0 clients do not know interim responses.
            let may_be_half_closed = request.version() == hyper::Version::HTTP_11;
            if may_be_half_closed {
                phase.set(Phase::Handling);
            }
            let fault = refused.fault(&request).map(|Fault(status, message)| {
                // The client may still be sending; drain that before closing.
                unread.store(true, Ordering::Relaxed);
                with_close(on_bad(&remote, status, message))
            });
            async move {
                let response = match fault {
                    Some(response) => response,
                    None => handler.answer_parsed(request, first, unread).await?,
                };
                has_input.store(false, Ordering::Relaxed);
                if may_be_half_closed {
                    phase.set(Phase::Responding);
                }
                Ok::<_, hyper::Error>(PhasedBody::wrap(response, phase))
            }
        });
        let connection = self.http1().serve_connection(TokioIo::new(stream), service);
        let mut connection = pin!(connection);
        let ended = unless_stopped(connection.as_mut(), &mut self.stop).await;
        let ended = if let Some(ended) = ended {
            ended
        } else {
            connection.as_mut().graceful_shutdown();
            let drained = tokio::time::timeout(self.bounds.drain_wait_max, connection.as_mut());
            if let Ok(ended) = drained.await {
                ended
            } else {
                all.is_aborted.store(true, Ordering::Relaxed);
                connection.await
            }
        };
        if let Err(error) = ended {
            self.record_timeout(&error, has_input.load(Ordering::Relaxed));
        }
        drop(self.slot);
    }

    fn http1(&self) -> hyper::server::conn::http1::Builder {
        let mut http1 = hyper::server::conn::http1::Builder::new();
        http1
            .timer(TokioTimer::new())
            .header_read_timeout(self.bounds.header_wait_max + SLOW_HEAD_ANSWER_WAIT)
            .max_headers(self.bounds.headers_max)
            .max_header_size(self.bounds.header_bytes_max)
            .max_buf_size(self.bounds.header_bytes_max + READ_BYTES);
        http1
    }

    /// hyper times out on a head that begins late on an idle connection, which is recorded. An idle
    /// connection that is closed without any bytes is not.
    fn record_timeout(&self, error: &hyper::Error, has_input: bool) {
        if error.is_timeout() && has_input {
            let Fault(status, message) = Fault::TOO_SLOW;
            (self.on_bad)(&self.remote, status, message);
        }
    }
}
