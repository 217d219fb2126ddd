//! An object as it stands inside a JSON string, checked and written in one pass: an answer shows each
//! record both ways, and a list has many.

use super::{number, text};

/// Containers within each other that are followed, one bit for each.
const DEPTH_MAX: u32 = 64;
/// So much of a text is copied at once.
const WORD_BYTES: usize = 8;

/// Writes an object as [`write_string`](super::write_string) does between its quotes. False when the
/// text is anything but compact JSON without escapes, whether that is an object or not; `out` is then
/// as it was.
pub fn write_quoted_object(text: &str, out: &mut Vec<u8>) -> bool {
    let begin = out.len();
    // Of every byte two at most, and a word beyond the last.
    out.resize(begin + 2 * text.len() + WORD_BYTES, 0);
    let room = out.get_mut(begin..).unwrap_or_default();
    let mut quoter = Quoter { bytes: text.as_bytes(), at: 0, copied: 0, out: room, written: 0 };
    let is_object = text.starts_with('{') && quoter.run().is_some();
    let written = if is_object { quoter.written } else { 0 };
    out.truncate(begin + written);
    is_object
}

struct Quoter<'a, 'o> {
    bytes: &'a [u8],
    at: usize,
    /// What comes before this is written.
    copied: usize,
    out: &'o mut [u8],
    written: usize,
}

impl Quoter<'_, '_> {
    fn run(&mut self) -> Option<()> {
        let mut open = Open { depth: 0, objects: 0 };
        loop {
            match self.bytes.get(self.at)? {
                b'"' => self.string()?,
                b'{' => {
                    open.push(true)?;
                    self.at += 1;
                    if self.bytes.get(self.at) != Some(&b'}') {
                        self.key()?;
                        continue;
                    }
                }
                b'[' => {
                    open.push(false)?;
                    self.at += 1;
                    if self.bytes.get(self.at) != Some(&b']') {
                        continue;
                    }
                }
                b'-' | b'0'..=b'9' => self.at = number::scan(self.bytes, self.at).ok()?,
                b't' => self.word(b"true")?,
                b'f' => self.word(b"false")?,
                b'n' => self.word(b"null")?,
                _ => return None,
            }
            if !self.after_value(&mut open)? {
                break;
            }
        }
        self.copy()?;
        (self.at == self.bytes.len()).then_some(())
    }

    /// Closes what ends here. True when a comma was met and another value follows.
    #[inline]
    fn after_value(&mut self, open: &mut Open) -> Option<bool> {
        while open.depth > 0 {
            match (self.bytes.get(self.at)?, open.is_object()) {
                (b',', is_object) => {
                    self.at += 1;
                    if is_object {
                        self.key()?;
                    }
                    return Some(true);
                }
                (b'}', true) | (b']', false) => open.pop(),
                _ => return None,
            }
            self.at += 1;
        }
        Some(false)
    }

    #[inline]
    fn key(&mut self) -> Option<()> {
        if self.bytes.get(self.at) != Some(&b'"') {
            return None;
        }
        self.string()?;
        if self.bytes.get(self.at) != Some(&b':') {
            return None;
        }
        self.at += 1;
        Some(())
    }

    /// A string without escapes; its quotes get theirs. What comes before it is written first.
    #[inline]
    fn string(&mut self) -> Option<()> {
        self.copy()?;
        self.quote()?;
        while let Some(word) = self.bytes.get(self.at..)?.first_chunk::<WORD_BYTES>() {
            let plain = text::plain_of(*word);
            self.put(*word, plain)?;
            self.at += plain;
            if plain < WORD_BYTES {
                return self.closing_quote();
            }
        }
        // The last bytes of the text.
        while self.bytes.get(self.at).is_some_and(|byte| text::is_plain(*byte)) {
            self.put([*self.bytes.get(self.at)?; WORD_BYTES], 1)?;
            self.at += 1;
        }
        self.closing_quote()
    }

    #[inline]
    fn closing_quote(&mut self) -> Option<()> {
        if self.bytes.get(self.at) == Some(&b'"') { self.quote() } else { None }
    }

    #[inline]
    fn quote(&mut self) -> Option<()> {
        self.out.get_mut(self.written..)?.first_chunk_mut::<2>().map(|room| *room = *b"\\\"")?;
        self.written += 2;
        self.at += 1;
        self.copied = self.at;
        Some(())
    }

    fn word(&mut self, word: &[u8]) -> Option<()> {
        let rest = self.bytes.get(self.at..)?;
        rest.starts_with(word).then(|| self.at += word.len())
    }

    /// Writes what was passed over.
    #[inline]
    fn copy(&mut self) -> Option<()> {
        while self.copied < self.at {
            let left = (self.at - self.copied).min(WORD_BYTES);
            let rest = self.bytes.get(self.copied..)?;
            if let Some(word) = rest.first_chunk::<WORD_BYTES>() {
                self.put(*word, left)?;
            } else {
                for byte in rest.get(..left)? {
                    self.put([*byte; WORD_BYTES], 1)?;
                }
            }
            self.copied += left;
        }
        Some(())
    }

    /// Writes a word of which so many bytes count: faster than just so many bytes.
    #[inline]
    fn put(&mut self, word: [u8; WORD_BYTES], counting: usize) -> Option<()> {
        *self.out.get_mut(self.written..)?.first_chunk_mut::<WORD_BYTES>()? = word;
        self.written += counting;
        Some(())
    }
}

/// The containers that are open, the innermost in the lowest bit.
struct Open {
    depth: u32,
    objects: u64,
}

impl Open {
    fn push(&mut self, is_object: bool) -> Option<()> {
        self.depth = (self.depth < DEPTH_MAX).then_some(self.depth + 1)?;
        self.objects = self.objects << 1 | u64::from(is_object);
        Some(())
    }

    fn pop(&mut self) {
        self.depth -= 1;
        self.objects >>= 1;
    }

    fn is_object(&self) -> bool {
        self.objects & 1 == 1
    }
}
