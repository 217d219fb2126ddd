//! Lower-case hexadecimal digits, for hashes and keys.

const DIGITS: &[u8; 16] = b"0123456789abcdef";

pub(crate) fn encode(bytes: &[u8]) -> String {
    let digit = |value: u8| DIGITS.get(usize::from(value)).map_or('0', |d| char::from(*d));
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Exactly `N` bytes or nothing.
pub(crate) fn decode<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() != 2 * N {
        return None;
    }
    let mut out = [0; N];
    for (byte, pair) in out.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = pair.iter().try_fold(0, |value, digit| Some(value << 4 | value_of(*digit)?))?;
    }
    Some(out)
}

fn value_of(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}
