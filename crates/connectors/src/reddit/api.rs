//! Requests to Reddit, and the meaning of its errors.

use hyper::Method;
use serde_json::Value;

use super::account::REVIEW;
use super::{NAME, SERVICE};
use crate::ConnectorContext;
use crate::fetch::{self, ApiRequest, WaitPolicy};
use crate::http::Reply;
use crate::personal::{Code, Problem, field, json_of, with_scopes};

/// `scope` is the OAuth scope that the request needs.
pub(super) async fn read(
    ctx: &ConnectorContext,
    segments: &[&str],
    query: &[(&str, &str)],
    scope: &str,
) -> Result<Value, Problem> {
    read_with(ctx, segments, query, scope, WaitPolicy::SOON).await
}

/// For a sync, which waits longer than a tool call.
pub(super) async fn get_with(
    ctx: &ConnectorContext,
    segments: &[&str],
    query: &[(&str, &str)],
    wait: WaitPolicy,
) -> Result<Value, Problem> {
    read_with(ctx, segments, query, "history", wait).await
}

async fn read_with(
    ctx: &ConnectorContext,
    segments: &[&str],
    query: &[(&str, &str)],
    scope: &str,
    wait: WaitPolicy,
) -> Result<Value, Problem> {
    let question = ApiRequest { method: &Method::GET, segments, query, json: None };
    let reply = fetch::ask(ctx, &SERVICE, question, wait).await;
    json_of(&SERVICE, reply, |reply, body| refusal(ctx, scope, reply, body))
        .map_err(|problem| explained(ctx, with_scopes(ctx, &SERVICE, problem)))
}

pub(super) fn unreadable() -> Problem {
    Problem::new(
        Code::UpstreamError,
        NAME,
        "could not read Reddit's response",
        "call again in a minute",
    )
}

/// Fails unless an application is configured; Reddit gives none without approval.
pub(super) fn explained(ctx: &ConnectorContext, problem: Problem) -> Problem {
    if problem.code == Code::NotConfigured && !has_client(ctx) {
        return approval_required();
    }
    problem
}

pub(super) fn has_client(ctx: &ConnectorContext) -> bool {
    let set = ctx.settings.of(&SERVICE).is_some_and(|settings| settings.client_id.is_some());
    set || ctx.accounts.summary(NAME).ok().flatten().is_some_and(|facts| facts.client_id.is_some())
}

pub(crate) fn approval_required() -> Problem {
    Problem::new(Code::ApprovalRequired, NAME, REVIEW.message, REVIEW.hint)
}

/// Was this scope requested and not granted? False for a login without a list of scopes.
fn lacks(ctx: &ConnectorContext, scope: &str) -> bool {
    let facts = ctx.accounts.summary(NAME).ok().flatten();
    let granted = facts.map(|facts| facts.scopes).unwrap_or_default();
    !granted.is_empty() && !granted.iter().any(|one| one == scope || one == "*")
}

fn refusal(ctx: &ConnectorContext, scope: &str, reply: &Reply, body: &Value) -> Option<Problem> {
    if reply.status != 403 {
        return None;
    }
    let challenge = reply.header("www-authenticate").unwrap_or_default();
    let is_of_scope = challenge.contains("insufficient_scope") || lacks(ctx, scope);
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
pub(super) async fn own_name(ctx: &ConnectorContext) -> Result<String, Problem> {
    named(ctx, &me(ctx).await?)
}

/// The owner's account as Reddit returns it.
pub(super) async fn me(ctx: &ConnectorContext) -> Result<Value, Problem> {
    let me = read(ctx, &["api", "v1", "me"], &[("raw_json", "1")], "identity").await?;
    named(ctx, &me)?;
    Ok(me)
}

/// The account's name, used in the user agent from then on.
fn named(ctx: &ConnectorContext, me: &Value) -> Result<String, Problem> {
    let name = field::word(me, "/name").ok_or_else(|| {
        Problem::new(
            Code::UpstreamError,
            NAME,
            "Reddit did not say whose account this is",
            "call again in a minute, or give `username`",
        )
    })?;
    ctx.set_owner_name(&SERVICE, &name);
    Ok(name)
}
