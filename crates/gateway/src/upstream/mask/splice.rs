//! Writes a text with a label in place of each secret.

use super::SecretMatch;

/// For JSON: replaces secrets in strings without splitting an escape or a character. A number that is a secret
/// becomes a string. The structure stays, so the result is valid JSON if the message was.
pub(super) fn json(message: &[u8], found: &[SecretMatch]) -> Vec<u8> {
    let mut splice = Splice { message, found, next: 0, labelled: None, out: Vec::new() };
    splice.out.reserve(message.len());
    let (mut at, mut in_string) = (0, false);
    while let Some(byte) = message.get(at) {
        let length = match (in_string, byte) {
            (_, b'"') => {
                in_string = !in_string;
                splice.labelled = None;
                splice.keep(at, 1);
                1
            }
            (true, _) => {
                let length = unit_length(message, at);
                splice.replace(at, length);
                length
            }
            (false, b'{' | b'}' | b'[' | b']' | b':' | b',' | b' ' | b'\t' | b'\n' | b'\r') => {
                splice.keep(at, 1);
                1
            }
            (false, _) => {
                let length = token_length(message, at);
                splice.token(at, length);
                length
            }
        };
        at += length;
    }
    splice.out
}

/// For any text.
pub(super) fn text(text: &[u8], found: &[SecretMatch]) -> Vec<u8> {
    let mut splice = Splice { message: text, found, next: 0, labelled: None, out: Vec::new() };
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        let length = character_length(*byte).min(text.len() - at);
        splice.replace(at, length);
        at += length;
    }
    splice.out
}

struct Splice<'a> {
    message: &'a [u8],
    found: &'a [SecretMatch],
    /// The first secret that does not end before the current position.
    next: usize,
    /// The secret whose label was written last, while it continues.
    labelled: Option<usize>,
    out: Vec<u8>,
}

impl Splice<'_> {
    fn keep(&mut self, at: usize, length: usize) {
        self.out.extend_from_slice(self.message.get(at..at + length).unwrap_or_default());
    }

    /// The secret that overlaps these bytes.
    fn secret_at(&mut self, at: usize, length: usize) -> Option<usize> {
        while self.found.get(self.next).is_some_and(|one| one.at.end <= at) {
            self.next += 1;
        }
        let begins = self.found.get(self.next)?.at.start;
        (begins < at + length).then_some(self.next)
    }

    /// Keeps these bytes, or writes a label for them once.
    fn replace(&mut self, at: usize, length: usize) {
        let Some(secret) = self.secret_at(at, length) else {
            self.labelled = None;
            return self.keep(at, length);
        };
        if self.labelled != Some(secret) {
            self.label(secret);
            self.labelled = Some(secret);
        }
    }

    fn label(&mut self, secret: usize) {
        if let Some(one) = self.found.get(secret) {
            self.out.extend_from_slice(one.label.as_bytes());
        }
    }

    /// A token outside strings. A longer number that contains the digits stays a number.
    fn token(&mut self, at: usize, length: usize) {
        let Some(secret) = self.secret_at(at, length) else { return self.keep(at, length) };
        let is_whole = self
            .found
            .get(secret)
            .is_some_and(|one| one.at.start <= at && at + length <= one.at.end);
        let token = self.message.get(at..at + length).unwrap_or_default();
        let is_number = token.iter().all(|byte| b"0123456789+-.eE".contains(byte));
        if is_number && !is_whole {
            return self.keep(at, length);
        }
        self.out.push(b'"');
        self.label(secret);
        self.out.push(b'"');
    }
}

/// The length of the character or escape at this position of a string.
fn unit_length(message: &[u8], at: usize) -> usize {
    let left = message.len() - at;
    let length = match message.get(at) {
        Some(b'\\') if message.get(at + 1) == Some(&b'u') => 6,
        Some(b'\\') => 2,
        Some(byte) => character_length(*byte),
        None => 1,
    };
    length.min(left)
}

fn character_length(first: u8) -> usize {
    match first {
        0xC0..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF7 => 4,
        _ => 1,
    }
}

fn token_length(message: &[u8], at: usize) -> usize {
    let rest = message.get(at..).unwrap_or_default();
    let ends = |byte: &u8| byte.is_ascii_whitespace() || b"{}[]:,\"".contains(byte);
    rest.iter().position(ends).unwrap_or(rest.len()).max(1)
}
