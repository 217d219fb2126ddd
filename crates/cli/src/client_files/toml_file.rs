//! Codex keeps its servers in TOML. Reads and edits them, and leaves every other table, the order,
//! comments and ends of lines as they are.

use anyhow::{Result, anyhow, bail};
use toml_edit::{Array, DocumentMut, InlineTable, Item, Key, Table, TableLike, Value};

use super::entry::{Entry, Launch};
use super::json_file::Member;
use super::jsonc::BYTE_ORDER_MARK;
use super::table::CONNECTION;

/// The servers below `[mcp_servers]`.
pub(crate) fn entries(text: &str, root: &str) -> Result<Vec<Entry>> {
    let document = parse(text)?;
    let servers = document.get(root).and_then(Item::as_table_like);
    let tables = servers.into_iter().flat_map(TableLike::iter);
    Ok(tables
        .filter_map(|(name, item)| Some(entry_of(root, name, item.as_table_like()?)))
        .collect())
}

fn parse(text: &str) -> Result<DocumentMut> {
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    text.parse().map_err(|e: toml_edit::TomlError| anyhow!("{}", e.message()))
}

fn entry_of(root: &str, name: &str, entry: &dyn TableLike) -> Entry {
    let text = |key: &str| entry.get(key).and_then(Item::as_str).map(str::to_owned);
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
    Entry {
        name: name.to_owned(),
        keys: vec![root.to_owned(), name.to_owned()],
        project: None,
        launch,
        enabled: entry.get("enabled").and_then(Item::as_bool) != Some(false),
    }
}

/// Headers: literal ones, those from variables, and the bearer token from a variable.
fn headers(entry: &dyn TableLike) -> Vec<(String, String)> {
    let mut headers = pairs(entry, "http_headers");
    for (name, variable) in pairs(entry, "env_http_headers") {
        headers.push((name, format!("${{env:{variable}}}")));
    }
    if let Some(variable) = entry.get("bearer_token_env_var").and_then(Item::as_str) {
        headers.push(("Authorization".to_owned(), format!("Bearer ${{env:{variable}}}")));
    }
    headers
}

fn list(entry: &dyn TableLike, key: &str) -> Vec<String> {
    let items = entry.get(key).and_then(Item::as_array).into_iter().flatten();
    items.filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

fn pairs(entry: &dyn TableLike, key: &str) -> Vec<(String, String)> {
    let table = entry.get(key).and_then(Item::as_table_like);
    let fields = table.into_iter().flat_map(TableLike::iter);
    fields.filter_map(|(name, item)| Some((name.to_owned(), item.as_str()?.to_owned()))).collect()
}

/// Replaces the connection of a server. Its other keys and all comments stay.
pub(crate) fn redirect(text: &str, keys: &[String], members: &[Member]) -> Result<String> {
    let mut document = parse(text)?;
    let (servers, name) = servers_of(&mut document, keys)?;
    let entry = servers.get_mut(name).ok_or_else(|| gone(keys))?;
    let Some(table) = entry.as_table_like_mut() else {
        bail!("`{}` is not a table", keys.join("."))
    };
    let names: Vec<String> = table.iter().map(|(name, _)| name.to_owned()).collect();
    let old: Vec<(Key, Item)> = names
        .iter()
        .filter_map(|name| table.get_key_value(name))
        .map(|(key, item)| (key.clone(), item.clone()))
        .collect();
    if !old.iter().any(|(key, _)| is_connection(key)) {
        bail!("`{}` has neither a command nor an address", keys.join("."));
    }
    let fields = redirected(old, members);
    table.clear();
    for (key, item) in fields {
        table.entry_format(&key).or_insert(item);
    }
    Ok(written(&document, text))
}

fn is_connection(key: &Key) -> bool {
    CONNECTION.contains(&key.get())
}

/// The new members replace the old ones and keep the whitespace and comments around them. Comments of a
/// removed key move to the next key.
fn redirected(old: Vec<(Key, Item)>, members: &[Member]) -> Vec<(Key, Item)> {
    let mut members = members.iter().peekable();
    let mut fields: Vec<(Key, Item)> = Vec::new();
    let mut left_over = String::new();
    for (key, item) in old {
        // A sub-table comes after all plain values, so no plain value can replace it.
        let (mut key, item) = match (is_connection(&key), item, members.peek()) {
            (false, item, _) => (key, item),
            (true, Item::Value(value), Some((name, new))) => {
                let Some(new) = value_of(new) else { continue };
                members.next();
                (renamed(&key, name), Item::Value(decorated(new, &value)))
            }
            (true, item, _) => {
                left_over.push_str(&comments(&key, &item));
                continue;
            }
        };
        if !left_over.is_empty() && item.is_value() {
            left_over.push_str(raw(key.leaf_decor().prefix()));
            key.leaf_decor_mut().set_prefix(std::mem::take(&mut left_over));
        }
        fields.push((key, item));
    }
    for (name, value) in members {
        insert_after_connection(&mut fields, name, value);
    }
    let last = fields.iter_mut().rev().find_map(|(_, item)| item.as_value_mut());
    if let (Some(last), false) = (last, left_over.is_empty()) {
        let suffix = format!("{}\n{}", raw(last.decor().suffix()), left_over.trim_end());
        last.decor_mut().set_suffix(suffix);
    }
    fields
}

/// Inserts a new member after the last one of the connection.
fn insert_after_connection(fields: &mut Vec<(Key, Item)>, name: &str, value: &serde_json::Value) {
    let Some(mut value) = value_of(value) else { return };
    let is_before = |(key, item): &(Key, Item)| item.is_value() && is_connection(key);
    let before = fields.iter().rposition(is_before);
    // The space in front of `}` stays in front of it.
    if let Some(old) = before.and_then(|at| fields.get_mut(at)?.1.as_value_mut())
        && raw(old.decor().suffix()).trim().is_empty()
    {
        *value.decor_mut() = toml_edit::Decor::new(" ", raw(old.decor().suffix()));
        old.decor_mut().set_suffix("");
    }
    fields.insert(before.map_or(0, |at| at + 1), (Key::new(name), Item::Value(value)));
}

/// A new key with the whitespace and comments of the old one.
fn renamed(old: &Key, name: &str) -> Key {
    Key::new(name)
        .with_leaf_decor(old.leaf_decor().clone())
        .with_dotted_decor(old.dotted_decor().clone())
}

fn decorated(mut new: Value, old: &Value) -> Value {
    *new.decor_mut() = old.decor().clone();
    new
}

fn raw(decor: Option<&toml_edit::RawString>) -> &str {
    decor.and_then(toml_edit::RawString::as_str).unwrap_or_default()
}

/// The comments around and inside a field, one line each.
fn comments(key: &Key, item: &Item) -> String {
    let mut found = comment_lines(raw(key.leaf_decor().prefix()));
    match item {
        Item::Value(value) => found.push_str(&comment_lines(raw(value.decor().suffix()))),
        Item::Table(table) => {
            let decor = table.decor();
            found.push_str(&comment_lines(raw(decor.prefix())));
            found.push_str(&comment_lines(raw(decor.suffix())));
            for (name, item) in table {
                found.push_str(&table.key(name).map(|key| comments(key, item)).unwrap_or_default());
            }
        }
        _ => {}
    }
    found
}

fn comment_lines(decor: &str) -> String {
    let lines = decor.lines().map(str::trim).filter(|line| line.starts_with('#'));
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// The keys that hold the connection of a server.
pub(crate) fn connection(text: &str, keys: &[String]) -> Result<Vec<Member>> {
    let mut document = parse(text)?;
    let (servers, name) = servers_of(&mut document, keys)?;
    let entry = servers.get(name).and_then(Item::as_table_like);
    let fields = entry.into_iter().flat_map(TableLike::iter);
    let fields = fields.filter(|(key, _)| CONNECTION.contains(key));
    Ok(fields.map(|(key, item)| (key.to_owned(), json_of(item))).collect())
}

/// Removes the table of a server. Comments inside it move to the end of the file.
pub(crate) fn remove(text: &str, keys: &[String]) -> Result<String> {
    let mut document = parse(text)?;
    let (servers, name) = servers_of(&mut document, keys)?;
    let (key, item) = servers.get_key_value(name).ok_or_else(|| gone(keys))?;
    let left_over = comments(key, item);
    servers.remove(name);
    let trailing = document.trailing().as_str().unwrap_or_default().to_owned();
    document.set_trailing(format!("{left_over}{trailing}"));
    Ok(written(&document, text))
}

/// Adds a table for a server.
pub(crate) fn add(text: &str, keys: &[String], members: &[Member]) -> Result<String> {
    let mut document = parse(text)?;
    let [root, name] = keys else { bail!("a server of Codex has two keys") };
    let mut implicit = Table::new();
    implicit.set_implicit(true);
    let servers = document.entry(root).or_insert(Item::Table(implicit));
    let is_inline = servers.is_inline_table();
    let Some(servers) = servers.as_table_like_mut() else { bail!("`{root}` is not a table") };
    if servers.contains_key(name) {
        bail!("`{}` is there already", keys.join("."));
    }
    let fields = members.iter().filter_map(|(key, value)| Some((key, value_of(value)?)));
    let entry = if is_inline {
        Item::Value(Value::InlineTable(fields.collect()))
    } else {
        Item::Table(fields.map(|(key, value)| (Key::new(key), value)).collect())
    };
    servers.insert(name, entry);
    Ok(written(&document, text))
}

fn servers_of<'d, 'k>(
    document: &'d mut DocumentMut,
    keys: &'k [String],
) -> Result<(&'d mut dyn TableLike, &'k str)> {
    let [root, name] = keys else { bail!("a server of Codex has two keys") };
    let servers = document.get_mut(root).and_then(Item::as_table_like_mut);
    Ok((servers.ok_or_else(|| anyhow!("`{root}` is gone"))?, name))
}

fn gone(keys: &[String]) -> anyhow::Error {
    anyhow!("`{}` is gone", keys.join("."))
}

/// The document as text, with the byte order mark, line ends and last line end of the old file.
fn written(document: &DocumentMut, before: &str) -> String {
    let mut text = document.to_string();
    if before.contains("\r\n") {
        text = text.replace("\r\n", "\n").replace('\n', "\r\n");
    }
    if !before.is_empty() && !before.ends_with('\n') && document.trailing().as_str() == Some("") {
        text.truncate(text.trim_end_matches(['\r', '\n']).len());
    }
    let mark = if before.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK } else { "" };
    format!("{mark}{text}")
}

/// A JSON value as TOML; none for `null`, which TOML does not have.
fn value_of(json: &serde_json::Value) -> Option<Value> {
    Some(match json {
        serde_json::Value::Null => return None,
        serde_json::Value::Bool(truth) => Value::from(*truth),
        serde_json::Value::Number(number) => match number.as_i64() {
            Some(whole) => Value::from(whole),
            None => Value::from(number.as_f64()?),
        },
        serde_json::Value::String(text) => Value::from(text.as_str()),
        serde_json::Value::Array(items) => {
            Value::Array(items.iter().filter_map(value_of).collect::<Array>())
        }
        serde_json::Value::Object(fields) => {
            let fields = fields.iter().filter_map(|(key, value)| Some((key, value_of(value)?)));
            Value::InlineTable(fields.collect::<InlineTable>())
        }
    })
}

fn json_of(item: &Item) -> serde_json::Value {
    if let Some(table) = item.as_table_like() {
        let fields = table.iter().map(|(key, item)| (key.to_owned(), json_of(item)));
        return serde_json::Value::Object(fields.collect());
    }
    match item.as_value() {
        Some(Value::String(text)) => text.value().as_str().into(),
        Some(Value::Integer(whole)) => (*whole.value()).into(),
        Some(Value::Float(number)) => (*number.value()).into(),
        Some(Value::Boolean(truth)) => (*truth.value()).into(),
        Some(Value::Array(items)) => {
            items.iter().map(|value| json_of(&Item::Value(value.clone()))).collect()
        }
        other => other.map(|value| value.to_string().trim().into()).unwrap_or_default(),
    }
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

    fn keys(name: &str) -> [String; 2] {
        ["mcp_servers".to_owned(), name.to_owned()]
    }

    #[test]
    fn only_the_connection_is_replaced() {
        let found = entries(TEXT, "mcp_servers").unwrap();
        assert_eq!(found.len(), 2);
        let mut text = TEXT.to_owned();
        for entry in &found {
            text = redirect(&text, &entry.keys, &members()).unwrap();
        }
        assert_eq!(
            text,
            "model = \"o\" # mine\n\n[mcp_servers.docs] # docs\n# how\nurl = \"http://gate/x\" # run\nhttp_headers = { Authorization = \"Bearer t\" }\nstartup_timeout_sec = 20\n# the key\n\n[mcp_servers]\nnear = { url = \"http://gate/x\", http_headers = { Authorization = \"Bearer t\" }, enabled = true }\n\n[tui]\nx = 1\n"
        );
    }

    #[test]
    fn a_server_is_restored_and_removed() {
        let there = redirect(TEXT, &keys("docs"), &members()).unwrap();
        let old = connection(TEXT, &keys("docs")).unwrap();
        let back = redirect(&there, &keys("docs"), &old).unwrap();
        assert_eq!(entries(&back, "mcp_servers").unwrap(), entries(TEXT, "mcp_servers").unwrap());
        let without = remove(&remove(TEXT, &keys("docs")).unwrap(), &keys("near")).unwrap();
        assert!(entries(&without, "mcp_servers").unwrap().is_empty(), "{without}");
        for kept in ["model = \"o\" # mine", "# docs", "# how", "# run", "# the key", "[tui]"] {
            assert!(without.contains(kept), "`{kept}` is gone:\n{without}");
        }
        parse(&without).unwrap();
    }

    #[test]
    fn a_server_is_added_next_to_other_servers() {
        let new = "[mcp_servers.\"a b\"]\nurl = \"http://gate/x\"\nhttp_headers = { Authorization = \"Bearer t\" }\n";
        let text = add("x = 1", &keys("a b"), &members()).unwrap();
        assert_eq!(text.trim_end(), format!("x = 1\n\n{new}").trim_end());
        assert_eq!(add("", &keys("a b"), &members()).unwrap(), new);
        let text = add(TEXT, &keys("a b"), &members()).unwrap();
        assert_eq!(text.replace(&format!("\n{new}"), ""), TEXT, "{text}");
        let inline = "mcp_servers = { near = { url = \"u\" } }\n";
        let text = add(inline, &keys("y"), &members()).unwrap();
        assert_eq!(entries(&text, "mcp_servers").unwrap().len(), 2, "{text}");
        assert!(add(TEXT, &keys("docs"), &members()).is_err(), "it is there already");
    }

    #[test]
    fn line_ends_byte_order_mark_and_last_line_stay() {
        for text in [
            TEXT.replace('\n', "\r\n"),
            format!("\u{feff}{TEXT}"),
            TEXT.trim_end().to_owned(),
            "  [mcp_servers.docs]\n  command = \"a\"\n".to_owned(),
            "mcp_servers.docs.command = \"a\" # dotted\nx = 1\n".to_owned(),
            "[mcp_servers]\n# how\ndocs.command = \"a\"\ndocs.args = []\n".to_owned(),
            "[mcp_servers.docs.env]\nK = \"v\" # key\n[mcp_servers.docs]\ncommand = \"a\"\n"
                .to_owned(),
        ] {
            let there = redirect(&text, &keys("docs"), &members()).unwrap();
            let entries = entries(&there, "mcp_servers").unwrap();
            let docs = entries.iter().find(|entry| entry.name == "docs").unwrap();
            assert_eq!(docs.launch.kind(), "url", "{there}");
            assert_eq!(there.contains("\r\n"), text.contains("\r\n"));
            assert_eq!(
                there.replace("\r\n", "").contains('\n'),
                !text.contains("\r\n"),
                "{there:?}"
            );
            assert_eq!(there.starts_with('\u{feff}'), text.starts_with('\u{feff}'));
            assert_eq!(there.ends_with('\n'), text.ends_with('\n'), "{there:?}");
            assert_eq!(there.matches('#').count(), text.matches('#').count(), "{there}");
        }
    }
}
