//! What is kept in memory of a server's lists, so that a list of all servers waits for none of them, and
//! which of its lists are being read right now.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio::time::Instant;

use super::Server;
use crate::lists::List;

/// A longer list is not kept; whoever wants it waits for the server.
const KEPT_LIST_BYTES_MAX: usize = 256 * 1024;

/// The items of a list as the server wrote them, or that they could not be read.
pub(crate) type Came = Result<Arc<Vec<String>>, String>;

#[derive(Default)]
pub(super) struct Kept {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By grant: another client of the same grant may know what one was shown.
    lists: HashMap<(String, List), Arc<Vec<String>>>,
    /// By conversation.
    reads: HashMap<(String, List), Read>,
    /// The features that the server declared last.
    offers: Option<String>,
}

/// A list that is being read.
#[derive(Clone)]
pub(crate) struct Read {
    pub(crate) came: watch::Receiver<Option<Came>>,
    pub(crate) began: Instant,
    /// Somebody was answered without it.
    missed: Arc<AtomicBool>,
}

impl Read {
    pub(crate) fn miss(&self) {
        self.missed.store(true, Ordering::Release);
    }
}

/// Who has to read a list; others wait for the outcome.
pub(crate) struct Reading {
    server: Arc<Server>,
    key: (String, List),
    tell: watch::Sender<Option<Came>>,
    missed: Arc<AtomicBool>,
}

impl Reading {
    /// Ends the read; true if somebody was answered without what came.
    pub(crate) fn end(self, came: Came) -> bool {
        self.server.kept.state().reads.remove(&self.key);
        self.tell.send_replace(Some(came));
        self.missed.load(Ordering::Acquire)
    }
}

impl Drop for Reading {
    /// A read that was broken off must not keep others from trying.
    fn drop(&mut self) {
        let mut state = self.server.kept.state();
        let is_own = |read: &Read| Arc::ptr_eq(&read.missed, &self.missed);
        if state.reads.get(&self.key).is_some_and(is_own) {
            state.reads.remove(&self.key);
        }
    }
}

impl Kept {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Server {
    /// A read of a list that is under way; or a new one, with the duty to do it.
    pub(crate) fn read(
        self: &Arc<Self>,
        conversation: &str,
        list: List,
    ) -> (Read, Option<Reading>) {
        let key = (conversation.to_owned(), list);
        let mut state = self.kept.state();
        if let Some(read) = state.reads.get(&key) {
            return (read.clone(), None);
        }
        let (tell, came) = watch::channel(None);
        let read = Read { came, began: Instant::now(), missed: Arc::default() };
        state.reads.insert(key.clone(), read.clone());
        let missed = Arc::clone(&read.missed);
        (read, Some(Reading { server: Arc::clone(self), key, tell, missed }))
    }

    /// The list that clients of a grant were last shown.
    pub(crate) fn kept_list(&self, grant: &str, list: List) -> Option<Arc<Vec<String>>> {
        self.kept.state().lists.get(&(grant.to_owned(), list)).cloned()
    }

    /// Keeps a list for the clients of a grant; true if it is another than before.
    pub(crate) fn keep_list(&self, grant: &str, list: List, items: &Arc<Vec<String>>) -> bool {
        let mut state = self.kept.state();
        let key = (grant.to_owned(), list);
        let is_same = state.lists.get(&key).map_or(items.is_empty(), |kept| kept == items);
        if items.iter().map(String::len).sum::<usize>() > KEPT_LIST_BYTES_MAX {
            state.lists.remove(&key);
        } else {
            state.lists.insert(key, Arc::clone(items));
        }
        !is_same
    }

    /// Forgets the lists that a notification says have changed.
    pub(crate) fn forget_lists(&self, list_changed: &str) {
        self.kept.state().lists.retain(|(_, list), _| list.changed() != list_changed);
    }

    /// Whether the server has this feature, as far as is known.
    pub(crate) fn may_offer(&self, capability: &str) -> bool {
        let state = self.kept.state();
        state.offers.as_ref().is_none_or(|all| all.split(',').any(|one| one == capability))
    }

    /// Notes the features that the server declared; true if they are others than before.
    pub(crate) fn set_offers(&self, offers: &str) -> bool {
        let mut state = self.kept.state();
        let is_new = state.offers.as_deref() != Some(offers);
        state.offers = Some(offers.to_owned());
        is_new
    }
}
