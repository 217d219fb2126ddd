//! What a message may be sent as, and what its client must take back.

use hyper::header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue};
use hyper::{HeaderMap, StatusCode};

use super::TurnedAway;

/// Turns away what is not sent as JSON, or to a client that takes none of what we answer with.
pub(super) fn check(headers: &HeaderMap) -> Result<(), TurnedAway> {
    let json = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).is_some_and(is_json);
    if !json
        || headers.get_all(CONTENT_TYPE).iter().count() > 1
        || headers.contains_key(CONTENT_ENCODING)
    {
        return Err(TurnedAway::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "a message is sent as `Content-Type: application/json`, UTF-8, not compressed",
        ));
    }
    let accepts = |value: &HeaderValue| {
        value.to_str().is_ok_and(|text| {
            text.contains("application/json")
                || text.contains("text/event-stream")
                || text.contains("application/*")
                || text.contains("*/*")
        })
    };
    let mut accept = headers.get_all(ACCEPT).iter().peekable();
    if accept.peek().is_some() && !accept.any(accepts) {
        return Err(TurnedAway::new(
            StatusCode::NOT_ACCEPTABLE,
            "the client must accept `application/json, text/event-stream`",
        ));
    }
    Ok(())
}

fn is_json(value: &str) -> bool {
    let mut parts = value.split(';').map(str::trim);
    let essence = parts.next().unwrap_or_default();
    essence.eq_ignore_ascii_case("application/json")
        && parts.all(|part| {
            part.is_empty()
                || part.eq_ignore_ascii_case("charset=utf-8")
                || part.eq_ignore_ascii_case("charset=\"utf-8\"")
        })
}
