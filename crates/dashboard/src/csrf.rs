//! Protection of forms: a token that belongs to the session, and the origin of the request. Both must fit.

use hmac::{Hmac, KeyInit as _, Mac as _};
use http::{HeaderMap, header};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;

/// The name of the form field.
pub(crate) const FIELD: &str = "csrf";

/// The token of a session. It is computed from the cookie, so nothing is stored.
pub(crate) fn token(cookie: &str) -> String {
    keyed(cookie, &["tollgate dashboard csrf"])
}

/// The token of one consent page: it fits the session, the browser that the page was shown in, and the
/// request that the page described.
pub(crate) fn consent_token(cookie: &str, binding: &str, request: &str) -> String {
    keyed(cookie, &["tollgate consent", binding, request])
}

pub(crate) fn is_consent_token_of(
    cookie: &str,
    binding: &str,
    request: &str,
    presented: &str,
) -> bool {
    let expected = consent_token(cookie, binding, request);
    !expected.is_empty() && expected.as_bytes().ct_eq(presented.as_bytes()).into()
}

fn keyed(key: &str, parts: &[&str]) -> String {
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key.as_bytes()) else {
        return String::new();
    };
    for (number, part) in parts.iter().enumerate() {
        if number > 0 {
            mac.update(b"\0");
        }
        mac.update(part.as_bytes());
    }
    let bytes = mac.finalize().into_bytes();
    bytes.iter().fold(String::with_capacity(64), |mut text, byte| {
        use std::fmt::Write as _;
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

pub(crate) fn is_token_of(cookie: &str, presented: &str) -> bool {
    let expected = token(cookie);
    !expected.is_empty() && expected.as_bytes().ct_eq(presented.as_bytes()).into()
}

/// Whether a browser says that the request comes from a page of this very address. A request that says
/// neither `Origin` nor `Sec-Fetch-Site` is refused: every current browser sends one of them with a form.
pub(crate) fn is_same_origin(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).and_then(|value: &http::HeaderValue| value.to_str().ok());
    if let Some(site) = text(header::HeaderName::from_static("sec-fetch-site"))
        && site != "same-origin"
    {
        return false;
    }
    match (text(header::ORIGIN), text(header::HOST)) {
        (Some(origin), Some(host)) => {
            let rest = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
            rest.is_some_and(|rest| rest.eq_ignore_ascii_case(host))
        }
        (None, Some(_)) => headers.contains_key("sec-fetch-site"),
        (_, None) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        let value = |text: &str| text.parse::<http::HeaderValue>().ok();
        lines
            .iter()
            .filter_map(|(name, text)| Some((http::HeaderName::from_static(name), value(text)?)))
            .collect()
    }

    #[test]
    fn only_a_page_of_this_address_may_post() {
        let host = ("host", "127.0.0.1:4180");
        let table: &[(&[(&'static str, &str)], bool)] = &[
            (&[host, ("origin", "http://127.0.0.1:4180")], true),
            (&[host, ("origin", "https://127.0.0.1:4180")], true),
            (&[host, ("sec-fetch-site", "same-origin")], true),
            (&[host, ("origin", "http://127.0.0.1:4180"), ("sec-fetch-site", "cross-site")], false),
            (&[host, ("origin", "http://evil.example")], false),
            (&[host, ("origin", "http://127.0.0.1:4180.evil.example")], false),
            (&[host, ("origin", "http://127.0.0.1:9999")], false),
            (&[host, ("origin", "null")], false),
            (&[host, ("sec-fetch-site", "same-site")], false),
            (&[host, ("sec-fetch-site", "none")], false),
            (&[host], false),
            (&[("origin", "http://127.0.0.1:4180")], false),
        ];
        for (lines, expected) in table {
            assert_eq!(is_same_origin(&headers(lines)), *expected, "{lines:?}");
        }
    }

    #[test]
    fn a_token_fits_its_session_only() {
        let one = token("tg_session_a");
        assert!(is_token_of("tg_session_a", &one));
        assert!(!is_token_of("tg_session_b", &one));
        assert!(!is_token_of("tg_session_a", ""));
        assert!(!one.contains("session"));
    }

    #[test]
    fn a_consent_token_fits_one_session_one_browser_and_one_request() {
        let token = consent_token("tg_session_a", "b", "client_id=1");
        assert!(is_consent_token_of("tg_session_a", "b", "client_id=1", &token));
        for (cookie, binding, request) in [
            ("tg_session_x", "b", "client_id=1"),
            ("tg_session_a", "x", "client_id=1"),
            ("tg_session_a", "b", "client_id=2"),
            ("tg_session_a", "b\0client_id=1", ""),
        ] {
            assert!(!is_consent_token_of(cookie, binding, request, &token), "{binding} {request}");
        }
    }
}
