//! A writer for untrusted bytes to a terminal: line by line, with control characters made visible.

use std::io::{self, Write};

use super::visible;

/// Makes lines visible. Writes complete lines, and the last one at a flush.
pub(crate) struct Neutral<W: Write> {
    inner: W,
    line: Vec<u8>,
}

impl<W: Write> Neutral<W> {
    pub(crate) fn new(inner: W) -> Neutral<W> {
        Neutral { inner, line: Vec::new() }
    }

    fn write_line(&mut self, end: &str) -> io::Result<()> {
        let line = std::mem::take(&mut self.line);
        let text = String::from_utf8_lossy(&line);
        let text = text.strip_suffix('\r').unwrap_or(&text);
        write!(self.inner, "{}{end}", visible(text))
    }
}

impl<W: Write> Write for Neutral<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for byte in bytes {
            if *byte == b'\n' {
                self.write_line("\n")?;
            } else {
                self.line.push(*byte);
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.line.is_empty() {
            self.write_line("")?;
        }
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn no_control_character_is_left() {
        let mut out = Vec::new();
        let mut neutral = Neutral::new(&mut out);
        for piece in ["a,\u{1b}[2J\r", "\nb\rc,日", "本\u{9b}31m\u{202e}\n", "end\u{7}"] {
            neutral.write_all(piece.as_bytes()).unwrap();
        }
        neutral.write_all(b"\xff").unwrap();
        neutral.flush().unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
        assert!(text.contains("日本") && !text.contains('\u{202e}'), "{text}");
    }
}
