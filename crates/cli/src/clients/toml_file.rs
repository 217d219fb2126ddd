//! Codex keeps its servers in TOML. Entries are read with the places of their parts, and changed
//! line by line, so that comments and every other table stay as they are.

use std::fmt::Write as _;
use std::ops::Range;

use anyhow::{Result, anyhow, bail};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::edit::Member;
use super::entry::{Entry, Launch};
use super::table::CONNECTION;

type Field<'a, 'i> = (&'a Spanned<std::borrow::Cow<'i, str>>, &'a Spanned<DeValue<'i>>);

/// The servers below `[mcp_servers]`.
pub(super) fn entries(text: &str, root: &str) -> Result<Vec<Entry>> {
    let table = parse(text)?;
    let Some(DeValue::Table(servers)) = table.get_ref().get(root).map(Spanned::get_ref) else {
        return Ok(Vec::new());
    };
    let mut found: Vec<(usize, Entry)> = servers
        .iter()
        .filter_map(|(name, value)| match value.get_ref() {
            DeValue::Table(entry) => {
                Some((name.span().start, entry_of(root, name.get_ref(), entry)))
            }
            _ => None,
        })
        .collect();
    found.sort_by_key(|(at, _)| *at);
    Ok(found.into_iter().map(|(_, entry)| entry).collect())
}

fn parse(text: &str) -> Result<Spanned<DeTable<'_>>> {
    DeTable::parse(text).map_err(|e| anyhow!("{}", e.message()))
}

fn entry_of(root: &str, name: &str, entry: &DeTable<'_>) -> Entry {
    let text = |key: &str| entry.get(key).and_then(|v| v.get_ref().as_str()).map(str::to_owned);
    let launch = match (text("command"), text("url")) {
        (Some(command), _) => {
            let mut argv = vec![command];
            argv.extend(list(entry, "args"));
            let mut env = pairs(entry, "env");
            let passed = list(entry, "env_vars").into_iter();
            env.extend(passed.map(|name| (name.clone(), format!("${{env:{name}:-}}"))));
            Launch::Command { argv, env, cwd: text("cwd"), env_file: None }
        }
        (None, Some(url)) => Launch::Url { url, headers: headers(entry) },
        (None, None) => Launch::Other,
    };
    let off = matches!(entry.get("enabled").map(Spanned::get_ref), Some(DeValue::Boolean(false)));
    Entry {
        name: name.to_owned(),
        keys: vec![root.to_owned(), name.to_owned()],
        project: None,
        launch,
        enabled: !off,
    }
}

/// Headers as they are, from variables, and the bearer token that is one.
fn headers(entry: &DeTable<'_>) -> Vec<(String, String)> {
    let mut headers = pairs(entry, "http_headers");
    for (name, variable) in pairs(entry, "env_http_headers") {
        headers.push((name, format!("${{env:{variable}}}")));
    }
    let bearer = entry.get("bearer_token_env_var").and_then(|v| v.get_ref().as_str());
    if let Some(variable) = bearer {
        headers.push(("Authorization".to_owned(), format!("Bearer ${{env:{variable}}}")));
    }
    headers
}

fn list(entry: &DeTable<'_>, key: &str) -> Vec<String> {
    let Some(DeValue::Array(items)) = entry.get(key).map(Spanned::get_ref) else {
        return Vec::new();
    };
    items.iter().filter_map(|item| item.get_ref().as_str().map(str::to_owned)).collect()
}

fn pairs(entry: &DeTable<'_>, key: &str) -> Vec<(String, String)> {
    let Some(DeValue::Table(table)) = entry.get(key).map(Spanned::get_ref) else {
        return Vec::new();
    };
    let mut pairs: Vec<(usize, (String, String))> = table
        .iter()
        .filter_map(|(name, value)| {
            let text = value.get_ref().as_str()?;
            Some((name.span().start, (name.get_ref().to_string(), text.to_owned())))
        })
        .collect();
    pairs.sort_by_key(|(at, _)| *at);
    pairs.into_iter().map(|(_, pair)| pair).collect()
}

/// Replaces what says how to reach a server. Its other keys, and all comments, stay.
pub(super) fn redirect(text: &str, keys: &[String], members: &[Member]) -> Result<String> {
    let [root, name] = keys else { bail!("a server of Codex has two keys") };
    let table = parse(text)?;
    let Some(DeValue::Table(servers)) = table.get_ref().get(root.as_str()).map(Spanned::get_ref)
    else {
        bail!("`{root}` is gone");
    };
    let Some(entry) = servers.get(name.as_str()) else { bail!("`{root}.{name}` is gone") };
    let DeValue::Table(fields) = entry.get_ref() else { bail!("`{root}.{name}` is no table") };
    if text.get(entry.span()).is_some_and(|raw| raw.starts_with('{')) {
        return Ok(splice(text, &[(entry.span(), inline(text, fields, members))]));
    }
    let mut cuts: Vec<Range<usize>> = Vec::new();
    for field in fields.iter().filter(|(key, _)| CONNECTION.contains(&&**key.get_ref())) {
        cuts.extend(lines_of(text, field));
    }
    cuts.sort_by_key(|cut| cut.start);
    let Some(first) = cuts.first() else {
        bail!("`{root}.{name}` says nothing of how to reach it")
    };
    // New lines belong to the server's own table; a sub-table that came first is not it.
    let at = if entry_header(text, entry) { line_end(text, entry.span().end) } else { first.start };
    let line = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let dotted = !entry_header(text, entry);
    let prefix = if dotted { format!("{}.", key_text(name)) } else { String::new() };
    let mut new = String::new();
    for (key, value) in members {
        let _ = write!(new, "{prefix}{} = {}{line}", key_text(key), value_text(value));
    }
    let mut changes: Vec<(Range<usize>, String)> =
        cuts.into_iter().map(|cut| (cut, String::new())).collect();
    changes.push((at..at, new));
    let redirected = splice(text, &changes);
    parse(&redirected)?;
    Ok(redirected)
}

/// What says how to reach a server.
pub(super) fn connection(text: &str, keys: &[String]) -> Result<Vec<Member>> {
    let [root, name] = keys else { bail!("a server of Codex has two keys") };
    let table: toml::Table = toml::from_str(text).map_err(|e| anyhow!("{}", e.message()))?;
    let entry = table.get(root).and_then(|servers| servers.get(name));
    let entry = entry.and_then(toml::Value::as_table).into_iter().flatten();
    let members = entry.filter(|(key, _)| CONNECTION.contains(&key.as_str()));
    members.map(|(key, value)| Ok((key.clone(), serde_json::to_value(value)?))).collect()
}

/// Takes the table of a server out. Comments inside it stay.
pub(super) fn remove(text: &str, keys: &[String]) -> Result<String> {
    let [root, name] = keys else { bail!("a server of Codex has two keys") };
    let table = parse(text)?;
    let Some(DeValue::Table(servers)) = table.get_ref().get(root.as_str()).map(Spanned::get_ref)
    else {
        bail!("`{root}` is gone");
    };
    let Some(entry) = servers.iter().find(|(key, _)| key.get_ref() == name.as_str()) else {
        bail!("`{root}.{name}` is gone")
    };
    let cuts = lines_of(text, entry).into_iter().map(|cut| (cut, String::new()));
    let removed = splice(text, &cuts.collect::<Vec<_>>());
    parse(&removed)?;
    Ok(removed)
}

/// Adds a table at the end.
pub(super) fn add(text: &str, keys: &[String], members: &[Member]) -> Result<String> {
    let line = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let mut out = text.to_owned();
    if !out.is_empty() && !out.ends_with('\n') {
        out.push_str(line);
    }
    if !out.is_empty() {
        out.push_str(line);
    }
    let path: Vec<String> = keys.iter().map(|key| key_text(key)).collect();
    let _ = write!(out, "[{}]{line}", path.join("."));
    for (key, value) in members {
        let _ = write!(out, "{} = {}{line}", key_text(key), value_text(value));
    }
    parse(&out).map_err(|e| e.context("the server cannot be added at the end of the file"))?;
    Ok(out)
}

/// Was the table opened by a line `[mcp_servers.name]` of its own?
fn entry_header(text: &str, entry: &Spanned<DeValue<'_>>) -> bool {
    text.get(entry.span()).is_some_and(|raw| raw.starts_with('['))
}

/// The lines of a field: one value, or a sub-table with its header and all it holds.
fn lines_of(text: &str, (key, value): Field<'_, '_>) -> Vec<Range<usize>> {
    let raw = text.get(value.span()).unwrap_or_default();
    match value.get_ref() {
        DeValue::Table(fields) if !raw.starts_with('{') => {
            let mut cuts: Vec<_> = fields.iter().flat_map(|field| lines_of(text, field)).collect();
            if raw.starts_with('[') {
                cuts.push(whole_line(text, value.span()));
            }
            cuts
        }
        _ => vec![whole_line(text, key.span().start..value.span().end)],
    }
}

/// The whole line when nothing else stands on it, and only the field when a comment does.
fn whole_line(text: &str, field: Range<usize>) -> Range<usize> {
    let start = text.get(..field.start).and_then(|t| t.rfind('\n')).map_or(0, |at| at + 1);
    let end = line_end(text, field.end);
    let rest = text.get(field.end..end).unwrap_or_default();
    if rest.trim().is_empty() { start..end } else { start..field.end + blanks(rest) }
}

fn blanks(text: &str) -> usize {
    text.len() - text.trim_start_matches([' ', '\t']).len()
}

/// The place behind the end of the line that `at` is on.
fn line_end(text: &str, at: usize) -> usize {
    text.get(at..).and_then(|rest| rest.find('\n')).map_or(text.len(), |found| at + found + 1)
}

/// `{ … }` with the other fields as they were.
fn inline(text: &str, fields: &DeTable<'_>, members: &[Member]) -> String {
    let mut parts: Vec<String> =
        members.iter().map(|(k, v)| format!("{} = {}", key_text(k), value_text(v))).collect();
    for (key, value) in fields.iter().filter(|(key, _)| !CONNECTION.contains(&&**key.get_ref())) {
        let raw = text.get(value.span()).unwrap_or_default();
        parts.push(format!("{} = {raw}", key_text(key.get_ref())));
    }
    format!("{{ {} }}", parts.join(", "))
}

fn key_text(key: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !key.is_empty() && key.chars().all(bare) { key.to_owned() } else { super::edit::quoted(key) }
}

/// Strings, lists and objects of JSON as TOML. A JSON string is a basic string of TOML.
fn value_text(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Array(items) => {
            format!("[{}]", items.iter().map(value_text).collect::<Vec<_>>().join(", "))
        }
        serde_json::Value::Object(fields) => {
            let parts: Vec<String> = fields
                .iter()
                .map(|(k, v)| format!("{} = {}", key_text(k), value_text(v)))
                .collect();
            format!("{{ {} }}", parts.join(", "))
        }
        other => other.to_string(),
    }
}

fn splice(text: &str, changes: &[(Range<usize>, String)]) -> String {
    let mut changes: Vec<_> = changes.iter().collect();
    changes.sort_by_key(|(range, _)| (range.start, range.end));
    let mut out = String::with_capacity(text.len() + 256);
    let mut kept_to = 0;
    for (range, new) in changes {
        out.push_str(text.get(kept_to..range.start.max(kept_to)).unwrap_or_default());
        out.push_str(new);
        kept_to = range.end.max(kept_to);
    }
    out.push_str(text.get(kept_to..).unwrap_or_default());
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use serde_json::json;

    const TEXT: &str = "model = \"o\" # mine\n\n[mcp_servers.docs] # docs\n# how\ncommand = \"npx\" # run\nargs = [\n  \"-y\",\n]\nstartup_timeout_sec = 20\n\n[mcp_servers.docs.env]\n# the key\nKEY = \"v\"\n\n[mcp_servers]\nnear = { url = \"https://n.example\", enabled = true }\n\n[tui]\nx = 1\n";

    fn members() -> Vec<Member> {
        vec![
            ("url".to_owned(), json!("http://gate/x")),
            ("http_headers".to_owned(), json!({ "Authorization": "Bearer t" })),
        ]
    }

    #[test]
    fn only_the_way_to_the_server_is_replaced() {
        let found = entries(TEXT, "mcp_servers").unwrap();
        assert_eq!(found.len(), 2);
        let mut text = TEXT.to_owned();
        for entry in &found {
            text = redirect(&text, &entry.keys, &members()).unwrap();
        }
        assert_eq!(
            text,
            "model = \"o\" # mine\n\n[mcp_servers.docs] # docs\nurl = \"http://gate/x\"\nhttp_headers = { Authorization = \"Bearer t\" }\n# how\n# run\nstartup_timeout_sec = 20\n\n# the key\n\n[mcp_servers]\nnear = { url = \"http://gate/x\", http_headers = { Authorization = \"Bearer t\" }, enabled = true }\n\n[tui]\nx = 1\n"
        );
    }

    #[test]
    fn a_server_is_put_back_and_taken_out() {
        let keys = |name: &str| ["mcp_servers".to_owned(), name.to_owned()];
        let there = redirect(TEXT, &keys("docs"), &members()).unwrap();
        let old = connection(TEXT, &keys("docs")).unwrap();
        let back = redirect(&there, &keys("docs"), &old).unwrap();
        assert_eq!(entries(&back, "mcp_servers").unwrap(), entries(TEXT, "mcp_servers").unwrap());
        let without = remove(&remove(TEXT, &keys("docs")).unwrap(), &keys("near")).unwrap();
        assert!(entries(&without, "mcp_servers").unwrap().is_empty(), "{without}");
        assert!(without.contains("model = \"o\" # mine") && without.contains("[tui]"));
    }

    #[test]
    fn a_server_is_added_at_the_end() {
        let keys = ["mcp_servers".to_owned(), "a b".to_owned()];
        let text = add("x = 1", &keys, &members()).unwrap();
        assert_eq!(
            text,
            "x = 1\n\n[mcp_servers.\"a b\"]\nurl = \"http://gate/x\"\nhttp_headers = { Authorization = \"Bearer t\" }\n"
        );
    }
}
