//! One authorised question to a service: its token, its pace, its retries. Every connector asks
//! through here, so a stale token is refreshed once and a limit is kept by all together.

use std::time::Duration;

use hyper::Method;
use serde_json::Value;

use crate::http::{HttpError, Reply, Request, Retry, Tally};
use crate::pace::{Door, Table};
use crate::tokens::{self, TokenError};
use crate::{Desk, Service};

/// How long a question may take before it is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// A pause that the service asks for is kept up to this long, and not begun when it is longer.
    pub wait_max: Duration,
    pub retry: Retry,
    pub table: Table,
}

impl Patience {
    /// A person or an agent waits for the answer.
    pub const BRIEF: Patience = Patience {
        wait_max: Duration::from_mins(1),
        retry: Retry {
            limited_max: 1,
            fault_max: 3,
            lost_max: 2,
            slow_max: 0,
            first_wait_ms: 1_000,
            wait_ms_max: 60_000,
        },
        table: Table::Holds,
    };
    /// An agent has its own patience, and often none beyond half a minute: what does not work soon
    /// is said, with how long to wait.
    pub const SOON: Patience = Patience {
        wait_max: Duration::from_secs(8),
        retry: Retry {
            limited_max: 1,
            fault_max: 2,
            lost_max: 2,
            slow_max: 0,
            first_wait_ms: 500,
            wait_ms_max: 8_000,
        },
        table: Table::Holds,
    };
    /// The same where the service counts for itself and says so.
    pub const PROMPT: Patience = Patience { table: Table::Counts, ..Patience::BRIEF };
    /// A sync waits for its turn, and is not ended by a limit that many share: without a word from
    /// the service its pauses together outlast a minute. Nobody waits for it, so it also asks again for
    /// what did not come in time.
    pub const SYNC: Patience = Patience {
        wait_max: Duration::from_mins(15),
        retry: Retry {
            limited_max: 6,
            slow_max: 2,
            wait_ms_max: 15 * 60_000,
            ..Patience::BRIEF.retry
        },
        table: Table::Yields,
    };
}

/// Why there is no answer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum FetchError {
    #[error(transparent)]
    SignIn(#[from] TokenError),
    #[error(transparent)]
    Http(#[from] HttpError),
    #[error("`{service}` allows no more requests for {seconds} seconds")]
    Limited { service: &'static str, seconds: u64 },
}

/// What is asked of a service, at a path below its base.
#[derive(Clone, Copy)]
pub struct Question<'a> {
    pub method: &'a Method,
    pub segments: &'a [&'a str],
    pub query: &'a [(&'a str, &'a str)],
    pub json: Option<&'a Value>,
}

/// Gets a path below the service's base. What comes back is the last answer, whatever its status.
pub async fn get(
    desk: &Desk,
    service: &'static Service,
    segments: &[&str],
    query: &[(&str, &str)],
    patience: Patience,
) -> Result<Reply, FetchError> {
    let question = Question { method: &Method::GET, segments, query, json: None };
    ask(desk, service, question, patience).await
}

/// Asks in the owner's name. What comes back is the last answer, whatever its status.
pub async fn ask(
    desk: &Desk,
    service: &'static Service,
    question: Question<'_>,
    patience: Patience,
) -> Result<Reply, FetchError> {
    let request = request(desk, service, question)?;
    let mut token = match tokens::access(desk, service).await {
        Ok(token) => token,
        Err(error @ TokenError::NotConnected { .. }) => {
            // A token from the environment serves as long as it lasts; nothing refreshes it.
            let lent = desk.settings.of(service).and_then(|settings| settings.access.as_ref());
            let Some(lent) = lent else { return Err(error.into()) };
            return send(desk, service, request.bearer(lent), patience).await;
        }
        Err(error) => return Err(error.into()),
    };
    let reply = send(desk, service, request.clone().bearer(&token), patience).await?;
    if reply.status != 401 {
        return Ok(reply);
    }
    token = tokens::after_401(desk, service, &token).await?;
    let reply = send(desk, service, request.bearer(&token), patience).await?;
    if reply.status != 401 {
        tokens::taken(desk, service);
    }
    Ok(reply)
}

/// The request that puts a question, still without anybody's name on it.
pub fn request(
    desk: &Desk,
    service: &'static Service,
    question: Question<'_>,
) -> Result<Request, FetchError> {
    let (Some(_), Some(settings)) = (service.account, desk.settings.of(service)) else {
        return Err(TokenError::NotConnected { service: service.name.to_owned() }.into());
    };
    let mut request = Request::new(question.method.clone(), &settings.api_base, question.segments)
        .header("user-agent", &desk.user_agent(service));
    for (name, value) in question.query {
        request = request.query(name, value);
    }
    Ok(match question.json {
        Some(body) => request.json(body),
        None => request,
    })
}

/// Sends a request at the service's pace and with its retries.
pub async fn send(
    desk: &Desk,
    service: &'static Service,
    request: Request,
    patience: Patience,
) -> Result<Reply, FetchError> {
    let limits = service.account.map_or(&[][..], |account| account.limits);
    let client = desk.settings.of(service).and_then(|settings| settings.client_id.as_deref());
    let pace = desk.paces.of(service.name, client.unwrap_or_default(), limits, || {
        Some(Door::new(desk.accounts.sign(service.name).ok()?))
    });
    desk.note_use(service);
    let mut tally = Tally::default();
    loop {
        let turn = pace.turn(&desk.clock, patience.wait_max, patience.table).await;
        turn.map_err(|wait| FetchError::Limited {
            service: service.name,
            seconds: wait.as_secs().max(1),
        })?;
        let outcome = desk.http.send(request.clone()).await;
        if let Ok(reply) = &outcome {
            pace.learn(&desk.clock, reply);
        }
        match patience.retry.pause(&mut tally, request.is_repeatable(), &outcome) {
            Some(pause) => {
                log_retry(service, &outcome, pause);
                tokio::time::sleep(pause).await;
            }
            None => return Ok(outcome?),
        }
    }
}

/// The address is left out: what was asked for is nobody's business but the owner's.
fn log_retry(service: &Service, outcome: &Result<Reply, HttpError>, pause: Duration) {
    let pause_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
    match outcome {
        Ok(Reply { status, .. }) => {
            tracing::info!(service = service.name, status, pause_ms, "asking again");
        }
        Err(error) => tracing::info!(service = service.name, %error, pause_ms, "asking again"),
    }
}
