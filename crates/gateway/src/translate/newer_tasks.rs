//! Tasks that a newer server makes of calls, as clients of 2025-11-25 know them.

use policy::json::{Bounds, Doc, Kind, Value};
use serde_json::json;

use crate::rebuild::{self, Member, string};
use crate::wire::{TASKS, meta_keys};

/// Whether a modern server made a task of a call.
pub(crate) fn is_begun(result: Value<'_>) -> bool {
    result.get("resultType").and_then(Value::as_str).as_deref() == Some("task")
}

/// The same as a legacy client knows it: the task lies within, and every task begins as `working`, however
/// far it has come.
pub(crate) fn legacy_begun(task: Value<'_>) -> String {
    let of = task.get("_meta").map(|of| format!(",\"_meta\":{}", of.raw()));
    format!("{{\"task\":{}{}}}", legacy_with(task, Some("working")), of.unwrap_or_default())
}

/// A task in the words of the older era, which keeps apart what it asks and what it came to.
pub(crate) fn legacy_task(task: Value<'_>) -> String {
    // There a tool that failed is a task that did.
    let failed = |result: Value<'_>| result.get("isError").and_then(Value::as_bool) == Some(true);
    let is_failed = task.get("result").is_some_and(failed);
    legacy_with(task, is_failed.then_some("failed"))
}

/// The same with another status, where one is named.
fn legacy_with(task: Value<'_>, status: Option<&str>) -> String {
    let raw = |key: &str| task.get(key).map(|value| value.raw().to_owned());
    let mut extra = vec![("ttl", raw("ttlMs").unwrap_or_else(|| "null".to_owned()))];
    extra.extend(raw("pollIntervalMs").map(|every| ("pollInterval", every)));
    rebuild::object(
        task,
        |key, _| match key {
            "status" => status.map_or(Member::Keep, |status| Member::Replace(string(status))),
            "ttlMs" | "pollIntervalMs" | "resultType" | "cacheScope" | "inputRequests"
            | "result" | "error" | "_meta" => Member::Drop,
            _ => Member::Keep,
        },
        &extra,
    )
}

/// How a task stands.
pub(crate) enum Stand<'a> {
    Working,
    Asks,
    Result(Value<'a>),
    Error(Value<'a>),
    Cancelled,
}

/// As a modern server says it; nothing where that cannot be told.
pub(crate) fn stand(task: Value<'_>) -> Option<Stand<'_>> {
    let object = |key: &str| task.get(key).filter(|value| value.kind() == Kind::Object);
    match task.get("status")?.as_str()?.as_ref() {
        "working" => Some(Stand::Working),
        "input_required" => Some(Stand::Asks),
        "completed" => object("result").map(Stand::Result),
        "failed" => object("error").map(Stand::Error),
        "cancelled" => Some(Stand::Cancelled),
        _ => None,
    }
}

/// What a legacy client gets with the task that it belongs to: a result, or the params of a question.
pub(crate) fn related(value: Value<'_>, task: &str) -> String {
    let to = format!("{{\"taskId\":{}}}", string(task));
    let of = match value.get("_meta").filter(|of| of.kind() == Kind::Object) {
        Some(of) => rebuild::with(of, meta_keys::RELATED_TASK, to),
        None => format!("{{{}:{to}}}", string(meta_keys::RELATED_TASK)),
    };
    rebuild::with(value, "_meta", of)
}

/// What a legacy client can do, in a modern request. Tasks of the newer era are the gate's to take, never
/// such a client's.
pub(crate) fn declared(capabilities: &str, takes_tasks: bool) -> String {
    let Ok(doc) = Doc::read(capabilities.as_bytes(), &Bounds::ANSWER) else {
        return capabilities.to_owned();
    };
    let all = doc.root();
    let extensions = all.get("extensions").filter(|all| all.kind() == Kind::Object);
    let ours: &[(&str, String)] = &[(TASKS, "{}".to_owned())];
    let ours = if takes_tasks { ours } else { &[] };
    let drop = |key: &str, _: Value<'_>| if key == TASKS { Member::Drop } else { Member::Keep };
    match extensions {
        Some(extensions) => {
            rebuild::with(all, "extensions", rebuild::object(extensions, drop, ours))
        }
        None if takes_tasks => {
            rebuild::with(all, "extensions", format!("{{{}:{{}}}}", string(TASKS)))
        }
        None => capabilities.to_owned(),
    }
}

/// The tools of a server that may make tasks of calls: which ones, only a call shows.
pub(crate) fn perhaps_as_tasks(result: Value<'_>) -> String {
    let tool = |tool: Value<'_>| match tool.get("execution") {
        Some(_) => tool.raw().to_owned(),
        None => rebuild::with(tool, "execution", json!({ "taskSupport": "optional" }).to_string()),
    };
    let tools = result.get("tools").map(|tools| rebuild::array(tools.items().map(tool)));
    match tools {
        Some(tools) => rebuild::with(result, "tools", tools),
        None => result.raw().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn on<T>(source: &str, act: impl Fn(Value<'_>) -> T) -> T {
        let doc = Doc::read(source.as_bytes(), &Bounds::ANSWER).unwrap();
        act(doc.root())
    }

    #[test]
    fn a_task_is_put_into_the_words_of_the_older_era() {
        for (task, expected) in [
            (
                r#"{"resultType":"complete","taskId":"t","status":"working","ttlMs":5,"pollIntervalMs":1,"x":1.0}"#,
                r#"{"taskId":"t","status":"working","x":1.0,"ttl":5,"pollInterval":1}"#,
            ),
            (
                r#"{"taskId":"t","status":"completed","result":{"isError":true}}"#,
                r#"{"taskId":"t","status":"failed","ttl":null}"#,
            ),
            (
                r#"{"taskId":"t","status":"input_required","inputRequests":{},"ttlMs":null}"#,
                r#"{"taskId":"t","status":"input_required","ttl":null}"#,
            ),
        ] {
            assert_eq!(on(task, legacy_task), expected);
        }
        let begun = r#"{"resultType":"task","taskId":"t","_meta":{"a":1}}"#;
        assert_eq!(
            on(begun, legacy_begun),
            r#"{"task":{"taskId":"t","ttl":null},"_meta":{"a":1}}"#
        );
    }

    #[test]
    fn tasks_of_the_newer_era_are_the_gates_to_take() {
        const OURS: &str = r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;
        for (said, takes, expected) in [
            ("{}", false, "{}"),
            ("{}", true, OURS),
            (OURS, true, OURS),
            (OURS, false, r#"{"extensions":{}}"#),
            (r#"{"extensions":{"a/b":{}}}"#, false, r#"{"extensions":{"a/b":{}}}"#),
        ] {
            assert_eq!(declared(said, takes), expected);
        }
    }
}
