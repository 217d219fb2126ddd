//! On Linux each thread has its own niceness, and `None` means the calling thread.

use rustix::process::{getpriority_process, setpriority_process};

pub(super) fn lower_priority() {
    const NICENESS: i32 = 10;
    let _ = setpriority_process(None, NICENESS);
}

pub(super) fn raise_priority(steps: i32) {
    if let Ok(niceness) = getpriority_process(None) {
        let _ = setpriority_process(None, niceness - steps);
    }
}
