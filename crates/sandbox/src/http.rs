//! A request as a fake sees it and an answer as a fake gives it, with no connection attached.

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap};
use serde_json::{Value, json};

/// Nothing that a service takes from a client is near this size.
const REQUEST_BYTES_MAX: usize = 1 << 20;

/// What a client asked for.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Asked {
    /// Waits for the whole request; nothing when it breaks off or is too large.
    pub(crate) async fn gather(request: hyper::Request<Incoming>) -> Option<Asked> {
        let (head, body) = request.into_parts();
        let body = Limited::new(body, REQUEST_BYTES_MAX).collect().await.ok()?.to_bytes();
        Some(Asked {
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

    /// The credentials behind a scheme such as `Bearer`, whose case does not matter.
    pub(crate) fn credentials(&self, scheme: &str) -> Option<&str> {
        let (said, rest) = self.header(AUTHORIZATION.as_str())?.split_once(' ')?;
        said.eq_ignore_ascii_case(scheme).then(|| rest.trim())
    }

    /// The parts of the path behind `prefix`; nothing when the path is elsewhere.
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

/// What the client gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Bytes,
}

impl Reply {
    pub(crate) fn text(status: u16, kind: &str, body: impl Into<Bytes>) -> Reply {
        Reply { status, headers: vec![("content-type", kind.to_owned())], body: body.into() }
    }

    /// A body that is JSON already.
    pub(crate) fn raw(status: u16, body: impl Into<Bytes>) -> Reply {
        Reply::text(status, "application/json", body)
    }

    pub(crate) fn json(status: u16, body: &Value) -> Reply {
        Reply::raw(status, body.to_string())
    }

    pub(crate) fn problem(status: u16, message: &str) -> Reply {
        Reply::json(status, &json!({ "message": message }))
    }

    pub(crate) fn empty(status: u16) -> Reply {
        Reply { status, headers: Vec::new(), body: Bytes::new() }
    }

    pub(crate) fn redirect(to: &str) -> Reply {
        Reply::empty(302).with("location", to.to_owned())
    }

    pub(crate) fn with(mut self, name: &'static str, value: String) -> Reply {
        self.headers.push((name, value));
        self
    }
}
