//! Decodes text inside text: JSON escapes, percent-encoding, HTML entities and line breaks. Each decoded byte
//! keeps its position in the message.

use std::ops::Range;

/// A decoded text with the origin of each byte.
pub(super) struct Decoded {
    pub(super) bytes: Vec<u8>,
    origins: Vec<(u32, u32)>,
}

/// Whether decoding would change the text.
pub(super) fn may_be_encoded(text: &[u8]) -> bool {
    memchr::memchr3(b'\\', b'%', b'&', text).is_some()
        || memchr::memchr2(b'\n', b'\r', text).is_some()
}

impl Decoded {
    /// The text decoded once. None if that changes nothing.
    pub(super) fn read(text: &[u8]) -> Option<Decoded> {
        Decoded::of(text, |at| origin_of(at, at + 1))
    }

    /// Decodes it once more.
    pub(super) fn decoded_again(&self) -> Option<Decoded> {
        Decoded::of(&self.bytes, |at| self.origins.get(at).copied().unwrap_or_default())
    }

    fn of(text: &[u8], origin: impl Fn(usize) -> (u32, u32)) -> Option<Decoded> {
        if !may_be_encoded(text) {
            return None;
        }
        let mut decoded_text = Decoded {
            bytes: Vec::with_capacity(text.len()),
            origins: Vec::with_capacity(text.len()),
        };
        let (mut at, mut changed) = (0, false);
        while let Some(first) = text.get(at) {
            let rest = text.get(at..).unwrap_or_default();
            let Some((unit, length)) = unit(rest) else {
                decoded_text.bytes.push(*first);
                decoded_text.origins.push(origin(at));
                at += 1;
                continue;
            };
            changed = true;
            let (begin, end) = (origin(at).0, origin(at + length - 1).1);
            decoded_text.bytes.extend_from_slice(unit.as_slice());
            decoded_text.origins.resize(decoded_text.bytes.len(), (begin, end));
            at += length;
        }
        changed.then_some(decoded_text)
    }

    /// The bytes of the message that this range was decoded from.
    pub(super) fn origin(&self, at: Range<usize>) -> Range<usize> {
        let begin = self.origins.get(at.start).map_or(0, |origin| origin.0);
        let end = at.end.checked_sub(1).and_then(|last| self.origins.get(last));
        begin as usize..end.map_or(0, |origin| origin.1) as usize
    }
}

/// A window is far smaller than four gigabytes.
fn origin_of(begin: usize, end: usize) -> (u32, u32) {
    (u32::try_from(begin).unwrap_or(u32::MAX), u32::try_from(end).unwrap_or(u32::MAX))
}

/// The value of one encoded character: nothing, a byte, or a character.
struct Unit {
    bytes: [u8; 4],
    length: usize,
}

impl Unit {
    const NOTHING: Unit = Unit { bytes: [0; 4], length: 0 };

    fn byte(byte: u8) -> Unit {
        Unit { bytes: [byte, 0, 0, 0], length: 1 }
    }

    fn character(code: u32) -> Unit {
        let mut bytes = [0; 4];
        let length = char::from_u32(code)
            .unwrap_or(char::REPLACEMENT_CHARACTER)
            .encode_utf8(&mut bytes)
            .len();
        Unit { bytes, length }
    }

    fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

/// The encoded character at the start of a text, and its encoded length.
fn unit(text: &[u8]) -> Option<(Unit, usize)> {
    match text.first()? {
        b'\\' => escape(text),
        b'%' => Some((Unit::byte(u8::try_from(hex(text.get(1..3)?)?).ok()?), 3)),
        b'&' => entity(text),
        b'\n' | b'\r' => Some((Unit::NOTHING, 1)),
        _ => None,
    }
}

fn escape(text: &[u8]) -> Option<(Unit, usize)> {
    let byte = match text.get(1)? {
        same @ (b'"' | b'\\' | b'/' | b'\'') => *same,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'f' => 12,
        b'x' => {
            let code = hex(text.get(2..4)?)?;
            return Some((Unit::byte(u8::try_from(code).ok()?), 4));
        }
        b'u' => return unicode(text),
        _ => return None,
    };
    Some((Unit::byte(byte), 2))
}

/// `\u0041`, or a pair of surrogates.
fn unicode(text: &[u8]) -> Option<(Unit, usize)> {
    let code = hex(text.get(2..6)?)?;
    let low = || {
        let second = text.get(6..8).filter(|begin| *begin == b"\\u").and(text.get(8..12))?;
        hex(second).filter(|low| (0xDC00..0xE000).contains(low))
    };
    if (0xD800..0xDC00).contains(&code)
        && let Some(low) = low()
    {
        let code = 0x1_0000 + ((code - 0xD800) << 10) + (low - 0xDC00);
        return Some((Unit::character(code), 12));
    }
    Some((Unit::character(code), 6))
}

fn entity(text: &[u8]) -> Option<(Unit, usize)> {
    const NAMED: [(&[u8], u8); 6] = [
        (b"&amp;", b'&'),
        (b"&lt;", b'<'),
        (b"&gt;", b'>'),
        (b"&quot;", b'"'),
        (b"&apos;", b'\''),
        (b"&sol;", b'/'),
    ];
    const ENTITY_BYTES_MAX: usize = 10;
    if let Some((name, byte)) = NAMED.iter().find(|(name, _)| text.starts_with(name)) {
        return Some((Unit::byte(*byte), name.len()));
    }
    let begin = text.get(..text.len().min(ENTITY_BYTES_MAX))?;
    let number = begin.strip_prefix(b"&#")?;
    let end = memchr::memchr(b';', number)?;
    let number = number.get(..end)?;
    let code = match number.strip_prefix(b"x").or_else(|| number.strip_prefix(b"X")) {
        Some(digits) => hex(digits)?,
        None => std::str::from_utf8(number).ok()?.parse().ok()?,
    };
    Some((Unit::character(code), end + 3))
}

fn hex(digits: &[u8]) -> Option<u32> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u32, |code, digit| {
        let digit = char::from(*digit).to_digit(16)?;
        code.checked_mul(16).map(|code| code + digit)
    })
}
