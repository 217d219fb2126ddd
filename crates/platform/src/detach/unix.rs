//! Linux and macOS: process groups and sessions.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, getppid, setsid};

const POLL_EVERY: Duration = Duration::from_millis(1);

pub(super) fn in_own_group(command: &mut tokio::process::Command) -> &mut tokio::process::Command {
    command.process_group(0)
}

pub(super) fn leave(parent: u32, wait_max: Duration) -> io::Result<()> {
    let until = Instant::now() + wait_max;
    while getppid().map(Pid::as_raw_pid).and_then(|pid| u32::try_from(pid).ok()) == Some(parent) {
        if Instant::now() >= until {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the parent process does not exit",
            ));
        }
        std::thread::sleep(POLL_EVERY);
    }
    // It fails only for the leader of a process group, and only the first process is one.
    setsid()?;
    Ok(())
}

pub(super) fn start(command: &mut Command) -> io::Result<()> {
    command.spawn().map(drop)
}

pub(super) fn become_program(command: &mut Command) -> io::Error {
    command.exec()
}
