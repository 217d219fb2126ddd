//! Checks of `Content-Type`, `Accept` and the transfer encoding.

use hyper::header::{
    ACCEPT, CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue, TRANSFER_ENCODING,
};
use hyper::{HeaderMap, StatusCode};

use super::Rejection;

/// Closes the connection with this response, where its framing may be ambiguous.
pub(super) const CLOSE: HeaderValue = HeaderValue::from_static("close");

/// Whether the body is chunked. Other or repeated transfer encodings are rejected: a proxy in front
/// may have framed the request differently.
pub(super) fn is_chunked(headers: &HeaderMap) -> Result<bool, Rejection> {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let Some(coding) = codings.next() else { return Ok(false) };
    if !coding.as_bytes().eq_ignore_ascii_case(b"chunked") || codings.next().is_some() {
        return Err(Rejection {
            status: StatusCode::BAD_REQUEST,
            message: "a body needs a `Content-Length` or a single `Transfer-Encoding: chunked`, not both",
            header: Some((CONNECTION, CLOSE)),
        });
    }
    Ok(true)
}

/// Rejects a message that is not JSON, or a client that accepts none of our content types.
pub(super) fn check(headers: &HeaderMap) -> Result<(), Rejection> {
    let json = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).is_some_and(is_json);
    if !json
        || headers.get_all(CONTENT_TYPE).iter().count() > 1
        || headers.contains_key(CONTENT_ENCODING)
    {
        return Err(Rejection::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "send messages as `Content-Type: application/json`, UTF-8, uncompressed",
        ));
    }
    // Almost every client sends lower case, so compare before converting.
    let accepts = |value: &HeaderValue| {
        value
            .to_str()
            .is_ok_and(|text| is_supported(text) || is_supported(&text.to_ascii_lowercase()))
    };
    let mut accept = headers.get_all(ACCEPT).iter().peekable();
    if accept.peek().is_some() && !accept.any(accepts) {
        return Err(Rejection::new(
            StatusCode::NOT_ACCEPTABLE,
            "the client must accept `application/json, text/event-stream`",
        ));
    }
    Ok(())
}

fn is_supported(accepted: &str) -> bool {
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
