//! The clocks of the system: the wall clock, a steady clock that counts sleep, and which boot it counts from.

use std::time::{SystemTime, UNIX_EPOCH};

#[cfg_attr(target_os = "linux", path = "clock/linux.rs")]
#[cfg_attr(target_os = "macos", path = "clock/macos.rs")]
#[cfg_attr(windows, path = "clock/windows.rs")]
mod system;

/// Microseconds since 1970, by the clock that people and time servers may set.
#[inline]
pub fn wall_us() -> i64 {
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_micros()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_micros()).map_or(i64::MIN, |us| -us),
    }
}

/// Microseconds since the machine started, including sleep. Cannot be set, and is the same in all processes.
#[inline]
pub fn steady_us() -> u64 {
    system::steady_us()
}

/// Identifies the boot that [`steady_us`] counts from; none if the system does not tell.
pub fn boot_id() -> Option<String> {
    system::boot_id().map(|id| id.trim().to_owned()).filter(|id| !id.is_empty())
}

/// What to do if there is no boot id.
pub const BOOT_ID_HINT: &str = system::BOOT_ID_HINT;

#[cfg(test)]
mod tests {
    #[test]
    fn the_clocks_go_forward_within_one_boot() {
        let before = super::steady_us();
        assert!(before > 0 && super::steady_us() >= before);
        assert!(super::wall_us() > 1_700_000_000_000_000);
        assert_eq!(super::boot_id(), super::boot_id());
    }
}
