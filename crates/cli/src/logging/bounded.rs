//! Rate limit for log lines: a server or a client that misbehaves a thousand times a second must not fill
//! the disk with log lines.

use std::collections::HashMap;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::Metadata;
use tracing::callsite::Identifier;
use tracing_subscriber::fmt::MakeWriter;

use super::LogFormat;

/// The most lines of one call site within this time; further ones are only counted.
const LINES_MAX: u32 = 100;
const WITHIN: Duration = Duration::from_secs(10);

/// Writes lines to stderr, within the limit.
pub(super) struct Bounded {
    format: LogFormat,
    call_sites: Mutex<HashMap<Identifier, CallSite>>,
}

impl Bounded {
    pub(super) fn new(format: LogFormat) -> Bounded {
        Bounded { format, call_sites: Mutex::default() }
    }
}

/// The lines of one call site.
struct CallSite {
    since: Instant,
    written: u32,
    left_out: u64,
}

impl CallSite {
    fn new(now: Instant) -> CallSite {
        CallSite { since: now, written: 0, left_out: 0 }
    }

    /// Whether one more line is written, and how many were not since the last one.
    fn admit(&mut self, now: Instant) -> Option<u64> {
        if now.duration_since(self.since) >= WITHIN {
            *self = CallSite { left_out: self.left_out, ..CallSite::new(now) };
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
        let mut call_sites = self.call_sites.lock().unwrap_or_else(PoisonError::into_inner);
        let call_site = call_sites.entry(metadata.callsite()).or_insert_with(|| CallSite::new(now));
        match call_site.admit(now) {
            None => Line::LeftOut,
            Some(0) => Line::Written { before: None },
            Some(lines) => Line::Written { before: Some(note(self.format, lines)) },
        }
    }
}

/// Precedes the next line that is written.
fn note(format: LogFormat, lines: u64) -> String {
    match format {
        LogFormat::Human => format!("({lines} lines like the next one were left out)\n"),
        LogFormat::Json => {
            let message = "lines like the next one were left out";
            format!("{}\n", serde_json::json!({ "message": message, "lines": lines }))
        }
    }
}

/// Writes or drops one line.
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
    fn lines_beyond_the_limit_are_counted_and_reported_later() {
        let begin = Instant::now();
        let mut call_site = CallSite::new(begin);
        for _ in 0..LINES_MAX {
            assert_eq!(call_site.admit(begin), Some(0));
        }
        for _ in 0..7 {
            assert_eq!(call_site.admit(begin + WITHIN / 2), None);
        }
        assert_eq!(call_site.admit(begin + WITHIN), Some(7));
        assert_eq!(call_site.admit(begin + WITHIN), Some(0));
    }
}
