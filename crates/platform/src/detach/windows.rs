//! Windows: flags of process creation.

use std::io;
use std::os::windows::process::CommandExt as _;
use std::process::Command;
use std::time::Duration;

const CREATE_NEW_PROCESS_GROUP: u32 = 0x0000_0200;
const DETACHED_PROCESS: u32 = 0x0000_0008;
const CREATE_BREAKAWAY_FROM_JOB: u32 = 0x0100_0000;

pub(super) fn in_own_group(command: &mut tokio::process::Command) -> &mut tokio::process::Command {
    command.creation_flags(CREATE_NEW_PROCESS_GROUP)
}

/// The process was started detached; its parent exits by itself.
pub(super) fn leave(_parent: u32, wait_max: Duration) -> io::Result<()> {
    const PARENT_EXITS_WITHIN: Duration = Duration::from_millis(50);
    std::thread::sleep(wait_max.min(PARENT_EXITS_WITHIN));
    Ok(())
}

/// Out of the job of whoever started us, if that job allows it.
pub(super) fn start(command: &mut Command) -> io::Result<()> {
    const DETACHED: u32 = CREATE_NEW_PROCESS_GROUP | DETACHED_PROCESS;
    match command.creation_flags(DETACHED | CREATE_BREAKAWAY_FROM_JOB).spawn() {
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
            command.creation_flags(DETACHED).spawn().map(drop)
        }
        started => started.map(drop),
    }
}

pub(super) fn become_program(command: &mut Command) -> io::Error {
    match command.status() {
        Ok(status) => std::process::exit(status.code().unwrap_or(1)),
        Err(error) => error,
    }
}
