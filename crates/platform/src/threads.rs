//! The priority of the calling thread. A hint to the scheduler: where the system has none per thread, or refuses,
//! it stays normal.

#[cfg_attr(target_os = "linux", path = "threads/linux.rs")]
#[cfg_attr(not(target_os = "linux"), path = "threads/other.rs")]
mod system;

/// Lets other threads go first.
pub fn lower_priority() {
    system::lower_priority();
}

/// Goes before others, by so many steps of niceness.
pub fn raise_priority(steps: i32) {
    system::raise_priority(steps);
}
