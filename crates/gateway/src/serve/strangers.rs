//! Who is at the other end of a connection, and whether somebody with a grant has spoken there. Where
//! nobody has, the connection makes room when all places are taken: whoever only waits keeps nobody out.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::AbortHandle;

/// The other end of a connection, as the audit log names it: written once, said with every request.
#[derive(Clone, Debug)]
pub(crate) struct Remote(Arc<End>);

#[derive(Debug)]
struct End {
    address: Box<str>,
    is_known: AtomicBool,
}

impl PartialEq for Remote {
    fn eq(&self, other: &Remote) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Remote {}

impl Remote {
    pub(super) fn at(address: SocketAddr) -> Remote {
        Remote(Arc::new(End { address: address.to_string().into(), is_known: false.into() }))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0.address
    }

    /// Without the port.
    pub(crate) fn address(&self) -> &str {
        self.as_str().rsplit_once(':').map_or(self.as_str(), |(address, _)| address)
    }

    /// A request with a grant came from there, so the connection makes room for nobody.
    pub(crate) fn let_stay(&self) {
        self.0.is_known.store(true, Ordering::Relaxed);
    }

    fn is_stranger(&self) -> bool {
        !self.0.is_known.load(Ordering::Relaxed)
    }
}

/// Connections that may have to make room, in the order in which they came.
#[derive(Default)]
pub(super) struct Strangers(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    last: u64,
    all: BTreeMap<u64, (Remote, Option<AbortHandle>)>,
}

/// A connection among them, for as long as it is open.
pub(super) struct Stranger {
    number: u64,
    among: Arc<Strangers>,
}

impl Strangers {
    pub(super) fn enter(self: &Arc<Self>, remote: Remote) -> Stranger {
        let mut waiting = self.waiting();
        waiting.last += 1;
        let number = waiting.last;
        waiting.all.insert(number, (remote, None));
        Stranger { number, among: Arc::clone(self) }
    }

    /// How the connection is ended, unless it has ended already.
    pub(super) fn is_ended_by(&self, number: u64, end: AbortHandle) {
        if let Some((_, ends)) = self.waiting().all.get_mut(&number) {
            *ends = Some(end);
        }
    }

    /// Ends the connection that has been open longest without a grant, and says whose it was.
    pub(super) fn end_the_first(&self) -> Option<Remote> {
        let mut waiting = self.waiting();
        waiting.all.retain(|_, (remote, _)| remote.is_stranger());
        let (remote, end) = waiting.all.pop_first()?.1;
        end?.abort();
        Some(remote)
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stranger {
    pub(super) fn number(&self) -> u64 {
        self.number
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.among.waiting().all.remove(&self.number);
    }
}
