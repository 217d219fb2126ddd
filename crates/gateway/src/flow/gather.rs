//! Questions that an older server asks at once inside one call: a newer client gets them together, because
//! each result that asks for something costs it a round.

use super::{First, Flow, Next, Piece, Source, first_of, next_of};
use crate::translate::Question;
use crate::upstream::{Event, UpstreamError};
use crate::wire::{Id, Question as Kind, code};
use policy::json::{Bounds, Doc, Value};
use std::pin::Pin;
use std::time::Duration;
use tokio::time::Instant;

/// After a question, others that were asked with it have so long to arrive. A client does not notice it.
const GATHER_WAIT: Duration = Duration::from_millis(20);
/// Questions of one result; more wait for the next.
const QUESTIONS_MAX: usize = 16;

/// What came while others were waited for.
enum Came {
    Event(Event),
    /// No more will come on this stream.
    Over(Option<UpstreamError>),
    /// The answer began, which is the source now.
    Answer,
}

impl Flow {
    /// The questions that came with these, after what the server told meanwhile.
    pub(super) fn gather(
        &mut self,
        first: Vec<(Question, Id)>,
    ) -> Pin<Box<dyn Future<Output = Next> + Send + '_>> {
        Box::pin(async move {
            let until = Instant::now() + GATHER_WAIT;
            let mut all = first;
            while all.len() < QUESTIONS_MAX {
                let event = match tokio::time::timeout_at(until, self.more()).await {
                    Ok(Came::Event(event)) => event,
                    Ok(Came::Over(error)) => {
                        let piece = match error {
                            Some(error) => self.tail.failed(&error),
                            None => self.tail.ran_out(),
                        };
                        return Next::Piece(piece);
                    }
                    Ok(Came::Answer) | Err(_) => break,
                };
                if self.is_large(&event.message) || self.is_for_later(&event.message) {
                    let rest = std::mem::replace(&mut self.source, Source::Ended);
                    self.source = Source::Held(200, event, Box::new(rest));
                    break;
                }
                match self.sort_in_room(200, &event) {
                    None => {}
                    Some(Piece::Questions(more)) => all.extend(more),
                    Some(piece @ Piece::Interim(_)) => self.to_tell.push_back(piece),
                    Some(piece) => return self.answered_unasked(&all, piece).await,
                }
            }
            self.to_tell.push_back(Piece::Questions(all));
            match self.to_tell.pop_front() {
                Some(piece) => Next::Piece(piece),
                None => Next::Piece(self.tail.ran_out()),
            }
        })
    }

    /// Whether a message must wait until the questions before it are answered. An answer must where they
    /// may be about other calls, which would fail without theirs; and so must a question that its client
    /// is not asked, because a server may end the call when it is refused, and they were worth asking.
    fn is_for_later(&self, message: &[u8]) -> bool {
        let Ok(doc) = Doc::read_shallow(message, &Bounds::ANSWER, 3) else { return false };
        let root = doc.root();
        if root.get("id").is_none() {
            return false;
        }
        let Some(method) = root.get("method").and_then(Value::as_str) else {
            return self.tail.may_be_asked_for_another();
        };
        let kind = Kind::of(&method, root.get("params"));
        let is_taken = self.tail.asked.client_takes_kind(kind) && self.tail.may_ask(&method);
        !is_taken && method != "ping"
    }

    /// The server went on without an answer to what it asked, and gets none.
    async fn answered_unasked(&mut self, asked: &[(Question, Id)], piece: Piece) -> Next {
        for (_, id) in asked {
            self.tail.refuse_question(id, code::INTERNAL);
        }
        self.tail.until_on_record().await;
        self.to_tell.push_back(piece);
        match self.to_tell.pop_front() {
            Some(piece) => Next::Piece(piece),
            None => Next::Piece(self.tail.ran_out()),
        }
    }

    /// What comes next. Nothing of it is lost when it is not waited for.
    async fn more(&mut self) -> Came {
        let questions = self.tail.questions.as_deref_mut();
        match &mut self.source {
            Source::Events(events) => match next_of(events, questions).await {
                Some(Ok(event)) => Came::Event(event),
                Some(Err(error)) => Came::Over(Some(error)),
                None => Came::Over(None),
            },
            Source::Coming(begun, _) => match first_of(begun, questions).await {
                First::Question(message) => Came::Event(Event { message, ..Event::default() }),
                First::Answer(Err(error)) => Came::Over(Some(error)),
                First::Answer(Ok(reply)) => {
                    self.source = Source::of(reply);
                    Came::Answer
                }
            },
            _ => Came::Answer,
        }
    }
}
