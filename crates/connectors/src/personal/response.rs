//! Converts a response of a service to a value or a problem. A service may interpret a status first;
//! the common rules are here.

use bytes::Bytes;
use serde_json::{Map, Value};

use super::problem::{Code, Problem};
use crate::fetch::FetchError;
use crate::http::{HttpError, Reply};
use crate::tokens::TokenError;
use crate::{ConnectorContext, Service};

/// The object of a successful response, or the problem that `read` makes of a failure.
pub(crate) fn json_of(
    service: &Service,
    reply: Result<Reply, FetchError>,
    read: impl FnOnce(&Reply, &Value) -> Option<Problem>,
) -> Result<Value, Problem> {
    let (status, body) = parts(service, reply, read)?;
    match serde_json::from_slice(&body) {
        Ok(found @ Value::Object(_)) => Ok(found),
        // An empty response is valid.
        _ if status == 204 => Ok(Value::Object(Map::new())),
        _ => Err(unreadable(service, status)),
    }
}

/// The same for a change, whose response may be empty.
pub(crate) fn done(
    service: &Service,
    reply: Result<Reply, FetchError>,
    read: impl FnOnce(&Reply, &Value) -> Option<Problem>,
) -> Result<(), Problem> {
    let (status, body) = parts(service, reply, read)?;
    // An HTML page comes from a proxy, not from the service.
    let is_page = body.first() == Some(&b'<');
    if is_page { Err(unreadable(service, status)) } else { Ok(()) }
}

fn parts(
    service: &Service,
    reply: Result<Reply, FetchError>,
    read: impl FnOnce(&Reply, &Value) -> Option<Problem>,
) -> Result<(u16, Bytes), Problem> {
    let reply = reply.map_err(|error| from_fetch(service, &error))?;
    if reply.is_success() {
        return Ok((reply.status, reply.body));
    }
    // A plain-text refusal is read like one in JSON.
    let body = serde_json::from_slice(&reply.body).unwrap_or_else(|_| {
        let text = String::from_utf8_lossy(&reply.body);
        if text.trim_start().starts_with('<') { Value::Null } else { Value::from(text.trim()) }
    });
    Err(read(&reply, &body).unwrap_or_else(|| usual(service, &reply)))
}

/// The meaning of an error status at any service.
pub(crate) fn usual(service: &Service, reply: &Reply) -> Problem {
    let name = service.name;
    let title = service.title;
    let problem = match reply.status {
        401 => Problem::new(
            Code::AuthExpired,
            name,
            format!("{title} does not accept the login"),
            format!("run `tollgate connect {name}` to sign in again"),
        ),
        403 => Problem::new(
            Code::RestrictedResource,
            name,
            format!("{title} does not give this to your application"),
            "request data of your own account instead",
        ),
        404 => Problem::new(
            Code::NotFound,
            name,
            format!("{title} does not know that id"),
            "check the id; it may have been removed",
        ),
        429 => limited(service, reply.retry_after().map(|wait| wait.as_secs().max(1))),
        400..500 => Problem::new(
            Code::InvalidArgument,
            name,
            format!("{title} rejected the request as invalid"),
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
            "could not read the stored login",
            "run `tollgate doctor`, then call again",
        ),
        FetchError::SignIn(TokenError::UnknownClient { .. }) => unknown_client(service),
        FetchError::SignIn(TokenError::Outage { .. }) => Problem::new(
            Code::UpstreamError,
            name,
            format!("the login at {} cannot be refreshed now; it is kept", service.title),
            "call again in a minute; `tollgate accounts` shows the login's status",
        ),
        FetchError::Http(HttpError::TooLarge { .. }) => Problem::new(
            Code::UpstreamError,
            name,
            format!("the response of {} is too large", service.title),
            "request fewer items",
        ),
        FetchError::Http(error @ (HttpError::NotRunning | HttpError::Pretended { .. })) => {
            of_demo(service, error)
        }
        FetchError::Http(_) => unavailable(service),
    }
}

/// In the home of a demo that is not running: a later call does not help.
pub(super) fn of_demo(service: &Service, error: &HttpError) -> Problem {
    let words = error.to_string();
    let (message, hint) = words.split_once("\nhint: ").unwrap_or((&words, ""));
    Problem::new(Code::NotConfigured, service.name, message, hint)
}

/// The service does not know the application any more.
fn unknown_client(service: &Service) -> Problem {
    if let Some(problem) = review_required(service) {
        return problem;
    }
    let name = service.name;
    Problem::new(
        Code::of_ended_login(service),
        name,
        format!("{} does not know the application's id and secret", service.title),
        format!("check the application there, then run `tollgate connect {name}`"),
    )
}

/// At a service that reviews applications, the application must be approved first.
pub(super) fn review_required(service: &Service) -> Option<Problem> {
    let review = service.account?.review?;
    Some(Problem::new(Code::ApprovalRequired, service.name, review.message, review.hint))
}

/// The consent has expired or was revoked.
fn ended(service: &Service) -> Problem {
    let days = service.account.and_then(|account| account.consent_days_max);
    let message = match days {
        Some(days) => format!(
            "the consent at {} has ended; consents there last {days} days however often they are used",
            service.title
        ),
        None => format!("the consent at {} has ended or was revoked", service.title),
    };
    let hint = format!(
        "run `tollgate connect {0}` in a terminal, or call setup_{0}_oauth, to sign in again",
        service.name
    );
    Problem::new(Code::of_ended_login(service), service.name, message, hint)
}

/// Names the missing permissions, if known.
pub(crate) fn with_scopes(ctx: &ConnectorContext, service: &Service, problem: Problem) -> Problem {
    let Some(account) = service.account.filter(|_| problem.code == Code::InsufficientScope) else {
        return problem;
    };
    let facts = ctx.accounts.summary(service.name).ok().flatten();
    let granted = facts.map(|facts| facts.scopes).unwrap_or_default();
    let is_missing = |scope: &&&str| !granted.iter().any(|one| one == **scope);
    let missing: Vec<&str> = account.scopes.iter().filter(is_missing).copied().collect();
    if missing.is_empty() {
        return problem;
    }
    let message = format!("the login lacks a permission for this; missing: {}", missing.join(" "));
    Problem { message, ..problem }
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
        format!("{} cannot be reached or is failing", service.title),
        "call again in a minute",
    )
}

fn unreadable(service: &Service, status: u16) -> Problem {
    Problem::new(
        Code::UpstreamError,
        service.name,
        format!("could not read the response of {}", service.title),
        "call again in a minute",
    )
    .status(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_transport_error_is_a_problem_without_an_address() {
        let host = || "secret.example".to_owned();
        for (error, code) in [
            (HttpError::TimedOut { host: host(), seconds: 30 }, Code::UpstreamError),
            (HttpError::Unreachable { host: host(), why: "no".to_owned() }, Code::UpstreamError),
            (HttpError::Lost { host: host(), why: "cut".to_owned() }, Code::UpstreamError),
            (HttpError::TooLarge { host: host(), bytes_max: 1 }, Code::UpstreamError),
        ] {
            for connector in crate::ALL.iter().filter(|one| one.account().is_some()) {
                let problem = from_fetch(connector.service, &FetchError::Http(error.clone()));
                assert_eq!(problem.code, code, "{error}");
                assert!(!problem.envelope().to_string().contains("secret.example"), "{error}");
            }
        }
    }
}
