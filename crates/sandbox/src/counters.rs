//! Request counters, so that a test can assert "exactly one refresh".

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;

use crate::http::{Request, Response};

/// A snapshot of the counters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    pub requests: u64,
    /// By method and path, such as `GET /developer/v2/cycle`.
    pub paths: BTreeMap<String, u64>,
    pub statuses: BTreeMap<u16, u64>,
    /// Token refreshes, successful or not.
    pub refreshes: u64,
    /// Token refreshes that returned a new token.
    pub refreshes_granted: u64,
    /// The most concurrent token refreshes; more than one is a bug of the client.
    pub refreshes_at_once_max: u64,
    /// The most concurrent requests of any kind.
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
pub(crate) struct SharedCounters(Arc<Mutex<Counters>>);

impl SharedCounters {
    pub(crate) fn read(&self) -> Counters {
        self.with(|counters| counters.clone())
    }

    /// Resets to zero; requests in flight stay counted as in flight.
    pub(crate) fn reset(&self) {
        self.with(|counters| {
            let (requests_now, refreshes_now) = (counters.requests_now, counters.refreshes_now);
            *counters = Counters { requests_now, refreshes_now, ..Counters::default() };
        });
    }

    /// Counts a request as in flight until the returned value is dropped.
    pub(crate) fn begin(&self, request: &Request) -> InFlight {
        let refresh = request.is_refresh();
        self.with(|counters| {
            counters.requests += 1;
            *counters.paths.entry(format!("{} {}", request.method, request.path)).or_default() += 1;
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
        InFlight { counters: self.clone(), refresh }
    }

    pub(crate) fn fault(&self) {
        self.with(|counters| counters.faults += 1);
    }

    fn with<T>(&self, work: impl FnOnce(&mut Counters) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A request in flight.
#[derive(Debug)]
pub(crate) struct InFlight {
    counters: SharedCounters,
    refresh: bool,
}

impl InFlight {
    pub(crate) fn answered(&self, response: &Response) {
        self.counters.with(|counters| {
            *counters.statuses.entry(response.status).or_default() += 1;
            counters.unauthorized += u64::from(response.status == 401);
            counters.rate_limited += u64::from(response.status == 429);
            counters.refreshes_granted += u64::from(self.refresh && response.status == 200);
            counters.body_bytes += response.body.len() as u64;
        });
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.counters.with(|counters| {
            counters.requests_now = counters.requests_now.saturating_sub(1);
            if self.refresh {
                counters.refreshes_now = counters.refreshes_now.saturating_sub(1);
            }
        });
    }
}
