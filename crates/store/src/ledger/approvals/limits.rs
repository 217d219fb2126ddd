//! Limits of parked calls: how many may be pending, and how many bytes they may keep on disk.

use super::{Approval, ApprovalStatus, Approvals};

/// Pending calls per grant; the next one is denied until one is decided.
pub(crate) const PENDING_PER_GRANT_MAX: usize = 256;

/// Parked bytes on disk per grant and in total. The next call is denied until one is decided, used
/// or expired.
pub const PARKED_BYTES_PER_GRANT_MAX: u64 = 16 << 20;
pub const PARKED_BYTES_MAX: u64 = 64 << 20;

/// Why a call cannot be parked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ParkedFull {
    pub(crate) whose: &'static str,
    pub(crate) bytes_max: u64,
    pub(crate) wait_us: Option<u64>,
}

impl Approvals {
    /// If so many bytes cannot be parked: the limit, and how long until the first blocking call
    /// ends. None of them blocks when the call alone is too large.
    pub(crate) fn parked_full(&self, grant: &str, bytes: u64, now: u64) -> Option<ParkedFull> {
        let live = || self.iter().filter(|approval| approval.is_live(now));
        let of_grant = || live().filter(|approval| approval.grant == grant);
        let sum = |taken: &mut dyn Iterator<Item = &Approval>| -> u64 {
            taken.map(|approval| approval.parked_bytes).sum()
        };
        let wait = |taken: &mut dyn Iterator<Item = &Approval>| {
            taken.map(|approval| approval.ends_us().saturating_sub(now)).min()
        };
        if sum(&mut of_grant()).saturating_add(bytes) > PARKED_BYTES_PER_GRANT_MAX {
            let wait_us = wait(&mut of_grant()).filter(|_| bytes <= PARKED_BYTES_PER_GRANT_MAX);
            return Some(ParkedFull {
                whose: "of this grant",
                bytes_max: PARKED_BYTES_PER_GRANT_MAX,
                wait_us,
            });
        }
        if sum(&mut live()).saturating_add(bytes) > PARKED_BYTES_MAX {
            let wait_us = wait(&mut live());
            return Some(ParkedFull {
                whose: "of all grants",
                bytes_max: PARKED_BYTES_MAX,
                wait_us,
            });
        }
        None
    }

    /// If the grant has too many pending calls: how long until the first of them ends.
    pub(crate) fn too_many_pending(&self, grant: &str, now: u64) -> Option<u64> {
        let pending = || {
            self.iter().filter(|a| {
                a.grant == grant && a.status == ApprovalStatus::Pending && !a.is_expired(now)
            })
        };
        if pending().count() < PENDING_PER_GRANT_MAX {
            return None;
        }
        pending().map(|a| a.expires_us.saturating_sub(now)).min()
    }
}
