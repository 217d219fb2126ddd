//! A door that a service closed, told to every process of a home by the time of a small file: who
//! starts after another was refused does not have to be refused as well.

use std::sync::atomic::{AtomicI64, Ordering};

use store::accounts::Sign;

/// Nobody is held back for longer by what somebody else was told; then it asks for itself.
const TOLD_US_MAX: u64 = 60_000_000;
/// A closing that ends so little later is the same one.
const SAME_US: i64 = 1_000_000;

/// The door of one application.
pub struct Door {
    sign: Sign,
    /// What was written last, so that one closing is one write.
    written_us: AtomicI64,
}

impl Door {
    pub fn new(sign: Sign) -> Door {
        Door { sign, written_us: AtomicI64::new(0) }
    }

    /// How long it stays closed, if it is.
    pub(super) fn look(&self, now_us: i64) -> Option<u64> {
        let left_us = u64::try_from(self.sign.until_us()?.saturating_sub(now_us)).ok()?;
        // Further away is no closing of ours: a clock was set.
        (1..=TOLD_US_MAX).contains(&left_us).then_some(left_us)
    }

    /// Closes it for the others, unless it is as good as closed until then.
    pub(super) fn close(&self, now_us: i64, left_us: u64) {
        let until_us = now_us.saturating_add_unsigned(left_us.min(TOLD_US_MAX));
        let before_us = self.written_us.fetch_max(until_us, Ordering::Relaxed);
        if until_us.saturating_sub(before_us) < SAME_US {
            return;
        }
        if let Err(error) = self.sign.put_up(until_us) {
            tracing::debug!(%error, "the other processes are not told of a limit");
        }
    }
}
