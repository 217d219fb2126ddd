//! The listener: accepts connections, bounds them, and hands each request to the door.
//! Nothing here knows MCP.

mod body;
mod date;
mod fault;
mod gather;
mod guard;
mod half;
mod heads;
mod lanes;
mod linger;
mod plain;
mod strangers;
mod stream;
#[cfg(test)]
mod tests;
mod tls;

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
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

pub(crate) use body::{Arriving, Body, Feed};
pub(crate) use gather::{Gathered, Ungathered, gather, reserve};
pub(crate) use guard::AllowedHosts;
pub(crate) use lanes::Lanes;
pub(crate) use strangers::Remote;
pub use tls::{Tls, TlsError, Validity};

use crate::bounds::Bounds;
use body::Coming;
use date::Date;
use fault::Fault;
use half::{Spoken, Talk, Turn};
use heads::Heads;
use linger::Linger;
use plain::{Ended, HandedOver, Plain};
use strangers::{Stranger, Strangers};
use stream::Looks;

/// What is read at once beyond the largest head. A connection keeps as much while it is open, and a
/// quicker client gains nothing from more.
const READ_BYTES: usize = 8 * 1024;

/// After the drain bound, what is in flight is given up and its clients have so long to hear of it.
const GIVE_UP_WAIT_MAX: Duration = Duration::from_millis(300);

/// hyper drops a slow head without a word, so it waits for so long until that was answered.
const SLOW_HEAD_ANSWER_WAIT: Duration = Duration::from_secs(1);

/// Clients without a place that may shake hands over TLS to hear so, and how long that may take.
const TURNING_AWAY_MAX: usize = 64;
const TURN_AWAY_WAIT_MAX: Duration = Duration::from_secs(2);

/// A connection that makes room for another has so long to be gone.
const ROOM_WAIT_MAX: Duration = Duration::from_millis(100);

/// Is told of connections that never became a request: from where, which status they got, and why.
pub(crate) type OnBroken = Arc<dyn Fn(&Remote, u16, &'static str) -> Response<Body> + Send + Sync>;

/// Where the listener may stand.
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
    /// Binds, or says why not: an address beyond loopback needs TLS.
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

    /// Serves until `stop` turns true, then lets what is in flight finish within the drain bound.
    /// What never became a request is told to `broken`.
    pub(crate) async fn serve<F, R>(
        self,
        lanes: &Lanes,
        clock: Clock,
        answer: F,
        broken: OnBroken,
        mut stop: watch::Receiver<bool>,
    ) where
        F: Fn(Remote, Request<Arriving>) -> R + Clone + Send + Sync + 'static,
        R: Future<Output = Response<Body>> + Send + 'static,
    {
        let places = Arc::new(Semaphore::new(self.bounds.connections_max));
        let busy = Arc::new(AtomicUsize::new(0));
        let turning_away = Arc::new(Semaphore::new(TURNING_AWAY_MAX));
        let strangers = Strangers::new(self.bounds.connections_per_grant_max);
        loop {
            let accepted = tokio::select! {
                accepted = self.socket.accept() => accepted,
                () = turned_true(&mut stop) => break,
            };
            let Ok((stream, address)) = accepted else {
                // Out of file descriptors, most likely: wait for some to be given back.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let remote = strangers.remote(address);
            let Some(place) = place(&places, &strangers, &broken).await else {
                let words = "more connections are open than `connections_max`";
                let response = broken(&remote, 503, words);
                self.turn_away(stream, response, &turning_away);
                continue;
            };
            let stranger = strangers.enter(remote.clone());
            let number = stranger.number();
            let connection = Connection {
                remote,
                _stranger: stranger,
                bounds: Arc::clone(&self.bounds),
                tls: self.tls.clone(),
                clock: clock.clone(),
                stop: stop.clone(),
                broken: Arc::clone(&broken),
                busy: Arc::clone(&busy),
                place,
            };
            let answer = answer.clone();
            let carried = lanes.carry(stream, move |stream| connection.run(stream, answer));
            if let Some(end) = carried.ok().flatten() {
                strangers.is_ended_by(number, end);
            }
        }
        let everyone = u32::try_from(self.bounds.connections_max).unwrap_or(u32::MAX);
        let wait_max = self.bounds.drain_wait_max + GIVE_UP_WAIT_MAX;
        let _ = tokio::time::timeout(wait_max, places.acquire_many(everyone)).await;
    }
}

impl Listener {
    /// Answers a connection that there is no place for, in the language that its client speaks.
    fn turn_away(&self, stream: TcpStream, response: Response<Body>, places: &Arc<Semaphore>) {
        let Some(tls) = self.tls.clone() else {
            tokio::spawn(fault::answer_at_once(stream, response));
            return;
        };
        // Beyond that many the connection is only closed: a handshake costs more than saying no.
        if let Ok(place) = Arc::clone(places).try_acquire_owned() {
            tokio::spawn(async move {
                let _place = place;
                let shaken = tokio::time::timeout(TURN_AWAY_WAIT_MAX, tls.accept(stream)).await;
                if let Ok(Ok(stream)) = shaken {
                    fault::answer_at_once(stream, response).await;
                }
            });
        }
    }
}

/// A place for one more connection: a free one, or that of a connection on which nobody has shown a grant, or
/// of an idle one of the grant that has most.
async fn place(
    places: &Arc<Semaphore>,
    strangers: &Strangers,
    broken: &OnBroken,
) -> Option<OwnedSemaphorePermit> {
    if let Ok(place) = Arc::clone(places).try_acquire_owned() {
        return Some(place);
    }
    let ended = strangers.end_one()?;
    let words = "it made room for another, because `connections_max` were open, and no grant was shown on it or its grant has most of them";
    broken(&ended, 503, words);
    let freed = tokio::time::timeout(ROOM_WAIT_MAX, Arc::clone(places).acquire_owned()).await;
    freed.ok()?.ok()
}

/// Waits for a flag without holding on to it.
pub(crate) async fn turned_true(flag: &mut watch::Receiver<bool>) {
    // A sender that is gone will never say more; it stands for the same.
    let _ = flag.wait_for(|value| *value).await;
}

/// What `work` comes to, or nothing when the flag turns true first. One task drives `work` from its
/// beginning to its end, so its place among those who hear of the flag is taken once, not with every
/// look at `work`.
pub(crate) async fn unless_stopped<W: Future>(
    mut work: Pin<&mut W>,
    stop: &mut watch::Receiver<bool>,
) -> Option<W::Output> {
    let turns = stop.clone();
    let mut stopped = pin!(turned_true(stop));
    let mut listens = false;
    poll_fn(move |context| {
        if let Poll::Ready(done) = work.as_mut().poll(context) {
            return Poll::Ready(Some(done));
        }
        if listens && !turns.has_changed().unwrap_or(true) {
            return Poll::Pending;
        }
        listens = true;
        stopped.as_mut().poll(context).map(|()| None)
    })
    .await
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

/// An answer behind which the connection ends.
fn closing(mut response: Response<Body>) -> Response<Body> {
    let close = hyper::header::HeaderValue::from_static("close");
    response.headers_mut().insert(hyper::header::CONNECTION, close);
    response
}

/// What a client hears whose request was still under way when the gate had to end.
fn stopped() -> Response<Body> {
    const WORDS: &str = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-31052,"message":"the gate stopped before the answer came; whether the call happened is unknown"}}"#;
    let mut response = Response::new(Body::whole(WORDS));
    *response.status_mut() = hyper::StatusCode::SERVICE_UNAVAILABLE;
    let json = hyper::header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(hyper::header::CONTENT_TYPE, json);
    response
}

struct Connection {
    remote: Remote,
    _stranger: Stranger,
    bounds: Arc<Bounds>,
    tls: Option<Tls>,
    clock: Clock,
    stop: watch::Receiver<bool>,
    broken: OnBroken,
    /// Requests that are being answered, on all connections.
    busy: Arc<AtomicUsize>,
    place: OwnedSemaphorePermit,
}

/// A request that is being answered, counted.
struct Busy<'c>(&'c AtomicUsize);

impl Busy<'_> {
    fn begin(count: &AtomicUsize) -> Busy<'_> {
        count.fetch_add(1, Ordering::Relaxed);
        Busy(count)
    }

    /// Whether no other is.
    fn end_alone(self) -> bool {
        self.0.load(Ordering::Relaxed) == 1
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What answers the requests of one connection.
struct Answering<F> {
    answer: F,
    remote: Remote,
    looks: Looks,
    busy: Arc<AtomicUsize>,
    /// What is under way is not waited for any longer.
    given_up: AtomicBool,
}

impl<F, R> Answering<F>
where
    F: Fn(Remote, Request<Arriving>) -> R,
    R: Future<Output = Response<Body>>,
{
    async fn answer(&self, request: Request<Arriving>) -> Response<Body> {
        let busy = Busy::begin(&self.busy);
        let _answered = self.remote.answering();
        // The connection looks here again whenever it is driven, also to be given up.
        let mut answering = pin!((self.answer)(self.remote.clone(), request));
        let response = poll_fn(|context| match answering.as_mut().poll(context) {
            Poll::Pending if self.given_up.load(Ordering::Relaxed) => Poll::Ready(stopped()),
            other => other,
        });
        let response = response.await;
        if busy.end_alone() {
            self.looks.begin();
        }
        response
    }
}

impl Connection {
    async fn run<F, R>(self, stream: TcpStream, answer: F)
    where
        F: Fn(Remote, Request<Arriving>) -> R + Clone + Send + Sync + 'static,
        R: Future<Output = Response<Body>> + Send + 'static,
    {
        // Small answers must not wait for the peer's delayed acknowledgement.
        let _ = stream.set_nodelay(true);
        let (looks, write_wait_max) = (Looks::default(), self.bounds.write_wait_max);
        let patient = |stream| stream::Patient::new(stream, write_wait_max, looks.clone());
        let Some(tls) = self.tls.clone() else {
            return self.speak(patient(stream), looks, answer).await;
        };
        let shake_hands = async {
            if tls::begins_with_a_letter(&stream).await {
                return Err(stream);
            }
            Ok(tls.accept(patient(stream)).await)
        };
        match tokio::time::timeout(self.bounds.tls_handshake_wait_max, shake_hands).await {
            Ok(Ok(Ok(stream))) => self.speak(stream, looks, answer).await,
            Ok(Err(stream)) => {
                let words = "this address speaks TLS; write `https://` in front of it";
                let response = (self.broken)(&self.remote, 400, words);
                fault::answer(stream, response).await;
            }
            Ok(Ok(Err(_))) | Err(_) => {}
        }
    }

    /// Answers requests as long as they are plain, and lets hyper go on when one is not.
    async fn speak<S, F, R>(mut self, stream: S, looks: Looks, answer: F)
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
        F: Fn(Remote, Request<Arriving>) -> R + Clone + Send + Sync + 'static,
        R: Future<Output = Response<Body>> + Send + 'static,
    {
        let answering = Arc::new(Answering {
            answer,
            remote: self.remote.clone(),
            looks,
            busy: Arc::clone(&self.busy),
            given_up: AtomicBool::new(false),
        });
        let (bounds, stopping) = (Arc::clone(&self.bounds), AtomicBool::new(false));
        let plain = Plain::new(stream, &bounds, &stopping, Date::new(self.clock.clone()));
        let mut plain = pin!(plain.serve(|request| answering.answer(request)));
        let ended = if let Some(ended) = unless_stopped(plain.as_mut(), &mut self.stop).await {
            ended
        } else {
            stopping.store(true, Ordering::Relaxed);
            let drained = tokio::time::timeout(bounds.drain_wait_max, plain.as_mut());
            if let Ok(ended) = drained.await {
                ended
            } else {
                answering.given_up.store(true, Ordering::Relaxed);
                plain.await
            }
        };
        // Boxed, because most conversations stay plain.
        match ended {
            Ended::Closed => {}
            Ended::NotPlain(handed) => {
                Box::pin(self.speak_on(handed, Arc::clone(&answering))).await;
            }
        }
    }

    /// The rest of a conversation, which may hold anything that HTTP has.
    async fn speak_on<S, F, R>(mut self, handed: HandedOver<S>, answering: Arc<Answering<F>>)
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
        F: Fn(Remote, Request<Arriving>) -> R + Send + Sync + 'static,
        R: Future<Output = Response<Body>> + Send + 'static,
    {
        let all = Arc::clone(&answering);
        let first = Cell::new(handed.answer);
        let heard = Arc::new(AtomicBool::new(true));
        let answered = Arc::clone(&heard);
        let left = Arc::new(AtomicBool::new(false));
        let linger = Linger::new(Arc::clone(&left));
        let (bounds, heard_now) = (Arc::clone(&self.bounds), Arc::clone(&heard));
        let talk = Talk::default();
        let stream =
            Heads::new(handed.stream, handed.read, bounds, heard_now, linger, talk.clone());
        let refused = stream.refused();
        let (broken, remote) = (Arc::clone(&self.broken), self.remote.clone());
        let service = service_fn(move |request: Request<Incoming>| {
            let (answering, first) = (Arc::clone(&answering), first.take());
            let (heard, left) = (Arc::clone(&answered), Arc::clone(&left));
            let talk = talk.clone();
            // Older clients know no interim answer.
            let may_be_half_closed = request.version() == hyper::Version::HTTP_11;
            if may_be_half_closed {
                talk.turns(Turn::Answering);
            }
            let fault = refused.fault(&request).map(|Fault(status, words)| {
                // The client may still be sending what nobody will read.
                left.store(true, Ordering::Relaxed);
                closing(broken(&remote, status, words))
            });
            async move {
                let response = if let Some(response) = fault {
                    response
                } else if let Some(first) = first {
                    // It was carried out already, and all of it is there.
                    request.into_body().collect().await?;
                    first
                } else {
                    let coming = |body| Arriving::Coming(Coming::new(body, left));
                    answering.answer(request.map(coming)).await
                };
                heard.store(false, Ordering::Relaxed);
                if may_be_half_closed {
                    talk.turns(Turn::Speaking);
                }
                Ok::<_, hyper::Error>(Spoken::answer(response, talk))
            }
        });
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.bounds.header_wait_max + SLOW_HEAD_ANSWER_WAIT)
            .max_headers(self.bounds.headers_max)
            .max_header_size(self.bounds.header_bytes_max)
            .max_buf_size(self.bounds.header_bytes_max + READ_BYTES)
            .serve_connection(TokioIo::new(stream), service);
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
                all.given_up.store(true, Ordering::Relaxed);
                connection.await
            }
        };
        if let Err(error) = ended {
            self.tell_broken(&error, heard.load(Ordering::Relaxed));
        }
        drop(self.place);
    }

    /// A head that hyper gave up, because its client had rested for long before it began, is a row, too. A
    /// connection that was only kept open, and closed because nothing was heard, is none.
    fn tell_broken(&self, error: &hyper::Error, heard: bool) {
        if error.is_timeout() && heard {
            let Fault(status, words) = Fault::TOO_SLOW;
            (self.broken)(&self.remote, status, words);
        }
    }
}
