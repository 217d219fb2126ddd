//! What a policy does to results: members are cut out of structured content and of text alike, and a
//! result over its bound is refused, never cut.

mod question;

use policy::json::{Bounds, Doc, Kind, Value};
use policy::{Effects, cuts};

use crate::answers::DENIAL;
use crate::rebuild::{self, Member, string};

pub(crate) use question::{Unread, asked_text, question, question_as};

/// Stands where a text could not be checked for what must not be shown.
const WITHHELD: &str = "[withheld: the policy removes parts of this result, and this text is not JSON, so it could not be checked]";

/// Members of a result and of a content block that the protocol names. A path such as `name` does not
/// mean them: what is left must still be a result.
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

/// A result over `result_bytes_max`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLarge {
    pub(crate) bytes: u64,
    pub(crate) bytes_max: u64,
}

/// The result as the agent may have it, or nothing when it may have it as it is.
pub(crate) fn apply(effects: &Effects, result: Value<'_>) -> Result<Option<String>, TooLarge> {
    check_bytes(effects, result)?;
    if effects.redact.is_empty() {
        // What stands beside the result was not counted, so it does not go along.
        return Ok(effects.result_bytes_max.map(|_| result.raw().to_owned()));
    }
    Ok(Some(redacted(effects, result)))
}

/// The same for what a server says of a task: the result of the call, or its error, lies within.
pub(crate) fn apply_to_task(
    effects: &Effects,
    task: Value<'_>,
) -> Result<Option<String>, TooLarge> {
    check_bytes(effects, task)?;
    if effects.redact.is_empty() || task.kind() != Kind::Object {
        return apply(effects, task);
    }
    let within = rebuild::object(
        task,
        |key, value| match (key, value.kind()) {
            ("statusMessage", Kind::String) => Member::Replace(text(effects, value)),
            ("result", Kind::Object) => Member::Replace(redacted(effects, value)),
            ("error", Kind::Object) => Member::Replace(redacted_error(effects, value)),
            _ => Member::Keep,
        },
        &[],
    );
    match Doc::read(within.as_bytes(), &Bounds::ANSWER) {
        Ok(doc) => apply(effects, doc.root()),
        // It cannot be read any deeper, so nobody can tell what it holds.
        Err(_) => Ok(Some("{}".to_owned())),
    }
}

/// The same for an error, whose data may hold what a result would.
pub(crate) fn apply_to_error(
    effects: &Effects,
    error: Value<'_>,
) -> Result<Option<String>, TooLarge> {
    check_bytes(effects, error)?;
    Ok((!effects.redact.is_empty()).then(|| redacted_error(effects, error)))
}

fn redacted_error(effects: &Effects, error: Value<'_>) -> String {
    let change = |key: &str, value: Value<'_>| match key {
        // An agent must learn why a call failed; what a server writes there is its own words.
        "message" | "code" => Member::Keep,
        "data" => Member::Replace(checked(effects, value)),
        _ => unnamed(effects, key, value),
    };
    rebuild::object(error, change, &[])
}

/// A progress notification that says how far the call is, without words that could not be checked.
pub(crate) fn wordless_progress(notification: Value<'_>) -> String {
    let change = |key: &str, value: Value<'_>| match (key, value.kind()) {
        ("progressToken", _) | ("progress" | "total", Kind::Number) => Member::Keep,
        _ => Member::Drop,
    };
    let params = notification.get("params").map(|params| rebuild::object(params, change, &[]));
    rebuild::with(notification, "params", params.unwrap_or_else(|| "{}".to_owned()))
}

fn check_bytes(effects: &Effects, value: Value<'_>) -> Result<(), TooLarge> {
    let bytes = value.raw().len() as u64;
    match effects.result_bytes_max.filter(|max| bytes > *max) {
        Some(bytes_max) => Err(TooLarge { bytes, bytes_max }),
        None => Ok(()),
    }
}

/// Whether a server's result says of itself that the gate has refused the call.
pub(crate) fn speaks_for_us(result: Value<'_>) -> bool {
    let Some(meta) = result.get("_meta") else { return false };
    if meta.is_unopened() {
        let meta = Doc::read_shallow(meta.raw().as_bytes(), &Bounds::ANSWER, 1);
        return meta.is_ok_and(|meta| meta.root().get(DENIAL).is_some());
    }
    meta.get(DENIAL).is_some()
}

/// The result without what only the gate may say.
pub(crate) fn without_our_words(result: Value<'_>) -> String {
    let Some(meta) = result.get("_meta") else { return result.raw().to_owned() };
    let meta = match Doc::read_shallow(meta.raw().as_bytes(), &Bounds::ANSWER, 1) {
        Ok(doc) => rebuild::without(doc.root(), &[DENIAL]),
        // It was read a moment ago.
        Err(_) => "{}".to_owned(),
    };
    rebuild::with(result, "_meta", meta)
}

/// Whether anything must be looked at.
pub(crate) fn is_idle(effects: &Effects) -> bool {
    effects.redact.is_empty() && effects.result_bytes_max.is_none()
}

fn redacted(effects: &Effects, result: Value<'_>) -> String {
    if result.kind() != Kind::Object {
        return checked(effects, result);
    }
    rebuild::object(
        result,
        |key, value| match key {
            "structuredContent" => Member::Replace(checked(effects, value)),
            "content" | "contents" | "messages" => Member::Replace(blocks(effects, value)),
            // The protocol's own words; everything else may hold what the policy removes.
            "resultType" | "nextCursor" | "requestState" | "description"
                if value.kind() == Kind::String =>
            {
                Member::Keep
            }
            "inputRequests" => Member::Replace(question::requests(effects, value)),
            "task" if value.kind() == Kind::Object => Member::Replace(task(effects, value)),
            name if RESULT_MEMBERS.contains(&name) => Member::Replace(other(effects, value)),
            _ => unnamed(effects, key, value),
        },
        &[],
    )
}

/// What a result says of the task that was begun: its words are free text, like a result's.
fn task(effects: &Effects, value: Value<'_>) -> String {
    let change = |key: &str, member: Value<'_>| match key {
        "statusMessage" => Member::Replace(text(effects, member)),
        _ => Member::Replace(other(effects, member)),
    };
    let words = rebuild::object(value, change, &[]);
    match Doc::read(words.as_bytes(), &Bounds::ANSWER) {
        Ok(doc) => cut(effects, doc.root()),
        // It cannot be read any deeper, so it cannot be checked.
        Err(_) => "{}".to_owned(),
    }
}

/// A value without what the policy names, whatever its type: text is read as JSON or withheld.
fn checked(effects: &Effects, value: Value<'_>) -> String {
    match value.kind() {
        Kind::Object | Kind::Array => cut(effects, value),
        Kind::String => text(effects, value),
        _ => value.raw().to_owned(),
    }
}

/// The value without the members that the policy names.
fn cut(effects: &Effects, value: Value<'_>) -> String {
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

fn blocks(effects: &Effects, value: Value<'_>) -> String {
    match value.kind() {
        Kind::Array => rebuild::array(value.items().map(|item| block(effects, item))),
        _ => block(effects, value),
    }
}

/// A content block, a resource's contents, or a prompt's message.
fn block(effects: &Effects, value: Value<'_>) -> String {
    if value.kind() != Kind::Object {
        return checked(effects, value);
    }
    rebuild::object(
        value,
        |key, member| match key {
            "text" | "title" | "description" => Member::Replace(text(effects, member)),
            // Bytes that may well be text cannot be checked either.
            "blob" => Member::Replace(string("")),
            "resource" => Member::Replace(block(effects, member)),
            "content" => Member::Replace(blocks(effects, member)),
            name if BLOCK_MEMBERS.contains(&name) => Member::Replace(other(effects, member)),
            _ => unnamed(effects, key, member),
        },
        &[],
    )
}

/// A member that the protocol does not name. A path may lead into it, or begin with its name: the
/// result is where paths begin, too.
fn unnamed(effects: &Effects, key: &str, value: Value<'_>) -> Member {
    let alone = format!("{{{}:{}}}", string(key), other(effects, value));
    let cut = Doc::read(alone.as_bytes(), &Bounds::ANSWER).map(|doc| cut(effects, doc.root()));
    let left = cut.as_ref().map(|text| Doc::read(text.as_bytes(), &Bounds::ANSWER));
    match left {
        Ok(Ok(doc)) => doc
            .root()
            .get(key)
            .map_or(Member::Drop, |value| Member::Replace(value.raw().to_owned())),
        // It cannot be read any deeper, so nobody can tell what it holds.
        _ => Member::Drop,
    }
}

/// A member to which the protocol gives a meaning of its own: an address, a name, a word. It is no
/// place where a path begins. Only what can be read as JSON can hold what the policy removes.
fn other(effects: &Effects, value: Value<'_>) -> String {
    match value.kind() {
        Kind::Object | Kind::Array => cut(effects, value),
        Kind::String => json_text(effects, value).unwrap_or_else(|| value.raw().to_owned()),
        _ => value.raw().to_owned(),
    }
}

fn text(effects: &Effects, value: Value<'_>) -> String {
    if value.kind() != Kind::String {
        return cut(effects, value);
    }
    json_text(effects, value).unwrap_or_else(|| string(WITHHELD))
}

/// A text that holds a JSON object or array, without what the policy names.
fn json_text(effects: &Effects, value: Value<'_>) -> Option<String> {
    let text = value.as_str()?;
    let doc = Doc::read(text.as_bytes(), &Bounds::ANSWER).ok()?;
    let is_tree = matches!(doc.root().kind(), Kind::Object | Kind::Array);
    is_tree.then(|| string(&cut(effects, doc.root())))
}
