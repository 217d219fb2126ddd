//! Tasks of an older server behind a newer client: what its era says at once is asked for piece by piece.

use super::{Flow, Next, Piece, Source, until_cancelled};
use crate::mrtr::{Owed, ParkedCall, ROUND_SECONDS_MAX, TaskKey};
use crate::rebuild::string;
use crate::translate::Question;
use crate::translate::tasks::{self, CameTo};
use crate::upstream::{Event, Outgoing, Patience};
use crate::wire::{Id, Method, request_body, result_body};
use bytes::Bytes;
use policy::json::{Bounds, Doc, Value};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

/// What the server is asked besides, to answer the client.
pub(super) enum TaskStep {
    /// `tasks/result` of this task goes out next.
    ToAsk { id: String, for_whom: ForWhom },
    /// It went out, and its answer is the next.
    Asked(ForWhom),
}

/// What the answer is needed for.
pub(super) enum ForWhom {
    /// The call itself, whose client knows no tasks.
    Call,
    /// `tasks/get`, with what the server said to it.
    Get(Bytes),
    /// The same of a task that waits for its client, to hear what it asks.
    Question(Bytes),
}

/// A server that was asked what a task comes to asks its question at once, or has none.
const QUESTION_WAIT_MAX: Duration = Duration::from_secs(2);

impl Flow {
    /// An answer of an older server to a newer client, which may be about a task.
    pub(super) fn of_task(&mut self, status: u16, event: &Event, root: Value<'_>) -> Option<Piece> {
        let came_to = root.get("result").map(CameTo::Result);
        match (self.task.take(), Method::parse(&self.tail.method), came_to) {
            (None, Method::ToolsCall, Some(CameTo::Result(result)))
                if !self.tail.asked.client_takes_tasks() =>
            {
                if let Some(id) = tasks::begun(result).and_then(|task| task.get("taskId")?.as_str())
                {
                    self.tail.meanwhile.awaited = Some(id.clone().into_owned());
                    return self.ask_for(&id, ForWhom::Call);
                }
            }
            (None, Method::TasksGet, Some(CameTo::Result(task))) => {
                if let Some(id) = task.get("taskId").and_then(Value::as_str)
                    && tasks::has_ended(task)
                {
                    return self.ask_for(&id, ForWhom::Get(event.message.clone()));
                }
                if tasks::asks(task) {
                    return self.asking_task(event, task);
                }
                return Some(self.finish_with(&tasks::modern_got(task, None)));
            }
            (None, Method::TasksCancel, Some(_)) => return Some(self.finish_with("{}")),
            (Some(TaskStep::Asked(ForWhom::Call)), ..) => self.tail.meanwhile.awaited = None,
            (Some(TaskStep::Asked(ForWhom::Get(got) | ForWhom::Question(got))), _, came_to) => {
                let came_to = came_to.or_else(|| root.get("error").map(CameTo::Error));
                if let Some(piece) = self.got(&got, came_to) {
                    return Some(piece);
                }
            }
            _ => {}
        }
        Some(self.tail.finish(status, &event.message, root))
    }

    /// `tasks/get` of a task that waits for its client: what it asks is known, or heard now.
    fn asking_task(&mut self, event: &Event, task: Value<'_>) -> Option<Piece> {
        let id = task.get("taskId").and_then(Value::as_str)?;
        match self.tail.scene.gate.rounds.asked_of(&self.task_key(&id)) {
            Some(questions) => Some(self.finish_with(&tasks::modern_asking(task, &questions))),
            None => self.ask_for(&id, ForWhom::Question(event.message.clone())),
        }
    }

    fn task_key(&self, id: &str) -> TaskKey {
        let tail = &self.tail;
        (tail.scene.holder.id.clone(), tail.peer.server.name.clone(), id.to_owned())
    }

    /// Whether what is asked here is a task's question, which waits for `tasks/update`.
    pub(crate) fn asks_for_a_task(&self) -> bool {
        matches!(self.task, Some(TaskStep::Asked(ForWhom::Question(_))))
    }

    /// Keeps what a task asks until its client updates it, and ends the `tasks/get` that brought it up.
    pub(crate) fn park_task(mut self, asked: Vec<(Question, Id)>) -> Bytes {
        let questions: Vec<Question> = asked.iter().map(|(question, _)| question.clone()).collect();
        let said = match self.task.take() {
            Some(TaskStep::Asked(ForWhom::Question(got))) => told_of(&got, &questions),
            _ => None,
        };
        let (piece, task_id) = match said {
            Some((result, task_id)) => (self.finish_with(&result), task_id),
            None => (self.tail.garbled("what it says of a task cannot be read"), String::new()),
        };
        self.tail.put_on_record();
        let Piece::Last { body, .. } = piece else { return Bytes::new() };
        let gate = Arc::clone(&self.tail.scene.gate);
        let until_us = gate.clock.now().wall_us + ROUND_SECONDS_MAX * 1_000_000;
        let (key, grant) = (self.task_key(&task_id), self.tail.scene.holder.id.clone());
        let questions = Owed::of(&self.tail.scene, &self.tail.peer, asked);
        gate.rounds.park_task(key, ParkedCall { flow: self, questions, grant, until_us });
        body
    }

    pub(super) fn is_to_hear_a_task(&self) -> bool {
        matches!(self.task, Some(TaskStep::ToAsk { for_whom: ForWhom::Question(_), .. }))
    }

    /// Asks what a task comes to, only to hear what it asks; that takes no time, or there is nothing.
    pub(super) fn hear_question(&mut self) -> Pin<Box<dyn Future<Output = Next> + Send + '_>> {
        let got = match &self.task {
            Some(TaskStep::ToAsk { for_whom: ForWhom::Question(got), .. }) => got.clone(),
            _ => Bytes::new(),
        };
        Box::pin(async move {
            let heard = async {
                match self.follow_up().await {
                    Some(piece) => Next::Piece(piece),
                    None => self.next().await,
                }
            };
            match tokio::time::timeout(QUESTION_WAIT_MAX, heard).await {
                Ok(next) => next,
                Err(_) => Next::Piece(self.unheard(&got)),
            }
        })
    }

    fn unheard(&mut self, got: &Bytes) -> Piece {
        let doc = Doc::read(got, &Bounds::ANSWER);
        let task = doc.as_ref().ok().and_then(|doc| doc.root().get("result"));
        match task.map(tasks::modern_working) {
            Some(result) => self.finish_with(&result),
            None => self.tail.ran_out(),
        }
    }

    fn ask_for(&mut self, id: &str, for_whom: ForWhom) -> Option<Piece> {
        self.task = Some(TaskStep::ToAsk { id: id.to_owned(), for_whom });
        None
    }

    /// The answer to `tasks/get` with what the task came to.
    fn got(&mut self, got: &Bytes, came_to: Option<CameTo<'_>>) -> Option<Piece> {
        let doc = Doc::read(got, &Bounds::ANSWER).ok()?;
        let result = tasks::modern_got(doc.root().get("result")?, came_to);
        Some(self.finish_with(&result))
    }

    /// Ends the request with another result than the server wrote.
    pub(super) fn finish_with(&mut self, result: &str) -> Piece {
        let message = Bytes::from(result_body(&self.tail.sent_id, result));
        match Doc::read(&message, &Bounds::ANSWER) {
            Ok(doc) => self.tail.finish(200, &message, doc.root()),
            Err(_) => self.tail.garbled("what it says of a task is too deep"),
        }
    }

    /// Asks what a task came to; older servers answer when it has.
    pub(super) async fn follow_up(&mut self) -> Option<Piece> {
        let Some(TaskStep::ToAsk { id, for_whom }) = self.task.take() else { return None };
        let Some(permit) = &self.tail.permit else { return Some(self.tail.ran_out()) };
        let sent_id = self.tail.peer.mint();
        let params = format!("{{\"taskId\":{}}}", string(&id));
        let body = request_body(&sent_id, "tasks/result", Some(&params));
        let mut out = Outgoing::request(sent_id.clone(), body.into());
        if matches!(for_whom, ForWhom::Call | ForWhom::Question(_)) {
            // What the task asks and how far it is, the client hears while it waits.
            out.takes = Some(self.tail.asked.takes);
            let known_as =
                self.tail.meanwhile.known_as.get_or_insert_with(|| self.tail.sent_id.clone());
            out.progress_token = Some(known_as.raw().into());
        }
        let in_flight = self.tail.in_flight.as_ref();
        if let Some(in_flight) = in_flight {
            in_flight.sent(&self.tail.peer, sent_id.clone());
        }
        if self.tail.questions.is_some() {
            let patience = out.patience.insert(Patience::default()).clone();
            self.source = Source::Coming(self.tail.peer.begin(permit, out), patience);
            self.tail.sent_id = sent_id;
            self.task = Some(TaskStep::Asked(for_whom));
            return None;
        }
        let reply = {
            let sent = pin!(self.tail.peer.request(permit, out));
            until_cancelled(in_flight, self.tail.cancel_grace(), sent).await
        };
        self.tail.sent_id = sent_id;
        match reply {
            None => return Some(self.tail.cancelled()),
            Some(Err(error)) => return Some(self.tail.failed(&error)),
            Some(Ok(reply)) => self.source = Source::of(reply),
        }
        self.task = Some(TaskStep::Asked(for_whom));
        None
    }
}

/// What `tasks/get` is answered with for a task that asks something, and the task's id.
fn told_of(got: &Bytes, questions: &[Question]) -> Option<(String, String)> {
    let doc = Doc::read(got, &Bounds::ANSWER).ok()?;
    let task = doc.root().get("result")?;
    let id = task.get("taskId")?.as_str()?.into_owned();
    Some((tasks::modern_asking(task, questions), id))
}
