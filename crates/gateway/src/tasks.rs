//! Which call a task came from: a follow-up on a task is judged by the tool that began it, and one
//! caller's tasks do not exist for another.

pub(crate) mod at_once;

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use policy::json::{Bounds, Doc, Value};

use crate::call::{Asked, Owned};
use crate::in_force::Rules;
use crate::rebuild;
use crate::results;
use crate::scene::Scene;
use crate::translate;

use at_once::AtOnce;

/// Tasks remembered; the oldest go first.
const TASKS_MAX: usize = 10_000;

#[derive(Default)]
pub(crate) struct Tasks {
    pub(crate) at_once: AtOnce,
    inside: Mutex<Inside>,
}

#[derive(Default)]
struct Inside {
    /// The grant that began the task, and with which tool.
    tools: HashMap<Key, (String, String)>,
    order: std::collections::VecDeque<Key>,
}

/// Server and task.
type Key = (String, String);

/// Whose a task is.
pub(crate) enum Owner {
    /// The caller's own, begun by this tool.
    Caller(String),
    Another,
    Nobody,
}

impl Tasks {
    /// Remembers a task that a result announces.
    pub(crate) fn note(&self, result: Value<'_>, asked: &Asked, scene: &Scene, server: &str) {
        let Some(Owned::Tool(tool)) = &asked.subject else { return };
        let Some(id) = task_id(result) else { return };
        let key = (server.to_owned(), id);
        let begun = (scene.holder.id.clone(), tool.clone());
        let mut inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        if inside.tools.insert(key.clone(), begun).is_none() {
            inside.order.push_back(key);
        }
        if inside.order.len() > TASKS_MAX
            && let Some(oldest) = inside.order.pop_front()
        {
            inside.tools.remove(&oldest);
        }
    }

    /// Whose task this is, and the tool that began it.
    pub(crate) fn owner(&self, grant: &str, server: &str, id: &str) -> Owner {
        let inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        match inside.tools.get(&(server.to_owned(), id.to_owned())) {
            None => Owner::Nobody,
            Some((owner, tool)) if owner == grant => Owner::Caller(tool.clone()),
            Some(_) => Owner::Another,
        }
    }
}

/// News of a task, cut as the result of its tool is. Nothing where they are not for this caller.
pub(crate) fn news(
    scene: &Scene,
    rules: Option<&Rules>,
    server: &str,
    message: &Bytes,
) -> Option<Bytes> {
    let rules = rules?;
    let policy = &rules.policy;
    let doc = Doc::read(message, &Bounds::ANSWER).ok()?;
    let params = doc.root().get("params")?;
    let id = params.get("taskId")?.as_str()?;
    let effects = match scene.gate.tasks.owner(&scene.holder.id, server, &id) {
        Owner::Caller(tool) => policy.effects_of_task(&tool)?,
        Owner::Nobody if policy.allows_unnamed() => policy.effects_of_any_tool(),
        Owner::Nobody | Owner::Another => return None,
    };
    let questions = translate::questions(params)?;
    if translate::ended_asking(params) {
        return None;
    }
    if questions.iter().any(|question| !rules.server_may_ask(&question.method)) {
        return None;
    }
    let cut = results::apply_to_task(&effects, params).ok()?;
    let rewritten = cut.map(|params| rebuild::with(doc.root(), "params", params).into());
    Some(rewritten.unwrap_or_else(|| message.clone()))
}

/// The id in `result.task.taskId` (2025-11-25) or `result.taskId` (2026-07-28).
fn task_id(result: Value<'_>) -> Option<String> {
    let id = result.get("taskId").or_else(|| result.get("task")?.get("taskId"))?;
    Some(id.as_str()?.into_owned())
}
