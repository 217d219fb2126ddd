//! Splits a stream of JSON into servers without reading it into memory: one object, lines of
//! objects, an array, pages with an array `servers`, or several of these in a row.

/// The maximum size of one server or tool in a dump.
pub(super) const ITEM_BYTES_MAX: usize = 32 << 20;
/// Longer keys cannot be the key we look for.
const KEY_BYTES_MAX: usize = 16;
/// The member of a page that contains its servers.
const LIST_KEY: &[u8] = b"servers";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Every value directly inside is an item.
    Items,
    /// Part of an item, or of something unneeded.
    Inside,
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    close: u8,
    role: Role,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum SplitError {
    #[error("byte {0}: unmatched closing bracket")]
    Unbalanced(u64),
    #[error("byte {0}: an entry is larger than {ITEM_BYTES_MAX} bytes")]
    LargeItem(u64),
    #[error("the text ends in the middle of an entry")]
    CutShort,
    #[error("byte {0}: this is not JSON")]
    NotJson(u64),
}

/// The state between two chunks of the stream.
#[expect(clippy::struct_excessive_bools, reason = "each is one bit of where the stream stands")]
#[derive(Debug, Default)]
pub(super) struct DumpSplitter {
    stack: Vec<Frame>,
    /// The depth of the current item.
    taking: Option<usize>,
    item: Vec<u8>,
    in_string: bool,
    escaped: bool,
    /// The last string at the item's own level, and whether a colon followed it.
    key: Vec<u8>,
    key_open: bool,
    after_key: bool,
    bytes: u64,
}

impl DumpSplitter {
    /// Processes the next chunk; complete items are passed to `out`.
    pub(super) fn push(
        &mut self,
        chunk: &[u8],
        out: &mut impl FnMut(Vec<u8>),
    ) -> Result<(), SplitError> {
        let mut from = 0;
        let mut at = 0;
        while let Some(byte) = chunk.get(at).copied() {
            if self.in_string {
                at = self.string(chunk, at);
                continue;
            }
            let was_taking = self.taking.is_some();
            let position = self.bytes + at as u64;
            let ended = self.outside(byte, position)?;
            at += 1;
            match (was_taking, self.taking.is_some(), ended) {
                (false, true, _) => from = at - 1,
                (true, false, true) => {
                    self.item.extend_from_slice(chunk.get(from..at).unwrap_or_default());
                    out(std::mem::take(&mut self.item));
                }
                (true, false, false) => self.item.clear(),
                _ => {}
            }
        }
        if self.taking.is_some() {
            self.item.extend_from_slice(chunk.get(from..).unwrap_or_default());
            if self.item.len() > ITEM_BYTES_MAX {
                return Err(SplitError::LargeItem(self.bytes));
            }
        }
        self.bytes += chunk.len() as u64;
        Ok(())
    }

    /// Checks that the stream ended at a valid point.
    pub(super) fn finish(&self) -> Result<(), SplitError> {
        if self.stack.is_empty() && !self.in_string { Ok(()) } else { Err(SplitError::CutShort) }
    }

    /// Skips to the end of a string or of the chunk.
    fn string(&mut self, chunk: &[u8], from: usize) -> usize {
        let mut at = from;
        while let Some(byte) = chunk.get(at) {
            at += 1;
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => {
                    self.in_string = false;
                    break;
                }
                _ => {}
            }
            if self.key_open && self.in_string && self.key.len() < KEY_BYTES_MAX {
                self.key.push(*byte);
            }
        }
        at
    }

    /// One byte outside of strings. True when it ends an item.
    fn outside(&mut self, byte: u8, position: u64) -> Result<bool, SplitError> {
        match byte {
            b'"' => {
                self.in_string = true;
                self.key_open = self.taking == Some(self.stack.len().wrapping_sub(1));
                self.key.clear();
                self.after_key = false;
            }
            b':' => self.after_key = true,
            b'{' => self.open(b'}'),
            b'[' => self.open(b']'),
            b'}' | b']' => return self.close(byte, position),
            b' ' | b'\n' | b'\r' | b'\t' => {}
            b',' => self.after_key = false,
            _ if self.stack.is_empty() && !is_scalar(byte) => {
                // A byte order mark may come first, and again at the start of a concatenated file.
                if !b"\xEF\xBB\xBF".contains(&byte) {
                    return Err(SplitError::NotJson(position));
                }
            }
            _ => self.after_key = false,
        }
        Ok(false)
    }

    fn open(&mut self, close: u8) {
        let holder = self.stack.last().map_or(Role::Items, |frame| frame.role);
        let is_page_list = close == b']'
            && self.after_key
            && self.taking == Some(self.stack.len().wrapping_sub(1))
            && self.key == LIST_KEY;
        let role = if is_page_list || (holder == Role::Items && close == b']') {
            Role::Items
        } else {
            Role::Inside
        };
        if is_page_list {
            self.taking = None;
        } else if holder == Role::Items && close == b'}' {
            self.taking = Some(self.stack.len());
        }
        self.after_key = false;
        self.stack.push(Frame { close, role });
    }

    fn close(&mut self, byte: u8, position: u64) -> Result<bool, SplitError> {
        self.after_key = false;
        match self.stack.pop() {
            Some(frame) if frame.close == byte => {}
            _ => return Err(SplitError::Unbalanced(position)),
        }
        let ended = self.taking == Some(self.stack.len());
        if ended {
            self.taking = None;
        }
        Ok(ended)
    }
}

fn is_scalar(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-+.".contains(&byte)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn split(text: &str, piece: usize) -> Result<Vec<String>, SplitError> {
        let mut splitter = DumpSplitter::default();
        let mut items = Vec::new();
        for chunk in text.as_bytes().chunks(piece) {
            splitter.push(chunk, &mut |item| items.push(String::from_utf8(item).unwrap()))?;
        }
        splitter.finish()?;
        Ok(items)
    }

    #[test]
    fn every_shape_of_a_dump_is_cut_alike_whatever_the_pieces() {
        let one = r#"{"name":"a","x":{"servers":[1]},"t":"}\"["}"#;
        for (text, expected) in [
            (one.to_owned(), vec![one]),
            (format!("{one}\n{one}\r\n"), vec![one, one]),
            (format!("\u{feff}[{one}, {one}]"), vec![one, one]),
            (
                format!(r#"{{"metadata":{{"count":2}},"servers":[{one},{one}],"next":null}}"#),
                vec![one, one],
            ),
            (format!(r#"[{{"servers" : [{one}]}},{{"servers":[]}}]"#), vec![one]),
            (format!(r#"{{"servers":[{one}]}} {{"servers":[{one}]}}"#), vec![one, one]),
            ("[]".to_owned(), vec![]),
            (r#"{"servers":"none"}"#.to_owned(), vec![r#"{"servers":"none"}"#]),
        ] {
            for piece in [1, 2, 7, 1000] {
                assert_eq!(split(&text, piece).unwrap(), expected, "{text} in pieces of {piece}");
            }
        }
    }

    #[test]
    fn broken_texts_are_reported_with_their_position() {
        assert_eq!(split("{\"a\":1}]", 3), Err(SplitError::Unbalanced(7)));
        assert_eq!(split("{\"a\":[1}", 3), Err(SplitError::Unbalanced(7)));
        assert_eq!(split("{\"a\":1", 3), Err(SplitError::CutShort));
        assert_eq!(split("<html>", 3), Err(SplitError::NotJson(0)));
    }
}
