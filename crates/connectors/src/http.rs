//! The HTTP client of all services. A request goes only to a URL below a service's base, follows no
//! redirect, has a timeout, and does not appear in errors.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::HeaderMap;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use jiff::fmt::rfc2822;

mod base_url;
mod dial;
mod public_fetch;
mod request;
mod retry;

pub use base_url::BaseUrl;
pub(crate) use base_url::is_loopback;
pub use public_fetch::{PublicFetch, PublicFetchError};
pub use request::Request;
pub use retry::{FailureCounts, Retry};

use dial::Dialer;

/// Idle connections are closed after this time.
const IDLE_WAIT_MAX: Duration = Duration::from_secs(30);

/// The client. Clones share one connection pool.
#[derive(Clone)]
pub struct Http {
    client: Client<Dialer, Full<Bytes>>,
    is_loopback_only: bool,
}

/// A response with any status.
#[derive(Clone)]
pub struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// Why there is no response. Names only the host: no query, no token, no body.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HttpError {
    #[error("`{host}` did not answer within {seconds} seconds")]
    TimedOut { host: String, seconds: u64 },
    #[error("cannot connect to `{host}`: {why}")]
    Unreachable { host: String, why: String },
    #[error("the connection to `{host}` broke: {why}")]
    Lost { host: String, why: String },
    #[error("`{host}` sent more than {bytes_max} bytes")]
    TooLarge { host: String, bytes_max: usize },
    #[error("`{host}` allows no more requests for {seconds} seconds")]
    Limited { host: String, seconds: u64 },
    #[error(
        "this is the demo home; its accounts are made up, so `{host}` is not contacted\nhint: they answer while `up --demo` runs; leave out `--home` to use your own"
    )]
    Pretended { host: String },
    #[error(
        "the demo of this home is not running\nhint: start it with `tollgate up --demo`; leave out `--home` to use your own accounts"
    )]
    NotRunning,
}

impl Http {
    pub fn new() -> Http {
        Http::with_dialer(Dialer::default())
    }

    /// A client that refuses private addresses after it has resolved a name, for addresses that others name.
    pub fn to_public_addresses() -> Http {
        Http::with_dialer(Dialer::to_public_addresses())
    }

    /// A client that connects to this address for every https name. Certificates are checked for the name.
    pub fn connecting_to(address: SocketAddr) -> Http {
        Http::with_dialer(Dialer::to(address))
    }

    fn with_dialer(dialer: Dialer) -> Http {
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE_WAIT_MAX)
            .pool_timer(TokioTimer::new())
            .timer(TokioTimer::new())
            .build(dialer);
        Http { client, is_loopback_only: false }
    }

    /// The same client for loopback only: the tokens of the demo are made up.
    #[must_use]
    pub fn loopback_only(self) -> Http {
        Http { is_loopback_only: true, ..self }
    }

    /// Why a sign-in at this base is refused, if so: the demo signs in by itself, and its stand-ins
    /// do not know the owner.
    pub fn refusal(&self, base: &BaseUrl) -> Option<HttpError> {
        self.is_loopback_only.then(|| HttpError::Pretended { host: base.host() })
    }

    /// The same for a base that is not on this machine: the stand-ins of the demo are not running.
    pub(crate) fn refusal_elsewhere(&self, base: &BaseUrl) -> Option<HttpError> {
        self.refusal(base).filter(|_| !is_loopback(base.url()))
    }

    /// Sends a request once.
    pub async fn send(&self, request: Request) -> Result<Reply, HttpError> {
        let (host, wait_max) = (request.host(), request.wait_max);
        if self.is_loopback_only && !request.is_local() {
            return Err(HttpError::Pretended { host });
        }
        match tokio::time::timeout(wait_max, self.exchange(&host, request)).await {
            Ok(reply) => reply,
            Err(_) => Err(HttpError::TimedOut { host, seconds: wait_max.as_secs() }),
        }
    }

    async fn exchange(&self, host: &str, request: Request) -> Result<Reply, HttpError> {
        let bytes_max = request.reply_bytes_max;
        let lost = |why: String| HttpError::Lost { host: host.to_owned(), why };
        let request = request.into_hyper().map_err(lost)?;
        let reply = self.client.request(request).await.map_err(|error| {
            let why = cause(&error);
            let host = host.to_owned();
            if error.is_connect() && self.is_loopback_only {
                HttpError::NotRunning
            } else if error.is_connect() {
                HttpError::Unreachable { host, why }
            } else {
                HttpError::Lost { host, why }
            }
        })?;
        let (head, body) = reply.into_parts();
        let body = Limited::new(body, bytes_max).collect().await.map_err(|error| {
            let host = host.to_owned();
            if error.is::<LengthLimitError>() {
                HttpError::TooLarge { host, bytes_max }
            } else {
                HttpError::Lost { host, why: cause(error.as_ref()) }
            }
        })?;
        let (status, headers) = (head.status.as_u16(), head.headers);
        Ok(Reply { status, headers, body: body.to_bytes() })
    }
}

impl Default for Http {
    fn default() -> Http {
        Http::new()
    }
}

impl Reply {
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// A header as text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The pause that `Retry-After` or `X-RateLimit-Reset` requests.
    pub fn retry_after(&self) -> Option<Duration> {
        let seconds = |name: &str| self.header(name)?.trim().parse::<f64>().ok();
        if let Some(seconds) = seconds("retry-after") {
            return Duration::try_from_secs_f64(seconds).ok();
        }
        let until = self.until("retry-after");
        until.or_else(|| Duration::try_from_secs_f64(seconds("x-ratelimit-reset")?).ok())
    }

    /// The time until a header's timestamp, by the service's own clock.
    fn until(&self, name: &str) -> Option<Duration> {
        let moment = |name: &str| rfc2822::parse(self.header(name)?.trim()).ok();
        let seconds =
            moment(name)?.timestamp().as_second() - moment("date")?.timestamp().as_second();
        Some(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
    }
}

/// A body may hold the owner's data or a token, so it is not printed.
impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reply({}, {} bytes)", self.status, self.body.len())
    }
}

/// The innermost cause; the outer ones are not specific.
fn cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
