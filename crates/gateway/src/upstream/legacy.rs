//! HTTP+SSE of 2024-11-05: one stream carries everything the server says and names the address that
//! takes our messages. Found out when a handshake is refused the way only such servers refuse it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::Uri;
use tokio::task::AbortHandle;

use super::Reply;
use super::error::UpstreamError;
use super::events::Stream;
use super::http::HttpServer;
use super::inflight::{Allowance, InFlight};
use super::message::{Kind, Outgoing};
use super::options::{ChildBounds, Waits};
use super::places::Part;
use super::queue::Room;
use super::route;
use super::waiter::{Shared, Waiter};

/// Such a server names its address at once; another may open a stream and say nothing.
const ENDPOINT_WAIT_MAX: Duration = Duration::from_secs(3);

/// The statuses with which such a server refuses a POST to the address of its stream.
pub(super) fn may_mean_legacy(error: &UpstreamError) -> bool {
    matches!(error, UpstreamError::Status { status: 400 | 404 | 405, .. })
}

/// An open stream and the address that belongs to it.
pub(super) struct Channel {
    server: Arc<HttpServer>,
    part: Arc<Part>,
    endpoint: Uri,
    in_flight: Arc<InFlight>,
    pump: AbortHandle,
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.pump.abort();
    }
}

impl Channel {
    /// Takes over a stream whose first event must name the address for messages.
    pub(super) async fn open(
        server: Arc<HttpServer>,
        part: Arc<Part>,
        mut stream: Stream,
        waits: &Waits,
    ) -> Result<Arc<Channel>, UpstreamError> {
        let wait_max = waits.connect_max.min(ENDPOINT_WAIT_MAX);
        let first = tokio::time::timeout(wait_max, stream.next_named()).await;
        let Ok(Ok(Some(event))) = first else {
            return Err(UpstreamError::never_sent("its stream does not name an address"));
        };
        if event.event.as_deref() != Some("endpoint") {
            return Err(UpstreamError::never_sent("its stream does not name an address"));
        }
        // Only such a server says this, whatever it names.
        server.set_legacy();
        let endpoint = server.endpoint(&String::from_utf8_lossy(&event.data))?;
        let in_flight = Arc::new(InFlight::new(allowance()));
        let pump = tokio::spawn(pump(stream, Arc::clone(&in_flight))).abort_handle();
        Ok(Arc::new(Channel { server, part, endpoint, in_flight, pump }))
    }

    pub(super) fn in_flight(&self) -> &InFlight {
        &self.in_flight
    }

    /// Whether the server's stream is over, and with it the conversation.
    pub(super) fn has_ended(&self) -> bool {
        self.pump.is_finished()
    }

    pub(super) async fn request(
        self: &Arc<Channel>,
        out: &Outgoing,
        waits: &Waits,
    ) -> Result<Reply, UpstreamError> {
        let Kind::Request(id) = &out.kind else {
            return Err(UpstreamError::never_sent("it is not a request"));
        };
        let waiter = Waiter::enter(Shared::Channel(Arc::clone(self)), id, out, waits)?;
        // From here on the server may have seen it.
        waiter.request.begin();
        self.send(out).await?;
        waiter.reply().await
    }

    pub(super) async fn send(&self, out: &Outgoing) -> Result<(), UpstreamError> {
        self.server.post_to(&self.endpoint, &self.part, out).await
    }

    /// Tells the server something that nobody waits for.
    pub(super) fn tell(self: &Arc<Channel>, body: Bytes) {
        let channel = Arc::clone(self);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { channel.send(&Outgoing::notification(body)).await.ok() });
        }
    }
}

/// What waits for readers here is bounded as for a child.
fn allowance() -> Allowance {
    let bounds = ChildBounds::default();
    Allowance {
        request: Room { items_max: bounds.backlog_max, bytes_max: bounds.backlog_bytes_max },
        unheard: Room { items_max: bounds.unheard_max, bytes_max: bounds.unheard_bytes_max },
        slow_reader_wait_max: bounds.slow_reader_wait_max,
        // As on a POST's own stream, where what the server asks comes with the call it asks for.
        route_to_request: true,
    }
}

/// Hands every message of the stream to whom it belongs, until the stream ends.
async fn pump(mut stream: Stream, in_flight: Arc<InFlight>) {
    while let Ok(Some(event)) = stream.next().await {
        if let Some(inbound) = route::inbound(&event.message).await {
            in_flight.deliver(&inbound, event.message).await;
        }
    }
    in_flight.close("the server's stream has ended");
}
