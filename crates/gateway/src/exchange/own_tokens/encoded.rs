//! Finds grant tokens in base64, hex or percent-encoded text, such as the content of an uploaded file. A
//! token has a checksum, so other text is not taken for one.

use memchr::{memchr, memmem};
use store::registry::{TOKEN_BYTES, TOKEN_PREFIX, has_token};
use url::form_urlencoded;

/// The prefix of a token in base64, where it depends on nothing else.
struct Base64Prefix {
    chars: &'static str,
    /// From the beginning of the group that its first byte is in.
    chars_before: usize,
    bytes_before: usize,
}

const IN_BASE64: [Base64Prefix; 3] = [
    Base64Prefix { chars: "dGdf", chars_before: 0, bytes_before: 0 },
    Base64Prefix { chars: "RnX", chars_before: 2, bytes_before: 1 },
    Base64Prefix { chars: "0Z1", chars_before: 3, bytes_before: 2 },
];
const IN_HEX: [&str; 2] = ["74675f", "74675F"];

/// Whether a message may contain an encoded token.
pub(super) fn may_be_in(body: &[u8]) -> bool {
    let mut prefixes = IN_BASE64.iter().map(|prefix| prefix.chars).chain(IN_HEX);
    memchr(b'%', body).is_some()
        || prefixes.any(|prefix| memmem::find(body, prefix.as_bytes()).is_some())
}

pub(super) fn is_in(text: &str) -> bool {
    is_in_percent(text) || is_in_hex(text) || is_in_base64(text)
}

fn is_in_percent(text: &str) -> bool {
    text.contains('%')
        && form_urlencoded::parse(text.as_bytes())
            .any(|(name, value)| has_token(&name) || has_token(&value))
}

fn is_in_hex(text: &str) -> bool {
    let mut begins = IN_HEX.iter().flat_map(|prefix| text.match_indices(prefix));
    begins.any(|(at, _)| {
        let digits = text.as_bytes().get(at..).unwrap_or_default();
        let bytes = digits.chunks_exact(2).map_while(|pair| {
            let digit = |digit: &u8| char::from(*digit).to_digit(16);
            let (high, low) = (digit(pair.first()?)?, digit(pair.last()?)?);
            u8::try_from(high * 16 + low).ok()
        });
        begins_with_token(bytes)
    })
}

/// In either alphabet. The text may be wrapped in lines.
fn is_in_base64(text: &str) -> bool {
    IN_BASE64.iter().any(|prefix| {
        let begins = text.match_indices(prefix.chars);
        let mut begins = begins.filter_map(|(at, _)| at.checked_sub(prefix.chars_before));
        begins.any(|begin| {
            let chars = text.as_bytes().get(begin..).unwrap_or_default().iter();
            let chars = chars.copied();
            let digits = chars.filter(|char| !char.is_ascii_whitespace()).map_while(base64_digit);
            begins_with_token(bytes_of(digits).skip(prefix.bytes_before))
        })
    })
}

fn base64_digit(char: u8) -> Option<u32> {
    Some(u32::from(match char {
        b'A'..=b'Z' => char - b'A',
        b'a'..=b'z' => char - b'a' + 26,
        b'0'..=b'9' => char - b'0' + 52,
        b'+' | b'-' => 62,
        b'/' | b'_' => 63,
        _ => return None,
    }))
}

/// The bytes of digits of six bits.
fn bytes_of(mut digits: impl Iterator<Item = u32>) -> impl Iterator<Item = u8> {
    let (mut held, mut bits) = (0_u32, 0_u32);
    std::iter::from_fn(move || {
        while bits < 8 {
            held = (held << 6 | digits.next()?) & 0xFFFF;
            bits += 6;
        }
        bits -= 8;
        u8::try_from(held >> bits & 0xFF).ok()
    })
}

/// Reads only as far as these bytes can be a token.
fn begins_with_token(bytes: impl Iterator<Item = u8>) -> bool {
    let prefix = TOKEN_PREFIX.bytes().map(Some).chain(std::iter::repeat(None));
    let fits = |(byte, wanted): &(u8, Option<u8>)| {
        wanted.map_or(byte.is_ascii_alphanumeric(), |wanted| *byte == wanted)
    };
    let mut token = [0; TOKEN_BYTES];
    let fitting = bytes.zip(prefix).take_while(fits).map(|(byte, _)| byte);
    let count = token.iter_mut().zip(fitting).map(|(at, byte)| *at = byte).count();
    count == TOKEN_BYTES && std::str::from_utf8(&token).is_ok_and(has_token)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::format_collect, reason = "tests")]
    use base64::Engine as _;
    use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE};
    use store::random::Random;
    use store::registry::Token;

    use super::*;

    fn hex(text: &str) -> String {
        text.bytes().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn a_token_is_found_in_common_encodings_and_nothing_else_is() {
        let random = Random::seeded(3);
        for _ in 0..50 {
            let token = Token::generate(&random).unwrap();
            let token = token.expose();
            let file =
                format!("{{\"url\":\"\u{ff}\u{fe}?>\",\"Authorization\":\"Bearer {token}\"}}");
            let wrapped: Vec<String> = STANDARD
                .encode(&file)
                .as_bytes()
                .chunks(40)
                .map(|line| String::from_utf8_lossy(line).into_owned())
                .collect();
            let forms = [
                STANDARD_NO_PAD.encode(token),
                STANDARD.encode(format!("x:{token}")),
                STANDARD.encode(format!("x{token}")),
                URL_SAFE.encode(&file),
                format!("<{}>", STANDARD.encode(format!("{file}\n"))),
                hex(&file),
                hex(&file).to_uppercase(),
                token.bytes().map(|byte| format!("%{byte:02x}")).collect(),
                format!("https://x/?a=%20&t={}", token.replace('_', "%5F")),
            ];
            for form in &forms {
                assert!(may_be_in(form.as_bytes()) && is_in(form), "{form}");
            }
            // Unless a line ends within the prefix.
            let wrapped = wrapped.join("\n");
            assert_eq!(is_in(&wrapped), may_be_in(wrapped.as_bytes()), "{wrapped}");
            // A wrong checksum: not a token.
            let other = token.get(..TOKEN_BYTES - 1).unwrap();
            for form in [STANDARD.encode(format!("x:{other}.")), hex(other), format!("%{other}")] {
                assert!(!is_in(&form), "{form}");
            }
        }
        // Many false beginnings cost little.
        for beginning in ["dGdf", "RnX", "0Z1", "74675f", "%74%67%5F", "dGdf \n", "dGdfYWFh"] {
            assert!(!is_in(&beginning.repeat((64 << 10) / beginning.len())), "{beginning}");
        }
        for text in ["", "dGdf", "RnX", "0Z1", "xx0Z1%", "74675f", "%74%67%5f", "%", "é0Z1é"] {
            assert!(!is_in(text), "{text}");
        }
    }
}
