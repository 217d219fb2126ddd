//! A request that is away: what is known of it, and what a server says meanwhile.

use super::{Piece, Steps};
use crate::aside::LARGE_BYTES;
use crate::call::Asked;
use crate::greet;
use crate::in_force::Rules;
use crate::lists::List;
use crate::peer::Peer;
use crate::prepare;
use crate::questions::Questions;
use crate::rebuild::{self};
use crate::results;
use crate::scene::Scene;
use crate::session::{AnswerTo, InFlight, Outgoing};
use crate::tasks;
use crate::trace::Trace;
use crate::translate::{self, Question, meta};
use crate::upstream::Event;
use crate::wire::{
    Era, Id, Method, Question as Kind, code, error_body, notification_body, result_body,
};
use bytes::Bytes;
use policy::Effects;
use policy::json::{Bounds, Doc, Value};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::ledger::{Ending, Permit, Settled};
use tokio::sync::broadcast;

/// After a client took a request back, the server has so long to answer it all the same.
const CANCEL_GRACE: Duration = Duration::from_secs(1);
/// Log messages may come on another stream than the answer they precede; it waits so long for them.
const LATE_LOG_WAIT: Duration = Duration::from_millis(50);

/// What is known about a request while it is away.
pub(crate) struct Tail {
    pub(crate) scene: Scene,
    pub(crate) peer: Arc<Peer>,
    pub(crate) permit: Option<Permit>,
    /// The outcome, while its row is about to be written.
    pub(crate) settled: Option<Settled>,
    pub(crate) began: Instant,
    /// The client's id, and the one the server knows it by.
    pub(crate) id: Id,
    pub(crate) sent_id: Id,
    pub(crate) era: Era,
    pub(crate) method: Cow<'static, str>,
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
    /// What an older server asks beside the request.
    pub(crate) questions: Option<Box<Questions>>,
    pub(crate) meanwhile: Meanwhile,
    /// What a further round of this call must fit.
    pub(crate) asked: Asked,
    pub(crate) in_flight: Option<InFlight>,
    /// An event with an id was seen, so the stream can be taken up again.
    pub(crate) resumable: bool,
}

/// What happened to a request while it was away.
#[derive(Default)]
pub(crate) struct Meanwhile {
    /// What the server asked although the client cannot be asked it.
    pub(super) unable: Option<Kind>,
    /// How far an older client was told that a newer server is, over all its rounds.
    pub(super) steps: Steps,
    /// The id of the task that a server of the other era made of this call, while its client waits for
    /// what it comes to.
    pub(super) awaited: Option<String>,
    /// The id that the server gives its progress under, where it has answered that one and another waits.
    pub(super) known_as: Option<Id>,
}

impl Drop for Tail {
    /// A client of the newer era takes a request back by hanging up; an older server must be told.
    fn drop(&mut self) {
        if self.permit.is_some() && self.scene.gate.is_stopping() {
            // Not the client's doing: we left before the server answered.
            self.settle(Ending::Unknown);
        }
        let gone = self.permit.is_some() && self.era == Era::Modern;
        if gone && self.peer.era == Era::Legacy && !self.peer.is_child() && !self.peer.is_builtin()
        {
            let params = format!("{{\"requestId\":{}}}", self.sent_id.raw());
            let body = notification_body("notifications/cancelled", Some(&params));
            self.scene.gate.tell_server(&self.peer, body.into());
        }
        if self.permit.is_some() {
            self.give_up_task();
        }
        // Nothing said that they were for this call; whose they are waits for an answer.
        for question in self.questions.take().map(|questions| questions.leave()).unwrap_or_default()
        {
            crate::listen::asks(&self.scene, &self.peer, &question);
        }
    }
}

impl Tail {
    /// How long a server may still answer what its client took back. An older one was told; a newer one
    /// learns of it only when its stream ends.
    pub(crate) fn cancel_grace(&self) -> Duration {
        match self.peer.era {
            Era::Legacy => CANCEL_GRACE,
            Era::Modern => Duration::ZERO,
        }
    }

    /// Nobody waits for what the task comes to; without that its server would go on with it.
    pub(super) fn give_up_task(&mut self) {
        let Some(task) = self.meanwhile.awaited.take() else { return };
        let params = format!("{{\"taskId\":{}}}", rebuild::string(&task));
        let client = prepare::task_words(&self.scene, &self.peer);
        let told = prepare::own(&self.peer, "tasks/cancel", Some(&params), &client);
        self.scene.gate.ask_server(&self.peer, told.out);
    }

    pub(super) fn priming(&mut self, event: &Event) -> Option<Piece> {
        self.resumable |= event.id.is_some();
        (self.era == Era::Legacy && self.peer.era == Era::Legacy)
            .then(|| Piece::Interim(self.outgoing(event, Bytes::new())))
    }

    /// Gives log messages on another stream a moment to arrive before the answer ends the request;
    /// true when there are some to be sent first.
    pub(super) async fn await_logs(&mut self, message: &[u8]) -> bool {
        let Some(mut beside) = self.beside.take() else { return false };
        // Whether a large message is the answer is seen when it is read aside; it may well be.
        let large = message.len() > LARGE_BYTES;
        let is_answer = large
            || Doc::read_shallow(message, &Bounds::ANSWER, 1)
                .is_ok_and(|doc| doc.root().get("method").is_none());
        if is_answer && beside.is_empty() {
            let late = tokio::time::timeout(LATE_LOG_WAIT, beside.recv()).await;
            self.late_logs.extend(late.ok().and_then(Result::ok));
        }
        while let Ok(message) = beside.try_recv() {
            self.late_logs.push_back(message);
        }
        if large || !is_answer {
            self.beside = Some(beside);
        }
        !self.late_logs.is_empty()
    }

    /// A log message that an older server sent outside the request while it was under way.
    pub(super) fn log_beside(&mut self) -> Option<Bytes> {
        // It may be about another call of the grant, out of whose result the policy cuts something.
        if self.redacts_anything() {
            self.beside = None;
            self.late_logs.clear();
            return None;
        }
        if let Some(beside) = &mut self.beside {
            while let Ok(message) = beside.try_recv() {
                self.late_logs.push_back(message);
            }
        }
        while let Some(message) = self.late_logs.pop_front() {
            let is_wanted = Doc::read_shallow(&message, &Bounds::ANSWER, 2).is_ok_and(|doc| {
                doc.root().get("method").and_then(Value::as_str).as_deref()
                    == Some("notifications/message")
                    && self.wants_log(doc.root())
            });
            if is_wanted {
                return Some(message);
            }
        }
        None
    }

    /// Whether the policy cuts something out of results of this server, of this call or another.
    fn redacts_anything(&self) -> bool {
        self.rules.as_ref().is_some_and(|rules| rules.policy.redacts())
    }

    /// Whether the client asked for a log message like this one. An older server is told one level for
    /// all clients of a grant.
    fn wants_log(&self, root: Value<'_>) -> bool {
        if !self.logs {
            return false;
        }
        if self.era == self.peer.era || self.era == Era::Legacy {
            return true;
        }
        let level = root.get("params").and_then(|params| params.get("level")?.as_str());
        match (self.asked.log_level(), level.as_deref().and_then(greet::log_rank)) {
            (Some(wanted), Some(level)) => greet::log_rank(wanted) <= Some(level),
            _ => true,
        }
    }

    /// A notification on this request.
    pub(super) fn told(&mut self, event: &Event, method: &str, root: Value<'_>) -> Option<Piece> {
        self.resumable |= event.id.is_some();
        self.peer.told(method);
        let known = Method::parse(method);
        if known == Method::LogMessage && !self.wants_log(root) {
            return None;
        }
        // What the policy cuts out of a result must not come beside it, in a log line or in words of
        // the server's own that nobody here can read. On a stream that calls share they may be about
        // another call than this one.
        let redacts = !self.effects.redact.is_empty();
        let may_tell = redacts || self.peer.shares_stream() && self.redacts_anything();
        if may_tell && matches!(known, Method::LogMessage | Method::Other) {
            return None;
        }
        let may_see = || self.rules.as_ref().is_some_and(|rules| rules.shows_resource_of(root));
        if known == Method::ResourceUpdated && !may_see() {
            return None;
        }
        if !self.is_ours_to_hear(method, root.get("params")) {
            tracing::warn!(server = %self.peer.server.name, "a server told something about another's request; dropped");
            return None;
        }
        let crosses = self.era == Era::Modern && self.peer.era == Era::Legacy;
        if crosses && method == "notifications/elicitation/complete" {
            // The newer era ends such a question by the next round alone.
            return None;
        }
        if crosses && is_news(method) {
            // A client of the newer era hears news only where it subscribed to them.
            let heard = self.scene.gate.heard(&self.peer.server, &self.scene.holder.id);
            // Nobody may be subscribed.
            heard.tell(event.message.clone());
            return None;
        }
        let cut = match known {
            Method::Progress if redacts => Some(results::wordless_progress(root).into()),
            Method::TasksNotification | Method::TaskStatus => {
                let server = &self.peer.server.name;
                Some(tasks::news(&self.scene, self.rules.as_deref(), server, &event.message)?)
            }
            _ => None,
        };
        let mut message = match cut {
            None => self.restored(&event.message, method, root),
            Some(message) => {
                let doc = Doc::read_shallow(&message, &Bounds::ANSWER, 3).ok()?;
                self.restored(&message, method, doc.root())
            }
        };
        if known == Method::Progress && self.era == Era::Legacy && self.peer.era == Era::Modern {
            message = self.meanwhile.steps.counted(message);
        }
        Some(Piece::Interim(self.outgoing(event, message)))
    }

    /// A message for the client, under the id of its event.
    fn outgoing(&self, event: &Event, message: Bytes) -> Outgoing {
        let event_id = match &self.scene.session {
            Some(session) => session.event_id(&self.peer.server.name, event.id.as_deref()),
            None => event.id.clone(),
        };
        Outgoing { message, event_id, retry_ms: event.retry_ms }
    }

    /// Whether a notification is one, and is about this request where it is about one at all: a server
    /// must not speak for requests of others, nor call a tool of the client by telling.
    fn is_ours_to_hear(&self, method: &str, params: Option<Value<'_>>) -> bool {
        let named = |key: &str| params.and_then(|params| params.get(key)).and_then(Id::lenient);
        match method {
            "notifications/progress" => {
                let wanted = match self.token {
                    Some(_) => self.meanwhile.known_as.as_ref().or(Some(&self.sent_id)),
                    None => self.asked.progress_token(),
                };
                wanted.is_some() && named("progressToken").as_ref() == wanted
            }
            // A server takes back questions of its own, never what it was asked.
            "notifications/cancelled" => named("requestId").is_some_and(|id| id != self.sent_id),
            _ => method.starts_with("notifications/"),
        }
    }

    /// The notification with the client's own progress token and subscription id.
    fn restored(&self, message: &Bytes, method: &str, root: Value<'_>) -> Bytes {
        let Some(params) = root.get("params") else { return message.clone() };
        let params = match (&self.token, method) {
            (Some(token), "notifications/progress") => {
                rebuild::with(params, "progressToken", token.clone())
            }
            _ if self.id != self.sent_id => match params.get("_meta") {
                Some(of) if of.get(meta::SUBSCRIPTION_ID).is_some() => {
                    let of = rebuild::with(of, meta::SUBSCRIPTION_ID, self.id.raw().to_owned());
                    rebuild::with(params, "_meta", of)
                }
                _ => return message.clone(),
            },
            _ => return message.clone(),
        };
        rebuild::with(root, "params", params).into()
    }

    /// A server asks the client something inside this request.
    pub(super) fn questioned(
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
        let kind = Kind::of(method, root.get("params"));
        let is_taken = self.asked.client_takes_kind(kind);
        if !is_taken && self.era == Era::Modern && self.peer.era == Era::Legacy {
            self.meanwhile.unable = Some(kind);
        }
        if !self.may_ask(method) {
            return self.refuse_question(&id, code::UNKNOWN_METHOD);
        }
        let cut = match results::question(self.redacted_in_questions().as_ref(), &event.message) {
            Ok(cut) => cut,
            Err(results::Unread) => return self.refuse_question(&id, code::INVALID_PARAMS),
        };
        match (self.era, &self.scene.session) {
            (Era::Modern, _) if !is_taken => self.refuse_question(&id, code::INVALID_PARAMS),
            (Era::Modern, _) => {
                let params = match &cut {
                    None => root.get("params").map(translate::modern_question),
                    Some(cut) => Doc::read(cut.as_bytes(), &Bounds::ANSWER)
                        .ok()
                        .map(|doc| translate::modern_question(doc.root())),
                };
                let params = params.unwrap_or_else(|| "{}".to_owned());
                let key = format!("question-{}", id.raw().trim_matches('"'));
                let question = Question { key, method: method.to_owned(), params };
                Some(Piece::Questions(vec![(question, id)]))
            }
            (Era::Legacy, Some(session)) => {
                let alone = session.server.is_some();
                let to = AnswerTo::Server { peer: Arc::clone(&self.peer), id: id.clone() };
                let Some(shown) = session.ask(alone.then(|| id.clone()), to) else {
                    return self.refuse_question(&id, code::UNKNOWN_METHOD);
                };
                let shown = (!alone).then_some(shown);
                let message = results::question_as(root, cut.as_deref(), shown.as_ref());
                let message = message.map_or_else(|| event.message.clone(), Bytes::from);
                Some(Piece::Interim(self.outgoing(event, message)))
            }
            (Era::Legacy, None) => None,
        }
    }

    /// Whether what the server asks may be about another call than this one: on a stream that
    /// calls share, and where a server asks beside its requests.
    pub(super) fn may_be_asked_for_another(&self) -> bool {
        self.peer.shares_stream() || self.questions.is_some()
    }

    /// What is cut out of a server's question, if anything.
    pub(super) fn redacted_in_questions(&self) -> Option<Effects> {
        if self.may_be_asked_for_another() && self.redacts_anything() {
            return self.rules.as_ref().map(|rules| rules.policy.redacted_anywhere());
        }
        (!self.effects.redact.is_empty()).then(|| self.effects.clone())
    }

    pub(super) fn refuse_question(&self, id: &Id, code: i64) -> Option<Piece> {
        let words = "the client does not take this request here";
        let refusal = error_body(Some(id), code, words, None);
        self.scene.gate.answer_server(&self.peer, refusal.into());
        None
    }

    /// Whether this client can be asked, and its policy lets servers ask.
    pub(crate) fn may_ask(&self, method: &str) -> bool {
        let allowed = self.rules.as_ref().is_none_or(|rules| rules.server_may_ask(method));
        allowed
            && self.asked.client_takes(method)
            && (self.era == Era::Modern || self.scene.session.is_some())
    }
}

/// Notifications that belong to no request.
fn is_news(method: &str) -> bool {
    method.ends_with("/list_changed")
        || matches!(method, "notifications/resources/updated" | "notifications/tasks/status")
}
