//! Requests of a client that are in flight, by the id that the client gave them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hashbrown::HashMap;
use tokio::sync::Notify;

use crate::peer::Peer;
use crate::wire::Id;

/// A request of the client that has no answer yet.
pub(crate) struct Flight {
    /// Under which id and to which server it went out.
    sent_as: Mutex<Option<(Arc<Peer>, Id)>>,
    pub(crate) cancelled: Notify,
    taken_back: AtomicBool,
}

impl Flight {
    /// The client no longer wants an answer.
    pub(crate) fn take_back(&self) {
        self.taken_back.store(true, Ordering::Release);
        self.cancelled.notify_one();
    }

    pub(crate) fn is_taken_back(&self) -> bool {
        self.taken_back.load(Ordering::Acquire)
    }

    pub(crate) fn sent_as(&self) -> Option<(Arc<Peer>, Id)> {
        self.sent_as.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The id of this request is already in flight in this session.
#[derive(Debug)]
pub(crate) struct IdInUse;

/// The requests of one client that have no answer yet.
#[derive(Default)]
pub(crate) struct Flights {
    by_id: Mutex<HashMap<Id, Arc<Flight>>>,
}

impl Flights {
    fn table(&self) -> MutexGuard<'_, HashMap<Id, Arc<Flight>>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a request is under way; a second one under the same id is refused.
    pub(crate) fn depart(self: &Arc<Self>, id: &Id) -> Result<InFlight, IdInUse> {
        let flight = Arc::new(Flight {
            sent_as: Mutex::new(None),
            cancelled: Notify::new(),
            taken_back: AtomicBool::new(false),
        });
        match self.table().entry(id.clone()) {
            hashbrown::hash_map::Entry::Occupied(_) => Err(IdInUse),
            hashbrown::hash_map::Entry::Vacant(place) => {
                place.insert(Arc::clone(&flight));
                Ok(InFlight { flights: Arc::clone(self), id: id.clone(), flight })
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.table().is_empty()
    }

    pub(crate) fn flight(&self, id: &Id) -> Option<Arc<Flight>> {
        self.table().get(id).cloned()
    }
}

/// While this lives, its id is taken.
pub(crate) struct InFlight {
    flights: Arc<Flights>,
    id: Id,
    pub(crate) flight: Arc<Flight>,
}

impl InFlight {
    pub(crate) fn sent(&self, peer: &Arc<Peer>, id: Id) {
        *self.flight.sent_as.lock().unwrap_or_else(PoisonError::into_inner) =
            Some((Arc::clone(peer), id));
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.flights.table().remove(&self.id);
    }
}
