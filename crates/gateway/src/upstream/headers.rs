//! The headers of an upstream request, always built new: a client's `Authorization`, `Cookie` or hop-by-hop
//! headers are never forwarded.

use hyper::HeaderMap;
use hyper::header::{
    ACCEPT, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HOST, HeaderName,
    HeaderValue, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, WWW_AUTHENTICATE,
};

pub(super) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
pub(super) const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub(super) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");

pub(super) const JSON: HeaderValue = HeaderValue::from_static("application/json");
pub(super) const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");
pub(super) const STREAM_FIRST: HeaderValue =
    HeaderValue::from_static("text/event-stream, application/json");
pub(super) const EITHER: HeaderValue =
    HeaderValue::from_static("application/json, text/event-stream");

/// The configuration sets a header that only the gate may set.
#[derive(Debug, thiserror::Error)]
#[error(
    "the header `{0}` is set by the gate and cannot be configured\nhint: remove it from the server's headers"
)]
pub struct HeaderRefused(HeaderName);

/// The configured headers, checked once and marked sensitive, so that no log shows a value.
pub(super) fn configured(
    headers: Vec<(HeaderName, HeaderValue)>,
) -> Result<HeaderMap, HeaderRefused> {
    const OURS: [HeaderName; 13] = [
        HOST,
        CONNECTION,
        CONTENT_LENGTH,
        CONTENT_TYPE,
        TRANSFER_ENCODING,
        TE,
        TRAILER,
        UPGRADE,
        EXPECT,
        ACCEPT,
        SESSION_ID,
        PROTOCOL_VERSION,
        LAST_EVENT_ID,
    ];
    let mut map = HeaderMap::with_capacity(headers.len());
    for (name, mut value) in headers {
        if OURS.contains(&name) || name == KEEP_ALIVE || name == "proxy-connection" {
            return Err(HeaderRefused(name));
        }
        value.set_sensitive(true);
        map.append(name, value);
    }
    Ok(map)
}

/// Whether a message may carry this header.
pub(super) fn is_forwarded(name: &HeaderName) -> bool {
    const TRACE: [&str; 3] = ["traceparent", "tracestate", "baggage"];
    let name = name.as_str();
    name != SESSION_ID.as_str() && (name.starts_with("mcp-") || TRACE.contains(&name))
}

/// Whether this response header is used.
pub(super) fn is_read(name: &HeaderName) -> bool {
    const READ: [HeaderName; 5] =
        [CONTENT_TYPE, CONTENT_ENCODING, SESSION_ID, KEEP_ALIVE, WWW_AUTHENTICATE];
    READ.contains(name)
}

/// The media type without parameters.
pub(super) fn media_type(headers: &HeaderMap) -> Option<Media> {
    let value = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let essence = value.split(';').next().unwrap_or_default().trim();
    Some(if essence.eq_ignore_ascii_case("application/json") {
        Media::Json
    } else if essence.eq_ignore_ascii_case("text/event-stream") {
        Media::EventStream
    } else {
        Media::Other
    })
}

/// The media type of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Media {
    Json,
    EventStream,
    Other,
}

/// The announced keep-alive time in seconds.
pub(super) fn keep_alive_seconds(headers: &HeaderMap) -> Option<u64> {
    let value = headers.get(KEEP_ALIVE)?.to_str().ok()?;
    value.split(',').find_map(|part| part.trim().strip_prefix("timeout=")?.parse().ok())
}
