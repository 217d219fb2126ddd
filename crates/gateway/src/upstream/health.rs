//! The health of one server: requests in flight, whether it fails, and the last error.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The health of a server, for its status.
#[derive(Default)]
pub(crate) struct Health {
    in_flight: Arc<AtomicU64>,
    failing: AtomicBool,
    last_error: Mutex<Option<(i64, String)>>,
}

/// Counts a request in flight while it lives.
pub(crate) struct RequestRunning(Arc<AtomicU64>);

impl Drop for RequestRunning {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Health {
    pub(crate) fn track_request(&self) -> RequestRunning {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        RequestRunning(Arc::clone(&self.in_flight))
    }

    /// The server responded. Written only after a failure, because every call comes here.
    pub(crate) fn record_success(&self) {
        if self.failing.load(Ordering::Relaxed) {
            self.failing.store(false, Ordering::Relaxed);
        }
    }

    pub(crate) fn record_failure(&self, at_us: i64, message: String) {
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = Some((at_us, message));
        self.failing.store(true, Ordering::Relaxed);
    }

    /// Requests in flight.
    pub(crate) fn in_flight(&self) -> u64 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Whether the last request failed.
    pub(crate) fn is_failing(&self) -> bool {
        self.failing.load(Ordering::Relaxed)
    }

    /// Time and text of the last failure.
    pub(crate) fn last_error(&self) -> Option<(i64, String)> {
        self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
