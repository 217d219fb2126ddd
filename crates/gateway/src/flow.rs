//! What comes back for an admitted request, piece by piece until its answer; then the outcome row.

mod asking;
mod at_once;
mod end;
mod gather;
mod looking;
mod steps;
mod tail;
mod task;

use crate::aside::{self, aside};
use crate::peer::Begun;
use crate::questions::Questions;
use crate::room;
use crate::session::{InFlight, Outgoing};
use crate::standing::Under;
use crate::translate::{self, Question};
use crate::upstream::{Event, Events, Patience, Reply, UpstreamError};
use crate::wire::{Era, Id, answer};
use bytes::Bytes;
use policy::json::{Bounds, Doc, Value};
use std::collections::VecDeque;
use std::pin::{Pin, pin};
use std::time::Duration;

use asking::{Asked, Asking};
use looking::Looking;
use task::TaskStep;

pub(crate) use steps::Steps;
pub(crate) use tail::{Meanwhile, Tail};

/// One piece for the client.
pub(crate) enum Piece {
    Interim(Outgoing),
    Last {
        status: u16,
        body: Bytes,
    },
    /// An older server asks a client that takes questions only as a result: the call must be parked.
    /// Each question has the server's id for it.
    Questions(Vec<(Question, Id)>),
    /// The stream ended early; a client of a session can take it up again by its event id.
    Broken,
    Cancelled,
}

impl Piece {
    fn made_from(self, message: &Bytes) -> Piece {
        match self {
            Piece::Last { status, body } => {
                Piece::Last { status, body: room::made_from(message, body) }
            }
            Piece::Interim(mut outgoing) => {
                outgoing.message = room::made_from(message, outgoing.message);
                Piece::Interim(outgoing)
            }
            other => other,
        }
    }
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
    /// What an older server's task is asked for next, or was.
    task: Option<TaskStep>,
    /// A newer server's task that is looked at for an older client.
    looking: Option<Box<Looking>>,
    /// What came while questions were gathered, and they themselves.
    to_tell: VecDeque<Piece>,
    /// Whether the server streams its answer.
    is_streamed: bool,
    /// Rounds that the gate has begun for its client.
    rounds: usize,
    _under: Under,
}

enum Source {
    /// The answer has not begun.
    Coming(Begun, Patience),
    /// Came, and waits until the log messages before it have gone; what comes after it.
    Held(u16, Event, Box<Source>),
    One(u16, Bytes),
    Ours {
        body: Bytes,
        failed: bool,
    },
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

    fn set_asking(&mut self, asking: bool) {
        match self {
            Source::Events(events) => events.set_asking(asking),
            Source::Coming(_, patience) => patience.renew(),
            Source::Held(_, _, rest) => rest.set_asking(asking),
            Source::One(..) | Source::Ours { .. } | Source::Ended => {}
        }
    }
}

/// How a request went on that had no answer yet.
enum Began {
    /// With its answer, which is the source now.
    Answer,
    Event(Result<(u16, Event), UpstreamError>),
    Cancelled,
}

impl Flow {
    pub(crate) fn new(reply: Reply, tail: Tail) -> Flow {
        let is_streamed = matches!(reply, Reply::Many(_)) && !tail.peer.is_child();
        Flow { is_streamed, ..Flow::with(Source::of(reply), tail) }
    }

    /// One whose server may ask something before it begins to answer.
    pub(crate) fn begun(begun: Begun, patience: Patience, tail: Tail) -> Flow {
        Flow::with(Source::Coming(begun, patience), tail)
    }

    fn with(source: Source, tail: Tail) -> Flow {
        let under = tail.peer.server.marks.under_way();
        Flow {
            source,
            tail,
            asking: None,
            task: None,
            looking: None,
            to_tell: VecDeque::new(),
            is_streamed: false,
            rounds: 0,
            _under: under,
        }
    }

    /// Whether the server streams its answer. What it streams stays a stream, also when it is one
    /// message.
    pub(crate) fn is_streamed(&self) -> bool {
        self.is_streamed
    }

    /// Says whether the client is being asked something, for which it has its own time. When it has
    /// answered, its server has all of its time again.
    pub(crate) fn set_asking(&mut self, asking: bool) {
        self.source.set_asking(asking);
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
            if let Some(piece) = self.to_tell.pop_front() {
                return Next::Piece(piece);
            }
            if self.asking.is_some()
                && let Some(piece) = Box::pin(self.ask_on()).await
            {
                return Next::Piece(piece);
            }
            if self.looking.as_ref().is_some_and(|looking| looking.is_due())
                && let Some(piece) = Box::pin(self.look_on()).await
            {
                return Next::Piece(piece);
            }
            if self.is_to_hear_a_task() {
                return self.hear_question().await;
            }
            if let Some(TaskStep::ToAsk { .. }) = self.task
                && let Some(piece) = Box::pin(self.follow_up()).await
            {
                return Next::Piece(piece);
            }
            if let Some(log) = self.tail.log_beside() {
                return Next::Piece(Piece::Interim(Outgoing::plain(log)));
            }
            let event = match std::mem::replace(&mut self.source, Source::Ended) {
                Source::Held(status, event, rest) => {
                    self.source = *rest;
                    Some(Ok((status, event)))
                }
                Source::Coming(begun, patience) => match self.begins(begun, patience).await {
                    Began::Answer => continue,
                    Began::Event(event) => Some(event),
                    Began::Cancelled => return Next::Piece(self.tail.cancelled()),
                },
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
            let event = match event {
                Some(Ok((status, event))) if self.tail.await_logs(&event.message).await => {
                    let rest = std::mem::replace(&mut self.source, Source::Ended);
                    self.source = Source::Held(status, event, Box::new(rest));
                    continue;
                }
                other => other,
            };
            let piece = match event {
                None => Some(self.tail.ran_out()),
                Some(Err(error)) => Some(self.tail.failed(&error)),
                Some(Ok((status, event))) if self.is_large(&event.message) => {
                    return Next::Large(Large { status, event });
                }
                Some(Ok((status, event))) => self.sort_in_room(status, &event),
            };
            match piece {
                None => {}
                Some(Piece::Questions(first)) => return self.gather(first).await,
                Some(piece) => {
                    self.tail.until_on_record().await;
                    return Next::Piece(piece);
                }
            }
        }
    }

    /// Waits until the answer begins, or something is asked before.
    async fn begins(&mut self, mut begun: Begun, patience: Patience) -> Began {
        let grace = self.tail.cancel_grace();
        let came = {
            let questions = self.tail.questions.as_deref_mut();
            let came = pin!(first_of(&mut begun, questions));
            until_cancelled(self.tail.in_flight.as_ref(), grace, came).await
        };
        match came {
            None => Began::Cancelled,
            Some(First::Answer(Err(error))) => Began::Event(Err(error)),
            Some(First::Answer(Ok(reply))) => {
                self.is_streamed = matches!(reply, Reply::Many(_));
                self.source = Source::of(reply);
                Began::Answer
            }
            Some(First::Question(message)) => {
                self.source = Source::Coming(begun, patience);
                Began::Event(Ok((200, Event { message, ..Event::default() })))
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
        let bytes = large.event.message.len();
        let (piece, mut flow) = aside(bytes, move || {
            let piece = self.sort_in_room(large.status, &large.event);
            (piece, self)
        })
        .await;
        if piece.is_some() {
            flow.tail.until_on_record().await;
        }
        (piece, flow)
    }

    /// What is made of a large message lies in the room that the message took.
    fn sort_in_room(&mut self, status: u16, event: &Event) -> Option<Piece> {
        let piece = self.sort(status, event)?;
        Some(piece.made_from(&event.message))
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
            if translate::asks(result) {
                match self.questions_asked(event, result) {
                    Asked::Refused(piece) => return Some(piece),
                    Asked::Input => return self.input_required(event),
                    Asked::ByTask => {}
                }
            }
            if self.crosses_back() && self.concerns_newer_task(root) {
                return self.of_newer_task(status, event, root);
            }
        }
        if self.crosses_back() && self.looking.is_some() {
            return self.of_newer_task(status, event, root);
        }
        if self.tail.era == Era::Modern && self.tail.peer.era == Era::Legacy {
            return self.of_task(status, event, root);
        }
        Some(self.tail.finish(status, &event.message, root))
    }
}

impl Flow {
    /// Whether an older client has a newer server.
    fn crosses_back(&self) -> bool {
        self.tail.era == Era::Legacy && self.tail.peer.era == Era::Modern
    }
}

/// What came while a request had no answer yet.
enum First {
    Answer(Result<Reply, UpstreamError>),
    Question(Bytes),
}

async fn first_of(begun: &mut Begun, questions: Option<&mut Questions>) -> First {
    let Some(questions) = questions else { return First::Answer(begun.await) };
    tokio::select! {
        biased;
        reply = begun => First::Answer(reply),
        message = questions.next() => First::Question(message),
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
