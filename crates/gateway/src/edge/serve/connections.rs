//! Open connections with their remote address and grant. When `connections_max` is reached an
//! unauthenticated connection is evicted. One grant may use a share of the connections, never all
//! of them.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use tokio::task::AbortHandle;

/// The remote end of a connection. The address is formatted once, for all its audit rows.
#[derive(Clone, Debug)]
pub(crate) struct Remote(Arc<RemoteState>);

#[derive(Debug)]
struct RemoteState {
    address: Arc<str>,
    /// The first grant that authenticated; the connection counts against its share.
    grant: OnceLock<Arc<str>>,
    /// Requests being handled on this connection.
    handling: AtomicUsize,
    connections: Weak<OpenConnections>,
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

    /// The address, for owners that outlive the connection.
    pub(crate) fn address(&self) -> Arc<str> {
        Arc::clone(&self.0.address)
    }

    /// Registers an authenticated request, so that the connection is not evicted as anonymous.
    /// False when the grant already has its share of connections.
    pub(crate) fn register_grant(&self, grant: &str) -> bool {
        if self.0.grant.get().is_some() {
            return true;
        }
        self.0
            .connections
            .upgrade()
            .is_none_or(|connections| connections.register_grant(&self.0, grant))
    }

    /// Marks a request as being handled until the guard is dropped.
    pub(super) fn handling(&self) -> HandlingGuard {
        self.0.handling.fetch_add(1, Ordering::Relaxed);
        HandlingGuard(self.clone())
    }

    fn is_anonymous(&self) -> bool {
        self.0.grant.get().is_none()
    }

    fn is_idle(&self) -> bool {
        self.0.handling.load(Ordering::Relaxed) == 0
    }
}

/// A request being handled.
pub(super) struct HandlingGuard(Remote);

impl Drop for HandlingGuard {
    fn drop(&mut self) {
        self.0.0.handling.fetch_sub(1, Ordering::Relaxed);
    }
}

/// All open connections, oldest first.
#[derive(Debug)]
pub(super) struct OpenConnections {
    table: Mutex<ConnectionTable>,
    per_grant_max: usize,
}

#[derive(Debug, Default)]
struct ConnectionTable {
    last: u64,
    all: BTreeMap<u64, (Remote, Option<AbortHandle>)>,
    by_grant: HashMap<Arc<str>, usize>,
}

/// The entry of an open connection; dropping it removes it.
pub(super) struct ConnectionEntry {
    number: u64,
    remote: Remote,
    connections: Arc<OpenConnections>,
}

impl OpenConnections {
    pub(super) fn new(per_grant_max: usize) -> Arc<OpenConnections> {
        Arc::new(OpenConnections { table: Mutex::default(), per_grant_max })
    }

    /// The remote end of a new connection.
    pub(super) fn remote(self: &Arc<Self>, address: SocketAddr) -> Remote {
        Remote(Arc::new(RemoteState {
            address: address.to_string().into(),
            grant: OnceLock::new(),
            handling: AtomicUsize::new(0),
            connections: Arc::downgrade(self),
        }))
    }

    pub(super) fn add(self: &Arc<Self>, remote: Remote) -> ConnectionEntry {
        let mut table = self.table();
        table.last += 1;
        let number = table.last;
        table.all.insert(number, (remote.clone(), None));
        ConnectionEntry { number, remote, connections: Arc::clone(self) }
    }

    /// Sets the handle that aborts the connection, unless it has closed already.
    pub(super) fn set_abort_handle(&self, number: u64, end: AbortHandle) {
        if let Some((_, ends)) = self.table().all.get_mut(&number) {
            *ends = Some(end);
        }
    }

    /// Counts a connection for a grant, if the grant has connections left.
    fn register_grant(&self, end: &RemoteState, grant: &str) -> bool {
        let mut table = self.table();
        if table.by_grant.get(grant).is_some_and(|open| *open >= self.per_grant_max) {
            return false;
        }
        let grant: Arc<str> = grant.into();
        if end.grant.set(Arc::clone(&grant)).is_ok() {
            *table.by_grant.entry(grant).or_default() += 1;
        }
        true
    }

    /// Evicts a connection and returns its remote end: the oldest unauthenticated one, or else an
    /// idle one of the grant with the most connections.
    pub(super) fn evict_one(&self) -> Option<Remote> {
        let mut table = self.table();
        let entry = table.all.iter().find(|(_, (remote, _))| remote.is_anonymous());
        let number = entry.map(|(number, _)| *number).or_else(|| table.idle_of_largest_grant())?;
        let (remote, end) = table.all.remove(&number)?;
        end?.abort();
        Some(remote)
    }

    fn table(&self) -> MutexGuard<'_, ConnectionTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionTable {
    /// None if the largest grant has a single connection or is the only one.
    fn idle_of_largest_grant(&self) -> Option<u64> {
        let (largest, most) = self.by_grant.iter().max_by_key(|(_, open)| **open)?;
        if *most <= 1 || self.by_grant.len() < 2 {
            return None;
        }
        let is_candidate =
            |remote: &Remote| remote.0.grant.get() == Some(largest) && remote.is_idle();
        self.all.iter().find(|(_, (remote, _))| is_candidate(remote)).map(|(number, _)| *number)
    }
}

impl ConnectionEntry {
    pub(super) fn number(&self) -> u64 {
        self.number
    }
}

impl Drop for ConnectionEntry {
    fn drop(&mut self) {
        let mut table = self.connections.table();
        table.all.remove(&self.number);
        let Some(grant) = self.remote.0.grant.get() else { return };
        if let Some(open) = table.by_grant.get_mut(grant) {
            *open -= 1;
            if *open == 0 {
                table.by_grant.remove(grant);
            }
        }
    }
}
