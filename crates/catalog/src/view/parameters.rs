//! What a tool takes, one line for each parameter.

use std::borrow::Cow;

use policy::json::{Kind, Value};
use serde::Serialize;

/// Parameters on one page; a page with more says so.
const PARAMETERS_MAX: usize = 100;
/// Choices of one parameter that are shown.
const CHOICES_MAX: usize = 20;

/// One parameter of a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Parameter {
    pub name: String,
    /// `string`, `array of string`, or empty when the schema does not say.
    pub kind: String,
    pub required: bool,
    pub description: String,
    pub choices: Vec<String>,
}

pub(super) fn of(tool: Value<'_>) -> Vec<Parameter> {
    let Some(schema) = tool.get("inputSchema") else { return Vec::new() };
    let required: Vec<Cow<'_, str>> = schema
        .get("required")
        .into_iter()
        .flat_map(Value::items)
        .filter_map(Value::as_str)
        .collect();
    let fields = schema.get("properties").into_iter().flat_map(Value::entries);
    fields
        .take(PARAMETERS_MAX)
        .map(|(key, field)| {
            let name = key.text();
            Parameter {
                kind: kind(field),
                required: required.contains(&name),
                description: text(field, "description"),
                choices: choices(field),
                name: name.into_owned(),
            }
        })
        .collect()
}

fn kind(field: Value<'_>) -> String {
    let one = |value: Value<'_>| match value.kind() {
        Kind::Array => {
            let all: Vec<String> =
                value.items().filter_map(|v| v.as_str().map(Cow::into_owned)).collect();
            all.join(" or ")
        }
        _ => value.as_str().unwrap_or_default().into_owned(),
    };
    let own = field.get("type").map(one).unwrap_or_default();
    match field.get("items").and_then(|items| items.get("type")).map(one) {
        Some(item) if own == "array" && !item.is_empty() => format!("array of {item}"),
        _ => own,
    }
}

fn choices(field: Value<'_>) -> Vec<String> {
    let listed = field.get("enum").into_iter().flat_map(Value::items).take(CHOICES_MAX);
    listed.map(|v| v.as_str().map_or_else(|| v.raw().to_owned(), Cow::into_owned)).collect()
}

fn text(object: Value<'_>, key: &str) -> String {
    object.get(key).and_then(Value::as_str).unwrap_or_default().into_owned()
}
