//! Runs a program that keeps the vault key: without a shell, for a bounded time, and without showing
//! anybody what it prints.

use std::io::{self, Read, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process_group};
use store::vault::{AskError, Elsewhere, Program, Wait};
use zeroize::Zeroizing;

use crate::program::withhold_secrets;

/// A key is 80 bytes; more than this is no key, and not read.
const PRINTED_BYTES_MAX: usize = 4096;
/// How much of a complaint is passed on.
const SAID_CHARS_MAX: usize = 200;
/// A line with so many hexadecimal digits in a row may hold a key, or much of one.
const KEY_DIGITS_MIN: usize = 32;
/// How soon the end of a program is noticed that keeps its output open.
const LOOK_MS: u64 = 5;

/// Asks a place for the key.
pub(crate) fn ask(place: &Elsewhere) -> Result<Zeroizing<String>, AskError> {
    run(&place.command, None, place.wait_seconds_max)
}

/// Runs a program on an input and gives what it printed.
pub(super) fn run(
    program: &Program,
    input: Option<&str>,
    wait: Wait,
) -> Result<Zeroizing<String>, AskError> {
    let name = || program.name().to_owned();
    let broken = |source| AskError::Io { program: name(), source };
    let mut asked = Asked::start(program, input).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => AskError::NoProgram { program: name() },
        _ => broken(e),
    })?;
    let deadline = Instant::now() + Duration::from_secs(wait.seconds());
    let slow = || AskError::Slow { program: name(), seconds: wait.seconds() };
    let status = asked.listen(deadline).map_err(broken)?.ok_or_else(slow)?;
    let printed = &asked.stdout.heard;
    let is_whole = printed.len() < PRINTED_BYTES_MAX;
    // Who prints without end is cut off, and that is not its fault.
    if !status.success() && is_whole {
        let said = complaint(&asked.stderr.heard);
        let status = status.code().map_or(status.to_string(), |code| format!("code {code}"));
        return Err(AskError::Failed { program: name(), status, said });
    }
    match std::str::from_utf8(printed) {
        Ok(text) if is_whole => Ok(Zeroizing::new(text.to_owned())),
        _ => Err(AskError::NotAKey { program: name() }),
    }
}

/// A program that runs. It and all that it started are ended if nobody waits for it any more.
struct Asked {
    child: Child,
    ended: bool,
    stdout: Ear<std::process::ChildStdout>,
    stderr: Ear<std::process::ChildStderr>,
}

impl Asked {
    fn start(program: &Program, input: Option<&str>) -> io::Result<Asked> {
        let mut command = Command::new(program.name());
        command.args(program.arguments()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Our own input may be a conversation with a client.
        command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
        command.process_group(0);
        withhold_secrets(&mut command);
        let mut child = command.spawn()?;
        let (stdout, stderr) = (Ear::new(child.stdout.take()), Ear::new(child.stderr.take()));
        let stdin = child.stdin.take();
        let asked = Asked { child, ended: false, stdout, stderr };
        if let (Some(mut stdin), Some(input)) = (stdin, input) {
            // It is shorter than what a pipe holds, and who does not read it will say why.
            let _ = stdin.write_all(input.as_bytes());
        }
        Ok(asked)
    }

    /// Hears it out until it ends; nothing when it takes too long.
    fn listen(&mut self, deadline: Instant) -> io::Result<Option<ExitStatus>> {
        loop {
            let status = self.child.try_wait()?;
            self.ended = status.is_some();
            // What an ended program printed is there already. One that it left running in the
            // background may hold its output open for ever.
            while self.hear(if self.ended { 0 } else { LOOK_MS })? {}
            if self.ended {
                return Ok(status);
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
        }
    }

    /// Takes what has been printed; was there anything?
    fn hear(&mut self, wait_ms: u64) -> io::Result<bool> {
        let span = Duration::from_millis(wait_ms);
        let pipes = [self.stdout.fd(), self.stderr.fd()];
        let mut fds: Vec<PollFd<'_>> =
            pipes.iter().flatten().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        let wait = Timespec::try_from(span).map_err(io::Error::other)?;
        match poll(&mut fds, Some(&wait)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(false),
            Ok(_) => {}
            Err(e) => return Err(e.into()),
        }
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        drop(fds);
        let mut ready = ready.into_iter();
        let mut heard = false;
        if self.stdout.pipe.is_some() && ready.next() == Some(true) {
            heard |= self.stdout.take()?;
        }
        if self.stderr.pipe.is_some() && ready.next() == Some(true) {
            heard |= self.stderr.take()?;
        }
        Ok(heard)
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if !self.ended {
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

/// One output of a program, as far as it is of interest.
struct Ear<P> {
    pipe: Option<P>,
    heard: Zeroizing<Vec<u8>>,
}

impl<P: Read + AsFd> Ear<P> {
    fn new(pipe: Option<P>) -> Ear<P> {
        // Never grown, so that no copy of a key is left behind in memory.
        Ear { pipe, heard: Zeroizing::new(Vec::with_capacity(PRINTED_BYTES_MAX)) }
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// Reads once; the pipe is let go at its end, or when it has brought enough.
    fn take(&mut self) -> io::Result<bool> {
        let Some(pipe) = &mut self.pipe else { return Ok(false) };
        let room = PRINTED_BYTES_MAX - self.heard.len();
        let mut chunk = Zeroizing::new([0; 1024]);
        let into = chunk.get_mut(..room.min(1024)).unwrap_or_default();
        let read = pipe.read(into)?;
        self.heard.extend_from_slice(into.get(..read).unwrap_or_default());
        if read == 0 {
            self.pipe = None;
        }
        Ok(read > 0)
    }
}

/// The last line of what a program said on its way out, unless a key may stand in it.
fn complaint(stderr: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(stderr);
    let line = text.lines().map(str::trim).rfind(|line| !line.is_empty())?;
    let digits = line.split(|c: char| !c.is_ascii_hexdigit()).map(str::len).max();
    if digits.is_some_and(|digits| digits >= KEY_DIGITS_MIN) {
        return Some("(not shown: there may be a key in it)".to_owned());
    }
    Some(line.chars().take(SAID_CHARS_MAX).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn shell(script: &str, input: Option<&str>, seconds: u64) -> Result<String, AskError> {
        let words = ["sh", "-c", script].map(str::to_owned).to_vec();
        let wait = Wait::try_from(seconds).unwrap();
        run(&Program::try_from(words).unwrap(), input, wait).map(|printed| printed.to_string())
    }

    #[test]
    fn a_program_is_heard_with_its_input_and_without_what_it_leaves_running() {
        assert_eq!(shell("cat; echo .", Some("abc"), 5).unwrap(), "abc.\n");
        assert_eq!(shell("cat; echo .", None, 5).unwrap(), ".\n");
        let begin = Instant::now();
        assert_eq!(shell("sleep 5 & echo key", None, 9).unwrap(), "key\n");
        assert!(begin.elapsed() < Duration::from_secs(4));
    }

    #[test]
    fn a_slow_program_is_ended_with_all_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("mark");
        let script = format!("(sleep 2; echo late > {}) & wait", mark.display());
        assert!(matches!(shell(&script, None, 1), Err(AskError::Slow { seconds: 1, .. })));
        std::thread::sleep(Duration::from_millis(1500));
        assert!(!mark.exists(), "what it started went on");
    }

    #[test]
    fn each_way_to_fail_has_its_words_and_none_has_the_key() {
        let key = "ab".repeat(32);
        let table = [
            ("exit 3".to_owned(), "`sh` ended with code 3 and said nothing"),
            ("echo a >&2; echo b >&2; exit 1".to_owned(), "`sh` ended with code 1 and said: b"),
            (
                format!("echo the key is tgvk1_{key} >&2; echo {key}; exit 1"),
                "and said: (not shown",
            ),
            ("kill -9 $$".to_owned(), "`sh` ended with signal: 9"),
            ("yes".to_owned(), "`sh` printed something that is not a vault key"),
            ("printf '\\377'".to_owned(), "`sh` printed something that is not a vault key"),
        ];
        for (script, words) in table {
            let said = shell(&script, None, 5).unwrap_err().to_string();
            assert!(said.contains(words), "{said}");
            assert!(!said.contains(&key), "{said}");
        }
        let words = vec!["no-such-program-here".to_owned()];
        let error = run(&Program::try_from(words).unwrap(), None, Wait::default()).unwrap_err();
        assert_eq!(error.to_string(), "there is no program `no-such-program-here`");
    }
}
