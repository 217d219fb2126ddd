//! What a server was told to keep in mind for its clients: a level of log messages, and the resources whose
//! changes they want to hear of. One that was started again has forgotten it and is told again.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::message::Outgoing;
use crate::rebuild::string;
use crate::wire::{Id, request_body};

/// Resources that are kept in mind; what is subscribed to beyond is lost with the server.
const URIS_MAX: usize = 1024;

#[derive(Default)]
pub struct Wishes {
    inside: Mutex<Inside>,
}

#[derive(Default)]
struct Inside {
    level: Option<String>,
    /// And how many want to hear of each.
    uris: BTreeMap<String, usize>,
    /// How often they were told again.
    again: u64,
}

impl Wishes {
    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn set_level(&self, level: &str) {
        self.inside().level = Some(level.to_owned());
    }

    /// One more wants to hear of a resource.
    pub fn subscribe(&self, uri: &str) {
        let mut inside = self.inside();
        if inside.uris.len() < URIS_MAX || inside.uris.contains_key(uri) {
            *inside.uris.entry(uri.to_owned()).or_default() += 1;
        }
    }

    /// One less does; true when it was the last.
    pub fn unsubscribe(&self, uri: &str) -> bool {
        let mut inside = self.inside();
        let Some(left) = inside.uris.get_mut(uri) else { return false };
        *left -= 1;
        *left == 0 && inside.uris.remove(uri).is_some()
    }

    /// Nobody wants to hear of a resource any more.
    pub fn forget(&self, uri: &str) {
        self.inside().uris.remove(uri);
    }

    /// All of it, as the requests that say it. Nobody waits for the answers.
    pub(crate) fn told_again(&self) -> Vec<Outgoing> {
        let mut inside = self.inside();
        inside.again += 1;
        let name = format!("tollgate-again-{}", inside.again);
        let level = inside
            .level
            .iter()
            .map(|level| ("logging/setLevel", format!("{{\"level\":{}}}", string(level))));
        let uris = inside
            .uris
            .keys()
            .map(|uri| ("resources/subscribe", format!("{{\"uri\":{}}}", string(uri))));
        (0..)
            .zip(level.chain(uris))
            .map(|(number, (method, params))| {
                let id = Id::minted(&name, number);
                let body = Bytes::from(request_body(&id, method, Some(&params)));
                Outgoing::request(id, body)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(wishes: &Wishes) -> String {
        let bodies = wishes.told_again().into_iter();
        bodies.map(|out| String::from_utf8_lossy(&out.body).into_owned() + "\n").collect()
    }

    #[test]
    fn a_resource_is_kept_in_mind_as_long_as_anybody_wants_it() {
        let wishes = Wishes::default();
        assert_eq!(told(&wishes), "");
        wishes.subscribe("a:b");
        wishes.subscribe("a:b");
        wishes.set_level("info");
        let said = told(&wishes);
        assert_eq!(said.matches("resources/subscribe").count(), 1, "{said}");
        assert!(said.contains(r#"{"level":"info"}"#), "{said}");
        assert!(!wishes.unsubscribe("a:b"));
        assert!(wishes.unsubscribe("a:b"), "it was the last");
        assert!(!wishes.unsubscribe("a:b"));
        assert!(!told(&wishes).contains("a:b"));
    }
}
