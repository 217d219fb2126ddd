//! Undoes the ways in which text is commonly written inside other text: JSON escapes, percent-encoding,
//! HTML entities and line breaks. Each decoded byte knows which bytes of the message it came from.

use std::ops::Range;

/// A decoded text and where each of its bytes was.
pub(super) struct View {
    pub(super) bytes: Vec<u8>,
    places: Vec<(u32, u32)>,
}

/// Whether decoding the text would change it.
pub(super) fn may_be_encoded(text: &[u8]) -> bool {
    memchr::memchr3(b'\\', b'%', b'&', text).is_some()
        || memchr::memchr2(b'\n', b'\r', text).is_some()
}

impl View {
    /// The text decoded once; none if that changes nothing.
    pub(super) fn decoded(text: &[u8]) -> Option<View> {
        View::of(text, |at| place_of(at, at + 1))
    }

    /// The same of a text that was decoded before.
    pub(super) fn decoded_again(&self) -> Option<View> {
        View::of(&self.bytes, |at| self.places.get(at).copied().unwrap_or_default())
    }

    fn of(text: &[u8], place: impl Fn(usize) -> (u32, u32)) -> Option<View> {
        if !may_be_encoded(text) {
            return None;
        }
        let mut view =
            View { bytes: Vec::with_capacity(text.len()), places: Vec::with_capacity(text.len()) };
        let (mut at, mut changed) = (0, false);
        while let Some(first) = text.get(at) {
            let rest = text.get(at..).unwrap_or_default();
            let Some((unit, length)) = unit(rest) else {
                view.bytes.push(*first);
                view.places.push(place(at));
                at += 1;
                continue;
            };
            changed = true;
            let (begin, end) = (place(at).0, place(at + length - 1).1);
            view.bytes.extend_from_slice(unit.as_slice());
            view.places.resize(view.bytes.len(), (begin, end));
            at += length;
        }
        changed.then_some(view)
    }

    /// The bytes of the message that a part of the view came from.
    pub(super) fn place(&self, at: Range<usize>) -> Range<usize> {
        let begin = self.places.get(at.start).map_or(0, |place| place.0);
        let end = at.end.checked_sub(1).and_then(|last| self.places.get(last));
        begin as usize..end.map_or(0, |place| place.1) as usize
    }
}

/// A window is far smaller than four gigabytes.
fn place_of(begin: usize, end: usize) -> (u32, u32) {
    (u32::try_from(begin).unwrap_or(u32::MAX), u32::try_from(end).unwrap_or(u32::MAX))
}

/// What one encoded character stands for: nothing, a byte, or a character.
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

/// The encoded character that a text begins with, and how many bytes it is written with.
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
