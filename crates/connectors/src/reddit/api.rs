//! Asks Reddit, and reads what its refusals mean.

use hyper::Method;
use serde_json::Value;

use super::{NAME, SERVICE};
use crate::Desk;
use crate::fetch::{self, Patience, Question};
use crate::http::Reply;
use crate::personal::{Code, Problem, field, json_of, remember_owner, with_scopes};

/// `scope` is the permission it takes.
pub(super) async fn read(
    desk: &Desk,
    segments: &[&str],
    query: &[(&str, &str)],
    scope: &str,
) -> Result<Value, Problem> {
    read_with(desk, segments, query, scope, Patience::SOON).await
}

/// For a sync, which waits longer than a conversation.
pub(super) async fn get_with(
    desk: &Desk,
    segments: &[&str],
    query: &[(&str, &str)],
    patience: Patience,
) -> Result<Value, Problem> {
    read_with(desk, segments, query, "history", patience).await
}

async fn read_with(
    desk: &Desk,
    segments: &[&str],
    query: &[(&str, &str)],
    scope: &str,
    patience: Patience,
) -> Result<Value, Problem> {
    let question = Question { method: &Method::GET, segments, query, json: None };
    let reply = fetch::ask(desk, &SERVICE, question, patience).await;
    json_of(&SERVICE, reply, |reply, body| refusal(desk, scope, reply, body))
        .map_err(|problem| explained(desk, with_scopes(desk, &SERVICE, problem)))
}

pub(super) fn unreadable() -> Problem {
    Problem::new(
        Code::UpstreamError,
        NAME,
        "Reddit answered with something that cannot be read",
        "call again in a minute",
    )
}

/// Without an application nothing can be connected, and Reddit gives none without approval.
pub(super) fn explained(desk: &Desk, problem: Problem) -> Problem {
    let is_of_client = problem.message.contains("`invalid_client`");
    if is_of_client || (problem.code == Code::NotConfigured && !has_client(desk)) {
        return approval_required();
    }
    problem
}

pub(super) fn has_client(desk: &Desk) -> bool {
    let set = desk.settings.of(&SERVICE).is_some_and(|settings| settings.client_id.is_some());
    set || desk.accounts.facts(NAME).ok().flatten().is_some_and(|facts| facts.client_id.is_some())
}

pub(crate) fn approval_required() -> Problem {
    Problem::new(
        Code::ApprovalRequired,
        NAME,
        "Reddit does not know the application; since November 2025 it gives none without approval",
        "ask Reddit for approval (https://support.reddithelp.com, Responsible Builder Policy), then run `tollgate connect reddit`; your own data can also be requested at https://www.reddit.com/settings/data-request",
    )
}

/// Was this permission asked for and not given? A login that does not say what it may is not judged.
fn lacks(desk: &Desk, scope: &str) -> bool {
    let facts = desk.accounts.facts(NAME).ok().flatten();
    let granted = facts.map(|facts| facts.scopes).unwrap_or_default();
    !granted.is_empty() && !granted.iter().any(|one| one == scope || one == "*")
}

fn refusal(desk: &Desk, scope: &str, reply: &Reply, body: &Value) -> Option<Problem> {
    if reply.status != 403 {
        return None;
    }
    let challenge = reply.header("www-authenticate").unwrap_or_default();
    let is_of_scope = challenge.contains("insufficient_scope") || lacks(desk, scope);
    let (code, message, hint) = if is_of_scope {
        (
            Code::InsufficientScope,
            "the login lacks a permission for this",
            "run `tollgate connect reddit` again; it asks for every scope the tools need",
        )
    } else if body.is_object() {
        (
            Code::RestrictedResource,
            "Reddit shows this to its owner only",
            "leave `username` out to read your own",
        )
    } else {
        (
            Code::RestrictedResource,
            "Reddit blocks requests from this network",
            "try again from another network; Reddit blocks some providers altogether",
        )
    };
    Some(Problem::new(code, NAME, message, hint).status(reply.status))
}

/// The owner's name.
pub(super) async fn own_name(desk: &Desk) -> Result<String, Problem> {
    named(desk, &me(desk).await?)
}

/// The owner's account as Reddit has it.
pub(super) async fn me(desk: &Desk) -> Result<Value, Problem> {
    let me = read(desk, &["api", "v1", "me"], &[("raw_json", "1")], "identity").await?;
    named(desk, &me)?;
    Ok(me)
}

/// The name in it, which requests carry from then on.
fn named(desk: &Desk, me: &Value) -> Result<String, Problem> {
    let name = field::word(me, "/name").ok_or_else(|| {
        Problem::new(
            Code::UpstreamError,
            NAME,
            "Reddit did not say whose account this is",
            "call again in a minute, or give `username`",
        )
    })?;
    remember_owner(desk, &SERVICE, &name);
    Ok(name)
}
