//! Starts a child process behind its guard.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

use super::guard::GuardArgs;
use super::options::ChildOptions;

/// A running child with its three pipes. Dropping the input tells the guard to stop it.
pub(super) struct Spawned {
    pub(super) process: Child,
    pub(super) pid: u32,
    pub(super) input: ChildStdin,
    pub(super) output: ChildStdout,
    pub(super) stderr: ChildStderr,
}

/// Starts the child, or returns why it cannot be started.
pub(super) fn spawn(options: &ChildOptions) -> Result<Spawned, String> {
    let program = find(options)?;
    let args = GuardArgs {
        gate: std::process::id(),
        end_wait: options.bounds.end_wait_max,
        term_wait: options.bounds.term_wait_max,
        files_max: options.guard_program.files_max,
    };
    let mut command = Command::new(&options.guard_program.program);
    command
        .args(&options.guard_program.args)
        .args(args.args())
        .arg(program)
        .args(&options.args)
        .env_clear()
        .envs(options.env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A Ctrl-C at the terminal is for the gate, which stops the child itself.
        .process_group(0);
    if let Some(cwd) = &options.cwd {
        if !cwd.is_dir() {
            return Err(format!("the working directory `{}` does not exist", cwd.display()));
        }
        command.current_dir(cwd);
    }
    let mut process = command.spawn().map_err(|error| {
        format!("cannot start `{}`: {error}", options.guard_program.program.display())
    })?;
    let pipes = (process.stdin.take(), process.stdout.take(), process.stderr.take());
    match (process.id(), pipes) {
        (Some(pid), (Some(input), Some(output), Some(stderr))) => {
            Ok(Spawned { process, pid, input, output, stderr })
        }
        _ => Err("the child has no pipes".to_owned()),
    }
}

/// The path of the program, looked up like in a shell, in the child's environment. A missing program is an
/// error here instead of a child that exits at once.
fn find(options: &ChildOptions) -> Result<PathBuf, String> {
    let program = Path::new(&options.program);
    let missing = || {
        let shown = program.display();
        format!("`{shown}` is not on the gate's PATH; give the full path of the program")
    };
    if program.components().count() > 1 {
        let base = options.cwd.as_deref().unwrap_or(Path::new(""));
        let whole = base.join(program);
        return match whole.metadata() {
            _ if is_executable(&whole) => Ok(program.to_owned()),
            Ok(_) => Err(format!("`{}` is not a program that may be run", program.display())),
            Err(_) => Err(format!("there is no program `{}`", program.display())),
        };
    }
    let path = variable(&options.env, "PATH").ok_or_else(missing)?;
    std::env::split_paths(path)
        .map(|folder| folder.join(program))
        .find(|file| is_executable(file))
        .ok_or_else(missing)
}

fn variable<'a>(env: &'a [(OsString, OsString)], name: &str) -> Option<&'a OsStr> {
    env.iter().find(|(had, _)| had == name).map(|(_, value)| value.as_os_str())
}

fn is_executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}
