//! Repeated percent-decoding.

/// No legitimate text is encoded more often than this.
pub(crate) const ROUNDS_MAX: usize = 4;

/// One round. `None` when nothing is encoded; bytes that are no UTF-8 become replacement characters.
pub(crate) fn decode_once(text: &str) -> Option<Decoded> {
    if !text.contains('%') {
        return None;
    }
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut changed = false;
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let escape = escape_at(bytes, at);
        out.push(escape.unwrap_or(byte));
        changed |= escape.is_some();
        at += if escape.is_some() { 3 } else { 1 };
    }
    changed.then(|| match String::from_utf8(out) {
        Ok(text) => Decoded { text, valid: true },
        Err(error) => {
            let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
            Decoded { text, valid: false }
        }
    })
}

pub(crate) struct Decoded {
    pub(crate) text: String,
    /// Whether the bytes were UTF-8.
    pub(crate) valid: bool,
}

/// Decodes until nothing is left to decode, or `ROUNDS_MAX` rounds. `None` when nothing was encoded.
pub(crate) fn decode_fully(text: &str) -> Option<String> {
    let first = decode_once(text)?.text;
    let more = |text: &String| decode_once(text).map(|decoded| decoded.text);
    std::iter::successors(Some(first), more).take(ROUNDS_MAX).last()
}

fn escape_at(bytes: &[u8], at: usize) -> Option<u8> {
    match bytes.get(at..at + 3)? {
        [b'%', high, low] => Some(hex(*high)? << 4 | hex(*low)?),
        _ => None,
    }
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}
