//! Requests to Bilibili with the owner's cookies, only where no signature is needed. A failure is a
//! code in a 200 response.

use hyper::Method;
use serde_json::{Value, json};
use store::secret::Secret;

use super::{NAME, SERVICE};
use crate::ConnectorContext;
use crate::fetch::{self, ApiRequest, WaitPolicy};
use crate::http::Reply;
use crate::personal::{Code, Problem, field, from_fetch, json_of, value};

const REFERER: &str = "https://www.bilibili.com";

/// The `data` member of a successful response.
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
    let question = ApiRequest { method: &Method::GET, segments, query, json: None };
    let request = fetch::request(ctx, &SERVICE, question);
    let mut request = request.map_err(|error| from_fetch(&SERVICE, &error))?;
    request = request.header("referer", REFERER);
    if let Some(cookies) = cookies(ctx) {
        request = request.header("cookie", cookies.expose());
    }
    let reply = fetch::send(ctx, &SERVICE, request, wait).await;
    let mut body = json_of(&SERVICE, reply, refused)?;
    match field::int(&body, "/code") {
        Some(0) => match body.get_mut("data").map(Value::take) {
            Some(data @ Value::Object(_)) => Ok(data),
            // An empty list is null there.
            Some(Value::Null) | None => Ok(json!({})),
            _ => Err(unreadable()),
        },
        Some(code) => Err(problem(code)),
        None => Err(unreadable()),
    }
}

/// Fails unless cookies are configured.
pub(super) fn signed_in(ctx: &ConnectorContext) -> Result<(), Problem> {
    match value(ctx, &SERVICE, "SESSDATA") {
        Some(_) => Ok(()),
        None => Err(Problem::new(
            Code::NotConfigured,
            NAME,
            "Bilibili is not connected: there are no cookies",
            "run `tollgate connect bilibili` in a terminal, or set `BILIBILI_SESSDATA` and `BILIBILI_BILI_JCT`",
        )),
    }
}

fn cookies(ctx: &ConnectorContext) -> Option<Secret> {
    let mut pairs = String::new();
    for name in ["SESSDATA", "bili_jct", "buvid3"] {
        let Some(value) = value(ctx, &SERVICE, name) else { continue };
        if !pairs.is_empty() {
            pairs.push_str("; ");
        }
        pairs.push_str(name);
        pairs.push('=');
        // Browsers show it escaped or plain; a cookie cannot contain a comma.
        pairs.push_str(&value.expose().replace(',', "%2C"));
    }
    (!pairs.is_empty()).then(|| Secret::new(pairs))
}

/// A code in the body takes precedence over the status.
fn refused(reply: &Reply, body: &Value) -> Option<Problem> {
    // A rate-limited request may be answered by a proxy that sends no codes.
    if reply.status == 429 {
        return None;
    }
    let usual = (reply.status == 412).then_some(-412);
    let code = field::int(body, "/code").filter(|code| *code != 0).or(usual)?;
    (reply.status < 500).then(|| problem(code).status(reply.status))
}

fn problem(code: i64) -> Problem {
    let (kind, message, hint) = match code {
        -101 => (
            Code::AuthExpired,
            "Bilibili does not accept the cookies",
            "sign in at Bilibili in a browser again, then run `tollgate connect bilibili`",
        ),
        -352 | -403 => (
            Code::RestrictedResource,
            "Bilibili refused the request as automated",
            "call again later, and not often; a fresh buvid3 cookie can help",
        ),
        -412 | -799 => (
            Code::RateLimited,
            "Bilibili allows no more requests for now",
            "wait ten minutes before the next call",
        ),
        22_007 => (
            Code::RestrictedResource,
            "Bilibili shows only five pages of other users' followings",
            "request a page from 1 to 5",
        ),
        22_115 | 62_002 | 62_004 => {
            (Code::PrivateProfile, "its owner keeps this private", "request something else")
        }
        -404 => (
            Code::NotFound,
            "Bilibili does not know that id",
            "check the id; it may have been removed",
        ),
        -400 => (
            Code::InvalidArgument,
            "Bilibili rejected the request as invalid",
            "check the arguments against the tool's description",
        ),
        _ => return unreadable(),
    };
    Problem::new(kind, NAME, message, hint)
}

pub(super) fn unreadable() -> Problem {
    Problem::new(
        Code::UpstreamError,
        NAME,
        "could not read Bilibili's response",
        "call again in a minute",
    )
}

/// Bilibili answers this only to signed requests; tollgate does not sign.
pub(super) fn unsupported(what: &str, instead: &str) -> Problem {
    Problem::new(
        Code::UnsupportedUpstream,
        NAME,
        format!(
            "Bilibili answers {what} only to its own pages, which sign their requests; tollgate does not imitate them"
        ),
        instead,
    )
}
