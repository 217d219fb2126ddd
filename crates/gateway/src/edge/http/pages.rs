//! Read-only pages: probes, the metrics, for holders of the metrics token, and the public JSON Schema of
//! policies.

use std::sync::LazyLock;

use bytes::Bytes;
use hyper::header::{
    ACCEPT, ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH,
};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use sha2::{Digest as _, Sha256};

use super::{Rejection, base_response};
use crate::edge::serve::{Body, IncomingBody};
use crate::exchange::state::SharedState;

/// Where a load balancer asks whether to send calls here, and a supervisor whether to restart.
pub(super) const READY: &str = "/readyz";
pub(super) const LIVE: &str = "/livez";
/// The path of the schema, for editors.
pub(super) const POLICY_SCHEMA: &str = "/schema/policy.json";

/// The schema as sent, with its entity tag.
struct Schema {
    text: Bytes,
    tag: String,
}

static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    let text = format!("{:#}\n", policy::schema());
    let digest = Sha256::digest(&text);
    let beginning = digest.first_chunk().copied().unwrap_or_default();
    Schema { text: text.into(), tag: format!("\"{:016x}\"", u64::from_be_bytes(beginning)) }
});

pub(super) fn metrics(
    state: &SharedState,
    request: &Request<IncomingBody>,
) -> Result<Response<Body>, Rejection> {
    let token = request.headers().get(AUTHORIZATION).and_then(super::bearer);
    if !token.is_some_and(|token| state.services.is_metrics_token(token)) {
        return Err(super::unauthorized("metrics need the token from `TOLLGATE_METRICS_TOKEN`"));
    }
    let wanted = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok());
    let metrics = &state.services.metrics;
    metrics.ready.set(i64::from(state.services.not_ready().is_none()));
    metrics.sessions.set(i64::try_from(state.sessions.count()).unwrap_or(i64::MAX));
    let (text, kind) = metrics.text_for(wanted);
    let mut response = base_response(StatusCode::OK, Body::complete(text));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    Ok(response)
}

/// `/livez`: the process answers. `/readyz`: it accepts calls.
pub(super) fn probe(
    state: &SharedState,
    request: &Request<IncomingBody>,
) -> Result<Response<Body>, Rejection> {
    check_read_only(request.method())?;
    let trouble = if request.uri().path() == READY { state.services.not_ready() } else { None };
    let (status, text) = match trouble {
        None => (StatusCode::OK, "ok\n".to_owned()),
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {why}\n")),
    };
    let mut response = base_response(status, Body::complete(text));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

fn check_read_only(method: &Method) -> Result<(), Rejection> {
    if matches!(*method, Method::GET | Method::HEAD) {
        return Ok(());
    }
    Err(Rejection {
        status: StatusCode::METHOD_NOT_ALLOWED,
        message: "only GET is allowed here",
        header: Some((ALLOW, HeaderValue::from_static("GET, HEAD"))),
    })
}

pub(super) fn policy_schema(request: &Request<IncomingBody>) -> Result<Response<Body>, Rejection> {
    check_read_only(request.method())?;
    let mut response = if is_known(request.headers()) {
        base_response(StatusCode::NOT_MODIFIED, Body::empty())
    } else {
        base_response(StatusCode::OK, Body::complete(SCHEMA.text.clone()))
    };
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/schema+json"));
    // An updated gate may serve a newer schema, so caches must revalidate.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Ok(tag) = HeaderValue::from_str(&SCHEMA.tag) {
        headers.insert(ETAG, tag);
    }
    Ok(response)
}

/// Whether the client already has this schema.
fn is_known(headers: &HeaderMap) -> bool {
    let mut tags = headers
        .get_all(IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim);
    tags.any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == SCHEMA.tag)
}
