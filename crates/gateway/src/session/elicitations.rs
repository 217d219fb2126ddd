//! Elicitations with an id that were sent to the client. A server may notify that one of them is
//! complete; notifications about others are dropped.

use policy::json::Value;

use super::Session;
use crate::upstream::peer::Peer;
use mcp::Method;

/// Elicitations that are remembered; beyond this the oldest is dropped.
const ELICITED_MAX: usize = 256;
/// Longer ids are not remembered.
const ID_BYTES_MAX: usize = 1024;

impl Session {
    /// The `elicitationId` of the pending sign-in at a server; none if it begins now, with the new id.
    pub(crate) fn begin_sign_in(&self, server: &str, new_id: &str) -> Option<String> {
        let mut state = self.state();
        let pending = state.sign_ins.get(server).cloned();
        if pending.is_none() {
            state.sign_ins.insert(server.to_owned(), new_id.to_owned());
        }
        pending
    }

    pub(crate) fn end_sign_in(&self, server: &str) {
        self.state().sign_ins.remove(server);
    }

    /// Remembers the `elicitationId` of a request sent to the client, if it has one.
    pub(crate) fn note_elicitation(&self, peer: &Peer, question: Option<Value<'_>>) {
        let id = question.and_then(|question| question.get("elicitationId")?.as_str());
        let Some(id) = id.filter(|id| id.len() <= ID_BYTES_MAX) else { return };
        let mut state = self.state();
        if state.elicited.len() >= ELICITED_MAX {
            state.elicited.pop_front();
        }
        state.elicited.push_back((peer.server.name.clone(), id.into_owned()));
    }

    /// The same for the elicitations in an error response.
    pub(crate) fn note_elicitations_in_error(&self, peer: &Peer, error: Value<'_>) {
        let named = error.get("data").and_then(|data| data.get("elicitations"));
        for question in named.into_iter().flat_map(Value::items) {
            self.note_elicitation(peer, Some(question));
        }
    }

    /// Allows the notification that an elicitation is complete if the client received it and the
    /// policy lets the server elicit (`may_ask`).
    pub(crate) fn allows_completion(
        &self,
        peer: &Peer,
        may_ask: bool,
        notification: Value<'_>,
    ) -> Option<()> {
        let id = notification.get("params")?.get("elicitationId")?.as_str()?;
        let was_shown =
            |(server, known): &(String, String)| *server == peer.server.name && *known == *id;
        (may_ask && self.state().elicited.iter().any(was_shown)).then_some(())
    }

    /// The same for any notification; other methods pass.
    pub(crate) fn allows_notification(
        &self,
        peer: &Peer,
        method: &str,
        notification: Value<'_>,
        may_ask: impl FnOnce() -> bool,
    ) -> Option<()> {
        match Method::parse(method) {
            Method::ElicitationComplete => self.allows_completion(peer, may_ask(), notification),
            _ => Some(()),
        }
    }
}
