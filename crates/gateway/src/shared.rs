//! What the server of a shared conversation says on its own: heard once, for everyone of a grant who
//! listens.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio::sync::{broadcast, watch};

/// Messages that wait for a slow listener; it misses older ones.
const WAITING_MAX: usize = 256;

/// Whether the server has a stream, once that is known.
pub(crate) type Offer = watch::Sender<Option<bool>>;

#[derive(Clone)]
pub(crate) struct Shared {
    messages: broadcast::Sender<Bytes>,
    /// There while somebody hears the server.
    hearing: Arc<Mutex<Option<Offer>>>,
}

impl Default for Shared {
    fn default() -> Shared {
        Shared { messages: broadcast::Sender::new(WAITING_MAX), hearing: Arc::default() }
    }
}

impl Shared {
    pub(crate) fn tell(&self, message: Bytes) {
        // Nobody may be listening.
        let _ = self.messages.send(message);
    }

    pub(crate) fn is_listened_to(&self) -> bool {
        self.messages.receiver_count() > 0
    }

    /// Comes back when nobody listens any more.
    pub(crate) async fn unheard(&self) {
        self.messages.closed().await;
    }

    /// Begins to listen. True for who must hear the server from now on, until [`Shared::rests`].
    pub(crate) fn listen(&self) -> (broadcast::Receiver<Bytes>, Offer, bool) {
        let messages = self.messages.subscribe();
        let mut hearing = self.hearing.lock().unwrap_or_else(PoisonError::into_inner);
        let begins = hearing.is_none();
        let offer = hearing.get_or_insert_default().clone();
        (messages, offer, begins)
    }

    /// Ends the hearing; not when somebody has begun to listen again meanwhile and may yet hear something.
    pub(crate) fn rests(&self) -> bool {
        let mut hearing = self.hearing.lock().unwrap_or_else(PoisonError::into_inner);
        let silent = hearing.as_ref().is_some_and(|offer| *offer.borrow() == Some(false));
        let rests = silent || !self.is_listened_to();
        if rests {
            *hearing = None;
        }
        rests
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[tokio::test]
    async fn one_hears_for_all_as_long_as_anybody_listens() {
        let shared = Shared::default();
        let (mut first, _, begins) = shared.listen();
        assert!(begins);
        let (mut second, _, begins) = shared.listen();
        assert!(!begins, "the first one hears the server for both");
        shared.tell(Bytes::from("news"));
        assert_eq!(first.recv().await.unwrap(), "news");
        assert_eq!(second.recv().await.unwrap(), "news");

        drop(first);
        assert!(!shared.rests(), "one is left");
        drop(second);
        shared.unheard().await;
        let (third, _, begins) = shared.listen();
        assert!(!begins, "who hears the server has not stopped yet");
        assert!(!shared.rests(), "and now will not");
        drop(third);
        assert!(shared.rests());
        let (_, _, begins) = shared.listen();
        assert!(begins);
    }

    #[test]
    fn a_server_without_a_stream_is_asked_again_by_the_next_one() {
        let shared = Shared::default();
        let (_first, offer, _) = shared.listen();
        offer.send_replace(Some(false));
        assert!(shared.rests());
        let (_second, _, begins) = shared.listen();
        assert!(begins);
    }
}
