//! The patterns of a secret: as it is, its significant parts, in base64 and in hex.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use url::Url;

use super::decode::Decoded;

/// A shorter secret is not masked, because it would match unrelated text.
pub(super) const SECRET_BYTES_MIN: usize = 6;
/// The same for one line of a multi-line secret.
const LINE_BYTES_MIN: usize = 16;
/// A secret that contains control characters or escapes is also searched for in its decoded form.
const LEVELS_MAX: usize = 3;
/// A longer secret is searched for in pieces, which keeps the automaton small. They overlap, because base64
/// mixes bytes at the edges.
const PIECE_BYTES_MAX: usize = 512;
const PIECE_OVERLAP_BYTES: usize = 8;

/// Common words of the protocol, of schemas and of settings. They are not secrets, and masking them would break
/// messages.
const COMMON_WORDS: [&str; 44] = [
    "jsonrpc",
    "method",
    "params",
    "result",
    "content",
    "message",
    "default",
    "object",
    "string",
    "number",
    "integer",
    "boolean",
    "properties",
    "required",
    "description",
    "additionalproperties",
    "inputschema",
    "outputschema",
    "structuredcontent",
    "iserror",
    "tools/call",
    "tools/list",
    "resources",
    "prompts",
    "resource",
    "prompt",
    "complete",
    "enabled",
    "disabled",
    "production",
    "development",
    "staging",
    "sandbox",
    "readonly",
    "read-only",
    "markdown",
    "application/json",
    "text/plain",
    "en-us,en",
    "public",
    "private",
    "bearer",
    "anonymous",
    "localhost",
];

/// Whether a secret can be masked without matching unrelated text.
pub fn can_be_masked(secret: &str) -> bool {
    let secret = secret.trim();
    secret.len() >= SECRET_BYTES_MIN
        && !COMMON_WORDS.iter().any(|word| secret.eq_ignore_ascii_case(word))
}

/// All patterns of a secret.
pub(super) fn of(secret: &str) -> Vec<Vec<u8>> {
    let mut forms = Vec::new();
    for part in parts(secret).iter().filter(|part| can_be_masked(part)) {
        for piece in pieces(part.as_bytes()) {
            forms.extend(encoded(piece));
        }
    }
    forms.retain(|form| form.len() >= SECRET_BYTES_MIN);
    forms.sort();
    forms.dedup();
    forms
}

/// A part as a whole or, if it is long, in pieces.
fn pieces(part: &[u8]) -> impl Iterator<Item = &[u8]> {
    let begins = (0..part.len()).step_by(PIECE_BYTES_MAX - PIECE_OVERLAP_BYTES);
    let pieces = begins.map(|at| part.get(at..part.len().min(at + PIECE_BYTES_MAX)));
    pieces.flatten().filter(|piece| piece.len() >= SECRET_BYTES_MIN)
}

/// The secret, and parts of it that a server may show alone.
fn parts(secret: &str) -> Vec<String> {
    let whole = secret.trim();
    let mut parts = vec![secret.to_owned(), whole.to_owned()];
    if whole.lines().count() > 1 {
        let lines = whole.lines().map(str::trim).filter(|line| !line.starts_with("-----"));
        parts.extend(lines.filter(|line| line.len() >= LINE_BYTES_MIN).map(str::to_owned));
    }
    if let Some((scheme, rest)) = whole.split_once(' ')
        && !whole.contains('\n')
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    {
        parts.push(rest.trim().to_owned());
        if scheme.eq_ignore_ascii_case("basic") {
            parts.extend(basic(rest.trim()));
        }
    }
    parts.extend(password_of_url(whole));
    parts
}

/// The decoded credentials of `Basic`.
fn basic(credentials: &str) -> Vec<String> {
    let Some(pair) =
        STANDARD.decode(credentials).ok().and_then(|pair| String::from_utf8(pair).ok())
    else {
        return Vec::new();
    };
    let password = pair.split_once(':').map(|(_, password)| password.to_owned());
    [Some(pair), password].into_iter().flatten().collect()
}

/// The password in a URL.
fn password_of_url(secret: &str) -> Option<String> {
    let url = Url::parse(secret).ok()?;
    let written = url.password()?;
    let decoded = Decoded::read(written.as_bytes()).map(|decoded_text| decoded_text.bytes);
    decoded.map_or(Some(written.to_owned()), |bytes| String::from_utf8(bytes).ok())
}

fn encoded(part: &[u8]) -> Vec<Vec<u8>> {
    let mut forms = vec![part.to_vec()];
    if part.contains(&b' ') {
        forms.push(part.iter().map(|byte| if *byte == b' ' { b'+' } else { *byte }).collect());
    }
    let mut decoded_text = Decoded::read(part);
    for _ in 0..LEVELS_MAX {
        let Some(now) = decoded_text else { break };
        decoded_text = now.decoded_again();
        forms.push(now.bytes);
    }
    for engine in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
        forms.extend((0..3).map(|before| inside_base64(&engine, part, before)));
        forms.push(engine.encode(part).into_bytes());
    }
    forms.extend([STANDARD.encode(part), URL_SAFE.encode(part)].map(String::into_bytes));
    for separator in ["", " ", ":", "-", ", 0x", ",0x", " 0x"] {
        forms.push(hex(part, separator, false));
        forms.push(hex(part, separator, true));
    }
    // As programs print the bytes of a buffer.
    forms.extend([",", ", ", " "].map(|separator| decimal(part, separator)));
    forms.extend(encoded_twice(part));
    forms
}

/// Base64 and hex of text that is already encoded: in base64, hex, percent-encoding, a JSON string or UTF-16.
/// Decoding handles text escapes inside and outside of these, but not one of them inside another.
fn encoded_twice(part: &[u8]) -> Vec<Vec<u8>> {
    let percent: String = url::form_urlencoded::byte_serialize(part).collect();
    let mut inner = vec![
        STANDARD_NO_PAD.encode(part).into_bytes(),
        URL_SAFE_NO_PAD.encode(part).into_bytes(),
        hex(part, "", false),
        hex(part, "", true),
        percent.replace('+', "%20").replace("%7E", "~").into_bytes(),
        percent.into_bytes(),
    ];
    if let Ok(text) = std::str::from_utf8(part) {
        inner.extend(in_json(text).map(String::into_bytes));
        // As PowerShell writes text before it becomes base64.
        inner.push(text.encode_utf16().flat_map(u16::to_le_bytes).collect());
    }
    let mut forms = Vec::new();
    for text in inner.iter().filter(|text| text.as_slice() != part) {
        for engine in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
            forms.extend((0..3).map(|before| inside_base64(&engine, text, before)));
        }
        forms.extend([hex(text, "", false), hex(text, "", true)]);
    }
    forms
}

/// The inside of a JSON string with this text: as most programs write it, with escaped slashes, and in ASCII.
fn in_json(text: &str) -> [String; 3] {
    let quoted = mcp::edit::string(text);
    let plain = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(&quoted);
    let mut ascii = String::with_capacity(plain.len());
    for c in plain.chars() {
        if c.is_ascii() {
            ascii.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            // Writing to a string cannot fail.
            let _ = write!(ascii, "\\u{unit:04x}");
        }
    }
    [plain.to_owned(), plain.replace('/', "\\/"), ascii]
}

/// The part of the base64 of a longer text that depends only on the secret, if this many bytes (modulo three)
/// precede it.
fn inside_base64(engine: &base64::engine::GeneralPurpose, part: &[u8], before: usize) -> Vec<u8> {
    let padded: Vec<u8> = std::iter::repeat_n(0, before).chain(part.iter().copied()).collect();
    let written = engine.encode(&padded).into_bytes();
    let begin = (before * 8).div_ceil(6);
    let end = padded.len() * 8 / 6;
    written.get(begin..end).unwrap_or_default().to_vec()
}

fn decimal(part: &[u8], separator: &str) -> Vec<u8> {
    let numbers: Vec<String> = part.iter().map(u8::to_string).collect();
    numbers.join(separator).into_bytes()
}

fn hex(part: &[u8], separator: &str, upper: bool) -> Vec<u8> {
    let digits: Vec<String> = part
        .iter()
        .map(|byte| if upper { format!("{byte:02X}") } else { format!("{byte:02x}") })
        .collect();
    digits.join(separator).into_bytes()
}
