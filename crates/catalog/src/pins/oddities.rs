//! Finds misleading characters and names: hidden text, direction overrides, letters of another alphabet
//! in a name. A finding is a fact about the bytes, not a verdict.

use std::sync::LazyLock;

use policy::json::{Kind, Value};
use serde::Serialize;
use unicode_security::{RestrictionLevel, RestrictionLevelDetection, skeleton};

use super::visible::{Hidden, hidden, tag_text, visible};

/// Longest tool name the protocol recommends.
const NAME_CHARS_MAX: usize = 128;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OddityKind {
    /// The tool name is not 1 to 128 of `A-Z a-z 0-9 _ . -`.
    NameOutsideAllowed,
    /// A name mixes alphabets that no language mixes.
    MixedScript,
    /// A name without ASCII letters that reads as an ASCII one.
    LookAlike,
    Control,
    Invisible,
    Bidirectional,
    TagCharacters,
    VariationSelectors,
    PrivateUse,
    /// One object holds the same key twice; readers disagree on which one counts.
    RepeatedKey,
}

/// One finding at a JSON pointer, safe to print.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Oddity {
    pub kind: OddityKind,
    #[serde(rename = "place")]
    pub location: String,
    #[serde(rename = "words")]
    pub message: String,
}

/// Everything odd about the names and texts of one tool definition.
pub fn oddities(tool: Value<'_>) -> Vec<Oddity> {
    let mut out = Vec::new();
    let name = tool.get("name").and_then(Value::as_str).unwrap_or_default();
    if !is_allowed(&name) {
        let blank = name.trim() != name;
        let what = if blank {
            "begins or ends with a space"
        } else {
            "is not 1 to 128 of A-Z a-z 0-9 _ . -"
        };
        let message = format!("the name `{}` {what}", visible(&name));
        out.push(Oddity {
            kind: OddityKind::NameOutsideAllowed,
            location: "/name".to_owned(),
            message,
        });
    }
    check_name("/name", &name, &mut out);
    walk("", tool, &mut out);
    out
}

/// The same key for all names that look alike. Equal keys across servers reveal a tool that shadows
/// another.
pub fn look_alike_key(name: &str) -> String {
    if name.is_ascii() {
        return name.bytes().flat_map(|byte| plain_key(byte).chars()).collect();
    }
    whole_key(name)
}

/// The key of one ASCII character, cached: nearly all names are ASCII, and the Unicode tables are slow.
fn plain_key(byte: u8) -> &'static str {
    static KEYS: LazyLock<Vec<String>> = LazyLock::new(|| {
        (0..128_u8).map(|byte| whole_key(char::from(byte).encode_utf8(&mut [0; 4]))).collect()
    });
    KEYS.get(usize::from(byte)).map_or("", String::as_str)
}

fn whole_key(name: &str) -> String {
    let joined: String = skeleton(name).filter(|c| !matches!(c, '_' | '-' | '.' | ' ')).collect();
    skeleton(&joined.to_lowercase()).collect()
}

fn is_allowed(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    (1..=NAME_CHARS_MAX).contains(&name.chars().count()) && name.chars().all(allowed)
}

fn walk(pointer: &str, value: Value<'_>, out: &mut Vec<Oddity>) {
    match value.kind() {
        Kind::String => check_text(pointer, &value.as_str().unwrap_or_default(), out),
        Kind::Array => {
            for (at, item) in value.items().enumerate() {
                walk(&format!("{pointer}/{at}"), item, out);
            }
        }
        Kind::Object => walk_object(pointer, value, out),
        _ => {}
    }
}

fn walk_object(pointer: &str, value: Value<'_>, out: &mut Vec<Oddity>) {
    let mut seen = std::collections::BTreeSet::new();
    for (key, member) in value.entries() {
        let key = key.text();
        let below = format!("{pointer}/{}", visible(&key).replace('~', "~0").replace('/', "~1"));
        check_name(&below, &key, out);
        check_text(&below, &key, out);
        if !seen.insert(key.clone().into_owned()) {
            let message = format!("the key `{}` is repeated", visible(&key));
            out.push(Oddity { kind: OddityKind::RepeatedKey, location: below.clone(), message });
        }
        walk(&below, member, out);
    }
}

/// Names are identifiers, so one letter of another alphabet is enough.
fn check_name(location: &str, name: &str, out: &mut Vec<Oddity>) {
    let letters: String = name.chars().filter(|c| c.is_alphabetic()).collect();
    if letters.is_ascii() {
        return;
    }
    let plain: String = skeleton(&letters).collect();
    let found = if !letters.chars().any(|c| c.is_ascii()) && plain.is_ascii() {
        Some((OddityKind::LookAlike, "is written in letters that look like ASCII"))
    } else if letters.detect_restriction_level() > RestrictionLevel::HighlyRestrictive {
        Some((OddityKind::MixedScript, "mixes alphabets"))
    } else {
        None
    };
    if let Some((kind, what)) = found {
        let message = format!("the name `{}` {what}: {}", visible(name), foreign_letters(&letters));
        out.push(Oddity { kind, location: location.to_owned(), message });
    }
}

fn foreign_letters(letters: &str) -> String {
    let foreign = letters.chars().filter(|c| !c.is_ascii());
    foreign.map(|c| format!("{c} is U+{:04X}", u32::from(c))).collect::<Vec<_>>().join(", ")
}

fn check_text(location: &str, text: &str, out: &mut Vec<Oddity>) {
    if text.is_ascii() && !text.bytes().any(|b| b.is_ascii_control()) {
        return;
    }
    for kind in [
        OddityKind::Control,
        OddityKind::Invisible,
        OddityKind::Bidirectional,
        OddityKind::TagCharacters,
        OddityKind::VariationSelectors,
        OddityKind::PrivateUse,
    ] {
        let found = odd_characters(text, kind);
        if !found.is_empty() {
            out.push(Oddity {
                kind,
                location: location.to_owned(),
                message: describe(kind, &found),
            });
        }
    }
}

/// The characters of one kind that do not belong in their context.
fn odd_characters(text: &str, kind: OddityKind) -> Vec<char> {
    let chars: Vec<char> = text.chars().collect();
    let neighbour = |at: Option<usize>| at.and_then(|at| chars.get(at)).copied();
    let odd = |(at, c): (usize, &char)| {
        let before = neighbour(at.checked_sub(1));
        let after = neighbour(at.checked_add(1));
        (hidden(*c).map(kind_of) == Some(kind) && !is_legitimate(*c, before, after)).then_some(*c)
    };
    chars.iter().enumerate().filter_map(odd).collect()
}

fn kind_of(hidden: Hidden) -> OddityKind {
    match hidden {
        Hidden::Control => OddityKind::Control,
        Hidden::Invisible => OddityKind::Invisible,
        Hidden::Bidirectional => OddityKind::Bidirectional,
        Hidden::Tag => OddityKind::TagCharacters,
        Hidden::Selector => OddityKind::VariationSelectors,
        Hidden::PrivateUse => OddityKind::PrivateUse,
    }
}

/// Emoji need a selector and joiners; several scripts need joiners between their letters.
fn is_legitimate(c: char, before: Option<char>, after: Option<char>) -> bool {
    let visible_mark = |c: Option<char>| c.is_some_and(|c| !c.is_ascii() && hidden(c).is_none());
    let emoji_base = |c: Option<char>| {
        visible_mark(c) || c.is_some_and(|c| c.is_ascii_digit() || matches!(c, '#' | '*'))
    };
    match c {
        '\u{FE0E}' | '\u{FE0F}' => emoji_base(before),
        // Right-to-left scripts need these marks next to their letters.
        '\u{200E}' | '\u{200F}' | '\u{61C}' => is_right_to_left(before) || is_right_to_left(after),
        '\u{200C}' => visible_mark(before) && visible_mark(after),
        '\u{200D}' => (visible_mark(before) || before == Some('\u{FE0F}')) && visible_mark(after),
        _ => false,
    }
}

/// Hebrew, Arabic and related scripts.
fn is_right_to_left(c: Option<char>) -> bool {
    c.is_some_and(|c| matches!(u32::from(c), 0x0590..=0x08FF | 0xFB1D..=0xFDFF | 0xFE70..=0xFEFC))
}

fn describe(kind: OddityKind, found: &[char]) -> String {
    let count = found.len();
    let text: String = found.iter().collect();
    let what = match kind {
        OddityKind::TagCharacters => {
            return format!("{count} tag characters that spell \"{}\"", tag_text(&text));
        }
        OddityKind::Control => "control",
        OddityKind::Bidirectional => "text direction",
        OddityKind::VariationSelectors => "stray variation selector",
        OddityKind::PrivateUse => "private use",
        _ => "invisible",
    };
    let plural = if count == 1 { "character" } else { "characters" };
    let shown: String = found.iter().take(8).map(|c| visible(&c.to_string())).collect();
    let more = if count > 8 { "…" } else { "" };
    format!("{count} {what} {plural}: {shown}{more}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cached_ascii_keys_equal_the_computed_ones() {
        let all: String = (0..128_u8).map(char::from).collect();
        let turned: String = all.chars().rev().collect();
        for name in [all.as_str(), &turned, "", "Send_Mail.1I|l0O", "mrn-RN m"] {
            assert_eq!(look_alike_key(name), whole_key(name), "{name:?}");
        }
    }
}
