//! Who is at the other end of a connection, and which grant was shown there. A connection without a grant
//! makes room when all places are taken. One grant has a share of the places and never all of them.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use tokio::task::AbortHandle;

/// The other end of a connection, as the audit log names it: written once, said with every request.
#[derive(Clone, Debug)]
pub(crate) struct Remote(Arc<End>);

#[derive(Debug)]
struct End {
    address: Box<str>,
    /// The grant that was shown first; the connection counts as one of its share.
    grant: OnceLock<Arc<str>>,
    /// Requests that are being answered there.
    answering: AtomicUsize,
    among: Weak<Strangers>,
}

impl PartialEq for Remote {
    fn eq(&self, other: &Remote) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Remote {}

impl Remote {
    pub(crate) fn as_str(&self) -> &str {
        &self.0.address
    }

    /// Without the port.
    pub(crate) fn address(&self) -> &str {
        self.as_str().rsplit_once(':').map_or(self.as_str(), |(address, _)| address)
    }

    /// A request with a grant came from there, so the connection makes room for nobody. False when the
    /// grant has its share of connections already.
    pub(crate) fn let_stay(&self, grant: &str) -> bool {
        if self.0.grant.get().is_some() {
            return true;
        }
        self.0.among.upgrade().is_none_or(|among| among.let_stay(&self.0, grant))
    }

    /// A request is being answered there, for as long as the guard lives.
    pub(super) fn answering(&self) -> Answered {
        self.0.answering.fetch_add(1, Ordering::Relaxed);
        Answered(self.clone())
    }

    fn is_stranger(&self) -> bool {
        self.0.grant.get().is_none()
    }

    fn is_idle(&self) -> bool {
        self.0.answering.load(Ordering::Relaxed) == 0
    }
}

/// A request that is being answered.
pub(super) struct Answered(Remote);

impl Drop for Answered {
    fn drop(&mut self) {
        self.0.0.answering.fetch_sub(1, Ordering::Relaxed);
    }
}

/// All connections, in the order in which they came.
#[derive(Debug)]
pub(super) struct Strangers {
    waiting: Mutex<Waiting>,
    per_grant_max: usize,
}

#[derive(Debug, Default)]
struct Waiting {
    last: u64,
    all: BTreeMap<u64, (Remote, Option<AbortHandle>)>,
    by_grant: HashMap<Arc<str>, usize>,
}

/// A connection among them, for as long as it is open.
pub(super) struct Stranger {
    number: u64,
    remote: Remote,
    among: Arc<Strangers>,
}

impl Strangers {
    pub(super) fn new(per_grant_max: usize) -> Arc<Strangers> {
        Arc::new(Strangers { waiting: Mutex::default(), per_grant_max })
    }

    /// The other end of a new connection.
    pub(super) fn remote(self: &Arc<Self>, address: SocketAddr) -> Remote {
        Remote(Arc::new(End {
            address: address.to_string().into(),
            grant: OnceLock::new(),
            answering: AtomicUsize::new(0),
            among: Arc::downgrade(self),
        }))
    }

    pub(super) fn enter(self: &Arc<Self>, remote: Remote) -> Stranger {
        let mut waiting = self.waiting();
        waiting.last += 1;
        let number = waiting.last;
        waiting.all.insert(number, (remote.clone(), None));
        Stranger { number, remote, among: Arc::clone(self) }
    }

    /// How the connection is ended, unless it has ended already.
    pub(super) fn is_ended_by(&self, number: u64, end: AbortHandle) {
        if let Some((_, ends)) = self.waiting().all.get_mut(&number) {
            *ends = Some(end);
        }
    }

    /// Counts a connection for a grant that was shown on it, if that has places left.
    fn let_stay(&self, end: &End, grant: &str) -> bool {
        let mut waiting = self.waiting();
        if waiting.by_grant.get(grant).is_some_and(|open| *open >= self.per_grant_max) {
            return false;
        }
        let grant: Arc<str> = grant.into();
        if end.grant.set(Arc::clone(&grant)).is_ok() {
            *waiting.by_grant.entry(grant).or_default() += 1;
        }
        true
    }

    /// Ends a connection to make room, and says whose it was: the one that has been open longest without a
    /// grant, or else an idle one of the grant that has most.
    pub(super) fn end_one(&self) -> Option<Remote> {
        let mut waiting = self.waiting();
        let stranger = waiting.all.iter().find(|(_, (remote, _))| remote.is_stranger());
        let number =
            stranger.map(|(number, _)| *number).or_else(|| waiting.idle_of_the_largest())?;
        let (remote, end) = waiting.all.remove(&number)?;
        end?.abort();
        Some(remote)
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    /// A grant with one connection keeps it, and so does one that has no more than another.
    fn idle_of_the_largest(&self) -> Option<u64> {
        let (largest, most) = self.by_grant.iter().max_by_key(|(_, open)| **open)?;
        if *most <= 1 || self.by_grant.len() < 2 {
            return None;
        }
        let is_theirs = |remote: &Remote| remote.0.grant.get() == Some(largest) && remote.is_idle();
        self.all.iter().find(|(_, (remote, _))| is_theirs(remote)).map(|(number, _)| *number)
    }
}

impl Stranger {
    pub(super) fn number(&self) -> u64 {
        self.number
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let mut waiting = self.among.waiting();
        waiting.all.remove(&self.number);
        let Some(grant) = self.remote.0.grant.get() else { return };
        if let Some(open) = waiting.by_grant.get_mut(grant) {
            *open -= 1;
            if *open == 0 {
                waiting.by_grant.remove(grant);
            }
        }
    }
}
