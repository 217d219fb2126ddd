//! The one HTTP client of all services. A request goes to an address made from a service's base and
//! nowhere else, follows no redirect, ends in bounded time, and leaves no trace of itself in errors.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::HeaderMap;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use jiff::fmt::rfc2822;

mod dial;
mod request;
mod retry;

pub use request::Request;
pub use retry::{Retry, Tally};

use crate::settings::Base;
use dial::Dialer;

/// A connection that nobody used for so long is closed.
const IDLE_WAIT_MAX: Duration = Duration::from_secs(30);

/// The client. Copies share one pool of connections.
#[derive(Clone)]
pub struct Http {
    client: Client<Dialer, Full<Bytes>>,
    stays_here: bool,
}

/// What a service answered, whatever the status.
#[derive(Clone)]
pub struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// Why there is no answer. Names the host and nothing of the request: no query, no token, no body.
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
        "the demonstration that this home belongs to is not running\nhint: `tollgate up --demo` starts it; another `--home`, or none, has your own accounts"
    )]
    NotRunning,
}

impl Http {
    pub fn new() -> Http {
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE_WAIT_MAX)
            .pool_timer(TokioTimer::new())
            .timer(TokioTimer::new())
            .build(Dialer::default());
        Http { client, stays_here: false }
    }

    /// The same that asks nobody but this machine: for a demonstration, whose tokens are nobody's.
    #[must_use]
    pub fn staying_here(self) -> Http {
        Http { stays_here: true, ..self }
    }

    /// Why nobody can sign in at a place, if so: a demonstration signs in by itself, and its sandboxes
    /// do not know the owner.
    pub fn refusal(&self, base: &Base) -> Option<HttpError> {
        self.stays_here.then(|| HttpError::Pretended { host: base.host() })
    }

    /// Sends a request once.
    pub async fn send(&self, request: Request) -> Result<Reply, HttpError> {
        let (host, wait_max) = (request.host(), request.wait_max);
        if self.stays_here && !request.is_local() {
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
            if error.is_connect() && self.stays_here {
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

    /// How long the service asks us to stay away, by `Retry-After` or `X-RateLimit-Reset`.
    pub fn wait_asked(&self) -> Option<Duration> {
        let seconds = |name: &str| self.header(name)?.trim().parse::<f64>().ok();
        if let Some(seconds) = seconds("retry-after") {
            return Duration::try_from_secs_f64(seconds).ok();
        }
        let until = self.until("retry-after");
        until.or_else(|| Duration::try_from_secs_f64(seconds("x-ratelimit-reset")?).ok())
    }

    /// How long it is until the moment a header names, by the service's own clock.
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

/// The innermost reason; the layers above it say that something failed somewhere.
fn cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
