//! What the server knows: clients, codes, tokens, and the requests it got.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::mpsc::UnboundedSender;

use super::mcp::MESSAGES;
use super::{Answer, Behaviour};
use crate::http::{Request, first};

/// A request as a test reads it.
#[derive(Clone, Debug)]
pub struct Recorded {
    pub method: String,
    pub path: String,
    /// The fields of its query and its form.
    pub fields: Vec<(String, String)>,
    pub json: Option<Value>,
    pub authorization: Option<String>,
}

impl Recorded {
    pub fn field(&self, name: &str) -> Option<&str> {
        first(&self.fields, name)
    }
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) origin: String,
    pub(super) behaviour: Behaviour,
    pub(super) requests: Vec<Recorded>,
    /// Registered redirect addresses by client id.
    pub(super) clients: BTreeMap<String, Vec<String>>,
    pub(super) codes: BTreeMap<String, Code>,
    /// Scopes by valid access token.
    pub(super) access: BTreeMap<String, String>,
    pub(super) refresh: BTreeMap<String, String>,
    pub(super) used_refresh: BTreeSet<String>,
    pub(super) sessions: BTreeSet<String>,
    /// Open streams of clients of 2024-11-05.
    pub(super) streams: Vec<UnboundedSender<Bytes>>,
    next: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Code {
    pub(super) client: String,
    pub(super) redirect: String,
    pub(super) challenge: String,
    pub(super) scope: String,
}

impl State {
    pub(super) fn new(origin: String, behaviour: Behaviour) -> State {
        State {
            origin,
            behaviour,
            requests: Vec::new(),
            clients: BTreeMap::new(),
            codes: BTreeMap::new(),
            access: BTreeMap::new(),
            refresh: BTreeMap::new(),
            used_refresh: BTreeSet::new(),
            sessions: BTreeSet::new(),
            streams: Vec::new(),
            next: 0,
        }
    }

    pub(super) fn issuer(&self) -> String {
        format!("{}{}", self.origin, self.behaviour.issuer_path)
    }

    /// A value that nothing else has.
    pub(super) fn fresh(&mut self, kind: &str) -> String {
        self.next += 1;
        format!("{kind}-0123456789-{:06}", self.next)
    }

    pub(super) fn answer(&mut self, request: &Request) -> Answer {
        let mut fields = request.query.clone();
        fields.extend(request.form());
        self.requests.push(Recorded {
            method: request.method.clone(),
            path: request.path.clone(),
            fields,
            json: request.json(),
            authorization: request.header("authorization").map(str::to_owned),
        });
        let prefix = self.behaviour.issuer_path;
        match (request.method.as_str(), request.path.as_str()) {
            (_, "/mcp") => self.mcp(request),
            ("POST", MESSAGES) => self.posted(request),
            ("GET", path) if path.starts_with("/.well-known/oauth-protected-resource") => {
                self.resource_document(path)
            }
            ("GET", path) if path.contains("/.well-known/") => self.issuer_document(path),
            ("POST", "/register") => self.register(request),
            ("GET", path) if path == format!("{prefix}/authorize") || path == "/authorize" => {
                match self.authorize(&request.query) {
                    Some(back) => Answer {
                        status: 302,
                        headers: vec![("location", back)],
                        body: String::new(),
                        stream: None,
                    },
                    None => Answer::empty(400),
                }
            }
            ("POST", "/token") => self.token(request),
            ("POST", "/revoke") => self.revoke(request),
            _ => Answer::empty(404),
        }
    }
}
