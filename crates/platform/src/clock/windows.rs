//! The uptime counts sleep; the registry counts boots.

#[inline]
pub(super) fn steady_us() -> u64 {
    // It fails only where the system has no such counter; then nothing that needs it is admitted.
    uptime_lib::get().map_or(0, |uptime| u64::try_from(uptime.as_micros()).unwrap_or(0))
}

pub(super) fn boot_id() -> Option<String> {
    const KEY: &str =
        r"SYSTEM\CurrentControlSet\Control\Session Manager\Memory Management\PrefetchParameters";
    let key = windows_registry::LOCAL_MACHINE.open(KEY).ok()?;
    key.get_u32("BootId").ok().map(|boot| boot.to_string())
}

pub(super) const BOOT_ID_HINT: &str = "let this user read `PrefetchParameters` in the registry";
