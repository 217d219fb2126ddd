//! The link to a server over HTTP: bytes out, bytes back, and one session remembered.

mod renewal;
mod server;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hyper::header::{CONTENT_ENCODING, HeaderMap, HeaderValue};
use hyper::{Method, Response, StatusCode};
use policy::json::{Bounds, Doc, Value};

pub use server::HttpServer;

use super::body::Body;
use super::error::UpstreamError;
use super::events::{Events, Stream};
use super::headers::{EITHER, EVENT_STREAM, LAST_EVENT_ID, Media, SESSION_ID, media_type};
use super::legacy::{Channel, may_mean_legacy};
use super::message::{Kind, Outgoing};
use super::pass::{Pass, Passed};
use super::places::Part;
use super::waiter::{Listener, Shared};
use super::wishes::Wishes;
use super::{Listening, Reply};
use crate::room::Account;
use crate::wire::Id;
use renewal::is_lost;
use server::Conversation;

/// One conversation with an HTTP server.
pub struct HttpLink {
    server: Arc<HttpServer>,
    state: Mutex<State>,
    /// Held by the one that greets the server again.
    greeting: tokio::sync::Mutex<()>,
    wishes: Wishes,
    account: Account,
    part: Arc<Part>,
}

#[derive(Default)]
struct State {
    talk: Conversation,
    /// What opened the session.
    hello: Option<Box<Outgoing>>,
    /// The stream of a server that speaks HTTP+SSE of 2024-11-05.
    channel: Option<Arc<Channel>>,
}

impl HttpLink {
    pub fn new(server: Arc<HttpServer>) -> HttpLink {
        let (state, greeting) = (Mutex::default(), tokio::sync::Mutex::default());
        let (wishes, account) = (Wishes::default(), Account::default());
        let part = server.part_of(&account);
        HttpLink { server, state, greeting, wishes, account, part }
    }

    /// The same with its large answers and its connections on this account.
    #[must_use]
    pub fn on(self, account: Account) -> HttpLink {
        HttpLink { part: self.server.part_of(&account), account, ..self }
    }

    pub fn wishes(&self) -> &Wishes {
        &self.wishes
    }

    /// The session the server gave us, if it did.
    pub fn session(&self) -> Option<String> {
        let state = self.lock();
        state.talk.session.as_ref().and_then(|id| id.to_str().ok()).map(str::to_owned)
    }

    /// The revision that was agreed on; from now on every request names it.
    pub fn set_protocol_version(&self, version: &str) {
        self.lock().talk.version = HeaderValue::try_from(version).ok();
    }

    /// Names the gates that its messages came through, on every request from now on.
    pub fn set_via(&self, via: HeaderValue) {
        self.lock().talk.via = Some(via);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn talk(&self) -> Conversation {
        self.lock().talk.clone()
    }

    fn channel(&self) -> Option<Arc<Channel>> {
        self.lock().channel.clone()
    }

    /// Whether the server is one of 2024-11-05, which says everything on the stream it began with.
    pub fn shares_stream(&self) -> bool {
        self.lock().channel.is_some()
    }

    pub fn request<'a>(
        &'a self,
        _pass: &Pass,
        out: Outgoing,
    ) -> impl Future<Output = Result<Reply, UpstreamError>> + use<'a> {
        self.carry(out)
    }

    /// The same for a request that may be waited for without its pass.
    pub fn request_passed(
        &self,
        passed: Passed,
    ) -> impl Future<Output = Result<Reply, UpstreamError>> {
        self.carry(passed.0)
    }

    async fn carry(&self, out: Outgoing) -> Result<Reply, UpstreamError> {
        let Some(mask) = &self.server.mask else { return self.exchange(out).await };
        match self.exchange(out).await {
            Ok(reply) => Ok(Box::pin(reply.masked(mask)).await),
            Err(error) => Err(mask.error(error)),
        }
    }

    async fn exchange(&self, out: Outgoing) -> Result<Reply, UpstreamError> {
        // What is rare is boxed, so that a call holds little memory while it is away.
        if out.opens_session && self.server.is_legacy() {
            Box::pin(self.open_channel()).await?;
        }
        if let Some(channel) = self.channel() {
            return Box::pin(self.request_on(channel, &out)).await;
        }
        let talk = self.talk();
        let error = match self.post_request(&talk, &out).await {
            outcome if talk.session.is_some() && is_lost(&outcome, &out) => {
                return Box::pin(self.ask_again(&talk, &out)).await;
            }
            Err(error) if out.opens_session && may_mean_legacy(&error) => error,
            outcome => return outcome,
        };
        match Box::pin(self.open_channel()).await {
            Ok(channel) => Box::pin(self.request_on(channel, &out)).await,
            // It is such a server, so this says what is wrong with it.
            Err(why) if self.server.is_legacy() => Err(why),
            Err(_) => Err(error),
        }
    }

    pub async fn send(&self, _pass: &Pass, out: Outgoing) -> Result<(), UpstreamError> {
        let sent = self.send_unmasked(out).await;
        sent.map_err(|error| self.server.without_secrets(error))
    }

    async fn send_unmasked(&self, out: Outgoing) -> Result<(), UpstreamError> {
        if let Some(channel) = self.channel() {
            return channel.send(&out).await;
        }
        self.server.taken(self.server.post(&self.part, &self.talk(), &out).await?).await
    }

    /// The stream of what the server says on its own, from after an event on if one is named.
    pub async fn listen(
        &self,
        _pass: &Pass,
        last_event_id: Option<&str>,
    ) -> Result<Listening, UpstreamError> {
        match (self.listen_unmasked(last_event_id).await, &self.server.mask) {
            (Ok(listening), Some(mask)) => Ok(listening.masked(mask)),
            (Err(error), _) => Err(self.server.without_secrets(error)),
            (listening, None) => listening,
        }
    }

    async fn listen_unmasked(
        &self,
        last_event_id: Option<&str>,
    ) -> Result<Listening, UpstreamError> {
        if let Some(channel) = self.channel() {
            let listener = Listener::enter(Shared::Channel(channel))?;
            return Ok(Listening::Open(Events::of_listener(listener)));
        }
        let last_event_id = last_event_id
            .map(|id| HeaderValue::try_from(id).map(|id| (LAST_EVENT_ID, id)))
            .transpose()
            .map_err(|_| UpstreamError::never_sent("the event id is not fit for a header"))?;
        let talk = self.talk();
        let response = self
            .server
            .ask(&self.part, &Method::GET, &EVENT_STREAM, &talk, last_event_id.as_ref())
            .await?;
        if response.status() == StatusCode::METHOD_NOT_ALLOWED {
            response.into_body().finish(&self.server.bounds);
            return Ok(Listening::NotOffered);
        }
        let body = self.stream_of(response).await?;
        Ok(Listening::Open(Events::of_stream(body, None, &self.server.bounds, &self.account)))
    }

    /// Tells the server that the session is over, if there is one. It need not care.
    pub async fn close(&self) {
        let talk = {
            let mut state = self.lock();
            state.channel = None;
            std::mem::take(&mut state.talk)
        };
        if talk.session.is_none() {
            return;
        }
        let farewell = async {
            let response =
                self.server.ask(&self.part, &Method::DELETE, &EITHER, &talk, None).await?;
            self.server.taken(response).await
        };
        let said = tokio::time::timeout(self.server.waits.farewell_max, farewell).await;
        if !matches!(said, Ok(Ok(()))) {
            tracing::debug!("a server did not take the end of its session");
        }
    }

    async fn post_request(
        &self,
        talk: &Conversation,
        out: &Outgoing,
    ) -> Result<Reply, UpstreamError> {
        let response = self.server.post(&self.part, talk, out).await?;
        if out.opens_session
            && let Some(id) = response.headers().get(SESSION_ID)
        {
            let mut state = self.lock();
            state.talk.session = Some(id.clone());
            state.hello = Some(Box::new(out.clone()));
        }
        let answers = match &out.kind {
            Kind::Request(id) => Some(id.clone()),
            Kind::Notification | Kind::Response => None,
        };
        self.reply(response, answers).await
    }

    async fn reply(
        &self,
        response: Response<Body>,
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
                &self.account,
            ))),
            Some(Media::Json) => {
                let body =
                    Body::of(response).collect(bounds.answer_bytes_max, &self.account).await?;
                Ok(Reply::One { status: status.as_u16(), body })
            }
            _ => Err(wrong_type()),
        }
    }

    /// A refusal in JSON-RPC's words is an answer; any other is a status, and so is a redirection:
    /// nobody follows it, and the client must not read it as the gate's own.
    async fn refused_reply(&self, response: Response<Body>) -> Result<Reply, UpstreamError> {
        let elsewhere = response.status().is_redirection();
        let status = response.status().as_u16();
        if elsewhere || understood(response.headers())? != Some(Media::Json) {
            return Err(self.server.refusal(response).await);
        }
        let body = response
            .into_body()
            .collect(self.server.bounds.answer_bytes_max, &self.account)
            .await?;
        if is_message(&body) {
            return Ok(Reply::One { status, body });
        }
        Err(UpstreamError::Status { status, body })
    }

    /// Opens the stream of a server that speaks HTTP+SSE of 2024-11-05, if it is one.
    async fn open_channel(&self) -> Result<Arc<Channel>, UpstreamError> {
        let server = &self.server;
        let talk = Conversation::default();
        let response = server.ask(&self.part, &Method::GET, &EVENT_STREAM, &talk, None).await?;
        let stream =
            Stream::new(self.stream_of(response).await?, None, &server.bounds, &self.account);
        let part = Arc::clone(&self.part);
        let channel = Channel::open(Arc::clone(server), part, stream, &server.waits).await?;
        self.lock().channel = Some(Arc::clone(&channel));
        Ok(channel)
    }

    /// The body of an answer that must be an event stream.
    async fn stream_of(&self, response: Response<Body>) -> Result<Body, UpstreamError> {
        if !response.status().is_success() {
            return Err(self.server.refusal(response).await);
        }
        match understood(response.headers())? {
            Some(Media::EventStream) => Ok(response.into_body()),
            _ => Err(wrong_type()),
        }
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
    let Ok(doc) = Doc::read_shallow(body, &Bounds::ANSWER, 1) else { return false };
    doc.root().get("jsonrpc").and_then(Value::as_str).as_deref() == Some("2.0")
}
