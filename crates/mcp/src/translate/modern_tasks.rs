//! Tasks of a modern server in the form of 2025-11-25 clients.

use policy::json::{Bounds, Doc, Kind, Value};
use serde_json::json;

use crate::edit::{self, Member, string};
use crate::{TASKS, meta_keys};

/// Whether a modern call result is a task.
pub fn is_task(result: Value<'_>) -> bool {
    result.get("resultType").and_then(Value::as_str).as_deref() == Some("task")
}

/// The legacy form: the task is nested, and its first status is `working`, whatever its real one.
pub fn legacy_created(task: Value<'_>) -> String {
    let of = task.get("_meta").map(|of| format!(",\"_meta\":{}", of.raw()));
    format!("{{\"task\":{}{}}}", legacy_with(task, Some("working")), of.unwrap_or_default())
}

/// A task in legacy form, without input requests and outcome, which are separate there.
pub fn legacy_task(task: Value<'_>) -> String {
    // In legacy revisions a failed tool fails its task.
    let failed = |result: Value<'_>| result.get("isError").and_then(Value::as_bool) == Some(true);
    let is_failed = task.get("result").is_some_and(failed);
    legacy_with(task, is_failed.then_some("failed"))
}

/// The same with another status, if given.
fn legacy_with(task: Value<'_>, status: Option<&str>) -> String {
    let raw = |key: &str| task.get(key).map(|value| value.raw().to_owned());
    let mut extra = vec![("ttl", raw("ttlMs").unwrap_or_else(|| "null".to_owned()))];
    extra.extend(raw("pollIntervalMs").map(|every| ("pollInterval", every)));
    edit::object(
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

/// The state of a task.
pub enum TaskState<'a> {
    Working,
    InputRequired,
    Result(Value<'a>),
    Error(Value<'a>),
    Cancelled,
}

/// Parses a modern task; `None` if its state is unknown.
pub fn state(task: Value<'_>) -> Option<TaskState<'_>> {
    let object = |key: &str| task.get(key).filter(|value| value.kind() == Kind::Object);
    match task.get("status")?.as_str()?.as_ref() {
        "working" => Some(TaskState::Working),
        "input_required" => Some(TaskState::InputRequired),
        "completed" => object("result").map(TaskState::Result),
        "failed" => object("error").map(TaskState::Error),
        "cancelled" => Some(TaskState::Cancelled),
        _ => None,
    }
}

/// A result, or the params of a server request, with the id of its task for legacy clients.
pub fn with_related_task(value: Value<'_>, task: &str) -> String {
    let to = format!("{{\"taskId\":{}}}", string(task));
    let of = match value.get("_meta").filter(|of| of.kind() == Kind::Object) {
        Some(of) => edit::with(of, meta_keys::RELATED_TASK, to),
        None => format!("{{{}:{to}}}", string(meta_keys::RELATED_TASK)),
    };
    edit::with(value, "_meta", of)
}

/// A legacy client's capabilities in a modern request. Support for modern tasks is the gate's
/// decision, never that of the client.
pub fn declare_tasks(capabilities: &str, takes_tasks: bool) -> String {
    let Ok(doc) = Doc::read(capabilities.as_bytes(), &Bounds::ANSWER) else {
        return capabilities.to_owned();
    };
    let all = doc.root();
    let extensions = all.get("extensions").filter(|all| all.kind() == Kind::Object);
    let ours: &[(&str, String)] = &[(TASKS, "{}".to_owned())];
    let ours = if takes_tasks { ours } else { &[] };
    let drop = |key: &str, _: Value<'_>| if key == TASKS { Member::Drop } else { Member::Keep };
    match extensions {
        Some(extensions) => edit::with(all, "extensions", edit::object(extensions, drop, ours)),
        None if takes_tasks => edit::with(all, "extensions", format!("{{{}:{{}}}}", string(TASKS))),
        None => capabilities.to_owned(),
    }
}

/// A tool list where any tool may create a task: only a call shows which ones do.
pub fn with_optional_tasks(result: Value<'_>) -> String {
    let tool = |tool: Value<'_>| match tool.get("execution") {
        Some(_) => tool.raw().to_owned(),
        None => edit::with(tool, "execution", json!({ "taskSupport": "optional" }).to_string()),
    };
    let tools = result.get("tools").map(|tools| edit::array(tools.items().map(tool)));
    match tools {
        Some(tools) => edit::with(result, "tools", tools),
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
    fn a_modern_task_gets_the_legacy_form() {
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
            on(begun, legacy_created),
            r#"{"task":{"taskId":"t","ttl":null},"_meta":{"a":1}}"#
        );
    }

    #[test]
    fn only_the_gate_declares_modern_tasks() {
        const OURS: &str = r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;
        for (said, takes, expected) in [
            ("{}", false, "{}"),
            ("{}", true, OURS),
            (OURS, true, OURS),
            (OURS, false, r#"{"extensions":{}}"#),
            (r#"{"extensions":{"a/b":{}}}"#, false, r#"{"extensions":{"a/b":{}}}"#),
        ] {
            assert_eq!(declare_tasks(said, takes), expected);
        }
    }
}
