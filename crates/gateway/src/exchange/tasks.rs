//! Owners of tasks. A follow-up is judged by the tool that created the task, and only the grant and the session
//! that created it may follow it up. Owners survive a restart; an unknown task is refused.

pub(crate) mod finished;
mod owners;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use policy::json::{Bounds, Doc, Value};
use policy::{Effects, Policy};
use store::registry::TaskOwner;

use crate::exchange::call::{OwnedSubject, RequestInfo};
use crate::exchange::context::RequestContext;
use crate::exchange::results;
use crate::exchange::state::SharedState;
use crate::runtime::Services;
use crate::snapshot::Rules;
use crate::upstream::peer::Peer;
use mcp::edit::{self, Member};
use mcp::translate;

use finished::FinishedTasks;
use owners::{Owners, hash};

/// The longest time an owner is kept, and the default if the server names no `ttl`.
const KEPT_MS_MAX: i64 = 7 * 24 * 3_600_000;
/// The shortest: a server may keep a task longer than announced.
const KEPT_MS_MIN: i64 = 3_600_000;

/// Registry lookups of unknown tasks per second. Further ones are refused.
const LOOKUPS_PER_SECOND_MAX: usize = 100;

#[derive(Default)]
pub(crate) struct Tasks {
    pub(crate) finished: FinishedTasks,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    owners: Owners,
    /// Owners that are not in the registry yet.
    unsaved: Vec<TaskOwner>,
    /// Registry lookups of unknown tasks, and the start of the second that counts them.
    lookups: usize,
    lookups_since_us: u64,
}

impl State {
    fn may_look_up(&mut self, now_us: u64) -> bool {
        if now_us.saturating_sub(self.lookups_since_us) >= 1_000_000 {
            (self.lookups, self.lookups_since_us) = (0, now_us);
        }
        self.lookups += 1;
        self.lookups <= LOOKUPS_PER_SECOND_MAX
    }
}

impl Tasks {
    /// The owners that an earlier process stored.
    pub(crate) fn restored(stored: Vec<TaskOwner>) -> Tasks {
        let mut owners = Owners::default();
        for owner in stored {
            owners.add(owner);
        }
        let state = Mutex::new(State { owners, ..State::default() });
        Tasks { state, finished: FinishedTasks::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the owner of a task that a result announces.
    pub(crate) fn note(
        &self,
        result: Value<'_>,
        asked: &RequestInfo,
        context: &RequestContext,
        peer: &Peer,
    ) {
        if let Some(task) = announced(result) {
            self.keep(task, asked, context, peer);
        }
    }

    /// The same for the task itself.
    pub(crate) fn keep(
        &self,
        task: Value<'_>,
        asked: &RequestInfo,
        context: &RequestContext,
        peer: &Peer,
    ) {
        let Some(OwnedSubject::Tool(tool)) = &asked.subject else { return };
        let Some(id) = task.get("taskId").and_then(Value::as_str) else { return };
        let now_us = context.services().now_us();
        let owner = TaskOwner {
            server: peer.server.name.clone(),
            task: hash(&id),
            grant: context.grantee.id.clone(),
            conversation: context.conversation().to_owned(),
            tool: tool.clone(),
            is_private: peer.has_own_task_ids(),
            begun_at_us: now_us,
            until_us: now_us.saturating_add(kept_ms(task).saturating_mul(1000)),
        };
        let services = context.services();
        // Another process of this home may have stored an owner of this id.
        let is_looked_up = owner.is_private || self.state().owners.knows(&owner);
        if !is_looked_up && self.load(services, &owner.server, &owner.task).is_none() {
            tracing::warn!(server = %owner.server, "could not check who owns a task; ignored");
            return;
        }
        let mut state = self.state();
        if !state.owners.may_own(&owner, now_us) {
            tracing::warn!(server = %peer.server.name, grant = %context.grantee.label, "a server announced a task id that belongs to another grant; ignored");
            return;
        }
        state.owners.add(owner.clone());
        state.unsaved.push(owner);
        drop(state);
        if let Some(session) = &context.session {
            session.note_task();
        }
        save_soon(&context.state);
    }

    /// The tools that created a task, if the caller may follow it up. An id under several tools is judged by
    /// all of them.
    pub(crate) fn tools_of(
        &self,
        context: &RequestContext,
        server: &str,
        id: &str,
    ) -> Option<Vec<String>> {
        let is_live = |conversation: &str| context.state.sessions.is_open(conversation);
        let (grant, conversation) = (&context.grantee.id, context.conversation());
        let now_us = context.services().now_us();
        let known = || {
            let state = self.state();
            state.owners.tools_of((grant, conversation), (server, id), now_us, is_live)
        };
        known().or_else(|| self.load_owners(context.services(), server, id).then(known).flatten())
    }

    /// Loads the owners of an unknown task, which another process of this home may have stored. True if there
    /// are any. Limited per second.
    fn load_owners(&self, services: &Services, server: &str, id: &str) -> bool {
        self.state().may_look_up(services.clock.now().steady_us)
            && self.load(services, server, &hash(id)) == Some(true)
    }

    /// Loads the owners of a task by the hash of its id. Whether there are any; `None` if they cannot be read.
    fn load(&self, services: &Services, server: &str, task: &str) -> Option<bool> {
        let stored = match services.registry.task_owners_of(server, task, services.now_us()) {
            Ok(stored) => stored,
            Err(error) => {
                tracing::debug!(%error, "could not read the owners of a task");
                return None;
            }
        };
        let is_known = !stored.is_empty();
        let mut state = self.state();
        for owner in stored {
            state.owners.add(owner);
        }
        Some(is_known)
    }

    fn take_unsaved(&self) -> Vec<TaskOwner> {
        std::mem::take(&mut self.state().unsaved)
    }

    fn restore_unsaved(&self, owners: Vec<TaskOwner>) {
        self.state().unsaved.splice(0..0, owners);
    }
}

/// Stores owners in the background. A task whose owner is lost with the process is refused.
fn save_soon(state: &Arc<SharedState>) {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    let state = Arc::clone(state);
    runtime.spawn_blocking(move || state.tasks.save(&state.services));
}

impl Tasks {
    /// Stores the owners of tasks that are not in the registry yet.
    pub(crate) fn save(&self, services: &Services) {
        let unsaved = self.take_unsaved();
        if unsaved.is_empty() {
            return;
        }
        if let Err(error) = services.registry.put_task_owners(&unsaved, services.now_us()) {
            tracing::warn!(%error, "could not store the owners of tasks; will retry");
            self.restore_unsaved(unsaved);
        }
    }
}

/// The task that a result announces: in `task` (2025-11-25), or the result itself (2026-07-28). It may be
/// translated already.
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

/// The policy's effects on the result of a task. None if one of its tools is no longer allowed.
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

/// The policy's effects on a task of the caller.
fn own_effects(
    context: &RequestContext,
    rules: &Rules,
    server: &str,
    task: Value<'_>,
) -> Option<Effects> {
    let id = task.get("taskId")?.as_str()?;
    effects(&rules.policy, &context.state.tasks.tools_of(context, server, &id)?)
}

/// A task notification, redacted like the result of its tool. None if it is not for this caller.
pub(crate) fn notification(
    context: &RequestContext,
    rules: Option<&Rules>,
    server: &str,
    message: &Bytes,
) -> Option<Bytes> {
    let rules = rules?;
    let doc = Doc::read(message, &Bounds::ANSWER).ok()?;
    let params = doc.root().get("params")?;
    let effects = own_effects(context, rules, server, params)?;
    let questions = translate::input_requests(params)?;
    if translate::result_asks_for_input(params) {
        return None;
    }
    if questions.iter().any(|question| !rules.server_may_ask(&question.method)) {
        return None;
    }
    let cut = results::apply_to_task(&effects, params).ok()?;
    let rewritten = cut.map(|params| edit::with(doc.root(), "params", params).into());
    Some(rewritten.unwrap_or_else(|| message.clone()))
}

/// The result of `tasks/list` with the caller's own tasks only, redacted like the results of their tools.
pub(crate) fn listed(
    context: &RequestContext,
    rules: Option<&Rules>,
    server: &str,
    result: Value<'_>,
) -> String {
    let shown = |task: Value<'_>| {
        let effects = own_effects(context, rules?, server, task)?;
        let cut = results::apply_to_task(&effects, task).ok()?;
        Some(cut.unwrap_or_else(|| task.raw().to_owned()))
    };
    edit::object(
        result,
        |key, value| match key {
            "tasks" => Member::Replace(edit::array(value.items().filter_map(shown))),
            "nextCursor" | "_meta" => Member::Keep,
            // It may be about tasks of others.
            _ => Member::Drop,
        },
        &[],
    )
}
