//! The response of a call as the client gets it: redacted, filtered, translated, with the client's id.

use crate::exchange::aggregate::ITEMS_MAX;
use crate::exchange::error_responses;
use crate::exchange::results;
use crate::exchange::rounds::{self, RoundContent};
use crate::exchange::skills;
use crate::exchange::tasks;
use crate::exchange::tool_check;
use crate::upstream::UpstreamError;
use crate::upstream::lists::{List, ListView};
use crate::upstream::pins::Pins;
use crate::upstream::skills::SkillBook;
use bytes::Bytes;
use mcp::edit::{self, Member};
use mcp::translate;
use mcp::{Era, InputKind, ProtocolError, code, error_body, is_error, result_body};
use policy::json::{Bounds, Doc, Value};
use policy::{Code, Denial};
use store::ledger::{Ending, Outcome, Permit};

use crate::exchange::in_flight::InFlightCall;
use crate::exchange::response_reader::ResponsePart;

impl InFlightCall {
    /// The response for the client, and the outcome row. The envelope was checked before.
    pub(crate) fn finish(&mut self, status: u16, message: &Bytes, root: Value<'_>) -> ResponsePart {
        if !self.needs_edit() {
            return self.finish_parsed(status, message, root);
        }
        match Doc::read(message, &Bounds::ANSWER) {
            Ok(doc) => self.finish_parsed(status, message, doc.root()),
            Err(_) => self.garbled("its response is not JSON"),
        }
    }

    /// The same, with the message parsed to full depth if it must be edited.
    fn finish_parsed(&mut self, status: u16, message: &Bytes, root: Value<'_>) -> ResponsePart {
        if matches!(status, 401 | 403 | 407) {
            return self.failed(&UpstreamError::Status { status, body: Bytes::new() });
        }
        // Clients need only one of the success statuses.
        let is_told = self.crossing.is_none() && (300..600).contains(&status);
        let own_status = if is_told { status } else { 200 };
        let (body, ending, client_status) = match (root.get("result"), root.get("error")) {
            (Some(result), None) => match self.edited(result) {
                Err(denial) => return self.refuse_result(denial),
                Ok(edited) => {
                    let failed = result.get("isError").and_then(Value::as_bool) == Some(true);
                    if let Some(unsupported_input) =
                        self.crossing.unsupported_input().filter(|_| failed)
                    {
                        return self.refuse_input(unsupported_input);
                    }
                    let ending = if failed { Ending::Error } else { Ending::Ok };
                    (self.result(message, edited), ending, own_status)
                }
            },
            (None, Some(error)) if is_error(error) => match self.effects_on_error(error) {
                Err(denial) => return self.refuse_result(denial),
                Ok(edited) => {
                    if let Some(part) = self.on_url_elicitation(error, edited.as_deref()) {
                        return part;
                    }
                    if let Some(unsupported_input) = self.crossing.unsupported_input() {
                        return self.refuse_input(unsupported_input);
                    }
                    let status = self.error_status(error).unwrap_or(own_status);
                    (self.error(message, root, error, edited), Ending::Error, status)
                }
            },
            (None, Some(_)) => return self.garbled("its error has no code and message"),
            (Some(_), Some(_)) => return self.garbled("its response has a result and an error"),
            (None, None) => return self.garbled("its response has neither a result nor an error"),
        };
        self.settle_answered(status, message, ending);
        ResponsePart::Last { status: client_status, body }
    }

    /// The HTTP status of an error for a modern client, if the server does not choose it: on stdio there is
    /// none, and legacy servers use others.
    fn error_status(&self, error: Value<'_>) -> Option<u16> {
        let chooses =
            self.peer.era == Era::Modern && !self.peer.is_child() && !self.peer.is_builtin();
        if self.era != Era::Modern || chooses {
            return None;
        }
        ProtocolError::status_of(error.get("code")?.as_number()?.parse().ok()?)
    }

    /// The response of a built-in server, which is not parsed. Only if nothing must be edited.
    pub(in crate::exchange) fn finish_builtin(
        &mut self,
        message: &Bytes,
        failed: bool,
    ) -> ResponsePart {
        let body = self.result(message, None);
        self.settle_answered(200, message, if failed { Ending::Error } else { Ending::Ok });
        ResponsePart::Last { status: 200, body }
    }

    pub(in crate::exchange) fn needs_edit(&self) -> bool {
        self.list.is_some()
            || !self.crossing.is_none()
            || !results::has_no_effects(&self.effects)
            || self.lists_tasks()
            || self.pinned_page().is_some()
            || self.must_check_skill()
    }

    fn lists_tasks(&self) -> bool {
        self.method == "tasks/list"
    }

    /// The result with all edits, or none if it stays unchanged.
    pub(in crate::exchange) fn edited(&self, result: Value<'_>) -> Result<Option<String>, Denial> {
        self.check_page(result)?;
        self.check_skill(result)?;
        self.context.state.tasks.note(result, &self.request, &self.context, &self.peer);
        let mut text = self.allowed(result)?;
        if self.lists_tasks() {
            let (rules, server) = (self.rules.as_deref(), &self.peer.server.name);
            let own = |result: Value<'_>| tasks::listed(&self.context, rules, server, result);
            text = Some(apply_edit(text.as_deref(), result, own));
        }
        if let Some(list) = self.list {
            self.check_list_size(list, result)?;
            text =
                Some(apply_edit(text.as_deref(), result, |result| self.visible_list(list, result)));
        }
        if self.lists_directory() {
            let shown = |result: Value<'_>| self.visible_directory(result);
            text = Some(apply_edit(text.as_deref(), result, shown));
        }
        if !self.crossing.is_none() {
            text = self.translated_result(text.as_deref(), result);
        }
        Ok(text)
    }

    /// The result without what the policy or the gate removes.
    fn allowed(&self, result: Value<'_>) -> Result<Option<String>, Denial> {
        let text = self.effects_on(result)?;
        if !results::has_gate_denial(result) {
            return Ok(text);
        }
        Ok(Some(apply_edit(text.as_deref(), result, results::without_gate_denial)))
    }

    /// A list with more tools than can be pinned is refused.
    fn check_list_size(&self, list: List, result: Value<'_>) -> Result<(), Denial> {
        let tools = result.get(list.member()).filter(|_| list == List::Tools);
        let count = tools.map_or(0, |tools| tools.items().count());
        if count <= ITEMS_MAX {
            return Ok(());
        }
        let reason = format!("the server lists {count} tools; the gate accepts {ITEMS_MAX}");
        Err(Denial::new(Code::ResultTooLarge, self.request.entry_rule(), reason))
    }

    pub(in crate::exchange) fn visible_list(&self, list: List, result: Value<'_>) -> String {
        let set =
            self.peer.capabilities(self.context.capabilities(self.request.client_capabilities));
        if list == List::Tools {
            tool_check::observe(
                self.context.services(),
                &self.peer,
                set,
                result,
                self.request.is_first_page(),
            );
        }
        if list == List::Skills {
            skills::observe_page(self.context.services(), &self.peer.server, result);
        }
        let server = &self.peer.server;
        let (pins, skills) = (server.pins(), server.skills());
        self.view(&pins, &skills).result(list, result)
    }

    /// The server's items as the client may see them.
    pub(in crate::exchange) fn view<'a>(
        &'a self,
        pins: &'a Pins,
        skills: &'a SkillBook,
    ) -> ListView<'a> {
        let capabilities = self.context.capabilities(self.request.client_capabilities);
        ListView {
            policy: self.rules.as_ref().map(|rules| &rules.policy),
            pins,
            skills,
            set: self.peer.capabilities(capabilities),
            mask: self.peer.server.mask(),
            is_builtin: self.peer.is_builtin(),
            is_mapped: self.peer.server.spec.options.map_names,
        }
    }

    pub(in crate::exchange) fn result(&self, message: &Bytes, edited: Option<String>) -> Bytes {
        match edited {
            None if self.id == self.sent_id => message.clone(),
            None => match Doc::read_shallow(message, &Bounds::ANSWER, 1) {
                Ok(doc) => edit::with(doc.root(), "id", self.id.raw().to_owned()).into(),
                Err(_) => message.clone(),
            },
            Some(result) => result_body(&self.id, &result).into(),
        }
    }

    /// The error response with the client's id, and with the error as edited, if it was edited.
    pub(in crate::exchange) fn error(
        &self,
        message: &Bytes,
        root: Value<'_>,
        error: Value<'_>,
        edited: Option<String>,
    ) -> Bytes {
        let same_id = root.get("id").is_some_and(|id| id.raw() == self.id.raw());
        if same_id && edited.is_none() && self.crossing.is_none() {
            return message.clone();
        }
        let error = if self.crossing.is_none() {
            edited.unwrap_or_else(|| error.raw().to_owned())
        } else {
            self.translated_error(edited.as_deref(), error)
        };
        edit::object(
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

    /// An `input_required` result, with the server's state sealed.
    pub(in crate::exchange) fn next_round(
        &mut self,
        result: Value<'_>,
        inner: RoundContent,
    ) -> ResponsePart {
        let edited = match self.allowed(result) {
            Ok(edited) => edited,
            Err(denial) => return self.refuse_result(denial),
        };
        let (asked, server) = (&self.request, &self.peer.server.name);
        let sealed = asked.digest(self.context.services()).and_then(|digest| {
            rounds::seal(&self.context, server, &digest, asked.first_seq, inner)
        });
        let Some(sealed) = sealed else {
            return self.garbled("the state of this call could not be sealed");
        };
        let with_state =
            |result: Value<'_>| edit::with(result, "requestState", edit::string(&sealed));
        let body = result_body(&self.id, &apply_edit(edited.as_deref(), result, with_state));
        self.settle_until_continued(body.len());
        ResponsePart::Last { status: 200, body: body.into() }
    }

    /// An error that requires the user to open a URL. It is judged like an input request. A modern client of a
    /// legacy server gets it as one, and the call is sent again after its answer.
    fn on_url_elicitation(
        &mut self,
        error: Value<'_>,
        edited: Option<&str>,
    ) -> Option<ResponsePart> {
        if translate::is_ambiguous_error(error) {
            return Some(self.garbled("its error is ambiguous"));
        }
        if error.get("code")?.as_number()? != translate::URL_ELICITATION_REQUIRED {
            return None;
        }
        // The message may not have been parsed this deep.
        let Ok(whole) = Doc::read(edited.unwrap_or(error.raw()).as_bytes(), &Bounds::ANSWER) else {
            return Some(self.refuse_input(InputKind::Url));
        };
        let asked = translate::url_elicitations(whole.root());
        let doc = Doc::read(asked.as_bytes(), &Bounds::ANSWER).ok()?;
        doc.root().get("inputRequests")?.entries().next()?;
        if !self.server_may_ask("elicitation/create")
            || !self.request.client_takes_kind(InputKind::Url)
        {
            return Some(self.refuse_input(InputKind::Url));
        }
        if self.crossing.to_older().is_none() {
            let session = self.context.session.as_ref();
            session.inspect(|session| session.note_elicitations_in_error(&self.peer, whole.root()));
            return None;
        }
        Some(self.next_round(doc.root(), RoundContent::Addresses))
    }

    /// Ends a call whose server needs input that this client does not provide.
    pub(in crate::exchange) fn refuse_input(&mut self, question: InputKind) -> ResponsePart {
        self.settle(Ending::Error);
        let method = question.method();
        let message = format!(
            "the server asked for `{method}`, which this client or its policy does not allow"
        );
        let code = code::MISSING_CAPABILITY;
        let status = match self.era {
            Era::Modern => ProtocolError::status_of(code).unwrap_or(200),
            Era::Legacy => 200,
        };
        let data = format!("{{\"requiredCapabilities\":{}}}", question.needs().unwrap_or("{}"));
        let body = error_body(Some(&self.id), code, &message, Some(&data));
        ResponsePart::Last { status, body: body.into() }
    }

    pub(in crate::exchange) fn fail_with_client_error(&mut self, error: &str) -> ResponsePart {
        self.settle(Ending::Error);
        let body = format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"error\":{error}}}", self.id.raw());
        ResponsePart::Last { status: 200, body: body.into() }
    }

    pub(in crate::exchange) fn refuse_result(&mut self, mut denial: Denial) -> ResponsePart {
        denial.audit_id = self.permit.as_ref().map(Permit::seq);
        self.settle_with(Outcome { code: Some(denial.code), ..Outcome::new(Ending::Error) });
        let body = if self.method == "tools/call" {
            error_responses::denied_call(&self.id, &denial, self.era)
        } else {
            error_responses::denied(&self.id, &denial)
        };
        ResponsePart::Last { status: 200, body: body.into() }
    }
}

/// Applies `act` to the edited text, or to the value if there is none.
pub(in crate::exchange) fn apply_edit(
    text: Option<&str>,
    value: Value<'_>,
    act: impl Fn(Value<'_>) -> String,
) -> String {
    let Some(text) = text else { return act(value) };
    match Doc::read(text.as_bytes(), &Bounds::ANSWER) {
        Ok(doc) => act(doc.root()),
        // Cannot fail: this code wrote it.
        Err(_) => text.to_owned(),
    }
}
