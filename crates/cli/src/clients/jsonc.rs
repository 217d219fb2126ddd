//! JSON as people keep it in settings: comments, trailing commas, a byte order mark. They are
//! blanked byte for byte, so that every place found in the plain text is the place in the file.

use anyhow::{Result, anyhow};
use policy::json::{Bounds, Doc, Keys};

/// Two members of one name mean one thing to one client and another to the next.
const BOUNDS: Bounds = Bounds { keys: Keys::Unique, ..Bounds::ANSWER };

/// The same text, as long, with only what strict JSON has.
pub(crate) fn plain(text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    blank_mark(&mut bytes);
    blank_comments(&mut bytes);
    blank_trailing_commas(&mut bytes);
    // Whole comments became spaces, so no character was cut.
    String::from_utf8(bytes).unwrap_or_default()
}

pub(super) fn read(plain: &str) -> Result<Doc<'_>> {
    Doc::read(plain.as_bytes(), &BOUNDS).map_err(|refusal| {
        anyhow!("line {}, column {}: {}", refusal.line, refusal.column, refusal.words)
    })
}

fn blank_mark(bytes: &mut [u8]) {
    if bytes.starts_with(b"\xEF\xBB\xBF") {
        blank(bytes, 0, 3);
    }
}

fn blank_comments(bytes: &mut [u8]) {
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match (byte, bytes.get(at + 1)) {
            (b'"', _) => at = string_end(bytes, at),
            (b'/', Some(b'/')) => {
                let end =
                    find(bytes, at, |rest| rest.starts_with(b"\n") || rest.starts_with(b"\r"));
                blank(bytes, at, end);
                at = end;
            }
            (b'/', Some(b'*')) => {
                let end = find(bytes, at + 2, |rest| rest.starts_with(b"*/"));
                let end = (end + 2).min(bytes.len());
                blank(bytes, at, end);
                at = end;
            }
            _ => at += 1,
        }
    }
}

fn blank_trailing_commas(bytes: &mut [u8]) {
    let mut comma = None;
    // What stood before: a comma trails only behind a value.
    let mut last = b'{';
    let mut at = 0;
    while let Some(byte) = bytes.get(at).copied() {
        let next = if byte == b'"' { string_end(bytes, at) } else { at + 1 };
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => {
                at = next;
                continue;
            }
            b',' if !b"{[,:".contains(&last) => comma = Some(at),
            b'}' | b']' => {
                if let Some(comma) = comma.take() {
                    blank(bytes, comma, comma + 1);
                }
            }
            _ => comma = None,
        }
        last = byte;
        at = next;
    }
}

/// The place behind the string that begins at `at`; the end of the text if it is never closed.
fn string_end(bytes: &[u8], at: usize) -> usize {
    let mut at = at + 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

fn find(bytes: &[u8], from: usize, fits: impl Fn(&[u8]) -> bool) -> usize {
    let here = |at: &usize| bytes.get(*at..).is_some_and(&fits);
    (from..bytes.len()).find(here).unwrap_or(bytes.len())
}

/// Spaces, with the ends of lines left: places in lines and columns stay true.
fn blank(bytes: &mut [u8], from: usize, to: usize) {
    for byte in bytes.get_mut(from..to).unwrap_or_default() {
        if !matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn comments_and_trailing_commas_go_and_every_place_stays() {
        let text = "\u{feff}{ // «née», \"x\"\r\n  \"a\\\"//\": [1, 2, /* ,] */ ], \"url\": \"http://x/*\",\n}\n";
        let plain = plain(text);
        assert_eq!(plain.len(), text.len());
        let doc = read(&plain).unwrap();
        assert_eq!(doc.root().get("a\"//").unwrap().len(), 2);
        let span = doc.root().get("url").unwrap().span();
        assert_eq!(text.get(span), Some("\"http://x/*\""));
    }

    #[test]
    fn what_is_not_json_stays_wrong() {
        for text in
            ["{,}", "{\"a\":1,,}", "[1,2", "{\"a\":1 \"b\":2}", "{\"a\":1,\"a\":2}", "/* {}"]
        {
            assert!(read(&plain(text)).is_err(), "{text}");
        }
    }
}
