//! Questions of a newer server inside a call, put to the client in the way of its own era.

use super::{Flow, Piece, Source, until_cancelled};
use crate::mrtr::Inner;
use crate::results;
use crate::session::{AnswerTo, ClientAnswer, Outgoing};
use crate::translate::{self, Question};
use crate::upstream::Event;
use crate::wire::{Era, Question as Kind, request_body};
use bytes::Bytes;
use policy::json::{Bounds, Doc, Value};
use std::pin::pin;
use std::time::Duration;
use tokio::sync::oneshot;

/// A client has so long to answer a server's question.
const QUESTION_WAIT_MAX: Duration = Duration::from_mins(10);
/// So often a server may ask for a further round of one call that the gate carries on for its client; one
/// that asks more would never answer, and each round is another call at the server.
const ROUNDS_MAX: usize = 16;

/// Questions of a modern server, put to a client of a session.
pub(super) struct Asking {
    to_send: Vec<Bytes>,
    waiting: Vec<(String, oneshot::Receiver<ClientAnswer>)>,
    state: Option<String>,
}

/// What a result that asks for something comes to.
pub(super) enum Asked {
    /// It must not be put to the client, or cannot be read.
    Refused(Piece),
    /// The call goes on when the client has answered.
    Input,
    /// A task asks, whose client answers with `tasks/update`.
    ByTask,
}

impl Flow {
    /// A modern server needs something of the client before it can answer.
    pub(super) fn input_required(&mut self, event: &Event) -> Option<Piece> {
        let Ok(doc) = Doc::read(&event.message, &Bounds::ANSWER) else {
            return Some(self.tail.garbled("its result is not JSON"));
        };
        let result = doc.root().get("result")?;
        let questions = translate::questions(result).unwrap_or_default();
        let state =
            result.get("requestState").and_then(Value::as_str).map(std::borrow::Cow::into_owned);
        if self.tail.era == Era::Legacy {
            return self.put(questions, state);
        }
        Some(self.tail.next_round(result, Inner::Server(state)))
    }

    /// Puts questions to a client of a session. With the answers the server gets its state back, if it
    /// gave one.
    pub(super) fn put(&mut self, questions: Vec<Question>, state: Option<String>) -> Option<Piece> {
        if let Some(unable) = questions.iter().find_map(|question| self.unable(question)) {
            return Some(self.tail.question_refused(unable));
        }
        let Some(session) = self.tail.scene.session.clone() else {
            return Some(self.tail.question_refused(Kind::Form));
        };
        if self.rounds >= ROUNDS_MAX {
            return Some(self.tail.garbled("it asks again and again instead of answering"));
        }
        self.rounds += 1;
        let mut asking = Asking { to_send: Vec::new(), waiting: Vec::new(), state };
        let redacted = self.tail.redacted_in_questions();
        for mut question in questions {
            if let Some(effects) = &redacted {
                question.params = results::asked_text(effects, &question.params);
            }
            let (answer, waiting) = oneshot::channel();
            let Some(id) = session.ask(None, AnswerTo::Call(answer)) else {
                return Some(self.tail.garbled("its client owes too many answers"));
            };
            let params = translate::legacy_question(&question, &id);
            asking.to_send.push(request_body(&id, &question.method, Some(&params)).into());
            asking.waiting.push((question.key, waiting));
        }
        self.asking = Some(asking);
        None
    }

    /// Judges a result that asks its client for something, by one rule whatever the eras of the two are:
    /// the policy must let the server ask it, and the client must have declared that it takes it.
    pub(super) fn questions_asked(&mut self, event: &Event, result: Value<'_>) -> Asked {
        let doc = Doc::read(&event.message, &Bounds::ANSWER).ok();
        let questions = doc.as_ref().and_then(|doc| doc.root().get("result"));
        let Some(questions) = questions.and_then(translate::questions) else {
            return Asked::Refused(self.tail.garbled("what its result asks cannot be read"));
        };
        if let Some(unable) = questions.iter().find_map(|question| self.unable(question)) {
            return Asked::Refused(self.tail.question_refused(unable));
        }
        if self.tail.peer.era == Era::Legacy {
            // Its revision has no such result, so no answer could be brought back to it.
            let why = "its result asks for input, which its revision does not have";
            return Asked::Refused(self.tail.garbled(why));
        }
        match result.get("resultType").and_then(Value::as_str).as_deref() {
            Some("input_required") => Asked::Input,
            _ if self.looking.is_some() || self.tail.is_of_task(result) => Asked::ByTask,
            _ => {
                Asked::Refused(self.tail.garbled("its result asks for input and says it does not"))
            }
        }
    }

    /// Of what kind a server's question is, where it must not be put to the client.
    fn unable(&self, question: &Question) -> Option<Kind> {
        let doc = Doc::read(question.params.as_bytes(), &Bounds::ANSWER).ok();
        let kind = Kind::of(&question.method, doc.as_ref().map(Doc::root));
        let is_taken = self.tail.asked.client_takes_kind(kind);
        (!is_taken || !self.tail.may_ask(&question.method)).then_some(kind)
    }

    /// Puts a modern server's questions to the client, collects the answers, and goes on.
    pub(super) async fn ask_on(&mut self) -> Option<Piece> {
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
        if let Some(looking) = &mut self.looking {
            looking.answered(&answers);
            return None;
        }
        let Some(permit) = &self.tail.permit else { return Some(self.tail.ran_out()) };
        let retry = self.tail.asked.retry(
            &self.tail.scene,
            &self.tail.peer,
            &answers,
            asking.state.as_deref(),
        );
        self.tail.sent_id = retry.id;
        self.tail.meanwhile.steps.next_part();
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
