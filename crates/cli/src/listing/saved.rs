//! Files that describe servers: saved lists in several shapes, the registry's `server.json`, and the
//! entries clients keep in their settings. Lists keep their original text, including repeated
//! keys.

use anyhow::{Result, bail};
use policy::json::{Bounds, Doc, Kind, Value};

use super::Offer;
use super::server_json;
use crate::client_files::{GivenServer, given_file, plain_json};

/// The same size as the files that `scan` reads.
const BOUNDS: Bounds = Bounds { bytes_max: 64 << 20, nodes_max: 8_000_000, ..Bounds::ANSWER };

/// What a file holds.
pub(crate) enum Saved {
    Lists(Offer),
    Servers(Vec<GivenServer>),
}

pub(crate) fn read(text: &str, stem: &str) -> Result<Saved> {
    let plain = plain_json(text);
    let refusal = match Doc::read(plain.as_bytes(), &BOUNDS) {
        Ok(doc) => return classify(doc.root(), &plain, stem),
        Err(refusal) => refusal,
    };
    let rows = rows(text);
    if let Ok(doc) = Doc::read(rows.as_bytes(), &BOUNDS) {
        return classify(doc.root(), &rows, stem);
    }
    bail!(
        "it is not JSON: line {}, column {}: {}\nhint: save the unchanged response to `tools/list`",
        refusal.line,
        refusal.column,
        refusal.message
    )
}

/// One object a line, as one list.
fn rows(text: &str) -> String {
    let rows: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    format!("[{}]", rows.join(","))
}

fn classify(value: Value<'_>, text: &str, stem: &str) -> Result<Saved> {
    let mut offer = Offer { is_partial: true, ..Offer::default() };
    if collect_lists(value, &mut offer) {
        return Ok(Saved::Lists(offer));
    }
    if let Some(server) = server_json::find(value) {
        let name = server_json::name(server, stem);
        let target = Ok(server_json::target(server)?);
        return Ok(Saved::Servers(vec![GivenServer { name, target }]));
    }
    if member(value, "command").is_some() || member(value, "url").is_some() {
        return Ok(Saved::Servers(vec![given_file::server(stem, value)?]));
    }
    let servers = given_file::servers(text, false)?;
    if servers.is_empty() {
        bail!(
            "it is neither a list of tools, a `server.json`, nor settings with `mcpServers`\nhint: a saved list looks like {{\"tools\": [...]}}"
        )
    }
    Ok(Saved::Servers(servers))
}

/// A member of a value that may not be an object.
pub(super) fn member<'d>(value: Value<'d>, key: &str) -> Option<Value<'d>> {
    if value.kind() == Kind::Object { value.get(key) } else { None }
}

/// `{"tools": []}`, `{"result": {"tools": []}}`, a bare list, pages of lists, or one tool.
fn collect_lists(value: Value<'_>, offer: &mut Offer) -> bool {
    match value.kind() {
        Kind::Array if value.items().any(is_tool) => {
            offer.tools.extend(raw_items(value));
            true
        }
        Kind::Array if value.is_empty() => true,
        // Every page, not only the first that holds something.
        Kind::Array => value.items().filter(|page| collect_lists(*page, offer)).count() > 0,
        Kind::Object => match value.get("result") {
            Some(result) => collect_lists(result, offer),
            None => collect_members(value, offer),
        },
        _ => false,
    }
}

fn collect_members(value: Value<'_>, offer: &mut Offer) -> bool {
    let mut found = false;
    for key in ["tools", "resources", "resourceTemplates", "prompts", "skills"] {
        let Some(items) = value.get(key).filter(|items| items.kind() == Kind::Array) else {
            continue;
        };
        let list = match key {
            "tools" => &mut offer.tools,
            "prompts" => &mut offer.prompts,
            "skills" => &mut offer.skills,
            _ => &mut offer.resources,
        };
        list.extend(raw_items(items));
        found = true;
    }
    if found {
        let text = value.get("instructions").and_then(Value::as_str);
        offer.instructions = text.map(Into::into).or(offer.instructions.take());
    } else if is_tool(value) {
        offer.tools.push(value.raw().to_owned());
        return true;
    }
    found
}

fn raw_items(list: Value<'_>) -> Vec<String> {
    list.items().map(|item| item.raw().to_owned()).collect()
}

fn is_tool(value: Value<'_>) -> bool {
    member(value, "name").is_some_and(|name| name.kind() == Kind::String)
        && ["description", "inputSchema", "input_schema", "title", "annotations"]
            .iter()
            .any(|key| value.get(key).is_some())
        && !server_json::is(value)
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unwrap_used,
        clippy::panic,
        clippy::indexing_slicing,
        reason = "a test fails by panicking"
    )]
    use super::{GivenServer, Saved, read};
    use store::registry::Target;

    #[test]
    fn lists_are_read_in_every_usual_shape() {
        let tool = r#"{"name":"a","inputSchema":{}}"#;
        for text in [
            format!(r#"{{"tools":[{tool}]}}"#),
            format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"tools":[{tool}]}}}}"#),
            format!("[{tool}]"),
            tool.to_owned(),
            format!("{tool}\n{tool}\n").lines().next().unwrap().to_owned(),
            format!(r#"[{{"result":{{"tools":[{tool}]}}}},{{"result":{{"tools":[]}}}}]"#),
        ] {
            match read(&text, "x").unwrap() {
                Saved::Lists(offer) => assert_eq!(offer.tools.len(), 1, "{text}"),
                Saved::Servers(_) => panic!("{text}"),
            }
        }
    }

    #[test]
    fn servers_are_read_from_settings_and_from_the_registry() {
        let argv = |text: &str| match read(text, "x").unwrap() {
            Saved::Servers(servers) => {
                let GivenServer { name, target } = servers.into_iter().next().unwrap();
                match target.unwrap() {
                    Target::Command { argv, .. } => format!("{name}: {}", argv.join(" ")),
                    Target::Url { url, .. } => format!("{name}: {url}"),
                    Target::Builtin { .. } => name,
                }
            }
            Saved::Lists(_) => panic!("{text}"),
        };
        for (text, expected) in [
            ("{ // mine\n \"mcpServers\": {\"a\": {\"command\": \"b\"},},}", "a: b"),
            (r#"{"command":"npx","args":["-y","c"]}"#, "x: npx -y c"),
            (r#"{"mcp":{"servers":{"d":{"command":"e"}}}}"#, "d: e"),
            (r#"{"mcpServers":{"git":{"command":"uvx","args":["mcp-git"]}}}"#, "git: uvx mcp-git"),
            (
                r#"{"servers":{"web":{"url":"https://example.com/mcp"}}}"#,
                "web: https://example.com/mcp",
            ),
            (
                r#"{"name":"io.x/time","packages":[{"registryType":"npm","identifier":"@x/time","version":"1.0.0"}]}"#,
                "time: npx -y @x/time@1.0.0",
            ),
            (
                r#"{"name":"io.x/t","packages":[{"registryType":"pypi","identifier":"t","version":"2"}]}"#,
                "t: uvx t==2",
            ),
            (
                r#"{"name":"io.x/r","remotes":[{"type":"streamable-http","url":"https://r.example/mcp"}]}"#,
                "r: https://r.example/mcp",
            ),
        ] {
            assert_eq!(argv(text), expected);
        }
    }

    #[test]
    fn other_files_are_refused_with_a_hint() {
        for text in [
            "{}",
            "not json",
            "// c\n{}",
            r#"{"packages":[{"registryType":"npm","identifier":"--evil"}]}"#,
        ] {
            assert!(read(text, "x").is_err(), "{text}");
        }
    }

    #[test]
    fn a_saved_tool_keeps_its_original_text() {
        let text = r#"{"tools":[{"name":"a", "description":"x", "description":"y"}]}"#;
        let Saved::Lists(offer) = read(text, "x").unwrap() else { panic!("no list") };
        assert!(text.contains(&offer.tools[0]) && offer.tools[0].matches("desc").count() == 2);
    }
}
