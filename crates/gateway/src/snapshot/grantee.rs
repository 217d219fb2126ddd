//! An active grant in a snapshot: its servers with their rules, and its share of the gate.

use std::collections::BTreeMap;
use std::sync::Arc;

use mcp::listed_names::Prefix;
use policy::Subject;
use store::registry;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::{Lease, Rules};
use crate::runtime::response_buffer::BufferQuota;
use crate::upstream::server::Server;

/// An active grant, as requests use it.
pub(crate) struct Grantee {
    pub(crate) id: String,
    pub(crate) label: String,
    pub(crate) accesses: BTreeMap<Arc<str>, ServerAccess>,
    /// How names are listed at the endpoint of all servers.
    pub(crate) prefix: Prefix,
    lease: Lease,
    /// Set where the process owns the grant, so that no registry change can revoke it.
    own_lease: Option<watch::Sender<bool>>,
    in_flight_slots: Arc<Semaphore>,
    /// For large responses.
    pub(crate) quota: BufferQuota,
}

/// A server that a grant may use, and the rules for it.
#[derive(Clone)]
pub(crate) struct ServerAccess {
    pub(crate) server: Arc<Server>,
    /// Without rules every call is denied.
    pub(crate) rules: Option<Arc<Rules>>,
    /// The revision of the tools that agents are shown, when this snapshot was built.
    shown_revision: u64,
}

impl ServerAccess {
    pub(crate) fn new(server: Arc<Server>, rules: Option<Arc<Rules>>) -> ServerAccess {
        ServerAccess { shown_revision: server.shown_revision(), server, rules }
    }

    /// Whether both are judged by the same rules.
    pub(crate) fn has_rules_of(&self, other: &ServerAccess) -> bool {
        let rules = |access: &ServerAccess| access.rules.as_ref().map(Arc::as_ptr);
        rules(self) == rules(other)
    }

    /// Whether it is the same server under the same rules, with the same tools accepted.
    pub(crate) fn same_as(&self, other: &ServerAccess) -> bool {
        self.has_rules_of(other)
            && Arc::ptr_eq(&self.server, &other.server)
            && self.shown_revision == other.shown_revision
    }

    /// Whether the policy shows this subject to the grantee. Without rules it shows nothing.
    pub(crate) fn shows(&self, subject: Subject<'_>) -> bool {
        self.rules.as_ref().is_some_and(|rules| rules.policy.shows(subject))
    }
}

impl Grantee {
    pub(crate) fn new(
        id: String,
        label: String,
        accesses: BTreeMap<Arc<str>, ServerAccess>,
        lease: Lease,
        in_flight_max: usize,
    ) -> Grantee {
        Grantee {
            id,
            label,
            accesses,
            prefix: Prefix::default(),
            lease,
            own_lease: None,
            in_flight_slots: Arc::new(Semaphore::new(in_flight_max)),
            quota: BufferQuota::default(),
        }
    }

    /// Keeps the in-flight slots and the buffer quota of the grantee in the previous snapshot, so that a reload
    /// does not reset them.
    pub(super) fn keeping_usage_of(self, before: &Grantee) -> Grantee {
        Grantee {
            in_flight_slots: Arc::clone(&before.in_flight_slots),
            quota: before.quota.clone(),
            ..self
        }
    }

    /// The strictest `aggregate_only` among its policies.
    pub(crate) fn aggregate_days(&self) -> Option<u32> {
        let rules = self.accesses.values().filter_map(|access| access.rules.as_ref());
        rules.filter_map(|rules| rules.policy.aggregate_days()).max()
    }

    pub(super) fn with_prefix(self, prefix: registry::Prefix) -> Grantee {
        let prefix = match prefix {
            registry::Prefix::Always => Prefix::Always,
            registry::Prefix::Never => Prefix::Never,
        };
        Grantee { prefix, ..self }
    }

    pub(crate) fn with_lease(self, lease: watch::Sender<bool>) -> Grantee {
        Grantee { own_lease: Some(lease), ..self }
    }

    /// Whether both have the same servers under the same rules, with the same accepted tools and names.
    pub(crate) fn same_access_as(&self, other: &Grantee) -> bool {
        let mut pairs = self.accesses.iter().zip(&other.accesses);
        self.accesses.len() == other.accesses.len()
            && self.prefix == other.prefix
            && pairs.all(|((name, one), (named, other))| name == named && one.same_as(other))
    }

    /// The owner on standard streams, who has no grant in the registry.
    pub(crate) fn is_owner(&self) -> bool {
        self.own_lease.is_some()
    }

    /// Turns true when the grant is revoked. Open streams end then.
    pub(crate) fn lease(&self) -> Lease {
        self.lease.clone()
    }

    /// A slot for one more in-flight request, unless the grant uses all of them.
    pub(crate) fn try_slot(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.in_flight_slots).try_acquire_owned().ok()
    }
}
