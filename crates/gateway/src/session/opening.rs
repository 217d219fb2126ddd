//! The conversation of a session with one of its servers while it is being opened. It is opened once, by
//! a task of its own: a request that gives up waiting neither stops the start nor repeats it.

use std::sync::Arc;

use tokio::sync::watch;

use super::Session;
use crate::peer::Peer;

/// How the opening went, once that is known: the conversation, or why there is none.
pub(crate) type Opening = watch::Receiver<Option<Result<Arc<Peer>, String>>>;
pub(crate) type Opener = watch::Sender<Option<Result<Arc<Peer>, String>>>;

impl Session {
    /// The opening of a server that is under way; or a new one, with what its task reports to.
    pub(crate) fn opening(&self, server: &str) -> (Opening, Option<Opener>) {
        let mut state = self.state();
        // One whose task was dropped with its runtime reports nothing any more.
        let under_way = state.openings.get(server).filter(|opening| opening.has_changed().is_ok());
        if let Some(opening) = under_way {
            return (opening.clone(), None);
        }
        let (opener, opening) = watch::channel(None);
        state.openings.insert(server.to_owned(), opening.clone());
        (opening, Some(opener))
    }

    /// Ends an opening. A conversation is added to the session; false if the session has ended, so that
    /// the conversation has to be closed.
    pub(crate) fn opened(&self, server: &str, peer: Option<&Arc<Peer>>) -> bool {
        let is_kept = peer.is_none_or(|peer| self.add_peer(Arc::clone(peer)));
        self.state().openings.remove(server);
        is_kept
    }
}
