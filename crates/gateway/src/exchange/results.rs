//! Applies a policy to results: redacts structured content and text alike, and refuses a result over its limit,
//! never truncates it.

mod server_request;

use connectors::app::DRAWING;
use policy::json::{Bounds, Doc, Kind, Value};
use policy::{Effects, cuts};

use crate::exchange::error_responses::DENIAL;
use mcp::edit::{self, Member, string};
use mcp::is_look_alike;

pub(crate) use server_request::{
    UnreadableRequest, redact_params_text, redact_request, rewrite_request,
};

/// Replaces text that could not be checked.
const WITHHELD: &str = "[withheld: the policy removes parts of this result, and this text is not JSON, so it could not be checked]";

/// Members of a result and of a content block that the protocol defines. A path such as `name` does not match
/// them, because the rest must still be a valid result.
const RESULT_MEMBERS: [&str; 8] = [
    "resultType",
    "nextCursor",
    "requestState",
    "description",
    "isError",
    "_meta",
    "task",
    "completion",
];
const BLOCK_MEMBERS: [&str; 10] =
    ["type", "role", "data", "uri", "name", "mimeType", "size", "icons", "annotations", "_meta"];

/// Members of a content block whose text is checked.
const TEXT_MEMBERS: [&str; 6] = ["text", "title", "description", "blob", "resource", "content"];

/// A result over `result_bytes_max`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLarge {
    pub(crate) bytes: u64,
    pub(crate) bytes_max: u64,
}

/// The result for the agent, or none if it stays unchanged.
pub(crate) fn apply(effects: &Effects, result: Value<'_>) -> Result<Option<String>, TooLarge> {
    check_bytes(effects, result)?;
    if effects.redact.is_empty() {
        // Members next to the result were not counted, so they are dropped.
        return Ok(effects.result_bytes_max.map(|_| result.raw().to_owned()));
    }
    Ok(Some(redacted(effects, result)))
}

/// The same for a task, which contains the result or the error of the call.
pub(crate) fn apply_to_task(
    effects: &Effects,
    task: Value<'_>,
) -> Result<Option<String>, TooLarge> {
    check_bytes(effects, task)?;
    if effects.redact.is_empty() || task.kind() != Kind::Object {
        return apply(effects, task);
    }
    let within = edit::object(
        task,
        |key, value| match (key, value.kind()) {
            ("statusMessage", Kind::String) => Member::Replace(redact_text(effects, value)),
            ("result", Kind::Object) => Member::Replace(redacted(effects, value)),
            ("error", Kind::Object) => Member::Replace(redacted_error(effects, value)),
            _ => Member::Keep,
        },
        &[],
    );
    match Doc::read(within.as_bytes(), &Bounds::ANSWER) {
        Ok(doc) => apply(effects, doc.root()),
        // Too deep to parse, so it cannot be checked.
        Err(_) => Ok(Some("{}".to_owned())),
    }
}

/// The same for an error, whose data may contain what a result would.
pub(crate) fn apply_to_error(
    effects: &Effects,
    error: Value<'_>,
) -> Result<Option<String>, TooLarge> {
    check_bytes(effects, error)?;
    Ok((!effects.redact.is_empty()).then(|| redacted_error(effects, error)))
}

fn redacted_error(effects: &Effects, error: Value<'_>) -> String {
    let change = |key: &str, value: Value<'_>| match key {
        // An agent must learn why a call failed.
        "message" | "code" => Member::Keep,
        "data" => Member::Replace(redact_value(effects, value)),
        _ => redact_unknown_member(effects, key, value),
    };
    edit::object(error, change, &[])
}

/// A progress notification without its message, which cannot be checked.
pub(crate) fn progress_without_message(notification: Value<'_>) -> String {
    let change = |key: &str, value: Value<'_>| match (key, value.kind()) {
        ("progressToken", _) | ("progress" | "total", Kind::Number) => Member::Keep,
        _ => Member::Drop,
    };
    let params = notification.get("params").map(|params| edit::object(params, change, &[]));
    edit::with(notification, "params", params.unwrap_or_else(|| "{}".to_owned()))
}

fn check_bytes(effects: &Effects, value: Value<'_>) -> Result<(), TooLarge> {
    let bytes = value.raw().len() as u64;
    match effects.result_bytes_max.filter(|max| bytes > *max) {
        Some(bytes_max) => Err(TooLarge { bytes, bytes_max }),
        None => Ok(()),
    }
}

/// Whether a server's result claims to be a denial of the gate.
pub(crate) fn has_gate_denial(result: Value<'_>) -> bool {
    let Some(meta) = result.get("_meta") else { return false };
    if meta.is_unopened() {
        let meta = Doc::read_shallow(meta.raw().as_bytes(), &Bounds::ANSWER, 1);
        return meta.is_ok_and(|meta| meta.root().get(DENIAL).is_some());
    }
    meta.get(DENIAL).is_some()
}

/// The result without the gate's own member.
pub(crate) fn without_gate_denial(result: Value<'_>) -> String {
    let Some(meta) = result.get("_meta") else { return result.raw().to_owned() };
    let meta = match Doc::read_shallow(meta.raw().as_bytes(), &Bounds::ANSWER, 1) {
        Ok(doc) => edit::without(doc.root(), &[DENIAL]),
        // Cannot fail: it was parsed before.
        Err(_) => "{}".to_owned(),
    };
    edit::with(result, "_meta", meta)
}

/// Whether there is nothing to apply.
pub(crate) fn has_no_effects(effects: &Effects) -> bool {
    effects.redact.is_empty() && effects.result_bytes_max.is_none()
}

fn redacted(effects: &Effects, result: Value<'_>) -> String {
    if result.kind() != Kind::Object {
        return redact_value(effects, result);
    }
    edit::object(
        result,
        |key, value| match key {
            "structuredContent" => Member::Replace(redact_value(effects, value)),
            "content" | "contents" | "messages" => Member::Replace(redact_blocks(effects, value)),
            // Members that the protocol defines. All others may contain redacted data.
            "resultType" | "nextCursor" | "requestState" | "description"
                if value.kind() == Kind::String =>
            {
                Member::Keep
            }
            "_meta" => Member::Replace(meta(effects, value)),
            "inputRequests" => {
                Member::Replace(server_request::redact_input_requests(effects, value))
            }
            "task" if value.kind() == Kind::Object => Member::Replace(task(effects, value)),
            name if RESULT_MEMBERS.contains(&name) => {
                Member::Replace(redact_defined_member(effects, value))
            }
            _ => redact_unknown_member(effects, key, value),
        },
        &[],
    )
}

/// The `_meta` of a result, without the drawing for an app: it shows what the policy removes.
fn meta(effects: &Effects, value: Value<'_>) -> String {
    let Ok(doc) = Doc::read(value.raw().as_bytes(), &Bounds::ANSWER) else {
        // Too deep to parse, so it cannot be checked.
        return "{}".to_owned();
    };
    if doc.root().kind() != Kind::Object {
        return redact_defined_member(effects, doc.root());
    }
    let left = edit::without(doc.root(), &[DRAWING]);
    match Doc::read(left.as_bytes(), &Bounds::ANSWER) {
        Ok(doc) => redact_defined_member(effects, doc.root()),
        // Cannot fail: this code wrote it.
        Err(_) => "{}".to_owned(),
    }
}

/// The task in a result. Its message is free text, like a result's.
fn task(effects: &Effects, value: Value<'_>) -> String {
    let change = |key: &str, member: Value<'_>| match key {
        "statusMessage" => Member::Replace(redact_text(effects, member)),
        _ => Member::Replace(redact_defined_member(effects, member)),
    };
    let message = edit::object(value, change, &[]);
    match Doc::read(message.as_bytes(), &Bounds::ANSWER) {
        Ok(doc) => remove_members(effects, doc.root()),
        // Too deep to parse, so it cannot be checked.
        Err(_) => "{}".to_owned(),
    }
}

/// A redacted value of any type. Text is parsed as JSON, or withheld.
fn redact_value(effects: &Effects, value: Value<'_>) -> String {
    match value.kind() {
        Kind::Object | Kind::Array => remove_members(effects, value),
        Kind::String => redact_text(effects, value),
        _ => value.raw().to_owned(),
    }
}

/// The value without the members that the policy redacts.
fn remove_members(effects: &Effects, value: Value<'_>) -> String {
    let begin = value.span().start;
    let raw = value.raw();
    let mut out = String::with_capacity(raw.len());
    let mut at = 0;
    for range in cuts(&effects.redact, value) {
        let (start, end) = (range.start.saturating_sub(begin), range.end.saturating_sub(begin));
        out.push_str(raw.get(at..start.max(at)).unwrap_or_default());
        at = end.max(at);
    }
    out.push_str(raw.get(at..).unwrap_or_default());
    out
}

fn redact_blocks(effects: &Effects, value: Value<'_>) -> String {
    match value.kind() {
        Kind::Array => edit::array(value.items().map(|item| redact_block(effects, item))),
        _ => redact_block(effects, value),
    }
}

/// A content block, a resource's contents, or a prompt's message.
fn redact_block(effects: &Effects, value: Value<'_>) -> String {
    if value.kind() != Kind::Object {
        return redact_value(effects, value);
    }
    edit::object(
        value,
        |key, member| match key {
            "text" | "title" | "description" => Member::Replace(redact_text(effects, member)),
            // Bytes may be text and cannot be checked.
            "blob" => Member::Replace(string("")),
            "resource" => Member::Replace(redact_block(effects, member)),
            "content" => Member::Replace(redact_blocks(effects, member)),
            name if BLOCK_MEMBERS.contains(&name) => {
                Member::Replace(redact_defined_member(effects, member))
            }
            // A client that ignores case would show it instead.
            _ if is_look_alike(key, &TEXT_MEMBERS) => Member::Drop,
            _ => redact_unknown_member(effects, key, member),
        },
        &[],
    )
}

/// A member that the protocol does not define. A redaction path may start with it or lead into it.
fn redact_unknown_member(effects: &Effects, key: &str, value: Value<'_>) -> Member {
    let alone = format!("{{{}:{}}}", string(key), redact_defined_member(effects, value));
    let cut =
        Doc::read(alone.as_bytes(), &Bounds::ANSWER).map(|doc| remove_members(effects, doc.root()));
    let left = cut.as_ref().map(|text| Doc::read(text.as_bytes(), &Bounds::ANSWER));
    match left {
        Ok(Ok(doc)) => doc
            .root()
            .get(key)
            .map_or(Member::Drop, |value| Member::Replace(value.raw().to_owned())),
        // Too deep to parse, so it cannot be checked.
        _ => Member::Drop,
    }
}

/// A member that the protocol defines: a URL, a name, a keyword. No path starts there. Only JSON inside it is
/// redacted.
fn redact_defined_member(effects: &Effects, value: Value<'_>) -> String {
    match value.kind() {
        Kind::Object | Kind::Array => remove_members(effects, value),
        Kind::String => redact_json_text(effects, value).unwrap_or_else(|| value.raw().to_owned()),
        _ => value.raw().to_owned(),
    }
}

fn redact_text(effects: &Effects, value: Value<'_>) -> String {
    if value.kind() != Kind::String {
        return remove_members(effects, value);
    }
    redact_json_text(effects, value).unwrap_or_else(|| string(WITHHELD))
}

/// A text that contains a JSON object or array, redacted.
fn redact_json_text(effects: &Effects, value: Value<'_>) -> Option<String> {
    let text = value.as_str()?;
    let doc = Doc::read(text.as_bytes(), &Bounds::ANSWER).ok()?;
    let is_tree = matches!(doc.root().kind(), Kind::Object | Kind::Array);
    is_tree.then(|| string(&remove_members(effects, doc.root())))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use policy::{Format, Policy};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_redacted_result_has_no_drawing_of_what_was_removed() {
        let rules = json!({
            "version": "1", "default": "deny",
            "tools": { "today": { "redact": ["hrv"] } },
        });
        let policy = Policy::load(&rules.to_string(), Format::Json).unwrap();
        let effects = policy.effects_of_task("today").unwrap();
        let result = json!({
            "content": [], "structuredContent": { "hrv": 61, "recovery": 70 },
            "_meta": { DRAWING: "<svg>61 ms</svg>", "other": 1 },
        })
        .to_string();
        let doc = Doc::read(result.as_bytes(), &Bounds::ANSWER).unwrap();
        let left = apply(&effects, doc.root()).unwrap().unwrap();
        assert!(!left.contains("61") && left.contains("\"other\":1"), "{left}");
    }
}
