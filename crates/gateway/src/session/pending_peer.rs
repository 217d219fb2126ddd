//! Connecting a session to one of its servers. It happens once, in its own task: a request that
//! stops waiting neither cancels nor repeats it.

use std::sync::Arc;

use tokio::sync::watch;

use super::Session;
use crate::upstream::UpstreamError;
use crate::upstream::peer::Peer;

/// The result of connecting, once known: the peer or the error.
pub(crate) type Opening = watch::Receiver<Option<Result<Arc<Peer>, UpstreamError>>>;
pub(crate) type Opener = watch::Sender<Option<Result<Arc<Peer>, UpstreamError>>>;

impl Session {
    /// The pending connection to a server, or a new one with the sender for its task.
    pub(crate) fn opening(&self, server: &str) -> (Opening, Option<Opener>) {
        let mut state = self.state();
        // A dropped sender means that the task ended with its runtime.
        let under_way = state.openings.get(server).filter(|opening| opening.has_changed().is_ok());
        if let Some(opening) = under_way {
            return (opening.clone(), None);
        }
        let (opener, opening) = watch::channel(None);
        state.openings.insert(server.to_owned(), opening.clone());
        (opening, Some(opener))
    }

    /// Ends a pending connection and adds the peer to the session. False if the session has ended,
    /// so that the peer must be closed.
    pub(crate) fn opened(&self, server: &str, peer: Option<&Arc<Peer>>) -> bool {
        let is_kept = peer.is_none_or(|peer| self.add_peer(Arc::clone(peer)));
        self.state().openings.remove(server);
        is_kept
    }
}
