//! A rate-limit pause shared by all processes of a home through the time of a small file, so that a
//! new process does not run into the same limit.

use std::sync::atomic::{AtomicI64, Ordering};

use store::accounts::BackOffMarker;

/// The longest pause taken over from another process; after it this process sends its own request.
const TAKEN_OVER_US_MAX: u64 = 60_000_000;
/// A pause that ends less than this later counts as the same one.
const SAME_US: i64 = 1_000_000;

/// The shared pause of one application.
pub struct SharedPause {
    marker: BackOffMarker,
    /// The last written end, so that one pause is one write.
    written_us: AtomicI64,
}

impl SharedPause {
    pub fn new(marker: BackOffMarker) -> SharedPause {
        SharedPause { marker, written_us: AtomicI64::new(0) }
    }

    /// The remaining pause, if any.
    pub(super) fn remaining(&self, now_us: i64) -> Option<u64> {
        let left_us = u64::try_from(self.marker.until_us()?.saturating_sub(now_us)).ok()?;
        // An end further away is not ours: a clock was changed.
        (1..=TAKEN_OVER_US_MAX).contains(&left_us).then_some(left_us)
    }

    /// Writes a pause for the other processes, unless one with about the same end is written.
    pub(super) fn share(&self, now_us: i64, left_us: u64) {
        let until_us = now_us.saturating_add_unsigned(left_us.min(TAKEN_OVER_US_MAX));
        let before_us = self.written_us.fetch_max(until_us, Ordering::Relaxed);
        if until_us.saturating_sub(before_us) < SAME_US {
            return;
        }
        if let Err(error) = self.marker.set(until_us) {
            tracing::debug!(%error, "could not share a rate-limit pause");
        }
    }
}
