//! Changes to a JSON file that leave every other byte as it is: comments, order, indentation and
//! ends of lines stay.

use std::fmt::Write as _;
use std::ops::Range;

use anyhow::{Result, anyhow, bail};
use policy::json::{Kind, Value};

use super::jsonc;
use super::table::CONNECTION;

/// A member to be written: its name and its value as JSON.
pub(super) type Member = (String, serde_json::Value);

/// A change of one stretch of the text.
#[derive(Debug)]
struct Edit {
    range: Range<usize>,
    text: String,
}

/// Replaces what says how to reach the server at `keys` by `members`; its other members stay.
pub(super) fn redirect(text: &str, keys: &[String], members: &[Member]) -> Result<String> {
    let plain = jsonc::plain(text);
    let doc = jsonc::read(&plain)?;
    let entry = walk(doc.root(), keys).ok_or_else(|| anyhow!("`{}` is gone", keys.join(".")))?;
    let mut edits = Vec::new();
    let mut end_before = None;
    let mut written = false;
    for (key, value) in entry.entries() {
        let member = key.span().start..value.span().end;
        if !CONNECTION.contains(&&*key.text()) {
            end_before = Some(member.end);
            continue;
        }
        if written {
            let from = end_before.unwrap_or(member.start);
            edits.extend(removal(text, &plain, from, member.clone()));
        } else {
            let glue = format!(",{}", space_before(text, member.start));
            edits.push(Edit { range: member.clone(), text: joined(members, &glue) });
            written = true;
        }
        end_before = Some(member.end);
    }
    if !written {
        bail!("`{}` says nothing of how to reach it", keys.join("."));
    }
    Ok(apply(text, edits))
}

/// Adds the server at `keys`, making the objects that lead there.
pub(super) fn add(text: &str, keys: &[String], members: &[Member]) -> Result<String> {
    if text.trim().is_empty() {
        let fresh = format!("{{}}{}", text.trim_start_matches(' '));
        return add(if fresh.ends_with('\n') { &fresh } else { "{}\n" }, keys, members);
    }
    let plain = jsonc::plain(text);
    let doc = jsonc::read(&plain)?;
    let mut holder = doc.root();
    let mut left = keys;
    while let Some((first, rest)) = left.split_first() {
        match holder.get(first) {
            Some(next) if next.kind() == Kind::Object => holder = next,
            Some(_) => bail!("`{first}` is not an object"),
            None => break,
        }
        left = rest;
    }
    if holder.kind() != Kind::Object {
        bail!("the file does not hold an object");
    }
    let Some((first, rest)) = left.split_first() else {
        bail!("`{}` is there already", keys.join("."))
    };
    let layout = Layout::of(text);
    let depth_indent = indent_of_line(text, holder.span().start);
    let inner = format!("{depth_indent}{}", layout.unit);
    let value = nested(rest, members, &inner, &layout);
    let new = format!("{}: {value}", quoted(first));
    let edit = match holder.entries().last() {
        Some((key, value)) => {
            let end = value.span().end;
            let glue = space_before(text, key.span().start);
            Edit { range: end..end, text: format!(",{glue}{new}") }
        }
        None => into_empty(text, holder.span(), &new, &depth_indent, &layout),
    };
    Ok(apply(text, vec![edit]))
}

/// The first member of an object. A comment inside stays.
fn into_empty(text: &str, object: Range<usize>, new: &str, indent: &str, layout: &Layout) -> Edit {
    let (open, close) = (object.start + 1, object.end - 1);
    let is_blank = text.get(open..close).is_some_and(|inside| inside.trim().is_empty());
    let (line, unit) = (&layout.line, &layout.unit);
    let tail = if is_blank { format!("{line}{indent}") } else { String::new() };
    let range = if is_blank { open..close } else { open..open };
    Edit { range, text: format!("{line}{indent}{unit}{new}{tail}") }
}

/// What says how to reach the server at `keys`.
pub(super) fn connection(text: &str, keys: &[String]) -> Result<Vec<Member>> {
    let plain = jsonc::plain(text);
    let doc = jsonc::read(&plain)?;
    let entry = walk(doc.root(), keys).ok_or_else(|| anyhow!("`{}` is gone", keys.join(".")))?;
    let members = entry.entries().filter(|(key, _)| CONNECTION.contains(&&*key.text()));
    members
        .map(|(key, value)| Ok((key.text().into_owned(), serde_json::from_str(value.raw())?)))
        .collect()
}

/// Takes the server at `keys` out. The objects that lead there stay.
pub(super) fn remove(text: &str, keys: &[String]) -> Result<String> {
    let plain = jsonc::plain(text);
    let doc = jsonc::read(&plain)?;
    let gone = || anyhow!("`{}` is gone", keys.join("."));
    let (name, above) = keys.split_last().ok_or_else(gone)?;
    let holder = walk(doc.root(), above).ok_or_else(gone)?;
    let mut before = None;
    let mut members =
        holder.entries().map(|(key, value)| (key.text(), key.span().start..value.span().end));
    let member = loop {
        match members.next() {
            None => return Err(gone()),
            Some((key, member)) if key == name.as_str() => break member,
            Some((_, member)) => before = Some(member.end),
        }
    };
    let edits = match (before, members.next()) {
        (Some(end), _) => removal(text, &plain, end, member),
        (None, Some((_, next))) => first_removal(text, &plain, member, next.start),
        (None, None) => {
            let comma = comma_behind(text, member.end);
            vec![Edit { range: member.start..comma, text: String::new() }]
        }
    };
    let new = apply(text, edits);
    jsonc::read(&jsonc::plain(&new))?;
    Ok(new)
}

/// Takes the first of several members out with the comma behind it. Comments between the two stay.
fn first_removal(text: &str, plain: &str, member: Range<usize>, next: usize) -> Vec<Edit> {
    let between = plain.get(member.end..next).unwrap_or_default();
    let comma = between.find(',').map_or(member.end, |at| member.end + at);
    let said = text.get(comma + 1..next).unwrap_or_default();
    if said.trim().is_empty() {
        return vec![Edit { range: member.start..next, text: String::new() }];
    }
    vec![
        Edit { range: member, text: String::new() },
        Edit { range: comma..comma + 1, text: String::new() },
    ]
}

/// The place behind a trailing comma, which would be wrong in an empty object.
fn comma_behind(text: &str, end: usize) -> usize {
    let rest = text.get(end..).unwrap_or_default();
    let blanks = rest.len() - rest.trim_start().len();
    if rest.trim_start().starts_with(',') { end + blanks + 1 } else { end }
}

pub(super) fn walk<'d>(root: Value<'d>, keys: &[String]) -> Option<Value<'d>> {
    keys.iter().try_fold(root, |value, key| value.get(key))
}

/// Takes a member out with the comma before it. Comments between the two stay.
fn removal(text: &str, plain: &str, end_before: usize, member: Range<usize>) -> Vec<Edit> {
    let between = plain.get(end_before..member.start).unwrap_or_default();
    let comma = between.find(',').map_or(end_before, |at| end_before + at);
    let said = text.get(comma + 1..member.start).unwrap_or_default();
    if said.trim().is_empty() {
        return vec![Edit { range: comma..member.end, text: String::new() }];
    }
    // The end of the comment's line stays too, or the next comma would be part of the comment.
    vec![
        Edit { range: comma..comma + 1, text: String::new() },
        Edit { range: member, text: String::new() },
    ]
}

/// The white space in front of a member: what stands between two of them.
fn space_before(text: &str, at: usize) -> String {
    let before = text.get(..at).unwrap_or_default();
    let space = before.len() - before.trim_end_matches([' ', '\t', '\r', '\n']).len();
    let space = before.get(before.len() - space..).unwrap_or_default();
    // One end of line is enough, whatever stood there before.
    match space.rfind('\n') {
        Some(last) => {
            let line = if space.contains("\r\n") { "\r\n" } else { "\n" };
            format!("{line}{}", space.get(last + 1..).unwrap_or_default())
        }
        None => " ".to_owned(),
    }
}

fn joined(members: &[Member], glue: &str) -> String {
    let written =
        members.iter().map(|(name, value)| format!("{}: {}", quoted(name), spaced(value)));
    written.collect::<Vec<_>>().join(glue)
}

/// How a file is laid out.
struct Layout {
    line: String,
    unit: String,
}

impl Layout {
    fn of(text: &str) -> Layout {
        let line = if text.contains("\r\n") { "\r\n" } else { "\n" }.to_owned();
        let indented = text.lines().find_map(|line| {
            let indent = line.len() - line.trim_start_matches([' ', '\t']).len();
            line.get(..indent).filter(|indent| !indent.is_empty() && !line.trim().is_empty())
        });
        Layout { line, unit: indented.unwrap_or("  ").to_owned() }
    }
}

fn indent_of_line(text: &str, at: usize) -> String {
    let before = text.get(..at).unwrap_or_default();
    let line = before.rsplit('\n').next().unwrap_or_default();
    line.chars().take_while(|c| matches!(c, ' ' | '\t')).collect()
}

/// The members inside as many objects as there are names left.
fn nested(names: &[String], members: &[Member], indent: &str, layout: &Layout) -> String {
    let inner = format!("{indent}{}", layout.unit);
    let line = &layout.line;
    let body = match names.split_first() {
        Some((first, rest)) => {
            format!("{}: {}", quoted(first), nested(rest, members, &inner, layout))
        }
        None => joined(members, &format!(",{line}{inner}")),
    };
    format!("{{{line}{inner}{body}{line}{indent}}}")
}

pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// JSON on one line with a space where people put one.
fn spaced(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Array(items) => {
            format!("[{}]", items.iter().map(spaced).collect::<Vec<_>>().join(", "))
        }
        serde_json::Value::Object(fields) => {
            let mut out = String::from("{ ");
            for (at, (key, value)) in fields.iter().enumerate() {
                let glue = if at == 0 { "" } else { ", " };
                let _ = write!(out, "{glue}{}: {}", quoted(key), spaced(value));
            }
            out.push_str(" }");
            out
        }
        other => other.to_string(),
    }
}

/// Makes changes that do not touch each other.
fn apply(text: &str, mut edits: Vec<Edit>) -> String {
    edits.sort_by_key(|edit| edit.range.start);
    let mut out = String::with_capacity(text.len() + 256);
    let mut kept_to = 0;
    for edit in edits {
        out.push_str(text.get(kept_to..edit.range.start).unwrap_or_default());
        out.push_str(&edit.text);
        kept_to = edit.range.end;
    }
    out.push_str(text.get(kept_to..).unwrap_or_default());
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use serde_json::json;

    fn keys(path: &str) -> Vec<String> {
        path.split('.').map(str::to_owned).collect()
    }

    fn members() -> Vec<Member> {
        vec![
            ("url".to_owned(), json!("http://gate/x")),
            ("headers".to_owned(), json!({ "Authorization": "Bearer t" })),
        ]
    }

    #[test]
    fn only_the_way_to_the_server_is_replaced() {
        let text = "{\r\n\t// mine\r\n\t\"s\": {\r\n\t\t\"x\": {\r\n\t\t\t\"disabled\": false, // keep\r\n\t\t\t\"command\": \"npx\", // run\r\n\t\t\t\"args\": [\"-y\"],\r\n\t\t\t\"timeout\": 5,\r\n\t\t\t\"env\": {\"K\": \"v\"},\r\n\t\t},\r\n\t},\r\n}\r\n";
        let expected = "{\r\n\t// mine\r\n\t\"s\": {\r\n\t\t\"x\": {\r\n\t\t\t\"disabled\": false, // keep\r\n\t\t\t\"url\": \"http://gate/x\",\r\n\t\t\t\"headers\": { \"Authorization\": \"Bearer t\" } // run\r\n\t\t\t,\r\n\t\t\t\"timeout\": 5,\r\n\t\t},\r\n\t},\r\n}\r\n";
        let new = redirect(text, &keys("s.x"), &members()).unwrap();
        assert_eq!(new, expected);
        assert!(jsonc::read(&jsonc::plain(&new)).is_ok(), "{new}");
    }

    #[test]
    fn a_server_is_taken_out_wherever_it_stands() {
        for (text, expected) in [
            ("{\"s\": {\"x\": {\"url\": 1}, \"y\": 2}}", "{\"s\": {\"y\": 2}}"),
            ("{\"s\": {\"y\": 2,\n \"x\": {}}}", "{\"s\": {\"y\": 2}}"),
            ("{\"s\": {\"y\": 2, \"x\": {},}}", "{\"s\": {\"y\": 2,}}"),
            ("{\"s\": {\"x\": {} , }}", "{\"s\": { }}"),
            ("{\"s\": {\"x\": {}, // of y\n \"y\": 2}}", "{\"s\": { // of y\n \"y\": 2}}"),
        ] {
            assert_eq!(remove(text, &keys("s.x")).unwrap(), expected);
        }
        assert!(remove("{}", &keys("s.x")).is_err());
    }

    #[test]
    fn a_server_is_added_where_there_is_none() {
        for text in [
            "",
            "{}",
            "{ }\n",
            "{\n  // nothing yet\n}\n",
            "{\"a\": 1,}",
            "{\r\n    \"s\": {}\r\n}",
        ] {
            let new = add(text, &keys("s.x"), &members()).unwrap();
            let plain = jsonc::plain(&new);
            let doc = jsonc::read(&plain).unwrap();
            let url = walk(doc.root(), &keys("s.x.url")).unwrap();
            assert_eq!(url.as_str().unwrap(), "http://gate/x", "{new}");
        }
    }
}
