//! A server reached over HTTP: address, connection pool and request headers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use hyper::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue,
};
use hyper::{Method, Request, Response, Uri};
use tokio::time::Instant;
use url::{Position, Url};

use crate::runtime::loop_detection::VIA;
use crate::runtime::response_buffer::BufferQuota;
use crate::upstream::body::ResponseBody;
use crate::upstream::connection_limits::{GrantLimits, SlotKind};
use crate::upstream::dial::{Dialer, TargetRefused};
use crate::upstream::error::UpstreamError;
use crate::upstream::headers::{
    EITHER, JSON, PROTOCOL_VERSION, SESSION_ID, STREAM_FIRST, configured, is_forwarded,
};
use crate::upstream::login::ServerLogin;
use crate::upstream::mask::Mask;
use crate::upstream::message::UpstreamMessage;
use crate::upstream::options::{HttpBounds, HttpOptions, Waits};
use crate::upstream::pool::Pool;

/// A server reached over HTTP. Its links share the connections.
pub struct HttpServer {
    pool: Arc<Pool>,
    url: Url,
    uri: Uri,
    headers: HeaderMap,
    /// It uses HTTP+SSE of 2024-11-05.
    legacy: AtomicBool,
    /// Its secrets.
    pub(in crate::upstream) mask: Option<Arc<Mask>>,
    pub(super) login: Option<ServerLogin>,
    pub(in crate::upstream) waits: Waits,
    pub(in crate::upstream) bounds: HttpBounds,
}

/// The session headers of a request.
#[derive(Clone, Default)]
pub(super) struct SessionHeaders {
    pub(super) session: Option<HeaderValue>,
    pub(super) version: Option<HeaderValue>,
    pub(super) via: Option<HeaderValue>,
    /// The token of the login.
    pub(super) authorization: Option<HeaderValue>,
}

impl HttpServer {
    pub(crate) fn mask(&self) -> Option<&Mask> {
        self.mask.as_deref()
    }

    pub fn new(options: HttpOptions) -> Result<Arc<HttpServer>, TargetRefused> {
        let dialer = Dialer::new(&options)?;
        Ok(Arc::new(HttpServer {
            pool: Pool::new(dialer, &options.waits, &options.bounds),
            uri: target(&options.url).ok_or(TargetRefused::NoHost)?,
            url: options.url,
            headers: configured(options.headers)?,
            legacy: AtomicBool::new(false),
            mask: options.mask,
            login: options.login,
            waits: options.waits,
            bounds: options.bounds,
        }))
    }

    /// Idle connections.
    pub fn idle_connections(&self) -> usize {
        self.pool.idle_count()
    }

    /// The connection limits of the grant with this quota.
    pub(super) fn grant_limits(&self, quota: &BufferQuota) -> Arc<GrantLimits> {
        self.pool.limits.grant_limits(quota)
    }

    pub(super) fn is_legacy(&self) -> bool {
        self.legacy.load(Ordering::Relaxed)
    }

    pub(in crate::upstream) fn set_legacy(&self) {
        self.legacy.store(true, Ordering::Relaxed);
    }

    /// Posts a message to the server's address.
    pub(super) async fn post(
        &self,
        limits: &GrantLimits,
        session_headers: &SessionHeaders,
        out: &UpstreamMessage,
    ) -> Result<Response<ResponseBody>, UpstreamError> {
        self.post_at(&self.uri, limits, session_headers, out).await
    }

    /// Posts a message to an address of this server.
    pub(super) async fn post_at(
        &self,
        uri: &Uri,
        limits: &GrantLimits,
        session_headers: &SessionHeaders,
        out: &UpstreamMessage,
    ) -> Result<Response<ResponseBody>, UpstreamError> {
        let make_request = |table| {
            let accept = if out.prefers_stream { STREAM_FIRST } else { EITHER };
            let mut headers = self.headers(table, accept, session_headers, &out.headers);
            headers.insert(CONTENT_TYPE, JSON);
            request(Method::POST, uri, headers, out.body.clone())
        };
        let times = (out.began.unwrap_or_else(Instant::now), out.client_pause.as_ref());
        self.pool.exchange(limits, SlotKind::Request, out.stays_open, times, make_request).await
    }

    /// Sends a request without a body, for a stream or to end a session.
    pub(super) async fn request_without_body(
        &self,
        limits: &GrantLimits,
        method: &Method,
        accept: &HeaderValue,
        session_headers: &SessionHeaders,
        more: Option<&(HeaderName, HeaderValue)>,
    ) -> Result<Response<ResponseBody>, UpstreamError> {
        let is_stream = method == Method::GET;
        let kind = if is_stream { SlotKind::Listen } else { SlotKind::Request };
        let make_request = |table| {
            let mut headers = self.headers(table, accept.clone(), session_headers, &[]);
            headers.extend(more.cloned());
            request(method.clone(), &self.uri, headers, Bytes::new())
        };
        let times = (Instant::now(), None);
        self.pool.exchange(limits, kind, is_stream, times, make_request).await
    }

    /// The headers of one request: the gate's, the message's, and the configured ones, which take precedence.
    /// `headers` is empty.
    fn headers(
        &self,
        mut headers: HeaderMap,
        accept: HeaderValue,
        session_headers: &SessionHeaders,
        given: &[(HeaderName, HeaderValue)],
    ) -> HeaderMap {
        const OURS: usize = 8;
        headers.reserve(OURS + given.len() + self.headers.len());
        headers.insert(HOST, self.pool.dialer().authority.clone());
        headers.insert(ACCEPT, accept);
        if let Some(session) = &session_headers.session {
            headers.insert(SESSION_ID, session.clone());
        }
        if let Some(version) = &session_headers.version {
            headers.insert(PROTOCOL_VERSION, version.clone());
        }
        if let Some(via) = &session_headers.via {
            headers.insert(VIA, via.clone());
        }
        if let Some(authorization) = &session_headers.authorization {
            headers.insert(AUTHORIZATION, authorization.clone());
        }
        for (name, value) in given.iter().filter(|(name, _)| is_forwarded(name)) {
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

    /// Checks that a message was accepted.
    pub(super) async fn check_accepted(
        &self,
        response: Response<ResponseBody>,
    ) -> Result<(), UpstreamError> {
        if response.status().is_success() {
            response.into_body().finish(&self.bounds);
            return Ok(());
        }
        Err(self.refusal(response).await)
    }

    /// An HTTP error with the beginning of its body.
    pub(super) async fn refusal(&self, response: Response<ResponseBody>) -> UpstreamError {
        let status = response.status().as_u16();
        match response.into_body().prefix(self.bounds.refusal_bytes_max).await {
            Ok(body) => UpstreamError::Status { status, body },
            Err(error) => error,
        }
    }

    /// The endpoint that the server names for messages. It must have the same origin, because the configured
    /// headers are sent there.
    pub(in crate::upstream) fn endpoint(&self, named: &str) -> Result<Uri, UpstreamError> {
        let refused =
            || UpstreamError::never_sent("its stream names an endpoint of another server");
        let url = self.url.join(named.trim()).map_err(|_| refused())?;
        if url.origin() != self.url.origin() {
            return Err(refused());
        }
        target(&url).ok_or_else(refused)
    }
}

/// The request target.
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
