//! Windows: a job object, and a thread for each pipe, because a pipe cannot be polled.

use std::io::{self, Read};
use std::process::{ChildStdin, Command, ExitStatus};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use process_wrap::std::{ChildWrapper, CommandWrap, JobObject};
use zeroize::Zeroizing;

use super::Printed;

const CHUNK_BYTES: usize = 1024;
/// How long a thread may take to hand over what an exited program left in its pipe.
const LAST_OUTPUT_WAIT: Duration = Duration::from_millis(100);

/// A piece of output. `true` for stdout.
type Piece = (bool, Zeroizing<Vec<u8>>);

pub(super) struct Program {
    child: Box<dyn ChildWrapper>,
    pieces: Receiver<Piece>,
    stdout: Printed,
    stderr: Printed,
}

impl Program {
    pub(super) fn start(command: Command, bytes_max: usize) -> io::Result<Program> {
        let mut child = CommandWrap::from(command).wrap(JobObject).spawn()?;
        let (sender, pieces) = mpsc::channel();
        if let Some(pipe) = child.stdout().take() {
            copy(pipe, true, sender.clone(), bytes_max)?;
        }
        if let Some(pipe) = child.stderr().take() {
            copy(pipe, false, sender, bytes_max)?;
        }
        let (stdout, stderr) = (Printed::new(bytes_max), Printed::new(bytes_max));
        Ok(Program { child, pieces, stdout, stderr })
    }

    pub(super) fn stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin().take()
    }

    /// Of the program itself; what it left running in the background is not waited for.
    pub(super) fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.inner_mut().try_wait()
    }

    pub(super) fn stdout(&self) -> &Printed {
        &self.stdout
    }

    pub(super) fn stderr(&self) -> &Printed {
        &self.stderr
    }

    pub(super) fn kill(&mut self) {
        let _ = self.child.start_kill();
        let _ = self.child.wait();
    }

    /// Takes available output; returns whether there was any.
    pub(super) fn read_ready(&mut self, wait: Duration) -> io::Result<bool> {
        let (is_stdout, piece) = match self.pieces.recv_timeout(wait.max(LAST_OUTPUT_WAIT)) {
            Ok(piece) => piece,
            Err(RecvTimeoutError::Timeout) => return Ok(false),
            Err(RecvTimeoutError::Disconnected) => {
                // Both pipes are closed; the program may take its time to exit.
                thread::sleep(wait);
                return Ok(false);
            }
        };
        let printed = if is_stdout { &mut self.stdout } else { &mut self.stderr };
        let fits = printed.free(piece.len());
        printed.bytes.extend_from_slice(piece.get(..fits).unwrap_or_default());
        Ok(true)
    }
}

/// Reads a pipe until its end, or until nobody wants more.
fn copy(
    mut pipe: impl Read + Send + 'static,
    is_stdout: bool,
    sender: Sender<Piece>,
    bytes_max: usize,
) -> io::Result<()> {
    thread::Builder::new().name("captured".to_owned()).spawn(move || {
        let mut left = bytes_max;
        while left > 0 {
            let mut chunk = Zeroizing::new(vec![0; CHUNK_BYTES.min(left)]);
            let Ok(read @ 1..) = pipe.read(&mut chunk) else { return };
            chunk.truncate(read);
            left -= read;
            if sender.send((is_stdout, chunk)).is_err() {
                return;
            }
        }
    })?;
    Ok(())
}
