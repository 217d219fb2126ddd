//! `CLOCK_BOOTTIME` counts sleep; the kernel names each boot.

use rustix::time::{ClockId, clock_gettime};

#[inline]
pub(super) fn steady_us() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    u64::try_from(time.tv_sec.saturating_mul(1_000_000).saturating_add(time.tv_nsec / 1_000))
        .unwrap_or(0)
}

pub(super) fn boot_id() -> Option<String> {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()
}

pub(super) const BOOT_ID_HINT: &str = "mount /proc for the user that runs tollgate";
