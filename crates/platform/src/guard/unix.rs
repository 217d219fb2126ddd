//! Linux and macOS: the guard process, started with the command line `GUARD-ARGS… guard OPTIONS -- COMMAND`.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};
use std::process::{ExitCode, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::Pid;
use tokio::process::Child;

use super::{Command, Method, Process, Running};

#[cfg(target_os = "linux")]
#[path = "kernel.rs"]
mod kernel;
#[path = "marks.rs"]
mod marks;
#[path = "processes.rs"]
mod processes;
#[path = "watch.rs"]
mod watch;

/// The command could not be started; shells use the same code.
const CANNOT_START: u8 = 127;
/// The guard was called with wrong arguments, or its parent has gone.
const CANNOT_GUARD: u8 = 125;

const GUARD: &str = "guard";
const END_OF_ARGS: &str = "--";
/// Instead of a number of open files: keep the current limit.
const FILES_AS_THEY_ARE: u64 = 0;
/// How the methods are written in the arguments.
const METHODS: [(&str, Method); 2] = [("kernel", Method::Kernel), ("marks", Method::Marks)];

pub(super) struct Handle(Child);

impl Handle {
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.0.wait().await
    }

    pub(super) async fn kill(&mut self) -> io::Result<()> {
        self.0.kill().await
    }
}

pub(super) fn start(command: &Command) -> io::Result<Running> {
    let mut guard = tokio::process::Command::new(&command.guard);
    guard
        .args(&command.guard_args)
        .args(guard_args(command))
        .arg(&command.program)
        .args(&command.args)
        .env_clear()
        .envs(command.env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A Ctrl-C at the terminal is for the gate, which stops the child itself.
        .process_group(0);
    if let Some(cwd) = &command.cwd {
        guard.current_dir(cwd);
    }
    let mut process = guard.spawn()?;
    let pipes = (process.stdin.take(), process.stdout.take(), process.stderr.take());
    match (process.id(), pipes) {
        (Some(pid), (Some(input), Some(output), Some(stderr))) => {
            Ok(Running { process: Process(Handle(process)), pid, input, output, stderr })
        }
        _ => Err(io::Error::other("the child has no pipes")),
    }
}

/// The arguments between those of the guard program and the command.
fn guard_args(command: &Command) -> [OsString; 7] {
    let method = METHODS.iter().find(|(_, method)| *method == command.method);
    [
        GUARD.into(),
        method.map_or(METHODS[0].0, |(name, _)| name).into(),
        std::process::id().to_string().into(),
        command.end_wait.as_millis().to_string().into(),
        command.term_wait.as_millis().to_string().into(),
        command.files_max.unwrap_or(FILES_AS_THEY_ARE).to_string().into(),
        END_OF_ARGS.into(),
    ]
}

pub(super) fn run(words: &[OsString]) -> ExitCode {
    let Some((args, command)) = split(words) else {
        return complain("this command is for the gate itself", CANNOT_GUARD);
    };
    match args {
        [_, lead @ .., stage, method, gate, end_ms, term_ms, files] if stage == GUARD => {
            let method = METHODS.iter().find(|(name, _)| method == name);
            let (Some((_, method)), Some(gate), Some(end_ms), Some(term_ms), Some(files)) =
                (method, number(gate), number(end_ms), number(term_ms), count(files))
            else {
                return complain("wrong arguments for the guard", CANNOT_GUARD);
            };
            watch::run(&watch::Job {
                lead,
                command,
                method: *method,
                gate: Pid::from_raw(gate),
                end_wait: Duration::from_millis(end_ms.unsigned_abs().into()),
                term_wait: Duration::from_millis(term_ms.unsigned_abs().into()),
                files_max: (files != FILES_AS_THEY_ARE).then_some(files),
            })
        }
        #[cfg(target_os = "linux")]
        [_, .., stage, guard] if stage == kernel::EXEC => {
            kernel::become_command(number(guard), command)
        }
        [_, .., stage] if stage == marks::KEEP => marks::keep(command),
        _ => complain("this command is for the gate itself", CANNOT_GUARD),
    }
}

/// The guard's arguments before the first `--`, and the command after it.
fn split(words: &[OsString]) -> Option<(&[OsString], &[OsString])> {
    let at = words.iter().position(|word| word == END_OF_ARGS)?;
    let (args, command) = (words.get(..at)?, words.get(at + 1..)?);
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
