//! Tasks of 2025-11-25, which an older server has, as the extension of the newer era has them.

use policy::json::{Kind, Value};
use serde_json::json;

use super::{NEWEST_LEGACY, Question, input_requests, without};
use crate::rebuild::{self, Member, string};
use crate::wire::TASKS;

/// The task that a legacy server made of a call, if it did: such a result has no content.
pub(crate) fn begun(result: Value<'_>) -> Option<Value<'_>> {
    let task = result.get("task").filter(|_| result.get("content").is_none())?;
    (task.get("taskId")?.kind() == Kind::String).then_some(task)
}

/// The same as a modern client knows it: the task is the result.
pub(super) fn modern_begun(result: Value<'_>, task: Value<'_>) -> String {
    let mut extra = vec![("resultType", string("task"))];
    extra.extend(result.get("_meta").map(|meta| ("_meta", meta.raw().to_owned())));
    modern_task(task, &extra)
}

/// A task in the words of the newer era, with more in it.
fn modern_task(task: Value<'_>, more: &[(&str, String)]) -> String {
    let raw = |key: &str| task.get(key).map(|value| value.raw().to_owned());
    let mut extra = vec![("ttlMs", raw("ttl").unwrap_or_else(|| "null".to_owned()))];
    extra.extend(raw("pollInterval").map(|every| ("pollIntervalMs", every)));
    extra.extend(more.iter().cloned());
    let is_more = |key: &str| more.iter().any(|(name, _)| *name == key);
    rebuild::object(
        task,
        |key, _| match key {
            "ttl" | "pollInterval" => Member::Drop,
            _ if is_more(key) => Member::Drop,
            _ => Member::Keep,
        },
        &extra,
    )
}

/// Whether `tasks/result` has something to say of a task: it came to a result or an error.
pub(crate) fn has_ended(task: Value<'_>) -> bool {
    let status = task.get("status").and_then(Value::as_str);
    matches!(status.as_deref(), Some("completed" | "failed"))
}

/// The answer to `tasks/get`. A legacy server keeps apart what a task came to; here it lies within.
pub(crate) fn modern_got(task: Value<'_>, came_to: Option<CameTo<'_>>) -> String {
    match came_to {
        None => modern_task(task, &[]),
        // That a tool failed is a result like any other.
        Some(CameTo::Result(result)) => {
            let result = rebuild::without(result, &["_meta"]);
            modern_task(task, &[("status", string("completed")), ("result", result)])
        }
        Some(CameTo::Error(error)) => {
            let error = error.raw().to_owned();
            modern_task(task, &[("status", string("failed")), ("error", error)])
        }
    }
}

/// The same of a task that waits for its client, with what it asks.
pub(crate) fn modern_asking(task: Value<'_>, questions: &[Question]) -> String {
    modern_task(task, &[("inputRequests", input_requests(questions))])
}

/// The same of a task of which nothing more is known than that it has not ended.
pub(crate) fn modern_working(task: Value<'_>) -> String {
    modern_task(task, &[("status", string("working"))])
}

/// Whether a task waits for its client. What it asks is said to who asks for its result.
pub(crate) fn asks(task: Value<'_>) -> bool {
    task.get("status").and_then(Value::as_str).as_deref() == Some("input_required")
}

/// What a task came to.
#[derive(Clone, Copy)]
pub(crate) enum CameTo<'a> {
    Result(Value<'a>),
    Error(Value<'a>),
}

/// What a legacy server offers, with the extension in the place of its own kind of tasks.
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

/// The extensions of a server but for tasks, which are translated. What the gate does not know passes it.
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

/// What a modern server offers, with tasks of the older era in the place of the extension, for clients that
/// know them. A server of the newer era cannot list them.
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
    fn a_task_is_put_into_the_words_of_the_newer_era() {
        let text = format!(r#"{{"task":{TASK},"_meta":{{"a":1}}}}"#);
        let doc = Doc::read(text.as_bytes(), &Bounds::ANSWER).unwrap();
        let task = begun(doc.root()).unwrap();
        assert_eq!(
            modern_begun(doc.root(), task),
            r#"{"taskId":"t","status":"failed","createdAt":"a","lastUpdatedAt":"b","ttlMs":5,"pollIntervalMs":1,"resultType":"task","_meta":{"a":1}}"#
        );
        let payload =
            Doc::read(br#"{"content":[],"isError":true,"_meta":{"x":1}}"#, &Bounds::ANSWER);
        let payload = payload.unwrap();
        let head =
            r#"{"taskId":"t","createdAt":"a","lastUpdatedAt":"b","ttlMs":5,"pollIntervalMs":1,"#;
        assert_eq!(
            modern_got(task, Some(CameTo::Result(payload.root()))),
            format!(r#"{head}"status":"completed","result":{{"content":[],"isError":true}}}}"#)
        );
        assert_eq!(
            modern_got(task, Some(CameTo::Error(payload.root().get("_meta").unwrap()))),
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
