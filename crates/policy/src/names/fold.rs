//! Folds names that could be confused to one spelling: by appearance, and URIs by how a server may read
//! them.

use std::borrow::Cow;

use unicode_security::confusable_detection::skeleton;

use super::nfc;
use crate::percent;

/// What a name looks like to a person.
pub(crate) fn look(name: &str) -> String {
    skeleton(&nfc(name)).filter(|c| !c.is_control()).collect()
}

/// A URI as a server may read it: escapes in the path undone, backslashes turned, doubled slashes and
/// dot segments gone, no fragment, scheme and host in lower case. The query stays as it is.
pub(crate) fn uri_reading(uri: &str) -> String {
    let (path, query) = split_query(uri);
    format!("{}{query}", without_dots(&spelling(path)))
}

/// A URI as a server reads it that treats the whole URI as a path, where the query or fragment then leads
/// elsewhere, as in `file:///safe/?/../../etc/passwd`.
pub(crate) fn uri_reading_unsplit(uri: &str) -> Option<String> {
    let (_, behind) = uri.split_at(uri.find(['?', '#'])?);
    let leads = spelling(behind).split('/').skip(1).any(|segment| matches!(segment, "." | ".."));
    leads.then(|| without_dots(&spelling(uri)))
}

/// The same for a pattern. Each literal part is folded by itself, so dot segments stay.
pub(crate) fn uri_pattern(pattern: &str) -> String {
    if !pattern.contains('*') {
        return uri_reading(pattern);
    }
    let (path, query) = split_query(pattern);
    let path = path.split('*').map(spelling).collect::<Vec<_>>().join("*");
    format!("{path}{query}")
}

/// The part before the question mark and the part from it on, without any fragment.
fn split_query(uri: &str) -> (&str, &str) {
    let uri = uri.split('#').next().unwrap_or_default();
    uri.split_at(uri.find('?').unwrap_or(uri.len()))
}

/// A pattern by what its literal parts look like.
pub(crate) fn look_alike_pattern(pattern: &str) -> String {
    pattern.split('*').map(look).collect::<Vec<_>>().join("*")
}

fn spelling(text: &str) -> String {
    let decoded = percent::decode_fully(text).map_or(Cow::Borrowed(text), Cow::Owned);
    let slashed = collapse_slashes(&nfc(&decoded).replace('\\', "/"));
    plain_file(lower_authority(&slashed))
}

/// `file:/x`, `file://localhost/x` and `file:///x` are one file.
fn plain_file(uri: String) -> String {
    let rest = uri.strip_prefix("file:").unwrap_or_default();
    if let Some(path) = rest.strip_prefix("//localhost/") {
        return format!("file:///{path}");
    }
    let has_one = rest.starts_with('/') && !rest.starts_with("//");
    if has_one { format!("file://{rest}") } else { uri }
}

/// The slashes after a scheme stay, at most three of them.
fn collapse_slashes(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut run_max = 1;
    let mut run = 0;
    for c in text.chars() {
        if c == '/' {
            run += 1;
            if run > run_max {
                continue;
            }
        } else {
            run = 0;
            run_max = if c == ':' { 3 } else { 1 };
        }
        out.push(c);
    }
    out
}

fn lower_authority(uri: &str) -> String {
    let scheme_end = uri.find(':').map_or(0, |at| at + 1);
    let rest = uri.get(scheme_end..).unwrap_or_default();
    let authority = match rest.strip_prefix("//") {
        Some(after) => 2 + after.find('/').unwrap_or(after.len()),
        None => 0,
    };
    let (head, tail) = uri.split_at(scheme_end + authority);
    format!("{}{tail}", head.to_lowercase())
}

/// Resolves `.` and `..` behind the scheme and the host.
fn without_dots(uri: &str) -> String {
    let root = match uri.split_once("://") {
        Some((scheme, rest)) => scheme.len() + 3 + rest.find('/').unwrap_or(rest.len()),
        None => uri.find(':').map_or(0, |at| at + 1),
    };
    let (head, path) = uri.split_at(root);
    let mut kept: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            ".." if kept.len() > 1 => drop(kept.pop()),
            "." | ".." => {}
            _ => kept.push(segment),
        }
    }
    format!("{head}{}", kept.join("/"))
}
