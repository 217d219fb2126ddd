//! Deceptive names: not in NFC, with invisible characters, or with confusable letters of several scripts.
//! Globs never match them.

use unicode_normalization::is_nfc;
use unicode_security::mixed_script::AugmentedScriptSet;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeceptiveName {
    NotNfc,
    Invisible,
    MixedScripts,
}

impl DeceptiveName {
    pub(crate) const fn message(self) -> &'static str {
        match self {
            DeceptiveName::NotNfc => "is not in Unicode normal form C",
            DeceptiveName::Invisible => "contains control or invisible characters",
            DeceptiveName::MixedScripts => "mixes scripts in a confusable way",
        }
    }
}

pub(crate) fn deceptive(name: &str) -> Option<DeceptiveName> {
    if name.is_ascii() {
        let invisible = name.bytes().any(|byte| byte.is_ascii_control());
        return invisible.then_some(DeceptiveName::Invisible);
    }
    if name.chars().any(is_invisible) {
        return Some(DeceptiveName::Invisible);
    }
    if !is_nfc(name) {
        return Some(DeceptiveName::NotNfc);
    }
    mixes_scripts(name).then_some(DeceptiveName::MixedScripts)
}

/// Controls, format and other ignorable characters, and white space other than the plain space.
pub(crate) fn is_invisible(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_control();
    }
    c.is_control()
        || c.is_whitespace()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202f}'
            | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffd}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// One script is fine, and so is Latin with Chinese, Japanese or Korean, whose letters are not confusable.
fn mixes_scripts(name: &str) -> bool {
    if !AugmentedScriptSet::for_str(name).is_empty() {
        return false;
    }
    let latin = AugmentedScriptSet::for_char('a');
    let mut others = AugmentedScriptSet::default();
    for set in name.chars().map(AugmentedScriptSet::for_char).filter(|set| *set != latin) {
        others.intersect_with(set);
    }
    !(others.hanb || others.jpan || others.kore)
}
