//! The loopback server that receives the redirect. A request for anything but the exact redirect URL
//! of this sign-in gets 404 and has no effect.

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
use super::code::{Attempt, Redirect};

const HEADER_WAIT_MAX: Duration = Duration::from_secs(10);
const HEADER_BYTES_MAX: usize = 32 << 10;

/// The open ports of one sign-in.
pub struct Listener {
    listeners: Vec<TcpListener>,
}

type RedirectResult<T> = Result<T, SignInError>;
/// Reads a redirect: `NotOurs` has no effect, anything else ends the wait.
type ReadRedirect<T> = Arc<dyn Fn(&Url) -> RedirectResult<T> + Send + Sync>;

impl Listener {
    /// Opens the port of the redirect URL, on loopback only.
    pub async fn open(redirect: &Redirect) -> Result<Option<Listener>, SignInError> {
        let Some(port) = redirect.port() else { return Ok(None) };
        let mut listeners = Vec::new();
        let mut refused = None;
        for address in addresses(redirect.url(), port) {
            match TcpListener::bind(address).await {
                Ok(listener) => listeners.push(listener),
                Err(error) => refused = Some(error),
            }
        }
        match refused {
            // One loopback address is enough if the machine has only one, but not if another
            // process uses the other: the browser might take the code there.
            Some(error)
                if listeners.is_empty() || error.kind() == std::io::ErrorKind::AddrInUse =>
            {
                Err(SignInError::Port { port, why: error.to_string() })
            }
            _ => Ok(Some(Listener { listeners })),
        }
    }

    /// The code, once the browser delivers it.
    pub async fn code(self, attempt: Arc<Attempt>) -> RedirectResult<Secret> {
        let redirect = attempt.redirect.clone();
        self.wait(redirect, Arc::new(move |back: &Url| attempt.code_from(back))).await
    }

    /// What `read` takes from the redirect, once the browser delivers it.
    pub async fn wait<T: Send + 'static>(
        self,
        redirect: Redirect,
        read: ReadRedirect<T>,
    ) -> RedirectResult<T> {
        let (found, mut finds) = mpsc::channel(1);
        let mut tasks = tokio::task::JoinSet::new();
        for listener in self.listeners {
            tasks.spawn(accept(listener, redirect.clone(), Arc::clone(&read), found.clone()));
        }
        let outcome = finds.recv().await.unwrap_or(Err(SignInError::NotOurs));
        // The response page is still being sent to the browser.
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
        // A browser resolves `localhost` to either.
        _ => vec![v4, v6],
    }
}

async fn accept<T: Send + 'static>(
    listener: TcpListener,
    redirect: Redirect,
    read: ReadRedirect<T>,
    found: mpsc::Sender<RedirectResult<T>>,
) {
    let mut connections = tokio::task::JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let (redirect, read) = (redirect.clone(), Arc::clone(&read));
                connections.spawn(serve_connection(stream, redirect, read, found.clone()));
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn serve_connection<T: Send + 'static>(
    stream: TcpStream,
    redirect: Redirect,
    read: ReadRedirect<T>,
    found: mpsc::Sender<RedirectResult<T>>,
) {
    let service = service_fn(|request| {
        let (redirect, read, found) = (redirect.clone(), Arc::clone(&read), found.clone());
        async move { Ok::<_, Infallible>(answer(&request, &redirect, &read, &found)) }
    });
    // A browser that closes the connection early is not an error.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_WAIT_MAX)
        .max_buf_size(HEADER_BYTES_MAX)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

fn answer<T>(
    request: &Request<Incoming>,
    redirect: &Redirect,
    read: &ReadRedirect<T>,
    found: &mpsc::Sender<RedirectResult<T>>,
) -> Response<Full<Bytes>> {
    let back = redirect.url().join(request.uri().path_and_query().map_or("/", |p| p.as_str()));
    let outcome = match back {
        Ok(back) if request.method() == Method::GET && redirect.is_at(&back) => read(&back),
        _ => Err(SignInError::NotOurs),
    };
    let (status, message) = match &outcome {
        Ok(_) => (StatusCode::OK, "You are back. tollgate has what it needs; close this window."),
        Err(SignInError::NotOurs) => (StatusCode::NOT_FOUND, "Nothing here."),
        Err(_) => (StatusCode::BAD_REQUEST, "That did not work. The terminal says why."),
    };
    if status != StatusCode::NOT_FOUND {
        // Only the first redirect counts.
        let _ = found.try_send(outcome);
    }
    page(status, message)
}

fn page(status: StatusCode, message: &str) -> Response<Full<Bytes>> {
    let html = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>tollgate</title><p>{message}</p></html>\n"
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
