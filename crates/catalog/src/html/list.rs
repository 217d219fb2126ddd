//! The first page, the pages by letter, and the index that the search reads. Without script the
//! letters lead to everything.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::json;

use super::{badge, code, escaped, whole};
use crate::classify::{Category, Risk};

/// One line of a list, and one answer of the search.
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

/// The index of the search in pieces: a page loads those whose two letters were typed.
#[derive(Debug, Default)]
pub struct Shards {
    pieces: BTreeMap<String, Vec<String>>,
}

/// Text of an answer that the search shows.
const DOES_CHARS_MAX: usize = 120;
/// Answers in one piece; more are no help to anybody.
const ENTRIES_MAX: usize = 4_000;

impl Shards {
    pub fn add(&mut self, entry: &Entry) {
        let does: String = entry.does.chars().take(DOES_CHARS_MAX).collect();
        let row = json!([
            entry.path,
            crate::pins::visible(&entry.name),
            entry.server.as_deref().map(crate::pins::visible),
            crate::pins::visible(&does),
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

/// `index.html`
pub fn index(
    servers: u64,
    tools: u64,
    letters: &[(char, usize)],
    risks: &[(Risk, u64)],
    shards: &Shards,
) -> String {
    let mut main = format!(
        "<h1>Catalogue</h1>\n<p class=\"lead\">{servers} servers and {tools} tools: what each does, how dangerous it is, why, \
         and the rule we recommend.</p>\n<div id=\"search\" hidden><label for=\"words\">Find a tool or a server</label>\
         <input id=\"words\" type=\"search\" autocomplete=\"off\" spellcheck=\"false\">\
         <p id=\"said\" role=\"status\"></p><ul id=\"answers\" class=\"cards\"></ul></div>\n"
    );
    let risks: Vec<String> =
        risks.iter().rev().map(|(risk, n)| format!("{} {n}", badge(risk.as_str()))).collect();
    let _ = writeln!(
        main,
        "<p>Tools by risk: {}</p>\n<h2>Servers by name</h2>\n<ul class=\"letters\">",
        risks.join(" · ")
    );
    for (letter, count) in letters {
        let shown =
            if *letter == '0' { "0–9".to_owned() } else { letter.to_uppercase().to_string() };
        let _ = writeln!(
            main,
            "<li><a href=\"letters/{letter}.html\">{shown}</a> <span class=\"kind\">{count}</span></li>"
        );
    }
    let names = shards.names().join(" ");
    let _ = writeln!(main, "</ul>\n<script src=\"search.js\" data-pieces=\"{names}\"></script>");
    whole("Catalogue", &main, "")
}

/// `letters/X.html`
pub fn letter(letter: char, entries: &[Entry]) -> String {
    let shown = if letter == '0' { "0–9".to_owned() } else { letter.to_uppercase().to_string() };
    let mut main = format!(
        "<p class=\"crumbs\"><a href=\"../index.html\">Catalogue</a></p>\n<h1>Servers: {shown}</h1>\n<ul class=\"cards\">\n"
    );
    for entry in entries {
        let risk = entry.risk.map(|risk| badge(risk.as_str())).unwrap_or_default();
        let tools = entry
            .tools
            .map(|n| format!("<span class=\"kind\">{n} tools</span>"))
            .unwrap_or_default();
        let _ = writeln!(
            main,
            "<li><a href=\"../{}\">{}</a> {risk} {tools}<p>{}</p></li>",
            entry.path,
            code(&entry.name),
            escaped(&entry.does)
        );
    }
    main.push_str("</ul>\n");
    whole(&format!("Servers: {shown}"), &main, "../")
}
