//! Asks Bilibili with the cookies the owner brought. Only what needs no signature is asked for; a
//! failure is a code in a sound answer.

use hyper::Method;
use serde_json::{Value, json};
use store::secret::Secret;

use super::{NAME, SERVICE};
use crate::Desk;
use crate::fetch::{self, Patience, Question};
use crate::http::Reply;
use crate::personal::{Code, Problem, field, from_fetch, json_of, value};

const REFERER: &str = "https://www.bilibili.com";

/// The `data` of a good answer.
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
    let question = Question { method: &Method::GET, segments, query, json: None };
    let request = fetch::request(desk, &SERVICE, question);
    let mut request = request.map_err(|error| from_fetch(&SERVICE, &error))?;
    request = request.header("referer", REFERER);
    if let Some(cookies) = cookies(desk) {
        request = request.header("cookie", cookies.expose());
    }
    let reply = fetch::send(desk, &SERVICE, request, patience).await;
    let mut body = json_of(&SERVICE, reply, refused)?;
    match field::int(&body, "/code") {
        Some(0) => match body.get_mut("data").map(Value::take) {
            Some(data @ Value::Object(_)) => Ok(data),
            // A list without anything in it is null there.
            Some(Value::Null) | None => Ok(json!({})),
            _ => Err(unreadable()),
        },
        Some(code) => Err(problem(code)),
        None => Err(unreadable()),
    }
}

/// Where the own account is needed, there must be cookies.
pub(super) fn signed_in(desk: &Desk) -> Result<(), Problem> {
    match value(desk, &SERVICE, "SESSDATA") {
        Some(_) => Ok(()),
        None => Err(Problem::new(
            Code::NotConfigured,
            NAME,
            "Bilibili is not connected: there are no cookies",
            "run `tollgate connect bilibili` in a terminal, or set `BILIBILI_SESSDATA` and `BILIBILI_BILI_JCT`",
        )),
    }
}

fn cookies(desk: &Desk) -> Option<Secret> {
    let mut pairs = String::new();
    for name in ["SESSDATA", "bili_jct", "buvid3"] {
        let Some(value) = value(desk, &SERVICE, name) else { continue };
        if !pairs.is_empty() {
            pairs.push_str("; ");
        }
        pairs.push_str(name);
        pairs.push('=');
        // Browsers show it escaped and plain; a comma has no place in a cookie.
        pairs.push_str(&value.expose().replace(',', "%2C"));
    }
    (!pairs.is_empty()).then(|| Secret::new(pairs))
}

/// A status with a code in the body is told by the code.
fn refused(reply: &Reply, body: &Value) -> Option<Problem> {
    // A request that is held back may be answered by a machine that knows no codes.
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
            "Bilibili takes the request for one of a machine and refuses it",
            "call again later, and not often; a fresh buvid3 cookie can help",
        ),
        -412 | -799 => (
            Code::RateLimited,
            "Bilibili allows no more requests for now",
            "wait ten minutes before the next call",
        ),
        22_007 => (
            Code::RestrictedResource,
            "of the followings of others Bilibili shows five pages only",
            "ask for a page from 1 to 5",
        ),
        22_115 | 62_002 | 62_004 => {
            (Code::PrivateProfile, "its owner keeps this private", "ask for something else")
        }
        -404 => (
            Code::NotFound,
            "Bilibili knows nothing of that id",
            "check the id; it may have been removed",
        ),
        -400 => (
            Code::InvalidArgument,
            "Bilibili did not understand the request",
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
        "Bilibili answered with something that cannot be read",
        "call again in a minute",
    )
}

/// What Bilibili gives to signed requests only; nothing here signs.
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
