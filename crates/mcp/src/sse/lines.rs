//! Splits incoming bytes into lines that end in LF, CR or CR LF.

use std::ops::Range;

use bytes::Bytes;

use super::decode::TooLong;

/// A longer line is handed out with its buffer instead of being copied.
const COPIED_BYTES_MAX: usize = 64 * 1024;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Buffers bytes until lines are complete.
#[derive(Debug)]
pub(super) struct Lines {
    line_bytes_max: usize,
    buffer: Vec<u8>,
    /// Start of the next line in the buffer.
    start: usize,
    /// The buffer contains no line end before this position.
    scanned: usize,
    /// The last line ended in CR, so a following LF belongs to it.
    after_cr: bool,
    /// No line was returned yet, so a byte order mark may follow.
    at_start: bool,
}

impl Lines {
    pub(super) fn new(line_bytes_max: usize) -> Lines {
        let (start, scanned) = (0, 0);
        let buffer = Vec::new();
        Lines { line_bytes_max, buffer, start, scanned, after_cr: false, at_start: true }
    }

    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.start);
        self.scanned -= self.start;
        self.start = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// Bytes not yet returned as lines.
    pub(super) fn held_bytes(&self) -> usize {
        self.buffer.len() - self.start
    }

    pub(super) fn line(&self, range: Range<usize>) -> &[u8] {
        self.buffer.get(range).unwrap_or(&[])
    }

    /// The end of the last line as an independent buffer.
    pub(super) fn take(&mut self, range: Range<usize>) -> Bytes {
        if range.len() <= COPIED_BYTES_MAX {
            return Bytes::copy_from_slice(self.line(range));
        }
        let rest = self.buffer.split_off(self.start);
        let mut given = std::mem::replace(&mut self.buffer, rest);
        self.scanned -= self.start;
        self.start = 0;
        given.truncate(range.end);
        Bytes::from(given).slice(range.start..)
    }

    /// The range of the next complete line, without its line end.
    pub(super) fn next_line(&mut self) -> Result<Option<Range<usize>>, TooLong> {
        self.skip_line_feed();
        self.skip_byte_order_mark();
        let unseen = self.buffer.get(self.scanned..).unwrap_or(&[]);
        let Some(length) = memchr::memchr2(b'\n', b'\r', unseen) else {
            self.scanned = self.buffer.len();
            return self.check_length(self.scanned).map(|()| None);
        };
        let (start, end) = (self.start, self.scanned + length);
        self.check_length(end)?;
        self.after_cr = self.buffer.get(end) == Some(&b'\r');
        self.start = end + 1;
        self.scanned = end + 1;
        Ok(Some(start..end))
    }

    fn check_length(&self, end: usize) -> Result<(), TooLong> {
        if end - self.start > self.line_bytes_max { Err(TooLong) } else { Ok(()) }
    }

    fn skip_line_feed(&mut self) {
        if !self.after_cr || self.start == self.buffer.len() {
            return;
        }
        self.after_cr = false;
        if self.buffer.get(self.start) == Some(&b'\n') {
            self.start += 1;
            self.scanned = self.start;
        }
    }

    fn skip_byte_order_mark(&mut self) {
        let undecided =
            BYTE_ORDER_MARK.len() > self.buffer.len() && BYTE_ORDER_MARK.starts_with(&self.buffer);
        if !self.at_start || undecided {
            return;
        }
        self.at_start = false;
        if self.buffer.starts_with(BYTE_ORDER_MARK) {
            self.start = BYTE_ORDER_MARK.len();
            self.scanned = self.start;
        }
    }
}
