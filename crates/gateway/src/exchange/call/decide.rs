//! Decides a request: asks the policy, after reading the server's tools if they are unknown. Takes and sends
//! nothing else.

use super::admit::denied;
use super::incoming::{IncomingRequest, Target};
use super::rounds::{open_round_state, round_of};
use crate::exchange::digests::Digests;
use crate::exchange::outbound::Outbound;
use crate::exchange::prepare::Round;
use crate::exchange::rounds::{RoundContent, RoundState};
use crate::exchange::{
    connect, error_responses, refuse, sign_in, skills, subject, tasks, tool_check,
};
use crate::snapshot::{Rules, ServerAccess};
use crate::upstream::peer::Peer;
use crate::upstream::pins::Pins;
use crate::upstream::{NotSent, UpstreamError};
use mcp::{ClientInfo, Era, Method};
use policy::{
    Call, Caller, Code, Decision, Definition, Denial, Effects, HiddenAs, Subject, ToolFacts,
    Verdict,
};
use std::sync::Arc;
use store::ledger::{Facts, Refusal, RefusalKind};

/// A decided request, and what the decision needed.
pub(super) struct Decided {
    /// None for protocol messages, which no policy judges.
    pub(super) verdict: Option<Verdict>,
    /// The peer, if it was opened to read the tool list.
    pub(super) peer: Option<Arc<Peer>>,
    /// The state that a further round of a call returned.
    pub(super) round_state: Option<RoundState>,
    /// The client repeats the call after a sign-in.
    is_after_sign_in: bool,
    pub(super) pins: Arc<Pins>,
}

impl Decided {
    /// The round, as the server sees it.
    pub(super) fn round(&self) -> Round<'_> {
        match self.round_state.as_ref() {
            None if self.is_after_sign_in => Round::AfterOwnQuestion,
            round_state => round_of(round_state),
        }
    }

    /// The fingerprint of the tool definition that the call uses.
    pub(super) fn definition(
        &self,
        incoming: &IncomingRequest<'_>,
        target: &Target<'_>,
    ) -> Option<&str> {
        let Some(Subject::Tool(name)) = target.subject else { return None };
        let server = &target.access.server;
        let set =
            connect::capabilities_of_call(incoming.context, server, incoming.client_capabilities);
        self.pins.fingerprint(name, set)
    }
}

/// Decides a request, or responds why it cannot be decided.
pub(super) async fn decide(
    incoming: &IncomingRequest<'_>,
    target: &Target<'_>,
    facts: &Facts<'_>,
    digests: &Digests,
) -> Result<Decided, Outbound> {
    let mut round_state = open_round_state(incoming, target, &digests.rounds)?;
    let is_after_sign_in =
        round_state.take_if(|state| state.inner == RoundContent::SignIn).is_some();
    if is_after_sign_in {
        Box::pin(wait_for_sign_in(incoming, target, facts)).await?;
    }
    check_param_headers(incoming, target)?;
    let (verdict, peer) = verdict(incoming, target, facts).await?;
    let pins = target.access.server.pins();
    Ok(Decided { verdict, peer, round_state, is_after_sign_in, pins })
}

/// The verdict, and the peer if it was opened to read the tool list. Protocol messages have no verdict.
async fn verdict(
    incoming: &IncomingRequest<'_>,
    target: &Target<'_>,
    facts: &Facts<'_>,
) -> Result<(Option<Verdict>, Option<Arc<Peer>>), Outbound> {
    let Some(subject) = target.subject else {
        check_task(incoming, target)?;
        // Before tools are shown for the first time, the whole list is read and pinned.
        let server = &target.access.server;
        let unseen = incoming.request.method == Method::ToolsList && !server.pins().is_known();
        if !unseen {
            return Ok((None, None));
        }
        return Ok((None, Some(checked_peer(incoming, target, facts).await?)));
    };
    let Some(rules) = &target.access.rules else {
        return Ok((Some(Verdict::no_policy(subject)), None));
    };
    let server = &target.access.server;
    if let Subject::Skill(name) = subject {
        let skill = skills::facts(incoming.context.services(), server, name);
        return Ok((Some(evaluate(incoming, rules, subject, skill)), None));
    }
    if !matches!(subject, Subject::Tool(_)) {
        return Ok((Some(evaluate(incoming, rules, subject, ToolFacts::default())), None));
    }
    let pins = server.pins();
    let set = connect::capabilities_of_call(incoming.context, server, incoming.client_capabilities);
    let aggregates = server.aggregates(subject.name());
    let named = |facts| ToolFacts { server: Some(&server.name), aggregates, ..facts };
    if pins.is_known() && tool_check::is_fresh(incoming.context, server) {
        let tool = named(pins.facts(subject.name(), set));
        let is_new = tool.definition == Definition::New && !pins.has(subject.name());
        let verdict = evaluate(incoming, rules, subject, tool);
        if !tool_check::needs_reread(incoming.context, server, is_new, &verdict) {
            return Ok((Some(verdict), None));
        }
    }
    // A denial that does not depend on the definition needs no server. A hidden name that would be allowed
    // does read the list, because the missing delay would reveal it.
    let known = ToolFacts {
        definition: Definition::Unknown,
        aggregates,
        ..pins.facts(subject.name(), set)
    };
    let early = evaluate(incoming, rules, subject, known);
    let by_name = |denial: &Denial| pins.is_known() || denial.code == Code::DeniedByDefault;
    if let Decision::Deny(denial) | Decision::Hidden(HiddenAs::Denied(denial)) = early.decision()
        && by_name(denial)
    {
        return Ok((Some(early), None));
    }
    let peer = checked_peer(incoming, target, facts).await?;
    let pins = server.pins();
    let set = connect::capabilities_of_call(incoming.context, server, incoming.client_capabilities);
    let tool =
        ToolFacts { server: Some(&server.name), aggregates, ..pins.facts(subject.name(), set) };
    Ok((Some(evaluate(incoming, rules, subject, tool)), Some(peer)))
}

/// A follow-up on a task is judged by the tool that created it, with the current policy.
fn check_task(incoming: &IncomingRequest<'_>, target: &Target<'_>) -> Result<(), Outbound> {
    let Some(tools) = target.task_of else { return Ok(()) };
    let rules = target.access.rules.as_ref();
    if rules.is_some_and(|rules| tasks::effects(&rules.policy, tools).is_some()) {
        return Ok(());
    }
    let refused = subject::unknown_task(incoming);
    Err(refuse::refuse(incoming.context, &refused, &incoming.request.method_name))
}

/// The policy's effects on the result.
pub(super) fn effects(target: &Target<'_>, verdict: Option<&Verdict>) -> Effects {
    let on_older_response =
        || tasks::effects(&target.access.rules.as_ref()?.policy, target.task_of?);
    on_older_response()
        .or_else(|| verdict.map(|verdict| verdict.effects().clone()))
        .unwrap_or_default()
}

/// The rule that is named if the result is refused.
pub(super) fn rule(target: &Target<'_>, verdict: Option<&Verdict>) -> Arc<str> {
    let on_older_response = || {
        Some(target.access.rules.as_ref()?.policy.rule_of(Subject::Tool(target.task_of?.first()?)))
    };
    verdict.map(Verdict::shared_rule).or_else(on_older_response).unwrap_or_else(|| Arc::from(""))
}

/// The peer of a server whose tools were just checked. Starting the server may take long, so the grant is
/// checked again.
async fn checked_peer(
    incoming: &IncomingRequest<'_>,
    target: &Target<'_>,
    facts: &Facts<'_>,
) -> Result<Arc<Peer>, Outbound> {
    let mut unjudged = UnjudgedRequest { incoming, facts, is_over: false };
    let peer =
        Box::pin(tool_check::checked_peer(incoming.context, target.access, incoming.era)).await;
    unjudged.is_over = true;
    let peer = peer.map_err(|error| unreachable_response(incoming, target, facts, &error))?;
    check_access(incoming, target, facts).map(|()| peer)
}

/// Waits until the grant has a login, if the user agreed to sign in. The call then goes on; without a login it
/// asks again.
async fn wait_for_sign_in(
    incoming: &IncomingRequest<'_>,
    target: &Target<'_>,
    facts: &Facts<'_>,
) -> Result<(), Outbound> {
    let server = &target.access.server.name;
    if !sign_in::is_accepted(incoming.request.params) {
        let message = "the user did not sign in to the server; the call did not happen".to_owned();
        let error = UpstreamError::SignIn { why: message, page: None };
        return Err(unreachable_response(incoming, target, facts, &error));
    }
    let mut unjudged = UnjudgedRequest { incoming, facts, is_over: false };
    sign_in::until_signed_in(incoming.context, server, sign_in::RETRY_WAIT_MAX).await;
    unjudged.is_over = true;
    check_access(incoming, target, facts)
}

/// Checks after a wait that the grant still has the server, under the rules that will judge the request.
fn check_access(
    incoming: &IncomingRequest<'_>,
    target: &Target<'_>,
    facts: &Facts<'_>,
) -> Result<(), Outbound> {
    let context = incoming.context;
    let server = &target.access.server.name;
    let now = context.state.snapshots.current_grantee(&context.grantee, Some(server));
    let Some(now) = now.as_ref().and_then(|grantee| grantee.accesses.get(server.as_str())) else {
        return Err(refuse::revoked(context, incoming.body));
    };
    if now.has_rules_of(target.access) {
        return Ok(());
    }
    let reason = "the policy changed while the call waited for its server; call again";
    let refusal = Refusal { kind: RefusalKind::Denied, code: "policy_changed", reason };
    let error = UpstreamError::NeverSent { why: NotSent::Other(reason.to_owned()) };
    Err(refused(incoming, target, facts, &refusal, &error))
}

/// A request that waits for its server before it can be judged. If its client hangs up, this writes the only
/// row.
struct UnjudgedRequest<'a> {
    incoming: &'a IncomingRequest<'a>,
    facts: &'a Facts<'a>,
    is_over: bool,
}

impl Drop for UnjudgedRequest<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let refusal = Refusal {
            kind: RefusalKind::Denied,
            code: "hung_up",
            reason: "the client hung up, or the gate stopped, before the request was judged",
        };
        if let Err(error) =
            self.incoming.context.services().ledger.record_soon(&refusal, self.facts, None)
        {
            tracing::error!(%error, "could not record a request whose client hung up");
        }
    }
}

fn evaluate(
    incoming: &IncomingRequest<'_>,
    rules: &Rules,
    subject: Subject<'_>,
    tool: ToolFacts<'_>,
) -> Verdict {
    let grantee = &incoming.context.grantee;
    let aggregate_days_of_grant = tool.aggregates.then(|| grantee.aggregate_days()).flatten();
    rules.policy.decide(&Call {
        subject,
        args: incoming.request.arguments(),
        params: incoming.request.params,
        caller: Caller {
            grant: &incoming.context.grantee.label,
            session: incoming.context.session_id(),
            client: incoming.client.as_ref().or(incoming.context.client()).map(ClientInfo::text),
        },
        tool: ToolFacts { aggregate_days_of_grant, ..tool },
        time: incoming.context.services().local_time(),
    })
}

/// Whether a request that names no tool is allowed without an approval.
pub(crate) fn allows(
    incoming: &IncomingRequest<'_>,
    access: &ServerAccess,
    subject: Subject<'_>,
) -> bool {
    access.rules.as_ref().is_some_and(|rules| {
        let verdict = evaluate(incoming, rules, subject, ToolFacts::default());
        matches!(verdict.decision(), Decision::Allow)
    })
}

/// Headers that mirror arguments must match them, because the server may route by them.
fn check_param_headers(
    incoming: &IncomingRequest<'_>,
    target: &Target<'_>,
) -> Result<(), Outbound> {
    let (Era::Modern, Some(headers), Some(Subject::Tool(name))) =
        (incoming.era, incoming.headers, target.subject)
    else {
        return Ok(());
    };
    let pins = target.access.server.pins();
    let Some(declared) = pins.param_headers(name) else { return Ok(()) };
    // An error about headers would reveal a hidden tool.
    if !target.access.shows(Subject::Tool(name)) {
        return Ok(());
    }
    declared.check(incoming.request.arguments(), headers, &incoming.request.id).map_err(|refused| {
        refuse::refuse(incoming.context, &refused, &incoming.request.method_name)
    })
}

/// The server could not be reached before the decision.
fn unreachable_response(
    incoming: &IncomingRequest<'_>,
    target: &Target<'_>,
    facts: &Facts<'_>,
    error: &UpstreamError,
) -> Outbound {
    let refusal =
        Refusal { kind: RefusalKind::Denied, code: "unreachable", reason: &error.to_string() };
    refused(incoming, target, facts, &refusal, error)
}

/// Records that a request ended before the decision, and responds why.
fn refused(
    incoming: &IncomingRequest<'_>,
    target: &Target<'_>,
    facts: &Facts<'_>,
    refusal: &Refusal<'_>,
    error: &UpstreamError,
) -> Outbound {
    if let Err(error) = incoming.context.services().ledger.record_soon(refusal, facts, None) {
        return denied(incoming, &error_responses::ledger_failure(&error));
    }
    incoming.not_sent(&target.access.server.name, error)
}
