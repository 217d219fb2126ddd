//! Redacts server requests: a request in the middle of a call can contain what its result would.

use policy::Effects;
use policy::json::{Bounds, Doc, Kind, Value};

use super::{redact_blocks, redact_defined_member, redact_text, remove_members};
use mcp::Id;
use mcp::edit::{self, Member};

/// The structure of a form. Descriptions, choices and defaults are dropped, because they may contain anything.
const SCHEMA_MEMBERS: [&str; 12] = [
    "type",
    "properties",
    "required",
    "format",
    "items",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "additionalProperties",
];

/// The redacted params of a server request, from their text.
pub(crate) fn redact_params_text(effects: &Effects, params: &str) -> String {
    let doc = Doc::read(params.as_bytes(), &Bounds::ANSWER);
    doc.map_or_else(|_| "{}".to_owned(), |doc| redact_params(effects, doc.root()))
}

fn redact_params(effects: &Effects, params: Value<'_>) -> String {
    if params.kind() != Kind::Object {
        return "{}".to_owned();
    }
    let left = remove_members(effects, params);
    match Doc::read(left.as_bytes(), &Bounds::ANSWER) {
        Ok(doc) => edit::object(doc.root(), |key, value| member(effects, key, value), &[]),
        // Too deep to parse, so it cannot be checked.
        Err(_) => "{}".to_owned(),
    }
}

/// A server request that is too deep to parse, so it cannot be checked.
pub(crate) struct UnreadableRequest;

/// The redacted params of the request in a message, if anything is redacted.
pub(crate) fn redact_request(
    effects: Option<&Effects>,
    message: &[u8],
) -> Result<Option<String>, UnreadableRequest> {
    let Some(effects) = effects else { return Ok(None) };
    let doc = Doc::read(message, &Bounds::ANSWER).map_err(|_| UnreadableRequest)?;
    Ok(doc.root().get("params").map(|params| redact_params(effects, params)))
}

/// The message with other params and another id, or none if it stays unchanged.
pub(crate) fn rewrite_request(
    root: Value<'_>,
    params: Option<&str>,
    id: Option<&Id>,
) -> Option<String> {
    if params.is_none() && id.is_none() {
        return None;
    }
    let change = |key: &str, _: Value<'_>| match (key, id, params) {
        ("id", Some(id), _) => Member::Replace(id.raw().to_owned()),
        ("params", _, Some(params)) => Member::Replace(params.to_owned()),
        ("jsonrpc" | "method" | "id" | "params", _, _) => Member::Keep,
        _ if params.is_some() => Member::Drop,
        _ => Member::Keep,
    };
    Some(edit::object(root, change, &[]))
}

/// The input requests of an `input_required` result or task.
pub(super) fn redact_input_requests(effects: &Effects, value: Value<'_>) -> String {
    if value.kind() != Kind::Object {
        return "{}".to_owned();
    }
    let one = |request: Value<'_>| {
        edit::object(
            request,
            |key, value| match key {
                "params" => Member::Replace(redact_params(effects, value)),
                _ => Member::Replace(redact_defined_member(effects, value)),
            },
            &[],
        )
    };
    edit::object(
        value,
        |_, request| match request.kind() {
            Kind::Object => Member::Replace(one(request)),
            _ => Member::Drop,
        },
        &[],
    )
}

fn member(effects: &Effects, key: &str, value: Value<'_>) -> Member {
    Member::Replace(match (key, value.kind()) {
        ("message" | "systemPrompt", _) => redact_text(effects, value),
        ("messages" | "tools", _) => redact_blocks(effects, value),
        ("requestedSchema" | "inputSchema", Kind::Object) => schema(value),
        // Members that the protocol defines: a URL, an id, a keyword, a number.
        ("mode" | "url" | "elicitationId" | "includeContext" | "_meta" | "task", _)
        | ("modelPreferences" | "toolChoice", Kind::Object)
        | (_, Kind::Number | Kind::Bool | Kind::Null) => redact_defined_member(effects, value),
        _ => return Member::Drop,
    })
}

fn schema(value: Value<'_>) -> String {
    let each = |value: Value<'_>| match value.kind() {
        Kind::Object => schema(value),
        _ => value.raw().to_owned(),
    };
    let properties =
        |value: Value<'_>| edit::object(value, |_, property| Member::Replace(each(property)), &[]);
    edit::object(
        value,
        |key, value| match (key, value.kind()) {
            ("properties", Kind::Object) => Member::Replace(properties(value)),
            (_, Kind::Object) if SCHEMA_MEMBERS.contains(&key) => Member::Replace(schema(value)),
            _ if SCHEMA_MEMBERS.contains(&key) => Member::Keep,
            _ => Member::Drop,
        },
        &[],
    )
}
