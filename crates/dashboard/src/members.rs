//! The members of a JSON text as lines, each compared with the same member of another text. Values stay as
//! they were spelled.

use std::collections::BTreeMap;

use policy::json::{Bounds, Doc, Kind, Value};
use serde::Serialize;

/// More members than this are left to the text itself.
const MEMBERS_MAX: usize = 500;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Change {
    Same,
    Changed,
    Added,
    Removed,
}

impl Change {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Change::Same => "same",
            Change::Changed => "changed",
            Change::Added => "new",
            Change::Removed => "removed",
        }
    }
}

/// One leaf of a JSON text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Member {
    /// Such as `to.name` or `items[2]`.
    pub(crate) path: String,
    /// Nothing if the member was removed.
    pub(crate) value: Option<String>,
    /// Nothing without a text to compare with.
    pub(crate) change: Option<Change>,
    /// The value in the other text, if it differs.
    pub(crate) before: Option<String>,
}

impl Member {
    /// Whether it is not as in the other text.
    pub(crate) fn differs(&self) -> bool {
        self.change.is_some_and(|change| change != Change::Same)
    }

    pub(crate) fn word(&self) -> &'static str {
        self.change.map_or("", Change::as_str)
    }
}

/// The members of a text. Nothing if it is not a JSON object or has too many.
pub(crate) fn members(text: &str, before: Option<&str>) -> Option<Vec<Member>> {
    let now = leaves(text)?;
    let old = before.and_then(leaves);
    let known: Option<BTreeMap<&str, &str>> = old
        .as_ref()
        .map(|old| old.iter().map(|(path, raw)| (path.as_str(), raw.as_str())).collect());
    let compared = |(path, raw): &(String, String)| {
        let then = known.as_ref().map(|known| known.get(path.as_str()).copied());
        let change = then.map(|then| match then {
            None => Change::Added,
            Some(then) if then == raw => Change::Same,
            Some(_) => Change::Changed,
        });
        let before = then.flatten().filter(|then| then != raw).map(str::to_owned);
        Member { path: path.clone(), value: Some(raw.clone()), change, before }
    };
    let mut all: Vec<Member> = now.iter().map(compared).collect();
    let gone = old.iter().flatten().filter(|(path, _)| !now.iter().any(|(p, _)| p == path));
    all.extend(gone.map(|(path, raw)| Member {
        path: path.clone(),
        value: None,
        change: Some(Change::Removed),
        before: Some(raw.clone()),
    }));
    Some(all)
}

fn leaves(text: &str) -> Option<Vec<(String, String)>> {
    let doc = Doc::read(text.as_bytes(), &Bounds::MESSAGE).ok()?;
    let mut all = Vec::new();
    push(doc.root(), String::new(), &mut all);
    (doc.root().kind() == Kind::Object && all.len() <= MEMBERS_MAX).then_some(all)
}

fn push(value: Value<'_>, path: String, all: &mut Vec<(String, String)>) {
    // The bound is checked at the end; nothing is gained by collecting more.
    if all.len() > MEMBERS_MAX {
        return;
    }
    match value.kind() {
        Kind::Object if !value.is_empty() => {
            for (key, member) in value.entries() {
                push(member, joined(&path, &key.text()), all);
            }
        }
        Kind::Array if !value.is_empty() => {
            for (index, item) in value.items().enumerate() {
                push(item, format!("{path}[{index}]"), all);
            }
        }
        // The whole text is empty.
        Kind::Object if path.is_empty() => {}
        _ => all.push((path, value.raw().to_owned())),
    }
}

/// A key that could be read as part of a path is quoted.
fn joined(path: &str, key: &str) -> String {
    let is_plain =
        !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-');
    let key = if is_plain { key.to_owned() } else { format!("{key:?}") };
    if path.is_empty() { key } else { format!("{path}.{key}") }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn lines(text: &str, before: Option<&str>) -> Vec<String> {
        let said = |member: Member| {
            let change = member.change.map_or("", Change::as_str);
            let (value, before) =
                (member.value.unwrap_or_default(), member.before.unwrap_or_default());
            format!("{}={value} {change} {before}", member.path)
        };
        members(text, before).unwrap().into_iter().map(said).collect()
    }

    #[test]
    fn every_member_is_a_line_and_keeps_its_spelling() {
        let text = r#"{"to":{"name":"Ada","a.b":1.10},"list":[1,{}],"e":{}}"#;
        let expected =
            ["to.name=\"Ada\"  ", "to.\"a.b\"=1.10  ", "list[0]=1  ", "list[1]={}  ", "e={}  "];
        assert_eq!(lines(text, None), expected);
        assert_eq!(lines("{}", None), [""; 0]);
        assert_eq!(members("[1]", None), None);
        assert_eq!(members("not json", None), None);
    }

    #[test]
    fn changed_new_and_removed_members_are_marked() {
        let (before, now) = (r#"{"a":1,"b":2,"c":3}"#, r#"{"a":1,"b":20,"d":4}"#);
        let expected = ["a=1 same ", "b=20 changed 2", "d=4 new ", "c= removed 3"];
        assert_eq!(lines(now, Some(before)), expected);
    }
}
