//! HTTP+SSE of 2024-11-05: one stream carries all messages of the server and names the endpoint for the
//! client's messages. Detected when a handshake is refused in the way of such servers.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::Uri;
use tokio::task::AbortHandle;

use super::Reply;
use super::connection_limits::GrantLimits;
use super::error::UpstreamError;
use super::events::SseStream;
use super::http::{GrantRoute, HttpServer};
use super::login::LinkLogin;
use super::message::{MessageKind, UpstreamMessage};
use super::options::{ChildBounds, Waits};
use super::pending_requests::{PendingRequests, QueueLimits};
use super::queue::QueueBounds;
use super::route;
use super::waiter::{ResponseWaiter, SharedLink};

/// Such a server names its endpoint at once. Another may open a stream and send nothing.
const ENDPOINT_WAIT_MAX: Duration = Duration::from_secs(3);

/// The statuses with which such a server refuses a POST to its stream address.
pub(super) fn may_mean_legacy(error: &UpstreamError) -> bool {
    matches!(error, UpstreamError::Status { status: 400 | 404 | 405, .. })
}

/// What belongs to the grant of a stream.
pub(super) struct ChannelGrant {
    pub(super) limits: Arc<GrantLimits>,
    pub(super) login: Option<Arc<LinkLogin>>,
}

/// An open stream with its endpoint.
pub(super) struct SseChannel {
    server: Arc<HttpServer>,
    grant: ChannelGrant,
    endpoint: Uri,
    pending: Arc<PendingRequests>,
    pump: AbortHandle,
}

impl Drop for SseChannel {
    fn drop(&mut self) {
        self.pump.abort();
    }
}

impl SseChannel {
    /// Takes over a stream whose first event must name the endpoint.
    pub(super) async fn open(
        server: Arc<HttpServer>,
        grant: ChannelGrant,
        mut stream: SseStream,
        waits: &Waits,
    ) -> Result<Arc<SseChannel>, UpstreamError> {
        let wait_max = waits.connect_max.min(ENDPOINT_WAIT_MAX);
        let first = tokio::time::timeout(wait_max, stream.next_named()).await;
        let Ok(Ok(Some(event))) = first else {
            return Err(UpstreamError::never_sent("its stream does not name an endpoint"));
        };
        if event.event.as_deref() != Some("endpoint") {
            return Err(UpstreamError::never_sent("its stream does not name an endpoint"));
        }
        // Only such a server sends this event.
        server.set_legacy();
        let endpoint = server.endpoint(&String::from_utf8_lossy(&event.data))?;
        let pending = Arc::new(PendingRequests::new(queue_limits()));
        let pump = tokio::spawn(pump(stream, Arc::clone(&pending))).abort_handle();
        Ok(Arc::new(SseChannel { server, grant, endpoint, pending, pump }))
    }

    pub(super) fn pending(&self) -> &PendingRequests {
        &self.pending
    }

    /// Whether the server's stream has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.pump.is_finished()
    }

    pub(super) async fn request(
        self: &Arc<SseChannel>,
        out: &UpstreamMessage,
        waits: &Waits,
    ) -> Result<Reply, UpstreamError> {
        let MessageKind::Request(id) = &out.kind else {
            return Err(UpstreamError::never_sent("it is not a request"));
        };
        let waiter =
            ResponseWaiter::enter(SharedLink::SseChannel(Arc::clone(self)), id, out, waits)?;
        // From here on the server may have received it.
        waiter.request.begin();
        self.send(out).await?;
        waiter.reply().await
    }

    pub(super) async fn send(&self, out: &UpstreamMessage) -> Result<(), UpstreamError> {
        let ChannelGrant { limits, login } = &self.grant;
        let route = GrantRoute { server: &self.server, limits, login: login.as_deref() };
        route.post_to(&self.endpoint, out).await
    }

    /// Sends a notification without waiting.
    pub(super) fn send_message(self: &Arc<SseChannel>, body: Bytes) {
        let channel = Arc::clone(self);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(
                async move { channel.send(&UpstreamMessage::notification(body)).await.ok() },
            );
        }
    }
}

/// The same queue limits as for a child.
fn queue_limits() -> QueueLimits {
    let bounds = ChildBounds::default();
    QueueLimits {
        request: QueueBounds { items_max: bounds.backlog_max, bytes_max: bounds.backlog_bytes_max },
        unclaimed: QueueBounds {
            items_max: bounds.unclaimed_max,
            bytes_max: bounds.unclaimed_bytes_max,
        },
        slow_reader_wait_max: bounds.slow_reader_wait_max,
        // As on the stream of a POST, where server requests belong to the call.
        route_to_request: true,
    }
}

/// Delivers the messages of the stream until it ends.
async fn pump(mut stream: SseStream, pending: Arc<PendingRequests>) {
    while let Ok(Some(event)) = stream.next().await {
        if let Some(inbound) = route::inbound(&event.message).await {
            pending.deliver(&inbound, event.message).await;
        }
    }
    pending.close("the server's stream has ended");
}
