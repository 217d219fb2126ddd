//! Admits a decided request: takes all holds and writes the audit row, or responds why not.

use super::capture;
use super::decide::Decided;
use super::incoming::{IncomingRequest, Target};
use super::rounds::{admit_further_round, check_urls_opened, unpark_call};
use super::via_client;
use crate::exchange::context::RequestContext;
use crate::exchange::outbound::Outbound;
use crate::exchange::rounds::{RoundContent, RoundState};
use crate::exchange::{approvals, bridge, client_approval, error_responses, refuse, skills};
use crate::runtime::{Services, permits};
use crate::session::InFlightGuard;
use mcp::{Method, Named};
use policy::{Code, Decision, Denial, HiddenAs, Subject, Verdict};
use std::sync::PoisonError;
use store::ledger::{
    Admission, Facts, GroupedAdmission, LedgerError, Permit, Refusal, RefusalKind,
};

/// The permit of a request, or the response instead: a refusal, a wait for a human, or the continuation of a
/// parked call.
pub(super) async fn admit(
    incoming: &IncomingRequest<'_>,
    target: &Target<'_>,
    decided: &Decided,
    facts: &Facts<'_>,
    in_flight: &mut Option<InFlightGuard>,
) -> Result<Permit, Outbound> {
    if let Some(outbound) = refuse_unknown_tool(incoming, target, decided, facts) {
        return Err(outbound);
    }
    let round_state = decided.round_state.as_ref();
    let parked = unpark_call(incoming, round_state)?;
    let permit = match (&decided.verdict, round_state) {
        (None, _) => own_act(incoming, facts).await?,
        (Some(verdict), None) => {
            admit_first(incoming, target, verdict, facts, in_flight, true).await?
        }
        (Some(verdict), Some(RoundState { inner: RoundContent::Approval(id), .. })) => {
            via_client::take_answer(incoming, verdict, id);
            // A user who gave no answer is not asked again: the owner is.
            admit_first(incoming, target, verdict, facts, in_flight, false).await?
        }
        (Some(verdict), Some(state)) => {
            let running = parked.as_ref().and_then(|parked| parked.reader.call.permit.as_ref());
            admit_further_round(incoming, target, verdict, state, running, facts).await?
        }
    };
    match parked {
        Some(parked) => Err(Box::pin(bridge::resume::resume(incoming, parked, permit)).await),
        None => check_urls_opened(incoming, target, round_state, permit),
    }
}

/// Takes all holds and writes the row, or responds why not.
async fn admit_first(
    incoming: &IncomingRequest<'_>,
    target: &Target<'_>,
    verdict: &Verdict,
    facts: &Facts<'_>,
    in_flight: &mut Option<InFlightGuard>,
    may_ask_client: bool,
) -> Result<Permit, Outbound> {
    let services = incoming.context.services();
    // The size of the whole message, an upper limit for the params that are stored.
    let parked_bytes = u64::try_from(incoming.body.len()).unwrap_or(u64::MAX);
    let facts = &Facts { parked_bytes, ..*facts };
    let held = incoming.resumed_approval.lock().unwrap_or_else(PoisonError::into_inner).take();
    let again = held.is_some();
    let admission = match held {
        Some(waiting) => services.ledger.resumed(waiting, verdict, facts).await,
        None => admit_batched(services, verdict, facts).await,
    };
    let question =
        client_approval::question(incoming, verdict).filter(|_| may_ask_client && !again);
    let admission = match (admission, question) {
        (Ok(Admission::Asked(waiting)), Some(question)) => {
            let server = &target.access.server.name;
            let in_flight = in_flight.take();
            return Err(via_client::ask(incoming, server, waiting, question, in_flight).await);
        }
        (admission, _) => admission,
    };
    let admission = match admission {
        Ok(Admission::Asked(waiting)) if !again && incoming.request.progress_token().is_some() => {
            return Err(approvals::hold(incoming, waiting, in_flight.take()));
        }
        Ok(Admission::Asked(waiting)) if !again => {
            return Err(approvals::wait(incoming, waiting, in_flight.take()).await);
        }
        other => other,
    };
    let permit = match admission {
        Ok(Admission::Permit(permit)) => permit,
        Ok(Admission::Denied(denial)) => {
            capture::params_of_refused(incoming, target, facts).await;
            return Err(refuse(incoming, target, verdict, &denial));
        }
        Ok(Admission::Asked(waiting)) => {
            return Err(refuse(incoming, target, verdict, waiting.denial()));
        }
        Err(LedgerError::RegistryBehind) => {
            return Err(judge_again(incoming, in_flight.take()).await);
        }
        Err(error) => {
            return Err(refuse(
                incoming,
                target,
                verdict,
                &error_responses::ledger_failure(&error),
            ));
        }
    };
    wait_until_durable(incoming, target, verdict, facts, permit).await
}

/// Judges a call again with the registry that the store has, which its gate had not read: the grant may be
/// revoked, the policy another.
async fn judge_again(incoming: &IncomingRequest<'_>, in_flight: Option<InFlightGuard>) -> Outbound {
    // The dispatch below registers the request id again.
    drop(in_flight);
    let Some(grantee) = incoming.context.grantee_of_newer_registry().await else {
        return refuse::revoked(incoming.context, incoming.body);
    };
    let context = RequestContext { grantee, ..incoming.context.clone() };
    let upper_layers = context.state.upper_layers;
    upper_layers.dispatch_again(&context, incoming.body, incoming.headers, None).await
}

/// Calls that arrive together are recorded in one write and sent together, so that their server wakes up once.
/// A single call does not wait.
async fn admit_batched(
    services: &Services,
    verdict: &Verdict,
    facts: &Facts<'_>,
) -> Result<Admission, LedgerError> {
    if services.ledger.waits_for_store() {
        return services.ledger.admitted(verdict, facts).await;
    }
    match services.ledger.admit_soon(verdict, facts)? {
        GroupedAdmission::Now(admission) => Ok(admission),
        GroupedAdmission::Pending(pending) => {
            tokio::task::yield_now().await;
            pending.write().map(Admission::Permit)
        }
    }
}

/// The row is on disk and the params are captured, if so configured; otherwise nothing is sent.
async fn wait_until_durable(
    incoming: &IncomingRequest<'_>,
    target: &Target<'_>,
    verdict: &Verdict,
    facts: &Facts<'_>,
    permit: Permit,
) -> Result<Permit, Outbound> {
    if let Err(error) = capture::params(incoming, target, facts).await {
        let denial = error_responses::capture_failure(&error);
        permits::release(permit, "its arguments could not be captured");
        return Err(refuse(incoming, target, verdict, &denial));
    }
    match permits::until_durable(&permit).await {
        Ok(()) => Ok(permit),
        Err(error) => {
            let denial = error_responses::ledger_failure(&error);
            permits::release(permit, "the row could not be flushed");
            Err(refuse(incoming, target, verdict, &denial))
        }
    }
}

/// An unknown tool or skill gets the same response as a hidden one.
fn refuse_unknown_tool(
    incoming: &IncomingRequest<'_>,
    target: &Target<'_>,
    decided: &Decided,
    facts: &Facts<'_>,
) -> Option<Outbound> {
    let (code, reason) = match target.subject {
        Some(Subject::Tool(name)) if decided.pins.is_known() && !decided.pins.has(name) => {
            ("unknown_tool", "the server has no such tool")
        }
        Some(Subject::Skill(name)) if skills::is_unknown(incoming, target, name) => {
            ("unknown_skill", "the server lists no such skill")
        }
        _ => return None,
    };
    let open = match decided.verdict.as_ref()?.decision() {
        Decision::Allow | Decision::Ask(_) => true,
        Decision::Deny(denial) => denial.code == Code::ToolChanged,
        Decision::Hidden(_) => false,
    };
    if !open {
        return None;
    }
    let refusal = Refusal { kind: RefusalKind::Denied, code, reason };
    incoming.context.services().metrics.denied(refusal.code);
    Some(match incoming.context.services().ledger.record_soon(&refusal, facts, None) {
        Ok(seq) => {
            let name = client_facing_name(incoming, target);
            let what = target.subject.map_or("tool", Subject::kind);
            Outbound::ok(error_responses::unknown(&incoming.request.id, what, &name, seq))
        }
        Err(error) => denied(incoming, &error_responses::ledger_failure(&error)),
    })
}

/// The name that the client used.
fn client_facing_name(incoming: &IncomingRequest<'_>, target: &Target<'_>) -> String {
    match incoming.request.named() {
        Ok(Named::Tool(name) | Named::Prompt(name) | Named::Resource(name)) => name.into_owned(),
        _ if target.subject.is_none() => incoming.request.method_name.clone().into_owned(),
        _ => target.subject.map_or("", Subject::name).to_owned(),
    }
}

/// The response to a denial: a tool result for a tool call, otherwise an error.
pub(super) fn refuse(
    incoming: &IncomingRequest<'_>,
    target: &Target<'_>,
    verdict: &Verdict,
    denial: &Denial,
) -> Outbound {
    let id = &incoming.request.id;
    incoming.context.services().metrics.denied(denial.code.as_str());
    if let Decision::Hidden(HiddenAs::Unknown(_)) = verdict.decision() {
        let what = target.subject.map_or("method", Subject::kind);
        let name = client_facing_name(incoming, target);
        return Outbound::ok(error_responses::unknown(id, what, &name, denial.audit_id));
    }
    denied(incoming, denial)
}

pub(super) fn denied(incoming: &IncomingRequest<'_>, denial: &Denial) -> Outbound {
    let id = &incoming.request.id;
    Outbound::ok(match incoming.request.method {
        Method::ToolsCall => error_responses::denied_call(id, denial, incoming.era),
        _ => error_responses::denied(id, denial),
    })
}

/// Admits a protocol message, which no policy judges, and records it.
async fn own_act(incoming: &IncomingRequest<'_>, facts: &Facts<'_>) -> Result<Permit, Outbound> {
    let existing = incoming.existing_permit.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(permit) = existing {
        return Ok(*permit);
    }
    incoming.context.passed(facts).await.map_err(|error| {
        Outbound::ok(error_responses::denied(
            &incoming.request.id,
            &error_responses::ledger_failure(&error),
        ))
    })
}
