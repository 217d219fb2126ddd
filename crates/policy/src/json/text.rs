//! JSON strings: finding their end, decoding their escapes, writing them.

use std::borrow::Cow;

use super::refusal::RefusalKind;

/// A string literal found by [`scan`].
pub(super) struct Scanned {
    /// Offset just past the closing quote.
    pub(super) end: usize,
    pub(super) escaped: bool,
}

/// Why a string literal is invalid, and where.
pub(super) struct Fault {
    pub(super) at: usize,
    pub(super) kind: RefusalKind,
    pub(super) message: &'static str,
}

const fn fault(at: usize, message: &'static str) -> Fault {
    Fault { at, kind: RefusalKind::Syntax, message }
}

const LOW_BITS: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

/// Scans from just after the opening quote. The bytes are known to be UTF-8.
#[inline]
pub(super) fn scan(bytes: &[u8], start: usize) -> Result<Scanned, Fault> {
    let mut at = start;
    let mut escaped = false;
    loop {
        at = skip_plain(bytes, at);
        match bytes.get(at) {
            Some(b'"') => return Ok(Scanned { end: at + 1, escaped }),
            Some(b'\\') => {
                escaped = true;
                at = escape_end(bytes, at)?;
            }
            Some(0..0x20) => {
                return Err(fault(
                    at,
                    "a control character in a string must be written as an escape",
                ));
            }
            Some(_) => at += 1,
            None => return Err(fault(at, "the text ends inside a string")),
        }
    }
}

/// Skips eight bytes at a time up to the first quote, backslash or control character, or to where
/// fewer than eight bytes remain.
#[inline]
fn skip_plain(bytes: &[u8], start: usize) -> usize {
    let mut at = start;
    while let Some(word) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let plain = plain_of(*word);
        at += plain;
        if plain < 8 {
            return at;
        }
    }
    at
}

/// How many of eight bytes come before the first quote, backslash or control character.
#[inline]
pub(super) const fn plain_of(word: [u8; 8]) -> usize {
    let word = u64::from_le_bytes(word);
    let stops = quotes_and_controls(word) | holds(word, b'\\');
    // Marks above the first true one may be false, so only the first counts.
    (stops.trailing_zeros() / 8) as usize
}

/// With one bit turned a quote comes to lie right above the control characters, and nothing else does.
const fn quotes_and_controls(word: u64) -> u64 {
    let turned = word ^ (LOW_BITS * 0x02);
    turned.wrapping_sub(LOW_BITS * 0x21) & !turned & HIGH_BITS
}

const fn holds(word: u64, byte: u8) -> u64 {
    let zeroed = word ^ (LOW_BITS * byte as u64);
    zeroed.wrapping_sub(LOW_BITS) & !zeroed & HIGH_BITS
}

/// The offset after the escape that begins at `at`.
fn escape_end(bytes: &[u8], at: usize) -> Result<usize, Fault> {
    match bytes.get(at + 1) {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(at + 2),
        Some(b'u') => unicode_escape_end(bytes, at),
        Some(_) => Err(fault(
            at,
            "an escape in a string is one of \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX",
        )),
        None => Err(fault(at + 1, "the text ends inside a string")),
    }
}

fn unicode_escape_end(bytes: &[u8], at: usize) -> Result<usize, Fault> {
    let lone = Fault {
        at,
        kind: RefusalKind::LoneSurrogate,
        message: "a \\u escape is half of a surrogate pair without the other half",
    };
    match hex_unit(bytes, at) {
        None => Err(fault(at, "\\u in a string needs four hexadecimal digits")),
        Some(0xDC00..=0xDFFF) => Err(lone),
        Some(0xD800..=0xDBFF) => match hex_unit(bytes, at + 6) {
            Some(0xDC00..=0xDFFF) => Ok(at + 12),
            _ => Err(lone),
        },
        Some(_) => Ok(at + 6),
    }
}

/// The UTF-16 unit of a `\uXXXX` escape that begins at `at`.
fn hex_unit(bytes: &[u8], at: usize) -> Option<u16> {
    let digits = bytes.get(at..)?.first_chunk::<6>()?.strip_prefix(b"\\u")?;
    digits.iter().try_fold(0_u16, |unit, &digit| {
        let value = char::from(digit).to_digit(16)?;
        Some(unit << 4 | u16::try_from(value).ok()?)
    })
}

/// The meaning of the inside of a string literal that the reader accepted.
pub(super) fn decode(inside: &str, escaped: bool) -> Cow<'_, str> {
    if escaped { Cow::Owned(unescape(inside)) } else { Cow::Borrowed(inside) }
}

fn unescape(inside: &str) -> String {
    let mut out = String::with_capacity(inside.len());
    let mut rest = inside;
    while let Some((plain, escape)) = rest.split_once('\\') {
        out.push_str(plain);
        let (meaning, taken) = escape_meaning(escape);
        out.push(meaning);
        rest = escape.get(taken..).unwrap_or("");
    }
    out.push_str(rest);
    out
}

/// What follows a backslash, and how many bytes of it the escape takes.
fn escape_meaning(escape: &str) -> (char, usize) {
    match escape.as_bytes().first() {
        Some(b'b') => ('\u{8}', 1),
        Some(b'f') => ('\u{c}', 1),
        Some(b'n') => ('\n', 1),
        Some(b'r') => ('\r', 1),
        Some(b't') => ('\t', 1),
        Some(b'u') => unicode_meaning(escape),
        Some(&other) => (char::from(other), 1),
        None => (char::REPLACEMENT_CHARACTER, 0),
    }
}

fn unicode_meaning(escape: &str) -> (char, usize) {
    let unit = |from: usize| {
        let digits = escape.get(from..from + 4)?;
        u16::from_str_radix(digits, 16).ok()
    };
    let units = [unit(1), unit(7)].map(|unit| unit.unwrap_or(0));
    let meaning = char::decode_utf16(units).next().and_then(Result::ok);
    let meaning = meaning.unwrap_or(char::REPLACEMENT_CHARACTER);
    (meaning, if meaning.len_utf16() == 2 { 11 } else { 5 })
}

/// Writes a JSON string literal with as few escapes as RFC 8785 has.
pub fn write_string(text: &str, out: &mut Vec<u8>) {
    let bytes = text.as_bytes();
    out.reserve(bytes.len() + bytes.len() / 8 + 2);
    out.push(b'"');
    let mut at = 0;
    while let Some(word) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let plain = plain_of(*word);
        // Eight bytes are copied faster than just so many; what is not plain is taken back.
        out.extend_from_slice(word);
        out.truncate(out.len() - (8 - plain));
        at += plain;
        if let Some(byte) = word.get(plain) {
            write_escape(*byte, out);
            at += 1;
        }
    }
    for &byte in bytes.get(at..).unwrap_or(&[]) {
        if is_plain(byte) {
            out.push(byte);
        } else {
            write_escape(byte, out);
        }
    }
    out.push(b'"');
}

pub(super) const fn is_plain(byte: u8) -> bool {
    byte >= 0x20 && byte != b'"' && byte != b'\\'
}

fn write_escape(byte: u8, out: &mut Vec<u8>) {
    let short = match byte {
        b'"' | b'\\' => byte,
        0x08 => b'b',
        0x0C => b'f',
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        _ => {
            out.extend_from_slice(format!("\\u{byte:04x}").as_bytes());
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}
