//! The current snapshot and its replacement. A call loads it once and never sees two.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use store::effective::{Effective, Lookup};
use store::registry::Token;
use store::settings::Settings;
use tokio::sync::watch;

use super::{Grantee, Lease, Leases, Snapshot, UpstreamFactory};

/// The current snapshot, and what the next one is built with.
pub(crate) struct Snapshots {
    pub(crate) factory: UpstreamFactory,
    pub(super) current: ArcSwap<Snapshot>,
    leases: Mutex<Leases>,
    /// Held from reading settings and registry to installing them, so that an older read never replaces a newer
    /// one.
    reading: Mutex<()>,
    /// Notifies when a snapshot was installed.
    installed: watch::Sender<()>,
}

impl Snapshots {
    pub(crate) fn new(effective: Effective, factory: UpstreamFactory, now_us: i64) -> Snapshots {
        let mut leases = Leases::default();
        let first = Snapshot::build(effective, None, &factory, &mut leases, now_us);
        Snapshots {
            factory,
            current: ArcSwap::from_pointee(first),
            leases: Mutex::new(leases),
            reading: Mutex::default(),
            installed: watch::Sender::new(()),
        }
    }

    pub(crate) fn current(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    /// The current settings.
    pub(crate) fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.current.load().effective.settings)
    }

    /// Held while settings and registry are read and installed.
    pub(crate) fn read_lock(&self) -> MutexGuard<'_, ()> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Installs a snapshot and returns the previous one. Grants that are not in the new one lose their open
    /// streams.
    pub(crate) fn install(&self, effective: Effective, now_us: i64) -> Arc<Snapshot> {
        let mut leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.current.load_full();
        let next = Snapshot::build(effective, Some(&before), &self.factory, &mut leases, now_us);
        self.current.store(Arc::new(next));
        drop(leases);
        self.installed.send_replace(());
        before
    }

    /// Notifies whenever a snapshot was installed.
    pub(crate) fn installed(&self) -> watch::Receiver<()> {
        self.installed.subscribe()
    }

    /// The active grant of a token, and the token's lease. An access token is good for one path: `/mcp`, or
    /// `/mcp/` and a server.
    pub(crate) fn grantee_of(
        &self,
        token: &str,
        server: Option<&str>,
        now_us: i64,
    ) -> Option<(Arc<Grantee>, Lease)> {
        let hash = Token::hash_of(token).ok()?;
        let current = self.current.load();
        match current.effective.lookup_hash(hash, now_us) {
            Lookup::Active(grant) => {
                let grantee = current.grantees.get(&grant.id)?;
                let access = current.tokens.get(&hash)?;
                let is_for = access.audience.as_deref().is_none_or(|path| is_at(path, server));
                is_for.then(|| (Arc::clone(grantee), access.lease.clone()))
            }
            _ => None,
        }
    }

    /// Ends everything that runs under rotated tokens whose overlap has ended.
    pub(crate) fn end_replaced_tokens(&self, now_us: i64) {
        let mut leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        leases.end_replaced(now_us);
    }

    /// The grant with this label, for a client that the owner started.
    pub(crate) fn grantee_named(&self, label: &str) -> Option<Arc<Grantee>> {
        let current = self.current.load();
        let grant = current.effective.grant(label)?;
        current.grantees.get(&grant.id).cloned()
    }

    /// The grantee in the current snapshot. None if it no longer has access to the server. The owner on
    /// standard streams is in no registry and always remains.
    pub(crate) fn current_grantee(
        &self,
        grantee: &Arc<Grantee>,
        server: Option<&str>,
    ) -> Option<Arc<Grantee>> {
        if grantee.is_owner() {
            return Some(Arc::clone(grantee));
        }
        let now = self.current.load().grantees.get(&grantee.id).cloned()?;
        server.is_none_or(|server| now.accesses.contains_key(server)).then_some(now)
    }
}

/// Whether a path is `/mcp`, or `/mcp/` and this server.
pub(super) fn is_at(path: &str, server: Option<&str>) -> bool {
    let rest = path.strip_prefix("/mcp");
    match server {
        None => rest == Some(""),
        Some(server) => rest.and_then(|rest| rest.strip_prefix('/')) == Some(server),
    }
}

impl Snapshot {
    /// Whether a grant is active and has access to the server, or to any server if none is named.
    pub(crate) fn has_access(&self, grant: &str, server: Option<&str>) -> bool {
        match self.grantees.get(grant) {
            Some(grantee) => server.is_none_or(|server| grantee.accesses.contains_key(server)),
            // The owner on standard streams is in no registry.
            None => !grant.starts_with("g_") && !grant.starts_with("file:"),
        }
    }
}
