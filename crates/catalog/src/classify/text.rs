//! Splits names and descriptions into words and reduces each word to its base form.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;

use super::lexicon::is_known;

/// A word as written, in lower case, and in its base form, with the byte where it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) raw: String,
    pub(super) lower: String,
    pub(super) base: String,
    pub(super) at: usize,
}

impl Word {
    fn new(raw: &str, at: usize) -> Self {
        let lower = lowered(raw);
        Self { raw: raw.to_owned(), base: base_of(&lower), lower, at }
    }

    /// A word late in a text. Only phrases match there, and they need no base form.
    fn plain(raw: &str, at: usize) -> Self {
        Self { raw: raw.to_owned(), lower: lowered(raw), base: String::new(), at }
    }
}

fn lowered(raw: &str) -> String {
    if raw.is_ascii() { raw.to_ascii_lowercase() } else { raw.to_lowercase() }
}

/// Base forms cached per thread; texts repeat the same few thousand words.
const BASES_MAX: usize = 20_000;

thread_local! {
    static BASES: RefCell<HashMap<Box<str>, Box<str>>> = RefCell::new(HashMap::new());
}

fn base_of(lower: &str) -> String {
    BASES.with_borrow_mut(|bases| {
        if let Some(base) = bases.get(lower) {
            return base.to_string();
        }
        let base = base_form(lower);
        if bases.len() < BASES_MAX {
            bases.insert(lower.into(), base.as_str().into());
        }
        base
    })
}

/// The words of an identifier: `createRefund`, `create_refund` and `create-refund` are the same two.
pub(super) fn name_words(name: &str) -> Vec<Word> {
    let mut words = Vec::new();
    let mut start = 0;
    let mut before = None;
    let mut chars = name.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let after = chars.peek().map(|(_, c)| *c);
        if !c.is_alphanumeric() {
            take(name, start..at, &mut words);
            start = at + c.len_utf8();
        } else if starts_word(before, c, after) {
            take(name, start..at, &mut words);
            start = at;
        }
        before = Some(c);
    }
    take(name, start..name.len(), &mut words);
    words
}

/// An upper-case letter starts a word after a lower-case one, and before one at the end of a run.
fn starts_word(before: Option<char>, c: char, after: Option<char>) -> bool {
    let Some(before) = before else { return false };
    c.is_uppercase()
        && (before.is_lowercase()
            || (before.is_uppercase() && after.is_some_and(char::is_lowercase)))
}

fn take(text: &str, span: Range<usize>, words: &mut Vec<Word>) {
    if let Some(raw) = text.get(span.clone()).filter(|raw| !raw.is_empty()) {
        words.push(Word::new(raw, span.start));
    }
}

/// Sentences of a description, each as words. Markup is dropped; a line break ends a sentence when
/// the next line starts like one.
pub(super) fn sentences(text: &str) -> Vec<Vec<Word>> {
    let mut out: Vec<Vec<Word>> = Vec::new();
    let mut sentence = Vec::new();
    let mut start = 0;
    for (at, c) in text.char_indices().filter(|(_, c)| !c.is_alphanumeric()) {
        let word = text.get(start..at).unwrap_or_default();
        let after_number = word.chars().all(|c| c.is_ascii_digit());
        take_late(text, start..at, out.len(), &mut sentence);
        start = at + c.len_utf8();
        let rest = text.get(start..).unwrap_or_default();
        if ends_sentence(c, rest, after_number) && !sentence.is_empty() {
            out.push(std::mem::take(&mut sentence));
        }
    }
    take_late(text, start..text.len(), out.len(), &mut sentence);
    if !sentence.is_empty() {
        out.push(sentence);
    }
    out
}

/// Sentences whose words get a base form. Authors say first what a tool does.
const BASED_SENTENCES: usize = 3;

fn take_late(text: &str, span: Range<usize>, sentence: usize, words: &mut Vec<Word>) {
    if sentence < BASED_SENTENCES {
        return take(text, span, words);
    }
    if let Some(raw) = text.get(span.clone()).filter(|raw| !raw.is_empty()) {
        words.push(Word::plain(raw, span.start));
    }
}

fn ends_sentence(c: char, rest: &str, after_number: bool) -> bool {
    match c {
        '。' | '！' | '？' => true,
        '!' | '?' => rest.chars().next().is_none_or(char::is_whitespace),
        '.' => !after_number && rest.chars().next().is_none_or(char::is_whitespace),
        '\n' => {
            let next = rest.chars().find(|c| *c == '\n' || !c.is_whitespace());
            next.is_none_or(|c| !c.is_lowercase())
        }
        _ => false,
    }
}

/// `deletes`, `deleting` and `deleted` become `delete` if the lexicon knows it; other plurals lose
/// their `s`.
pub(super) fn base_form(word: &str) -> String {
    if is_known(word) {
        return word.to_owned();
    }
    for (ending, replacements) in ENDINGS {
        let Some(stem) = word.strip_suffix(ending).filter(|stem| stem.len() > 1) else { continue };
        for replacement in *replacements {
            let candidate = format!("{stem}{replacement}");
            if is_known(&candidate) {
                return candidate;
            }
        }
        if let Some(single) = undoubled(stem).filter(|single| is_known(single)) {
            return single.to_owned();
        }
    }
    plural_stripped(word).to_owned()
}

const ENDINGS: &[(&str, &[&str])] = &[
    ("ies", &["y", "ie"]),
    ("es", &["e", ""]),
    ("s", &[""]),
    ("ied", &["y"]),
    ("ed", &["e", ""]),
    ("ing", &["e", ""]),
];

/// `stopp` (from `stopped`) to `stop`.
fn undoubled(stem: &str) -> Option<&str> {
    let mut ends = stem.chars().rev();
    let (last, before) = (ends.next()?, ends.next()?);
    (last == before).then(|| stem.strip_suffix(last)).flatten()
}

fn plural_stripped(word: &str) -> &str {
    let keep = word.len() < 4 || ["ss", "us", "is"].iter().any(|end| word.ends_with(end));
    if keep { word } else { word.strip_suffix('s').unwrap_or(word) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing, reason = "a test fails by panicking")]
    use super::{base_form, name_words, sentences};

    #[test]
    fn names_are_split_at_case_and_punctuation() {
        for (name, expected) in [
            ("createRefund", "create refund"),
            ("create_refund-v2", "create refund v2"),
            ("API-delete-a-block", "api delete a block"),
            ("runSQLQuery", "run sql query"),
            ("GenericOpenSearchApiTool", "generic open search api tool"),
            ("d1_database_delete", "d1 database delete"),
        ] {
            let bases: Vec<String> = name_words(name).into_iter().map(|w| w.base).collect();
            assert_eq!(bases.join(" "), expected);
        }
    }

    #[test]
    fn words_are_reduced_to_their_base_form() {
        for (word, base) in [
            ("deletes", "delete"),
            ("deleting", "delete"),
            ("stopped", "stop"),
            ("queries", "query"),
            ("applies", "apply"),
            ("status", "status"),
            ("widgets", "widget"),
            ("address", "address"),
        ] {
            assert_eq!(base_form(word), base);
        }
    }

    #[test]
    fn a_wrapped_line_does_not_end_a_sentence() {
        let cut =
            sentences("Deletes the page\nand its children. Args:\n  id: what\n\nReturns nothing");
        let lengths: Vec<usize> = cut.iter().map(Vec::len).collect();
        assert_eq!(lengths, [6, 3, 2]);
        assert_eq!(cut[2][0].raw, "Returns");
    }
}
