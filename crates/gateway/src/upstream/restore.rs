//! State that a server keeps for its clients: the log level and the subscribed resources. It is sent again
//! after the server was restarted.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::message::UpstreamMessage;
use mcp::edit::string;
use mcp::{Id, request_body};

/// Subscriptions beyond this are not restored.
const URIS_MAX: usize = 1024;

#[derive(Default)]
pub struct RestoreState {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    level: Option<String>,
    /// With the number of subscribers.
    uris: BTreeMap<String, usize>,
    /// How often it was restored.
    again: u64,
}

impl RestoreState {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn set_level(&self, level: &str) {
        self.lock().level = Some(level.to_owned());
    }

    /// Adds a subscriber.
    pub fn subscribe(&self, uri: &str) {
        let mut state = self.lock();
        if state.uris.len() < URIS_MAX || state.uris.contains_key(uri) {
            *state.uris.entry(uri.to_owned()).or_default() += 1;
        }
    }

    /// Removes a subscriber. True if it was the last.
    pub fn unsubscribe(&self, uri: &str) -> bool {
        let mut state = self.lock();
        let Some(left) = state.uris.get_mut(uri) else { return false };
        *left -= 1;
        *left == 0 && state.uris.remove(uri).is_some()
    }

    /// Removes all subscribers of a resource.
    pub fn forget(&self, uri: &str) {
        self.lock().uris.remove(uri);
    }

    /// The requests that restore the state. Their responses are ignored.
    pub(crate) fn restore_requests(&self) -> Vec<UpstreamMessage> {
        let mut state = self.lock();
        state.again += 1;
        let name = format!("tollgate-again-{}", state.again);
        let level = state
            .level
            .iter()
            .map(|level| ("logging/setLevel", format!("{{\"level\":{}}}", string(level))));
        let uris = state
            .uris
            .keys()
            .map(|uri| ("resources/subscribe", format!("{{\"uri\":{}}}", string(uri))));
        (0..)
            .zip(level.chain(uris))
            .map(|(number, (method, params))| {
                let id = Id::generated(&name, number);
                let body = Bytes::from(request_body(&id, method, Some(&params)));
                UpstreamMessage::request(id, body)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(restore_state: &RestoreState) -> String {
        let bodies = restore_state.restore_requests().into_iter();
        bodies.map(|out| String::from_utf8_lossy(&out.body).into_owned() + "\n").collect()
    }

    #[test]
    fn a_subscription_lives_as_long_as_one_subscriber() {
        let restore_state = RestoreState::default();
        assert_eq!(messages(&restore_state), "");
        restore_state.subscribe("a:b");
        restore_state.subscribe("a:b");
        restore_state.set_level("info");
        let message = messages(&restore_state);
        assert_eq!(message.matches("resources/subscribe").count(), 1, "{message}");
        assert!(message.contains(r#"{"level":"info"}"#), "{message}");
        assert!(!restore_state.unsubscribe("a:b"));
        assert!(restore_state.unsubscribe("a:b"), "it was the last");
        assert!(!restore_state.unsubscribe("a:b"));
        assert!(!messages(&restore_state).contains("a:b"));
    }
}
