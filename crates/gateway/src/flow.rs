//! What comes back for an admitted request, piece by piece until its answer; then the outcome row.

mod end;
mod tail;

use crate::aside::{self, aside};
use crate::questions::Questions;
use crate::session::{AnswerTo, ClientAnswer, InFlight, Outgoing};
use crate::standing::Under;
use crate::translate::{self, Question};
use crate::upstream::{Event, Events, Reply, UpstreamError};
use crate::wire::{Era, Id, answer, request_body};
use bytes::Bytes;
use policy::json::{Bounds, Doc, Value};
use std::pin::{Pin, pin};
use std::time::Duration;
use tokio::sync::oneshot;

pub(crate) use tail::Tail;

/// A client has so long to answer a server's question.
const QUESTION_WAIT_MAX: Duration = Duration::from_mins(10);
/// So often a server may ask for a further round of one call that the gate carries on for its client; one
/// that asks more would never answer, and each round is another call at the server.
const ROUNDS_MAX: usize = 16;

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

/// What came next.
pub(crate) enum Next {
    Piece(Piece),
    /// A message that [`Flow::read_on`] reads aside.
    Large(Large),
}

/// A message that would keep its thread for long.
pub(crate) struct Large {
    status: u16,
    event: Event,
}

/// An admitted request and what comes of it.
pub(crate) struct Flow {
    source: Source,
    pub(crate) tail: Tail,
    asking: Option<Asking>,
    /// Rounds that the gate has begun for its client.
    rounds: usize,
    _under: Under,
}

enum Source {
    One(u16, Bytes),
    Ours { body: Bytes, failed: bool },
    Events(Events),
    Ended,
}

impl Source {
    fn of(reply: Reply) -> Source {
        match reply {
            Reply::One { status, body } => Source::One(status, body),
            Reply::Ours { body, failed } => Source::Ours { body, failed },
            Reply::Many(events) => Source::Events(events),
            Reply::Accepted => Source::Ended,
        }
    }
}

/// Questions of a modern server, put to a client of a session.
struct Asking {
    to_send: Vec<Bytes>,
    waiting: Vec<(String, oneshot::Receiver<ClientAnswer>)>,
    state: Option<String>,
}

impl Flow {
    pub(crate) fn new(reply: Reply, tail: Tail) -> Flow {
        let under = tail.peer.server.marks.under_way();
        Flow { source: Source::of(reply), tail, asking: None, rounds: 0, _under: under }
    }

    /// Says whether the client is being asked something, for which it has its own time. When it has
    /// answered, its server has all of its time again.
    pub(crate) fn set_asking(&mut self, asking: bool) {
        if let Source::Events(events) = &mut self.source {
            events.set_asking(asking);
        }
        if let Some(questions) = &self.tail.questions {
            questions.set_asking(asking);
        }
    }

    /// The next piece, when a large message came first.
    pub(crate) async fn read_on(self, mut large: Large) -> (Piece, Flow) {
        let mut flow = self;
        loop {
            let (piece, back) = flow.read(large).await;
            flow = back;
            if let Some(piece) = piece {
                return (piece, flow);
            }
            large = match flow.next().await {
                Next::Piece(piece) => return (piece, flow),
                Next::Large(large) => large,
            };
        }
    }

    /// The next piece, or a message that must be read aside to know it. After `Last`, `Broken` or
    /// `Cancelled` there is none.
    pub(crate) async fn next(&mut self) -> Next {
        loop {
            if self.asking.is_some()
                && let Some(piece) = Box::pin(self.ask_on()).await
            {
                return Next::Piece(piece);
            }
            if let Some(log) = self.tail.log_beside() {
                return Next::Piece(Piece::Interim(Outgoing::plain(log)));
            }
            let event = match std::mem::replace(&mut self.source, Source::Ended) {
                Source::One(status, body) => {
                    Some(Ok((status, Event { message: body, ..Event::default() })))
                }
                Source::Ours { body, failed } if !self.tail.needs_edit() => {
                    let piece = self.tail.finish_ours(&body, failed);
                    self.tail.until_on_record().await;
                    return Next::Piece(piece);
                }
                Source::Ours { body, .. } => {
                    Some(Ok((200, Event { message: body, ..Event::default() })))
                }
                Source::Ended => None,
                Source::Events(mut events) => {
                    let grace = self.tail.cancel_grace();
                    let next = {
                        let questions = self.tail.questions.as_deref_mut();
                        let next = pin!(next_of(&mut events, questions));
                        until_cancelled(self.tail.in_flight.as_ref(), grace, next).await
                    };
                    self.source = Source::Events(events);
                    match next {
                        None => return Next::Piece(self.tail.cancelled()),
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
                Some(Ok((status, event))) if self.is_large(&event.message) => {
                    return Next::Large(Large { status, event });
                }
                Some(Ok((status, event))) => self.sort(status, &event),
            };
            if let Some(piece) = piece {
                self.tail.until_on_record().await;
                return Next::Piece(piece);
            }
        }
    }

    fn is_large(&self, message: &[u8]) -> bool {
        let edits = self.tail.needs_edit();
        message.len() > if edits { aside::LARGE_TO_EDIT_BYTES } else { aside::LARGE_BYTES }
    }

    /// Reads a large message without keeping the conversations of this thread waiting. Dropped before
    /// it is read, the request ends as if its client had hung up a moment later.
    async fn read(mut self, large: Large) -> (Option<Piece>, Flow) {
        let (piece, mut flow) = aside(move || {
            let piece = self.sort(large.status, &large.event);
            (piece, self)
        })
        .await;
        if piece.is_some() {
            flow.tail.until_on_record().await;
        }
        (piece, flow)
    }

    fn sort(&mut self, status: u16, event: &Event) -> Option<Piece> {
        if event.message.is_empty() {
            return match self.source {
                Source::Events(_) => self.tail.priming(event),
                _ => Some(self.tail.garbled("its answer is empty")),
            };
        }
        // Deep enough for `result.task.taskId`.
        let Ok(doc) = Doc::read_shallow(&event.message, &Bounds::ANSWER, 3) else {
            return Some(self.tail.garbled("its message is not JSON"));
        };
        let root = doc.root();
        if let Some(why) = answer::trouble(root) {
            return Some(self.tail.garbled(why));
        }
        let id = root.get("id");
        let Some(method) = root.get("method").and_then(Value::as_str) else {
            // HTTP servers answer what they could not read with a null id.
            let ours = id.and_then(|id| self.tail.sent_id.is(id)).unwrap_or(status >= 400);
            return if ours { self.answered(status, event, root) } else { stray() };
        };
        match id.and_then(Id::lenient) {
            None => self.tail.told(event, &method, root),
            Some(id) => self.tail.questioned(event, &method, id, root),
        }
    }

    fn answered(&mut self, status: u16, event: &Event, root: Value<'_>) -> Option<Piece> {
        if let Source::Events(events) = std::mem::replace(&mut self.source, Source::Ended) {
            events.finish();
        }
        if let Some(result) = root.get("result") {
            let kind = result.get("resultType").and_then(Value::as_str);
            if kind.as_deref() == Some("input_required") && self.tail.peer.era == Era::Modern {
                return self.input_required(event);
            }
        }
        Some(self.tail.finish(status, &event.message, root))
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
            (Era::Legacy, Some(_)) if self.rounds >= ROUNDS_MAX => {
                Some(self.tail.garbled("it asks again and again instead of answering"))
            }
            (Era::Legacy, Some(session)) => {
                self.rounds += 1;
                let mut asking = Asking { to_send: Vec::new(), waiting: Vec::new(), state };
                for question in questions {
                    let (answer, waiting) = oneshot::channel();
                    let Some(id) = session.ask(None, AnswerTo::Call(answer)) else {
                        return Some(self.tail.question_refused(&question.method));
                    };
                    let params = translate::legacy_question(&question, &id);
                    asking.to_send.push(request_body(&id, &question.method, Some(&params)).into());
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
        let grace = self.tail.cancel_grace();
        let mut answers = Vec::new();
        for (key, waiting) in asking.waiting {
            let answer = pin!(tokio::time::timeout(QUESTION_WAIT_MAX, waiting));
            match until_cancelled(self.tail.in_flight.as_ref(), grace, answer).await {
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
        let in_flight = self.tail.in_flight.as_ref();
        if let Some(in_flight) = in_flight {
            in_flight.sent(&self.tail.peer, self.tail.sent_id.clone());
        }
        let reply = {
            let sent = pin!(self.tail.peer.request(permit, retry.out));
            until_cancelled(in_flight, grace, sent).await
        };
        match reply {
            None => return Some(self.tail.cancelled()),
            Some(Err(error)) => return Some(self.tail.failed(&error)),
            Some(Ok(reply)) => self.source = Source::of(reply),
        }
        None
    }
}

/// What comes next for a call: on its own stream, or asked beside it.
async fn next_of(
    events: &mut Events,
    questions: Option<&mut Questions>,
) -> Option<Result<Event, UpstreamError>> {
    let Some(questions) = questions else { return events.next().await };
    tokio::select! {
        biased;
        event = events.next() => event,
        message = questions.next() => Some(Ok(Event { message, ..Event::default() })),
    }
}

/// Waits for `work`, but not much longer than the client does. It stays where it is: every call holds
/// its work once, not once for each way to wait for it.
pub(crate) async fn until_cancelled<T>(
    in_flight: Option<&InFlight>,
    grace: Duration,
    mut work: Pin<&mut impl Future<Output = T>>,
) -> Option<T> {
    let Some(in_flight) = in_flight else { return Some(work.await) };
    // A server that says something again and again does not outrun it.
    if grace.is_zero() && in_flight.flight.is_taken_back() {
        return None;
    }
    tokio::select! {
        biased;
        done = &mut work => Some(done),
        () = in_flight.flight.cancelled.notified() => {
            tokio::time::timeout(grace, work).await.ok()
        }
    }
}

fn stray() -> Option<Piece> {
    tracing::warn!("a server answered something that was not asked; dropped");
    None
}
