//! What a message may be sent as, and what its client must take back.

use hyper::header::{
    ACCEPT, CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue, TRANSFER_ENCODING,
};
use hyper::{HeaderMap, StatusCode};

use super::TurnedAway;

/// A connection that ends with this answer, so that nobody reads on where two readings part.
pub(super) const CLOSE: HeaderValue = HeaderValue::from_static("close");

/// Whether the body comes in chunks. Chunks that are packed into something else, or said in two
/// headers, are turned away: a proxy in front may have read another request.
pub(super) fn in_chunks(headers: &HeaderMap) -> Result<bool, TurnedAway> {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let Some(coding) = codings.next() else { return Ok(false) };
    if !coding.as_bytes().eq_ignore_ascii_case(b"chunked") || codings.next().is_some() {
        return Err(TurnedAway {
            status: StatusCode::BAD_REQUEST,
            words: "a body has a `Content-Length`, or one `Transfer-Encoding: chunked` and nothing else",
            header: Some((CONNECTION, CLOSE)),
        });
    }
    Ok(true)
}

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
    // Almost every client spells them in lower case, so look before folding.
    let accepts = |value: &HeaderValue| {
        value.to_str().is_ok_and(|text| names_ours(text) || names_ours(&text.to_ascii_lowercase()))
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

fn names_ours(accepted: &str) -> bool {
    accepted.contains("application/json")
        || accepted.contains("text/event-stream")
        || accepted.contains("application/*")
        || accepted.contains("*/*")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_types_are_the_same_in_any_case() {
        let cases = [
            ("application/json", "application/json, text/event-stream", true),
            ("Application/JSON; Charset=UTF-8", "Text/Event-Stream", true),
            ("application/json", "image/png", false),
            ("text/json", "*/*", false),
        ];
        for (sent, accepted, expected) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(sent));
            headers.insert(ACCEPT, HeaderValue::from_static(accepted));
            assert_eq!(check(&headers).is_ok(), expected, "{sent} {accepted}");
        }
    }
}
