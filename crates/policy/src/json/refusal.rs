//! Why a text was rejected, and where. Messages never repeat the content of the text.

use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RefusalKind {
    NotUtf8,
    ByteOrderMark,
    Syntax,
    TrailingData,
    LoneSurrogate,
    DuplicateKey,
    /// Equal to another key after folding, or a key with a control character.
    ConfusableKey,
    NumberNotExact,
    TooDeep,
    TooLarge,
    TooManyNodes,
    LongString,
    LongNumber,
    Empty,
}

/// A refused text. `line` and `column` count from 1, `column` in characters; `offset` is in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub kind: RefusalKind,
    pub line: usize,
    pub column: usize,
    pub offset: usize,
    pub message: String,
}

impl Refusal {
    #[cold]
    pub(super) fn at(bytes: &[u8], offset: usize, kind: RefusalKind, message: &str) -> Refusal {
        let (line, column) = line_column(bytes, offset);
        Refusal { kind, line, column, offset, message: message.to_owned() }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.message)
    }
}

impl std::error::Error for Refusal {}

/// Line and column of a byte offset, both from 1.
pub(super) fn line_column(bytes: &[u8], offset: usize) -> (usize, usize) {
    let before = bytes.get(..offset).unwrap_or(bytes);
    let line_start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    let line = before.split(|&byte| byte == b'\n').count();
    let starts_character = |byte: &&u8| **byte & 0xC0 != 0x80;
    let column =
        before.get(line_start..).unwrap_or(&[]).iter().filter(starts_character).count() + 1;
    (line, column)
}
