//! Lists the changes between two canonical definitions of one tool, one line each. Two different texts
//! always yield at least one change.

use std::collections::BTreeMap;
use std::fmt;

use policy::json::{Bounds, Doc, Kind, Value, canonical};
use serde::Serialize;

use super::definition_path::DefinitionPath;
use super::visible::visible;
use super::word_diff::word_difference;

pub use super::definition_path::Part;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    Added,
    Removed,
    Changed,
}

/// One difference. `place` and `words` are safe to print: hidden characters are escaped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    pub part: Part,
    pub kind: ChangeKind,
    #[serde(rename = "place")]
    pub location: String,
    #[serde(rename = "words")]
    pub message: String,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = match self.kind {
            ChangeKind::Added => '+',
            ChangeKind::Removed => '-',
            ChangeKind::Changed => '~',
        };
        write!(f, "{mark} {}: {}", self.location, self.message)
    }
}

/// The changes as lines for a terminal.
pub fn render(changes: &[Change]) -> String {
    let lines: Vec<String> = changes.iter().map(|change| format!("{change}\n")).collect();
    lines.concat()
}

/// Compares two definitions as `canonical_definition` wrote them.
pub fn difference(old_canonical: &str, new_canonical: &str) -> Vec<Change> {
    if old_canonical == new_canonical {
        return Vec::new();
    }
    let old = Doc::read(old_canonical.as_bytes(), &Bounds::ANSWER);
    let new = Doc::read(new_canonical.as_bytes(), &Bounds::ANSWER);
    let mut changes = Vec::new();
    match (&old, &new) {
        (Ok(old), Ok(new)) => definitions(old.root(), new.root(), &mut changes),
        (Err(_), _) => changes.push(whole("the pinned definition cannot be read back")),
        (_, Err(_)) => changes.push(whole("the new definition cannot be read")),
    }
    if changes.is_empty() {
        // Repeated keys compare equal member by member and still mean a different document.
        changes.push(whole("the same members in another order or number"));
    }
    changes
}

fn whole(message: &str) -> Change {
    Change {
        part: Part::Other,
        kind: ChangeKind::Changed,
        location: "definition".to_owned(),
        message: message.to_owned(),
    }
}

fn definitions(old: Value<'_>, new: Value<'_>, out: &mut Vec<Change>) {
    if old.kind() != Kind::Object || new.kind() != Kind::Object {
        out.push(whole(&format!("{} → {}", shown(old), shown(new))));
        return;
    }
    for (key, pair) in members(old, new) {
        let location = DefinitionPath::of_member(&key);
        match pair {
            (Some(a), Some(b)) if location.part.is_schema() => schemas(&location, a, b, out),
            (a, b) => maybe(&location, a, b, out),
        }
    }
}

type Pair<'d> = (Option<Value<'d>>, Option<Value<'d>>);

/// Every member of either object, by name.
fn members<'d>(old: Value<'d>, new: Value<'d>) -> BTreeMap<String, Pair<'d>> {
    let mut pairs: BTreeMap<String, Pair<'d>> = BTreeMap::new();
    for (key, value) in old.entries() {
        pairs.entry(key.text().into_owned()).or_default().0 = Some(value);
    }
    for (key, value) in new.entries() {
        pairs.entry(key.text().into_owned()).or_default().1 = Some(value);
    }
    pairs
}

fn maybe(
    location: &DefinitionPath,
    old: Option<Value<'_>>,
    new: Option<Value<'_>>,
    out: &mut Vec<Change>,
) {
    match (old, new) {
        (Some(a), Some(b)) => values(location, a, b, out),
        (Some(a), None) => {
            push(location, ChangeKind::Removed, format!("removed (was {})", shown(a)), out);
        }
        (None, Some(b)) => push(location, ChangeKind::Added, format!("added: {}", shown(b)), out),
        (None, None) => {}
    }
}

fn push(location: &DefinitionPath, kind: ChangeKind, message: String, out: &mut Vec<Change>) {
    out.push(Change { part: location.part, kind, location: location.to_string(), message });
}

/// JSON Schema objects: fields are named as parameters, `required` as a property of the field.
fn schemas(location: &DefinitionPath, old: Value<'_>, new: Value<'_>, out: &mut Vec<Change>) {
    if old.kind() != Kind::Object || new.kind() != Kind::Object {
        values(location, old, new, out);
        return;
    }
    for (key, pair) in members(old, new) {
        match (key.as_str(), pair) {
            ("properties", (Some(a), Some(b))) if both(Kind::Object, a, b) => {
                fields(location, a, b, out);
            }
            ("items", (Some(a), Some(b))) => schemas(&location.elements(), a, b, out),
            ("required", (a, b)) if lists_of_names(a, b) => required(location, a, b, out),
            (_, (a, b)) => maybe(&location.member(&key), a, b, out),
        }
    }
}

fn both(kind: Kind, a: Value<'_>, b: Value<'_>) -> bool {
    a.kind() == kind && b.kind() == kind
}

fn fields(location: &DefinitionPath, old: Value<'_>, new: Value<'_>, out: &mut Vec<Change>) {
    for (name, pair) in members(old, new) {
        let location = location.field(&name);
        match pair {
            (Some(a), Some(b)) => schemas(&location, a, b, out),
            (a, b) => maybe(&location, a, b, out),
        }
    }
}

fn lists_of_names(a: Option<Value<'_>>, b: Option<Value<'_>>) -> bool {
    let list =
        |v: Value<'_>| v.kind() == Kind::Array && v.items().all(|i| i.kind() == Kind::String);
    a.is_none_or(list) && b.is_none_or(list)
}

fn required(
    location: &DefinitionPath,
    old: Option<Value<'_>>,
    new: Option<Value<'_>>,
    out: &mut Vec<Change>,
) {
    let before = texts(old);
    let after = texts(new);
    let found = out.len();
    for name in before.iter().filter(|name| !after.contains(name)) {
        push(&location.field(name), ChangeKind::Changed, "no longer required".to_owned(), out);
    }
    for name in after.iter().filter(|name| !before.contains(name)) {
        push(&location.field(name), ChangeKind::Changed, "now required".to_owned(), out);
    }
    if out.len() == found && old.map(compact) != new.map(compact) {
        let location = location.member("required");
        push(&location, ChangeKind::Changed, format!("{before:?} → {after:?}"), out);
    }
}

fn texts(list: Option<Value<'_>>) -> Vec<String> {
    let items = list.into_iter().flat_map(|v| v.items().collect::<Vec<_>>());
    items.filter_map(|v| v.as_str().map(|t| visible(&t))).collect()
}

/// Any two values.
fn values(location: &DefinitionPath, old: Value<'_>, new: Value<'_>, out: &mut Vec<Change>) {
    match (old.kind(), new.kind()) {
        (Kind::Object, Kind::Object) => {
            for (key, (a, b)) in members(old, new) {
                maybe(&location.member(&key), a, b, out);
            }
        }
        (Kind::Array, Kind::Array) => lists(location, old, new, out),
        _ if compact(old) == compact(new) => {}
        (Kind::String, Kind::String) => {
            let text = |v: Value<'_>| v.as_str().unwrap_or_default().into_owned();
            push(location, ChangeKind::Changed, word_difference(&text(old), &text(new)), out);
        }
        _ => push(location, ChangeKind::Changed, format!("{} → {}", shown(old), shown(new)), out),
    }
}

/// Scalars are shown as "adds" and "drops"; lists of objects are compared index by index.
fn lists(location: &DefinitionPath, old: Value<'_>, new: Value<'_>, out: &mut Vec<Change>) {
    if compact(old) == compact(new) {
        return;
    }
    let before: Vec<Value<'_>> = old.items().collect();
    let after: Vec<Value<'_>> = new.items().collect();
    let scalar = |v: &Value<'_>| !matches!(v.kind(), Kind::Array | Kind::Object);
    if before.iter().chain(&after).all(scalar) {
        push(location, ChangeKind::Changed, choices(&before, &after), out);
        return;
    }
    for at in 0..before.len().max(after.len()) {
        let location = location.member(&at.to_string());
        maybe(&location, before.get(at).copied(), after.get(at).copied(), out);
    }
}

fn choices(before: &[Value<'_>], after: &[Value<'_>]) -> String {
    let before: Vec<String> = before.iter().map(|v| shown(*v)).collect();
    let after: Vec<String> = after.iter().map(|v| shown(*v)).collect();
    let missing = |from: &[String], of: &[String]| -> Vec<String> {
        of.iter().filter(|v| !from.contains(v)).cloned().collect()
    };
    let mut parts = Vec::new();
    for (verb, list) in [("adds", missing(&before, &after)), ("drops", missing(&after, &before))] {
        if !list.is_empty() {
            parts.push(format!("{verb} {}", list.join(", ")));
        }
    }
    if parts.is_empty() {
        return format!("[{}] → [{}]", before.join(", "), after.join(", "));
    }
    parts.join("; ")
}

fn compact(value: Value<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    canonical(value, &mut bytes);
    bytes
}

/// The whole value: a rug pull could hide in an omitted part.
fn shown(value: Value<'_>) -> String {
    visible(&String::from_utf8_lossy(&compact(value)))
}
