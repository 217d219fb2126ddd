//! Tasks of a newer server behind an older client: looked at again and again until they have ended, in the
//! name of a client that waits for what comes of them.

use super::{Flow, Piece, Source, until_cancelled};
use crate::prepare;
use crate::rebuild::string;
use crate::results;
use crate::session::Outgoing;
use crate::subscribe;
use crate::translate::newer_tasks::{self as tasks, Stand};
use crate::upstream::{Event, Stage, UpstreamError};
use crate::wire::{Method, code, error_body, notification_body};
use bytes::Bytes;
use policy::json::{Bounds, Doc, Value};
use std::collections::HashSet;
use std::pin::pin;
use std::time::Duration;

/// The pause between two looks where the server names none, and what it may name.
const LOOK_AFTER: Duration = Duration::from_secs(1);
const LOOK_AFTER_MIN: Duration = Duration::from_millis(50);
const LOOK_AFTER_MAX: Duration = Duration::from_mins(1);
/// So long one request waits for a task; then a call's task is cancelled, and `tasks/result` fails.
const TASK_WAIT_MAX: Duration = Duration::from_hours(1);

/// A task that is looked at.
pub(super) struct Looking {
    task: String,
    step: Step,
    every: Duration,
    /// What the client was asked already: a server repeats it until it has used the answer.
    put: HashSet<String>,
    /// What the task last said of itself.
    said: Option<String>,
    looks: u32,
}

/// What is next, or under way.
enum Step {
    Pause,
    Look,
    /// Its client's answers, for `tasks/update`.
    Update(String),
    Looked,
    Updated,
}

impl Looking {
    fn at(task: Value<'_>, step: Step) -> Option<Box<Looking>> {
        let id = task.get("taskId")?.as_str()?.into_owned();
        Some(Looking::named(id, every(task), step))
    }

    fn named(task: String, every: Duration, step: Step) -> Box<Looking> {
        Box::new(Looking { task, step, every, put: HashSet::new(), said: None, looks: 0 })
    }

    pub(super) fn is_due(&self) -> bool {
        !matches!(self.step, Step::Looked | Step::Updated)
    }

    pub(super) fn answered(&mut self, answers: &[(String, String)]) {
        let answers: Vec<String> =
            answers.iter().map(|(key, raw)| format!("{}:{raw}", string(key))).collect();
        self.step = Step::Update(answers.join(","));
    }
}

/// The pause that a task asks for.
fn every(task: Value<'_>) -> Duration {
    let named = task.get("pollIntervalMs").and_then(Value::as_number);
    let named = named.and_then(|ms| ms.parse().ok()).map(Duration::from_millis);
    named.unwrap_or(LOOK_AFTER).clamp(LOOK_AFTER_MIN, LOOK_AFTER_MAX)
}

impl Flow {
    /// Whether an answer of a newer server to an older client is about a task, or has to become one.
    pub(super) fn concerns_newer_task(&self, root: Value<'_>) -> bool {
        let begins = || {
            self.tail.method == "tools/call"
                && (root.get("result").is_some_and(tasks::is_begun) || self.tail.wants_task())
        };
        self.looking.is_some() || Method::parse(&self.tail.method).follows_up_a_task() || begins()
    }

    /// An answer of a newer server to an older client that is about a task.
    pub(super) fn of_newer_task(
        &mut self,
        status: u16,
        event: &Event,
        root: Value<'_>,
    ) -> Option<Piece> {
        if root.get("result").is_none() {
            // Whatever it was, there is nothing left to cancel that the server knows of.
            self.tail.meanwhile.awaited = None;
            return Some(self.tail.finish(status, &event.message, root));
        }
        let Ok(doc) = Doc::read(&event.message, &Bounds::ANSWER) else {
            return Some(self.tail.garbled("its answer is not JSON"));
        };
        let result = doc.root().get("result")?;
        let step = self.looking.as_ref().map(|looking| &looking.step);
        match (step, Method::parse(&self.tail.method)) {
            (Some(Step::Updated), _) => self.look(Step::Pause),
            (Some(_), _) => self.looked(result),
            (None, Method::TasksResult) => {
                self.looking = Looking::at(result, Step::Looked);
                self.looked(result)
            }
            (None, Method::TasksGet) => Some(self.finish_with(&tasks::legacy_task(result))),
            (None, Method::TasksCancel) if result.get("status").is_some() => self.looked(result),
            (None, Method::TasksCancel) => {
                let id = self.tail.asked.task_id()?;
                self.looking = Some(Looking::named(id, LOOK_AFTER, Step::Look));
                None
            }
            (None, Method::ToolsCall) => self.began(status, event, result),
            (None, _) => Some(self.tail.finish(status, &event.message, doc.root())),
        }
    }

    /// A call that a newer server made a task of, or answered at once where its client wants a task.
    fn began(&mut self, status: u16, event: &Event, result: Value<'_>) -> Option<Piece> {
        match (tasks::is_begun(result), self.tail.wants_task()) {
            (true, true) => {
                let piece = self.finish_with(&tasks::legacy_begun(result));
                if let Some(id) = result.get("taskId").and_then(Value::as_str) {
                    subscribe::tasks::follow(&self.tail.scene, &self.tail.peer, &id);
                }
                Some(piece)
            }
            (true, false) => {
                self.looking = Looking::at(result, Step::Pause);
                let Some(looking) = &self.looking else {
                    return Some(self.tail.garbled("its task has no id"));
                };
                self.tail.meanwhile.awaited = Some(looking.task.clone());
                None
            }
            (false, _) => {
                let doc = Doc::read(&event.message, &Bounds::ANSWER).ok()?;
                let piece = self.tail.finish(status, &event.message, doc.root());
                Some(self.tail.kept_as_task(piece))
            }
        }
    }

    fn look(&mut self, step: Step) -> Option<Piece> {
        if let Some(looking) = &mut self.looking {
            looking.step = step;
        }
        None
    }

    /// What a look at a task showed.
    fn looked(&mut self, task: Value<'_>) -> Option<Piece> {
        let Some(stand) = tasks::stand(task) else {
            return Some(self.tail.garbled("what it says of its task cannot be read"));
        };
        if self.tail.method == "tasks/cancel" {
            return Some(self.taken_back(task, &stand));
        }
        match stand {
            Stand::Working => self.works_on(task),
            Stand::Asks => self.task_asks(task),
            Stand::Result(result) => {
                let id = self.looking.as_ref().map(|looking| looking.task.clone());
                let related = id.filter(|_| self.tail.method == "tasks/result");
                let result = related
                    .map_or_else(|| result.raw().to_owned(), |id| tasks::related(result, &id));
                self.tail.meanwhile.awaited = None;
                Some(self.finish_with(&result))
            }
            Stand::Error(error) => Some(self.came_to_error(error.raw())),
            Stand::Cancelled => {
                let words = "\"the server cancelled the task\"";
                let error = format!("{{\"code\":{},\"message\":{words}}}", code::INTERNAL);
                Some(self.came_to_error(&error))
            }
        }
    }

    fn came_to_error(&mut self, error: &str) -> Piece {
        self.tail.meanwhile.awaited = None;
        let id = self.tail.sent_id.raw();
        let message = Bytes::from(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{error}}}"));
        match Doc::read(&message, &Bounds::ANSWER) {
            Ok(doc) => self.tail.finish(200, &message, doc.root()),
            Err(_) => self.tail.garbled("what its task came to is too deep"),
        }
    }

    /// How a task stands that was to be cancelled. A newer server need not follow at once, and an older
    /// one refuses where there is nothing left to cancel.
    fn taken_back(&mut self, task: Value<'_>, stand: &Stand<'_>) -> Piece {
        if !matches!(stand, Stand::Result(_) | Stand::Error(_)) {
            return self.finish_with(&tasks::legacy_task(task));
        }
        let words = "this task has ended and cannot be cancelled";
        let refusal = error_body(Some(&self.tail.sent_id), code::INVALID_PARAMS, words, None);
        let refusal = Bytes::from(refusal);
        match Doc::read(&refusal, &Bounds::ANSWER) {
            Ok(doc) => self.tail.finish(200, &refusal, doc.root()),
            Err(_) => self.tail.garbled("its task has ended"),
        }
    }

    /// A task that goes on: it is looked at later, and its client hears what it says of itself.
    fn works_on(&mut self, task: Value<'_>) -> Option<Piece> {
        if self.tail.began.elapsed() > TASK_WAIT_MAX {
            let (stage, after) = (Stage::Total, TASK_WAIT_MAX);
            return Some(self.tail.failed(&UpstreamError::TimedOut { stage, after }));
        }
        let looking = self.looking.as_mut()?;
        (looking.step, looking.every) = (Step::Pause, every(task));
        looking.looks = looking.looks.saturating_add(1);
        let said = task.get("statusMessage").map(|words| words.raw().to_owned());
        if said.is_none() || said == looking.said {
            return None;
        }
        looking.said = said;
        let (words, step) = (looking.said.clone()?, looking.looks);
        let token = self.tail.asked.progress_token()?;
        let params = format!(
            "{{\"progressToken\":{},\"progress\":{step},\"message\":{words}}}",
            token.raw()
        );
        let told = Bytes::from(notification_body("notifications/progress", Some(&params)));
        let told = match Doc::read(&told, &Bounds::ANSWER) {
            Ok(doc) if !self.tail.effects.redact.is_empty() => {
                results::wordless_progress(doc.root()).into()
            }
            _ => told,
        };
        let told = self.tail.meanwhile.steps.counted(told);
        Some(Piece::Interim(Outgoing::plain(told)))
    }

    /// A task that waits for its client, which may have been asked already.
    fn task_asks(&mut self, task: Value<'_>) -> Option<Piece> {
        let looking = self.looking.as_mut()?;
        (looking.step, looking.every) = (Step::Pause, every(task));
        let mut questions = crate::translate::questions(task).unwrap_or_default();
        questions.retain(|question| looking.put.insert(question.key.clone()));
        if questions.is_empty() {
            return self.works_on(task);
        }
        if self.tail.method == "tasks/result" {
            for question in &mut questions {
                if let Ok(doc) = Doc::read(question.params.as_bytes(), &Bounds::ANSWER) {
                    question.params = tasks::related(doc.root(), &looking.task);
                }
            }
        }
        self.put(questions, None)
    }

    /// Does what is next for a task: waits, looks at it, or brings it answers.
    pub(super) async fn look_on(&mut self) -> Option<Piece> {
        let looking = self.looking.as_mut()?;
        let grace = self.tail.cancel_grace();
        let in_flight = self.tail.in_flight.as_ref();
        let id = string(&looking.task);
        let (method, params) = match std::mem::replace(&mut looking.step, Step::Looked) {
            Step::Update(answers) => {
                looking.step = Step::Updated;
                let params = format!("{{\"taskId\":{id},\"inputResponses\":{{{answers}}}}}");
                ("tasks/update", params)
            }
            Step::Pause => {
                let pause = pin!(tokio::time::sleep(looking.every));
                if until_cancelled(in_flight, grace, pause).await.is_none() {
                    return Some(self.tail.cancelled());
                }
                ("tasks/get", format!("{{\"taskId\":{id}}}"))
            }
            _ => ("tasks/get", format!("{{\"taskId\":{id}}}")),
        };
        let Some(permit) = &self.tail.permit else { return Some(self.tail.ran_out()) };
        let client = prepare::task_words(&self.tail.scene, &self.tail.peer);
        let prepared = prepare::own(&self.tail.peer, method, Some(&params), &client);
        if let Some(in_flight) = in_flight {
            in_flight.sent(&self.tail.peer, prepared.id.clone());
        }
        let reply = {
            let sent = pin!(self.tail.peer.request(permit, prepared.out));
            until_cancelled(in_flight, grace, sent).await
        };
        self.tail.sent_id = prepared.id;
        match reply {
            None => return Some(self.tail.cancelled()),
            Some(Err(error)) => return Some(self.tail.failed(&error)),
            Some(Ok(reply)) => self.source = Source::of(reply),
        }
        None
    }
}
