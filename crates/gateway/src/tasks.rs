//! Owners of tasks. A follow-up on a task is judged by the tool that began it, and only the grant and the
//! conversation that began it may follow it up. Owners survive a restart; an unknown task is refused.

pub(crate) mod at_once;
mod owners;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use policy::json::{Bounds, Doc, Value};
use policy::{Effects, Policy};
use store::registry::TaskOwner;

use crate::call::{Asked, Owned};
use crate::gate::Gate;
use crate::in_force::Rules;
use crate::peer::Peer;
use crate::rebuild::{self, Member};
use crate::results;
use crate::scene::Scene;
use crate::translate;

use at_once::AtOnce;
use owners::{Owners, hash};

/// How long an owner is kept when its server names no `ttl`, and at most.
const KEPT_MS_MAX: i64 = 7 * 24 * 3_600_000;
/// And at least: a server may keep a task for longer than it said.
const KEPT_MS_MIN: i64 = 3_600_000;

#[derive(Default)]
pub(crate) struct Tasks {
    pub(crate) at_once: AtOnce,
    inside: Mutex<Inside>,
}

#[derive(Default)]
struct Inside {
    owners: Owners,
    /// Owners that are not in the registry yet.
    unsaved: Vec<TaskOwner>,
}

impl Tasks {
    /// The owners that an earlier run of the gate stored.
    pub(crate) fn restored(stored: Vec<TaskOwner>) -> Tasks {
        let mut owners = Owners::default();
        for owner in stored {
            owners.add(owner);
        }
        let inside = Mutex::new(Inside { owners, unsaved: Vec::new() });
        Tasks { inside, at_once: AtOnce::default() }
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the owner of a task that a result announces.
    pub(crate) fn note(&self, result: Value<'_>, asked: &Asked, scene: &Scene, peer: &Peer) {
        if let Some(task) = announced(result) {
            self.keep(task, asked, scene, peer);
        }
    }

    /// The same for a task as such.
    pub(crate) fn keep(&self, task: Value<'_>, asked: &Asked, scene: &Scene, peer: &Peer) {
        let Some(Owned::Tool(tool)) = &asked.subject else { return };
        let Some(id) = task.get("taskId").and_then(Value::as_str) else { return };
        let now_us = scene.gate.now_us();
        let owner = TaskOwner {
            server: peer.server.name.clone(),
            task: hash(&id),
            grant: scene.holder.id.clone(),
            conversation: scene.conversation().to_owned(),
            tool: tool.clone(),
            is_private: peer.has_own_task_ids(),
            begun_at_us: now_us,
            until_us: now_us.saturating_add(kept_ms(task).saturating_mul(1000)),
        };
        let mut inside = self.inside();
        if !inside.owners.may_own(&owner, now_us) {
            tracing::warn!(server = %peer.server.name, grant = %scene.holder.label, "a server announced a task id that belongs to another grant; ignored");
            return;
        }
        inside.owners.add(owner.clone());
        inside.unsaved.push(owner);
        drop(inside);
        save_soon(&scene.gate);
    }

    /// The tools that began a task, if the caller may follow it up. One id under several tools is judged
    /// by all of them.
    pub(crate) fn tools_of(&self, scene: &Scene, server: &str, id: &str) -> Option<Vec<String>> {
        let is_live = |conversation: &str| scene.gate.sessions.is_open(conversation);
        let (grant, conversation) = (&scene.holder.id, scene.conversation());
        let inside = self.inside();
        inside.owners.tools_of((grant, conversation), (server, id), scene.gate.now_us(), is_live)
    }

    fn take_unsaved(&self) -> Vec<TaskOwner> {
        std::mem::take(&mut self.inside().unsaved)
    }

    fn put_back(&self, owners: Vec<TaskOwner>) {
        self.inside().unsaved.splice(0..0, owners);
    }
}

/// Stores owners without making the call wait. One that is lost with the process is refused afterwards.
fn save_soon(gate: &Arc<Gate>) {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    let gate = Arc::clone(gate);
    runtime.spawn_blocking(move || gate.save_tasks());
}

impl Gate {
    /// Stores the owners of tasks that are not in the registry yet.
    pub(crate) fn save_tasks(&self) {
        let unsaved = self.tasks.take_unsaved();
        if unsaved.is_empty() {
            return;
        }
        if let Err(error) = self.registry.put_task_owners(&unsaved, self.now_us()) {
            tracing::warn!(%error, "could not store the owners of tasks; will retry");
            self.tasks.put_back(unsaved);
        }
    }
}

/// The task that a result announces: in `task` (2025-11-25), or as the result itself (2026-07-28). What
/// another server's era wrote may have been translated already.
fn announced(result: Value<'_>) -> Option<Value<'_>> {
    let kind = result.get("resultType").and_then(Value::as_str);
    if kind.as_deref() == Some("task") && result.get("taskId").is_some() {
        return Some(result);
    }
    result.get("task")
}

fn kept_ms(task: Value<'_>) -> i64 {
    let ttl = task.get("ttl").or_else(|| task.get("ttlMs")).and_then(Value::as_number);
    let ttl_ms = ttl.and_then(|ttl| ttl.parse().ok()).unwrap_or(KEPT_MS_MAX);
    ttl_ms.clamp(KEPT_MS_MIN, KEPT_MS_MAX)
}

/// What a policy does to what a task of these tools brings. Nothing when one of them is no longer allowed.
pub(crate) fn effects(policy: &Policy, tools: &[String]) -> Option<Effects> {
    let mut all: Option<Effects> = None;
    for tool in tools {
        let one = policy.effects_of_task(tool)?;
        all = Some(match all {
            None => one,
            Some(mut all) => {
                all.redact = all.redact.iter().chain(&*one.redact).cloned().collect();
                let bounds = [all.result_bytes_max, one.result_bytes_max];
                all.result_bytes_max = bounds.into_iter().flatten().min();
                all
            }
        });
    }
    all
}

/// What the policy does to a task, where it is the caller's own.
fn own_effects(scene: &Scene, rules: &Rules, server: &str, task: Value<'_>) -> Option<Effects> {
    let id = task.get("taskId")?.as_str()?;
    effects(&rules.policy, &scene.gate.tasks.tools_of(scene, server, &id)?)
}

/// News of a task, redacted as the result of its tool is. Nothing where they are not for this caller.
pub(crate) fn news(
    scene: &Scene,
    rules: Option<&Rules>,
    server: &str,
    message: &Bytes,
) -> Option<Bytes> {
    let rules = rules?;
    let doc = Doc::read(message, &Bounds::ANSWER).ok()?;
    let params = doc.root().get("params")?;
    let effects = own_effects(scene, rules, server, params)?;
    let questions = translate::questions(params)?;
    if questions.iter().any(|question| !rules.server_may_ask(&question.method)) {
        return None;
    }
    let cut = results::apply_to_task(&effects, params).ok()?;
    let rewritten = cut.map(|params| rebuild::with(doc.root(), "params", params).into());
    Some(rewritten.unwrap_or_else(|| message.clone()))
}

/// The result of `tasks/list` with the caller's own tasks only, each redacted as its tool's result is.
pub(crate) fn listed(
    scene: &Scene,
    rules: Option<&Rules>,
    server: &str,
    result: Value<'_>,
) -> String {
    let shown = |task: Value<'_>| {
        let effects = own_effects(scene, rules?, server, task)?;
        let cut = results::apply_to_task(&effects, task).ok()?;
        Some(cut.unwrap_or_else(|| task.raw().to_owned()))
    };
    rebuild::object(
        result,
        |key, value| match key {
            "tasks" => Member::Replace(rebuild::array(value.items().filter_map(shown))),
            "nextCursor" | "_meta" => Member::Keep,
            // It may be about tasks of others.
            _ => Member::Drop,
        },
        &[],
    )
}
