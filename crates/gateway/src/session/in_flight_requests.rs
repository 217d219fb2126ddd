//! The client's requests in flight, by the client's id.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hashbrown::HashMap;
use tokio::sync::Notify;

use crate::upstream::peer::Peer;
use mcp::Id;

/// A client request without a response yet.
pub(crate) struct InFlightRequest {
    /// The server and the id it was sent with.
    sent_as: Mutex<Option<(Arc<Peer>, Id)>>,
    pub(crate) cancelled: Notify,
    is_cancelled: AtomicBool,
}

impl InFlightRequest {
    /// Cancels the request on behalf of the client.
    pub(crate) fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Release);
        self.cancelled.notify_one();
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Acquire)
    }

    pub(crate) fn sent_as(&self) -> Option<(Arc<Peer>, Id)> {
        self.sent_as.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The id of a request is already in flight in this session.
#[derive(Debug)]
pub(crate) struct IdInUse;

/// The requests in flight of one client.
#[derive(Default)]
pub(crate) struct InFlightRequests {
    by_id: Mutex<HashMap<Id, Arc<InFlightRequest>>>,
}

impl InFlightRequests {
    fn table(&self) -> MutexGuard<'_, HashMap<Id, Arc<InFlightRequest>>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a request; a second one with the same id is refused.
    pub(crate) fn begin(self: &Arc<Self>, id: &Id) -> Result<InFlightGuard, IdInUse> {
        let flight = Arc::new(InFlightRequest {
            sent_as: Mutex::new(None),
            cancelled: Notify::new(),
            is_cancelled: AtomicBool::new(false),
        });
        match self.table().entry(id.clone()) {
            hashbrown::hash_map::Entry::Occupied(_) => Err(IdInUse),
            hashbrown::hash_map::Entry::Vacant(slot) => {
                slot.insert(Arc::clone(&flight));
                Ok(InFlightGuard { client_requests: Arc::clone(self), id: id.clone(), flight })
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.table().is_empty()
    }

    pub(crate) fn flight(&self, id: &Id) -> Option<Arc<InFlightRequest>> {
        self.table().get(id).cloned()
    }
}

/// Reserves the id until dropped.
pub(crate) struct InFlightGuard {
    client_requests: Arc<InFlightRequests>,
    id: Id,
    pub(crate) flight: Arc<InFlightRequest>,
}

impl InFlightGuard {
    pub(crate) fn sent(&self, peer: &Arc<Peer>, id: Id) {
        *self.flight.sent_as.lock().unwrap_or_else(PoisonError::into_inner) =
            Some((Arc::clone(peer), id));
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.client_requests.table().remove(&self.id);
    }
}
