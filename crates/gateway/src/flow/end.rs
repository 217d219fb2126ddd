//! How a request ends: its answer as the client may have it, or why there is none, and the outcome row.

use crate::aggregate::ITEMS_MAX;
use crate::answers;
use crate::call::Owned;
use crate::lists::{List, View};
use crate::mrtr::Inner;
use crate::rebuild::{self, Member};
use crate::results;
use crate::scene::Transport;
use crate::tasks;
use crate::trace::Span;
use crate::translate::{self, newer_tasks};
use crate::upstream::UpstreamError;
use crate::wire::{Era, Question, Refused, code, error_body, is_error, result_body};
use bytes::Bytes;
use policy::json::{Bounds, Doc, Value};
use policy::{Code, Denial};
use store::ledger::{Ending, Facts, LedgerError, Outcome, Permit};

use super::Piece;
use super::tail::Tail;

impl Tail {
    /// The answer as the client gets it, and the outcome row. That the message has one envelope is
    /// known.
    pub(crate) fn finish(&mut self, status: u16, message: &Bytes, root: Value<'_>) -> Piece {
        if !self.needs_edit() {
            return self.finish_as(status, message, root);
        }
        match Doc::read(message, &Bounds::ANSWER) {
            Ok(doc) => self.finish_as(status, message, doc.root()),
            Err(_) => self.garbled("its answer is not JSON"),
        }
    }

    /// The same with the message as it was read: to the bottom where it must be edited.
    fn finish_as(&mut self, status: u16, message: &Bytes, root: Value<'_>) -> Piece {
        if matches!(status, 401 | 403 | 407) {
            return self.failed(&UpstreamError::Status { status, body: Bytes::new() });
        }
        // Of all that says yes in HTTP a client needs to know only one.
        let is_told = self.era == self.peer.era && (300..600).contains(&status);
        let own_status = if is_told { status } else { 200 };
        let (body, ending, client_status) = match (root.get("result"), root.get("error")) {
            (Some(result), None) => match self.edited(result) {
                Err(denial) => return self.too_large(denial),
                Ok(edited) => {
                    let failed = result.get("isError").and_then(Value::as_bool) == Some(true);
                    if let Some(unable) = self.meanwhile.unable.filter(|_| failed) {
                        return self.question_refused(unable);
                    }
                    let ending = if failed { Ending::Error } else { Ending::Ok };
                    (self.result(message, edited), ending, own_status)
                }
            },
            (None, Some(error)) if is_error(error) => match self.effects_on_error(error) {
                Err(denial) => return self.too_large(denial),
                Ok(edited) => {
                    if let Some(piece) = self.unopened(error, edited.as_deref()) {
                        return piece;
                    }
                    if let Some(unable) = self.meanwhile.unable {
                        return self.question_refused(unable);
                    }
                    let status = self.error_status(error).unwrap_or(own_status);
                    (self.error(message, root, error, edited), Ending::Error, status)
                }
            },
            (None, Some(_)) => return self.garbled("its error has no code and message"),
            (Some(_), Some(_)) => return self.garbled("its answer has a result and an error"),
            (None, None) => return self.garbled("its answer has neither a result nor an error"),
        };
        self.went_well(status, message, ending);
        Piece::Last { status: client_status, body }
    }

    /// The status that a newer client is owed for an error, where its server does not choose one: on
    /// stdio there is none, and older servers have others.
    fn error_status(&self, error: Value<'_>) -> Option<u16> {
        let chooses =
            self.peer.era == Era::Modern && !self.peer.is_child() && !self.peer.is_builtin();
        if self.era != Era::Modern || chooses {
            return None;
        }
        Refused::status_of(error.get("code")?.as_number()?.parse().ok()?)
    }

    /// The answer of one of our own servers, which needs no reading; only where nothing has to be
    /// changed in it.
    pub(super) fn finish_ours(&mut self, message: &Bytes, failed: bool) -> Piece {
        let body = self.result(message, None);
        self.went_well(200, message, if failed { Ending::Error } else { Ending::Ok });
        Piece::Last { status: 200, body }
    }

    fn went_well(&mut self, status: u16, message: &Bytes, ending: Ending) {
        let outcome = Outcome {
            status: Some(status),
            result_bytes: Some(message.len() as u64),
            ..Outcome::new(ending)
        };
        self.settled = self.end(outcome, Permit::settle_soon);
        self.peer.server.marks.went_well();
    }

    pub(super) fn needs_edit(&self) -> bool {
        self.list.is_some()
            || self.era != self.peer.era
            || !results::is_idle(&self.effects)
            || self.lists_tasks()
    }

    fn lists_tasks(&self) -> bool {
        self.method == "tasks/list"
    }

    /// The result with everything that the gate must change, or nothing when it may stay as it is.
    pub(super) fn edited(&self, result: Value<'_>) -> Result<Option<String>, Denial> {
        self.scene.gate.tasks.note(result, &self.asked, &self.scene, &self.peer);
        let mut text = self.allowed(result)?;
        if self.lists_tasks() {
            let (rules, server) = (self.rules.as_deref(), &self.peer.server.name);
            let own = |result: Value<'_>| tasks::listed(&self.scene, rules, server, result);
            text = Some(on(text.as_deref(), result, own));
        }
        if let Some(list) = self.list {
            self.fits(list, result)?;
            text = Some(on(text.as_deref(), result, |result| self.seen(list, result)));
        }
        match (self.peer.era, self.era) {
            (Era::Legacy, Era::Modern) => {
                text = Some(on(text.as_deref(), result, |r| {
                    translate::modern_result(&self.method, r)
                }));
            }
            (Era::Modern, Era::Legacy) => {
                text = Some(on(text.as_deref(), result, |r| {
                    translate::legacy_result(&self.method, r)
                }));
                if self.list == Some(List::Tools) && self.offers_tasks() {
                    text = Some(on(text.as_deref(), result, newer_tasks::perhaps_as_tasks));
                }
            }
            _ => {}
        }
        Ok(text)
    }

    /// The result without what the policy or the gate itself keeps from the agent.
    fn allowed(&self, result: Value<'_>) -> Result<Option<String>, Denial> {
        let text = self.effects_on(result)?;
        if !results::speaks_for_us(result) {
            return Ok(text);
        }
        Ok(Some(on(text.as_deref(), result, results::without_our_words)))
    }

    /// A list with more tools than are pinned cannot be judged, and would be shown without any.
    fn fits(&self, list: List, result: Value<'_>) -> Result<(), Denial> {
        let tools = result.get(list.member()).filter(|_| list == List::Tools);
        let count = tools.map_or(0, |tools| tools.items().count());
        if count <= ITEMS_MAX {
            return Ok(());
        }
        let reason = format!("the server lists {count} tools and the gate takes {ITEMS_MAX}");
        Err(Denial::new(Code::ResultTooLarge, self.asked.entry_rule(), reason))
    }

    pub(super) fn seen(&self, list: List, result: Value<'_>) -> String {
        let set = self.peer.capabilities(self.scene.capabilities(self.asked.takes));
        if list == List::Tools {
            self.scene.gate.observe(&self.peer, set, result, self.asked.is_first_page());
        }
        let pins = self.peer.server.pins();
        let policy = self.rules.as_ref().map(|rules| &rules.policy);
        View { policy, pins: &pins, set, prefix: None }.result(list, result)
    }

    pub(super) fn result(&self, message: &Bytes, edited: Option<String>) -> Bytes {
        match edited {
            None if self.id == self.sent_id => message.clone(),
            None => match Doc::read_shallow(message, &Bounds::ANSWER, 1) {
                Ok(doc) => rebuild::with(doc.root(), "id", self.id.raw().to_owned()).into(),
                Err(_) => message.clone(),
            },
            Some(result) => result_body(&self.id, &result).into(),
        }
    }

    /// The answer with the client's id, and with its error as the policy left it, if it did not.
    pub(super) fn error(
        &self,
        message: &Bytes,
        root: Value<'_>,
        error: Value<'_>,
        edited: Option<String>,
    ) -> Bytes {
        let same_id = root.get("id").is_some_and(|id| id.raw() == self.id.raw());
        if same_id && edited.is_none() && self.era == self.peer.era {
            return message.clone();
        }
        let error = if self.era == self.peer.era {
            edited.unwrap_or_else(|| error.raw().to_owned())
        } else {
            on(edited.as_deref(), error, |error| {
                translate::error(error, self.era == Era::Modern, &self.method)
            })
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
    pub(super) fn next_round(&mut self, result: Value<'_>, inner: Inner) -> Piece {
        let edited = match self.allowed(result) {
            Ok(edited) => edited,
            Err(denial) => return self.too_large(denial),
        };
        let (asked, server) = (&self.asked, &self.peer.server.name);
        let gate = &self.scene.gate;
        let sealed = asked
            .digest(gate)
            .and_then(|digest| gate.seal(&self.scene, server, &digest, asked.first_seq, inner));
        let Some(sealed) = sealed else {
            return self.garbled("the state of this call could not be sealed");
        };
        let with_state =
            |result: Value<'_>| rebuild::with(result, "requestState", rebuild::string(&sealed));
        let body = result_body(&self.id, &on(edited.as_deref(), result, with_state));
        self.settle_for_now(body.len());
        Piece::Last { status: 200, body: body.into() }
    }

    /// A server's error that its user must open an address first. It is a question, too, and judged like
    /// one. A newer client of an older server gets it as one, after whose answer the call is sent again.
    fn unopened(&mut self, error: Value<'_>, edited: Option<&str>) -> Option<Piece> {
        if translate::has_two_readings(error) {
            return Some(self.garbled("its error can be read in two ways"));
        }
        if error.get("code")?.as_number()? != translate::ADDRESS_NEEDED {
            return None;
        }
        // The message may have been read no deeper than this.
        let Ok(whole) = Doc::read(edited.unwrap_or(error.raw()).as_bytes(), &Bounds::ANSWER) else {
            return Some(self.question_refused(Question::Address));
        };
        let asked = translate::addresses(whole.root());
        let doc = Doc::read(asked.as_bytes(), &Bounds::ANSWER).ok()?;
        doc.root().get("inputRequests")?.entries().next()?;
        if !self.may_ask("elicitation/create") || !self.asked.client_takes_kind(Question::Address) {
            return Some(self.question_refused(Question::Address));
        }
        let crosses = self.peer.era == Era::Legacy && self.era == Era::Modern;
        if !crosses {
            return None;
        }
        Some(self.next_round(doc.root(), Inner::Addresses))
    }

    /// Ends a call that cannot go on, because the server asks what this client is not asked.
    pub(super) fn question_refused(&mut self, question: Question) -> Piece {
        self.settle(Ending::Error);
        let method = question.method();
        let words = format!(
            "the server asked for `{method}`, which this client or its policy does not allow"
        );
        let code = code::MISSING_CAPABILITY;
        let status = match self.era {
            Era::Modern => Refused::status_of(code).unwrap_or(200),
            Era::Legacy => 200,
        };
        let data = format!("{{\"requiredCapabilities\":{}}}", question.needs().unwrap_or("{}"));
        let body = error_body(Some(&self.id), code, &words, Some(&data));
        Piece::Last { status, body: body.into() }
    }

    pub(super) fn client_refused(&mut self, error: &str) -> Piece {
        self.settle(Ending::Error);
        let body = format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"error\":{error}}}", self.id.raw());
        Piece::Last { status: 200, body: body.into() }
    }

    pub(super) fn too_large(&mut self, mut denial: Denial) -> Piece {
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

    pub(super) fn garbled(&mut self, why: &str) -> Piece {
        self.failed(&UpstreamError::Garbled { why: why.to_owned() })
    }

    /// No answer will come.
    pub(crate) fn failed(&mut self, error: &UpstreamError) -> Piece {
        if self.in_flight.as_ref().is_some_and(|in_flight| in_flight.flight.is_taken_back()) {
            return self.cancelled();
        }
        if self.can_be_resumed() && matches!(error, UpstreamError::Lost { .. }) {
            return Piece::Broken;
        }
        tracing::warn!(server = %self.peer.server.name, %error, "no answer from the server");
        let now_us = self.scene.gate.clock.now().wall_us;
        self.peer.server.marks.went_wrong(now_us, error.to_string());
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
                self.settle(ending);
            }
        }
        Piece::Last { status: 200, body: body.into() }
    }

    /// Whether the client can ask for the rest of a stream that broke off: over HTTP, in a session. Any
    /// other would wait for an answer that never comes.
    fn can_be_resumed(&self) -> bool {
        let over_http = matches!(self.scene.transport, Transport::Http { .. });
        self.resumable && self.era == Era::Legacy && over_http && self.scene.session.is_some()
    }

    pub(super) fn ran_out(&mut self) -> Piece {
        if self.can_be_resumed() {
            return Piece::Broken;
        }
        self.failed(&UpstreamError::Lost { why: "the stream ended without an answer".to_owned() })
    }

    pub(crate) fn cancelled(&mut self) -> Piece {
        self.settle(Ending::Cancelled);
        Piece::Cancelled
    }

    /// Ends a call that has no answer.
    pub(super) fn settle(&mut self, ending: Ending) {
        self.settle_with(Outcome { result_bytes: Some(0), ..Outcome::new(ending) });
    }

    pub(super) fn settle_with(&mut self, outcome: Outcome) {
        if let Some(written) = self.end(outcome, Permit::settle) {
            late(written);
        }
    }

    /// Ends the call, once.
    fn end<T>(
        &mut self,
        outcome: Outcome,
        settle: impl FnOnce(Permit, &Outcome) -> T,
    ) -> Option<T> {
        let permit = self.permit.take()?;
        self.give_up_task();
        let latency_us = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.scene.gate.metrics.call_ended(outcome.ending, latency_us);
        self.end_trace(outcome.ending, latency_us);
        let settled = settle(permit, &Outcome { latency_us: Some(latency_us), ..outcome });
        self.in_flight = None;
        Some(settled)
    }

    /// Comes back when the outcome is on record. Calls that end in the same moment share one turn of the
    /// ledger: who has company lets the others come first.
    pub(super) async fn until_on_record(&mut self) {
        let Some(settled) = self.settled.take() else { return };
        if settled.has_company() {
            tokio::task::yield_now().await;
        }
        late(settled.write());
    }

    /// The same where nobody can wait.
    pub(super) fn put_on_record(&mut self) {
        if let Some(settled) = self.settled.take() {
            late(settled.write());
        }
    }

    pub(super) fn end_trace(&mut self, ending: Ending, took_us: u64) {
        let Some(trace) = self.trace.take() else { return };
        self.scene.gate.tracer.end(Span {
            trace,
            name: self.method.clone().into_owned(),
            server: self.peer.server.name.clone(),
            grant: self.scene.holder.label.clone(),
            ended_at_us: self.scene.gate.clock.now().wall_us,
            took_us,
            ending,
        });
    }

    /// The server asked something back; the same call goes on when the client answers.
    pub(super) fn settle_for_now(&mut self, result_bytes: usize) {
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

/// Applies `act` to the text if there is one, to the value if not.
fn on(text: Option<&str>, value: Value<'_>, act: impl Fn(Value<'_>) -> String) -> String {
    let Some(text) = text else { return act(value) };
    match Doc::read(text.as_bytes(), &Bounds::ANSWER) {
        Ok(doc) => act(doc.root()),
        // We wrote it ourselves a moment ago.
        Err(_) => text.to_owned(),
    }
}
