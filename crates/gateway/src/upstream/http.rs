//! The link to a server over streamable HTTP: fresh headers out, bytes back, one session remembered.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, HOST, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode, Uri};
use policy::json::{Bounds, Doc, Value};

use super::body::Body;
use super::dial::{Dialer, TargetRefused};
use super::error::UpstreamError;
use super::events::Events;
use super::headers::{
    EITHER, EVENT_STREAM, JSON, LAST_EVENT_ID, Media, PROTOCOL_VERSION, SESSION_ID, configured,
    may_travel, media_type,
};
use super::message::{Kind, Outgoing};
use super::options::{HttpBounds, HttpOptions, Waits};
use super::pass::Pass;
use super::pool::{Pool, Purpose};
use super::{Listening, Reply};
use crate::wire::Id;

/// A server reached over HTTP, with the connections to it. Its links share them.
pub struct HttpServer {
    pool: Arc<Pool>,
    uri: Uri,
    headers: HeaderMap,
    waits: Waits,
    bounds: HttpBounds,
}

impl HttpServer {
    pub fn new(options: HttpOptions) -> Result<Arc<HttpServer>, TargetRefused> {
        let dialer = Dialer::new(&options)?;
        let target = &options.url[url::Position::BeforePath..url::Position::AfterQuery];
        let uri = target.parse().map_err(|_| TargetRefused::NoHost)?;
        Ok(Arc::new(HttpServer {
            pool: Pool::new(dialer, &options.waits, &options.bounds),
            uri,
            headers: configured(options.headers)?,
            waits: options.waits,
            bounds: options.bounds,
        }))
    }

    /// Connections kept for the next request.
    pub fn idle_connections(&self) -> usize {
        self.pool.idle_count()
    }

    /// The headers of every request: ours, then the owner's.
    fn base_headers(&self, accept: HeaderValue) -> HeaderMap {
        const OURS: usize = 8;
        let mut headers = HeaderMap::with_capacity(OURS + self.headers.len());
        headers.insert(HOST, self.pool.dialer().authority.clone());
        headers.insert(ACCEPT, accept);
        headers
    }
}

/// One conversation with an HTTP server.
pub struct HttpLink {
    server: Arc<HttpServer>,
    state: Mutex<Conversation>,
}

#[derive(Clone, Default)]
struct Conversation {
    session: Option<HeaderValue>,
    version: Option<HeaderValue>,
}

impl HttpLink {
    pub fn new(server: Arc<HttpServer>) -> HttpLink {
        HttpLink { server, state: Mutex::new(Conversation::default()) }
    }

    /// The session the server gave us, if it did.
    pub fn session(&self) -> Option<String> {
        let state = self.lock();
        state.session.as_ref().and_then(|id| id.to_str().ok()).map(str::to_owned)
    }

    /// The server does not know the session any more (404): the next `initialize` opens another.
    pub fn forget_session(&self) {
        self.lock().session = None;
    }

    /// The revision that was agreed on; from now on every request names it.
    pub fn set_protocol_version(&self, version: &str) {
        self.lock().version = HeaderValue::try_from(version).ok();
    }

    fn lock(&self) -> MutexGuard<'_, Conversation> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub async fn request(&self, _pass: &Pass, out: Outgoing) -> Result<Reply, UpstreamError> {
        let response = self.post(&out).await?;
        if out.opens_session
            && let Some(id) = response.headers().get(SESSION_ID)
        {
            self.lock().session = Some(id.clone());
        }
        let answers = match out.kind {
            Kind::Request(id) => Some(id),
            Kind::Notification | Kind::Response => None,
        };
        self.reply(response, answers).await
    }

    pub async fn send(&self, _pass: &Pass, out: Outgoing) -> Result<(), UpstreamError> {
        let response = self.post(&out).await?;
        let status = response.status();
        if status.is_success() {
            response.into_body().finish(&self.server.bounds);
            return Ok(());
        }
        let body = response.into_body().beginning(self.server.bounds.refusal_bytes_max).await?;
        Err(UpstreamError::Status { status: status.as_u16(), body })
    }

    /// The stream of what the server says on its own, from after an event on if one is named.
    pub async fn listen(
        &self,
        _pass: &Pass,
        last_event_id: Option<&str>,
    ) -> Result<Listening, UpstreamError> {
        let last_event_id = last_event_id
            .map(HeaderValue::try_from)
            .transpose()
            .map_err(|_| UpstreamError::never_sent("the event id is not fit for a header"))?;
        let make_request = || {
            let mut headers = self.headers(EVENT_STREAM, &[]);
            if let Some(id) = &last_event_id {
                headers.insert(LAST_EVENT_ID, id.clone());
            }
            self.bare_request(Method::GET, headers)
        };
        let response = self.server.pool.exchange(Purpose::Listen, true, make_request).await?;
        if response.status() == StatusCode::METHOD_NOT_ALLOWED {
            response.into_body().finish(&self.server.bounds);
            return Ok(Listening::NotOffered);
        }
        if !response.status().is_success() {
            return Err(self.refusal(response).await);
        }
        match understood(response.headers())? {
            Some(Media::EventStream) => Ok(Listening::Open(self.events(response, None))),
            _ => Err(wrong_type()),
        }
    }

    /// Tells the server that the session is over, if there is one. It need not care.
    pub async fn close(&self) {
        if self.lock().session.is_none() {
            return;
        }
        let make_request = || self.bare_request(Method::DELETE, self.headers(EITHER, &[]));
        let farewell = async {
            let response = self.server.pool.exchange(Purpose::Request, false, make_request).await?;
            response.into_body().finish(&self.server.bounds);
            Ok::<(), UpstreamError>(())
        };
        if !matches!(
            tokio::time::timeout(self.server.waits.farewell_max, farewell).await,
            Ok(Ok(()))
        ) {
            tracing::debug!("a server did not take the end of its session");
        }
        self.forget_session();
    }

    async fn post(&self, out: &Outgoing) -> Result<Response<Body>, UpstreamError> {
        let make_request = || {
            let mut headers = self.headers(EITHER, &out.headers);
            headers.insert(CONTENT_TYPE, JSON);
            let mut request = self.bare_request(Method::POST, headers);
            *request.body_mut() = Full::new(out.body.clone());
            request
        };
        self.server.pool.exchange(Purpose::Request, out.stays_open, make_request).await
    }

    fn headers(
        &self,
        accept: HeaderValue,
        given: &[(hyper::header::HeaderName, HeaderValue)],
    ) -> HeaderMap {
        let mut headers = self.server.base_headers(accept);
        let Conversation { session, version } = self.lock().clone();
        if let Some(session) = session {
            headers.insert(SESSION_ID, session);
        }
        if let Some(version) = version {
            headers.insert(PROTOCOL_VERSION, version);
        }
        for (name, value) in given {
            if may_travel(name) {
                headers.insert(name, value.clone());
            }
        }
        // The owner's word is the last.
        for (name, value) in &self.server.headers {
            headers.insert(name, value.clone());
        }
        headers
    }

    fn bare_request(&self, method: Method, headers: HeaderMap) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::default());
        *request.method_mut() = method;
        *request.uri_mut() = self.server.uri.clone();
        *request.headers_mut() = headers;
        request
    }

    async fn reply(
        &self,
        response: Response<Body>,
        answers: Option<Id>,
    ) -> Result<Reply, UpstreamError> {
        let status = response.status();
        if !status.is_success() {
            return self.refused_reply(response).await;
        }
        if status == StatusCode::ACCEPTED || status == StatusCode::NO_CONTENT {
            response.into_body().finish(&self.server.bounds);
            return Ok(Reply::Accepted);
        }
        match understood(response.headers())? {
            Some(Media::EventStream) => Ok(Reply::Many(self.events(response, answers))),
            Some(Media::Json) => {
                let body =
                    response.into_body().collect(self.server.bounds.answer_bytes_max).await?;
                Ok(Reply::One { status: status.as_u16(), body })
            }
            _ => Err(wrong_type()),
        }
    }

    /// A refusal in JSON-RPC's words is an answer; any other is a status.
    async fn refused_reply(&self, response: Response<Body>) -> Result<Reply, UpstreamError> {
        let status = response.status().as_u16();
        if understood(response.headers())? != Some(Media::Json) {
            return Err(self.refusal(response).await);
        }
        let body = response.into_body().collect(self.server.bounds.answer_bytes_max).await?;
        if is_message(&body) {
            return Ok(Reply::One { status, body });
        }
        Err(UpstreamError::Status { status, body })
    }

    async fn refusal(&self, response: Response<Body>) -> UpstreamError {
        let status = response.status().as_u16();
        match response.into_body().beginning(self.server.bounds.refusal_bytes_max).await {
            Ok(body) => UpstreamError::Status { status, body },
            Err(error) => error,
        }
    }

    fn events(&self, response: Response<Body>, answers: Option<Id>) -> Events {
        Events::of_stream(response.into_body(), answers, &self.server.bounds)
    }
}

/// What the answer claims to be. We asked for no encoding, so an encoded one is not understood.
fn understood(headers: &HeaderMap) -> Result<Option<Media>, UpstreamError> {
    match headers.get(CONTENT_ENCODING) {
        Some(encoding) if encoding != "identity" => {
            Err(UpstreamError::garbled("it is encoded, which was not asked for"))
        }
        _ => Ok(media_type(headers)),
    }
}

fn wrong_type() -> UpstreamError {
    UpstreamError::garbled("its content type is neither JSON nor an event stream")
}

fn is_message(body: &[u8]) -> bool {
    let Ok(doc) = Doc::read_shallow(body, &Bounds::ANSWER, 1) else {
        return false;
    };
    doc.root().get("jsonrpc").and_then(Value::as_str).as_deref() == Some("2.0")
}
