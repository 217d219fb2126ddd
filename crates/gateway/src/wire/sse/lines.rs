//! From bytes in pieces to lines that end in LF, CR or CR LF.

use std::ops::Range;

use bytes::Bytes;

use super::decode::TooLong;

/// The end of a line that is longer than this is given away with the buffer it stands in instead of
/// being copied.
const COPIED_BYTES_MAX: usize = 64 * 1024;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Bytes on their way to become lines.
#[derive(Debug)]
pub(super) struct Lines {
    line_bytes_max: usize,
    buffer: Vec<u8>,
    /// Where the next line begins in the buffer.
    start: usize,
    /// Up to where the buffer is known to hold no line end.
    scanned: usize,
    /// The last line ended in CR, so an LF that follows belongs to it.
    after_cr: bool,
    /// No line was given yet, so a byte order mark may come.
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

    /// Bytes that are not given out as lines yet.
    pub(super) fn held_bytes(&self) -> usize {
        self.buffer.len() - self.start
    }

    pub(super) fn line(&self, place: Range<usize>) -> &[u8] {
        self.buffer.get(place).unwrap_or(&[])
    }

    /// The end of the line that was given last, for longer than the buffer holds it.
    pub(super) fn take(&mut self, place: Range<usize>) -> Bytes {
        if place.len() <= COPIED_BYTES_MAX {
            return Bytes::copy_from_slice(self.line(place));
        }
        let rest = self.buffer.split_off(self.start);
        let mut given = std::mem::replace(&mut self.buffer, rest);
        self.scanned -= self.start;
        self.start = 0;
        given.truncate(place.end);
        Bytes::from(given).slice(place.start..)
    }

    /// The place of the next whole line, without its end.
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
