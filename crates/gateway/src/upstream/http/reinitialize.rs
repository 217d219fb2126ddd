//! Opens a new session after the server has lost the old one, with the same handshake, and repeats the request:
//! a request that was refused with its session was not processed.

use std::sync::Arc;

use hyper::header::HeaderValue;
use policy::json::{Bounds, Doc, Value};
use tokio::time::{Instant, timeout_at};

use super::HttpLink;
use super::server::SessionHeaders;
use crate::upstream::Reply;
use crate::upstream::error::{Stage, UpstreamError};
use crate::upstream::headers::SESSION_ID;
use crate::upstream::message::{MessageKind, UpstreamMessage};
use crate::upstream::sse_channel::SseChannel;
use mcp::{Id, notification_body};

/// Whether the server does not know the session: the protocol requires 404, and many servers send 400 with an
/// error that names no request.
pub(super) fn is_session_lost(
    outcome: &Result<Reply, UpstreamError>,
    out: &UpstreamMessage,
) -> bool {
    match outcome {
        Err(UpstreamError::Status { status: 404, .. }) => true,
        Ok(Reply::One { status: 400 | 404, body }) => !is_answer(body, out),
        _ => false,
    }
}

fn is_answer(message: &[u8], out: &UpstreamMessage) -> bool {
    let Ok(doc) = Doc::read_shallow(message, &Bounds::ANSWER, 1) else { return false };
    let id = doc.root().get("id").and_then(Id::lenient);
    matches!(&out.kind, MessageKind::Request(asked) if id.as_ref() == Some(asked))
}

impl HttpLink {
    /// Opens a new session and sends the request in it.
    pub(super) async fn retry_in_new_session(
        &self,
        lost: &SessionHeaders,
        out: &UpstreamMessage,
    ) -> Result<Reply, UpstreamError> {
        let total_max = self.server.waits.total_max;
        let until = out.began.unwrap_or_else(Instant::now) + total_max;
        let initialized_again = match timeout_at(until, self.reinitialize(lost)).await {
            Ok(initialized_again) => initialized_again,
            Err(_) => Err(UpstreamError::TimedOut { stage: Stage::Total, after: total_max }),
        };
        initialized_again.map_err(|error| reinitialize_failed(&error))?;
        self.post_request(&self.session_headers(), out).await
    }

    /// Sends a request to a server with HTTP+SSE, on a new stream if this one has ended.
    pub(super) async fn request_on(
        &self,
        channel: Arc<SseChannel>,
        out: &UpstreamMessage,
    ) -> Result<Reply, UpstreamError> {
        let waits = &self.server.waits;
        if out.opens_session {
            self.lock().initialize_request = Some(Box::new(out.clone()));
        } else if channel.has_ended() {
            let channel =
                self.reopen_channel(channel).await.map_err(|error| reinitialize_failed(&error))?;
            return channel.request(out, waits).await;
        }
        channel.request(out, waits).await
    }

    async fn reopen_channel(
        &self,
        ended: Arc<SseChannel>,
    ) -> Result<Arc<SseChannel>, UpstreamError> {
        let _first = self.reinitializing.lock().await;
        if let Some(channel) = self.channel().filter(|now| !Arc::ptr_eq(now, &ended)) {
            return Ok(channel);
        }
        let initialized_again = async {
            let Some(initialize_request) = self.lock().initialize_request.clone() else {
                return Err(UpstreamError::Closed);
            };
            let channel = self.open_channel().await?;
            let reply = channel.request(&initialize_request, &self.server.waits).await?;
            agreed_version(reply, &initialize_request).await?;
            channel.send(&initialized()).await?;
            for draft in self.restore_state.restore_requests() {
                channel.send(&draft).await.ok();
            }
            Ok(channel)
        };
        let initialized_again = initialized_again.await;
        if initialized_again.is_err() {
            // The next request tries again.
            self.lock().channel = Some(ended);
        }
        initialized_again
    }

    /// Requests that lost the same session wait for the first of them.
    async fn reinitialize(&self, lost: &SessionHeaders) -> Result<(), UpstreamError> {
        let _first = self.reinitializing.lock().await;
        if self.session_headers().session != lost.session {
            return Ok(());
        }
        let Some(initialize_request) = self.lock().initialize_request.clone() else {
            return Err(UpstreamError::Closed);
        };
        tracing::info!("a server lost its session; initializing again");
        let fresh = SessionHeaders { via: lost.via.clone(), ..SessionHeaders::default() };
        let response = self.post(&fresh, &initialize_request).await?;
        let session = response.headers().get(SESSION_ID).cloned();
        let reply = self.reply(response, None).await?;
        let version = agreed_version(reply, &initialize_request).await?;
        {
            let mut state = self.lock();
            state.session_headers.session = session;
            state.session_headers.version = HeaderValue::try_from(version).ok();
        }
        let told = self.post(&self.session_headers(), &initialized()).await?;
        self.check_accepted(told).await?;
        for draft in self.restore_state.restore_requests() {
            // The call continues even if this fails.
            if let Ok(response) = self.post(&self.session_headers(), &draft).await {
                self.check_accepted(response).await.ok();
            }
        }
        Ok(())
    }
}

fn initialized() -> UpstreamMessage {
    UpstreamMessage::notification(notification_body("notifications/initialized", None).into())
}

fn reinitialize_failed(error: &UpstreamError) -> UpstreamError {
    UpstreamError::never_sent(format!(
        "the session was lost and could not be initialized again: {error}"
    ))
}

/// The revision in a handshake response.
async fn agreed_version(
    reply: Reply,
    initialize_request: &UpstreamMessage,
) -> Result<String, UpstreamError> {
    let answer = match reply {
        Reply::One { body, .. } => Some(body),
        Reply::Many(mut events) => loop {
            match events.next().await.transpose()? {
                Some(event) if is_answer(&event.message, initialize_request) => {
                    break Some(event.message);
                }
                Some(_) => {}
                None => break None,
            }
        },
        Reply::Builtin { .. } | Reply::Accepted => None,
    };
    let version = answer.as_deref().and_then(|answer| {
        let doc = Doc::read(answer, &Bounds::ANSWER).ok()?;
        let version = doc.root().get("result")?.get("protocolVersion").and_then(Value::as_str)?;
        Some(version.into_owned())
    });
    version.ok_or_else(|| UpstreamError::garbled("the second handshake was refused"))
}
