//! Features of a tool with several operations. The worst operation decides, so each kind of operation
//! is a feature: certain when the schema lists it, a hint when only prose mentions it.

use std::collections::BTreeMap;

use super::description::{is_participle, negated};
use super::name::name_verb;
use super::{Features, Location};
use crate::classify::lexicon::{Action, verb};
use crate::classify::text::name_words;
use crate::classify::tool::{ParsedParameter, ParsedTool};

/// Parameters whose values name an operation.
const OPERATIONS: &[&str] =
    &["action", "operation", "op", "method", "command", "mode", "verb", "subcommand", "call"];

pub(super) fn choices(tool: &ParsedTool, out: &mut Features) {
    for p in tool.parameters.iter().filter(|p| names_operation(p)) {
        let (id, values) = match p.choices.as_slice() {
            [] => ("told", mentioned(tool, p)),
            listed => ("choice", listed.to_vec()),
        };
        if values.iter().any(|v| is_http_method(v)) {
            http(&values, p, out);
            continue;
        }
        let kinds = kinds(&values);
        for (act, value) in &kinds {
            let id = format!("{id}={}", act.as_str());
            out.add(id, Location::Parameter(p.path.clone()), value);
        }
        if id == "choice" && !kinds.is_empty() && !kinds.contains_key(&Action::Destroy) {
            let first = values.first().map_or("", String::as_str);
            out.add("choice.no_destroy".to_owned(), Location::Parameter(p.path.clone()), first);
        }
        if !kinds.is_empty() && kinds.keys().all(|act| *act == Action::Read) {
            let first = values.first().map_or("", String::as_str);
            out.add(format!("{id}.only_read"), Location::Parameter(p.path.clone()), first);
        }
        if values.is_empty() {
            out.add("choice.any".to_owned(), Location::Parameter(p.path.clone()), &p.name);
        }
    }
}

/// A choice of HTTP methods can reach anything, unless all of them read.
fn http(values: &[String], p: &ParsedParameter, out: &mut Features) {
    let changes = values.iter().find(|v| matches!(v.as_str(), "POST" | "PUT" | "PATCH" | "DELETE"));
    match changes {
        Some(v) => out.add("choice.http".to_owned(), Location::Parameter(p.path.clone()), v),
        None => out.add("choice.only_read".to_owned(), Location::Parameter(p.path.clone()), "GET"),
    }
}

fn is_http_method(value: &str) -> bool {
    matches!(value, "GET" | "HEAD" | "OPTIONS" | "POST" | "PUT" | "PATCH" | "DELETE")
}

fn names_operation(p: &ParsedParameter) -> bool {
    p.depth == 0 && p.words.last().is_some_and(|w| OPERATIONS.contains(&w.base.as_str()))
}

/// Each kind of operation among the values, with one value as the example.
fn kinds(values: &[String]) -> BTreeMap<Action, String> {
    let mut kinds = BTreeMap::new();
    for value in values {
        let words = name_words(value);
        let chosen = name_verb(&words).and_then(|at| words.get(at));
        if let Some(v) = chosen.and_then(|w| verb(&w.base)) {
            kinds.entry(v.act).or_insert_with(|| value.clone());
        }
    }
    kinds
}

/// Operations given in prose: quoted words in the parameter's or the tool's description.
fn mentioned(tool: &ParsedTool, p: &ParsedParameter) -> Vec<String> {
    let mut found = quoted(&p.description);
    for text in [&p.description, &tool.description] {
        found.extend(quoted(text));
        found.extend(bullets(text));
    }
    found.retain(|word| word.len() <= 40 && !word.contains(' ') && starts_with_verb(word));
    if found.is_empty() {
        found = said_verbs(tool);
    }
    found
}

/// "Create or delete a project": with no list given, the verbs of the opening are the list.
fn said_verbs(tool: &ParsedTool) -> Vec<String> {
    let mut found = Vec::new();
    for sentence in tool.sentences.iter().take(2) {
        for (at, w) in sentence.iter().enumerate() {
            let plain = verb(&w.base).is_some_and(|v| !v.weak);
            if plain && !is_participle(w) && !negated(sentence, at) {
                found.push(w.raw.clone());
            }
        }
    }
    found
}

fn starts_with_verb(value: &str) -> bool {
    name_words(value).first().is_some_and(|w| verb(&w.base).is_some())
}

/// `- delete-job: ...` and `* stop (...)`: the first word of each list line.
fn bullets(text: &str) -> Vec<String> {
    let lines = text.lines().filter_map(|line| line.trim_start().strip_prefix(['-', '*', '•']));
    let heads = lines.filter_map(|line| line.split_whitespace().next());
    heads.map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()).to_owned()).collect()
}

fn quoted(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    for mark in ['\'', '"', '`'] {
        let mut parts = text.split(mark);
        parts.next();
        while let (Some(inside), Some(_)) = (parts.next(), parts.next()) {
            if !inside.is_empty() {
                out.push(inside.to_owned());
            }
        }
    }
    out
}
