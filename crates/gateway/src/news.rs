//! What the gate itself tells of lists. They also change when the owner changes the rules or accepts a
//! tool, and at the address of all servers when a grant holds other servers or one comes back.

use std::sync::Arc;

use bytes::Bytes;
use policy::json::{Bounds, Doc};

use crate::gate::Gate;
use crate::in_force::InForce;
use crate::lists::List;
use crate::peer::Peer;
use crate::session::{Outgoing, Session};
use crate::wire::notification_body;

/// The notifications of lists that changed.
pub(crate) const LISTS: [&str; 3] = [
    "notifications/tools/list_changed",
    "notifications/prompts/list_changed",
    "notifications/resources/list_changed",
];

/// Which list a message says has changed, if it is such a notification.
pub(crate) fn list_changed(message: &[u8]) -> Option<&'static str> {
    let doc = Doc::read_shallow(message, &Bounds::ANSWER, 1).ok()?;
    let root = doc.root();
    let method = root.get("method")?.as_str()?;
    LISTS.into_iter().find(|known| *known == method && root.get("id").is_none())
}

/// The same as an older client and a server know them.
pub(crate) fn of_lists() -> [Bytes; 3] {
    LISTS.map(|method| notification_body(method, None).into())
}

impl Gate {
    /// Tells sessions whose lists may be others than before. Whoever does not listen will not miss it: a
    /// list is always the present one.
    pub(crate) fn tell_of_lists(&self, before: &InForce) {
        let now = self.in_force();
        for session in self.sessions.all() {
            let holders = now.holders.get(&session.grant).zip(before.holders.get(&session.grant));
            let Some((now, before)) = holders else { continue };
            let changed = match &session.server {
                None => !now.holds_as(before),
                Some(name) => {
                    let both = now.holdings.get(&**name).zip(before.holdings.get(&**name));
                    both.is_some_and(|(now, before)| !now.is_as(before))
                }
            };
            if changed {
                session.tell_of_lists();
            }
        }
    }
}

impl Session {
    /// Tells that one list is another than its client was shown.
    pub(crate) fn tell_of(&self, list: List) {
        if self.is_listened_to() {
            self.deliver(Outgoing::plain(notification_body(list.changed(), None)));
        }
    }

    /// Tells of all lists, or of those whose changes its one server said that it tells of.
    pub(crate) fn tell_of_lists(&self) {
        if !self.is_listened_to() {
            return;
        }
        let peers = self.peers();
        for method in LISTS {
            let is_told = |peer: &Arc<Peer>| peer.tells_of(method);
            if self.server.is_none() || peers.iter().any(is_told) {
                self.deliver(Outgoing::plain(notification_body(method, None)));
            }
        }
    }
}
