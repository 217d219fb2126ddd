//! A program that runs to its end or its deadline, with what it prints in memory that is wiped. Dropping it kills
//! the program and everything it started.

use std::io::{self, Write as _};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use zeroize::Zeroizing;

#[cfg_attr(unix, path = "captured/unix.rs")]
#[cfg_attr(windows, path = "captured/windows.rs")]
mod system;

/// How often it is checked whether a program with open output has exited.
const POLL: Duration = Duration::from_millis(5);

pub struct Captured {
    program: system::Program,
    ended: bool,
}

/// What a program printed on one stream, up to a limit. Never reallocated, so that no copy of a secret is left.
pub struct Printed {
    bytes: Zeroizing<Vec<u8>>,
    bytes_max: usize,
}

impl Captured {
    /// Starts the program, with `input` on its stdin. Reads at most so many bytes of each of its streams.
    pub fn start(
        mut command: Command,
        input: Option<&str>,
        bytes_max: usize,
    ) -> io::Result<Captured> {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        // Our own stdin may be a session with a client.
        command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
        let mut program = system::Program::start(command, bytes_max)?;
        if let (Some(mut stdin), Some(input)) = (program.stdin(), input) {
            // It fits into the pipe; a program that does not read it reports its own error.
            let _ = stdin.write_all(input.as_bytes());
        }
        Ok(Captured { program, ended: false })
    }

    /// Reads its output until it exits; none if the deadline is first.
    pub fn wait(&mut self, deadline: Instant) -> io::Result<Option<ExitStatus>> {
        loop {
            let status = self.program.try_wait()?;
            self.ended = status.is_some();
            // The output of an exited program is in the pipe already. A background process that it left running
            // may hold the pipe open forever.
            while self.program.read_ready(if self.ended { Duration::ZERO } else { POLL })? {}
            if self.ended {
                return Ok(status);
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
        }
    }

    pub fn stdout(&self) -> &Printed {
        self.program.stdout()
    }

    pub fn stderr(&self) -> &Printed {
        self.program.stderr()
    }
}

impl Drop for Captured {
    fn drop(&mut self) {
        if !self.ended {
            self.program.kill();
        }
    }
}

impl Printed {
    fn new(bytes_max: usize) -> Printed {
        Printed { bytes: Zeroizing::new(Vec::with_capacity(bytes_max)), bytes_max }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether nothing was left out.
    pub fn is_complete(&self) -> bool {
        self.bytes.len() < self.bytes_max
    }

    /// How many bytes may still be added, at most a chunk.
    fn free(&self, chunk: usize) -> usize {
        (self.bytes_max - self.bytes.len()).min(chunk)
    }
}
