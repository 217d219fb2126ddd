//! Bounds the unpacked size of an archive. The sizes in a ZIP's directory are claims, so the bytes
//! are counted as they are read.

use std::cell::Cell;
use std::io::{self, Read};

/// Spotify cuts its files at some 12 megabytes; Google writes years into one.
const FILE_BYTES_MAX: u64 = 1 << 30;
const TOTAL_BYTES_MAX: u64 = 8 << 30;
/// One row, one entry. The longest post of Reddit has 40,000 characters.
const PIECE_BYTES_MAX: u64 = 16 << 20;
/// Tables and histories compress up to fifty times; no real archive compresses better than this.
const PACKED_TIMES_MAX: u64 = 250;
const SMALL_BYTES: u64 = 16 << 20;

/// The bound that was exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hit {
    File,
    Piece,
    Total,
}

impl Hit {
    pub(super) fn message(self) -> &'static str {
        match self {
            Hit::File => "it unpacks to far more than such a file holds",
            Hit::Piece => "one row of it is longer than 16 megabytes",
            Hit::Total => "the archive unpacks to far more than archives hold",
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Meter {
    file_left: Cell<u64>,
    file_done: Cell<u64>,
    total: Cell<u64>,
    piece: Cell<u64>,
    hit: Cell<Option<Hit>>,
}

impl Meter {
    /// Starts a new file of this compressed size.
    pub(super) fn begin(&self, packed_bytes: u64) {
        let most = packed_bytes.saturating_mul(PACKED_TIMES_MAX).max(SMALL_BYTES);
        self.file_left.set(most.min(FILE_BYTES_MAX));
        self.file_done.set(0);
        self.piece.set(0);
        self.hit.set(None);
    }

    /// How much of the file was read.
    pub(super) fn file_bytes(&self) -> u64 {
        self.file_done.get()
    }

    /// A row or an entry is complete.
    pub(crate) fn piece(&self) {
        self.piece.set(0);
    }

    pub(super) fn hit(&self) -> Option<Hit> {
        self.hit.get()
    }

    pub(super) fn reader<'a>(&'a self, inner: &'a mut dyn Read) -> Metered<'a> {
        Metered { inner, meter: self }
    }

    fn count(&self, bytes: u64) -> io::Result<()> {
        self.file_done.set(self.file_done.get().saturating_add(bytes));
        self.total.set(self.total.get().saturating_add(bytes));
        self.piece.set(self.piece.get().saturating_add(bytes));
        let left = self.file_left.get().checked_sub(bytes);
        let hit = if left.is_none() {
            Hit::File
        } else if self.total.get() > TOTAL_BYTES_MAX {
            Hit::Total
        } else if self.piece.get() > PIECE_BYTES_MAX {
            Hit::Piece
        } else {
            self.file_left.set(left.unwrap_or_default());
            return Ok(());
        };
        self.hit.set(Some(hit));
        Err(io::Error::other(hit.message()))
    }
}

pub(super) struct Metered<'a> {
    inner: &'a mut dyn Read,
    meter: &'a Meter,
}

impl Read for Metered<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.inner.read(buffer)?;
        self.meter.count(bytes as u64)?;
        Ok(bytes)
    }
}
