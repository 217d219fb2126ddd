//! The request and response types of the sandbox, independent of the connection.

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap};
use serde_json::{Value, json};

/// No service accepts a request near this size.
const REQUEST_BYTES_MAX: usize = 1 << 20;

/// A request with its whole body.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Request {
    /// Reads the whole request; none when it is truncated or too large.
    pub(crate) async fn read(incoming: hyper::Request<Incoming>) -> Option<Request> {
        let (head, body) = incoming.into_parts();
        let body = Limited::new(body, REQUEST_BYTES_MAX).collect().await.ok()?.to_bytes();
        Some(Request {
            method: head.method.as_str().to_owned(),
            path: head.uri.path().to_owned(),
            query: pairs(head.uri.query().unwrap_or_default().as_bytes()),
            headers: head.headers,
            body,
        })
    }

    /// The first value of a query parameter.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        first(&self.query, name)
    }

    pub(crate) fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.query.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn form(&self) -> Vec<(String, String)> {
        let header = self.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let is_form =
            header.is_some_and(|value| value.starts_with("application/x-www-form-urlencoded"));
        if is_form { pairs(&self.body) } else { Vec::new() }
    }

    pub(crate) fn json(&self) -> Option<Value> {
        serde_json::from_slice(&self.body).ok()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The credentials of an authorization scheme such as `Bearer`, case-insensitive.
    pub(crate) fn credentials(&self, scheme: &str) -> Option<&str> {
        let (given, rest) = self.header(AUTHORIZATION.as_str())?.split_once(' ')?;
        given.eq_ignore_ascii_case(scheme).then(|| rest.trim())
    }

    /// The path segments after `prefix`; none when the path does not start with it.
    pub(crate) fn parts(&self, prefix: &str) -> Option<Vec<&str>> {
        let rest = self.path.strip_prefix(prefix)?;
        Some(rest.split('/').filter(|part| !part.is_empty()).collect())
    }

    pub(crate) fn is_refresh(&self) -> bool {
        self.method == "POST" && first(&self.form(), "grant_type") == Some("refresh_token")
    }
}

pub(crate) fn first<'a>(pairs: &'a [(String, String)], name: &str) -> Option<&'a str> {
    pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

fn pairs(encoded: &[u8]) -> Vec<(String, String)> {
    url::form_urlencoded::parse(encoded).into_owned().collect()
}

/// A response with its whole body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Bytes,
}

impl Response {
    pub(crate) fn text(status: u16, kind: &str, body: impl Into<Bytes>) -> Response {
        Response { status, headers: vec![("content-type", kind.to_owned())], body: body.into() }
    }

    /// A body that is already JSON.
    pub(crate) fn raw(status: u16, body: impl Into<Bytes>) -> Response {
        Response::text(status, "application/json", body)
    }

    pub(crate) fn json(status: u16, body: &Value) -> Response {
        Response::raw(status, body.to_string())
    }

    pub(crate) fn problem(status: u16, message: &str) -> Response {
        Response::json(status, &json!({ "message": message }))
    }

    pub(crate) fn empty(status: u16) -> Response {
        Response { status, headers: Vec::new(), body: Bytes::new() }
    }

    pub(crate) fn redirect(to: &str) -> Response {
        Response::empty(302).with("location", to.to_owned())
    }

    pub(crate) fn with(mut self, name: &'static str, value: String) -> Response {
        self.headers.push((name, value));
        self
    }
}
