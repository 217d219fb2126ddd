//! Linux and macOS: a process group, and one poll of both pipes.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};
use zeroize::Zeroizing;

use super::Printed;

const CHUNK_BYTES: usize = 1024;

pub(super) struct Program {
    child: Child,
    stdout: Stream<ChildStdout>,
    stderr: Stream<ChildStderr>,
}

impl Program {
    pub(super) fn start(mut command: Command, bytes_max: usize) -> io::Result<Program> {
        let mut child = command.process_group(0).spawn()?;
        let stdout = Stream::new(child.stdout.take(), bytes_max);
        let stderr = Stream::new(child.stderr.take(), bytes_max);
        Ok(Program { child, stdout, stderr })
    }

    pub(super) fn stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    pub(super) fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    pub(super) fn stdout(&self) -> &Printed {
        &self.stdout.printed
    }

    pub(super) fn stderr(&self) -> &Printed {
        &self.stderr.printed
    }

    pub(super) fn kill(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
    }

    /// Reads available output; returns whether there was any.
    pub(super) fn read_ready(&mut self, wait: Duration) -> io::Result<bool> {
        let pipes = [self.stdout.fd(), self.stderr.fd()];
        let mut fds: Vec<PollFd<'_>> =
            pipes.iter().flatten().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        let wait = Timespec::try_from(wait).map_err(io::Error::other)?;
        match poll(&mut fds, Some(&wait)) {
            Ok(0) | Err(Errno::INTR) => return Ok(false),
            Ok(_) => {}
            Err(e) => return Err(e.into()),
        }
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        drop(fds);
        let mut ready = ready.into_iter();
        let mut any = false;
        if self.stdout.pipe.is_some() && ready.next() == Some(true) {
            any |= self.stdout.read()?;
        }
        if self.stderr.pipe.is_some() && ready.next() == Some(true) {
            any |= self.stderr.read()?;
        }
        Ok(any)
    }
}

struct Stream<P> {
    pipe: Option<P>,
    printed: Printed,
}

impl<P: Read + AsFd> Stream<P> {
    fn new(pipe: Option<P>, bytes_max: usize) -> Stream<P> {
        Stream { pipe, printed: Printed::new(bytes_max) }
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// Reads once; closes the pipe at its end or when the buffer is full.
    fn read(&mut self) -> io::Result<bool> {
        let Some(pipe) = &mut self.pipe else { return Ok(false) };
        let mut chunk = Zeroizing::new([0; CHUNK_BYTES]);
        let into = chunk.get_mut(..self.printed.free(CHUNK_BYTES)).unwrap_or_default();
        let read = pipe.read(into)?;
        self.printed.bytes.extend_from_slice(into.get(..read).unwrap_or_default());
        if read == 0 {
            self.pipe = None;
        }
        Ok(read > 0)
    }
}
