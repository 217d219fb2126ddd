//! Extracts the search words of names and descriptions: split, folded, without duplicates. Writing,
//! deleting and searching use the same function.

use std::collections::HashSet;

use policy::json::{Bounds, Doc, Value};

/// Words of a description that are indexed; the start says what a tool does.
const TEXT_WORDS_MAX: usize = 48;
/// Bytes of a description that are read.
const TEXT_BYTES_MAX: usize = 1_200;
const WORD_BYTES_MAX: usize = 40;
/// Parameters whose names are indexed.
const PARAMETERS_MAX: usize = 12;

/// Stop words, sorted.
const STOP_WORDS: &[&str] = &[
    "a", "an", "and", "any", "are", "as", "at", "be", "by", "can", "e", "eg", "for", "from", "if",
    "in", "into", "is", "it", "its", "of", "on", "optional", "or", "s", "such", "that", "the",
    "their", "this", "to", "use", "used", "using", "when", "which", "will", "with", "you", "your",
];

/// The words of a tool: of its name and title, and of the rest.
pub(super) fn of_tool(tool: Value<'_>) -> (String, String) {
    let text = |key: &str| tool.get(key).and_then(Value::as_str).unwrap_or_default();
    let parameters = tool.get("inputSchema").and_then(|schema| schema.get("properties"));
    let parameters = parameters.into_iter().flat_map(Value::entries).take(PARAMETERS_MAX);
    let mut rest = text("description").into_owned();
    cut(&mut rest);
    for (key, _) in parameters {
        rest.push(' ');
        rest.push_str(&key.text());
    }
    of(&text("name"), &text("title"), &rest)
}

/// The same for a stored definition.
pub(super) fn of_definition(definition: &str) -> (String, String) {
    let doc = Doc::read(definition.as_bytes(), &Bounds::ANSWER);
    doc.map(|doc| of_tool(doc.root())).unwrap_or_default()
}

/// The words of a server.
pub(super) fn of_server(name: &str, title: &str, description: &str) -> (String, String) {
    let mut rest = description.to_owned();
    cut(&mut rest);
    of(name, title, &rest)
}

/// The words of a query, in order.
pub(super) fn of_query(text: &str) -> Vec<String> {
    let mut seen = HashSet::new();
    let mut words = Vec::new();
    each(text, &mut |word| {
        if seen.insert(word.to_owned()) {
            words.push(word.to_owned());
        }
    });
    let telling: Vec<String> =
        words.iter().filter(|w| !STOP_WORDS.contains(&w.as_str())).cloned().collect();
    if telling.is_empty() { words } else { telling }
}

fn of(name: &str, title: &str, rest: &str) -> (String, String) {
    let mut seen: HashSet<String> = HashSet::new();
    let mut names = String::new();
    for text in [name, title] {
        each(text, &mut |word| add(word, &mut seen, &mut names));
    }
    let mut texts = String::new();
    let mut kept = 0;
    each(rest, &mut |word| {
        if kept < TEXT_WORDS_MAX && STOP_WORDS.binary_search(&word).is_err() {
            let before = texts.len();
            add(word, &mut seen, &mut texts);
            kept += usize::from(texts.len() > before);
        }
    });
    (names, texts)
}

fn add(word: &str, seen: &mut HashSet<String>, out: &mut String) {
    if seen.contains(word) {
        return;
    }
    seen.insert(word.to_owned());
    if !out.is_empty() {
        out.push(' ');
    }
    out.push_str(word);
}

/// Every word in lower case; `getUser2` is `get`, `user2`, and `get_user` is two words as well.
fn each(text: &str, take: &mut impl FnMut(&str)) {
    let mut word = String::with_capacity(24);
    let mut was_lower = false;
    for c in text.chars() {
        let is_word = c.is_alphanumeric();
        let begins = c.is_uppercase() && was_lower;
        if (!is_word || begins || word.len() >= WORD_BYTES_MAX) && !word.is_empty() {
            take(&word);
            word.clear();
        }
        if c.is_ascii() && is_word {
            word.push(c.to_ascii_lowercase());
        } else if is_word {
            word.extend(c.to_lowercase());
        }
        was_lower = is_word && !c.is_uppercase();
    }
    if !word.is_empty() {
        take(&word);
    }
}

fn cut(text: &mut String) {
    if text.len() > TEXT_BYTES_MAX {
        let end = (0..=TEXT_BYTES_MAX).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_empty_words_are_sorted() {
        assert!(STOP_WORDS.is_sorted());
    }

    #[test]
    fn names_are_cut_where_people_would_cut_them() {
        let (names, rest) =
            of("getUser_byID2", "Get a user", "Gets the USER, émile & 日本 2x, user");
        assert_eq!(names, "get user by id2 a");
        assert_eq!(rest, "gets émile 日本 2x");
        assert_eq!(of_query("delete the file"), ["delete", "file"]);
        assert_eq!(of_query("the"), ["the"]);
    }
}
