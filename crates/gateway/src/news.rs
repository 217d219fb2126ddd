//! What the gate itself tells of lists. At the address of all servers they also change when the owner
//! changes which servers a grant holds, and under which rules, and when a server comes back.

use bytes::Bytes;

use crate::gate::Gate;
use crate::in_force::InForce;
use crate::session::{Outgoing, Session};
use crate::wire::notification_body;

/// The notifications of lists that changed.
pub(crate) const LISTS: [&str; 3] = [
    "notifications/tools/list_changed",
    "notifications/prompts/list_changed",
    "notifications/resources/list_changed",
];

/// The same as an older client and a server know them.
pub(crate) fn of_lists() -> [Bytes; 3] {
    LISTS.map(|method| notification_body(method, None).into())
}

impl Gate {
    /// Tells sessions at the address of all servers, where their grant holds other servers than before.
    /// Whoever does not listen will not miss it: a list is always the present one.
    pub(crate) fn tell_of_lists(&self, before: &InForce) {
        let now = self.in_force();
        for session in self.sessions.all() {
            let holders = now.holders.get(&session.grant).zip(before.holders.get(&session.grant));
            let changed = holders.is_some_and(|(now, before)| !now.holds_as(before));
            if changed && session.server.is_none() {
                session.tell_of_lists();
            }
        }
    }
}

impl Session {
    pub(crate) fn tell_of_lists(&self) {
        if self.is_listened_to() {
            for news in of_lists() {
                self.deliver(Outgoing::plain(news));
            }
        }
    }
}
