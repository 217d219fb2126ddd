//! What a call needs from the layers above: server streams, subscriptions and a second dispatch. The gate
//! passes the implementation in, so that this module does not depend on them.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use hyper::HeaderMap;
use store::ledger::HeldCall;
use tokio::sync::broadcast;

use crate::exchange::call::IncomingRequest;
use crate::exchange::context::RequestContext;
use crate::exchange::outbound::Outbound;
use crate::exchange::subject::RequestSubject;
use crate::snapshot::ServerAccess;
use crate::upstream::peer::Peer;

/// A boxed future.
pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The layers above the exchange.
pub(crate) trait UpperLayers: Send + Sync {
    /// Dispatches a message again, after its approval or with a newer registry.
    fn dispatch_again<'a>(
        &self,
        context: &'a RequestContext,
        body: &'a Bytes,
        headers: Option<&'a HeaderMap>,
        waiting: Option<HeldCall>,
    ) -> BoxFuture<'a, Outbound>;

    /// Serves `resources/subscribe` of a legacy client at a modern server. None if the request can be
    /// forwarded.
    fn subscribe_resource<'a>(
        &self,
        incoming: &'a IncomingRequest<'a>,
        access: &'a ServerAccess,
        about: &'a RequestSubject<'a>,
    ) -> BoxFuture<'a, Option<Outbound>>;

    /// Messages that the server of a shared peer sends outside its responses, from now on.
    fn shared_messages<'a>(
        &self,
        context: &'a RequestContext,
        peer: &'a Arc<Peer>,
    ) -> BoxFuture<'a, broadcast::Receiver<Bytes>>;

    /// Keeps the stream of a shared peer's server open as long as the peer lives.
    fn keep_stream_open<'a>(
        &self,
        context: &'a RequestContext,
        peer: &'a Arc<Peer>,
    ) -> BoxFuture<'a, ()>;

    /// Opens the stream of a server that joined a session, in the background.
    fn open_session_stream(&self, context: RequestContext, peer: Arc<Peer>);

    /// Notifies a session of list changes of a process that all clients share, in the background.
    fn follow_shared_lists(&self, context: RequestContext, peer: Arc<Peer>);

    /// Follows a task of a modern server for its legacy client, in the background.
    fn follow_task(&self, context: &RequestContext, peer: &Arc<Peer>, id: &str);
}
