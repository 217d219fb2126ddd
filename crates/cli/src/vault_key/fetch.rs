//! Runs a program that prints the vault key: without a shell, with a timeout, and without showing its
//! output.

use std::io;
use std::process::Command;
use std::time::{Duration, Instant};

use platform::captured::Captured;
use store::vault::{ExternalKey, KeyProgramError, Program, ProgramTimeout};
use zeroize::Zeroizing;

use crate::program::withhold_secrets;

/// A key has 80 bytes; longer output is not read.
const PRINTED_BYTES_MAX: usize = 4096;
/// How much of an error message is shown.
const ERROR_CHARS_MAX: usize = 200;
/// A line with this many hexadecimal digits in a row may hold a key.
const KEY_DIGITS_MIN: usize = 32;

/// Fetches the key from its program.
pub(crate) fn fetch(external: &ExternalKey) -> Result<Zeroizing<String>, KeyProgramError> {
    run(&external.command, None, external.wait_seconds_max)
}

/// Runs a program with this input and returns its output.
pub(crate) fn run(
    program: &Program,
    input: Option<&str>,
    wait: ProgramTimeout,
) -> Result<Zeroizing<String>, KeyProgramError> {
    let name = || program.name().to_owned();
    let broken = |source| KeyProgramError::Io { program: name(), source };
    let mut command = Command::new(program.name());
    command.args(program.arguments());
    withhold_secrets(&mut command);
    let started = Captured::start(command, input, PRINTED_BYTES_MAX);
    let mut running = started.map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => KeyProgramError::NoProgram { program: name() },
        _ => broken(e),
    })?;
    let deadline = Instant::now() + Duration::from_secs(wait.seconds());
    let slow = || KeyProgramError::Slow { program: name(), seconds: wait.seconds() };
    let status = running.wait(deadline).map_err(broken)?.ok_or_else(slow)?;
    let (printed, is_complete) = (running.stdout().bytes(), running.stdout().is_complete());
    // A program with endless output is killed, so its exit status says nothing.
    if !status.success() && is_complete {
        let message = last_error(running.stderr().bytes());
        let status = status.code().map_or(status.to_string(), |code| format!("code {code}"));
        return Err(KeyProgramError::Failed { program: name(), status, message });
    }
    match std::str::from_utf8(printed) {
        Ok(text) if is_complete => Ok(Zeroizing::new(text.to_owned())),
        _ => Err(KeyProgramError::NotAKey { program: name() }),
    }
}

/// The last line of a program's stderr, unless it may hold a key.
fn last_error(stderr: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(stderr);
    let line = text.lines().map(str::trim).rfind(|line| !line.is_empty())?;
    let digits = line.split(|c: char| !c.is_ascii_hexdigit()).map(str::len).max();
    if digits.is_some_and(|digits| digits >= KEY_DIGITS_MIN) {
        return Some("(not shown: there may be a key in it)".to_owned());
    }
    Some(line.chars().take(ERROR_CHARS_MAX).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn shell(script: &str, input: Option<&str>, seconds: u64) -> Result<String, KeyProgramError> {
        let message = ["sh", "-c", script].map(str::to_owned).to_vec();
        let wait = ProgramTimeout::try_from(seconds).unwrap();
        run(&Program::try_from(message).unwrap(), input, wait).map(|printed| printed.to_string())
    }

    #[test]
    fn output_is_read_without_waiting_for_background_processes() {
        assert_eq!(shell("cat; echo .", Some("abc"), 5).unwrap(), "abc.\n");
        assert_eq!(shell("cat; echo .", None, 5).unwrap(), ".\n");
        let begin = Instant::now();
        assert_eq!(shell("sleep 5 & echo key", None, 9).unwrap(), "key\n");
        assert!(begin.elapsed() < Duration::from_secs(4));
    }

    #[test]
    fn a_slow_program_is_killed_with_its_children() {
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("mark");
        let script = format!("(sleep 2; echo late > {}) & wait", mark.display());
        assert!(matches!(shell(&script, None, 1), Err(KeyProgramError::Slow { seconds: 1, .. })));
        std::thread::sleep(Duration::from_millis(1500));
        assert!(!mark.exists(), "its child was not killed");
    }

    #[test]
    fn each_failure_has_its_message_and_none_contains_the_key() {
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
        for (script, message) in table {
            let summary = shell(&script, None, 5).unwrap_err().to_string();
            assert!(summary.contains(message), "{summary}");
            assert!(!summary.contains(&key), "{summary}");
        }
        let message = vec!["no-such-program-here".to_owned()];
        let error =
            run(&Program::try_from(message).unwrap(), None, ProgramTimeout::default()).unwrap_err();
        assert_eq!(error.to_string(), "there is no program `no-such-program-here`");
    }
}
