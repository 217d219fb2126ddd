//! Which of the generator's policies must not load.

use super::names::matches;
use crate::tree::Json;

pub(crate) fn is_refused(policy: &Json) -> bool {
    let sections = ["tools", "resources", "prompts", "skills"];
    let tied = sections.iter().filter_map(|section| policy.get(section)).any(has_tie);
    let shared = limits(policy.get("all_tools"));
    let disagrees = sections.iter().any(|section| {
        let shared: &[_] = if *section == "tools" { &shared } else { &[] };
        let entries = policy.get(section).map(Json::members).unwrap_or_default();
        entries.iter().any(|(_, entry)| {
            let mut met = limits(Some(entry));
            met.extend(shared.iter().cloned());
            disagree(&met)
        })
    });
    tied || disagrees || disagree(&shared)
}

/// Two globs with one beginning tie when a name built from the parts of both matches both.
fn has_tie(section: &Json) -> bool {
    let globs: Vec<&str> = section
        .members()
        .iter()
        .map(|(key, _)| key.as_str())
        .filter(|key| key.contains('*'))
        .collect();
    let begins = |glob: &str| glob.split('*').next().unwrap().to_owned();
    let both = |name: &str, one: &str, other: &str| {
        let name: Vec<char> = name.chars().collect();
        [one, other].iter().all(|glob| matches(&glob.chars().collect::<Vec<_>>(), &name))
    };
    globs.iter().enumerate().any(|(at, one)| {
        globs[..at].iter().filter(|other| begins(one) == begins(other)).any(|other| {
            let inner = |glob: &str| glob.split_once('*').unwrap().1.replace('*', "");
            let (first, second) = (inner(one), inner(other));
            [format!("{first}{second}"), format!("{second}{first}")]
                .iter()
                .any(|rest| both(&format!("{}{rest}", begins(one)), one, other))
        })
    })
}

/// Counter, scope and what is counted, for limits that have a counter to share.
fn limits(source: Option<&Json>) -> Vec<(String, String, String)> {
    let list = source.and_then(|source| source.get("limits")).map(Json::items).unwrap_or_default();
    let said = |limit: &Json, name: &str, unsaid: &str| match limit.get(name) {
        Some(Json::Text(text)) => text.clone(),
        Some(other) => other.to_json(),
        None => unsaid.to_owned(),
    };
    list.iter()
        .filter(|limit| limit.get("counter").is_some())
        .map(|limit| {
            (
                said(limit, "counter", ""),
                said(limit, "scope", "grant"),
                said(limit, "increment", "1"),
            )
        })
        .collect()
}

fn disagree(limits: &[(String, String, String)]) -> bool {
    limits.iter().any(|one| {
        limits.iter().any(|other| one.0 == other.0 && one.1 == other.1 && one.2 != other.2)
    })
}
