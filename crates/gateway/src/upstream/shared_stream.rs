//! Messages that the server of a shared peer sends outside its responses, read once and broadcast to all
//! clients of a grant that listen.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::{broadcast, watch};

use crate::upstream::server::Server;

/// Messages queued for a slow listener. It misses older ones.
const WAITING_MAX: usize = 256;

/// Whether the server has a stream, once that is known.
pub(crate) type StreamOffered = watch::Sender<Option<bool>>;

/// All shared streams of a gate, by server and share key.
#[derive(Default)]
pub(crate) struct SharedStreams {
    by_sharers: Mutex<HashMap<(String, String), SharedStream>>,
}

impl SharedStreams {
    fn table(&self) -> MutexGuard<'_, HashMap<(String, String), SharedStream>> {
        self.by_sharers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The shared stream of a server for all clients of the grant.
    pub(crate) fn of(&self, server: &Server, grant: &str) -> SharedStream {
        let key = (server.name.clone(), server.share_key(grant).to_owned());
        self.table().entry(key).or_default().clone()
    }

    /// Whether any client listens to a shared stream.
    pub(crate) fn is_listened_to(&self, server: &str, share_key: &str) -> bool {
        let key = (server.to_owned(), share_key.to_owned());
        self.table().get(&key).is_some_and(SharedStream::is_listened_to)
    }
}

#[derive(Clone)]
pub(crate) struct SharedStream {
    messages: broadcast::Sender<Bytes>,
    /// Set while a task reads the server's stream.
    reader: Arc<Mutex<Option<StreamOffered>>>,
}

impl Default for SharedStream {
    fn default() -> SharedStream {
        SharedStream { messages: broadcast::Sender::new(WAITING_MAX), reader: Arc::default() }
    }
}

impl SharedStream {
    pub(crate) fn publish(&self, message: Bytes) {
        // There may be no listener.
        let _ = self.messages.send(message);
    }

    pub(crate) fn is_listened_to(&self) -> bool {
        self.messages.receiver_count() > 0
    }

    /// Resolves when the last listener has gone.
    pub(crate) async fn until_unused(&self) {
        self.messages.closed().await;
    }

    /// Subscribes. True if the caller must read the server's stream from now on, until [`SharedStream::stops`].
    pub(crate) fn listen(&self) -> (broadcast::Receiver<Bytes>, StreamOffered, bool) {
        let messages = self.messages.subscribe();
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        let begins = reader.is_none();
        let offer = reader.get_or_insert_default().clone();
        (messages, offer, begins)
    }

    /// Stops reading, unless someone has subscribed again and the server has a stream.
    pub(crate) fn try_stop(&self) -> bool {
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        let not_offered = reader.as_ref().is_some_and(|offer| *offer.borrow() == Some(false));
        let stops = not_offered || !self.is_listened_to();
        if stops {
            *reader = None;
        }
        stops
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[tokio::test]
    async fn one_stream_serves_all_subscribers() {
        let shared = SharedStream::default();
        let (mut first, _, begins) = shared.listen();
        assert!(begins);
        let (mut second, _, begins) = shared.listen();
        assert!(!begins, "the first one hears the server for both");
        shared.publish(Bytes::from("news"));
        assert_eq!(first.recv().await.unwrap(), "news");
        assert_eq!(second.recv().await.unwrap(), "news");

        drop(first);
        assert!(!shared.try_stop(), "one is left");
        drop(second);
        shared.until_unused().await;
        let (third, _, begins) = shared.listen();
        assert!(!begins, "who hears the server has not stopped yet");
        assert!(!shared.try_stop(), "and now will not");
        drop(third);
        assert!(shared.try_stop());
        let (_, _, begins) = shared.listen();
        assert!(begins);
    }

    #[test]
    fn a_server_without_a_stream_is_asked_again_by_the_next_one() {
        let shared = SharedStream::default();
        let (_first, offer, _) = shared.listen();
        offer.send_replace(Some(false));
        assert!(shared.try_stop());
        let (_second, _, begins) = shared.listen();
        assert!(begins);
    }
}
