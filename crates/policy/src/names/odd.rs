//! Names that are not what they seem: not in NFC, with characters nobody sees, or with letters of one
//! script that pass for another's. Globs never speak for them.

use unicode_normalization::is_nfc;
use unicode_security::mixed_script::AugmentedScriptSet;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Oddness {
    NotNfc,
    Unseen,
    MixedScripts,
}

impl Oddness {
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Oddness::NotNfc => "is not in Unicode normal form C",
            Oddness::Unseen => "holds control or invisible characters",
            Oddness::MixedScripts => "mixes scripts in a confusable way",
        }
    }
}

pub(crate) fn oddness(name: &str) -> Option<Oddness> {
    if name.is_ascii() {
        let unseen = name.bytes().any(|byte| byte.is_ascii_control());
        return unseen.then_some(Oddness::Unseen);
    }
    if name.chars().any(is_unseen) {
        return Some(Oddness::Unseen);
    }
    if !is_nfc(name) {
        return Some(Oddness::NotNfc);
    }
    mixes_scripts(name).then_some(Oddness::MixedScripts)
}

/// Controls, format and other ignorable characters, and white space other than the plain space.
fn is_unseen(c: char) -> bool {
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

/// One script is fine, and so is Latin beside Chinese, Japanese or Korean, whose letters nobody mistakes.
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
