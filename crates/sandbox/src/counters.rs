//! What was asked of a sandbox, so that a test can say "exactly one refresh" and be believed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;

use crate::http::{Asked, Reply};

/// A reading of the counters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    pub requests: u64,
    /// By method and path, such as `GET /developer/v2/cycle`.
    pub paths: BTreeMap<String, u64>,
    pub statuses: BTreeMap<u16, u64>,
    /// Requests for a refresh, whatever came of them.
    pub refreshes: u64,
    /// Those that were answered with a new token.
    pub refreshes_granted: u64,
    /// The most refreshes that were being answered at one moment; more than one is a client's fault.
    pub refreshes_at_once_max: u64,
    /// The most requests of any kind that were being answered at one moment.
    pub requests_at_once_max: u64,
    pub unauthorized: u64,
    pub rate_limited: u64,
    pub faults: u64,
    pub body_bytes: u64,
    #[serde(skip)]
    requests_now: u64,
    #[serde(skip)]
    refreshes_now: u64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Tally(Arc<Mutex<Counters>>);

impl Tally {
    pub(crate) fn read(&self) -> Counters {
        self.with(|counters| counters.clone())
    }

    /// Begins again at zero; what is being answered right now goes on counting as that.
    pub(crate) fn reset(&self) {
        self.with(|counters| {
            let (requests_now, refreshes_now) = (counters.requests_now, counters.refreshes_now);
            *counters = Counters { requests_now, refreshes_now, ..Counters::default() };
        });
    }

    /// Counts a request from here until the returned value is dropped.
    pub(crate) fn begin(&self, asked: &Asked) -> Underway {
        let refresh = asked.is_refresh();
        self.with(|counters| {
            counters.requests += 1;
            *counters.paths.entry(format!("{} {}", asked.method, asked.path)).or_default() += 1;
            counters.requests_now += 1;
            counters.requests_at_once_max =
                counters.requests_at_once_max.max(counters.requests_now);
            if refresh {
                counters.refreshes += 1;
                counters.refreshes_now += 1;
                counters.refreshes_at_once_max =
                    counters.refreshes_at_once_max.max(counters.refreshes_now);
            }
        });
        Underway { tally: self.clone(), refresh }
    }

    pub(crate) fn fault(&self) {
        self.with(|counters| counters.faults += 1);
    }

    fn with<T>(&self, work: impl FnOnce(&mut Counters) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A request that is being answered.
#[derive(Debug)]
pub(crate) struct Underway {
    tally: Tally,
    refresh: bool,
}

impl Underway {
    pub(crate) fn answered(&self, reply: &Reply) {
        self.tally.with(|counters| {
            *counters.statuses.entry(reply.status).or_default() += 1;
            counters.unauthorized += u64::from(reply.status == 401);
            counters.rate_limited += u64::from(reply.status == 429);
            counters.refreshes_granted += u64::from(self.refresh && reply.status == 200);
            counters.body_bytes += reply.body.len() as u64;
        });
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        self.tally.with(|counters| {
            counters.requests_now = counters.requests_now.saturating_sub(1);
            if self.refresh {
                counters.refreshes_now = counters.refreshes_now.saturating_sub(1);
            }
        });
    }
}
