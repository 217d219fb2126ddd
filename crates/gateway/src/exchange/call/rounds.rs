//! Further rounds of a call whose server asked for input. Each must match its call and takes no new holds.

use super::admit::refuse;
use super::incoming::{IncomingRequest, Target};
use crate::exchange::digests::call_digest;
use crate::exchange::error_responses;
use crate::exchange::outbound::Outbound;
use crate::exchange::parked::ParkedCall;
use crate::exchange::prepare::Round;
use crate::exchange::refuse;
use crate::exchange::rounds::{self, RoundContent, RoundState};
use crate::runtime::permits;
use mcp::{Era, Method, ProtocolError, code, error_body};
use policy::Verdict;
use policy::json::{Kind, Value};
use store::ledger::{Admission, Ending, Facts, LedgerError, Permit};

/// Opens the state of a further round, if the request has one.
pub(super) fn open_round_state(
    incoming: &IncomingRequest<'_>,
    target: &Target<'_>,
    digest: &[u8; 32],
) -> Result<Option<RoundState>, Outbound> {
    if incoming.era == Era::Legacy {
        return Ok(None);
    }
    let member = |key: &str| incoming.request.params.and_then(|params| params.get(key));
    if member("inputResponses").is_some_and(|answers| answers.kind() != Kind::Object) {
        let refusal = ProtocolError::params("`inputResponses` must be an object");
        let refusal = refusal.with_id(&incoming.request.id);
        return Err(refuse::refuse(incoming.context, &refusal, &incoming.request.method_name));
    }
    let Some(text) = member("requestState") else { return Ok(None) };
    let digest = call_digest(incoming.context.services(), incoming.request, digest);
    let text = text.as_str().unwrap_or_default();
    rounds::open(incoming.context, &target.access.server.name, &text, &digest).map(Some).map_err(
        |refused| {
            let refusal = ProtocolError::params(refused.message()).with_id(&incoming.request.id);
            refuse::refuse(
                incoming.context,
                &ProtocolError { http_status: 400, ..refusal },
                &incoming.request.method_name,
            )
        },
    )
}

/// The parked call of this round, if the state names one.
pub(super) fn unpark_call(
    incoming: &IncomingRequest<'_>,
    round_state: Option<&RoundState>,
) -> Result<Option<Box<ParkedCall>>, Outbound> {
    let Some(RoundState { inner: RoundContent::Parked(handle), .. }) = round_state else {
        return Ok(None);
    };
    let calls = incoming.context.parked();
    let parked = calls.and_then(|calls| calls.unpark(*handle, &incoming.context.grantee.id));
    parked.map(|parked| Some(Box::new(parked))).ok_or_else(|| {
        let refusal = ProtocolError::params("this call is no longer pending; send it again");
        refuse::refuse(
            incoming.context,
            &refusal.with_id(&incoming.request.id),
            &incoming.request.method_name,
        )
    })
}

/// Admits a further round, of a call that may still run, without new holds. A policy that denies it now stops it.
pub(super) async fn admit_further_round(
    incoming: &IncomingRequest<'_>,
    target: &Target<'_>,
    verdict: &Verdict,
    state: &RoundState,
    running: Option<&Permit>,
    facts: &Facts<'_>,
) -> Result<Permit, Outbound> {
    let ledger = &incoming.context.services().ledger;
    let continued = loop {
        let continued = ledger.continued(verdict, state.call, running, facts).await;
        let is_behind = matches!(continued, Err(LedgerError::RegistryBehind));
        if !is_behind || incoming.context.grantee_of_newer_registry().await.is_none() {
            break continued;
        }
    };
    match continued {
        Ok(Admission::Permit(permit)) => Ok(permit),
        Ok(Admission::Denied(denial)) => Err(refuse(incoming, target, verdict, &denial)),
        Ok(Admission::Asked(waiting)) => Err(refuse(incoming, target, verdict, waiting.denial())),
        Err(error) => {
            Err(refuse(incoming, target, verdict, &error_responses::ledger_failure(&error)))
        }
    }
}

/// Ends a call whose user did not open the URLs that a legacy server requires. The server would only ask again.
pub(super) fn check_urls_opened(
    incoming: &IncomingRequest<'_>,
    target: &Target<'_>,
    round_state: Option<&RoundState>,
    permit: Permit,
) -> Result<Permit, Outbound> {
    let Some(RoundState { inner: RoundContent::Addresses, .. }) = round_state else {
        return Ok(permit);
    };
    let answers = incoming.request.params.and_then(|params| params.get("inputResponses"));
    let declines = |answer: Value<'_>| {
        answer.get("action").and_then(Value::as_str).is_none_or(|action| action != "accept")
    };
    if !answers.is_some_and(|answers| answers.entries().any(|(_, answer)| declines(answer))) {
        return Ok(permit);
    }
    permits::settle(permit, Ending::Error);
    let (id, server) = (&incoming.request.id, &target.access.server.name);
    let message = format!("server `{server}` requires a URL to be opened, and it was not");
    Err(Outbound::ok(match incoming.request.method {
        Method::ToolsCall => error_responses::failed_call(id, &message),
        _ => error_body(Some(id), code::INTERNAL, &message, None),
    }))
}

/// The round, as the server sees it.
pub(super) fn round_of(round_state: Option<&RoundState>) -> Round<'_> {
    match round_state.map(|state| &state.inner) {
        None => Round::First,
        Some(RoundContent::Server(Some(state))) => Round::FurtherWith(state),
        Some(RoundContent::Approval(_)) => Round::AfterOwnQuestion,
        Some(_) => Round::Further,
    }
}
