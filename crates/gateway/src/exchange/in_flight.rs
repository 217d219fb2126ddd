//! An in-flight call and the messages that may precede its response.

use crate::exchange::bridge::Crossing;
use crate::exchange::call::RequestInfo;
use crate::exchange::context::RequestContext;
use crate::exchange::response_reader::ResponsePart;
use crate::exchange::results;
use crate::exchange::tasks;
use crate::runtime::trace::Trace;
use crate::session::{ClientMessage, DetachedCall, InFlightGuard, ResponseTarget, Session};
use crate::snapshot::Rules;
use crate::upstream::Event;
use crate::upstream::lists::List;
use crate::upstream::own_messages;
use crate::upstream::peer::Peer;
use bytes::Bytes;
use mcp::edit::{self};
use mcp::meta_keys;
use mcp::translate::{self, InputRequest};
use mcp::{Era, Id, InputKind, Method, code, error_body, result_body};
use policy::Effects;
use policy::json::{Bounds, Doc, Value};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::ledger::{Ending, Permit, Settled};

/// How long a server may still respond after its client has cancelled.
const CANCEL_GRACE: Duration = Duration::from_secs(1);

/// An admitted call whose response is not complete.
pub(crate) struct InFlightCall {
    pub(crate) context: RequestContext,
    pub(crate) peer: Arc<Peer>,
    pub(crate) permit: Option<Permit>,
    /// The outcome, until its row is written.
    pub(crate) settled: Option<Settled>,
    pub(crate) began: Instant,
    /// The client's id, and the id that was sent to the server.
    pub(crate) id: Id,
    pub(crate) sent_id: Id,
    pub(crate) era: Era,
    pub(crate) method: Cow<'static, str>,
    pub(crate) list: Option<List>,
    pub(crate) effects: Effects,
    pub(crate) rules: Option<Arc<Rules>>,
    /// The client's progress token, if the server was given another.
    pub(crate) client_progress_token: Option<String>,
    /// Whether the client wants log messages.
    pub(crate) logs: bool,
    pub(crate) trace: Option<Trace>,
    /// Whether and how it crosses eras.
    pub(in crate::exchange) crossing: Crossing,
    /// What further rounds of this call must match.
    pub(crate) request: RequestInfo,
    pub(crate) in_flight: Option<InFlightGuard>,
    /// An event with an id was received, so the stream can be resumed.
    pub(crate) resumable: bool,
}

impl Drop for InFlightCall {
    fn drop(&mut self) {
        if self.permit.is_some() && self.context.services().is_stopping() {
            // The gate shuts down before the server has responded.
            self.settle(Ending::Unknown);
        }
        if !self.crossing.is_none() {
            self.give_up_bridged();
        }
    }
}

impl DetachedCall for InFlightCall {
    fn finish(
        mut self: Box<Self>,
        session: &Arc<Session>,
        message: &Bytes,
        root: Value<'_>,
    ) -> Option<Bytes> {
        self.context.session = Some(Arc::clone(session));
        match InFlightCall::finish(&mut self, 200, message, root) {
            ResponsePart::Last { body, .. } => Some(body),
            _ => None,
        }
    }
}

impl InFlightCall {
    /// The call without its session, which will own it.
    pub(crate) fn detached(mut self) -> InFlightCall {
        self.context.session = None;
        self
    }

    /// How long a server may respond after a cancellation. A legacy server was notified; a modern one notices
    /// only that its stream ended.
    pub(crate) fn cancel_grace(&self) -> Duration {
        match self.peer.era {
            Era::Legacy => CANCEL_GRACE,
            Era::Modern => Duration::ZERO,
        }
    }

    pub(in crate::exchange) fn priming(&mut self, event: &Event) -> Option<ResponsePart> {
        self.resumable |= event.id.is_some();
        (self.era == Era::Legacy && self.crossing.is_none())
            .then(|| ResponsePart::Interim(self.outgoing(event, Bytes::new())))
    }

    /// Whether the policy redacts results of this server, for any call.
    pub(in crate::exchange) fn redacts_anything(&self) -> bool {
        self.rules.as_ref().is_some_and(|rules| rules.policy.redacts())
    }

    /// Whether the client wants this log message. A legacy server has one level for all clients of a grant.
    pub(in crate::exchange) fn wants_log(&self, root: Value<'_>) -> bool {
        if !self.logs {
            return false;
        }
        self.crossing.to_older().is_none() || self.is_of_wanted_level(root)
    }

    /// A notification on the stream of this call.
    pub(in crate::exchange) fn on_notification(
        &mut self,
        event: &Event,
        method: &str,
        root: Value<'_>,
    ) -> Option<ResponsePart> {
        self.resumable |= event.id.is_some();
        self.peer.note_notification(method);
        let known = Method::parse(method);
        if known == Method::LogMessage && !self.wants_log(root) {
            return None;
        }
        // Redacted data must not leak through log messages or unknown notifications. On a shared stream they
        // may belong to another call.
        let redacts = !self.effects.redact.is_empty();
        let allows_notification = redacts || self.peer.shares_stream() && self.redacts_anything();
        if allows_notification && matches!(known, Method::LogMessage | Method::Other) {
            return None;
        }
        let may_see = || {
            let skills = self.peer.server.skills();
            self.rules.as_ref().is_some_and(|rules| rules.shows_resource_of(root, &skills))
        };
        if known == Method::ResourceUpdated && !may_see() {
            return None;
        }
        if !self.is_for_this_call(method, root.get("params")) {
            tracing::warn!(server = %self.peer.server.name, "dropped a notification about another request");
            return None;
        }
        if known == Method::ElicitationComplete {
            // In the modern era only the next round ends such a request.
            let session = self.context.session.as_ref().filter(|_| self.era == Era::Legacy)?;
            let server_may_ask = self.rules.as_ref().is_some_and(|rules| rules.may_elicit());
            session.allows_completion(&self.peer, server_may_ask, root)?;
        }
        if !self.crossing.is_none() && self.is_withheld_bridged(event, method) {
            return None;
        }
        let cut = match known {
            Method::Progress if redacts => Some(results::progress_without_message(root).into()),
            Method::TasksNotification | Method::TaskStatus => {
                let server = &self.peer.server.name;
                Some(tasks::notification(
                    &self.context,
                    self.rules.as_deref(),
                    server,
                    &event.message,
                )?)
            }
            _ => None,
        };
        let mut message = match cut {
            None => self.with_client_ids(&event.message, method, root),
            Some(message) => {
                let doc = Doc::read_shallow(&message, &Bounds::ANSWER, 3).ok()?;
                self.with_client_ids(&message, method, doc.root())
            }
        };
        if known == Method::Progress && !self.crossing.is_none() {
            message = self.adjust_progress(message);
        }
        Some(ResponsePart::Interim(self.outgoing(event, message)))
    }

    /// A message for the client, with the id of its event.
    fn outgoing(&self, event: &Event, message: Bytes) -> ClientMessage {
        let event_id = match &self.context.session {
            Some(session) => session.event_id(&self.peer.server.name, event.id.as_deref()),
            None => event.id.clone(),
        };
        ClientMessage { message, event_id, retry_ms: event.retry_ms }
    }

    /// Whether a notification is valid here and, if it names a request, names this one: a server must not
    /// affect requests of others.
    fn is_for_this_call(&self, method: &str, params: Option<Value<'_>>) -> bool {
        let id_in = |key: &str| params.and_then(|params| params.get(key)).and_then(Id::lenient);
        match method {
            "notifications/progress" => {
                let wanted = match self.client_progress_token {
                    Some(_) => self.crossing.progress_id().or(Some(&self.sent_id)),
                    None => self.request.progress_token(),
                };
                wanted.is_some() && id_in("progressToken").as_ref() == wanted
            }
            // A server may cancel its own requests only.
            "notifications/cancelled" => id_in("requestId").is_some_and(|id| id != self.sent_id),
            _ => method.starts_with("notifications/"),
        }
    }

    /// The notification with the client's own progress token and subscription id.
    fn with_client_ids(&self, message: &Bytes, method: &str, root: Value<'_>) -> Bytes {
        let Some(params) = root.get("params") else { return message.clone() };
        let params = match (&self.client_progress_token, method) {
            (Some(token), "notifications/progress") => {
                edit::with(params, "progressToken", token.clone())
            }
            _ if self.id != self.sent_id => match params.get("_meta") {
                Some(of) if of.get(meta_keys::SUBSCRIPTION_ID).is_some() => {
                    let of = edit::with(of, meta_keys::SUBSCRIPTION_ID, self.id.raw().to_owned());
                    edit::with(params, "_meta", of)
                }
                _ => return message.clone(),
            },
            _ => return message.clone(),
        };
        edit::with(root, "params", params).into()
    }

    /// A server request on the stream of this call.
    pub(in crate::exchange) fn on_server_request(
        &mut self,
        event: &Event,
        method: &str,
        id: Id,
        root: Value<'_>,
    ) -> Option<ResponsePart> {
        self.resumable |= event.id.is_some();
        if method == "ping" {
            let pong = result_body(&id, "{}");
            own_messages::answer(self.context.services(), &self.peer, pong.into());
            return None;
        }
        let kind = InputKind::of(method, root.get("params"));
        let is_supported = self.request.client_takes_kind(kind);
        if !is_supported && !self.crossing.is_none() {
            self.note_unsupported_input(kind);
        }
        if !self.server_may_ask(method) {
            return self.refuse_server_request(&id, code::UNKNOWN_METHOD);
        }
        let cut = match results::redact_request(self.request_redactions().as_ref(), &event.message)
        {
            Ok(cut) => cut,
            Err(results::UnreadableRequest) => {
                return self.refuse_server_request(&id, code::INVALID_PARAMS);
            }
        };
        match (self.era, &self.context.session) {
            (Era::Modern, _) if !is_supported => {
                self.refuse_server_request(&id, code::INVALID_PARAMS)
            }
            (Era::Modern, _) => {
                let params = match &cut {
                    None => root.get("params").map(translate::modern_question),
                    Some(cut) => Doc::read(cut.as_bytes(), &Bounds::ANSWER)
                        .ok()
                        .map(|doc| translate::modern_question(doc.root())),
                };
                let params = params.unwrap_or_else(|| "{}".to_owned());
                let key = format!("question-{}", id.raw().trim_matches('"'));
                let question = InputRequest { key, method: method.to_owned(), params };
                Some(ResponsePart::InputRequests(vec![(question, id)]))
            }
            (Era::Legacy, Some(session)) => {
                let alone = session.server.is_some();
                let to = ResponseTarget::Server { peer: Arc::clone(&self.peer), id: id.clone() };
                let Some(shown) = session.add_server_request(alone.then(|| id.clone()), to) else {
                    return self.refuse_server_request(&id, code::UNKNOWN_METHOD);
                };
                session.note_elicitation(&self.peer, root.get("params"));
                let shown = (!alone).then_some(shown);
                let message = results::rewrite_request(root, cut.as_deref(), shown.as_ref());
                let message = message.map_or_else(|| event.message.clone(), Bytes::from);
                Some(ResponsePart::Interim(self.outgoing(event, message)))
            }
            (Era::Legacy, None) => None,
        }
    }

    /// Whether server requests on this stream may belong to other calls: on a shared stream, or if the server
    /// sends requests outside its responses.
    pub(in crate::exchange) fn requests_may_be_unrelated(&self) -> bool {
        self.peer.shares_stream() || self.crossing.hears_server_requests()
    }

    /// What is redacted in server requests.
    pub(in crate::exchange) fn request_redactions(&self) -> Option<Effects> {
        if self.requests_may_be_unrelated() && self.redacts_anything() {
            return self.rules.as_ref().map(|rules| rules.policy.redacted_anywhere());
        }
        (!self.effects.redact.is_empty()).then(|| self.effects.clone())
    }

    pub(in crate::exchange) fn refuse_server_request(
        &self,
        id: &Id,
        code: i64,
    ) -> Option<ResponsePart> {
        let message = "the client does not support this request here";
        let refusal = error_body(Some(id), code, message, None);
        own_messages::answer(self.context.services(), &self.peer, refusal.into());
        None
    }

    /// Whether the client supports this request and the policy allows it.
    pub(crate) fn server_may_ask(&self, method: &str) -> bool {
        let allowed = self.rules.as_ref().is_none_or(|rules| rules.server_may_ask(method));
        allowed
            && self.request.client_takes(method)
            && (self.era == Era::Modern || self.context.session.is_some())
    }
}
