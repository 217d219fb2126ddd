//! A server's question to the client, without what the policy cuts out of results: a question is said in
//! the middle of a call and can hold what its result would.

use policy::Effects;
use policy::json::{Bounds, Doc, Kind, Value};

use super::{blocks, cut, other, text};
use crate::rebuild::{self, Member};
use crate::wire::Id;

/// What a form needs to be one. Its words, its choices and what it is filled with are left out, because
/// they may be anything.
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

/// The params of a question as the client may have them, from their text.
pub(crate) fn asked_text(effects: &Effects, params: &str) -> String {
    let doc = Doc::read(params.as_bytes(), &Bounds::ANSWER);
    doc.map_or_else(|_| "{}".to_owned(), |doc| asked(effects, doc.root()))
}

fn asked(effects: &Effects, params: Value<'_>) -> String {
    if params.kind() != Kind::Object {
        return "{}".to_owned();
    }
    let left = cut(effects, params);
    match Doc::read(left.as_bytes(), &Bounds::ANSWER) {
        Ok(doc) => rebuild::object(doc.root(), |key, value| member(effects, key, value), &[]),
        // It cannot be read any deeper, so nobody can tell what it holds.
        Err(_) => "{}".to_owned(),
    }
}

/// A question that cannot be read to its bottom, so that nobody can tell what it holds.
pub(crate) struct Unread;

/// The params of the question in a message, if something must be cut out of them.
pub(crate) fn question(
    effects: Option<&Effects>,
    message: &[u8],
) -> Result<Option<String>, Unread> {
    let Some(effects) = effects else { return Ok(None) };
    let doc = Doc::read(message, &Bounds::ANSWER).map_err(|_| Unread)?;
    Ok(doc.root().get("params").map(|params| asked(effects, params)))
}

/// The message with other params and under another id, or nothing when it stays as it is.
pub(crate) fn question_as(
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
    Some(rebuild::object(root, change, &[]))
}

/// The questions of an `input_required` result or task.
pub(super) fn requests(effects: &Effects, value: Value<'_>) -> String {
    if value.kind() != Kind::Object {
        return "{}".to_owned();
    }
    let one = |request: Value<'_>| {
        rebuild::object(
            request,
            |key, value| match key {
                "params" => Member::Replace(asked(effects, value)),
                _ => Member::Replace(other(effects, value)),
            },
            &[],
        )
    };
    rebuild::object(
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
        ("message" | "systemPrompt", _) => text(effects, value),
        ("messages" | "tools", _) => blocks(effects, value),
        ("requestedSchema" | "inputSchema", Kind::Object) => schema(value),
        // What the protocol gives a meaning: an address, an id, a word, a number.
        ("mode" | "url" | "elicitationId" | "includeContext" | "_meta" | "task", _)
        | ("modelPreferences" | "toolChoice", Kind::Object)
        | (_, Kind::Number | Kind::Bool | Kind::Null) => other(effects, value),
        _ => return Member::Drop,
    })
}

fn schema(value: Value<'_>) -> String {
    let each = |value: Value<'_>| match value.kind() {
        Kind::Object => schema(value),
        _ => value.raw().to_owned(),
    };
    let properties = |value: Value<'_>| {
        rebuild::object(value, |_, property| Member::Replace(each(property)), &[])
    };
    rebuild::object(
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
