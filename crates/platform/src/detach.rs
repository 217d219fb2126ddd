//! Processes that outlive the process that started them: out of its group, its session and its descendants.

use std::io;
use std::process::Command;
use std::time::Duration;

#[cfg_attr(unix, path = "detach/unix.rs")]
#[cfg_attr(windows, path = "detach/windows.rs")]
mod system;

/// A Ctrl-C at the terminal does not reach the program.
pub fn in_own_group(command: &mut tokio::process::Command) -> &mut tokio::process::Command {
    system::in_own_group(command)
}

/// Waits until this process has lost its parent and leaves the session of that. On Windows a process is not told
/// of its parent's end; there it only leaves the console.
pub fn leave(parent: u32, wait_max: Duration) -> io::Result<()> {
    system::leave(parent, wait_max)
}

/// Starts the next of several processes, of which each but the last exits at once.
pub fn start(command: &mut Command) -> io::Result<()> {
    system::start(command)
}

/// Becomes the program, so that a signal to this process reaches it. Where a process cannot, it waits for the
/// program and exits like it. Returns only if it cannot be started.
pub fn become_program(command: &mut Command) -> io::Error {
    system::become_program(command)
}
