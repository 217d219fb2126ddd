//! The first page, the pages by letter, and the search index. Without script, the letters lead to
//! everything.

use std::collections::{BTreeMap, BTreeSet};

use askama::Template;
use serde_json::json;

use super::{CONTENT_POLICY, line, rendered};
use crate::classify::{Category, Risk};
use crate::pins::visible;

/// One line of a list, and one search result.
#[derive(Clone, Debug)]
pub struct Entry {
    /// From the top folder: `servers/SLUG/index.html`.
    pub path: String,
    pub name: String,
    /// The server of a tool.
    pub server: Option<String>,
    pub does: String,
    pub category: Option<Category>,
    pub risk: Option<Risk>,
    pub tools: Option<usize>,
}

/// The search index in shards: a page loads those for the two letters that were typed.
#[derive(Debug, Default)]
pub struct Shards {
    pieces: BTreeMap<String, Vec<String>>,
}

/// Characters of the description in a search result.
const DOES_CHARS_MAX: usize = 120;
/// Results in one shard; more would not help.
const ENTRIES_MAX: usize = 4_000;

impl Shards {
    pub fn add(&mut self, entry: &Entry) {
        let does: String = entry.does.chars().take(DOES_CHARS_MAX).collect();
        let row = json!([
            entry.path,
            visible(&entry.name),
            entry.server.as_deref().map(visible),
            visible(&does),
            entry.risk.map(Risk::as_str),
            entry.category.map(Category::as_str),
        ]);
        let row = row.to_string();
        for key in keys(entry) {
            let piece = self.pieces.entry(key).or_default();
            if piece.len() < ENTRIES_MAX {
                piece.push(row.clone());
            }
        }
    }

    /// Name and text of every piece, for `search/NAME.js`.
    pub fn files(&self) -> impl Iterator<Item = (String, String)> + '_ {
        self.pieces.iter().map(|(key, rows)| {
            // A script and not JSON: a page opened from a disk may load scripts, but fetch nothing.
            let text = format!("tollgateFound({},[\n{}\n]);\n", json!(key), rows.join(",\n"));
            // `</` cannot end a script of its own file, but it costs nothing to be sure.
            (key.clone(), text.replace("</", "<\\/"))
        })
    }

    pub fn names(&self) -> Vec<&str> {
        self.pieces.keys().map(String::as_str).collect()
    }
}

/// The first two letters of every word of a name.
fn keys(entry: &Entry) -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    for text in [Some(&entry.name), entry.server.as_ref()].into_iter().flatten() {
        for word in words(text) {
            keys.insert(word.chars().take(2).collect());
        }
    }
    keys
}

fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for c in text.chars() {
        let starts = !c.is_ascii_alphanumeric() || (c.is_ascii_uppercase() && was_lower);
        if starts {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| c.is_ascii_alphanumeric()) {
            word.push(c.to_ascii_lowercase());
        }
        was_lower = c.is_ascii_lowercase();
    }
    words.retain(|word| word.len() >= 2);
    words
}

/// The page a server's name is listed on.
pub fn letter_of(name: &str) -> char {
    let last = name.rsplit(['/', ':']).next().unwrap_or(name);
    let first =
        last.chars().find(char::is_ascii_alphanumeric).map_or('0', |c| c.to_ascii_lowercase());
    if first.is_ascii_digit() { '0' } else { first }
}

#[derive(Template)]
#[template(path = "index.html")]
struct IndexTemplate<'a> {
    servers: u64,
    tools: u64,
    letters: &'a [(char, usize)],
    risks: &'a [(Risk, u64)],
    shards: &'a Shards,
}

#[derive(Template)]
#[template(path = "letter.html")]
struct LetterTemplate<'a> {
    letter: char,
    entries: &'a [Entry],
}

/// `index.html`
pub fn index(
    servers: u64,
    tools: u64,
    letters: &[(char, usize)],
    risks: &[(Risk, u64)],
    shards: &Shards,
) -> String {
    rendered(&IndexTemplate { servers, tools, letters, risks, shards })
}

/// `letters/X.html`
pub fn letter(letter: char, entries: &[Entry]) -> String {
    rendered(&LetterTemplate { letter, entries })
}
