//! What comes back for an admitted request, piece by piece until its answer; then the outcome row.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use policy::json::{Bounds, Doc, Value};
use policy::{Code, Denial, Effects};
use store::ledger::{Ending, Facts, LedgerError, Outcome, Permit};
use tokio::sync::{broadcast, oneshot};

use crate::answers;
use crate::call::{Asked, Owned};
use crate::in_force::Rules;
use crate::lists::{List, View};
use crate::peer::Peer;
use crate::rebuild::{self, Member};
use crate::results;
use crate::scene::Scene;
use crate::session::{AnswerTo, ClientAnswer, InFlight, Outgoing};
use crate::trace::{Span, Trace};
use crate::translate::{self, Question, meta};
use crate::upstream::{Event, Events, Reply, UpstreamError};
use crate::wire::{Era, Id, error_body, notification_body, request_body, result_body};

/// After a client took a request back, the server has so long to answer it all the same.
const CANCEL_GRACE: Duration = Duration::from_secs(1);
/// Log messages may come on another stream than the answer they precede; it waits so long for them.
const LATE_LOG_WAIT: Duration = Duration::from_millis(50);
/// A client has so long to answer a server's question.
const QUESTION_WAIT_MAX: Duration = Duration::from_mins(10);

/// One piece for the client.
pub(crate) enum Piece {
    Interim(Outgoing),
    Last {
        status: u16,
        body: Bytes,
    },
    /// An older server asks a client that takes questions only as a result: the call must be parked.
    Question {
        question: Question,
        id: Id,
    },
    /// The stream ended early; a client of a session can take it up again by its event id.
    Broken,
    Cancelled,
}

/// An admitted request and what comes of it.
pub(crate) struct Flow {
    source: Source,
    pub(crate) tail: Tail,
    asking: Option<Asking>,
}

enum Source {
    One(u16, Bytes),
    Events(Events),
    Ended,
}

/// Questions of a modern server, put to a client of a session.
struct Asking {
    to_send: Vec<Bytes>,
    waiting: Vec<(String, oneshot::Receiver<ClientAnswer>)>,
    state: Option<String>,
}

/// What is known about a request while it is away.
pub(crate) struct Tail {
    pub(crate) scene: Scene,
    pub(crate) peer: Arc<Peer>,
    pub(crate) permit: Option<Permit>,
    pub(crate) began: Instant,
    /// The client's id, and the one the server knows it by.
    pub(crate) id: Id,
    pub(crate) sent_id: Id,
    pub(crate) era: Era,
    pub(crate) method: String,
    pub(crate) list: Option<List>,
    pub(crate) effects: Effects,
    pub(crate) rules: Option<Arc<Rules>>,
    /// The progress token as the client wrote it, where the server was given another.
    pub(crate) token: Option<String>,
    /// Whether the client wants log messages on this request.
    pub(crate) logs: bool,
    pub(crate) trace: Option<Trace>,
    /// Where an older server's log messages come in that belong to no request.
    pub(crate) beside: Option<broadcast::Receiver<Bytes>>,
    /// Those that came and were not passed on yet.
    pub(crate) late_logs: VecDeque<Bytes>,
    /// What a further round of this call must fit.
    pub(crate) asked: Asked,
    pub(crate) in_flight: Option<InFlight>,
    /// An event with an id was seen, so the stream can be taken up again.
    pub(crate) resumable: bool,
}

impl Flow {
    pub(crate) fn new(reply: Reply, tail: Tail) -> Flow {
        let source = match reply {
            Reply::One { status, body } => Source::One(status, body),
            Reply::Many(events) => Source::Events(events),
            Reply::Accepted => Source::Ended,
        };
        Flow { source, tail, asking: None }
    }

    /// The next piece. After `Last`, `Broken` or `Cancelled` there is none.
    pub(crate) async fn next(&mut self) -> Piece {
        loop {
            if let Some(piece) = self.ask_on().await {
                return piece;
            }
            if let Some(log) = self.tail.log_beside() {
                return Piece::Interim(Outgoing::plain(log));
            }
            let event = match std::mem::replace(&mut self.source, Source::Ended) {
                Source::One(status, body) => {
                    Some(Ok((status, Event { message: body, ..Event::default() })))
                }
                Source::Ended => None,
                Source::Events(mut events) => {
                    let next = until_cancelled(self.tail.in_flight.as_ref(), events.next()).await;
                    self.source = Source::Events(events);
                    match next {
                        None => return self.tail.cancelled(),
                        Some(event) => event.map(|event| event.map(|event| (200, event))),
                    }
                }
            };
            if let Some(Ok((status, event))) = &event
                && self.tail.await_logs(&event.message).await
            {
                self.source = Source::One(*status, event.message.clone());
                continue;
            }
            let piece = match event {
                None => Some(self.tail.ran_out()),
                Some(Err(error)) => Some(self.tail.failed(&error)),
                Some(Ok((status, event))) => self.sort(status, &event),
            };
            if let Some(piece) = piece {
                return piece;
            }
        }
    }

    fn sort(&mut self, status: u16, event: &Event) -> Option<Piece> {
        if event.message.is_empty() {
            return self.tail.priming(event);
        }
        let Ok(doc) = Doc::read_shallow(&event.message, &Bounds::ANSWER, 3) else {
            return Some(self.tail.garbled("its message is not JSON"));
        };
        let root = doc.root();
        let id = root.get("id").and_then(Id::lenient);
        match (root.get("method").and_then(Value::as_str), id) {
            (Some(method), None) => self.tail.told(event, &method, root),
            (Some(method), Some(id)) => self.tail.questioned(event, &method, id, root),
            (None, id) => {
                // HTTP servers answer what they could not read with a null id.
                let ours =
                    id.as_ref() == Some(&self.tail.sent_id) || (id.is_none() && status >= 400);
                if ours { self.answered(status, event, root) } else { stray() }
            }
        }
    }

    fn answered(&mut self, status: u16, event: &Event, root: Value<'_>) -> Option<Piece> {
        if let Some(result) = root.get("result") {
            let kind = result.get("resultType").and_then(Value::as_str);
            if kind.as_deref() == Some("input_required") && self.tail.peer.era == Era::Modern {
                return self.input_required(event);
            }
        }
        Some(self.tail.finish(status, &event.message))
    }

    /// A modern server needs something of the client before it can answer.
    fn input_required(&mut self, event: &Event) -> Option<Piece> {
        let Ok(doc) = Doc::read(&event.message, &Bounds::ANSWER) else {
            return Some(self.tail.garbled("its result is not JSON"));
        };
        let result = doc.root().get("result")?;
        let questions = translate::questions(result);
        if let Some(question) = questions.iter().find(|q| !self.tail.may_ask(&q.method)) {
            return Some(self.tail.question_refused(&question.method));
        }
        let state =
            result.get("requestState").and_then(Value::as_str).map(std::borrow::Cow::into_owned);
        match (self.tail.era, self.tail.scene.session.clone()) {
            (Era::Modern, _) => Some(self.tail.next_round(result, state)),
            (Era::Legacy, None) => Some(self.tail.question_refused("elicitation/create")),
            (Era::Legacy, Some(session)) => {
                let mut asking = Asking { to_send: Vec::new(), waiting: Vec::new(), state };
                for question in questions {
                    let (answer, waiting) = oneshot::channel();
                    let id = session.ask(None, AnswerTo::Call(answer));
                    asking
                        .to_send
                        .push(request_body(&id, &question.method, Some(&question.params)).into());
                    asking.waiting.push((question.key, waiting));
                }
                self.asking = Some(asking);
                None
            }
        }
    }

    /// Puts a modern server's questions to the client, collects the answers, and goes on.
    async fn ask_on(&mut self) -> Option<Piece> {
        let asking = self.asking.as_mut()?;
        if !asking.to_send.is_empty() {
            return Some(Piece::Interim(Outgoing::plain(asking.to_send.remove(0))));
        }
        let asking = self.asking.take()?;
        let mut answers = Vec::new();
        for (key, waiting) in asking.waiting {
            let answer = tokio::time::timeout(QUESTION_WAIT_MAX, waiting);
            match until_cancelled(self.tail.in_flight.as_ref(), answer).await {
                None => return Some(self.tail.cancelled()),
                Some(Ok(Ok(ClientAnswer::Result(result)))) => answers.push((key, result)),
                Some(Ok(Ok(ClientAnswer::Error(error)))) => {
                    return Some(self.tail.client_refused(&error));
                }
                Some(_) => {
                    return Some(self.tail.garbled("the client did not answer its question"));
                }
            }
        }
        let Some(permit) = &self.tail.permit else { return Some(self.tail.ran_out()) };
        let retry = self.tail.asked.retry(
            &self.tail.scene,
            &self.tail.peer,
            &answers,
            asking.state.as_deref(),
        );
        self.tail.sent_id = retry.id;
        match self.tail.peer.request(permit, retry.out).await {
            Ok(Reply::One { status, body }) => self.source = Source::One(status, body),
            Ok(Reply::Many(events)) => self.source = Source::Events(events),
            Ok(Reply::Accepted) => self.source = Source::Ended,
            Err(error) => return Some(self.tail.failed(&error)),
        }
        None
    }
}

/// Waits for `work`, but not much longer than the client does.
pub(crate) async fn until_cancelled<T>(
    in_flight: Option<&InFlight>,
    work: impl Future<Output = T>,
) -> Option<T> {
    let Some(in_flight) = in_flight else { return Some(work.await) };
    let mut work = std::pin::pin!(work);
    tokio::select! {
        biased;
        done = &mut work => Some(done),
        () = in_flight.flight.cancelled.notified() => {
            tokio::time::timeout(CANCEL_GRACE, work).await.ok()
        }
    }
}

/// Notifications that belong to no request.
fn is_news(method: &str) -> bool {
    method.ends_with("/list_changed") || method == "notifications/resources/updated"
}

fn stray() -> Option<Piece> {
    tracing::warn!("a server answered something that was not asked; dropped");
    None
}

impl Drop for Tail {
    /// A client of the newer era takes a request back by hanging up; an older server must be told.
    fn drop(&mut self) {
        let gone = self.permit.is_some() && self.era == Era::Modern;
        if gone && self.peer.era == Era::Legacy && !self.peer.is_child() && !self.peer.is_builtin()
        {
            let params = format!("{{\"requestId\":{}}}", self.sent_id.raw());
            let body = notification_body("notifications/cancelled", Some(&params));
            self.scene.gate.tell_server(&self.peer, body.into());
        }
    }
}

impl Tail {
    fn priming(&mut self, event: &Event) -> Option<Piece> {
        self.resumable |= event.id.is_some();
        (self.era == Era::Legacy && self.peer.era == Era::Legacy)
            .then(|| Piece::Interim(outgoing(event, Bytes::new())))
    }

    /// Gives log messages on another stream a moment to arrive before the answer ends the request;
    /// true when there are some to be sent first.
    async fn await_logs(&mut self, message: &[u8]) -> bool {
        let Some(mut beside) = self.beside.take() else { return false };
        let is_answer = Doc::read_shallow(message, &Bounds::ANSWER, 1)
            .is_ok_and(|doc| doc.root().get("method").is_none());
        if is_answer && beside.is_empty() {
            let late = tokio::time::timeout(LATE_LOG_WAIT, beside.recv()).await;
            self.late_logs.extend(late.ok().and_then(Result::ok));
        }
        while let Ok(message) = beside.try_recv() {
            self.late_logs.push_back(message);
        }
        if !is_answer {
            self.beside = Some(beside);
        }
        !self.late_logs.is_empty()
    }

    /// A log message that an older server sent outside the request while it was under way.
    fn log_beside(&mut self) -> Option<Bytes> {
        if let Some(beside) = &mut self.beside {
            while let Ok(message) = beside.try_recv() {
                self.late_logs.push_back(message);
            }
        }
        while let Some(message) = self.late_logs.pop_front() {
            let is_log = Doc::read_shallow(&message, &Bounds::ANSWER, 1).is_ok_and(|doc| {
                doc.root().get("method").and_then(Value::as_str).as_deref()
                    == Some("notifications/message")
            });
            if is_log {
                return Some(message);
            }
        }
        None
    }

    /// A notification on this request.
    fn told(&mut self, event: &Event, method: &str, root: Value<'_>) -> Option<Piece> {
        self.resumable |= event.id.is_some();
        if method == "notifications/tools/list_changed" {
            self.peer.set_checked(false);
            self.peer.server.forget_check();
        }
        if method == "notifications/message" && !self.logs {
            return None;
        }
        if self.era == Era::Modern && self.peer.era == Era::Legacy && is_news(method) {
            // A client of the newer era hears news only where it subscribed to them.
            let heard = self.scene.gate.heard(&self.peer.server.name, &self.scene.holder.id);
            // Nobody may be subscribed.
            let _ = heard.send(event.message.clone());
            return None;
        }
        let message = self.restored(event, method, root);
        Some(Piece::Interim(outgoing(event, message)))
    }

    /// The notification with the client's own progress token and subscription id.
    fn restored(&self, event: &Event, method: &str, root: Value<'_>) -> Bytes {
        let Some(params) = root.get("params") else { return event.message.clone() };
        let params = match (&self.token, method) {
            (Some(token), "notifications/progress") => {
                rebuild::with(params, "progressToken", token.clone())
            }
            _ if self.id != self.sent_id => match params.get("_meta") {
                Some(of) if of.get(meta::SUBSCRIPTION_ID).is_some() => {
                    let of = rebuild::with(of, meta::SUBSCRIPTION_ID, self.id.raw().to_owned());
                    rebuild::with(params, "_meta", of)
                }
                _ => return event.message.clone(),
            },
            _ => return event.message.clone(),
        };
        rebuild::with(root, "params", params).into()
    }

    /// A server asks the client something inside this request.
    fn questioned(
        &mut self,
        event: &Event,
        method: &str,
        id: Id,
        root: Value<'_>,
    ) -> Option<Piece> {
        self.resumable |= event.id.is_some();
        if method == "ping" {
            let pong = result_body(&id, "{}");
            self.scene.gate.answer_server(&self.peer, pong.into());
            return None;
        }
        if !self.may_ask(method) {
            let refusal =
                error_body(Some(&id), -32601, "the client does not take this request here", None);
            self.scene.gate.answer_server(&self.peer, refusal.into());
            return None;
        }
        match (self.era, &self.scene.session) {
            (Era::Modern, _) => {
                let params = root.get("params").map_or("{}", Value::raw).to_owned();
                let key = format!("question-{}", id.raw().trim_matches('"'));
                Some(Piece::Question {
                    question: Question { key, method: method.to_owned(), params },
                    id,
                })
            }
            (Era::Legacy, Some(session)) => {
                let alone = session.server.is_some();
                let to = AnswerTo::Server { peer: Arc::clone(&self.peer), id: id.clone() };
                let shown = session.ask(alone.then(|| id.clone()), to);
                let message = if alone {
                    event.message.clone()
                } else {
                    rebuild::with(root, "id", shown.raw().to_owned()).into()
                };
                Some(Piece::Interim(outgoing(event, message)))
            }
            (Era::Legacy, None) => None,
        }
    }

    /// Whether this client can be asked, and its policy lets servers ask.
    pub(crate) fn may_ask(&self, method: &str) -> bool {
        let allowed = self.rules.as_ref().is_none_or(|rules| rules.server_may_ask(method));
        allowed
            && self.asked.client_takes(method)
            && (self.era == Era::Modern || self.scene.session.is_some())
    }

    /// The answer as the client gets it, and the outcome row.
    pub(crate) fn finish(&mut self, status: u16, message: &Bytes) -> Piece {
        // Deep enough for `result.task.taskId`.
        let depth = if self.needs_edit() { usize::MAX } else { 3 };
        let Ok(doc) = Doc::read_shallow(message, &Bounds::ANSWER, depth) else {
            return self.garbled("its answer is not JSON");
        };
        let root = doc.root();
        if matches!(status, 401 | 403 | 407) {
            return self.failed(&UpstreamError::Status { status, body: Bytes::new() });
        }
        let (body, ending) = match (root.get("result"), root.get("error")) {
            (Some(result), None) => match self.edited(result) {
                Err(denial) => return self.too_large(denial),
                Ok(edited) => {
                    let failed = result.get("isError").and_then(Value::as_bool) == Some(true);
                    let ending = if failed { Ending::Error } else { Ending::Ok };
                    (self.result(message, edited), ending)
                }
            },
            (None, Some(error)) => (self.error(message, root, error), Ending::Error),
            _ => return self.garbled("its answer has neither a result nor an error"),
        };
        self.settle(ending, Some(status), message.len());
        let status = if self.era == self.peer.era { status } else { 200 };
        Piece::Last { status, body }
    }

    fn needs_edit(&self) -> bool {
        self.list.is_some() || self.era != self.peer.era || !results::is_idle(&self.effects)
    }

    /// The result with everything that the gate must change, or nothing when it may stay as it is.
    fn edited(&self, result: Value<'_>) -> Result<Option<String>, Denial> {
        self.scene.gate.tasks.note(result, &self.asked, &self.scene, &self.peer.server.name);
        let mut text = self.effects_on(result)?;
        if let Some(list) = self.list {
            text = Some(on(text.as_deref(), result, |result| self.seen(list, result)));
        }
        match (self.peer.era, self.era) {
            (Era::Legacy, Era::Modern) => {
                text = Some(on(text.as_deref(), result, |r| {
                    translate::modern_result(&self.method, r)
                }));
            }
            (Era::Modern, Era::Legacy) => {
                text = Some(on(text.as_deref(), result, translate::legacy_result));
            }
            _ => {}
        }
        Ok(text)
    }

    fn effects_on(&self, result: Value<'_>) -> Result<Option<String>, Denial> {
        results::apply(&self.effects, result).map_err(|too_large| {
            let reason = format!(
                "the result has {} bytes and the policy allows {}; ask for less",
                too_large.bytes, too_large.bytes_max
            );
            Denial::new(Code::ResultTooLarge, self.asked.entry_rule(), reason)
        })
    }

    fn seen(&self, list: List, result: Value<'_>) -> String {
        if list == List::Tools {
            self.scene.gate.observe(&self.peer, result, self.asked.is_first_page());
        }
        let pins = self.peer.server.pins();
        let policy = self.rules.as_ref().map(|rules| &rules.policy);
        View { policy, pins: &pins, prefix: None }.result(list, result)
    }

    fn result(&self, message: &Bytes, edited: Option<String>) -> Bytes {
        match edited {
            None if self.id == self.sent_id => message.clone(),
            None => match Doc::read_shallow(message, &Bounds::ANSWER, 1) {
                Ok(doc) => rebuild::with(doc.root(), "id", self.id.raw().to_owned()).into(),
                Err(_) => message.clone(),
            },
            Some(result) => result_body(&self.id, &result).into(),
        }
    }

    fn error(&self, message: &Bytes, root: Value<'_>, error: Value<'_>) -> Bytes {
        let same_id = root.get("id").is_some_and(|id| id.raw() == self.id.raw());
        if same_id && self.era == self.peer.era {
            return message.clone();
        }
        let error = if self.era == self.peer.era {
            error.raw().to_owned()
        } else {
            translate::error(error, self.era == Era::Modern, &self.method)
        };
        rebuild::object(
            root,
            |key, _| match key {
                "id" => Member::Replace(self.id.raw().to_owned()),
                "error" => Member::Replace(error.clone()),
                _ => Member::Keep,
            },
            &[],
        )
        .into()
    }

    /// A result that asks the client for input, with our seal around the server's state.
    fn next_round(&mut self, result: Value<'_>, state: Option<String>) -> Piece {
        let (asked, server) = (&self.asked, &self.peer.server.name);
        let inner = crate::mrtr::Inner::Server(state);
        let sealed =
            self.scene.gate.seal(&self.scene, server, &asked.digest, asked.first_seq, inner);
        let Some(sealed) = sealed else {
            return self.garbled("the state of this call could not be sealed");
        };
        let result = rebuild::with(result, "requestState", rebuild::string(&sealed));
        let body = result_body(&self.id, &result);
        self.settle_for_now(body.len());
        Piece::Last { status: 200, body: body.into() }
    }

    fn question_refused(&mut self, method: &str) -> Piece {
        self.settle(Ending::Error, None, 0);
        let words = format!(
            "the server asked for `{method}`, which this client or its policy does not allow"
        );
        Piece::Last { status: 200, body: error_body(Some(&self.id), -32021, &words, None).into() }
    }

    fn client_refused(&mut self, error: &str) -> Piece {
        self.settle(Ending::Error, None, 0);
        let body = format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"error\":{error}}}", self.id.raw());
        Piece::Last { status: 200, body: body.into() }
    }

    fn too_large(&mut self, mut denial: Denial) -> Piece {
        denial.audit_id = self.permit.as_ref().map(Permit::seq);
        self.settle_with(Outcome {
            code: Some(Code::ResultTooLarge),
            ..Outcome::new(Ending::Error)
        });
        let body = if self.method == "tools/call" {
            answers::denied_call(&self.id, &denial, self.era)
        } else {
            answers::denied(&self.id, &denial)
        };
        Piece::Last { status: 200, body: body.into() }
    }

    fn garbled(&mut self, why: &str) -> Piece {
        self.failed(&UpstreamError::Garbled { why: why.to_owned() })
    }

    /// No answer will come.
    pub(crate) fn failed(&mut self, error: &UpstreamError) -> Piece {
        if self.in_flight.as_ref().is_some_and(|in_flight| in_flight.flight.is_taken_back()) {
            return self.cancelled();
        }
        if self.resumable && self.era == Era::Legacy && matches!(error, UpstreamError::Lost { .. })
        {
            return Piece::Broken;
        }
        tracing::warn!(server = %self.peer.server.name, %error, "no answer from the server");
        let body = answers::upstream_failed(&self.id, &self.peer.server.name, error);
        match (self.permit.take(), error.may_have_happened()) {
            (Some(permit), false) => late(permit.release(&error.to_string())),
            (permit, _) => {
                self.permit = permit;
                let ending = match error {
                    UpstreamError::Status { .. }
                    | UpstreamError::TooLarge { .. }
                    | UpstreamError::Garbled { .. } => Ending::Error,
                    _ => Ending::Unknown,
                };
                self.settle(ending, None, 0);
            }
        }
        Piece::Last { status: 200, body: body.into() }
    }

    fn ran_out(&mut self) -> Piece {
        if self.resumable && self.era == Era::Legacy {
            return Piece::Broken;
        }
        self.failed(&UpstreamError::Lost { why: "the stream ended without an answer".to_owned() })
    }

    pub(crate) fn cancelled(&mut self) -> Piece {
        self.settle(Ending::Cancelled, None, 0);
        Piece::Cancelled
    }

    fn settle(&mut self, ending: Ending, status: Option<u16>, result_bytes: usize) {
        let status = status.map(|status| status.to_string());
        let outcome = Outcome {
            status: status.as_deref(),
            result_bytes: Some(result_bytes as u64),
            ..Outcome::new(ending)
        };
        self.settle_with(outcome);
    }

    fn settle_with(&mut self, outcome: Outcome<'_>) {
        let Some(permit) = self.permit.take() else { return };
        let latency_us = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.scene.gate.metrics.call_ended(outcome.ending, latency_us);
        self.end_trace(outcome.ending, latency_us);
        late(permit.settle(&Outcome { latency_us: Some(latency_us), ..outcome }));
        self.in_flight = None;
    }

    fn end_trace(&mut self, ending: Ending, took_us: u64) {
        let Some(trace) = self.trace.take() else { return };
        self.scene.gate.tracer.end(Span {
            trace,
            name: self.method.clone(),
            server: self.peer.server.name.clone(),
            grant: self.scene.holder.label.clone(),
            ended_at_us: self.scene.gate.clock.now().wall_us,
            took_us,
            ending,
        });
    }

    /// The server asked something back; the same call goes on when the client answers.
    fn settle_for_now(&mut self, result_bytes: usize) {
        let Some(permit) = self.permit.take() else { return };
        let facts = Facts {
            server: &self.peer.server.name,
            method: &self.method,
            subject: self.asked.subject.as_ref().map(Owned::as_subject),
            argument_digest: self.asked.argument_digest,
            ..self.scene.facts()
        };
        let outcome =
            Outcome { result_bytes: Some(result_bytes as u64), ..Outcome::new(Ending::Ok) };
        late(permit.settle_until_continued(&outcome, &facts));
    }
}

/// An outcome that cannot be written now is written by the ledger when it can.
fn late(written: Result<(), LedgerError>) {
    if let Err(error) = written {
        tracing::error!(%error, "an outcome is written later");
    }
}

fn outgoing(event: &Event, message: Bytes) -> Outgoing {
    Outgoing { message, event_id: event.id.clone(), retry_ms: event.retry_ms }
}

/// Applies `act` to the text if there is one, to the value if not.
fn on(text: Option<&str>, value: Value<'_>, act: impl Fn(Value<'_>) -> String) -> String {
    let Some(text) = text else { return act(value) };
    match Doc::read(text.as_bytes(), &Bounds::ANSWER) {
        Ok(doc) => act(doc.root()),
        // We wrote it ourselves a moment ago.
        Err(_) => text.to_owned(),
    }
}
