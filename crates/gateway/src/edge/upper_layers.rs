//! Implements the calls that the exchange makes into the edge and into notifications.

use std::sync::Arc;

use bytes::Bytes;
use hyper::HeaderMap;
use store::ledger::HeldCall;
use tokio::sync::broadcast;

use crate::edge::dispatch;
use crate::exchange::call::IncomingRequest;
use crate::exchange::context::RequestContext;
use crate::exchange::outbound::Outbound;
use crate::exchange::subject::RequestSubject;
use crate::exchange::upper_layers::{BoxFuture, UpperLayers};
use crate::notify::{server_streams, subscribe};
use crate::snapshot::ServerAccess;
use crate::upstream::peer::Peer;

/// The edge and notifications as the exchange sees them. Stateless.
pub(crate) struct EdgeLayers;

pub(crate) static EDGE_LAYERS: EdgeLayers = EdgeLayers;

impl UpperLayers for EdgeLayers {
    fn dispatch_again<'a>(
        &self,
        context: &'a RequestContext,
        body: &'a Bytes,
        headers: Option<&'a HeaderMap>,
        waiting: Option<HeldCall>,
    ) -> BoxFuture<'a, Outbound> {
        Box::pin(dispatch::process(context, body, headers, waiting))
    }

    fn subscribe_resource<'a>(
        &self,
        incoming: &'a IncomingRequest<'a>,
        access: &'a ServerAccess,
        about: &'a RequestSubject<'a>,
    ) -> BoxFuture<'a, Option<Outbound>> {
        Box::pin(subscribe::for_legacy(incoming, access, about))
    }

    fn shared_messages<'a>(
        &self,
        context: &'a RequestContext,
        peer: &'a Arc<Peer>,
    ) -> BoxFuture<'a, broadcast::Receiver<Bytes>> {
        Box::pin(server_streams::shared(context, peer))
    }

    fn keep_stream_open<'a>(
        &self,
        context: &'a RequestContext,
        peer: &'a Arc<Peer>,
    ) -> BoxFuture<'a, ()> {
        Box::pin(server_streams::keep_open(context, peer))
    }

    fn open_session_stream(&self, context: RequestContext, peer: Arc<Peer>) {
        tokio::spawn(async move { server_streams::start(&context, &peer).await });
    }

    fn follow_shared_lists(&self, context: RequestContext, peer: Arc<Peer>) {
        tokio::spawn(server_streams::follow_shared(context, peer));
    }

    fn follow_task(&self, context: &RequestContext, peer: &Arc<Peer>, id: &str) {
        subscribe::tasks::follow(context, peer, id);
    }
}
