//! Who speaks for a name, by trying everything.

use super::ModelCall;
use crate::tree::Json;

pub(super) enum Matched {
    Hidden(String),
    Doubt(String),
    Entry(String, Json),
    Nothing,
}

pub(super) fn who_speaks(policy: &Json, call: &ModelCall, open: bool) -> Matched {
    if call.section == "methods" {
        return Matched::Nothing;
    }
    let name = composed(&call.name);
    let odd = is_odd(&call.name);
    let hide: Vec<String> = policy
        .get("hide")
        .map(Json::items)
        .unwrap_or_default()
        .iter()
        .map(|item| item.as_text().unwrap().to_owned())
        .collect();
    let entries = policy.get(call.section).map(Json::members).unwrap_or_default();
    let keys: Vec<String> = entries.iter().map(|(key, _)| key.clone()).collect();
    let pointer =
        |at: usize| format!("/{}/{}", call.section, keys[at].replace('~', "~0").replace('/', "~1"));

    if let Some(at) = best(&hide, &name, odd) {
        return Matched::Hidden(format!("/hide/{at}"));
    }
    let folded = |patterns: &[String]| -> Vec<String> {
        patterns.iter().map(|pattern| pattern_reading(pattern)).collect()
    };
    let mut readings = vec![reading(&name)];
    if dots_behind(&name) {
        // A server may take the whole of it for a path.
        readings.push(reading(&name.replace('#', "\u{1}")));
        readings[1] = readings[1].replace('\u{1}', "#");
    }
    for reading in &readings {
        let hidden = best(&folded(&hide), reading, false);
        if let (Some(at), "resources") = (hidden, call.section) {
            return Matched::Hidden(format!("/hide/{at}"));
        }
    }
    let found = best(&keys, &name, odd);
    let written_out = found.is_some_and(|at| keys[at] == name);
    if !written_out && call.section == "resources" {
        for reading in &readings {
            let other = best(&folded(&keys), reading, false);
            if other != found {
                return Matched::Doubt(pointer(other.or(found).unwrap()));
            }
        }
    }
    if found.is_none() && open && odd {
        let folded =
            |patterns: &[String]| -> Vec<String> { patterns.iter().map(|p| look(p)).collect() };
        if let Some(at) = best(&folded(&keys), &look(&name), false) {
            return Matched::Doubt(pointer(at));
        }
        if let Some(at) = best(&folded(&hide), &look(&name), false) {
            return Matched::Doubt(format!("/hide/{at}"));
        }
    }
    match found {
        Some(at) => Matched::Entry(pointer(at), entries[at].1.clone()),
        None => Matched::Nothing,
    }
}

/// The exact name; else the glob with the longest beginning, then the longest end, then the first.
fn best(patterns: &[String], name: &str, odd: bool) -> Option<usize> {
    if let Some(at) = patterns.iter().position(|pattern| pattern == name && !pattern.contains('*'))
    {
        return Some(at);
    }
    if odd {
        return None;
    }
    let name: Vec<char> = name.chars().collect();
    let mut matching: Vec<usize> = (0..patterns.len())
        .filter(|&at| patterns[at].contains('*'))
        .filter(|&at| matches(&patterns[at].chars().collect::<Vec<_>>(), &name))
        .collect();
    matching.sort_by_key(|&at| {
        let begins = patterns[at].split('*').next().unwrap().len();
        let ends = patterns[at].split('*').next_back().unwrap().len();
        (std::cmp::Reverse(begins), std::cmp::Reverse(ends), at)
    });
    matching.first().copied()
}

pub(super) fn matches(pattern: &[char], name: &[char]) -> bool {
    match pattern.first() {
        None => name.is_empty(),
        Some('*') => (0..=name.len()).any(|taken| matches(&pattern[1..], &name[taken..])),
        Some(letter) => name.first() == Some(letter) && matches(&pattern[1..], &name[1..]),
    }
}

/// The only decomposed letter the generator knows.
fn composed(name: &str) -> String {
    name.replace("e\u{301}", "\u{e9}")
}

/// The generator's odd letters: an invisible joiner, a Cyrillic `е`, an accent on its own, a NUL.
fn is_odd(name: &str) -> bool {
    name.contains(['\u{200b}', '\u{435}', '\u{301}', '\u{0}'])
}

fn look(name: &str) -> String {
    name.replace(['\u{200b}', '\u{0}'], "").replace('\u{435}', "e")
}

/// What a server may make of a URI that the generator knows.
fn reading(uri: &str) -> String {
    let uri = spelled(uri);
    let (head, path) = match uri.find("://") {
        Some(at) => {
            let after = at + 3;
            let path = uri[after..].find('/').map_or(uri.len(), |slash| after + slash);
            (uri[..path].to_owned(), uri[path..].to_owned())
        }
        None => (String::new(), uri),
    };
    let mut kept: Vec<String> = Vec::new();
    for part in path.split('/') {
        if part == ".." {
            if kept.len() > 1 {
                kept.pop();
            }
        } else if part != "." {
            kept.push(part.to_owned());
        }
    }
    format!("{head}{}", kept.join("/"))
}

/// Whether a path that begins behind a `#` goes up.
fn dots_behind(uri: &str) -> bool {
    uri.split_once('#').is_some_and(|(_, behind)| behind.contains("/.."))
}

fn pattern_reading(pattern: &str) -> String {
    if pattern.contains('*') { spelled(pattern) } else { reading(pattern) }
}

fn spelled(uri: &str) -> String {
    let mut uri = uri.split('#').next().unwrap().to_owned();
    for _ in 0..4 {
        uri = uri.replace("%2e", ".").replace("%2f", "/").replace("%61", "a").replace("%25", "%");
    }
    uri = uri.replace('\\', "/");
    if uri.starts_with("file:/") && !uri.starts_with("file://") {
        uri = uri.replacen("file:/", "file:///", 1);
    }
    uri = uri.replace("file://localhost/", "file:///");
    if let Some((scheme, rest)) = uri.split_once("://") {
        let mut rest = rest.to_owned();
        while rest.contains("//") {
            rest = rest.replace("//", "/");
        }
        let host = rest.find('/').unwrap_or(rest.len());
        uri =
            format!("{}://{}{}", scheme.to_lowercase(), rest[..host].to_lowercase(), &rest[host..]);
    }
    uri
}
