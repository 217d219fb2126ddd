//! Tasks of a legacy server (2025-11-25) in the form of the modern tasks extension.

use policy::json::{Kind, Value};
use serde_json::json;

use super::{InputRequest, NEWEST_LEGACY, without, write_input_requests};
use crate::TASKS;
use crate::edit::{self, Member, string};

/// The task in a legacy call result, if there is one: such a result has no content.
pub fn created_task(result: Value<'_>) -> Option<Value<'_>> {
    let task = result.get("task").filter(|_| result.get("content").is_none())?;
    (task.get("taskId")?.kind() == Kind::String).then_some(task)
}

/// The modern form: the task is the result.
pub(super) fn modern_created(result: Value<'_>, task: Value<'_>) -> String {
    let mut extra = vec![("resultType", string("task"))];
    extra.extend(result.get("_meta").map(|meta| ("_meta", meta.raw().to_owned())));
    modern_task(task, &extra)
}

/// A task in modern form, with `more` members.
fn modern_task(task: Value<'_>, more: &[(&str, String)]) -> String {
    let raw = |key: &str| task.get(key).map(|value| value.raw().to_owned());
    let mut extra = vec![("ttlMs", raw("ttl").unwrap_or_else(|| "null".to_owned()))];
    extra.extend(raw("pollInterval").map(|every| ("pollIntervalMs", every)));
    extra.extend(more.iter().cloned());
    let is_more = |key: &str| more.iter().any(|(name, _)| *name == key);
    edit::object(
        task,
        |key, _| match key {
            "ttl" | "pollInterval" => Member::Drop,
            _ if is_more(key) => Member::Drop,
            _ => Member::Keep,
        },
        &extra,
    )
}

/// Whether `tasks/result` has the outcome of a task.
pub fn has_ended(task: Value<'_>) -> bool {
    let status = task.get("status").and_then(Value::as_str);
    matches!(status.as_deref(), Some("completed" | "failed"))
}

/// The result of `tasks/get`. A legacy server returns the outcome separately; here it is included.
pub fn modern_get_result(task: Value<'_>, came_to: Option<TaskOutcome<'_>>) -> String {
    match came_to {
        None => modern_task(task, &[]),
        // A failed tool is a result like any other.
        Some(TaskOutcome::Result(result)) => {
            let result = edit::without(result, &["_meta"]);
            modern_task(task, &[("status", string("completed")), ("result", result)])
        }
        Some(TaskOutcome::Error(error)) => {
            let error = error.raw().to_owned();
            modern_task(task, &[("status", string("failed")), ("error", error)])
        }
    }
}

/// The same for a task that waits for input, with its input requests.
pub fn modern_input_required(task: Value<'_>, questions: &[InputRequest]) -> String {
    modern_task(task, &[("inputRequests", write_input_requests(questions))])
}

/// The same for a task that is known only not to have ended.
pub fn modern_working(task: Value<'_>) -> String {
    modern_task(task, &[("status", string("working"))])
}

/// Whether a task waits for input. A legacy server sends the requests on `tasks/result`.
pub fn is_input_required(task: Value<'_>) -> bool {
    task.get("status").and_then(Value::as_str).as_deref() == Some("input_required")
}

/// The outcome of a task.
#[derive(Clone, Copy)]
pub enum TaskOutcome<'a> {
    Result(Value<'a>),
    Error(Value<'a>),
}

/// A legacy server's capabilities, with the tasks extension instead of `tasks`.
pub(super) fn modern_capabilities(legacy: Option<&serde_json::Value>) -> serde_json::Value {
    let mut capabilities = without(legacy, "tasks");
    let mut extensions = others(legacy);
    let runs_tools = legacy
        .and_then(|all| all.get("tasks")?.get("requests")?.get("tools")?.get("call"))
        .is_some_and(serde_json::Value::is_object);
    if runs_tools {
        extensions.insert(TASKS.to_owned(), json!({}));
    }
    set_extensions(&mut capabilities, extensions);
    capabilities
}

/// The extensions of a server except tasks, which are translated. Unknown ones pass.
fn others(capabilities: Option<&serde_json::Value>) -> serde_json::Map<String, serde_json::Value> {
    let all = capabilities.and_then(|all| all.get("extensions")?.as_object());
    let mut others = all.cloned().unwrap_or_default();
    others.remove(TASKS);
    others
}

fn set_extensions(
    capabilities: &mut serde_json::Value,
    extensions: serde_json::Map<String, serde_json::Value>,
) {
    let Some(all) = capabilities.as_object_mut() else { return };
    if extensions.is_empty() {
        all.remove("extensions");
    } else {
        all.insert("extensions".to_owned(), extensions.into());
    }
}

/// A modern server's capabilities, with `tasks` instead of the extension for clients that know it.
/// A modern server cannot list tasks.
pub(super) fn legacy_capabilities(
    modern: Option<&serde_json::Value>,
    revision: &str,
) -> serde_json::Value {
    let mut capabilities = without(modern, "tasks");
    set_extensions(&mut capabilities, others(modern));
    let extends = modern.and_then(|all| all.get("extensions")?.get(TASKS)).is_some();
    if let (true, Some(all)) = (extends && revision == NEWEST_LEGACY, capabilities.as_object_mut())
    {
        let tasks = json!({ "cancel": {}, "requests": { "tools": { "call": {} } } });
        all.insert("tasks".to_owned(), tasks);
    }
    capabilities
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use policy::json::{Bounds, Doc};

    use super::*;

    const TASK: &str = r#"{"taskId":"t","status":"failed","createdAt":"a","lastUpdatedAt":"b","ttl":5,"pollInterval":1}"#;

    #[test]
    fn a_legacy_task_gets_the_modern_form() {
        let text = format!(r#"{{"task":{TASK},"_meta":{{"a":1}}}}"#);
        let doc = Doc::read(text.as_bytes(), &Bounds::ANSWER).unwrap();
        let task = created_task(doc.root()).unwrap();
        assert_eq!(
            modern_created(doc.root(), task),
            r#"{"taskId":"t","status":"failed","createdAt":"a","lastUpdatedAt":"b","ttlMs":5,"pollIntervalMs":1,"resultType":"task","_meta":{"a":1}}"#
        );
        let payload =
            Doc::read(br#"{"content":[],"isError":true,"_meta":{"x":1}}"#, &Bounds::ANSWER);
        let payload = payload.unwrap();
        let head =
            r#"{"taskId":"t","createdAt":"a","lastUpdatedAt":"b","ttlMs":5,"pollIntervalMs":1,"#;
        assert_eq!(
            modern_get_result(task, Some(TaskOutcome::Result(payload.root()))),
            format!(r#"{head}"status":"completed","result":{{"content":[],"isError":true}}}}"#)
        );
        assert_eq!(
            modern_get_result(task, Some(TaskOutcome::Error(payload.root().get("_meta").unwrap()))),
            format!(r#"{head}"status":"failed","error":{{"x":1}}}}"#)
        );
    }

    #[test]
    fn only_a_server_that_runs_tools_as_tasks_offers_the_extension() {
        for (legacy, extends) in [
            (json!({ "tasks": { "requests": { "tools": { "call": {} } } } }), true),
            (json!({ "tasks": { "list": {} }, "extensions": { TASKS: {} } }), false),
            (json!({}), false),
        ] {
            let modern = modern_capabilities(Some(&legacy));
            assert!(modern.get("tasks").is_none());
            assert_eq!(modern.get("extensions").is_some(), extends, "{legacy}");
        }
    }
}
