//! Folds keys that a lenient reader may treat as the same key: case, compatibility forms, invisible
//! characters and surrounding space are removed.

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization;

/// The folded form of a key. Some reader may confuse two keys with the same folded form.
pub fn fold(key: &str) -> Cow<'_, str> {
    if !is_plain(key) {
        return Cow::Owned(fold_wide(key));
    }
    if key.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Cow::Owned(key.to_ascii_lowercase());
    }
    Cow::Borrowed(key)
}

/// Whether folding a key is only lowering its ASCII letters.
pub(super) fn is_plain(key: &str) -> bool {
    !key.starts_with(' ')
        && !key.ends_with(' ')
        && key.bytes().all(|byte| matches!(byte, b' '..0x7F))
}

fn fold_wide(key: &str) -> String {
    // Lowered first, because the capital sharp s has no other capitals and its small letter has two.
    let folded: String = key
        .nfkc()
        .map(dotless)
        .flat_map(char::to_lowercase)
        .flat_map(char::to_uppercase)
        .flat_map(char::to_lowercase)
        .nfkc()
        .filter(|&c| !is_ignorable(c))
        .collect();
    folded.replace("i\u{307}", "i").trim().to_owned()
}

/// Some readers lower `İ` to plain `i`, others to an `i` with a dot of its own; all three are one here.
const fn dotless(c: char) -> char {
    if c == 'İ' { 'i' } else { c }
}

/// Control characters, and those that Unicode calls default ignorable.
fn is_ignorable(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{AD}' | '\u{34F}' | '\u{61C}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}'
            | '\u{180B}'..='\u{180F}' | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}'
            | '\u{2060}'..='\u{206F}' | '\u{3164}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}'
            | '\u{FFA0}' | '\u{FFF0}'..='\u{FFF8}' | '\u{1BCA0}'..='\u{1BCA3}'
            | '\u{1D173}'..='\u{1D17A}' | '\u{E0000}'..='\u{E0FFF}')
}
