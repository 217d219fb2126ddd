//! Results that need input from the client. The policy must allow the request and the client must support it,
//! in all eras.

use crate::exchange::response_reader::{ResponsePart, ResponseReader};
use crate::exchange::rounds::RoundContent;
use crate::upstream::Event;
use mcp::translate::{self, InputRequest};
use mcp::{Era, InputKind};
use policy::json::{Bounds, Doc, Value};

/// What to do with a result that needs input.
pub(in crate::exchange) enum InputOutcome {
    /// Not allowed, not supported, or unreadable.
    Refused(ResponsePart),
    /// The call continues when the client has answered.
    Input,
    /// A task needs input. Its client answers with `tasks/update`.
    ByTask,
}

impl ResponseReader {
    /// Checks a result that needs input: the policy must allow the requests, and the client must support them.
    pub(in crate::exchange) fn check_input_requests(
        &mut self,
        event: &Event,
        result: Value<'_>,
    ) -> InputOutcome {
        let doc = Doc::read(&event.message, &Bounds::ANSWER).ok();
        let questions = doc.as_ref().and_then(|doc| doc.root().get("result"));
        let Some(questions) = questions.and_then(translate::input_requests) else {
            return InputOutcome::Refused(self.call.garbled("its input requests cannot be parsed"));
        };
        if let Some(unsupported_input) =
            questions.iter().find_map(|question| self.unsupported_input(question))
        {
            return InputOutcome::Refused(self.call.refuse_input(unsupported_input));
        }
        if self.call.peer.era == Era::Legacy {
            // Its revision has no such result, so the answers could not be returned.
            let why = "its result needs input, which its revision does not support";
            return InputOutcome::Refused(self.call.garbled(why));
        }
        match result.get("resultType").and_then(Value::as_str).as_deref() {
            Some("input_required") => InputOutcome::Input,
            _ if self.call.crossing.is_polling() || self.call.is_of_task(result) => {
                InputOutcome::ByTask
            }
            _ => InputOutcome::Refused(
                self.call.garbled("its result contains input requests but is not `input_required`"),
            ),
        }
    }

    /// A modern server needs input from the client before it can respond.
    pub(in crate::exchange) fn input_required(&mut self, event: &Event) -> Option<ResponsePart> {
        let Ok(doc) = Doc::read(&event.message, &Bounds::ANSWER) else {
            return Some(self.call.garbled("its result is not JSON"));
        };
        let result = doc.root().get("result")?;
        let questions = translate::input_requests(result).unwrap_or_default();
        let state =
            result.get("requestState").and_then(Value::as_str).map(std::borrow::Cow::into_owned);
        if self.call.crossing.to_newer().is_some() {
            return self.ask_client(questions, state);
        }
        Some(self.call.next_round(result, RoundContent::Server(state)))
    }

    /// The kind of an input request that is not allowed or not supported.
    pub(in crate::exchange) fn unsupported_input(
        &self,
        question: &InputRequest,
    ) -> Option<InputKind> {
        let doc = Doc::read(question.params.as_bytes(), &Bounds::ANSWER).ok();
        let kind = InputKind::of(&question.method, doc.as_ref().map(Doc::root));
        let is_taken = self.call.request.client_takes_kind(kind);
        (!is_taken || !self.call.server_may_ask(&question.method)).then_some(kind)
    }
}
