//! Further rounds of a call that its server answered with a question: each fits the call it goes on with,
//! and takes no new holds.

use super::ask::{Aim, Ask};
use super::judge::refuse;
use crate::answers;
use crate::gate::Gate;
use crate::mrtr::{Inner, ParkedCall, State};
use crate::outbound::Outbound;
use crate::prepare::Round;
use crate::receive;
use crate::wire::{Era, Method, Refused, code, error_body};
use policy::Verdict;
use policy::json::{Kind, Value};
use store::ledger::{Admission, Ending, Facts, Permit};

/// Opens the state of a further round, if the request brings one.
pub(super) fn continued_round(
    ask: &Ask<'_>,
    aim: &Aim<'_>,
    digest: &[u8; 32],
) -> Result<Option<State>, Outbound> {
    if ask.era == Era::Legacy {
        return Ok(None);
    }
    let member = |key: &str| ask.request.params.and_then(|params| params.get(key));
    if member("inputResponses").is_some_and(|answers| answers.kind() != Kind::Object) {
        let refusal = Refused::params("`inputResponses` must be an object");
        let refusal = refusal.with_id(&ask.request.id);
        return Err(receive::refuse(ask.scene, &refusal, &ask.request.method_name));
    }
    let Some(text) = member("requestState") else { return Ok(None) };
    let gate = &ask.scene.gate;
    let digest = gate.call_digest(ask.request, digest);
    let text = text.as_str().unwrap_or_default();
    gate.open_round(ask.scene, &aim.holding.server.name, &text, &digest).map(Some).map_err(
        |refused| {
            let refusal = Refused::params(refused.words()).with_id(&ask.request.id);
            receive::refuse(
                ask.scene,
                &Refused { http_status: 400, ..refusal },
                &ask.request.method_name,
            )
        },
    )
}

/// The call that waits here for this round, if the state says that one does.
pub(super) fn waiting_call(
    ask: &Ask<'_>,
    continued: Option<&State>,
) -> Result<Option<Box<ParkedCall>>, Outbound> {
    let Some(State { inner: Inner::Parked(handle), .. }) = continued else { return Ok(None) };
    let parked = ask.scene.gate.rounds.unpark(*handle, &ask.scene.holder.id);
    parked.map(|parked| Some(Box::new(parked))).ok_or_else(|| {
        let refusal = Refused::params("this call no longer waits; send it again");
        receive::refuse(ask.scene, &refusal.with_id(&ask.request.id), &ask.request.method_name)
    })
}

/// A further round of an admitted call takes no new holds; a policy that now denies it stops it.
pub(super) fn admit_again(
    ask: &Ask<'_>,
    aim: &Aim<'_>,
    verdict: &Verdict,
    state: &State,
    parked: Option<&ParkedCall>,
    facts: &Facts<'_>,
) -> Result<Permit, Outbound> {
    let ledger = &ask.scene.gate.ledger;
    let admission = match parked.and_then(|parked| parked.flow.tail.permit.as_ref()) {
        Some(running) => ledger.carry_on(verdict, running, facts),
        None => ledger.continue_call(verdict, state.call, facts),
    };
    match admission {
        Ok(Admission::Permit(permit)) => Ok(permit),
        Ok(Admission::Denied(denial)) => Err(refuse(ask, aim, verdict, &denial)),
        Ok(Admission::Asked(waiting)) => Err(refuse(ask, aim, verdict, waiting.denial())),
        Err(error) => Err(refuse(ask, aim, verdict, &answers::no_record(&error))),
    }
}

/// Ends a call whose user did not open the addresses that an older server needs: without them it would
/// only ask for them again.
pub(super) fn unless_unopened(
    ask: &Ask<'_>,
    aim: &Aim<'_>,
    continued: Option<&State>,
    permit: Permit,
) -> Result<Permit, Outbound> {
    let Some(State { inner: Inner::Addresses, .. }) = continued else { return Ok(permit) };
    let answers = ask.request.params.and_then(|params| params.get("inputResponses"));
    let declines = |answer: Value<'_>| {
        answer.get("action").and_then(Value::as_str).is_none_or(|action| action != "accept")
    };
    if !answers.is_some_and(|answers| answers.entries().any(|(_, answer)| declines(answer))) {
        return Ok(permit);
    }
    Gate::settled(permit, Ending::Error);
    let (id, server) = (&ask.request.id, &aim.holding.server.name);
    let words = format!("server `{server}` needs an address to be opened, and it was not");
    Err(Outbound::ok(match ask.request.method {
        Method::ToolsCall => answers::failed_call(id, &words),
        _ => error_body(Some(id), code::INTERNAL, &words, None),
    }))
}

/// What the server is told of the round.
pub(super) fn round_of(continued: Option<&State>) -> Round<'_> {
    match continued.map(|state| &state.inner) {
        None => Round::First,
        Some(Inner::Server(Some(state))) => Round::FurtherWith(state),
        Some(_) => Round::Further,
    }
}
