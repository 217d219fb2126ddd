//! Linux and macOS: `setrlimit`; Linux also hides the memory of a process from others.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::OpenFiles;

pub(super) fn open_files() -> OpenFiles {
    let allowed = getrlimit(Resource::Nofile);
    OpenFiles { current: allowed.current, maximum: allowed.maximum }
}

pub(super) fn set_open_files(current: u64) {
    let allowed = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(current), ..allowed });
}

#[cfg(target_os = "linux")]
pub(super) fn protect_memory() -> bool {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};
    set_dumpable_behavior(DumpableBehavior::NotDumpable).is_ok()
}

/// No core file. A debugger of the same user is kept out by the system only if the binary is signed as hardened.
#[cfg(target_os = "macos")]
pub(super) fn protect_memory() -> bool {
    let allowed = getrlimit(Resource::Core);
    setrlimit(Resource::Core, Rlimit { current: Some(0), ..allowed }).is_ok()
}

/// By default SIGXFSZ ends the process. With a handler the write fails.
pub(super) fn survive_file_size_limit() {
    let flag = Arc::new(AtomicBool::new(false));
    // A failure here is harmless.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, flag);
}
