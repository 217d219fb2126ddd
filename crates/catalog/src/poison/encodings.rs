//! Finds encoded text: base64, hexadecimal, character references, percent-encoding, ROT13, reversed
//! text. Anything that decodes to words is reported, and the decoded text is scored.

use super::matcher::{finding, points};
use super::texts::Text;
use super::{PoisonFinding, PoisonKind};
use crate::pins::visible;

/// Encoded runs shorter than this hold no sentence.
const BASE64_CHARS_MIN: usize = 28;
const HEX_CHARS_MIN: usize = 40;
/// Points from which ROT13 or reversed text counts as intended.
const INTENDED_POINTS: u32 = 100;

pub(super) fn findings(text: &Text) -> Vec<PoisonFinding> {
    let mut out = Vec::new();
    for (start, end, decoded) in runs(&text.content) {
        let spelled =
            text.content.get(start..end).is_some_and(|run| run.starts_with(['&', '\\', '%']));
        // Honest text does not escape plain letters.
        let letters = decoded.chars().filter(char::is_ascii_alphabetic).count();
        let meant = is_sentence(&decoded) || spelled && letters >= 8;
        if !meant {
            continue;
        }
        let points = if points(&decoded) >= 40 { 140 } else { 100 };
        let mut found = finding(text, PoisonKind::Encoded, start, end, points);
        found.message = format!("decodes to \"{}\"", visible(&decoded));
        out.push(found);
    }
    for (name, read) in
        [("with ROT13", rot13(&text.content)), ("backwards", backwards(&text.content))]
    {
        if text.content.len() > 20
            && points(&read) >= INTENDED_POINTS
            && points(&text.content) < INTENDED_POINTS
        {
            let mut found = finding(text, PoisonKind::Encoded, 0, text.content.len(), 120);
            found.message = format!("reads as an instruction {name}");
            out.push(found);
        }
    }
    out
}

/// Encoded runs with their decoded text.
fn runs(text: &str) -> Vec<(usize, usize, String)> {
    let mut out = Vec::new();
    let is_base64 = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '-' | '_');
    for (start, run) in runs_of(text, is_base64) {
        let hex = run.strip_prefix("0x").unwrap_or(run);
        if hex.len() >= HEX_CHARS_MIN && hex.bytes().all(|b| b.is_ascii_hexdigit()) {
            out.extend(from_hex(hex).map(|decoded| (start, start + run.len(), decoded)));
        } else if run.len() >= BASE64_CHARS_MIN && !is_data(text, start) {
            out.extend(from_base64(run).map(|decoded| (start, start + run.len(), decoded)));
        }
    }
    out.extend(references(text));
    out
}

/// Runs of characters that satisfy `belongs`.
fn runs_of(text: &str, belongs: impl Fn(char) -> bool) -> Vec<(usize, &str)> {
    let mut out = Vec::new();
    let mut at = 0;
    for piece in text.split(|c| !belongs(c)) {
        if !piece.is_empty() {
            out.push((at, piece));
        }
        let after = at + piece.len();
        at = after + text.get(after..).and_then(|t| t.chars().next()).map_or(0, char::len_utf8);
    }
    out
}

/// A `data:image/…;base64,` URL declares its content.
fn is_data(text: &str, start: usize) -> bool {
    text.get(..start)
        .is_some_and(|before| before.ends_with("base64,") && before.contains("data:image"))
}

fn from_base64(run: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(run.len());
    let (mut bits, mut held) = (0_u32, 0_u32);
    for byte in run.trim_end_matches('=').bytes() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        bits = (bits << 6 | u32::from(value)) & 0xFFFF;
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push(u8::try_from(bits >> held & 0xFF).ok()?);
        }
    }
    String::from_utf8(bytes).ok()
}

fn from_hex(run: &str) -> Option<String> {
    let digits: Vec<u32> = run.chars().filter_map(|c| c.to_digit(16)).collect();
    let bytes = digits.chunks_exact(2).filter_map(|pair| match pair {
        [high, low] => u8::try_from(high << 4 | low).ok(),
        _ => None,
    });
    String::from_utf8(bytes.collect()).ok()
}

/// Runs of `&#105;`, `\x69`, `\u0069` or `%69`, eight or more.
fn references(text: &str) -> Vec<(usize, usize, String)> {
    const REFERENCES_MIN: usize = 8;
    let mut out = Vec::new();
    let mut run: Option<(usize, usize, String)> = None;
    let mut at = 0;
    while at < text.len() {
        let rest = text.get(at..).unwrap_or_default();
        if let Some((length, c)) = reference(rest) {
            let (start, _, mut decoded) = run.take().unwrap_or((at, at, String::new()));
            decoded.push(c);
            at += length;
            run = Some((start, at, decoded));
            continue;
        }
        let next = rest.chars().next().unwrap_or(' ');
        // A space inside a run keeps it a run.
        if next == ' ' && run.is_some() && reference(rest.get(1..).unwrap_or_default()).is_some() {
            if let Some((_, _, decoded)) = &mut run {
                decoded.push(' ');
            }
        } else if let Some(done) = run.take() {
            out.push(done);
        }
        at += next.len_utf8();
    }
    out.extend(run);
    out.retain(|(_, _, decoded)| decoded.chars().count() >= REFERENCES_MIN);
    out
}

fn reference(rest: &str) -> Option<(usize, char)> {
    let hex = |digits: &str| u32::from_str_radix(digits, 16).ok().and_then(char::from_u32);
    if let Some(body) = rest.strip_prefix("&#") {
        let end = body.get(..8.min(body.len())).unwrap_or(body).find(';')?;
        let digits = body.get(..end)?;
        let c = match digits.strip_prefix(['x', 'X']) {
            Some(digits) => hex(digits)?,
            None => char::from_u32(digits.parse().ok()?)?,
        };
        return Some((2 + end + 1, c));
    }
    for (mark, digits) in [("\\x", 2), ("\\u", 4), ("%", 2)] {
        if let Some(c) = rest.strip_prefix(mark).and_then(|body| hex(body.get(..digits)?)) {
            return Some((mark.len() + digits, c));
        }
    }
    None
}

/// Decoded bytes are noise unless they are words with spaces between them.
fn is_sentence(text: &str) -> bool {
    let printable = text.chars().filter(|c| !c.is_control() || c.is_whitespace()).count();
    let message =
        text.split_whitespace().filter(|w| w.chars().filter(|c| c.is_alphabetic()).count() > 1);
    let looks_like_data = text.trim_start().starts_with(['{', '<', '[']) && points(text) == 0;
    printable * 100 >= text.chars().count() * 95 && message.count() >= 3 && !looks_like_data
}

fn rot13(text: &str) -> String {
    let moved = |c: char, first: u8| {
        let offset = u8::try_from(u32::from(c)).map_or(0, |b| b.wrapping_sub(first));
        char::from(first + (offset + 13) % 26)
    };
    text.chars()
        .map(|c| match c {
            'a'..='z' => moved(c, b'a'),
            'A'..='Z' => moved(c, b'A'),
            c => c,
        })
        .collect()
}

fn backwards(text: &str) -> String {
    text.chars().rev().collect()
}

#[cfg(test)]
mod tests {
    use super::{backwards, from_base64, from_hex, references, rot13, runs_of};

    #[test]
    fn each_encoding_is_decoded() {
        assert_eq!(from_base64("aGVsbG8gd29ybGQ=").as_deref(), Some("hello world"));
        assert_eq!(from_hex("68656c6c6f").as_deref(), Some("hello"));
        assert_eq!(rot13("Uryyb, jbeyq"), "Hello, world");
        assert_eq!(backwards("olleh"), "hello");
        let decoded = |text: &str| references(text).into_iter().next().map(|(_, _, text)| text);
        assert_eq!(
            decoded("&#114;&#101;&#97;&#100;&#x20;&#105;&#116;&#33;").as_deref(),
            Some("read it!")
        );
        assert_eq!(
            decoded("\\x72\\x65\\x61\\x64\\x20\\x69\\x74\\x21").as_deref(),
            Some("read it!")
        );
        assert_eq!(decoded("100% sure"), None);
    }

    #[test]
    fn runs_have_byte_offsets() {
        assert_eq!(runs_of("é ab, cd", char::is_alphanumeric), [(0, "é"), (3, "ab"), (7, "cd")]);
    }
}
