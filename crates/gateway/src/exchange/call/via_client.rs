//! A call that waits for the client's own user: asked in one round, answered in the next one or on the stream.

use mcp::translate::{self, InputRequest};
use mcp::{Era, result_body};
use policy::Verdict;
use store::ledger::HeldCall;

use super::incoming::IncomingRequest;
use crate::exchange::approvals;
use crate::exchange::client_approval::{ClientDecision, METHOD, ask_of, record};
use crate::exchange::digests::{Digests, call_digest};
use crate::exchange::outbound::Outbound;
use crate::exchange::rounds::{self, RoundContent};
use crate::session::InFlightGuard;

/// The key of the question among the input requests.
const KEY: &str = "tollgate/approval";

/// Asks: a modern client by an `input_required` result, a client of a session by a request on its stream.
pub(super) async fn ask(
    incoming: &IncomingRequest<'_>,
    server: &str,
    waiting: HeldCall,
    question: String,
    in_flight: Option<InFlightGuard>,
) -> Outbound {
    if incoming.era == Era::Legacy {
        return approvals::hold_for_client(incoming, waiting, &question, in_flight);
    }
    let approval = waiting.approval_id().to_owned();
    let services = incoming.context.services();
    let digest = Digests::of(services, incoming.request).rounds;
    let digest = call_digest(services, incoming.request, &digest);
    let content = RoundContent::Approval(approval);
    let sealed = rounds::seal(incoming.context, server, &digest, waiting.seq(), content);
    let Some(state) = sealed else {
        return approvals::wait(incoming, waiting, in_flight).await;
    };
    approvals::params_stored(incoming, &waiting).await;
    let request = InputRequest { key: KEY.to_owned(), method: METHOD.to_owned(), params: question };
    let result = translate::input_required(&[request], &state);
    Outbound::ok(result_body(&incoming.request.id, &result))
}

/// Records the answer that a further round brought. The call is then judged like every other.
pub(super) fn take_answer(incoming: &IncomingRequest<'_>, verdict: &Verdict, approval: &str) {
    let answers = incoming.request.params.and_then(|params| params.get("inputResponses"));
    let decision = ClientDecision::of(answers.and_then(|answers| answers.get(KEY)));
    // The policy may have changed since the question: then only the owner can answer.
    if ask_of(verdict).is_some() {
        let client = incoming.client.as_ref().or(incoming.context.client());
        let name = client.map(|client| client.name().to_owned()).unwrap_or_default();
        record(incoming.context.services(), approval, decision, &name);
    }
}
