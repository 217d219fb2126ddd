//! A request to a service. Its URL is always built from the service's base.

use std::fmt;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::Full;
use hyper::Method;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue};
use store::secret::Secret;
use url::Url;
use url::form_urlencoded::Serializer;

use super::base_url::{BaseUrl, is_loopback};

const WAIT_MAX: Duration = Duration::from_secs(30);
const REPLY_BYTES_MAX: usize = 16 << 20;
const AUTHORIZATION: &str = "authorization";

#[derive(Clone)]
pub struct Request {
    method: Method,
    url: Url,
    headers: Vec<(HeaderName, HeaderValue)>,
    body: Bytes,
    pub(super) wait_max: Duration,
    pub(super) reply_bytes_max: usize,
    refused: Option<String>,
}

impl Request {
    /// A request for a path below a base; each segment is escaped.
    pub fn new(method: Method, base: &BaseUrl, segments: &[&str]) -> Request {
        Request::at(method, &base.join(segments))
    }

    /// A request to an address that a document named and the caller has checked.
    pub(crate) fn at(method: Method, url: &Url) -> Request {
        Request {
            method,
            url: url.clone(),
            headers: vec![(ACCEPT, HeaderValue::from_static("application/json"))],
            body: Bytes::new(),
            wait_max: WAIT_MAX,
            reply_bytes_max: REPLY_BYTES_MAX,
            refused: None,
        }
    }

    pub fn get(base: &BaseUrl, segments: &[&str]) -> Request {
        Request::new(Method::GET, base, segments)
    }

    #[must_use]
    pub fn query(mut self, name: &str, value: &str) -> Request {
        self.url.query_pairs_mut().append_pair(name, value);
        self
    }

    /// Adds a header. An invalid value makes the request fail when it is sent.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: &str) -> Request {
        match HeaderValue::from_str(value) {
            Ok(mut header) => {
                header.set_sensitive(true);
                let name = HeaderName::from_static(name);
                self.headers.retain(|(known, _)| *known != name);
                self.headers.push((name, header));
            }
            // The value may be a secret, so only the name is kept.
            Err(_) => self.refused = Some(format!("`{name}` is not a valid header value")),
        }
        self
    }

    #[must_use]
    pub fn bearer(self, token: &Secret) -> Request {
        let value = Secret::<String>::new(format!("Bearer {}", token.expose()));
        self.header(AUTHORIZATION, value.expose())
    }

    /// RFC 6749 2.3.1: both parts are form-encoded before they are joined.
    #[must_use]
    pub fn basic(self, user: &str, password: &Secret) -> Request {
        let encode = |text: &str| -> String {
            url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
        };
        let pair = Secret::<String>::new(format!("{}:{}", encode(user), encode(password.expose())));
        let value = Secret::<String>::new(format!("Basic {}", STANDARD.encode(pair.expose())));
        self.header(AUTHORIZATION, value.expose())
    }

    #[must_use]
    pub fn form(mut self, pairs: &[(&str, &str)]) -> Request {
        let body = Serializer::new(String::new()).extend_pairs(pairs).finish();
        self.body = Bytes::from(body);
        self.headers
            .push((CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded")));
        self
    }

    #[must_use]
    pub fn json(mut self, body: &serde_json::Value) -> Request {
        self.body = Bytes::from(body.to_string());
        self.headers.push((CONTENT_TYPE, HeaderValue::from_static("application/json")));
        self
    }

    /// How long the whole exchange may take.
    #[must_use]
    pub fn wait_max(mut self, wait_max: Duration) -> Request {
        self.wait_max = wait_max;
        self
    }

    #[must_use]
    pub fn reply_bytes_max(mut self, bytes_max: usize) -> Request {
        self.reply_bytes_max = bytes_max;
        self
    }

    /// Host and port, for messages.
    pub fn host(&self) -> String {
        let host = self.url.host_str().unwrap_or_default();
        self.url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }

    /// Does it go to loopback?
    pub(super) fn is_local(&self) -> bool {
        is_loopback(&self.url)
    }

    /// Is it safe to send twice?
    pub fn is_repeatable(&self) -> bool {
        self.method.is_idempotent()
    }

    pub(super) fn into_hyper(self) -> Result<hyper::Request<Full<Bytes>>, String> {
        if let Some(why) = self.refused {
            return Err(why);
        }
        let mut request = hyper::Request::new(Full::new(self.body));
        *request.method_mut() = self.method;
        let address = self.url.as_str().parse();
        *request.uri_mut() = address.map_err(|_| "the address cannot be sent".to_owned())?;
        for (name, value) in self.headers {
            request.headers_mut().insert(name, value);
        }
        Ok(request)
    }
}

/// Omits the query and the headers: both may hold secrets.
impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Request({} {} {})", self.method, self.host(), self.url.path())
    }
}
