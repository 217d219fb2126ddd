//! Which call a task came from: a follow-up on a task is judged by the tool that began it, and one
//! caller's tasks do not exist for another.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use policy::json::Value;

use crate::call::{Asked, Owned};
use crate::scene::Scene;

/// Tasks remembered; the oldest go first.
const TASKS_MAX: usize = 10_000;

#[derive(Default)]
pub(crate) struct Tasks {
    inside: Mutex<Inside>,
}

#[derive(Default)]
struct Inside {
    tools: HashMap<Key, String>,
    order: std::collections::VecDeque<Key>,
}

/// Grant, server, task.
type Key = (String, String, String);

impl Tasks {
    /// Remembers a task that a result announces.
    pub(crate) fn note(&self, result: Value<'_>, asked: &Asked, scene: &Scene, server: &str) {
        let Some(Owned::Tool(tool)) = &asked.subject else { return };
        let Some(id) = task_id(result) else { return };
        let key = (scene.holder.id.clone(), server.to_owned(), id);
        let mut inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        if inside.tools.insert(key.clone(), tool.clone()).is_none() {
            inside.order.push_back(key);
        }
        if inside.order.len() > TASKS_MAX
            && let Some(oldest) = inside.order.pop_front()
        {
            inside.tools.remove(&oldest);
        }
    }

    /// The tool that began a task of this caller.
    pub(crate) fn tool(&self, grant: &str, server: &str, id: &str) -> Option<String> {
        let key = (grant.to_owned(), server.to_owned(), id.to_owned());
        self.inside.lock().unwrap_or_else(PoisonError::into_inner).tools.get(&key).cloned()
    }
}

/// The id in `result.task.taskId` (2025-11-25) or `result.taskId` (2026-07-28).
fn task_id(result: Value<'_>) -> Option<String> {
    let id = result.get("taskId").or_else(|| result.get("task")?.get("taskId"))?;
    Some(id.as_str()?.into_owned())
}
