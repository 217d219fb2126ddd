//! Writes the JSON of a row into a reused buffer, without allocating.

use super::timestamp;

/// A longer text is truncated and ends in `…`.
pub(crate) const TEXT_BYTES_MAX: usize = 512;

const CUT_MARK: &str = "…";

/// The bytes that need no escape.
#[expect(clippy::indexing_slicing, reason = "worked out when this is compiled")]
static IS_PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = b' ';
    while byte <= b'~' {
        plain[byte as usize] = byte != b'"' && byte != b'\\';
        byte += 1;
    }
    plain
};

/// A JSON object being written. Absent and empty fields are omitted.
pub(crate) struct RowEncoder<'b> {
    out: &'b mut Vec<u8>,
    first: bool,
}

#[expect(
    clippy::inline_always,
    reason = "a name that is known is written as a few words, not copied"
)]
impl<'b> RowEncoder<'b> {
    pub(crate) fn open(out: &'b mut Vec<u8>) -> RowEncoder<'b> {
        out.push(b'{');
        RowEncoder { out, first: true }
    }

    /// Goes on in an object that has a field already.
    pub(crate) fn within(out: &'b mut Vec<u8>) -> RowEncoder<'b> {
        RowEncoder { out, first: false }
    }

    pub(crate) fn close(self) {
        self.out.push(b'}');
    }

    /// Starts a field; the caller writes its value.
    #[inline(always)]
    pub(crate) fn name(&mut self, name: &str) -> &mut Vec<u8> {
        if !self.first {
            self.out.push(b',');
        }
        self.first = false;
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.out
    }

    /// A text, truncated to its bound; omitted when empty.
    #[inline(always)]
    pub(crate) fn text(&mut self, name: &str, text: &str) {
        if !text.is_empty() {
            write_text(text, self.name(name));
        }
    }

    #[inline(always)]
    pub(crate) fn maybe_text(&mut self, name: &str, text: Option<&str>) {
        self.text(name, text.unwrap_or_default());
    }

    #[inline(always)]
    pub(crate) fn number(&mut self, name: &str, number: u64) {
        write_number(number, self.name(name));
    }

    #[inline(always)]
    pub(crate) fn maybe_number(&mut self, name: &str, number: Option<u64>) {
        if let Some(number) = number {
            self.number(name, number);
        }
    }

    /// Omitted when false.
    pub(crate) fn flag(&mut self, name: &str, flag: bool) {
        if flag {
            self.name(name).extend_from_slice(b"true");
        }
    }

    pub(crate) fn time(&mut self, name: &str, wall_us: i64) {
        let out = self.name(name);
        out.push(b'"');
        timestamp::write(wall_us, out);
        out.push(b'"');
    }

    pub(crate) fn digest(&mut self, name: &str, digest: Option<&[u8; 32]>) {
        if let Some(digest) = digest {
            let out = self.name(name);
            out.push(b'"');
            out.extend_from_slice(&super::chain::hex(digest));
            out.push(b'"');
        }
    }

    /// An array whose elements `each` writes; omitted when empty.
    pub(crate) fn list<T>(
        &mut self,
        name: &str,
        items: impl IntoIterator<Item = T>,
        mut each: impl FnMut(T, &mut Vec<u8>),
    ) {
        let mut items = items.into_iter().peekable();
        if items.peek().is_some() {
            write_list(items, self.name(name), &mut each);
        }
    }
}

pub(crate) fn write_list<T>(
    items: impl IntoIterator<Item = T>,
    out: &mut Vec<u8>,
    each: &mut impl FnMut(T, &mut Vec<u8>),
) {
    out.push(b'[');
    for (place, item) in items.into_iter().enumerate() {
        if place > 0 {
            out.push(b',');
        }
        each(item, out);
    }
    out.push(b']');
}

pub(crate) fn write_text(text: &str, out: &mut Vec<u8>) {
    write_text_within(text, TEXT_BYTES_MAX, out);
}

/// A JSON string of at most `bytes_max` bytes of text. Control characters and Unicode line
/// separators are escaped, so that a row is one line for every reader.
pub(crate) fn write_text_within(text: &str, bytes_max: usize, out: &mut Vec<u8>) {
    out.push(b'"');
    if text.len() <= bytes_max {
        write_escaped(text, out);
    } else {
        let keep = text.floor_char_boundary(bytes_max.saturating_sub(CUT_MARK.len()));
        write_escaped(text.get(..keep).unwrap_or_default(), out);
        out.extend_from_slice(CUT_MARK.as_bytes());
    }
    out.push(b'"');
}

pub(crate) fn write_escaped(text: &str, out: &mut Vec<u8>) {
    if text.bytes().all(|b| IS_PLAIN.get(usize::from(b)) == Some(&true)) {
        out.extend_from_slice(text.as_bytes());
        return;
    }
    for c in text.chars() {
        match c {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            c if is_escaped(c) => write_escape(c, out),
            c => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}

/// Characters that change how a terminal or editor shows text are escaped.
fn is_escaped(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

fn write_escape(c: char, out: &mut Vec<u8>) {
    for unit in c.encode_utf16(&mut [0; 2]) {
        out.extend_from_slice(b"\\u");
        for shift in [12, 8, 4, 0] {
            let nibble = u8::try_from((*unit >> shift) & 15).unwrap_or(0);
            out.push(if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 });
        }
    }
}

pub(crate) fn write_number(number: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::{RowEncoder, TEXT_BYTES_MAX, write_text};
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    fn written(text: &str) -> String {
        let mut out = Vec::new();
        write_text(text, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn fields_are_separated_and_absent_ones_are_left_out() {
        let mut out = Vec::new();
        let mut row = RowEncoder::open(&mut out);
        row.text("empty", "");
        row.maybe_text("none", None);
        row.number("n", 10_203);
        row.flag("no", false);
        row.flag("yes", true);
        row.time("time", 0);
        row.digest("digest", Some(&[0xab; 32]));
        row.list("none", [0_u8; 0], |_, _| {});
        row.list("keys", ["a", "b"], write_text);
        row.close();
        let expected = format!(
            r#"{{"n":10203,"yes":true,"time":"1970-01-01T00:00:00.000000Z","digest":"{}","keys":["a","b"]}}"#,
            "ab".repeat(32)
        );
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn a_text_never_breaks_its_line_and_hides_nothing() {
        assert_eq!(
            written("a\nb\u{2028}c\u{202e}\u{1b}[0m"),
            r#""a\u000ab\u2028c\u202e\u001b[0m""#
        );
        assert_eq!(written("\u{e0041}"), r#""\udb40\udc41""#);
        assert_eq!(written("é\"\\"), r#""é\"\\""#);
    }

    #[test]
    fn a_long_text_is_cut_with_a_mark_between_two_characters() {
        let cut: String = serde_json::from_str(&written(&"é".repeat(400))).unwrap();
        assert!(cut.len() <= TEXT_BYTES_MAX && cut.ends_with("é…"), "{}", cut.len());
        let whole = "x".repeat(TEXT_BYTES_MAX);
        assert_eq!(written(&whole), format!("\"{whole}\""));
    }

    proptest! {
        #[test]
        fn any_short_text_reads_back_as_it_was(text in any::<String>()) {
            let out = written(&text);
            prop_assert!(!out.bytes().any(|b| b < b' '));
            if text.len() <= TEXT_BYTES_MAX {
                prop_assert_eq!(serde_json::from_str::<String>(&out).unwrap(), text);
            }
        }
    }
}
