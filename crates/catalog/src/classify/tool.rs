//! A tool definition parsed for the classifier: words, parameters, choices and hints.

use std::borrow::Cow;

use policy::json::{Kind, Value};

use super::text::{Word, name_words, sentences};

/// Schemas are read to this depth; deeper fields do not affect the category.
const DEPTH_MAX: usize = 3;
/// Parameters read from one schema, so that a huge one cannot slow a scan.
const PARAMETERS_MAX: usize = 200;
/// Characters read from a description. Authors say first what a tool does.
const DESCRIPTION_CHARS_MAX: usize = 6_000;

#[derive(Debug, Default)]
pub(super) struct ParsedTool {
    pub(super) name: String,
    pub(super) name_words: Vec<Word>,
    pub(super) title: String,
    pub(super) description: String,
    pub(super) sentences: Vec<Vec<Word>>,
    pub(super) parameters: Vec<ParsedParameter>,
    /// The definition has an input schema with `properties`, even if empty.
    pub(super) has_schema: bool,
    pub(super) hints: Hints,
}

#[derive(Debug)]
pub(super) struct ParsedParameter {
    /// Dotted path below the input, `[]` for elements.
    pub(super) path: String,
    pub(super) name: String,
    pub(super) words: Vec<Word>,
    pub(super) description: String,
    pub(super) choices: Vec<String>,
    pub(super) required: bool,
    pub(super) is_list: bool,
    /// The schema says that it holds web addresses, whatever its name is.
    pub(super) is_address: bool,
    pub(super) depth: usize,
}

/// Annotations of the author. `None` is not `false`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Hints {
    pub(super) read_only: Option<bool>,
    pub(super) destructive: Option<bool>,
    pub(super) open_world: Option<bool>,
}

impl ParsedTool {
    pub(super) fn read(server: &str, tool: Value<'_>) -> Self {
        let name = text(tool, "name");
        let annotations = tool.get("annotations");
        let title = match text(tool, "title") {
            title if title.is_empty() => annotations.map(|a| text(a, "title")).unwrap_or_default(),
            title => title,
        };
        let description: String =
            text(tool, "description").chars().take(DESCRIPTION_CHARS_MAX).collect();
        let mut parameters = Vec::new();
        let has_schema = tool.get("inputSchema").is_some_and(|s| s.get("properties").is_some());
        if let Some(schema) = tool.get("inputSchema") {
            read_fields(schema, "", 0, &mut parameters);
        }
        let flag = |key: &str| annotations.and_then(|a| a.get(key)).and_then(Value::as_bool);
        Self {
            name_words: own_words(server, &name),
            sentences: sentences(&description),
            hints: Hints {
                read_only: flag("readOnlyHint"),
                destructive: flag("destructiveHint"),
                open_world: flag("openWorldHint"),
            },
            name,
            title,
            description,
            parameters,
            has_schema,
        }
    }
}

fn text(object: Value<'_>, key: &str) -> String {
    object.get(key).and_then(Value::as_str).unwrap_or_default().into_owned()
}

/// The words of the name without the server name as a prefix.
fn own_words(server: &str, name: &str) -> Vec<Word> {
    let words = name_words(name);
    let server: Vec<String> = name_words(server).into_iter().map(|w| w.base).collect();
    let is_prefix = |w: &&Word| server.contains(&w.base) && super::lexicon::verb(&w.base).is_none();
    let prefix = words.iter().take_while(is_prefix).count();
    if prefix == words.len() { words } else { words.into_iter().skip(prefix).collect() }
}

fn read_fields(schema: Value<'_>, path: &str, depth: usize, out: &mut Vec<ParsedParameter>) {
    if depth >= DEPTH_MAX {
        return;
    }
    let required: Vec<String> = schema
        .get("required")
        .map(|list| list.items().filter_map(|v| v.as_str().map(Cow::into_owned)).collect())
        .unwrap_or_default();
    let Some(fields) = schema.get("properties").filter(|v| v.kind() == Kind::Object) else {
        return;
    };
    for (key, field) in fields.entries() {
        if out.len() >= PARAMETERS_MAX {
            return;
        }
        let name = key.text().into_owned();
        let required = required.contains(&name);
        read_field(&name, field, required, path, depth, out);
    }
}

fn read_field(
    name: &str,
    field: Value<'_>,
    required: bool,
    path: &str,
    depth: usize,
    out: &mut Vec<ParsedParameter>,
) {
    let path = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    let is_list = field.get("type").and_then(Value::as_str).as_deref() == Some("array");
    out.push(ParsedParameter {
        name: name.to_owned(),
        words: name_words(name),
        description: text(field, "description"),
        choices: choices(field, 0),
        required,
        is_list,
        is_address: is_address(field, 0),
        depth,
        path: path.clone(),
    });
    read_fields(field, &path, depth + 1, out);
    if let Some(items) = field.get("items") {
        read_fields(items, &format!("{path}[]"), depth + 1, out);
    }
    for branch in ["anyOf", "oneOf", "allOf"] {
        for option in field.get(branch).into_iter().flat_map(Value::items) {
            read_fields(option, &path, depth + 1, out);
        }
    }
}

/// The format `uri` or `url`, or a default or an example that is a web address, also of an alternative.
fn is_address(field: Value<'_>, depth: usize) -> bool {
    let is_web = |v: Value<'_>| {
        v.as_str().is_some_and(|t| t.starts_with("http://") || t.starts_with("https://"))
    };
    let format = field.get("format").and_then(Value::as_str);
    let examples = field.get("examples").into_iter().flat_map(Value::items);
    let branches = ["anyOf", "oneOf"].into_iter().filter_map(|branch| field.get(branch));
    let inner = branches.flat_map(Value::items).chain(field.get("items"));
    matches!(format.as_deref(), Some("uri" | "url"))
        || field.get("default").into_iter().chain(examples).any(is_web)
        || (depth < DEPTH_MAX && inner.into_iter().any(|option| is_address(option, depth + 1)))
}

/// Allowed values: `enum`, `const`, and those of the alternatives.
fn choices(field: Value<'_>, depth: usize) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let listed = field.get("enum").into_iter().flat_map(Value::items);
    found.extend(listed.chain(field.get("const")).filter_map(|v| v.as_str().map(Cow::into_owned)));
    if depth < DEPTH_MAX {
        for branch in ["anyOf", "oneOf"] {
            for option in field.get(branch).into_iter().flat_map(Value::items) {
                found.extend(choices(option, depth + 1));
            }
        }
        if let Some(items) = field.get("items") {
            found.extend(choices(items, depth + 1));
        }
    }
    found
}
