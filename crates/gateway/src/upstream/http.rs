//! The link to a server over HTTP, with its session.

mod reinitialize;
mod server;
mod signed_in;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hyper::header::{CONTENT_ENCODING, HeaderMap, HeaderValue};
use hyper::{Method, Response, StatusCode};
use policy::json::{Bounds, Doc, Value};
use tokio::time::Instant;

pub use server::HttpServer;
pub(super) use signed_in::GrantRoute;

use super::body::ResponseBody;
use super::connection_limits::GrantLimits;
use super::error::UpstreamError;
use super::events::{Events, SseStream};
use super::headers::{EITHER, EVENT_STREAM, LAST_EVENT_ID, Media, SESSION_ID, media_type};
use super::login::LinkLogin;
use super::mask::Mask;
use super::message::{MessageKind, UpstreamMessage};
use super::permitted::{Permit, PermittedRequest};
use super::restore::RestoreState;
use super::sse_channel::{ChannelGrant, SseChannel, may_mean_legacy};
use super::waiter::{SharedLink, UnclaimedListener};
use super::{Reply, ServerStream};
use crate::runtime::response_buffer::BufferQuota;
use mcp::Id;
use reinitialize::is_session_lost;
use server::SessionHeaders;
use signed_in::BodylessRequest;

/// A link to an HTTP server.
pub struct HttpLink {
    server: Arc<HttpServer>,
    state: Mutex<State>,
    /// Held while the session is initialized again.
    reinitializing: tokio::sync::Mutex<()>,
    restore_state: RestoreState,
    quota: BufferQuota,
    limits: Arc<GrantLimits>,
    /// None for a server whose token the owner configured as a header.
    login: Option<Arc<LinkLogin>>,
}

#[derive(Default)]
struct State {
    session_headers: SessionHeaders,
    /// The request that opened the session.
    initialize_request: Option<Box<UpstreamMessage>>,
    /// The stream of a server with HTTP+SSE of 2024-11-05.
    channel: Option<Arc<SseChannel>>,
}

impl HttpLink {
    pub fn new(server: Arc<HttpServer>) -> HttpLink {
        let (state, reinitializing) = (Mutex::default(), tokio::sync::Mutex::default());
        let (restore_state, quota) = (RestoreState::default(), BufferQuota::default());
        let limits = server.grant_limits(&quota);
        HttpLink { server, state, reinitializing, restore_state, quota, limits, login: None }
    }

    /// Uses the login of this grant.
    #[must_use]
    pub fn with_login_of(self, grant: &str) -> HttpLink {
        let login = self.server.login.as_ref().map(|login| Arc::new(login.of_grant(grant)));
        HttpLink { login, ..self }
    }

    /// Uses this quota for large responses and connections.
    #[must_use]
    pub fn on(self, quota: BufferQuota) -> HttpLink {
        HttpLink { limits: self.server.grant_limits(&quota), quota, ..self }
    }

    pub fn restore_state(&self) -> &RestoreState {
        &self.restore_state
    }

    /// The session id from the server.
    pub fn session(&self) -> Option<String> {
        let state = self.lock();
        state.session_headers.session.as_ref().and_then(|id| id.to_str().ok()).map(str::to_owned)
    }

    /// Sets the negotiated revision, which every later request names.
    pub fn set_protocol_version(&self, version: &str) {
        self.lock().session_headers.version = HeaderValue::try_from(version).ok();
    }

    /// Sets the `Via` header of every later request.
    pub fn set_via(&self, via: HeaderValue) {
        self.lock().session_headers.via = Some(via);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn session_headers(&self) -> SessionHeaders {
        self.lock().session_headers.clone()
    }

    fn channel(&self) -> Option<Arc<SseChannel>> {
        self.lock().channel.clone()
    }

    /// Whether the server uses HTTP+SSE of 2024-11-05, with one stream for all messages.
    pub fn shares_stream(&self) -> bool {
        self.lock().channel.is_some()
    }

    /// Sends a request. The reply is not masked yet; [`Link`](super::Link) does that, which keeps the future of
    /// a call small.
    pub(super) fn request_unmasked<'a>(
        &'a self,
        _permit: &Permit,
        out: UpstreamMessage,
    ) -> impl Future<Output = Result<Reply, UpstreamError>> + use<'a> {
        self.exchange(out)
    }

    pub async fn request(
        &self,
        permit: &Permit,
        out: UpstreamMessage,
    ) -> Result<Reply, UpstreamError> {
        self.masked(self.request_unmasked(permit, out).await).await
    }

    /// The same for a request that was permitted before.
    pub async fn request_permitted(
        &self,
        permitted: PermittedRequest,
    ) -> Result<Reply, UpstreamError> {
        self.masked(self.exchange(permitted.0).await).await
    }

    /// The outcome without the server's secrets.
    pub(super) async fn masked(
        &self,
        outcome: Result<Reply, UpstreamError>,
    ) -> Result<Reply, UpstreamError> {
        let mut outcome = outcome;
        for mask in self.masks() {
            outcome = match outcome {
                Ok(reply) => Ok(reply.masked(&mask).await),
                Err(error) => Err(mask.error(error)),
            };
        }
        outcome
    }

    /// The configured secrets, and those of the login.
    fn masks(&self) -> impl Iterator<Item = Arc<Mask>> + use<> {
        let of_login = self.login.as_ref().and_then(|login| login.mask());
        self.server.mask.clone().into_iter().chain(of_login)
    }

    fn without_secrets(&self, error: UpstreamError) -> UpstreamError {
        self.masks().fold(error, |error, mask| mask.error(error))
    }

    pub(super) fn has_secrets(&self) -> bool {
        self.server.mask.is_some() || self.login.as_ref().is_some_and(|login| login.is_used())
    }

    async fn exchange(&self, mut out: UpstreamMessage) -> Result<Reply, UpstreamError> {
        out.began.get_or_insert_with(Instant::now);
        // Rare paths are boxed, so that a call in flight takes little memory.
        if out.opens_session && self.server.is_legacy() {
            Box::pin(self.open_channel()).await?;
        }
        if let Some(channel) = self.channel() {
            return Box::pin(self.request_on(channel, &out)).await;
        }
        let session_headers = self.session_headers();
        let error = match self.post_request(&session_headers, &out).await {
            outcome if session_headers.session.is_some() && is_session_lost(&outcome, &out) => {
                return Box::pin(self.retry_in_new_session(&session_headers, &out)).await;
            }
            Err(error) if out.opens_session && may_mean_legacy(&error) => error,
            outcome => return outcome,
        };
        match Box::pin(self.open_channel()).await {
            Ok(channel) => Box::pin(self.request_on(channel, &out)).await,
            // It uses HTTP+SSE or wants a sign-in for the stream, so this error is the relevant one.
            Err(why) if self.server.is_legacy() || matches!(why, UpstreamError::SignIn { .. }) => {
                Err(why)
            }
            Err(_) => Err(error),
        }
    }

    pub async fn send(&self, _permit: &Permit, out: UpstreamMessage) -> Result<(), UpstreamError> {
        let sent = Box::pin(self.send_unmasked(out)).await;
        sent.map_err(|error| self.without_secrets(error))
    }

    async fn send_unmasked(&self, out: UpstreamMessage) -> Result<(), UpstreamError> {
        if let Some(channel) = self.channel() {
            return channel.send(&out).await;
        }
        let response = self.post(&self.session_headers(), &out).await?;
        self.check_accepted(response).await
    }

    /// The stream of messages outside responses, from after an event id if one is given.
    pub async fn listen(
        &self,
        _permit: &Permit,
        last_event_id: Option<&str>,
    ) -> Result<ServerStream, UpstreamError> {
        match Box::pin(self.listen_unmasked(last_event_id)).await {
            Ok(listening) => {
                Ok(self.masks().fold(listening, |listening, mask| listening.masked(&mask)))
            }
            Err(error) => Err(self.without_secrets(error)),
        }
    }

    async fn listen_unmasked(
        &self,
        last_event_id: Option<&str>,
    ) -> Result<ServerStream, UpstreamError> {
        if let Some(channel) = self.channel() {
            let listener = UnclaimedListener::enter(SharedLink::SseChannel(channel))?;
            return Ok(ServerStream::Open(Events::of_listener(listener)));
        }
        let last_event_id = last_event_id
            .map(|id| HeaderValue::try_from(id).map(|id| (LAST_EVENT_ID, id)))
            .transpose()
            .map_err(|_| UpstreamError::never_sent("the event id is not a valid header value"))?;
        let session_headers = self.session_headers();
        let get = BodylessRequest {
            method: Method::GET,
            accept: EVENT_STREAM,
            more: last_event_id.as_ref(),
        };
        let response = self.request_without_body(&session_headers, &get).await?;
        if response.status() == StatusCode::METHOD_NOT_ALLOWED {
            response.into_body().finish(&self.server.bounds);
            return Ok(ServerStream::NotOffered);
        }
        let body = self.stream_of(response).await?;
        Ok(ServerStream::Open(Events::of_stream(body, None, &self.server.bounds, &self.quota)))
    }

    /// Deletes the session. Errors are ignored.
    pub async fn close(&self) {
        let session_headers = {
            let mut state = self.lock();
            state.channel = None;
            std::mem::take(&mut state.session_headers)
        };
        if session_headers.session.is_none() {
            return;
        }
        let delete = async {
            let delete = BodylessRequest { method: Method::DELETE, accept: EITHER, more: None };
            let response = self.request_without_body(&session_headers, &delete).await?;
            self.server.check_accepted(response).await
        };
        let said = tokio::time::timeout(self.server.waits.delete_session_max, delete).await;
        if !matches!(said, Ok(Ok(()))) {
            tracing::debug!("a server did not accept the end of its session");
        }
    }

    async fn post_request(
        &self,
        session_headers: &SessionHeaders,
        out: &UpstreamMessage,
    ) -> Result<Reply, UpstreamError> {
        let response = match self.login_in_use() {
            None => self.server.post(&self.limits, session_headers, out).await?,
            Some(login) => Box::pin(self.post_signed_in(login, session_headers, out)).await?,
        };
        if out.opens_session
            && let Some(id) = response.headers().get(SESSION_ID)
        {
            let mut state = self.lock();
            state.session_headers.session = Some(id.clone());
            state.initialize_request = Some(Box::new(out.clone()));
        }
        let answers = match &out.kind {
            MessageKind::Request(id) => Some(id.clone()),
            MessageKind::Notification | MessageKind::Response => None,
        };
        self.reply(response, answers).await
    }

    async fn reply(
        &self,
        response: Response<ResponseBody>,
        answers: Option<Id>,
    ) -> Result<Reply, UpstreamError> {
        let (status, bounds) = (response.status(), &self.server.bounds);
        if !status.is_success() {
            return Box::pin(self.refused_reply(response)).await;
        }
        if status == StatusCode::ACCEPTED || status == StatusCode::NO_CONTENT {
            response.into_body().finish(bounds);
            return Ok(Reply::Accepted);
        }
        match understood(response.headers())? {
            Some(Media::EventStream) => Ok(Reply::Many(Events::of_stream(
                response.into_body(),
                answers,
                bounds,
                &self.quota,
            ))),
            Some(Media::Json) => {
                let body = ResponseBody::of(response)
                    .collect(bounds.answer_bytes_max, &self.quota)
                    .await?;
                Ok(Reply::One { status: status.as_u16(), body })
            }
            _ => Err(wrong_type()),
        }
    }

    /// A JSON-RPC error is a response. Anything else is a status error, also a redirect, which is never
    /// followed or forwarded.
    async fn refused_reply(
        &self,
        response: Response<ResponseBody>,
    ) -> Result<Reply, UpstreamError> {
        if let Some(error) = self.login_refusal(&response).await {
            response.into_body().finish(&self.server.bounds);
            return Err(error);
        }
        let elsewhere = response.status().is_redirection();
        let status = response.status().as_u16();
        if elsewhere || understood(response.headers())? != Some(Media::Json) {
            return Err(self.server.refusal(response).await);
        }
        let body =
            response.into_body().collect(self.server.bounds.answer_bytes_max, &self.quota).await?;
        if is_message(&body) {
            return Ok(Reply::One { status, body });
        }
        Err(UpstreamError::Status { status, body })
    }

    /// Opens the stream of a server with HTTP+SSE of 2024-11-05.
    async fn open_channel(&self) -> Result<Arc<SseChannel>, UpstreamError> {
        let server = &self.server;
        let session_headers = SessionHeaders::default();
        let get = BodylessRequest { method: Method::GET, accept: EVENT_STREAM, more: None };
        let response = self.request_without_body(&session_headers, &get).await?;
        let stream =
            SseStream::new(self.stream_of(response).await?, None, &server.bounds, &self.quota);
        let grant = ChannelGrant { limits: Arc::clone(&self.limits), login: self.login.clone() };
        let channel = SseChannel::open(Arc::clone(server), grant, stream, &server.waits).await?;
        self.lock().channel = Some(Arc::clone(&channel));
        Ok(channel)
    }

    /// The body of a response that must be an event stream.
    async fn stream_of(
        &self,
        response: Response<ResponseBody>,
    ) -> Result<ResponseBody, UpstreamError> {
        if !response.status().is_success() {
            return Err(self.refusal(response).await);
        }
        match understood(response.headers())? {
            Some(Media::EventStream) => Ok(response.into_body()),
            _ => Err(wrong_type()),
        }
    }
}

/// The media type of a response. No encoding was requested, so an encoded response is an error.
fn understood(headers: &HeaderMap) -> Result<Option<Media>, UpstreamError> {
    match headers.get(CONTENT_ENCODING) {
        Some(encoding) if encoding != "identity" => {
            Err(UpstreamError::garbled("it has a content encoding, which was not requested"))
        }
        _ => Ok(media_type(headers)),
    }
}

fn wrong_type() -> UpstreamError {
    UpstreamError::garbled("its content type is neither JSON nor an event stream")
}

fn is_message(body: &[u8]) -> bool {
    let Ok(doc) = Doc::read_shallow(body, &Bounds::ANSWER, 1) else { return false };
    doc.root().get("jsonrpc").and_then(Value::as_str).as_deref() == Some("2.0")
}
