//! macOS's `CLOCK_MONOTONIC` counts sleep (`clock_gettime(3)`); `sysctl` names each boot.

use std::process::{Command, Stdio};

use rustix::time::{ClockId, clock_gettime};

#[inline]
pub(super) fn steady_us() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    u64::try_from(time.tv_sec.saturating_mul(1_000_000).saturating_add(time.tv_nsec / 1_000))
        .unwrap_or(0)
}

pub(super) fn boot_id() -> Option<String> {
    let mut command = Command::new("/usr/sbin/sysctl");
    command.args(["-n", "kern.bootsessionuuid"]).stdin(Stdio::null()).stderr(Stdio::null());
    let printed = command.output().ok().filter(|printed| printed.status.success())?;
    String::from_utf8(printed.stdout).ok()
}

pub(super) const BOOT_ID_HINT: &str = "`sysctl kern.bootsessionuuid` shows why";
