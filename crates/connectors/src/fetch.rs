//! One authorised request to a service: its token, its rate limiter, its retries. Every connector
//! sends through here, so a stale token is refreshed once and all requests share one limit.

use std::time::Duration;

use hyper::Method;
use serde_json::Value;

use crate::http::{FailureCounts, HttpError, Reply, Request, Retry};
use crate::rate_limit::{SharedPause, TableUse};
use crate::tokens::{self, TokenError};
use crate::{ConnectorContext, Service};

/// How long a request may wait and retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitPolicy {
    /// The longest requested pause to wait for; a longer one fails at once.
    pub wait_max: Duration,
    pub retry: Retry,
    pub table: TableUse,
}

impl WaitPolicy {
    /// A person or an agent waits for the response.
    pub const BRIEF: WaitPolicy = WaitPolicy {
        wait_max: Duration::from_mins(1),
        retry: Retry {
            limited_max: 1,
            fault_max: 3,
            lost_max: 2,
            slow_max: 0,
            first_wait_ms: 1_000,
            wait_ms_max: 60_000,
        },
        table: TableUse::Enforced,
    };
    /// An agent has its own timeout, often half a minute: a longer wait is reported as an error,
    /// with its length.
    pub const SOON: WaitPolicy = WaitPolicy {
        wait_max: Duration::from_secs(8),
        retry: Retry {
            limited_max: 1,
            fault_max: 2,
            lost_max: 2,
            slow_max: 0,
            first_wait_ms: 500,
            wait_ms_max: 8_000,
        },
        table: TableUse::Enforced,
    };
    /// The same for a service that sends its limits in headers.
    pub const PROMPT: WaitPolicy = WaitPolicy { table: TableUse::CountsOnly, ..WaitPolicy::BRIEF };
    /// A sync waits for the rate limit, and a shared limit does not end it: without a header its
    /// back-offs together exceed a minute. It runs in the background, so it also retries after a
    /// timeout.
    pub const SYNC: WaitPolicy = WaitPolicy {
        wait_max: Duration::from_mins(15),
        retry: Retry {
            limited_max: 6,
            slow_max: 2,
            wait_ms_max: 15 * 60_000,
            ..WaitPolicy::BRIEF.retry
        },
        table: TableUse::KeepsReserve,
    };
}

/// Why there is no response.
#[derive(Clone, Debug, thiserror::Error)]
pub enum FetchError {
    #[error(transparent)]
    SignIn(#[from] TokenError),
    #[error(transparent)]
    Http(#[from] HttpError),
    #[error("`{service}` allows no more requests for {seconds} seconds")]
    Limited { service: &'static str, seconds: u64 },
}

/// A request at a path below the service's base.
#[derive(Clone, Copy)]
pub struct ApiRequest<'a> {
    pub method: &'a Method,
    pub segments: &'a [&'a str],
    pub query: &'a [(&'a str, &'a str)],
    pub json: Option<&'a Value>,
}

/// Gets a path below the service's base. Returns the last response with any status.
pub async fn get(
    ctx: &ConnectorContext,
    service: &'static Service,
    segments: &[&str],
    query: &[(&str, &str)],
    wait: WaitPolicy,
) -> Result<Reply, FetchError> {
    let question = ApiRequest { method: &Method::GET, segments, query, json: None };
    ask(ctx, service, question, wait).await
}

/// Sends a request with the owner's token. Returns the last response with any status.
pub async fn ask(
    ctx: &ConnectorContext,
    service: &'static Service,
    question: ApiRequest<'_>,
    wait: WaitPolicy,
) -> Result<Reply, FetchError> {
    let request = request(ctx, service, question)?;
    let mut token = match tokens::access(ctx, service).await {
        Ok(token) => token,
        Err(error @ TokenError::NotConnected { .. }) => {
            // A token from the environment cannot be refreshed.
            let lent = ctx.settings.of(service).and_then(|settings| settings.access.as_ref());
            let Some(lent) = lent else { return Err(error.into()) };
            return send(ctx, service, request.bearer(lent), wait).await;
        }
        Err(error) => return Err(error.into()),
    };
    let reply = send(ctx, service, request.clone().bearer(&token), wait).await?;
    if reply.status != 401 {
        return Ok(reply);
    }
    token = tokens::after_401(ctx, service, &token).await?;
    let reply = send(ctx, service, request.bearer(&token), wait).await?;
    if reply.status != 401 {
        tokens::taken(ctx, service);
    }
    Ok(reply)
}

/// The HTTP request, without credentials.
pub fn request(
    ctx: &ConnectorContext,
    service: &'static Service,
    question: ApiRequest<'_>,
) -> Result<Request, FetchError> {
    let (Some(_), Some(settings)) = (service.account, ctx.settings.of(service)) else {
        return Err(TokenError::NotConnected { service: service.name.to_owned() }.into());
    };
    // Before a token is refreshed: that would fail for the same reason, in other words.
    if let Some(refusal) = ctx.http.refusal_elsewhere(&settings.api_base) {
        return Err(refusal.into());
    }
    let mut request = Request::new(question.method.clone(), &settings.api_base, question.segments)
        .header("user-agent", &ctx.user_agent(service));
    for (name, value) in question.query {
        request = request.query(name, value);
    }
    Ok(match question.json {
        Some(body) => request.json(body),
        None => request,
    })
}

/// Sends a request with the service's rate limiter and retries.
pub async fn send(
    ctx: &ConnectorContext,
    service: &'static Service,
    request: Request,
    wait: WaitPolicy,
) -> Result<Reply, FetchError> {
    let limits = service.account.map_or(&[][..], |account| account.limits);
    let client = ctx.settings.of(service).and_then(|settings| settings.client_id.as_deref());
    let limiter = ctx.rate_limiters.of(service.name, client.unwrap_or_default(), limits, || {
        Some(SharedPause::new(ctx.accounts.back_off(service.name).ok()?))
    });
    ctx.note_use(service);
    let mut tally = FailureCounts::default();
    loop {
        let turn = limiter.turn(&ctx.clock, wait.wait_max, wait.table).await;
        turn.map_err(|wait| FetchError::Limited {
            service: service.name,
            seconds: wait.as_secs().max(1),
        })?;
        let outcome = ctx.http.send(request.clone()).await;
        if let Ok(reply) = &outcome {
            limiter.learn(&ctx.clock, reply);
        }
        match wait.retry.pause(&mut tally, request.is_repeatable(), &outcome) {
            Some(pause) => {
                log_retry(service, &outcome, pause);
                tokio::time::sleep(pause).await;
            }
            None => return Ok(outcome?),
        }
    }
}

/// Does not log the URL, which is private to the owner.
fn log_retry(service: &Service, outcome: &Result<Reply, HttpError>, pause: Duration) {
    let pause_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
    match outcome {
        Ok(Reply { status, .. }) => {
            tracing::info!(service = service.name, status, pause_ms, "retrying a request");
        }
        Err(error) => {
            tracing::info!(service = service.name, %error, pause_ms, "retrying a request");
        }
    }
}
