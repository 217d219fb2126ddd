//! A bound on log lines that are alike: a server or a client that misbehaves a thousand times a second
//! must not fill the disk with the news of it.

use std::collections::HashMap;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::Metadata;
use tracing::callsite::Identifier;
use tracing_subscriber::fmt::MakeWriter;

use super::LogFormat;

/// So many lines from one place in the program within this time; what comes beyond is only counted.
const LINES_MAX: u32 = 100;
const WITHIN: Duration = Duration::from_secs(10);

/// Writes lines to stderr, within the bound.
pub(super) struct Bounded {
    format: LogFormat,
    kinds: Mutex<HashMap<Identifier, Kind>>,
}

impl Bounded {
    pub(super) fn new(format: LogFormat) -> Bounded {
        Bounded { format, kinds: Mutex::default() }
    }
}

/// The lines from one place.
struct Kind {
    since: Instant,
    written: u32,
    left_out: u64,
}

impl Kind {
    fn new(now: Instant) -> Kind {
        Kind { since: now, written: 0, left_out: 0 }
    }

    /// Whether one more line is written, and how many were not since the last one.
    fn takes(&mut self, now: Instant) -> Option<u64> {
        if now.duration_since(self.since) >= WITHIN {
            *self = Kind { left_out: self.left_out, ..Kind::new(now) };
        }
        if self.written >= LINES_MAX {
            self.left_out += 1;
            return None;
        }
        self.written += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

impl<'w> MakeWriter<'w> for Bounded {
    type Writer = Line;

    fn make_writer(&'w self) -> Line {
        Line::Written { before: None }
    }

    fn make_writer_for(&'w self, metadata: &Metadata<'_>) -> Line {
        let now = Instant::now();
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        let kind = kinds.entry(metadata.callsite()).or_insert_with(|| Kind::new(now));
        match kind.takes(now) {
            None => Line::LeftOut,
            Some(0) => Line::Written { before: None },
            Some(lines) => Line::Written { before: Some(note(self.format, lines)) },
        }
    }
}

/// Stands before the first line that is written again.
fn note(format: LogFormat, lines: u64) -> String {
    match format {
        LogFormat::Human => format!("({lines} lines like the next one were left out)\n"),
        LogFormat::Json => {
            let words = "lines like the next one were left out";
            format!("{}\n", serde_json::json!({ "message": words, "lines": lines }))
        }
    }
}

/// Takes one line.
pub(super) enum Line {
    Written { before: Option<String> },
    LeftOut,
}

impl io::Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Line::Written { before } = self else { return Ok(bytes.len()) };
        let mut stderr = io::stderr().lock();
        if let Some(before) = before.take() {
            stderr.write_all(before.as_bytes())?;
        }
        stderr.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_beyond_the_bound_are_counted_and_told_later() {
        let begin = Instant::now();
        let mut kind = Kind::new(begin);
        for _ in 0..LINES_MAX {
            assert_eq!(kind.takes(begin), Some(0));
        }
        for _ in 0..7 {
            assert_eq!(kind.takes(begin + WITHIN / 2), None);
        }
        assert_eq!(kind.takes(begin + WITHIN), Some(7));
        assert_eq!(kind.takes(begin + WITHIN), Some(0));
    }
}
