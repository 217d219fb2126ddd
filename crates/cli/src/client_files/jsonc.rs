//! JSON with comments, trailing commas and a byte order mark, as settings files have it. These are
//! replaced by spaces, so that every offset in the strict text is the same offset in the file.

use anyhow::{Result, anyhow};
use jsonc_parser::tokens::Token;
use jsonc_parser::{Scanner, ScannerOptions};
use policy::json::{Bounds, Doc, Keys};

/// Clients disagree about which of two members with one name counts.
const BOUNDS: Bounds = Bounds { keys: Keys::Unique, ..Bounds::ANSWER };

pub(crate) const BYTE_ORDER_MARK: &str = "\u{feff}";

/// Only comments are more than JSON here; everything else that JSON5 allows is an error.
const OPTIONS: ScannerOptions = ScannerOptions {
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// The same text as strict JSON of the same length. From the first byte that cannot be scanned on it stays
/// as it is, and the strict reader refuses it.
pub(crate) fn plain(text: &str) -> String {
    let body = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    let start = text.len() - body.len();
    let mut bytes = text.as_bytes().to_vec();
    blank(&mut bytes, 0, start);
    let mut scanner = Scanner::new(body, &OPTIONS);
    // A comma trails when it follows a value and a closing bracket follows it.
    let (mut comma, mut follows_value) = (None, false);
    while let Ok(Some(token)) = scanner.scan() {
        let (from, to) = (start + scanner.token_start(), start + scanner.token_end());
        match token {
            Token::CommentLine(_) | Token::CommentBlock(_) => {
                blank(&mut bytes, from, to);
                continue;
            }
            Token::Comma => comma = follows_value.then_some(from),
            Token::CloseBrace | Token::CloseBracket => {
                if let Some(at) = comma.take() {
                    blank(&mut bytes, at, at + 1);
                }
            }
            _ => comma = None,
        }
        follows_value =
            !matches!(token, Token::Comma | Token::Colon | Token::OpenBrace | Token::OpenBracket);
    }
    // Only whole comments became spaces, so the text is still UTF-8.
    String::from_utf8(bytes).unwrap_or_default()
}

pub(crate) fn read(plain: &str) -> Result<Doc<'_>> {
    Doc::read(plain.as_bytes(), &BOUNDS).map_err(|refusal| {
        anyhow!("line {}, column {}: {}", refusal.line, refusal.column, refusal.message)
    })
}

/// Spaces; line ends stay, so that line and column numbers stay correct.
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
    fn comments_and_trailing_commas_are_blanked_and_offsets_stay() {
        let text = "\u{feff}{ // «née», \"x\"\r\n  \"a\\\"//\": [1, 2, /* ,] */ ], \"url\": \"http://x/*\",\n}\n";
        let plain = plain(text);
        assert_eq!(plain.len(), text.len());
        let doc = read(&plain).unwrap();
        assert_eq!(doc.root().get("a\"//").unwrap().len(), 2);
        let span = doc.root().get("url").unwrap().span();
        assert_eq!(text.get(span), Some("\"http://x/*\""));
    }

    #[test]
    fn text_that_is_not_json_is_refused() {
        for text in [
            "{,}",
            "{\"a\":1,,}",
            "[1,2",
            "{\"a\":1 \"b\":2}",
            "{\"a\":1,\"a\":2}",
            "/* {}",
            "{'a': 1}",
            "{a: 1}",
            "{\"a\": 0x1}",
            "{\"a\": +1}",
            "{\"a\": .5}",
            "{\"a\": \"\\x41\"}",
        ] {
            assert!(read(&plain(text)).is_err(), "{text}");
        }
    }
}
