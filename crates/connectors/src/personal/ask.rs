//! From an answer of a service to a value or a problem. What every service has in common is here;
//! what a status means at one of them is said by that one first.

use serde_json::Value;

use super::problem::{Code, Problem};
use crate::Service;
use crate::fetch::FetchError;
use crate::http::{HttpError, Reply};
use crate::tokens::TokenError;

/// The value of a good answer, or what `read` says of a bad one.
pub(crate) fn json_of(
    service: &Service,
    reply: Result<Reply, FetchError>,
    read: impl FnOnce(&Reply, &Value) -> Option<Problem>,
) -> Result<Value, Problem> {
    let reply = reply.map_err(|error| from_fetch(service, &error))?;
    let body: Option<Value> = serde_json::from_slice(&reply.body).ok();
    if reply.is_success() {
        if reply.body.is_empty() {
            return Ok(Value::Null);
        }
        return body.ok_or_else(|| unreadable(service, reply.status));
    }
    let body = body.unwrap_or(Value::Null);
    Err(read(&reply, &body).unwrap_or_else(|| usual(service, &reply)))
}

/// What a bad status means at any service.
pub(crate) fn usual(service: &Service, reply: &Reply) -> Problem {
    let name = service.name;
    let title = service.title;
    let problem = match reply.status {
        401 => Problem::new(
            Code::of_ended_login(name),
            name,
            format!("{title} does not accept the login"),
            format!("run `tollgate connect {name}` to sign in again"),
        ),
        403 => Problem::new(
            Code::RestrictedResource,
            name,
            format!("{title} does not give this to your application"),
            "ask for something of your own account instead",
        ),
        404 => Problem::new(
            Code::NotFound,
            name,
            format!("{title} knows nothing of that id"),
            "check the id; it may have been removed",
        ),
        429 => limited(service, reply.wait_asked().map(|wait| wait.as_secs().max(1))),
        400..500 => Problem::new(
            Code::InvalidArgument,
            name,
            format!("{title} did not understand the request"),
            "check the arguments against the tool's description",
        ),
        _ => unavailable(service),
    };
    problem.status(reply.status)
}

pub(crate) fn from_fetch(service: &Service, error: &FetchError) -> Problem {
    let name = service.name;
    match error {
        FetchError::SignIn(TokenError::NotConnected { .. }) => Problem::new(
            Code::NotConfigured,
            name,
            format!("{} is not connected", service.title),
            format!("run `tollgate connect {name}` in a terminal"),
        ),
        FetchError::SignIn(TokenError::Dead { .. }) => ended(service),
        FetchError::Limited { seconds, .. } => limited(service, Some(*seconds)),
        FetchError::SignIn(TokenError::Store(_)) => Problem::new(
            Code::UpstreamError,
            name,
            "the kept login cannot be read now",
            "run `tollgate doctor`, then call again",
        ),
        FetchError::SignIn(TokenError::Outage { words, .. })
            if words.contains("`invalid_client`") =>
        {
            unknown_client(service)
        }
        FetchError::SignIn(TokenError::Outage { .. }) => Problem::new(
            Code::UpstreamError,
            name,
            format!("the login at {} cannot be refreshed now; it is kept", service.title),
            "call again in a minute; `tollgate accounts` shows how the login stands",
        ),
        FetchError::Http(HttpError::TooLarge { .. }) => Problem::new(
            Code::UpstreamError,
            name,
            format!("the answer of {} is too large", service.title),
            "ask for fewer at once",
        ),
        FetchError::Http(_) => unavailable(service),
    }
}

/// The service does not know the application any more.
fn unknown_client(service: &Service) -> Problem {
    if service.name == crate::reddit::NAME {
        return crate::reddit::approval_required();
    }
    let name = service.name;
    Problem::new(
        Code::of_ended_login(name),
        name,
        format!("{} does not know the application's id and secret", service.title),
        format!("look at the application there, then run `tollgate connect {name}`"),
    )
}

/// The consent is over: it ran out, or was taken back.
fn ended(service: &Service) -> Problem {
    let days = service.account.and_then(|account| account.consent_days_max);
    let message = match days {
        Some(days) => format!(
            "the consent at {} has ended; consents there last {days} days however often they are used",
            service.title
        ),
        None => format!("the consent at {} has ended or was taken back", service.title),
    };
    let hint = format!("run `tollgate connect {}` to sign in again", service.name);
    Problem::new(Code::of_ended_login(service.name), service.name, message, hint)
}

fn limited(service: &Service, seconds: Option<u64>) -> Problem {
    let hint = match seconds {
        Some(seconds) => format!("call again in {seconds} seconds"),
        None => "call again in a minute".to_owned(),
    };
    let message = format!("{} allows no more requests for now", service.title);
    Problem::new(Code::RateLimited, service.name, message, hint).retry_after(seconds)
}

fn unavailable(service: &Service) -> Problem {
    Problem::new(
        Code::UpstreamError,
        service.name,
        format!("{} cannot be reached or is in trouble", service.title),
        "call again in a minute",
    )
}

fn unreadable(service: &Service, status: u16) -> Problem {
    Problem::new(
        Code::UpstreamError,
        service.name,
        format!("{} answered with something that cannot be read", service.title),
        "call again in a minute",
    )
    .status(status)
}
