//! The method of Linux: orphans become children of the guard (a subreaper), and the command is killed with the
//! guard (its parent death signal). The guard starts this binary once more as `exec`, which asks for that signal and
//! then becomes the command.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use rustix::process::{
    Pid, Signal, getpid, getppid, set_child_subreaper, set_parent_process_death_signal,
};

use super::processes::{self, Process};
use super::watch::Job;
use super::{CANNOT_GUARD, CANNOT_START, END_OF_ARGS, complain};

pub(super) const EXEC: &str = "exec";

pub(super) struct KernelTree;

impl KernelTree {
    pub(super) fn bind() -> std::io::Result<KernelTree> {
        // Orphans become children of the guard, so that none escapes by leaving its parent or group.
        set_child_subreaper(Some(getpid()))?;
        set_parent_process_death_signal(Some(Signal::HUP))?;
        Ok(KernelTree)
    }

    /// Starts this binary again as the process that becomes the command, in its own group.
    #[allow(clippy::unused_self, reason = "a proof that orphans become children")]
    pub(super) fn start(&self, job: &Job<'_>) -> std::io::Result<u32> {
        let child = Command::new(crate::programs::own()?)
            .args(job.lead)
            .arg(EXEC)
            .arg(getpid().as_raw_nonzero().to_string())
            .arg(END_OF_ARGS)
            .args(job.command)
            .process_group(0)
            .spawn()?;
        Ok(child.id())
    }

    #[allow(clippy::unused_self, reason = "a proof that orphans become children")]
    pub(super) fn signal_all(&self, signal: Signal) -> Vec<Process> {
        let all = processes::below(&[getpid().as_raw_nonzero().get()], &processes::all());
        for process in &all {
            processes::send(*process, signal);
        }
        all
    }
}

/// Replaces this process by the command, which is killed when the guard dies.
pub(super) fn become_command(guard: Option<i32>, command: &[OsString]) -> ExitCode {
    let bound = set_parent_process_death_signal(Some(Signal::KILL));
    // A guard that died before the line above would not be noticed.
    if bound.is_err() || getppid().map(Pid::as_raw_pid) != guard {
        return ExitCode::from(CANNOT_GUARD);
    }
    let [program, args @ ..] = command else {
        return ExitCode::from(CANNOT_GUARD);
    };
    let error = Command::new(program).args(args).exec();
    complain(&format!("cannot start `{}`: {error}", program.display()), CANNOT_START)
}
