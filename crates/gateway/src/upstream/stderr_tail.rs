//! The last bytes of a child's stderr, to show why it failed.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use super::mask::Mask;

/// Bytes kept of a child's stderr.
pub(super) const STDERR_BYTES_MAX: usize = 64 * 1024;
/// The lines shown to the owner.
const LAST_LINES_MAX: usize = 10;
const LAST_CHARS_MAX: usize = 2000;

/// Keeps the last bytes written to it.
pub(super) struct StderrTail {
    bytes: Mutex<VecDeque<u8>>,
    bytes_max: usize,
}

impl StderrTail {
    pub(super) fn new(bytes_max: usize) -> StderrTail {
        StderrTail { bytes: Mutex::new(VecDeque::new()), bytes_max }
    }

    pub(super) fn write(&self, new: &[u8]) {
        let new = new.get(new.len().saturating_sub(self.bytes_max)..).unwrap_or(new);
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let over = (bytes.len() + new.len()).saturating_sub(self.bytes_max);
        bytes.drain(..over);
        bytes.extend(new);
    }

    /// The kept bytes as text.
    pub(super) fn tail(&self) -> String {
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(bytes.make_contiguous()).into_owned()
    }

    /// The last lines without these secrets. None if nothing was written.
    pub(super) fn last_stderr(&self, mask: Option<&Mask>) -> Option<String> {
        let tail = self.tail();
        let tail = match mask {
            Some(mask) => mask.text(tail),
            None => tail,
        };
        let lines: Vec<&str> = tail.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = lines.get(lines.len().saturating_sub(LAST_LINES_MAX)..).unwrap_or_default();
        let message = last.join("\n");
        let over = message.chars().count().saturating_sub(LAST_CHARS_MAX);
        let message: String = message.chars().skip(over).collect();
        (!message.is_empty()).then_some(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_end_is_kept() {
        let stderr = StderrTail::new(8);
        for part in ["one\n", "two\n", "three\n"] {
            stderr.write(part.as_bytes());
        }
        assert_eq!(stderr.tail(), "o\nthree\n");
        stderr.write(b"a line longer than the ring");
        assert_eq!(stderr.tail(), "the ring");
    }

    #[test]
    fn the_owner_sees_the_last_lines_without_secrets() {
        let stderr = StderrTail::new(STDERR_BYTES_MAX);
        assert_eq!(stderr.last_stderr(None), None);
        stderr.write(b"first\n\n");
        for line in 0..LAST_LINES_MAX {
            stderr.write(format!("line {line} key=hunter22\n").as_bytes());
        }
        let mask = Mask::new([("KEY", "hunter22"), ("SHORT", "line"), ("TINY", "1")]);
        let message = stderr.last_stderr(mask.as_deref()).unwrap_or_default();
        assert_eq!(message.lines().count(), LAST_LINES_MAX);
        assert!(
            message.starts_with(
                "[secret SHORT] 0 key=[secret KEY]\n[secret SHORT] 1 key=[secret KEY]"
            ),
            "{message}"
        );
        stderr.write("ü".repeat(LAST_CHARS_MAX + 1).as_bytes());
        let message = stderr.last_stderr(None).unwrap_or_default();
        assert_eq!(message, "ü".repeat(LAST_CHARS_MAX));
    }
}
