//! Requests to Spotify, and the meaning of its errors. Spotify decides per client id which paths an
//! application may use, so this is learned from the responses.

use hyper::Method;
use serde_json::Value;

use super::{NAME, SERVICE};
use crate::ConnectorContext;
use crate::fetch::{self, ApiRequest, WaitPolicy};
use crate::http::Reply;
use crate::personal::{Code, Problem, done, json_of, with_scopes};

pub(super) async fn get(
    ctx: &ConnectorContext,
    segments: &[&str],
    query: &[(&str, &str)],
) -> Result<Value, Problem> {
    get_with(ctx, segments, query, WaitPolicy::SOON).await
}

pub(super) async fn get_with(
    ctx: &ConnectorContext,
    segments: &[&str],
    query: &[(&str, &str)],
    wait: WaitPolicy,
) -> Result<Value, Problem> {
    let reply = fetch::get(ctx, &SERVICE, segments, query, wait).await;
    let value = json_of(&SERVICE, reply, refusal);
    let mut value = value.map_err(|problem| with_scopes(ctx, &SERVICE, problem))?;
    leave_out_markets(&mut value);
    Ok(value)
}

pub(super) async fn send(
    ctx: &ConnectorContext,
    method: &Method,
    segments: &[&str],
    query: &[(&str, &str)],
    json: Option<&Value>,
) -> Result<(), Problem> {
    let question = ApiRequest { method, segments, query, json };
    let reply = fetch::ask(ctx, &SERVICE, question, WaitPolicy::SOON).await;
    done(&SERVICE, reply, refusal).map_err(|problem| with_scopes(ctx, &SERVICE, problem))
}

/// Most of Spotify's errors differ only in their text.
pub(super) fn refusal(reply: &Reply, body: &Value) -> Option<Problem> {
    if reply.status != 403 {
        return None;
    }
    let summary = [body.pointer("/error/message"), body.get("error"), Some(body)];
    let text = summary.into_iter().flatten().find_map(Value::as_str).unwrap_or_default();
    let text = text.to_ascii_lowercase();
    let (code, message, hint) = if text.contains("premium") {
        (
            Code::PremiumRequired,
            "Spotify serves an application only while its owner has Premium",
            "renew Premium for the account that owns the app in the developer dashboard",
        )
    } else if text.contains("registered") || text.contains("dashboard") {
        (
            Code::UserNotAllowlisted,
            "this account is not among the users of your application",
            "add it under User Management at https://developer.spotify.com/dashboard (five at most)",
        )
    } else if text.contains("scope") {
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

/// Does the error concern the path or the item, not the login or the application?
pub(super) fn is_path_error(problem: &Problem) -> bool {
    matches!(problem.code, Code::RestrictedResource | Code::NotFound)
}

/// The error for an API that Spotify removed in Development Mode.
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

/// Each track lists two hundred countries; remove them.
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
