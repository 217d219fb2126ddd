//! Places among the connections to one server: so many for all together, and at most half of them for one
//! grant, so that one whose calls take long does not keep the others of this server waiting.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use super::error::{Stage, UpstreamError};
use super::options::{HttpBounds, Waits};
use crate::room::Account;

/// Which allowance a request draws on.
#[derive(Clone, Copy, Debug)]
pub(super) enum Purpose {
    Request,
    Listen,
}

/// The places of one server.
pub(super) struct Places {
    all: Lines,
    of_grants: Mutex<HashMap<usize, Weak<Part>>>,
    waits: Waits,
    bounds: HttpBounds,
}

/// Those of one grant.
pub(super) struct Part {
    lines: Lines,
    /// As long as it lives, no other account is where it is.
    _account: Account,
}

/// A place in use.
pub(super) struct Place {
    _of_grant: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

struct Lines {
    requests: Line,
    listens: Line,
}

/// Places of one kind and who waits for one.
struct Line {
    places: Arc<Semaphore>,
    waiting: AtomicUsize,
    waiting_max: usize,
}

impl Places {
    pub(super) fn new(waits: &Waits, bounds: &HttpBounds) -> Places {
        Places {
            all: Lines::new(bounds.connections_max, bounds.listens_max, bounds.waiting_max),
            of_grants: Mutex::default(),
            waits: waits.clone(),
            bounds: bounds.clone(),
        }
    }

    /// The part of the grant whose account this is.
    pub(super) fn part_of(&self, account: &Account) -> Arc<Part> {
        let mut parts = self.of_grants.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(part) = parts.get(&account.key()).and_then(Weak::upgrade) {
            return part;
        }
        parts.retain(|_, part| part.strong_count() > 0);
        let half = |all: usize| all.div_ceil(2);
        let (requests, listens) =
            (half(self.bounds.connections_max), half(self.bounds.listens_max));
        let lines = Lines::new(requests, listens, self.bounds.waiting_max);
        let part = Arc::new(Part { lines, _account: account.clone() });
        parts.insert(account.key(), Arc::downgrade(&part));
        part
    }

    /// A place at once or after a bounded wait.
    pub(super) async fn take(&self, part: &Part, purpose: Purpose) -> Result<Place, UpstreamError> {
        let (own, all) = (part.lines.of(purpose), self.all.of(purpose));
        if let Some(of_grant) = own.take_now()
            && let Some(of_all) = all.take_now()
        {
            return Ok(Place { _of_grant: of_grant, _of_all: of_all });
        }
        Box::pin(self.wait(own, all)).await
    }

    /// In this order, so that who waits for a place of all waits for other grants only.
    async fn wait(&self, own: &Line, all: &Line) -> Result<Place, UpstreamError> {
        let after = self.waits.queue_max;
        let until = Instant::now() + after;
        let too_late = || UpstreamError::TimedOut { stage: Stage::Queue, after };
        let of_grant = own.wait(until).await?.ok_or_else(too_late)?;
        let of_all = all.wait(until).await?.ok_or_else(too_late)?;
        Ok(Place { _of_grant: of_grant, _of_all: of_all })
    }

    /// Whether at most one request is under way.
    pub(super) fn is_calm(&self) -> bool {
        self.all.requests.places.available_permits() + 1 >= self.bounds.connections_max
    }
}

impl Lines {
    fn new(requests: usize, listens: usize, waiting_max: usize) -> Lines {
        let line = |places| Line {
            places: Arc::new(Semaphore::new(places)),
            waiting: AtomicUsize::new(0),
            waiting_max,
        };
        Lines { requests: line(requests), listens: line(listens) }
    }

    fn of(&self, purpose: Purpose) -> &Line {
        match purpose {
            Purpose::Request => &self.requests,
            Purpose::Listen => &self.listens,
        }
    }
}

impl Line {
    fn take_now(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places).try_acquire_owned().ok()
    }

    /// A place when it is one's turn; nothing if that is too late.
    async fn wait(&self, until: Instant) -> Result<Option<OwnedSemaphorePermit>, UpstreamError> {
        let _queued = Queued::enter(self)?;
        match timeout_at(until, Arc::clone(&self.places).acquire_owned()).await {
            Ok(Ok(place)) => Ok(Some(place)),
            Ok(Err(_)) => Err(UpstreamError::Closed),
            Err(_) => Ok(None),
        }
    }
}

/// One who waits in a line.
struct Queued<'a>(&'a Line);

impl<'a> Queued<'a> {
    fn enter(line: &'a Line) -> Result<Queued<'a>, UpstreamError> {
        let (waiting, waiting_max) = (&line.waiting, line.waiting_max);
        if waiting.fetch_add(1, Ordering::AcqRel) >= waiting_max {
            waiting.fetch_sub(1, Ordering::AcqRel);
            return Err(UpstreamError::never_sent(format!(
                "{waiting_max} requests wait for this server already"
            )));
        }
        Ok(Queued(line))
    }
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::AcqRel);
    }
}
