//! List-change notifications to sessions.

use std::sync::Arc;

use bytes::Bytes;
use policy::json::{Bounds, Doc};

use super::{ClientMessage, Session};
use crate::upstream::lists::List;
use crate::upstream::peer::Peer;
use mcp::notification_body;

/// The list-change methods.
pub(crate) const LISTS: [&str; 3] = [
    "notifications/tools/list_changed",
    "notifications/prompts/list_changed",
    "notifications/resources/list_changed",
];

/// The method, if a message is a list-change notification.
pub(crate) fn list_changed(message: &[u8]) -> Option<&'static str> {
    let doc = Doc::read_shallow(message, &Bounds::ANSWER, 1).ok()?;
    let root = doc.root();
    let method = root.get("method")?.as_str()?;
    LISTS.into_iter().find(|known| *known == method && root.get("id").is_none())
}

/// The three notifications without parameters.
pub(crate) fn all_notifications() -> [Bytes; 3] {
    LISTS.map(|method| notification_body(method, None).into())
}

impl Session {
    /// Notifies that one list changed.
    pub(crate) fn notify_list_changed(&self, list: List) {
        if self.has_stream() {
            self.deliver(ClientMessage::plain(notification_body(list.changed(), None)));
        }
    }

    /// Notifies that all lists changed, or those for which the session's server declares
    /// `listChanged`.
    pub(crate) fn notify_lists_changed(&self) {
        if !self.has_stream() {
            return;
        }
        let peers = self.peers();
        for method in LISTS {
            let is_declared = |peer: &Arc<Peer>| peer.announces_changes_of(method);
            if self.server.is_none() || peers.iter().any(is_declared) {
                self.deliver(ClientMessage::plain(notification_body(method, None)));
            }
        }
    }
}
