//! The operators once more, from their descriptions.

use std::cmp::Ordering;

use super::decimal::compare as order;
use super::{Three, any, yes};
use crate::tree::Json;

pub(super) fn compare(operator: &str, value: &Json, found: &Json) -> Three {
    match operator {
        "exists" => yes(*value == Json::Bool(true)),
        "eq" => equal(value, found),
        "neq" => flip(equal(value, found)),
        "lt" => number(value, found, |order| order == Ordering::Less),
        "lte" => number(value, found, |order| order != Ordering::Greater),
        "gt" => number(value, found, |order| order == Ordering::Greater),
        "gte" => number(value, found, |order| order != Ordering::Less),
        "in" => one_of(value.items(), found),
        "not_in" => flip(one_of(value.items(), found)),
        "contains" => contains(value, found),
        "starts_with" => text(value, found, |value, found| found.get(..value.len()) == Some(value)),
        "ends_with" => text(value, found, |value, found| {
            found.len() >= value.len() && found.get(found.len() - value.len()..) == Some(value)
        }),
        "regex" => text(value, found, regex),
        "glob" => text(value, found, |value, found| {
            glob(&value.chars().collect::<Vec<_>>(), &found.chars().collect::<Vec<_>>())
        }),
        "length_lte" => length(value, found, |length, value| length <= value),
        "length_gte" => length(value, found, |length, value| length >= value),
        "path_under" => match found {
            Json::Text(path) => {
                any(&texts(value).iter().map(|root| under(root, path)).collect::<Vec<_>>())
            }
            _ => Three::Unclear,
        },
        "url_host_in" => match found {
            Json::Text(url) => host_in(&texts(value), url),
            _ => Three::Unclear,
        },
        "cidr_in" => match found {
            Json::Text(address) => network_in(&texts(value), address),
            _ => Three::Unclear,
        },
        other => panic!("{other}"),
    }
}

fn flip(three: Three) -> Three {
    match three {
        Three::Yes => Three::No,
        Three::No => Three::Yes,
        Three::Unclear => Three::Unclear,
    }
}

fn equal(value: &Json, found: &Json) -> Three {
    match (value, found) {
        (Json::Text(value), Json::Text(found)) => yes(value == found),
        (Json::Bool(value), Json::Bool(found)) => yes(value == found),
        (Json::Number(value), Json::Number(found)) => yes(order(value, found) == Ordering::Equal),
        _ => Three::Unclear,
    }
}

fn number(value: &Json, found: &Json, test: fn(Ordering) -> bool) -> Three {
    match (value, found) {
        (Json::Number(value), Json::Number(found)) => yes(test(order(found, value))),
        _ => Three::Unclear,
    }
}

fn one_of(values: &[Json], found: &Json) -> Three {
    let comparable: Vec<Three> = values
        .iter()
        .map(|value| equal(value, found))
        .filter(|truth| *truth != Three::Unclear)
        .collect();
    let plain = matches!(found, Json::Text(_) | Json::Number(_) | Json::Bool(_));
    if comparable.contains(&Three::Yes) {
        Three::Yes
    } else if !comparable.is_empty() || (values.is_empty() && plain) {
        Three::No
    } else {
        Three::Unclear
    }
}

fn contains(value: &Json, found: &Json) -> Three {
    match (value, found) {
        (Json::Text(value), Json::Text(found)) => {
            yes((0..=found.len()).any(|at| found.get(at..at + value.len()) == Some(value.as_str())))
        }
        (_, Json::List(items)) => {
            any(&items.iter().map(|item| equal(value, item)).collect::<Vec<_>>())
        }
        _ => Three::Unclear,
    }
}

fn text(value: &Json, found: &Json, test: impl Fn(&str, &str) -> bool) -> Three {
    match (value, found) {
        (Json::Text(value), Json::Text(found)) => yes(test(value, found)),
        _ => Three::Unclear,
    }
}

fn length(value: &Json, found: &Json, test: fn(usize, usize) -> bool) -> Three {
    let Json::Number(value) = value else { panic!("{value:?}") };
    let value = value.parse().unwrap();
    match found {
        Json::Text(given) => yes(test(given.chars().count(), value)),
        Json::List(items) => yes(test(items.len(), value)),
        _ => Three::Unclear,
    }
}

fn texts(value: &Json) -> Vec<String> {
    match value {
        Json::Text(text) => vec![text.clone()],
        other => other.items().iter().map(|item| item.as_text().unwrap().to_owned()).collect(),
    }
}

/// The generator's patterns, each by hand.
fn regex(pattern: &str, found: &str) -> bool {
    match pattern {
        "^a" => found.starts_with('a'),
        "b$" => found.ends_with('b'),
        "^[0-9]+$" => !found.is_empty() && found.chars().all(|c| c.is_ascii_digit()),
        "a.*b" => found
            .lines()
            .chain([""])
            .any(|line| line.find('a').is_some_and(|at| line[at + 1..].contains('b'))),
        "(?i)^AB$" => found.eq_ignore_ascii_case("ab"),
        "" => true,
        other => panic!("{other}"),
    }
}

fn glob(pattern: &[char], found: &[char]) -> bool {
    match pattern {
        [] => found.is_empty(),
        ['*', rest @ ..] => (0..=found.len()).any(|taken| glob(rest, &found[taken..])),
        ['?', rest @ ..] => !found.is_empty() && glob(rest, &found[1..]),
        ['\\', letter, rest @ ..] | [letter, rest @ ..] => {
            found.first() == Some(letter) && glob(rest, &found[1..])
        }
    }
}

/// Every way to read a path must agree.
fn under(root: &str, path: &str) -> Three {
    let mut spellings = vec![path.to_owned()];
    for _ in 0..5 {
        let last = spellings.last().unwrap();
        let decoded = decode(last);
        if decoded == *last {
            break;
        }
        spellings.push(decoded);
    }
    if spellings.len() > 5 {
        return Three::Unclear;
    }
    let mut answers = Vec::new();
    for spelling in &spellings {
        answers.push(reading_under(root, spelling));
        answers.push(if spelling.contains('\\') {
            reading_under(root, &spelling.replace('\\', "/"))
        } else {
            reading_under(root, spelling)
        });
    }
    if answers.iter().all(|answer| *answer == answers[0]) { answers[0] } else { Three::Unclear }
}

fn reading_under(root: &str, path: &str) -> Three {
    // A start that is unknown, a URL or a drive, and characters that no path has.
    let other_start = path.starts_with('/') != root.starts_with('/') || path.starts_with('~');
    let scheme = path.split('/').next().unwrap().contains(':');
    if other_start || scheme || path.chars().any(char::is_control) {
        return Three::Unclear;
    }
    let (Some(root), Some(path)) = (resolved(root), resolved(path)) else { return Three::Unclear };
    let same = |fold: fn(&str) -> String| {
        path.len() >= root.len() && (0..root.len()).all(|at| fold(&root[at]) == fold(&path[at]))
    };
    if same(str::to_owned) {
        Three::Yes
    } else if same(str::to_lowercase) {
        Three::Unclear
    } else {
        Three::No
    }
}

/// The names on the way; `None` when a relative path leaves its start.
fn resolved(path: &str) -> Option<Vec<String>> {
    let mut names: Vec<String> = Vec::new();
    for name in path.split('/') {
        match name {
            "" | "." => {}
            ".." => {
                if names.pop().is_none() && !path.starts_with('/') {
                    return None;
                }
            }
            _ => names.push(name.to_owned()),
        }
    }
    Some(names)
}

fn decode(text: &str) -> String {
    // The generator encodes dots, slashes, backslashes and percent signs only. One round at a time.
    let mut out = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let escape = rest.get(..3).map(str::to_lowercase);
        let decoded = match escape.as_deref() {
            Some("%2e") => Some('.'),
            Some("%2f") => Some('/'),
            Some("%5c") => Some('\\'),
            Some("%25") => Some('%'),
            _ => None,
        };
        out.push(decoded.unwrap_or(c));
        rest = &rest[if decoded.is_some() { 3 } else { c.len_utf8() }..];
    }
    out
}

/// The generator's URLs and the host a browser reaches.
pub(crate) const URLS: [(&str, Option<&str>); 12] = [
    ("https://good.com/x", Some("good.com")),
    ("https://GOOD.com.:443/", Some("good.com")),
    ("https://sub.good.com/", Some("sub.good.com")),
    ("https://good.com@evil.org/", Some("evil.org")),
    ("https://good.com.evil.org/", Some("good.com.evil.org")),
    ("http://0x7f.1/", Some("127.0.0.1")),
    ("http://[::1]/", Some("::1")),
    ("https://good.com\\@evil.org/", None),
    ("https:good.com", None),
    ("good.com", None),
    ("", None),
    ("https://a@b@good.com/", None),
];

fn host_in(hosts: &[String], url: &str) -> Three {
    let Some((_, reached)) = URLS.iter().find(|(known, _)| *known == url) else {
        return Three::Unclear;
    };
    let Some(reached) = reached else { return Three::Unclear };
    yes(hosts.iter().any(|host| match host.strip_prefix("*.") {
        Some(parent) => reached.ends_with(&format!(".{parent}")),
        None => host == reached,
    }))
}

/// IPv4 only: first and last address of each.
fn network_in(networks: &[String], given: &str) -> Three {
    let Some((from, to)) = range(given) else { return Three::Unclear };
    any(&networks
        .iter()
        .map(|network| {
            let (first, last) = range(network).unwrap();
            if first <= from && to <= last {
                Three::Yes
            } else if to < first || last < from {
                Three::No
            } else {
                Three::Unclear
            }
        })
        .collect::<Vec<_>>())
}

fn range(text: &str) -> Option<(u64, u64)> {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, bits.parse::<u32>().ok()?),
        None => (text, 32),
    };
    let parts: Vec<u64> =
        address.split('.').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let leading_zero = address.split('.').any(|part| part.len() > 1 && part.starts_with('0'));
    if parts.len() != 4 || leading_zero || parts.iter().any(|part| *part > 255) || bits > 32 {
        return None;
    }
    let address = parts.iter().fold(0, |sum, part| sum * 256 + part);
    let size = 1_u64 << (32 - bits);
    let first = address / size * size;
    Some((first, first + size - 1))
}
