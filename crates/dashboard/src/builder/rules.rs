//! The rules, limits and redactions of one entry, as its form shows them.

use policy::edit;
use policy::json::Value;
use serde::Serialize;

use super::outline::Outline;

/// The lists of rules with their words, in the order in which they are looked at.
const RULE_LISTS: [(&str, &str); 3] =
    [("require", "Refuse unless"), ("deny_if", "Deny if"), ("approve_if", "Ask a person if")];

/// One rule of an entry.
#[derive(Serialize)]
pub(crate) struct RuleView {
    pub(crate) pointer: String,
    pub(crate) kind: &'static str,
    /// Its conditions, all of which must hold.
    pub(crate) conditions: Vec<String>,
    pub(crate) on_deny: Option<String>,
    pub(crate) timeout: Option<String>,
}

#[derive(Serialize)]
pub(crate) struct LimitView {
    pub(crate) pointer: String,
    pub(crate) max: String,
    pub(crate) window: String,
    pub(crate) scope: String,
    pub(crate) counter: Option<String>,
    pub(crate) increment: Option<String>,
}

/// What the form of one entry shows.
#[derive(Serialize)]
pub(crate) struct EntryRules {
    pub(crate) pointer: String,
    pub(crate) reason: String,
    pub(crate) on_change: String,
    pub(crate) result_bytes_max: String,
    pub(crate) rules: Vec<RuleView>,
    pub(crate) limits: Vec<LimitView>,
    /// Pointer and path.
    pub(crate) redact: Vec<(String, String)>,
    /// The entry is there. Without one the first rule creates it.
    pub(crate) is_there: bool,
}

impl EntryRules {
    pub(crate) fn of(outline: &Outline<'_>, pointer: &str) -> EntryRules {
        let entry = outline.at(pointer);
        let text = |name: &str| entry.and_then(|entry| entry.get(name)).map(shown);
        EntryRules {
            pointer: pointer.to_owned(),
            reason: text("reason").unwrap_or_default(),
            on_change: text("on_change").unwrap_or_default(),
            result_bytes_max: text("result_bytes_max").unwrap_or_default(),
            rules: RULE_LISTS.iter().flat_map(|list| rules(entry, pointer, *list)).collect(),
            limits: limits(entry, pointer),
            redact: numbered(entry, pointer, "redact")
                .map(|(at, path)| (at, shown(path)))
                .collect(),
            is_there: entry.is_some(),
        }
    }
}

/// The items of a list of an entry, each with its pointer.
fn numbered<'p>(
    entry: Option<Value<'p>>,
    pointer: &str,
    list: &str,
) -> impl Iterator<Item = (String, Value<'p>)> {
    let at = format!("{pointer}{}", edit::pointer(&[list]));
    let items = entry.and_then(|entry| entry.get(list)).map(Value::items);
    items
        .into_iter()
        .flatten()
        .enumerate()
        .map(move |(index, item)| (format!("{at}/{index}"), item))
}

fn rules(
    entry: Option<Value<'_>>,
    pointer: &str,
    (list, message): (&str, &'static str),
) -> Vec<RuleView> {
    numbered(entry, pointer, list)
        .map(|(pointer, rule)| RuleView {
            pointer,
            kind: message,
            conditions: conditions(rule),
            on_deny: rule.get("on_deny").map(shown),
            timeout: rule.get("timeout").map(shown),
        })
        .collect()
}

/// Each condition as it is written: path, operator and value.
fn conditions(rule: Value<'_>) -> Vec<String> {
    let listed = rule.get("conditions").map(Value::items).into_iter().flatten();
    let all: Vec<String> = listed
        .map(|condition| {
            let part = |name: &str| condition.get(name);
            let path = part("path").map(shown).unwrap_or_default();
            let op = part("op").map(shown).unwrap_or_default();
            let value = part("value").map(|value| format!(" {}", value.raw())).unwrap_or_default();
            let missing = if part("missing").is_some() { ", or is missing" } else { "" };
            format!("{path} {op}{value}{missing}")
        })
        .collect();
    if all.is_empty() { vec!["always".to_owned()] } else { all }
}

/// `limits`, and the short form as one more.
fn limits(entry: Option<Value<'_>>, pointer: &str) -> Vec<LimitView> {
    let short = entry.and_then(|entry| entry.get("rate_limit"));
    let short = short.map(|limit| (format!("{pointer}/rate_limit"), limit));
    numbered(entry, pointer, "limits")
        .chain(short)
        .map(|(pointer, limit)| {
            let text = |name: &str| limit.get(name).map(shown);
            LimitView {
                pointer,
                max: text("max").unwrap_or_default(),
                window: text("window").unwrap_or_default(),
                scope: text("scope").unwrap_or_else(|| "grant".to_owned()),
                counter: text("counter"),
                increment: text("increment"),
            }
        })
        .collect()
}

/// Text without its quotes; everything else as it is written.
fn shown(value: Value<'_>) -> String {
    value.as_str().map_or_else(|| value.raw().to_owned(), std::borrow::Cow::into_owned)
}
