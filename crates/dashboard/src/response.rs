//! What goes back: status, headers and a body, whole or as a stream. Every response carries the same
//! security headers.

use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName,
    HeaderValue, LOCATION, REFERRER_POLICY, SET_COOKIE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderMap, StatusCode};
use tokio::sync::mpsc;

use crate::request::{CONSENT_COOKIE_NAME, COOKIE_NAME};
use crate::visible_text::visible_text;

/// No inline script, no inline style, nothing from elsewhere, and no page of ours in another page's frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'; \
    require-trusted-types-for 'script'; trusted-types 'none'";

const SECURITY: [(HeaderName, HeaderValue); 6] = [
    (CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
    (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    // With `no-referrer` browsers send `Origin: null` with forms, which is refused.
    (REFERRER_POLICY, HeaderValue::from_static("same-origin")),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        HeaderValue::from_static("same-origin"),
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        HeaderValue::from_static("same-origin"),
    ),
];

/// How long a consent page may stay open.
const CONSENT_SECONDS_MAX: u32 = 600;
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

pub struct Response {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Body,
    /// The request had a session.
    pub is_signed_in: bool,
    /// Why the request was refused, where the audit log should say it.
    pub refusal: Option<String>,
}

pub enum Body {
    Whole(Bytes),
    Stream(mpsc::Receiver<Bytes>),
}

impl Response {
    pub(crate) fn new(
        status: StatusCode,
        content_type: &'static str,
        body: impl Into<Bytes>,
    ) -> Response {
        let mut headers: HeaderMap = SECURITY.into_iter().collect();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        headers.insert(CACHE_CONTROL, NO_STORE);
        Response {
            status,
            headers,
            body: Body::Whole(body.into()),
            is_signed_in: false,
            refusal: None,
        }
    }

    /// A page. Nothing that a server or an agent wrote may hide in its text.
    pub(crate) fn html(status: StatusCode, page: String) -> Response {
        Response::new(status, "text/html; charset=utf-8", visible_text(page))
    }

    pub(crate) fn json(status: StatusCode, text: impl Into<Bytes>) -> Response {
        Response::new(status, "application/json", text)
    }

    /// After a form: the browser gets the page with GET, so that a reload repeats nothing.
    pub(crate) fn see_other(path: &str) -> Response {
        let mut response = Response::new(StatusCode::SEE_OTHER, "text/plain", "");
        if let Ok(path) = HeaderValue::from_str(path) {
            response.headers.insert(LOCATION, path);
        }
        response
    }

    /// A program that sent a form is led to the JSON twin of the page that a browser would get.
    pub(crate) fn into_twin(mut self) -> Response {
        let location = self.headers.get(LOCATION).and_then(|location| location.to_str().ok());
        if let Some(twin) =
            location.and_then(twin).and_then(|twin| HeaderValue::from_str(&twin).ok())
        {
            self.headers.insert(LOCATION, twin);
        }
        self
    }

    pub(crate) fn events(stream: mpsc::Receiver<Bytes>) -> Response {
        let mut response = Response::new(StatusCode::OK, "text/event-stream", "");
        response.body = Body::Stream(stream);
        response
    }

    /// A file that the browser saves.
    pub(crate) fn download(
        content_type: &'static str,
        name: &str,
        stream: mpsc::Receiver<Bytes>,
    ) -> Response {
        let mut response = Response::new(StatusCode::OK, content_type, "");
        if let Ok(name) = HeaderValue::from_str(&format!("attachment; filename=\"{name}\"")) {
            response.headers.insert(CONTENT_DISPOSITION, name);
        }
        response.body = Body::Stream(stream);
        response
    }

    /// A static file. Its address carries its hash, so that it can be kept for good.
    pub(crate) fn asset(content_type: &'static str, body: &'static [u8]) -> Response {
        let mut response = Response::new(StatusCode::OK, content_type, Bytes::from_static(body));
        let forever = HeaderValue::from_static("public, max-age=31536000, immutable");
        response.headers.insert(CACHE_CONTROL, forever);
        response
    }

    /// Adds the cookie of a sign-in at a server.
    pub(crate) fn with_callback_cookie(mut self, cookie: &str) -> Response {
        if let Ok(mut cookie) = HeaderValue::from_str(cookie) {
            cookie.set_sensitive(true);
            self.headers.insert(SET_COOKIE, cookie);
        }
        self
    }

    /// Sets the session cookie, or removes it.
    pub(crate) fn with_cookie(mut self, value: Option<&str>, is_https: bool) -> Response {
        let secure = if is_https { "; Secure" } else { "" };
        let kept = match value {
            Some(value) => format!("{COOKIE_NAME}={value}; Max-Age=2592000"),
            None => format!("{COOKIE_NAME}=; Max-Age=0"),
        };
        self.put_cookie(&kept, secure);
        self
    }

    /// Sets the cookie that binds a consent page to this browser, or removes it.
    pub(crate) fn with_consent_cookie(mut self, value: Option<&str>, is_https: bool) -> Response {
        let secure = if is_https { "; Secure" } else { "" };
        let kept = match value {
            Some(value) => format!("{CONSENT_COOKIE_NAME}={value}; Max-Age={CONSENT_SECONDS_MAX}"),
            None => format!("{CONSENT_COOKIE_NAME}=; Max-Age=0"),
        };
        self.put_cookie(&kept, secure);
        self
    }

    fn put_cookie(&mut self, kept: &str, secure: &str) {
        let cookie = format!("{kept}; Path=/; HttpOnly; SameSite=Strict{secure}");
        if let Ok(mut cookie) = HeaderValue::from_str(&cookie) {
            cookie.set_sensitive(true);
            self.headers.insert(SET_COOKIE, cookie);
        }
    }

    /// Records why the request was refused.
    pub(crate) fn refused(mut self, why: impl Into<String>) -> Response {
        self.refusal = Some(why.into());
        self
    }

    /// A page whose form leads to another site: browsers apply `form-action` to redirects, too.
    pub(crate) fn with_form_target(mut self, source: &str) -> Response {
        let policy = POLICY.replace("form-action 'self'", &format!("form-action 'self' {source}"));
        if let Ok(policy) = HeaderValue::from_str(&policy) {
            self.headers.insert(CONTENT_SECURITY_POLICY, policy);
        }
        // A client may have opened the page in a window that it waits for.
        self.headers.remove("cross-origin-opener-policy");
        self
    }
}

/// The address of the JSON twin of a page of the dashboard. Sign-in has none.
fn twin(address: &str) -> Option<String> {
    let is_own = address.starts_with('/') && !address.starts_with("//");
    if !is_own || crate::pages::sign_in::is_path(address) {
        return None;
    }
    let (path, rest) = address.split_at(address.find(['?', '#']).unwrap_or(address.len()));
    Some(format!("{}.json{rest}", if path == "/" { "/index" } else { path }))
}

#[cfg(test)]
mod tests {
    use super::twin;

    #[test]
    fn every_page_but_sign_in_has_a_twin_at_its_address() {
        let table = [
            ("/", Some("/index.json")),
            ("/people", Some("/people.json")),
            ("/audit?grant=a#top", Some("/audit.json?grant=a#top")),
            ("/tour#change", Some("/tour.json#change")),
            ("/sign-in", None),
            ("https://id.example/authorize", None),
            ("//id.example/", None),
        ];
        for (address, expected) in table {
            assert_eq!(twin(address).as_deref(), expected, "{address}");
        }
    }
}
