//! Children that never outlive the gate. Whatever ends the gate, even `kill -9`, its children and all that they
//! started are ended.
//!
//! On Linux and macOS a small process, the guard, stands between the gate and a child: the gate starts its own
//! binary as the guard, the guard starts the command. On Windows the child is in a job object, which the system
//! ends with its last handle, so there is no guard.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use tokio::process::{ChildStderr, ChildStdin, ChildStdout};

#[cfg_attr(unix, path = "guard/unix.rs")]
#[cfg_attr(windows, path = "guard/windows.rs")]
mod system;

/// How a guard finds the processes below it, and how the command ends with the guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// The kernel does both: orphans become children of the guard, and the command is killed with its parent.
    /// Linux only.
    Kernel,
    /// A variable in the environment marks the processes, and a second process, the keeper, watches the guard by a
    /// pipe that closes with it. A process that clears its environment and leaves its parents is not found.
    Marks,
}

impl Default for Method {
    /// The strongest of this system. Windows has one way only and ignores it.
    fn default() -> Method {
        if cfg!(target_os = "linux") { Method::Kernel } else { Method::Marks }
    }
}

/// A command to be guarded.
pub struct Command {
    /// This binary, with the arguments that lead it to [`run`].
    pub guard: PathBuf,
    pub guard_args: Vec<OsString>,
    pub method: Method,
    pub program: PathBuf,
    pub args: Vec<OsString>,
    /// The whole environment.
    pub env: Vec<(OsString, OsString)>,
    pub cwd: Option<PathBuf>,
    /// How long the command may take to exit once its input has ended.
    pub end_wait: Duration,
    /// How long it may take after it was asked to terminate.
    pub term_wait: Duration,
    /// The limit of open files; none keeps the gate's.
    pub files_max: Option<u64>,
}

/// A running command with its three pipes. Dropping the input asks it to end; dropping all of it ends it.
pub struct Running {
    pub process: Process,
    pub pid: u32,
    pub input: ChildStdin,
    pub output: ChildStdout,
    pub stderr: ChildStderr,
}

/// Starts a command behind its guard. Must be called within a runtime.
pub fn start(command: &Command) -> io::Result<Running> {
    system::start(command)
}

/// A guarded process.
pub struct Process(system::Handle);

impl Process {
    /// Waits until the command and all that it started have ended.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.0.wait().await
    }

    /// Ends the guard, or the command with all that it started where there is no guard.
    pub async fn kill(&mut self) -> io::Result<()> {
        self.0.kill().await
    }
}

/// The main function of the guard process. Call it before any thread is started, with all arguments of the process,
/// and exit with its result.
pub fn run(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let words: Vec<OsString> = words.into_iter().collect();
    system::run(&words)
}
