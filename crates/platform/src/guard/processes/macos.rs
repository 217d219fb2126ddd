//! The processes of macOS, read with `sysctl` by the crate `sysinfo`.

use std::ffi::OsStr;

use rustix::process::{Pid, Signal, kill_process};
use sysinfo::{ProcessRefreshKind, ProcessStatus, ProcessesToUpdate, System, UpdateKind};

use super::Process;

/// Checks the start time first. Between the check and the signal the pid may be reused; pids go round in tens of
/// thousands of processes.
pub(in super::super) fn send(process: Process, signal: Signal) {
    let Some(pid) = Pid::from_raw(process.pid) else { return };
    if read(process.pid).is_some_and(|now| now.started == process.started) {
        kill_process(pid, signal).ok();
    }
}

/// All running processes of this user; none if the system does not list them.
pub(in super::super) fn all() -> Vec<Process> {
    let Ok(mut system) = System::new() else { return Vec::new() };
    system.refresh_processes_specifics(ProcessesToUpdate::All, true, ProcessRefreshKind::nothing());
    system.processes().values().filter_map(of).collect()
}

/// Whether the program of a process was started with this entry in its environment. The system hides those of other
/// users and of its own protected programs.
pub(in super::super) fn has_variable(pid: i32, entry: &str) -> bool {
    let kind = ProcessRefreshKind::nothing().with_environ(UpdateKind::Always);
    look(pid, kind).is_some_and(|system| {
        let all = system.processes().values();
        all.flat_map(sysinfo::Process::environ).any(|had| had == OsStr::new(entry))
    })
}

fn read(pid: i32) -> Option<Process> {
    look(pid, ProcessRefreshKind::nothing())?.processes().values().find_map(of)
}

fn look(pid: i32, kind: ProcessRefreshKind) -> Option<System> {
    let mut system = System::new().ok()?;
    let pid = sysinfo::Pid::from_u32(u32::try_from(pid).ok()?);
    system.refresh_processes_specifics(ProcessesToUpdate::Some(&[pid]), true, kind);
    Some(system)
}

fn of(process: &sysinfo::Process) -> Option<Process> {
    let number = |pid: sysinfo::Pid| i32::try_from(pid.as_u32()).ok();
    (process.status() != ProcessStatus::Zombie).then_some(())?;
    Some(Process {
        pid: number(process.pid())?,
        parent: process.parent().and_then(number).unwrap_or(0),
        started: process.start_time(),
    })
}
