//! Asks Spotify, and reads what its refusals mean. Which paths an application may use is learned from
//! the answers, because Spotify decides it for each client id.

use hyper::Method;
use serde_json::Value;

use super::{NAME, SERVICE};
use crate::Desk;
use crate::fetch::{self, Patience, Question};
use crate::http::Reply;
use crate::personal::{Code, Problem, done, json_of, with_scopes};

pub(super) async fn get(
    desk: &Desk,
    segments: &[&str],
    query: &[(&str, &str)],
) -> Result<Value, Problem> {
    get_with(desk, segments, query, Patience::SOON).await
}

pub(super) async fn get_with(
    desk: &Desk,
    segments: &[&str],
    query: &[(&str, &str)],
    patience: Patience,
) -> Result<Value, Problem> {
    let reply = fetch::get(desk, &SERVICE, segments, query, patience).await;
    let value = json_of(&SERVICE, reply, refusal);
    let mut value = value.map_err(|problem| with_scopes(desk, &SERVICE, problem))?;
    leave_out_markets(&mut value);
    Ok(value)
}

pub(super) async fn send(
    desk: &Desk,
    method: &Method,
    segments: &[&str],
    query: &[(&str, &str)],
    json: Option<&Value>,
) -> Result<(), Problem> {
    let question = Question { method, segments, query, json };
    let reply = fetch::ask(desk, &SERVICE, question, Patience::SOON).await;
    done(&SERVICE, reply, refusal).map_err(|problem| with_scopes(desk, &SERVICE, problem))
}

/// Spotify tells most of its reasons apart only by their words.
pub(super) fn refusal(reply: &Reply, body: &Value) -> Option<Problem> {
    if reply.status != 403 {
        return None;
    }
    let said = [body.pointer("/error/message"), body.get("error"), Some(body)];
    let words = said.into_iter().flatten().find_map(Value::as_str).unwrap_or_default();
    let words = words.to_ascii_lowercase();
    let (code, message, hint) = if words.contains("premium") {
        (
            Code::PremiumRequired,
            "Spotify serves an application only while its owner has Premium",
            "renew Premium for the account that owns the app in the developer dashboard",
        )
    } else if words.contains("registered") || words.contains("dashboard") {
        (
            Code::UserNotAllowlisted,
            "this account is not among the users of your application",
            "add it under User Management at https://developer.spotify.com/dashboard (five at most)",
        )
    } else if words.contains("scope") {
        (
            Code::InsufficientScope,
            "the login lacks a permission for this",
            "run `tollgate connect spotify` again; it asks for every scope the tools need",
        )
    } else {
        return None;
    };
    Some(Problem::new(code, NAME, message, hint).status(reply.status))
}

/// Is the refusal one of the path or the thing itself, and not of the login or the application?
pub(super) fn is_of_path(problem: &Problem) -> bool {
    matches!(problem.code, Code::RestrictedResource | Code::NotFound)
}

/// What an application in Development Mode does not get any more.
pub(super) fn removed(what: &str, instead: &str) -> Problem {
    Problem::new(
        Code::RemovedByUpstream,
        NAME,
        format!(
            "Spotify removed {what} for applications in Development Mode in February 2026; only extended-quota applications have it"
        ),
        instead,
    )
    .status(403)
}

/// Lists of two hundred countries in each track tell the owner nothing.
fn leave_out_markets(value: &mut Value) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(leave_out_markets),
        Value::Object(object) => {
            object.shift_remove("available_markets");
            object.values_mut().for_each(leave_out_markets);
        }
        _ => {}
    }
}
