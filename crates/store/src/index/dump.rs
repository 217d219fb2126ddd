//! Parses one item of a dump: a server of the official registry, a server with its tools, or one
//! tool with the name of its server. Tools are classified here, so that this runs on many threads.

use std::borrow::Cow;

use catalog::classify::{SignalKind, classify_brief};
use policy::json::{Bounds, Doc, Kind, Value};

use super::words;

/// Descriptions in lists are truncated to this length.
const DOES_CHARS_MAX: usize = 240;
/// Where the official registry keeps its own metadata.
const OFFICIAL: &str = "io.modelcontextprotocol.registry/official";

/// A server, ready to be written.
#[derive(Debug, Default)]
pub(super) struct Listing {
    pub(super) name: String,
    pub(super) slug: String,
    pub(super) title: String,
    pub(super) description: String,
    pub(super) version: String,
    pub(super) website: String,
    pub(super) repository: String,
    pub(super) updated: String,
    pub(super) source: String,
    pub(super) tools: Vec<Tool>,
    /// The complete server; otherwise a part that is added to it.
    pub(super) is_whole: bool,
}

/// A classified tool.
#[derive(Debug)]
pub(super) struct Tool {
    pub(super) name: String,
    pub(super) slug: String,
    pub(super) category: u8,
    pub(super) risk: u8,
    pub(super) signals: u32,
    pub(super) does: String,
    pub(super) definition: String,
    pub(super) name_words: String,
    pub(super) text_words: String,
}

/// Why an item is skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Skip {
    NotJson,
    NoName,
    /// An older version, or one that was deleted.
    Superseded,
}

/// Parses one item. `fallback` names a server without a name.
pub(super) fn read(item: &[u8], fallback: &str) -> Result<Listing, Skip> {
    let doc = Doc::read(item, &Bounds::ANSWER).map_err(|_| Skip::NotJson)?;
    let root = doc.root();
    match root.get("server") {
        Some(server) if server.kind() == Kind::Object => registered(root, server),
        Some(server) if root.get("tools").is_some() => {
            let name = server.as_str().ok_or(Skip::NoName)?;
            whole(root, &name)
        }
        Some(server) => part(root, &server.as_str().ok_or(Skip::NoName)?),
        None if root.get("name").is_some() && root.get("inputSchema").is_none() => {
            registered(root, root)
        }
        None if root.get("name").is_some() => part(root, fallback),
        None => {
            let list = root.get("result").unwrap_or(root);
            list.get("tools").ok_or(Skip::NoName)?;
            whole(list, fallback)
        }
    }
}

/// An entry of the official registry, or a `server.json`.
fn registered(item: Value<'_>, server: Value<'_>) -> Result<Listing, Skip> {
    let official = item.get("_meta").and_then(|meta| meta.get(OFFICIAL));
    if let Some(official) = official {
        let is_old = official.get("isLatest").and_then(Value::as_bool) == Some(false);
        let status = official.get("status").or_else(|| server.get("status")).map(word);
        if is_old || status.as_deref() == Some("deleted") {
            return Err(Skip::Superseded);
        }
    }
    let name = text(server, "name");
    let mut listing = whole(server, &name)?;
    if listing.tools.is_empty() && item.get("tools").is_some() {
        listing.tools = tools(item, &name);
    }
    listing.updated = official.map(|o| text(o, "updatedAt")).unwrap_or_default();
    Ok(listing)
}

fn whole(server: Value<'_>, name: &str) -> Result<Listing, Skip> {
    if name.is_empty() {
        return Err(Skip::NoName);
    }
    let repository = server.get("repository").map(|r| match r.kind() {
        Kind::Object => text(r, "url"),
        _ => word(r).into_owned(),
    });
    Ok(Listing {
        slug: catalog::slug::server(name),
        title: text(server, "title"),
        description: text(server, "description"),
        version: text(server, "version"),
        website: text(server, "websiteUrl"),
        repository: repository.unwrap_or_default(),
        updated: String::new(),
        source: source(server),
        tools: tools(server, name),
        name: name.to_owned(),
        is_whole: true,
    })
}

/// One tool on its own line.
fn part(tool: Value<'_>, server: &str) -> Result<Listing, Skip> {
    let tool = match tool.get("tool") {
        Some(inner) if inner.kind() == Kind::Object => one(server, inner, inner.raw().to_owned()),
        Some(name) => flat(server, tool, &name.as_str().ok_or(Skip::NoName)?),
        None => one(server, tool, tool.raw().to_owned()),
    };
    if server.is_empty() || tool.name.is_empty() {
        return Err(Skip::NoName);
    }
    let slug = catalog::slug::server(server);
    Ok(Listing { name: server.to_owned(), slug, tools: vec![tool], ..Listing::default() })
}

/// A tool whose parts are siblings, including `input_schema` and hints, as in data sets.
fn flat(server: &str, line: Value<'_>, name: &str) -> Tool {
    let mut definition = serde_json::Map::new();
    definition.insert("name".to_owned(), name.into());
    for key in ["title", "description"] {
        if let Some(text) = line.get(key).and_then(Value::as_str) {
            definition.insert(key.to_owned(), text.into());
        }
    }
    if let Some(schema) = line.get("input_schema").or_else(|| line.get("inputSchema")) {
        let schema = serde_json::from_str(schema.raw()).unwrap_or_default();
        definition.insert("inputSchema".to_owned(), schema);
    }
    let hints = [
        ("read_only_hint", "readOnlyHint"),
        ("destructive_hint", "destructiveHint"),
        ("idempotent_hint", "idempotentHint"),
        ("open_world_hint", "openWorldHint"),
    ];
    let annotations: serde_json::Map<String, serde_json::Value> = hints
        .into_iter()
        .filter_map(|(from, to)| {
            let hint = line.get(from).and_then(Value::as_bool)?;
            Some((to.to_owned(), hint.into()))
        })
        .collect();
    if !annotations.is_empty() {
        definition.insert("annotations".to_owned(), annotations.into());
    }
    let text = serde_json::Value::from(definition).to_string();
    match Doc::read(text.as_bytes(), &Bounds::ANSWER) {
        Ok(doc) => one(server, doc.root(), text.clone()),
        Err(_) => one(server, line, line.raw().to_owned()),
    }
}

fn tools(server: Value<'_>, name: &str) -> Vec<Tool> {
    let list = server.get("tools").into_iter().flat_map(Value::items);
    let objects = list.filter(|tool| tool.kind() == Kind::Object && tool.get("name").is_some());
    let mut tools: Vec<Tool> = objects.map(|tool| one(name, tool, tool.raw().to_owned())).collect();
    let slugs = catalog::slug::tools(tools.iter().map(|tool| tool.name.as_str()));
    for (tool, slug) in tools.iter_mut().zip(slugs) {
        tool.slug = slug;
    }
    tools
}

fn one(server: &str, tool: Value<'_>, definition: String) -> Tool {
    let classed = classify_brief(server, tool);
    let bit = |kind: SignalKind| SignalKind::ALL.iter().position(|k| *k == kind).unwrap_or(31);
    let name = text(tool, "name");
    let (name_words, text_words) = words::of_tool(tool);
    Tool {
        slug: catalog::slug::tool(&name),
        category: super::rank(catalog::classify::Category::ALL, classed.category),
        risk: super::rank(catalog::classify::Risk::ALL, classed.risk),
        signals: classed.signals.iter().fold(0, |bits, kind| bits | 1 << bit(*kind)),
        does: beginning(&text(tool, "description")),
        definition,
        name_words,
        text_words,
        name,
    }
}

/// The first paragraph, truncated to fit a list.
fn beginning(text: &str) -> String {
    let first = text.split("\n\n").find(|part| !part.trim().is_empty()).unwrap_or_default();
    let mut out = String::with_capacity(first.len().min(DOES_CHARS_MAX));
    for word in first.split_whitespace() {
        if out.len() + word.len() > DOES_CHARS_MAX {
            out.push('…');
            break;
        }
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    out
}

/// How to get the server: its packages and addresses, as given.
fn source(server: Value<'_>) -> String {
    let parts: Vec<String> = ["packages", "remotes"]
        .into_iter()
        .filter_map(|key| server.get(key).map(|value| format!("\"{key}\":{}", value.raw())))
        .collect();
    format!("{{{}}}", parts.join(","))
}

fn text(object: Value<'_>, key: &str) -> String {
    object.get(key).map(word).unwrap_or_default().into_owned()
}

fn word(value: Value<'_>) -> Cow<'_, str> {
    value.as_str().unwrap_or_default()
}
