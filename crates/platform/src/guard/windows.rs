//! Windows: a job object that ends all its processes when the gate's handle of it closes, however the gate ends.

use std::ffi::OsString;
use std::io;
use std::process::{ExitCode, ExitStatus, Stdio};

use process_wrap::tokio::{ChildWrapper, CommandWrap, JobObject, KillOnDrop};

use super::{Command, Process, Running};

pub(super) struct Handle(Box<dyn ChildWrapper>);

impl Handle {
    /// Waits for the command, then ends what it left behind.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.0.inner_mut().wait().await?;
        // A job without processes cannot be ended.
        let _ = self.0.start_kill();
        Ok(status)
    }

    pub(super) async fn kill(&mut self) -> io::Result<()> {
        self.0.start_kill()?;
        self.0.wait().await.map(drop)
    }
}

pub(super) fn start(command: &Command) -> io::Result<Running> {
    let mut wanted = tokio::process::Command::new(&command.program);
    wanted
        .args(&command.args)
        .env_clear()
        .envs(command.env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if let Some(cwd) = &command.cwd {
        wanted.current_dir(cwd);
    }
    let mut wrapped = CommandWrap::from(wanted);
    // With `KillOnDrop` the system ends the job with its last handle, which is ours.
    wrapped.wrap(KillOnDrop).wrap(JobObject);
    let mut process = wrapped.spawn()?;
    let pipes = (process.stdin().take(), process.stdout().take(), process.stderr().take());
    match (process.id(), pipes) {
        (Some(pid), (Some(input), Some(output), Some(stderr))) => {
            Ok(Running { process: Process(Handle(process)), pid, input, output, stderr })
        }
        _ => Err(io::Error::other("the child has no pipes")),
    }
}

/// There is no guard process here.
pub(super) fn run(_words: &[OsString]) -> ExitCode {
    const CANNOT_GUARD: u8 = 125;
    ExitCode::from(CANNOT_GUARD)
}
