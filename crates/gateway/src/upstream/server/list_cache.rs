//! Caches the lists of a server, so that merged lists do not wait for it, and tracks reads in progress.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio::time::Instant;

use super::Server;
use crate::upstream::lists::List;
use store::registry::ServerList;

/// A longer list is not cached.
const CACHED_LIST_BYTES_MAX: usize = 256 * 1024;

/// The raw items of a list, or why it could not be read.
pub(crate) type ListResult = Result<Arc<Vec<String>>, String>;

#[derive(Default)]
pub(super) struct ListCache {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By grant: clients of one grant may share what they are shown.
    lists: HashMap<(String, List), Arc<Vec<String>>>,
    /// Lists that an earlier process stored and that were not read since.
    restored: HashSet<(String, List)>,
    /// By grant: since when a list is wanted that was never read.
    wanted: HashMap<(String, List), Instant>,
    /// By peer.
    reads: HashMap<(String, List), ListRead>,
    /// Why a list could not be read the last time.
    list_errors: HashMap<List, String>,
    /// The capabilities that the server declared last.
    offers: Option<String>,
}

/// A list that is being read.
#[derive(Clone)]
pub(crate) struct ListRead {
    pub(crate) outcome: watch::Receiver<Option<ListResult>>,
    /// A client got a response without it.
    missed: Arc<AtomicBool>,
}

impl ListRead {
    pub(crate) fn miss(&self) {
        self.missed.store(true, Ordering::Release);
    }
}

/// The duty to read a list. Others wait for the outcome.
pub(crate) struct ListReadGuard {
    server: Arc<Server>,
    key: (String, List),
    sender: watch::Sender<Option<ListResult>>,
    missed: Arc<AtomicBool>,
}

impl ListReadGuard {
    /// Ends the read. True if a client got a response without it.
    pub(crate) fn end(self, outcome: ListResult) -> bool {
        self.server.kept.state().reads.remove(&self.key);
        self.sender.send_replace(Some(outcome));
        self.missed.load(Ordering::Acquire)
    }
}

impl Drop for ListReadGuard {
    /// A cancelled read must not block later ones.
    fn drop(&mut self) {
        let mut state = self.server.kept.state();
        let is_own = |read: &ListRead| Arc::ptr_eq(&read.missed, &self.missed);
        if state.reads.get(&self.key).is_some_and(is_own) {
            state.reads.remove(&self.key);
        }
    }
}

impl ListCache {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Server {
    /// The running read of a list, or a new one with the duty to run it.
    pub(crate) fn read(
        self: &Arc<Self>,
        conversation: &str,
        list: List,
    ) -> (ListRead, Option<ListReadGuard>) {
        let key = (conversation.to_owned(), list);
        let mut state = self.kept.state();
        if let Some(read) = state.reads.get(&key) {
            return (read.clone(), None);
        }
        let (sender, outcome) = watch::channel(None);
        let read = ListRead { outcome, missed: Arc::default() };
        state.reads.insert(key.clone(), read.clone());
        let missed = Arc::clone(&read.missed);
        (read, Some(ListReadGuard { server: Arc::clone(self), key, sender, missed }))
    }

    /// The list that clients of a grant were last shown.
    pub(crate) fn cached_list(&self, grant: &str, list: List) -> Option<Arc<Vec<String>>> {
        self.kept.state().lists.get(&(grant.to_owned(), list)).cloned()
    }

    /// Restores lists that an earlier process stored.
    pub(crate) fn restore_lists(&self, stored: Vec<ServerList>) {
        let mut state = self.kept.state();
        for ServerList { grant, list, items } in stored {
            // A skill is shown only as it was read since the start, because its files are verified.
            let list = List::of_method(&list).filter(|list| *list != List::Skills);
            let Some(list) = list else { continue };
            state.restored.insert((grant.clone(), list));
            state.lists.insert((grant, list), Arc::new(items));
        }
    }

    /// Whether an earlier process stored the list and it was not read since.
    pub(crate) fn is_restored(&self, grant: &str, list: List) -> bool {
        self.kept.state().restored.contains(&(grant.to_owned(), list))
    }

    /// Since when clients of a grant want a list that was never read. They wait for it once, so that a slow
    /// server does not delay every list.
    pub(crate) fn wanted_since(&self, grant: &str, list: List) -> Instant {
        let mut state = self.kept.state();
        *state.wanted.entry((grant.to_owned(), list)).or_insert_with(Instant::now)
    }

    /// Caches a list for the clients of a grant. True if it changed.
    pub(crate) fn cache_list(&self, grant: &str, list: List, items: &Arc<Vec<String>>) -> bool {
        let mut state = self.kept.state();
        let key = (grant.to_owned(), list);
        state.wanted.remove(&key);
        state.restored.remove(&key);
        let is_same = state.lists.get(&key).map_or(items.is_empty(), |kept| kept == items);
        if items.iter().map(String::len).sum::<usize>() > CACHED_LIST_BYTES_MAX {
            state.lists.remove(&key);
        } else {
            state.lists.insert(key, Arc::clone(items));
        }
        !is_same
    }

    /// Drops the lists that a notification names.
    pub(crate) fn forget_lists(&self, list_changed: &str) {
        self.kept.state().lists.retain(|(_, list), _| list.changed() != list_changed);
    }

    /// Records why a list could not be read, or that it could. True if the reason is new.
    pub(crate) fn is_new_list_error(&self, list: List, why: Option<&str>) -> bool {
        let mut state = self.kept.state();
        let Some(why) = why else {
            state.list_errors.remove(&list);
            return false;
        };
        state.list_errors.insert(list, why.to_owned()).as_deref() != Some(why)
    }

    /// Why the last read of a list failed.
    pub(crate) fn list_error(&self, list: List) -> Option<String> {
        self.kept.state().list_errors.get(&list).cloned()
    }

    /// Whether the server has this capability, as far as is known.
    pub(crate) fn may_offer(&self, capability: &str) -> bool {
        let state = self.kept.state();
        state.offers.as_ref().is_none_or(|all| all.split(',').any(|one| one == capability))
    }

    /// Records the capabilities that the server declared. True if they changed.
    pub(crate) fn set_offers(&self, offers: &str) -> bool {
        let mut state = self.kept.state();
        let is_new = state.offers.as_deref() != Some(offers);
        state.offers = Some(offers.to_owned());
        is_new
    }
}
