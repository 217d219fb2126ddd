//! What the gate itself says to servers beside the calls that it carries: each is a row of its own.

use std::sync::Arc;

use bytes::Bytes;
use store::ledger::{Ending, Facts};
use tokio::sync::OwnedSemaphorePermit;

use super::Gate;
use crate::peer::Peer;
use crate::upstream::{Kind, Outgoing};

impl Gate {
    /// Answers a server's question without asking the client.
    pub(crate) fn answer_server(self: &Arc<Self>, peer: &Arc<Peer>, body: Bytes) {
        match peer.answer_place() {
            Some(place) => {
                self.send_aside(peer, Outgoing::response(body), "(response)", Some(place));
            }
            None => {
                tracing::warn!(server = %peer.server.name, "a server asks faster than it takes answers; not answered");
            }
        }
    }

    /// Tells a server something on the gate's own account.
    pub(crate) fn tell_server(self: &Arc<Self>, peer: &Arc<Peer>, body: Bytes) {
        self.send_aside(peer, Outgoing::notification(body), "(notification)", None);
    }

    /// Asks a server for something whose answer nobody waits for.
    pub(crate) fn ask_server(self: &Arc<Self>, peer: &Arc<Peer>, out: Outgoing) {
        let out = Outgoing { kind: Kind::Notification, ..out };
        self.send_aside(peer, out, "(notification)", None);
    }

    fn send_aside(
        self: &Arc<Self>,
        peer: &Arc<Peer>,
        out: Outgoing,
        method: &'static str,
        place: Option<OwnedSemaphorePermit>,
    ) {
        let (gate, peer) = (Arc::clone(self), Arc::clone(peer));
        // There is no runtime any more when the process ends; then the server notices by itself.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            let _place = place;
            let facts = Facts { method, server: &peer.server.name, ..Facts::default() };
            let Ok(permit) = gate.ledger.own_act(&facts) else { return };
            let sent = peer.send(&permit, out).await;
            Gate::settled(permit, if sent.is_ok() { Ending::Ok } else { Ending::Error });
        });
    }
}
