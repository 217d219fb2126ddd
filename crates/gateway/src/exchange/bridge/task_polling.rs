//! Tasks of a modern server for a legacy client that waits for the result: the gate polls them until they end.

use crate::exchange::prepare;
use crate::exchange::response_reader::{
    ResponsePart, ResponseReader, ResponseSource, until_cancelled,
};
use crate::exchange::results;
use crate::session::ClientMessage;
use crate::upstream::{Event, Stage, UpstreamError};
use bytes::Bytes;
use mcp::edit::string;
use mcp::translate::modern_tasks::{self, TaskState};
use mcp::{Method, code, error_body, notification_body};
use policy::json::{Bounds, Doc, Value};
use std::collections::HashSet;
use std::pin::pin;
use std::time::Duration;

/// The default poll interval, and the range that a server may request.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
const POLL_INTERVAL_MIN: Duration = Duration::from_millis(50);
const POLL_INTERVAL_MAX: Duration = Duration::from_mins(1);
/// How long a request waits for a task. After that the task is cancelled, and `tasks/result` fails.
const TASK_WAIT_MAX: Duration = Duration::from_hours(1);

/// A task that is being polled.
pub(in crate::exchange) struct Polling {
    task: String,
    step: Step,
    interval: Duration,
    /// Keys of input requests that were sent to the client. The server repeats them until it has used the
    /// answers.
    sent_keys: HashSet<String>,
    /// The last status message of the task.
    status_message: Option<String>,
    polls: u32,
}

/// The next step, or the one in progress.
enum Step {
    Pause,
    Poll,
    /// The client's answers, for `tasks/update`.
    Update(String),
    Polled,
    Updated,
}

impl Polling {
    fn at(task: Value<'_>, step: Step) -> Option<Box<Polling>> {
        let id = task.get("taskId")?.as_str()?.into_owned();
        Some(Polling::named(id, interval(task), step))
    }

    fn named(task: String, interval: Duration, step: Step) -> Box<Polling> {
        Box::new(Polling {
            task,
            step,
            interval,
            sent_keys: HashSet::new(),
            status_message: None,
            polls: 0,
        })
    }

    pub(in crate::exchange) fn is_due(&self) -> bool {
        !matches!(self.step, Step::Polled | Step::Updated)
    }

    pub(in crate::exchange) fn answered(&mut self, answers: &[(String, String)]) {
        let answers: Vec<String> =
            answers.iter().map(|(key, raw)| format!("{}:{raw}", string(key))).collect();
        self.step = Step::Update(answers.join(","));
    }
}

/// The poll interval that a task requests.
fn interval(task: Value<'_>) -> Duration {
    let named = task.get("pollIntervalMs").and_then(Value::as_number);
    let named = named.and_then(|ms| ms.parse().ok()).map(Duration::from_millis);
    named.unwrap_or(POLL_INTERVAL).clamp(POLL_INTERVAL_MIN, POLL_INTERVAL_MAX)
}

impl ResponseReader {
    fn polled(&self) -> Option<&Polling> {
        self.call.crossing.to_newer()?.polling.as_deref()
    }

    fn polling(&mut self) -> Option<&mut Polling> {
        self.call.crossing.to_newer_mut()?.polling.as_deref_mut()
    }

    fn set_polling(&mut self, polling: Option<Box<Polling>>) {
        if let Some(crossing) = self.call.crossing.to_newer_mut() {
            crossing.polling = polling;
        }
    }

    /// Handles a response of a modern server to a legacy client.
    pub(in crate::exchange) fn on_newer_response(
        &mut self,
        status: u16,
        event: &Event,
        root: Value<'_>,
    ) -> Option<ResponsePart> {
        let is_of_task = match root.get("result") {
            Some(_) => self.is_about_task(root),
            None => self.call.crossing.is_polling(),
        };
        if is_of_task {
            return self.on_newer_task_response(status, event, root);
        }
        Some(self.call.finish(status, &event.message, root))
    }

    /// Whether a response is about a task, or has to become one.
    fn is_about_task(&self, root: Value<'_>) -> bool {
        let becomes_task = || {
            self.call.method == "tools/call"
                && (root.get("result").is_some_and(modern_tasks::is_task) || self.call.wants_task())
        };
        self.call.crossing.is_polling()
            || Method::parse(&self.call.method).follows_up_a_task()
            || becomes_task()
    }

    /// Handles a response about a task.
    fn on_newer_task_response(
        &mut self,
        status: u16,
        event: &Event,
        root: Value<'_>,
    ) -> Option<ResponsePart> {
        if root.get("result").is_none() {
            // The request failed, so there is no task to cancel.
            self.call.crossing.set_awaited_task(None);
            return Some(self.call.finish(status, &event.message, root));
        }
        let Ok(doc) = Doc::read(&event.message, &Bounds::ANSWER) else {
            return Some(self.call.garbled("its response is not JSON"));
        };
        let result = doc.root().get("result")?;
        let step = self.polled().map(|polling| &polling.step);
        match (step, Method::parse(&self.call.method)) {
            (Some(Step::Updated), _) => self.set_step(Step::Pause),
            (Some(_), _) => self.on_task_state(result),
            (None, Method::TasksResult) => {
                self.set_polling(Polling::at(result, Step::Polled));
                self.on_task_state(result)
            }
            (None, Method::TasksGet) => Some(self.finish_with(&modern_tasks::legacy_task(result))),
            (None, Method::TasksCancel) if result.get("status").is_some() => {
                self.on_task_state(result)
            }
            (None, Method::TasksCancel) => {
                let id = self.call.request.task_id()?;
                self.set_polling(Some(Polling::named(id, POLL_INTERVAL, Step::Poll)));
                None
            }
            (None, Method::ToolsCall) => self.on_call_response(status, event, result),
            (None, _) => Some(self.call.finish(status, &event.message, doc.root())),
        }
    }

    /// The response to a call: the server created a task, or answered a client that wants one.
    fn on_call_response(
        &mut self,
        status: u16,
        event: &Event,
        result: Value<'_>,
    ) -> Option<ResponsePart> {
        match (modern_tasks::is_task(result), self.call.wants_task()) {
            (true, true) => {
                let part = self.finish_with(&modern_tasks::legacy_created(result));
                if let Some(id) = result.get("taskId").and_then(Value::as_str) {
                    let context = &self.call.context;
                    context.state.upper_layers.follow_task(context, &self.call.peer, &id);
                }
                Some(part)
            }
            (true, false) => {
                let polling = Polling::at(result, Step::Pause);
                let task = polling.as_ref().map(|polling| polling.task.clone());
                self.set_polling(polling);
                let Some(task) = task else {
                    return Some(self.call.garbled("its task has no id"));
                };
                self.call.crossing.set_awaited_task(Some(task));
                None
            }
            (false, _) => {
                let doc = Doc::read(&event.message, &Bounds::ANSWER).ok()?;
                let part = self.call.finish(status, &event.message, doc.root());
                Some(self.call.keep_as_task(part))
            }
        }
    }

    fn set_step(&mut self, step: Step) -> Option<ResponsePart> {
        if let Some(polling) = self.polling() {
            polling.step = step;
        }
        None
    }

    /// Handles the state of a polled task.
    fn on_task_state(&mut self, task: Value<'_>) -> Option<ResponsePart> {
        let Some(state) = modern_tasks::state(task) else {
            return Some(self.call.garbled("its task cannot be parsed"));
        };
        if self.call.method == "tasks/cancel" {
            return Some(self.on_cancel(task, &state));
        }
        match state {
            TaskState::Working => self.on_task_working(task),
            TaskState::InputRequired => self.on_task_input_required(task),
            TaskState::Result(result) => {
                let id = self.polled().map(|polling| polling.task.clone());
                let related = id.filter(|_| self.call.method == "tasks/result");
                let result = related.map_or_else(
                    || result.raw().to_owned(),
                    |id| modern_tasks::with_related_task(result, &id),
                );
                self.call.crossing.set_awaited_task(None);
                Some(self.finish_with(&result))
            }
            TaskState::Error(error) => Some(self.finish_with_error(error.raw())),
            TaskState::Cancelled => {
                let message = "\"the server cancelled the task\"";
                let error = format!("{{\"code\":{},\"message\":{message}}}", code::INTERNAL);
                Some(self.finish_with_error(&error))
            }
        }
    }

    fn finish_with_error(&mut self, error: &str) -> ResponsePart {
        self.call.crossing.set_awaited_task(None);
        let id = self.call.sent_id.raw();
        let message = Bytes::from(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{error}}}"));
        match Doc::read(&message, &Bounds::ANSWER) {
            Ok(doc) => self.call.finish(200, &message, doc.root()),
            Err(_) => self.call.garbled("the outcome of its task is nested too deeply"),
        }
    }

    /// Responds to `tasks/cancel`. A modern server may cancel later, and a legacy server refuses if the task
    /// has ended.
    fn on_cancel(&mut self, task: Value<'_>, state: &TaskState<'_>) -> ResponsePart {
        if !matches!(state, TaskState::Result(_) | TaskState::Error(_)) {
            return self.finish_with(&modern_tasks::legacy_task(task));
        }
        let message = "this task has ended and cannot be cancelled";
        let refusal = error_body(Some(&self.call.sent_id), code::INVALID_PARAMS, message, None);
        let refusal = Bytes::from(refusal);
        match Doc::read(&refusal, &Bounds::ANSWER) {
            Ok(doc) => self.call.finish(200, &refusal, doc.root()),
            Err(_) => self.call.garbled("its task has ended"),
        }
    }

    /// The task continues: polls it later and forwards its status message as progress.
    fn on_task_working(&mut self, task: Value<'_>) -> Option<ResponsePart> {
        if self.call.began.elapsed() > TASK_WAIT_MAX {
            let (stage, after) = (Stage::Total, TASK_WAIT_MAX);
            return Some(self.call.failed(&UpstreamError::TimedOut { stage, after }));
        }
        let polling = self.polling()?;
        (polling.step, polling.interval) = (Step::Pause, interval(task));
        polling.polls = polling.polls.saturating_add(1);
        let status_message = task.get("statusMessage").map(|message| message.raw().to_owned());
        if status_message.is_none() || status_message == polling.status_message {
            return None;
        }
        polling.status_message = status_message;
        let (message, step) = (polling.status_message.clone()?, polling.polls);
        let token = self.call.request.progress_token()?;
        let params = format!(
            "{{\"progressToken\":{},\"progress\":{step},\"message\":{message}}}",
            token.raw()
        );
        let notification = Bytes::from(notification_body("notifications/progress", Some(&params)));
        let notification = match Doc::read(&notification, &Bounds::ANSWER) {
            Ok(doc) if !self.call.effects.redact.is_empty() => {
                results::progress_without_message(doc.root()).into()
            }
            _ => notification,
        };
        let notification = self.call.crossing.to_newer_mut()?.progress.adjusted(notification);
        Some(ResponsePart::Interim(ClientMessage::plain(notification)))
    }

    /// The task needs input. The client may have been asked already.
    fn on_task_input_required(&mut self, task: Value<'_>) -> Option<ResponsePart> {
        let polling = self.polling()?;
        (polling.step, polling.interval) = (Step::Pause, interval(task));
        let mut requests = mcp::translate::input_requests(task).unwrap_or_default();
        requests.retain(|request| polling.sent_keys.insert(request.key.clone()));
        if requests.is_empty() {
            return self.on_task_working(task);
        }
        let task_id = polling.task.clone();
        if self.call.method == "tasks/result" {
            for request in &mut requests {
                if let Ok(doc) = Doc::read(request.params.as_bytes(), &Bounds::ANSWER) {
                    request.params = modern_tasks::with_related_task(doc.root(), &task_id);
                }
            }
        }
        self.ask_client(requests, None)
    }

    /// Runs the next step of a task: wait, poll, or send answers.
    pub(in crate::exchange) async fn poll_task(&mut self) -> Option<ResponsePart> {
        let grace = self.call.cancel_grace();
        let polling = self.polling()?;
        let interval = polling.interval;
        let id = string(&polling.task);
        let (method, params) = match std::mem::replace(&mut polling.step, Step::Polled) {
            Step::Update(answers) => {
                polling.step = Step::Updated;
                let params = format!("{{\"taskId\":{id},\"inputResponses\":{{{answers}}}}}");
                ("tasks/update", params)
            }
            Step::Pause => {
                let pause = pin!(tokio::time::sleep(interval));
                if until_cancelled(self.call.in_flight.as_ref(), grace, pause).await.is_none() {
                    return Some(self.call.cancelled());
                }
                ("tasks/get", format!("{{\"taskId\":{id}}}"))
            }
            _ => ("tasks/get", format!("{{\"taskId\":{id}}}")),
        };
        let Some(permit) = &self.call.permit else { return Some(self.call.stream_ended()) };
        let in_flight = self.call.in_flight.as_ref();
        let client = prepare::client_meta_with_tasks(&self.call.context, &self.call.peer);
        let prepared = prepare::own_request(&self.call.peer, method, Some(&params), &client);
        if let Some(in_flight) = in_flight {
            in_flight.sent(&self.call.peer, prepared.id.clone());
        }
        let reply = {
            let sent = pin!(self.call.peer.request(permit, prepared.out));
            until_cancelled(in_flight, grace, sent).await
        };
        self.call.sent_id = prepared.id;
        match reply {
            None => return Some(self.call.cancelled()),
            Some(Err(error)) => return Some(self.call.failed(&error)),
            Some(Ok(reply)) => self.source = ResponseSource::of(reply),
        }
        None
    }
}
