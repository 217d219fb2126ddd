//! The addresses that are only read: the gate's metrics, for whoever has their token, and the JSON
//! Schema of policies, for everybody: it holds nothing of the owner's.

use std::sync::LazyLock;

use bytes::Bytes;
use hyper::header::{
    ACCEPT, ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH,
};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use sha2::{Digest as _, Sha256};

use super::{TurnedAway, plain};
use crate::gate::Gate;
use crate::serve::{Arriving, Body};

/// Where editors find the schema.
pub(super) const POLICY_SCHEMA: &str = "/schema/policy.json";

/// The schema as it is sent, and the tag that changes with it.
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
    gate: &Gate,
    request: &Request<Arriving>,
) -> Result<Response<Body>, TurnedAway> {
    let token = request.headers().get(AUTHORIZATION).and_then(super::bearer);
    if !token.is_some_and(|token| gate.is_metrics_token(token)) {
        return Err(TurnedAway::new(
            StatusCode::UNAUTHORIZED,
            "metrics need the token that the gate was started with in `TOLLGATE_METRICS_TOKEN`",
        ));
    }
    let wanted = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok());
    let (text, kind) = gate.metrics_now().text_for(wanted);
    let mut response = plain(StatusCode::OK, Body::whole(text));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    Ok(response)
}

pub(super) fn policy_schema(request: &Request<Arriving>) -> Result<Response<Body>, TurnedAway> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return Err(TurnedAway {
            status: StatusCode::METHOD_NOT_ALLOWED,
            words: "the schema is read with GET",
            header: Some((ALLOW, HeaderValue::from_static("GET, HEAD"))),
        });
    }
    let mut response = if is_known(request.headers()) {
        plain(StatusCode::NOT_MODIFIED, Body::empty())
    } else {
        plain(StatusCode::OK, Body::whole(SCHEMA.text.clone()))
    };
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/schema+json"));
    // A newer gate at this address may have a newer one, so it is kept and asked for again.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Ok(tag) = HeaderValue::from_str(&SCHEMA.tag) {
        headers.insert(ETAG, tag);
    }
    Ok(response)
}

/// Whether the reader says that it has this very schema.
fn is_known(headers: &HeaderMap) -> bool {
    let mut tags = headers
        .get_all(IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim);
    tags.any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == SCHEMA.tag)
}
