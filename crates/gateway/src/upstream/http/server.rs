//! A server reached over HTTP: where it is, the connections to it, and the requests made for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, Uri};
use url::{Position, Url};

use crate::room::Account;
use crate::upstream::body::Body;
use crate::upstream::dial::{Dialer, TargetRefused};
use crate::upstream::error::UpstreamError;
use crate::upstream::headers::{
    EITHER, JSON, PROTOCOL_VERSION, SESSION_ID, STREAM_FIRST, configured, may_travel,
};
use crate::upstream::mask::Mask;
use crate::upstream::message::Outgoing;
use crate::upstream::options::{HttpBounds, HttpOptions, Waits};
use crate::upstream::places::{Part, Purpose};
use crate::upstream::pool::Pool;
use crate::via::VIA;

/// A server reached over HTTP, with the connections to it. Its links share them.
pub struct HttpServer {
    pool: Arc<Pool>,
    url: Url,
    uri: Uri,
    headers: HeaderMap,
    /// It turned out to speak HTTP+SSE of 2024-11-05.
    legacy: AtomicBool,
    /// The secrets that it was given.
    pub(in crate::upstream) mask: Option<Arc<Mask>>,
    pub(in crate::upstream) waits: Waits,
    pub(in crate::upstream) bounds: HttpBounds,
}

/// What a request says of the conversation it belongs to.
#[derive(Clone, Default)]
pub(super) struct Conversation {
    pub(super) session: Option<HeaderValue>,
    pub(super) version: Option<HeaderValue>,
    pub(super) via: Option<HeaderValue>,
}

impl HttpServer {
    pub fn new(options: HttpOptions) -> Result<Arc<HttpServer>, TargetRefused> {
        let dialer = Dialer::new(&options)?;
        Ok(Arc::new(HttpServer {
            pool: Pool::new(dialer, &options.waits, &options.bounds),
            uri: target(&options.url).ok_or(TargetRefused::NoHost)?,
            url: options.url,
            headers: configured(options.headers)?,
            legacy: AtomicBool::new(false),
            mask: options.mask,
            waits: options.waits,
            bounds: options.bounds,
        }))
    }

    /// Connections kept for the next request.
    pub fn idle_connections(&self) -> usize {
        self.pool.idle_count()
    }

    /// An error without the secrets that the server was given.
    pub(super) fn without_secrets(&self, error: UpstreamError) -> UpstreamError {
        match &self.mask {
            Some(mask) => mask.error(error),
            None => error,
        }
    }

    /// What the grant with this account may take of the connections.
    pub(super) fn part_of(&self, account: &Account) -> Arc<Part> {
        self.pool.places.part_of(account)
    }

    pub(super) fn is_legacy(&self) -> bool {
        self.legacy.load(Ordering::Relaxed)
    }

    pub(in crate::upstream) fn set_legacy(&self) {
        self.legacy.store(true, Ordering::Relaxed);
    }

    /// Sends a message of a conversation to the server's own address.
    pub(super) async fn post(
        &self,
        part: &Part,
        talk: &Conversation,
        out: &Outgoing,
    ) -> Result<Response<Body>, UpstreamError> {
        self.post_at(&self.uri, part, talk, out).await
    }

    /// Sends a message to another address of this server; nothing comes back.
    pub(in crate::upstream) async fn post_to(
        &self,
        uri: &Uri,
        part: &Part,
        out: &Outgoing,
    ) -> Result<(), UpstreamError> {
        self.taken(self.post_at(uri, part, &Conversation::default(), out).await?).await
    }

    async fn post_at(
        &self,
        uri: &Uri,
        part: &Part,
        talk: &Conversation,
        out: &Outgoing,
    ) -> Result<Response<Body>, UpstreamError> {
        let make_request = |table| {
            let accept = if out.prefers_stream { STREAM_FIRST } else { EITHER };
            let mut headers = self.headers(table, accept, talk, &out.headers);
            headers.insert(CONTENT_TYPE, JSON);
            request(Method::POST, uri, headers, out.body.clone())
        };
        let patience = out.patience.as_ref();
        self.pool.exchange(part, Purpose::Request, out.stays_open, patience, make_request).await
    }

    /// Asks without a message, for a stream or for the end of a session.
    pub(super) async fn ask(
        &self,
        part: &Part,
        method: &Method,
        accept: &HeaderValue,
        talk: &Conversation,
        more: Option<&(HeaderName, HeaderValue)>,
    ) -> Result<Response<Body>, UpstreamError> {
        let is_stream = method == Method::GET;
        let purpose = if is_stream { Purpose::Listen } else { Purpose::Request };
        let make_request = |table| {
            let mut headers = self.headers(table, accept.clone(), talk, &[]);
            headers.extend(more.cloned());
            request(method.clone(), &self.uri, headers, Bytes::new())
        };
        self.pool.exchange(part, purpose, is_stream, None, make_request).await
    }

    /// The headers of one request: ours, the core's, and the owner's, whose word is the last. They go
    /// into `headers`, which is empty.
    fn headers(
        &self,
        mut headers: HeaderMap,
        accept: HeaderValue,
        talk: &Conversation,
        given: &[(HeaderName, HeaderValue)],
    ) -> HeaderMap {
        const OURS: usize = 7;
        headers.reserve(OURS + given.len() + self.headers.len());
        headers.insert(HOST, self.pool.dialer().authority.clone());
        headers.insert(ACCEPT, accept);
        if let Some(session) = &talk.session {
            headers.insert(SESSION_ID, session.clone());
        }
        if let Some(version) = &talk.version {
            headers.insert(PROTOCOL_VERSION, version.clone());
        }
        if let Some(via) = &talk.via {
            headers.insert(VIA, via.clone());
        }
        for (name, value) in given.iter().filter(|(name, _)| may_travel(name)) {
            headers.insert(name, value.clone());
        }
        for name in self.headers.keys() {
            headers.remove(name);
        }
        for (name, value) in &self.headers {
            headers.append(name, value.clone());
        }
        headers
    }

    /// Takes note that a message was accepted, or why not.
    pub(super) async fn taken(&self, response: Response<Body>) -> Result<(), UpstreamError> {
        if response.status().is_success() {
            response.into_body().finish(&self.bounds);
            return Ok(());
        }
        Err(self.refusal(response).await)
    }

    /// A refusal in HTTP's words, with the beginning of what was said.
    pub(super) async fn refusal(&self, response: Response<Body>) -> UpstreamError {
        let status = response.status().as_u16();
        match response.into_body().beginning(self.bounds.refusal_bytes_max).await {
            Ok(body) => UpstreamError::Status { status, body },
            Err(error) => error,
        }
    }

    /// An address that the server named for our messages. Only one of its own is taken, or our
    /// headers would go wherever it likes.
    pub(in crate::upstream) fn endpoint(&self, named: &str) -> Result<Uri, UpstreamError> {
        let refused = || UpstreamError::never_sent("its stream names an address of another server");
        let url = self.url.join(named.trim()).map_err(|_| refused())?;
        if url.origin() != self.url.origin() {
            return Err(refused());
        }
        target(&url).ok_or_else(refused)
    }
}

/// What the request line names.
fn target(url: &Url) -> Option<Uri> {
    url[Position::BeforePath..Position::AfterQuery].parse().ok()
}

fn request(method: Method, uri: &Uri, headers: HeaderMap, body: Bytes) -> Request<Bytes> {
    let mut request = Request::new(body);
    *request.method_mut() = method;
    *request.uri_mut() = uri.clone();
    *request.headers_mut() = headers;
    request
}
