//! Escapes hidden characters. Used wherever text from a server reaches a terminal or a page.

/// Why a character is not visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Hidden {
    Control,
    Invisible,
    Bidirectional,
    Tag,
    Selector,
    PrivateUse,
}

pub(super) fn hidden(c: char) -> Option<Hidden> {
    match u32::from(c) {
        0x09 | 0x0A | 0x0D => None,
        0x00..=0x1F | 0x7F..=0x9F | 0x2028 | 0x2029 => Some(Hidden::Control),
        0x061C | 0x200E | 0x200F | 0x202A..=0x202E | 0x2066..=0x2069 => Some(Hidden::Bidirectional),
        0xFE00..=0xFE0F | 0xE_0100..=0xE_01EF => Some(Hidden::Selector),
        0xE_0000..=0xE_007F => Some(Hidden::Tag),
        0xE000..=0xF8FF | 0xF_0000..=0x10_FFFF => Some(Hidden::PrivateUse),
        n if is_invisible(n) => Some(Hidden::Invisible),
        _ => None,
    }
}

/// Whether a character is not visible.
pub fn is_hidden(c: char) -> bool {
    hidden(c).is_some()
}

/// Format characters, fillers and blanks.
fn is_invisible(n: u32) -> bool {
    matches!(n,
        0x00AD | 0x034F | 0x115F | 0x1160 | 0x17B4 | 0x17B5 | 0x180B..=0x180F
        | 0x200B..=0x200D | 0x2060..=0x2065 | 0x206A..=0x206F | 0x2800 | 0x3164
        | 0xFEFF | 0xFFA0 | 0xFFF0..=0xFFFB | 0x1_D173..=0x1_D17A | 0xE_0080..=0xE_00FF
        | 0xE_01F0..=0xE_0FFF)
}

/// Escapes every hidden character as its code point and every line break as `\n`, so that the text stays
/// on one line and cannot control a terminal.
pub fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if hidden(c).is_some() => push_code_point(c, &mut out),
            c => out.push(c),
        }
    }
    out
}

fn push_code_point(c: char, out: &mut String) {
    use std::fmt::Write as _;
    // Writing to a String cannot fail.
    let _ = write!(out, "⟨U+{:04X}⟩", u32::from(c));
}

/// ASCII hidden as tag characters.
pub(super) fn tag_text(text: &str) -> String {
    text.chars()
        .filter_map(|c| u32::from(c).checked_sub(0xE_0000))
        .filter(|n| (0x20..0x7F).contains(n))
        .filter_map(char::from_u32)
        .collect()
}
