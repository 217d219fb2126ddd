//! Limits the connections to one server: for all grants together, and half of that for one grant, so that slow
//! calls of one grant do not block the others.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use super::error::{Stage, UpstreamError};
use super::options::{HttpBounds, Waits};
use crate::runtime::response_buffer::BufferQuota;

/// Which limit a request counts against.
#[derive(Clone, Copy, Debug)]
pub(super) enum SlotKind {
    Request,
    Listen,
}

/// The connection limits of one server.
pub(super) struct ConnectionLimits {
    all: SlotPools,
    of_grants: Mutex<HashMap<usize, Weak<GrantLimits>>>,
    waits: Waits,
    bounds: HttpBounds,
}

/// The limits of one grant.
pub(super) struct GrantLimits {
    pools: SlotPools,
    /// Keeps the quota alive, so that its address stays unique.
    _quota: BufferQuota,
}

/// A used slot.
pub(super) struct ConnectionSlot {
    _of_grant: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

struct SlotPools {
    requests: SlotPool,
    listens: SlotPool,
}

/// Slots of one kind and the requests that wait for one.
struct SlotPool {
    limits: Arc<Semaphore>,
    waiting: AtomicUsize,
    waiting_max: usize,
}

impl ConnectionLimits {
    pub(super) fn new(waits: &Waits, bounds: &HttpBounds) -> ConnectionLimits {
        ConnectionLimits {
            all: SlotPools::new(bounds.connections_max, bounds.listens_max, bounds.waiting_max),
            of_grants: Mutex::default(),
            waits: waits.clone(),
            bounds: bounds.clone(),
        }
    }

    /// The limits of the grant with this quota.
    pub(super) fn grant_limits(&self, quota: &BufferQuota) -> Arc<GrantLimits> {
        let mut all_grants = self.of_grants.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(limits) = all_grants.get(&quota.key()).and_then(Weak::upgrade) {
            return limits;
        }
        all_grants.retain(|_, limits| limits.strong_count() > 0);
        let half = |all: usize| all.div_ceil(2);
        let (requests, listens) =
            (half(self.bounds.connections_max), half(self.bounds.listens_max));
        let pools = SlotPools::new(requests, listens, self.bounds.waiting_max);
        let limits = Arc::new(GrantLimits { pools, _quota: quota.clone() });
        all_grants.insert(quota.key(), Arc::downgrade(&limits));
        limits
    }

    /// A slot, at once or after a bounded wait.
    pub(super) async fn take(
        &self,
        limits: &GrantLimits,
        kind: SlotKind,
    ) -> Result<ConnectionSlot, UpstreamError> {
        let (own, all) = (limits.pools.of(kind), self.all.of(kind));
        if let Some(of_grant) = own.take_now()
            && let Some(of_all) = all.take_now()
        {
            return Ok(ConnectionSlot { _of_grant: of_grant, _of_all: of_all });
        }
        Box::pin(self.wait(own, all)).await
    }

    /// The grant's slot first, so that a request waits in the common queue only because of other grants.
    async fn wait(&self, own: &SlotPool, all: &SlotPool) -> Result<ConnectionSlot, UpstreamError> {
        let after = self.waits.queue_max;
        let until = Instant::now() + after;
        let too_late = || UpstreamError::TimedOut { stage: Stage::Queue, after };
        let of_grant = own.wait(until).await?.ok_or_else(too_late)?;
        let of_all = all.wait(until).await?.ok_or_else(too_late)?;
        Ok(ConnectionSlot { _of_grant: of_grant, _of_all: of_all })
    }

    /// Whether at most one request is in flight.
    pub(super) fn is_lightly_loaded(&self) -> bool {
        self.all.requests.limits.available_permits() + 1 >= self.bounds.connections_max
    }
}

impl SlotPools {
    fn new(requests: usize, listens: usize, waiting_max: usize) -> SlotPools {
        let pool = |limits| SlotPool {
            limits: Arc::new(Semaphore::new(limits)),
            waiting: AtomicUsize::new(0),
            waiting_max,
        };
        SlotPools { requests: pool(requests), listens: pool(listens) }
    }

    fn of(&self, kind: SlotKind) -> &SlotPool {
        match kind {
            SlotKind::Request => &self.requests,
            SlotKind::Listen => &self.listens,
        }
    }
}

impl SlotPool {
    fn take_now(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.limits).try_acquire_owned().ok()
    }

    /// A slot in order of arrival. None after the timeout.
    async fn wait(&self, until: Instant) -> Result<Option<OwnedSemaphorePermit>, UpstreamError> {
        let _queued = WaitingGuard::enter(self)?;
        match timeout_at(until, Arc::clone(&self.limits).acquire_owned()).await {
            Ok(Ok(slot)) => Ok(Some(slot)),
            Ok(Err(_)) => Err(UpstreamError::Closed),
            Err(_) => Ok(None),
        }
    }
}

/// Counts a waiting request.
struct WaitingGuard<'a>(&'a SlotPool);

impl<'a> WaitingGuard<'a> {
    fn enter(pool: &'a SlotPool) -> Result<WaitingGuard<'a>, UpstreamError> {
        let (waiting, waiting_max) = (&pool.waiting, pool.waiting_max);
        if waiting.fetch_add(1, Ordering::AcqRel) >= waiting_max {
            waiting.fetch_sub(1, Ordering::AcqRel);
            return Err(UpstreamError::never_sent(format!(
                "{waiting_max} requests are already waiting for this server"
            )));
        }
        Ok(WaitingGuard(pool))
    }
}

impl Drop for WaitingGuard<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::AcqRel);
    }
}
