//! Tasks of a legacy server for a modern client: what the modern era has in one response takes several requests
//! here.

use super::response::BridgeWait;
use crate::exchange::parked::{ParkedCall, PendingAnswer, TaskKey};
use crate::exchange::response_reader::{
    NextPart, ResponsePart, ResponseReader, ResponseSource, until_cancelled,
};
use crate::exchange::rounds::ROUND_SECONDS_MAX;
use crate::upstream::{Event, SharedPause, UpstreamMessage};
use bytes::Bytes;
use mcp::edit::string;
use mcp::translate::InputRequest;
use mcp::translate::legacy_tasks::{self, TaskOutcome};
use mcp::{Id, Method, request_body, result_body};
use policy::json::{Bounds, Doc, Value};
use std::pin::{Pin, pin};
use std::time::Duration;

/// A further request to the server that is needed to respond to the client.
pub(in crate::exchange) enum TaskStep {
    /// `tasks/result` is sent next.
    Fetch { id: String, purpose: FetchPurpose },
    /// `tasks/result` was sent; its response is read next.
    Fetching(FetchPurpose),
}

/// Why the result of a task is fetched.
pub(in crate::exchange) enum FetchPurpose {
    /// For the call itself, whose client does not support tasks.
    Call,
    /// For `tasks/get`, with the server's response to it.
    Get(Bytes),
    /// For `tasks/get` of a task in `input_required`, to receive its input request.
    InputRequest(Bytes),
}

/// A legacy server sends its input request at once when `tasks/result` is called, or has none.
const REQUEST_WAIT_MAX: Duration = Duration::from_secs(2);

impl ResponseReader {
    /// Handles a response of a legacy server to a modern client. It may be about a task.
    pub(in crate::exchange) fn on_older_response(
        &mut self,
        status: u16,
        event: &Event,
        root: Value<'_>,
    ) -> Option<ResponsePart> {
        let outcome = root.get("result").map(TaskOutcome::Result);
        match (self.take_task_step(), Method::parse(&self.call.method), outcome) {
            (None, Method::ToolsCall, Some(TaskOutcome::Result(result)))
                if !self.call.request.client_takes_tasks() =>
            {
                if let Some(id) =
                    legacy_tasks::created_task(result).and_then(|task| task.get("taskId")?.as_str())
                {
                    self.call.crossing.set_awaited_task(Some(id.clone().into_owned()));
                    return self.fetch_result(&id, FetchPurpose::Call);
                }
            }
            (None, Method::TasksGet, Some(TaskOutcome::Result(task))) => {
                if let Some(id) = task.get("taskId").and_then(Value::as_str)
                    && legacy_tasks::has_ended(task)
                {
                    return self.fetch_result(&id, FetchPurpose::Get(event.message.clone()));
                }
                if legacy_tasks::is_input_required(task) {
                    return self.on_task_input_needed(event, task);
                }
                return Some(self.finish_with(&legacy_tasks::modern_get_result(task, None)));
            }
            (None, Method::TasksCancel, Some(_)) => return Some(self.finish_with("{}")),
            (Some(TaskStep::Fetching(FetchPurpose::Call)), ..) => {
                self.call.crossing.set_awaited_task(None);
            }
            (
                Some(TaskStep::Fetching(FetchPurpose::Get(got) | FetchPurpose::InputRequest(got))),
                _,
                outcome,
            ) => {
                let outcome = outcome.or_else(|| root.get("error").map(TaskOutcome::Error));
                if let Some(part) = self.finish_get(&got, outcome) {
                    return Some(part);
                }
            }
            _ => {}
        }
        Some(self.call.finish(status, &event.message, root))
    }

    /// `tasks/get` of a task that needs input: its input requests are known, or fetched now.
    fn on_task_input_needed(&mut self, event: &Event, task: Value<'_>) -> Option<ResponsePart> {
        let id = task.get("taskId").and_then(Value::as_str)?;
        let parked = self.call.context.parked();
        match parked.and_then(|parked| parked.input_requests_of(&self.task_key(&id))) {
            Some(requests) => {
                Some(self.finish_with(&legacy_tasks::modern_input_required(task, &requests)))
            }
            None => self.fetch_result(&id, FetchPurpose::InputRequest(event.message.clone())),
        }
    }

    fn task_key(&self, id: &str) -> TaskKey {
        let call = &self.call;
        (call.context.grantee.id.clone(), call.peer.server.name.clone(), id.to_owned())
    }

    /// Whether the current server request belongs to a task and is answered by `tasks/update`.
    pub(crate) fn is_task_request(&self) -> bool {
        matches!(self.task_step(), Some(TaskStep::Fetching(FetchPurpose::InputRequest(_))))
    }

    /// Parks the input requests of a task until `tasks/update`, and responds to the `tasks/get`.
    pub(crate) fn park_task(mut self, asking: Vec<(InputRequest, Id)>) -> Bytes {
        let requests: Vec<InputRequest> =
            asking.iter().map(|(request, _)| request.clone()).collect();
        let result = match self.take_task_step() {
            Some(TaskStep::Fetching(FetchPurpose::InputRequest(got))) => {
                input_required_result(&got, &requests)
            }
            _ => None,
        };
        let (part, task_id) = match result {
            Some((result, task_id)) => (self.finish_with(&result), task_id),
            None => (self.call.garbled("its task cannot be parsed"), String::new()),
        };
        self.call.record_now();
        let ResponsePart::Last { body, .. } = part else { return Bytes::new() };
        let Some(parked) = self.call.context.parked() else { return body };
        let until_us =
            self.call.context.services().clock.now().wall_us + ROUND_SECONDS_MAX * 1_000_000;
        let (key, grant) = (self.task_key(&task_id), self.call.context.grantee.id.clone());
        let requests = PendingAnswer::of(&self.call.context, &self.call.peer, asking);
        parked.park_task(key, ParkedCall { reader: self, requests, grant, until_us });
        body
    }

    fn task_step(&self) -> Option<&TaskStep> {
        self.call.crossing.to_older()?.task.as_ref()
    }

    fn take_task_step(&mut self) -> Option<TaskStep> {
        self.call.crossing.to_older_mut()?.task.take()
    }

    fn set_task_step(&mut self, step: TaskStep) {
        if let Some(crossing) = self.call.crossing.to_older_mut() {
            crossing.task = Some(step);
        }
    }

    /// Whether `tasks/result` has to be sent next.
    pub(super) fn is_follow_up_due(&self) -> bool {
        matches!(self.task_step(), Some(TaskStep::Fetch { .. }))
    }

    pub(in crate::exchange) fn is_task_request_due(&self) -> bool {
        matches!(
            self.task_step(),
            Some(TaskStep::Fetch { purpose: FetchPurpose::InputRequest(_), .. })
        )
    }

    /// Calls `tasks/result` to receive the input request of a task, with a short timeout.
    pub(in crate::exchange) fn fetch_task_request(
        &mut self,
    ) -> Pin<Box<dyn Future<Output = NextPart> + Send + '_>> {
        let got = match self.task_step() {
            Some(TaskStep::Fetch { purpose: FetchPurpose::InputRequest(got), .. }) => got.clone(),
            _ => Bytes::new(),
        };
        Box::pin(async move {
            let fetch = async {
                match self.follow_up().await {
                    Some(part) => NextPart::Ready(part),
                    None => self.next().await,
                }
            };
            match tokio::time::timeout(REQUEST_WAIT_MAX, fetch).await {
                Ok(next) => next,
                Err(_) => NextPart::Ready(self.finish_as_working(&got)),
            }
        })
    }

    fn finish_as_working(&mut self, got: &Bytes) -> ResponsePart {
        let doc = Doc::read(got, &Bounds::ANSWER);
        let task = doc.as_ref().ok().and_then(|doc| doc.root().get("result"));
        match task.map(legacy_tasks::modern_working) {
            Some(result) => self.finish_with(&result),
            None => self.call.stream_ended(),
        }
    }

    fn fetch_result(&mut self, id: &str, purpose: FetchPurpose) -> Option<ResponsePart> {
        self.set_task_step(TaskStep::Fetch { id: id.to_owned(), purpose });
        None
    }

    /// The response to `tasks/get`, with the task's outcome.
    fn finish_get(
        &mut self,
        got: &Bytes,
        outcome: Option<TaskOutcome<'_>>,
    ) -> Option<ResponsePart> {
        let doc = Doc::read(got, &Bounds::ANSWER).ok()?;
        let result = legacy_tasks::modern_get_result(doc.root().get("result")?, outcome);
        Some(self.finish_with(&result))
    }

    /// Ends the call with a result that the gate wrote.
    pub(in crate::exchange) fn finish_with(&mut self, result: &str) -> ResponsePart {
        let message = Bytes::from(result_body(&self.call.sent_id, result));
        match Doc::read(&message, &Bounds::ANSWER) {
            Ok(doc) => self.call.finish(200, &message, doc.root()),
            Err(_) => self.call.garbled("its task is nested too deeply"),
        }
    }

    /// Sends `tasks/result`. Legacy servers respond when the task has ended.
    pub(in crate::exchange) async fn follow_up(&mut self) -> Option<ResponsePart> {
        let Some(TaskStep::Fetch { id, purpose }) = self.take_task_step() else { return None };
        let Some(permit) = &self.call.permit else { return Some(self.call.stream_ended()) };
        let sent_id = self.call.peer.next_id();
        let params = format!("{{\"taskId\":{}}}", string(&id));
        let body = request_body(&sent_id, "tasks/result", Some(&params));
        let mut out = UpstreamMessage::request(sent_id.clone(), body.into());
        if matches!(purpose, FetchPurpose::Call | FetchPurpose::InputRequest(_)) {
            // The client gets the task's input requests and progress while it waits.
            out.client_capabilities = Some(self.call.request.client_capabilities);
            let crossing = self.call.crossing.to_older_mut()?;
            let progress_id = crossing.progress_id.get_or_insert_with(|| self.call.sent_id.clone());
            out.progress_token = Some(progress_id.raw().into());
        }
        let in_flight = self.call.in_flight.as_ref();
        if let Some(in_flight) = in_flight {
            in_flight.sent(&self.call.peer, sent_id.clone());
        }
        if self.call.crossing.hears_server_requests() {
            let pause = out.client_pause.insert(SharedPause::default()).clone();
            let reply = self.call.peer.start_request(permit, out);
            self.source = ResponseSource::Bridged(Box::new(BridgeWait::ForResponse(reply, pause)));
            self.call.sent_id = sent_id;
            self.set_task_step(TaskStep::Fetching(purpose));
            return None;
        }
        let reply = {
            let sent = pin!(self.call.peer.request(permit, out));
            until_cancelled(in_flight, self.call.cancel_grace(), sent).await
        };
        self.call.sent_id = sent_id;
        match reply {
            None => return Some(self.call.cancelled()),
            Some(Err(error)) => return Some(self.call.failed(&error)),
            Some(Ok(reply)) => self.source = ResponseSource::of(reply),
        }
        self.set_task_step(TaskStep::Fetching(purpose));
        None
    }
}

/// The result of `tasks/get` for a task that needs input, and the task id.
fn input_required_result(got: &Bytes, requests: &[InputRequest]) -> Option<(String, String)> {
    let doc = Doc::read(got, &Bounds::ANSWER).ok()?;
    let task = doc.root().get("result")?;
    let id = task.get("taskId")?.as_str()?.into_owned();
    Some((legacy_tasks::modern_input_required(task, requests), id))
}
