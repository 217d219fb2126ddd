//! Waits on this machine for the browser to come back. Anything but the exact address of this sign-in
//! is answered 404 and disturbs nothing.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use store::secret::Secret;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use url::{Host, Url};

use super::SignInError;
use super::code::Attempt;

const HEADER_WAIT_MAX: Duration = Duration::from_secs(10);
const HEADER_BYTES_MAX: usize = 32 << 10;

/// The open ports of one sign-in.
pub struct Listener {
    listeners: Vec<TcpListener>,
}

type Found = Result<Secret, SignInError>;

impl Listener {
    /// Opens the port of the redirect address, on this machine only.
    pub async fn open(attempt: &Attempt) -> Result<Option<Listener>, SignInError> {
        let Some(port) = attempt.redirect.port() else { return Ok(None) };
        let mut listeners = Vec::new();
        let mut refused = None;
        for address in addresses(attempt.redirect.url(), port) {
            match TcpListener::bind(address).await {
                Ok(listener) => listeners.push(listener),
                Err(error) => refused = Some(error),
            }
        }
        match refused {
            // One of the two loopbacks is enough where the machine has only one, but not where
            // somebody else sits on the other: the browser might go there with the code.
            Some(error)
                if listeners.is_empty() || error.kind() == std::io::ErrorKind::AddrInUse =>
            {
                Err(SignInError::Port { port, why: error.to_string() })
            }
            _ => Ok(Some(Listener { listeners })),
        }
    }

    /// The code, as soon as the browser brings it.
    pub async fn code(self, attempt: Arc<Attempt>) -> Found {
        let (found, mut finds) = mpsc::channel(1);
        let mut tasks = tokio::task::JoinSet::new();
        for listener in self.listeners {
            tasks.spawn(accept(listener, Arc::clone(&attempt), found.clone()));
        }
        let outcome = finds.recv().await.unwrap_or(Err(SignInError::NotOurs));
        // The page that tells the owner is still on its way to the browser.
        tokio::time::sleep(Duration::from_millis(200)).await;
        outcome
    }
}

fn addresses(url: &Url, port: u16) -> Vec<SocketAddr> {
    let v4 = SocketAddr::from(([127, 0, 0, 1], port));
    let v6 = SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], port));
    match url.host() {
        Some(Host::Ipv4(address)) => vec![SocketAddr::from((address, port))],
        Some(Host::Ipv6(address)) => vec![SocketAddr::from((address, port))],
        // A browser takes either for `localhost`.
        _ => vec![v4, v6],
    }
}

async fn accept(listener: TcpListener, attempt: Arc<Attempt>, found: mpsc::Sender<Found>) {
    let mut connections = tokio::task::JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                connections.spawn(converse(stream, Arc::clone(&attempt), found.clone()));
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn converse(stream: TcpStream, attempt: Arc<Attempt>, found: mpsc::Sender<Found>) {
    let service = service_fn(|request| {
        let (attempt, found) = (Arc::clone(&attempt), found.clone());
        async move { Ok::<_, Infallible>(answer(&request, &attempt, &found)) }
    });
    // A browser that hangs up half-way is no concern of ours.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_WAIT_MAX)
        .max_buf_size(HEADER_BYTES_MAX)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

fn answer(
    request: &Request<Incoming>,
    attempt: &Attempt,
    found: &mpsc::Sender<Found>,
) -> Response<Full<Bytes>> {
    let back =
        attempt.redirect.url().join(request.uri().path_and_query().map_or("/", |p| p.as_str()));
    let outcome = match back {
        Ok(back) if request.method() == Method::GET => attempt.code_from(&back),
        _ => Err(SignInError::NotOurs),
    };
    let (status, words) = match &outcome {
        Ok(_) => (StatusCode::OK, "You are back. tollgate has what it needs; close this window."),
        Err(SignInError::NotOurs) => (StatusCode::NOT_FOUND, "Nothing here."),
        Err(_) => (StatusCode::BAD_REQUEST, "That did not work. The terminal says why."),
    };
    if status != StatusCode::NOT_FOUND {
        // A second one comes too late; the first is being worked on.
        let _ = found.try_send(outcome);
    }
    page(status, words)
}

fn page(status: StatusCode, words: &str) -> Response<Full<Bytes>> {
    let html = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>tollgate</title><p>{words}</p></html>\n"
    );
    let mut response = Response::new(Full::new(Bytes::from(html)));
    *response.status_mut() = status;
    for (name, value) in [
        ("content-type", "text/html; charset=utf-8"),
        ("cache-control", "no-store"),
        ("referrer-policy", "no-referrer"),
        ("content-security-policy", "default-src 'none'"),
        ("x-content-type-options", "nosniff"),
    ] {
        response.headers_mut().insert(name, hyper::header::HeaderValue::from_static(value));
    }
    response
}
