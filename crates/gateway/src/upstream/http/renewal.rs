//! A server that was restarted, or whose sessions expire, knows nothing of ours any more. It is greeted
//! again in the words of before and asked again: what it turned away with its session it did not work on.

use std::sync::Arc;

use hyper::header::HeaderValue;
use policy::json::{Bounds, Doc, Value};

use super::HttpLink;
use super::server::Conversation;
use crate::upstream::Reply;
use crate::upstream::error::UpstreamError;
use crate::upstream::headers::SESSION_ID;
use crate::upstream::legacy::Channel;
use crate::upstream::message::{Kind, Outgoing};
use crate::wire::{Id, notification_body};

/// Whether a server says that it does not know the session of a request: the protocol wants 404 for that,
/// many servers say 400, and the error is then nobody's answer.
pub(super) fn is_lost(outcome: &Result<Reply, UpstreamError>, out: &Outgoing) -> bool {
    match outcome {
        Err(UpstreamError::Status { status: 404, .. }) => true,
        Ok(Reply::One { status: 400 | 404, body }) => !is_answer(body, out),
        _ => false,
    }
}

fn is_answer(message: &[u8], out: &Outgoing) -> bool {
    let Ok(doc) = Doc::read_shallow(message, &Bounds::ANSWER, 1) else { return false };
    let id = doc.root().get("id").and_then(Id::lenient);
    matches!(&out.kind, Kind::Request(asked) if id.as_ref() == Some(asked))
}

impl HttpLink {
    /// Opens another session for the lost one and sends the request in it.
    pub(super) async fn ask_again(
        &self,
        lost: &Conversation,
        out: &Outgoing,
    ) -> Result<Reply, UpstreamError> {
        self.greet_again(lost).await.map_err(|error| not_greeted(&error))?;
        self.post_request(&self.talk(), out).await
    }

    /// Sends a request to a server that speaks HTTP+SSE, on another stream if this one has ended.
    pub(super) async fn request_on(
        &self,
        channel: Arc<Channel>,
        out: &Outgoing,
    ) -> Result<Reply, UpstreamError> {
        let waits = &self.server.waits;
        if out.opens_session {
            self.lock().hello = Some(Box::new(out.clone()));
        } else if channel.has_ended() {
            let channel = self.channel_again(channel).await.map_err(|error| not_greeted(&error))?;
            return channel.request(out, waits).await;
        }
        channel.request(out, waits).await
    }

    async fn channel_again(&self, ended: Arc<Channel>) -> Result<Arc<Channel>, UpstreamError> {
        let _first = self.greeting.lock().await;
        if let Some(channel) = self.channel().filter(|now| !Arc::ptr_eq(now, &ended)) {
            return Ok(channel);
        }
        let greeted = async {
            let Some(hello) = self.lock().hello.clone() else { return Err(UpstreamError::Closed) };
            let channel = self.open_channel().await?;
            let reply = channel.request(&hello, &self.server.waits).await?;
            agreed_version(reply, &hello).await?;
            channel.send(&initialized()).await?;
            for wish in self.wishes.told_again() {
                channel.send(&wish).await.ok();
            }
            Ok(channel)
        };
        let greeted = greeted.await;
        if greeted.is_err() {
            // The next request tries again.
            self.lock().channel = Some(ended);
        }
        greeted
    }

    /// Everybody whose session was lost waits for the first of them.
    async fn greet_again(&self, lost: &Conversation) -> Result<(), UpstreamError> {
        let _first = self.greeting.lock().await;
        if self.talk().session != lost.session {
            return Ok(());
        }
        let Some(hello) = self.lock().hello.clone() else { return Err(UpstreamError::Closed) };
        tracing::info!("a server lost its session and is greeted again");
        let fresh = Conversation { via: lost.via.clone(), ..Conversation::default() };
        let response = self.server.post(&self.part, &fresh, &hello).await?;
        let session = response.headers().get(SESSION_ID).cloned();
        let reply = self.reply(response, None).await?;
        let version = agreed_version(reply, &hello).await?;
        {
            let mut state = self.lock();
            state.talk.session = session;
            state.talk.version = HeaderValue::try_from(version).ok();
        }
        let told = self.server.post(&self.part, &self.talk(), &initialized()).await?;
        self.server.taken(told).await?;
        for wish in self.wishes.told_again() {
            // The call that found the session lost goes on without it.
            if let Ok(response) = self.server.post(&self.part, &self.talk(), &wish).await {
                self.server.taken(response).await.ok();
            }
        }
        Ok(())
    }
}

fn initialized() -> Outgoing {
    Outgoing::notification(notification_body("notifications/initialized", None).into())
}

fn not_greeted(error: &UpstreamError) -> UpstreamError {
    UpstreamError::never_sent(format!("the conversation was lost and did not begin anew: {error}"))
}

/// The revision in the answer to a handshake.
async fn agreed_version(reply: Reply, hello: &Outgoing) -> Result<String, UpstreamError> {
    let answer = match reply {
        Reply::One { body, .. } => Some(body),
        Reply::Many(mut events) => loop {
            match events.next().await.transpose()? {
                Some(event) if is_answer(&event.message, hello) => break Some(event.message),
                Some(_) => {}
                None => break None,
            }
        },
        Reply::Ours { .. } | Reply::Accepted => None,
    };
    let version = answer.as_deref().and_then(|answer| {
        let doc = Doc::read(answer, &Bounds::ANSWER).ok()?;
        let version = doc.root().get("result")?.get("protocolVersion").and_then(Value::as_str)?;
        Some(version.into_owned())
    });
    version.ok_or_else(|| UpstreamError::garbled("another handshake was refused"))
}
