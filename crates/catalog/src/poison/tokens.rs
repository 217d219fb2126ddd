//! Splits a text into normalized words for matching, each with its byte range and sentence. Undoes
//! look-alike letters, leetspeak and spaced-out words.

use unicode_security::skeleton;

use crate::pins::is_hidden;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) text: String,
    pub(super) start: usize,
    pub(super) end: usize,
    /// Counts up at every full stop and every empty line.
    pub(super) sentence: usize,
}

pub(super) fn tokens(text: &str) -> Vec<Token> {
    let mut out: Vec<Token> = Vec::new();
    let mut current: Option<(usize, usize)> = None;
    let mut sentence = 0;
    let mut chars = text.char_indices().peekable();
    let mut before = ' ';
    while let Some((at, c)) = chars.next() {
        let next = chars.peek().map(|(_, c)| *c);
        let inside = c.is_alphanumeric() || is_hidden(c) && c != '\u{b}';
        let apostrophe = matches!(c, '\'' | '’') && before.is_alphanumeric();
        if inside && !(c.is_uppercase() && before.is_lowercase()) || apostrophe && current.is_some()
        {
            let start = current.map_or(at, |(start, _)| start);
            current = Some((start, at + c.len_utf8()));
        } else {
            finish(text, current.take(), sentence, &mut out);
            if inside {
                current = Some((at, at + c.len_utf8()));
            }
        }
        let stop = matches!(c, '.' | '!' | '?') && next.is_none_or(char::is_whitespace);
        let gap = c == '\n' && next == Some('\n');
        if stop || gap || matches!(c, '。' | '！' | '？') {
            finish(text, current.take(), sentence, &mut out);
            sentence += 1;
        }
        before = c;
    }
    finish(text, current, sentence, &mut out);
    joined(&out)
}

fn finish(text: &str, span: Option<(usize, usize)>, sentence: usize, out: &mut Vec<Token>) {
    let Some((start, end)) = span else { return };
    let folded = fold(text.get(start..end).unwrap_or_default());
    if !folded.is_empty() {
        out.push(Token { text: folded, start, end, sentence });
    }
}

/// `Don’t` to `dont`, `ignоre` with a Cyrillic letter to `ignore`, `1gn0re` to `ignore`.
fn fold(word: &str) -> String {
    let shown: String = word.chars().filter(|c| !is_hidden(*c)).collect();
    let plain = if shown.is_ascii() { shown } else { plain(&shown) };
    let lower: String = plain.to_lowercase().chars().filter(|c| c.is_alphanumeric()).collect();
    let letters = lower.chars().filter(char::is_ascii_alphabetic).count();
    if letters < 3 || letters == lower.len() {
        return lower;
    }
    lower.chars().map(unleet).collect()
}

/// Replaces only non-ASCII letters that look like ASCII; `skeleton` would also turn `m` into `rn`.
fn plain(word: &str) -> String {
    let mut out = String::with_capacity(word.len());
    for c in word.chars() {
        let seen: String = skeleton(c.encode_utf8(&mut [0; 4])).collect();
        if !c.is_ascii() && seen.is_ascii() && !seen.is_empty() {
            out.push_str(&seen);
        } else {
            out.push(c);
        }
    }
    out
}

fn unleet(c: char) -> char {
    match c {
        '0' => 'o',
        '1' => 'i',
        '3' => 'e',
        '4' => 'a',
        '5' => 's',
        '7' => 't',
        c => c,
    }
}

/// `i g n o r e` to `ignore`: five or more single letters in a row are one word.
fn joined(words: &[Token]) -> Vec<Token> {
    const LETTERS_MIN: usize = 5;
    let single = |w: &Token| w.text.chars().count() == 1 && w.text.chars().all(char::is_alphabetic);
    let mut out = Vec::with_capacity(words.len());
    for run in words.chunk_by(|a, b| single(a) && single(b)) {
        match (run.first(), run.last()) {
            (Some(first), Some(last)) if run.len() >= LETTERS_MIN => out.push(Token {
                text: run.iter().map(|w| w.text.as_str()).collect(),
                start: first.start,
                end: last.end,
                sentence: first.sentence,
            }),
            _ => out.extend(run.iter().cloned()),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::tokens;

    fn texts(text: &str) -> String {
        tokens(text).into_iter().map(|w| w.text).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn disguised_words_are_read_as_what_they_are() {
        for (text, read) in [
            ("Don’t TELL the user", "dont tell the user"),
            ("ign\u{200b}ore it", "ignore it"),
            ("ign\u{043e}re it", "ignore it"),
            ("1gn0re pr3vious", "ignore previous"),
            ("i g n o r e all", "ignore all"),
            ("readSshKeys and_send-them", "read ssh keys and send them"),
        ] {
            assert_eq!(texts(text), read);
        }
    }

    #[test]
    fn sentences_end_at_stops_and_empty_lines_and_not_inside_names() {
        let sentences = |text: &str| tokens(text).last().map_or(0, |w| w.sentence);
        assert_eq!(sentences("One. Two"), 1);
        assert_eq!(sentences("see notes.txt now"), 0);
        assert_eq!(sentences("One\ntwo"), 0);
        assert_eq!(sentences("One\n\ntwo"), 1);
    }
}
