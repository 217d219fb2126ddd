//! What conditions can be about: the argument paths of a tool's own schema with their types, and the operators
//! that fit each type.

use serde::Serialize;
use serde_json::Value;

/// Paths that are offered; a schema can have any number.
const PATHS_MAX: usize = 100;
const DEPTH_MAX: usize = 4;

/// A path and the type of what is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ArgumentPath {
    pub(crate) path: String,
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    /// The values that the schema allows, if it lists them.
    pub(crate) values: Vec<String>,
}

/// An operator and the types it fits, as words of JSON Schema.
pub(crate) struct OperatorChoice {
    pub(crate) name: &'static str,
    pub(crate) message: &'static str,
    pub(crate) types: String,
}

/// The facts about a call besides its arguments.
const FACTS: [(&str, &str); 7] = [
    ("caller.grant", "string"),
    ("caller.client", "string"),
    ("caller.session", "string"),
    ("tool.category", "string"),
    ("tool.risk", "string"),
    ("time.hour", "number"),
    ("time.weekday", "string"),
];

/// The paths of a definition as `tools/list` gives it, then the facts of every call.
pub(crate) fn argument_paths(definition: &Value) -> Vec<ArgumentPath> {
    let mut paths = Vec::new();
    if let Some(schema) = definition.get("inputSchema") {
        walk(schema, "args", 0, &mut paths);
    }
    // A prompt has a list of arguments, which are text.
    for argument in definition.get("arguments").and_then(Value::as_array).into_iter().flatten() {
        if let Some(name) = argument.get("name").and_then(Value::as_str) {
            let path = format!("args{}", step(name));
            paths.push(ArgumentPath { path, kind: "string", values: Vec::new() });
        }
    }
    paths.truncate(PATHS_MAX);
    let fact = |(path, kind): (&str, &'static str)| ArgumentPath {
        path: path.to_owned(),
        kind,
        values: Vec::new(),
    };
    paths.extend(FACTS.map(fact));
    paths
}

fn walk(schema: &Value, at: &str, depth: usize, paths: &mut Vec<ArgumentPath>) {
    if depth > DEPTH_MAX || paths.len() > PATHS_MAX {
        return;
    }
    if depth > 0 {
        paths.push(ArgumentPath {
            path: at.to_owned(),
            kind: kind(schema),
            values: values(schema),
        });
    }
    let members = schema.get("properties").and_then(Value::as_object);
    for (name, schema) in members.into_iter().flatten() {
        walk(schema, &format!("{at}{}", step(name)), depth + 1, paths);
    }
    if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
        walk(items, &format!("{at}[*]"), depth + 1, paths);
    }
}

/// A step of a path: a plain name after a point, anything else in quotes.
fn step(name: &str) -> String {
    let is_plain =
        !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'));
    if is_plain { format!(".{name}") } else { format!("[{}]", Value::from(name)) }
}

/// The type in the schema; of several, the first that is not null.
fn kind(schema: &Value) -> &'static str {
    let named = match schema.get("type") {
        Some(Value::Array(types)) => types.iter().filter_map(Value::as_str).find(|t| *t != "null"),
        Some(one) => one.as_str(),
        None => None,
    };
    match named {
        Some("string") => "string",
        Some("number" | "integer") => "number",
        Some("boolean") => "boolean",
        Some("array") => "array",
        Some("object") => "object",
        _ => "any",
    }
}

fn values(schema: &Value) -> Vec<String> {
    let listed = schema.get("enum").and_then(Value::as_array);
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    listed.into_iter().flatten().take(20).map(text).collect()
}

/// Every operator with the types it fits.
pub(crate) fn operator_choices() -> Vec<OperatorChoice> {
    let choice = |operator: &'static policy::Operator| OperatorChoice {
        name: operator.name,
        message: operator.description.split(';').next().unwrap_or_default(),
        types: types(operator.name).join(" "),
    };
    policy::operators().iter().map(choice).collect()
}

/// Whether an operator can compare values of this type at all.
pub(crate) fn fits(operator: &str, kind: &str) -> bool {
    kind == "any" || types(operator).contains(&kind)
}

fn types(operator: &str) -> &'static [&'static str] {
    match operator {
        "lt" | "lte" | "gt" | "gte" => &["number"],
        "eq" | "neq" | "in" | "not_in" => &["string", "number", "boolean"],
        "exists" => &["string", "number", "boolean", "array", "object"],
        "contains" | "length_lte" | "length_gte" => &["string", "array"],
        "regex" | "starts_with" | "ends_with" | "glob" | "path_under" | "url_host_in"
        | "cidr_in" => &["string"],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_and_types_come_from_the_schema() {
        let definition = json!({ "inputSchema": { "type": "object", "properties": {
            "amount": { "type": ["null", "integer"] },
            "odd.key": { "type": "string", "enum": ["a", "b"] },
            "items": { "type": "array", "items": { "type": "object", "properties": { "price": { "type": "number" } } } },
            "loose": {},
        } } });
        let found: Vec<(String, &str)> = argument_paths(&definition)
            .into_iter()
            .filter(|path| path.path.starts_with("args"))
            .map(|path| (path.path, path.kind))
            .collect();
        let expected = [
            ("args.amount", "number"),
            ("args[\"odd.key\"]", "string"),
            ("args.items", "array"),
            ("args.items[*]", "object"),
            ("args.items[*].price", "number"),
            ("args.loose", "any"),
        ];
        assert_eq!(found, expected.map(|(path, kind)| (path.to_owned(), kind)));
        assert!(fits("gt", "number") && !fits("gt", "string") && fits("gt", "any"));
        assert!(policy::operators().iter().all(|operator| !types(operator.name).is_empty()));
    }
}
