//! The small process between the gate and a child: whatever ends the gate, even `kill -9`, the
//! guard outlives it just long enough to end the child and all that the child started.
//!
//! The gate starts its own binary as `guard`; the guard starts it once more as `exec`, which asks
//! to be killed when the guard dies and then becomes the command.

mod process_tree;
mod watch;

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};
use std::time::Duration;

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

/// The command could not be started; shells use the same code.
const CANNOT_START: u8 = 127;
/// The guard was called with wrong arguments, or its parent has gone.
const CANNOT_GUARD: u8 = 125;

const GUARD: &str = "guard";
const EXEC: &str = "exec";
const END_OF_ARGS: &str = "--";
/// Instead of a number of open files: keep the current limit.
const FILES_AS_THEY_ARE: u64 = 0;

/// This binary, even after the file was replaced.
const OURSELVES: &str = "/proc/self/exe";

/// The guard's arguments.
pub(super) struct GuardArgs {
    pub(super) gate: u32,
    pub(super) end_wait: Duration,
    pub(super) term_wait: Duration,
    pub(super) files_max: Option<u64>,
}

impl GuardArgs {
    /// The arguments between those of the guard program and the command.
    pub(super) fn args(&self) -> [OsString; 6] {
        [
            GUARD.into(),
            self.gate.to_string().into(),
            self.end_wait.as_millis().to_string().into(),
            self.term_wait.as_millis().to_string().into(),
            self.files_max.unwrap_or(FILES_AS_THEY_ARE).to_string().into(),
            END_OF_ARGS.into(),
        ]
    }
}

/// The main function of the guard process. Call it before any thread is started, with all arguments of the
/// process, and exit with its result.
pub fn run(argv: impl IntoIterator<Item = OsString>) -> ExitCode {
    let argv: Vec<OsString> = argv.into_iter().collect();
    let Some((args, command)) = split(&argv) else {
        return complain("this command is for the gate itself", CANNOT_GUARD);
    };
    match args {
        [_, lead @ .., stage, gate, end_ms, term_ms, files] if stage == GUARD => {
            let (Some(gate), Some(end_ms), Some(term_ms), Some(files)) =
                (number(gate), number(end_ms), number(term_ms), count(files))
            else {
                return complain("wrong arguments for the guard", CANNOT_GUARD);
            };
            watch::run(&watch::Job {
                lead,
                command,
                gate: Pid::from_raw(gate),
                end_wait: Duration::from_millis(end_ms.unsigned_abs().into()),
                term_wait: Duration::from_millis(term_ms.unsigned_abs().into()),
                files_max: (files != FILES_AS_THEY_ARE).then_some(files),
            })
        }
        [_, .., stage, guard] if stage == EXEC => become_command(number(guard), command),
        _ => complain("this command is for the gate itself", CANNOT_GUARD),
    }
}

/// The guard's arguments before the first `--`, and the command after it.
fn split(argv: &[OsString]) -> Option<(&[OsString], &[OsString])> {
    let at = argv.iter().position(|word| word == END_OF_ARGS)?;
    let (args, command) = (argv.get(..at)?, argv.get(at + 1..)?);
    (!command.is_empty()).then_some((args, command))
}

fn number(word: &OsStr) -> Option<i32> {
    word.to_str()?.parse().ok()
}

fn count(word: &OsStr) -> Option<u64> {
    word.to_str()?.parse().ok()
}

fn complain(text: &str, code: u8) -> ExitCode {
    // Without stderr there is no one to report to.
    writeln!(std::io::stderr(), "tollgate: {text}").ok();
    ExitCode::from(code)
}

/// Replaces this process by the command, which is killed when the guard dies.
fn become_command(guard: Option<i32>, command: &[OsString]) -> ExitCode {
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
