//! The end of a child's stderr, which is what a person needs when it does not start.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Keeps the last bytes written to it.
pub(super) struct Ring {
    bytes: Mutex<VecDeque<u8>>,
    bytes_max: usize,
}

impl Ring {
    pub(super) fn new(bytes_max: usize) -> Ring {
        Ring { bytes: Mutex::new(VecDeque::new()), bytes_max }
    }

    pub(super) fn write(&self, new: &[u8]) {
        let new = new.get(new.len().saturating_sub(self.bytes_max)..).unwrap_or(new);
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let over = (bytes.len() + new.len()).saturating_sub(self.bytes_max);
        bytes.drain(..over);
        bytes.extend(new);
    }

    /// What is kept, as text.
    pub(super) fn tail(&self) -> String {
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(bytes.make_contiguous()).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_end_is_kept() {
        let ring = Ring::new(8);
        for part in ["one\n", "two\n", "three\n"] {
            ring.write(part.as_bytes());
        }
        assert_eq!(ring.tail(), "o\nthree\n");
        ring.write(b"a line longer than the ring");
        assert_eq!(ring.tail(), "the ring");
    }
}
