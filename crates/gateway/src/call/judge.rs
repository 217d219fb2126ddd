//! Judges a request and takes its holds: the first two steps of the path of a call.

use super::ask::{Aim, Ask};
use crate::answers;
use crate::approvals;
use crate::client::Client;
use crate::gate::Gate;
use crate::in_force::{Holding, Rules};
use crate::outbound::Outbound;
use crate::peer::Peer;
use crate::pins::Pins;
use crate::receive;
use crate::session::InFlight;
use crate::tasks;
use crate::upstream::{self};
use crate::wire::{Era, Method};
use policy::{
    Call, Caller, Code, Decision, Definition, Denial, Effects, Subject, Told, ToolFacts, Verdict,
};
use std::sync::{Arc, PoisonError};
use store::ledger::{Admission, Facts, LedgerError, Permit, Refusal, RefusalKind, Soon};

/// The verdict, and the server's conversation where it had to be opened to know the tool. The
/// protocol's own business has no verdict.
pub(super) async fn verdict(
    ask: &Ask<'_>,
    aim: &Aim<'_>,
    facts: &Facts<'_>,
) -> Result<(Option<Verdict>, Option<Arc<Peer>>), Outbound> {
    let Some(subject) = aim.subject else {
        check_task(ask, aim)?;
        // Before tools are shown for the first time the whole list is looked at, over all its pages.
        let server = &aim.holding.server;
        let unseen = ask.request.method == Method::ToolsList && !server.pins().is_known();
        if !unseen {
            return Ok((None, None));
        }
        return Ok((None, Some(checked_peer(ask, aim, facts).await?)));
    };
    let Some(rules) = &aim.holding.rules else {
        return Ok((Some(Verdict::no_policy(subject)), None));
    };
    let server = &aim.holding.server;
    if !matches!(subject, Subject::Tool(_)) {
        return Ok((Some(decide(ask, rules, subject, ToolFacts::default())), None));
    }
    let pins = server.pins();
    let set = Gate::capabilities_of_call(ask.scene, server, ask.takes);
    let named = |facts| ToolFacts { server: Some(&server.name), ..facts };
    if pins.is_known() && ask.scene.gate.is_fresh(ask.scene, server) {
        let tool = named(pins.facts(subject.name(), set));
        let is_new = tool.definition == Definition::New && !pins.has(subject.name());
        let verdict = decide(ask, rules, subject, tool);
        if !ask.scene.gate.looks_again(ask.scene, server, is_new, &verdict) {
            return Ok((Some(verdict), None));
        }
    }
    // What is refused whatever the definition says needs no conversation with the server. A name that
    // would pass and is hidden has one like any other, or the missing wait would tell that it is there.
    let known = ToolFacts { definition: Definition::Unknown, ..pins.facts(subject.name(), set) };
    let early = decide(ask, rules, subject, known);
    let by_name = |denial: &Denial| pins.is_known() || denial.code == Code::DeniedByDefault;
    if let Decision::Deny(denial) | Decision::Hidden(Told::Denied(denial)) = early.decision()
        && by_name(denial)
    {
        return Ok((Some(early), None));
    }
    let peer = checked_peer(ask, aim, facts).await?;
    let pins = server.pins();
    let set = Gate::capabilities_of_call(ask.scene, server, ask.takes);
    let tool = ToolFacts { server: Some(&server.name), ..pins.facts(subject.name(), set) };
    Ok((Some(decide(ask, rules, subject, tool)), Some(peer)))
}

/// A follow-up on a task is judged by the name of the tool that began it, as the policy is now.
fn check_task(ask: &Ask<'_>, aim: &Aim<'_>) -> Result<(), Outbound> {
    let Some(tools) = aim.task_of else { return Ok(()) };
    let rules = aim.holding.rules.as_ref();
    if rules.is_some_and(|rules| tasks::effects(&rules.policy, tools).is_some()) {
        return Ok(());
    }
    let refused = receive::no_such_task(ask);
    Err(receive::refuse(ask.scene, &refused, &ask.request.method_name))
}

/// What the policy does to the result of a request that it lets through.
pub(super) fn effects(aim: &Aim<'_>, verdict: Option<&Verdict>) -> Effects {
    let of_task = || tasks::effects(&aim.holding.rules.as_ref()?.policy, aim.task_of?);
    of_task().or_else(|| verdict.map(|verdict| verdict.effects().clone())).unwrap_or_default()
}

/// The rule that is named when the result is refused.
pub(super) fn rule(aim: &Aim<'_>, verdict: Option<&Verdict>) -> Arc<str> {
    let of_task =
        || Some(aim.holding.rules.as_ref()?.policy.rule_of(Subject::Tool(aim.task_of?.first()?)));
    verdict.map(Verdict::shared_rule).or_else(of_task).unwrap_or_else(|| Arc::from(""))
}

/// The conversation with a server whose tools were just looked at. That may take as long as a server
/// takes to start, and a grant that was taken back meanwhile opens nothing.
async fn checked_peer(
    ask: &Ask<'_>,
    aim: &Aim<'_>,
    facts: &Facts<'_>,
) -> Result<Arc<Peer>, Outbound> {
    let gate = &ask.scene.gate;
    let mut unjudged = Unjudged { ask, facts, is_over: false };
    let peer = Box::pin(gate.checked_peer(ask.scene, aim.holding, ask.era)).await;
    unjudged.is_over = true;
    let peer = peer.map_err(|error| never_left(ask, aim, facts, &error))?;
    match gate.renewed(&ask.scene.holder, Some(&aim.holding.server.name)) {
        Some(_) => Ok(peer),
        None => Err(receive::revoked(ask.scene, ask.body)),
    }
}

/// A request that waits for its server before it can be judged. Its client may hang up meanwhile, and
/// this is the only row that says so.
struct Unjudged<'a> {
    ask: &'a Ask<'a>,
    facts: &'a Facts<'a>,
    is_over: bool,
}

impl Drop for Unjudged<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let refusal = Refusal {
            kind: RefusalKind::Denied,
            code: "hung_up",
            reason: "the client hung up, or the gate stopped, before the request was judged",
        };
        if let Err(error) = self.ask.scene.gate.ledger.record(&refusal, self.facts) {
            tracing::error!(%error, "a request whose client hung up could not be recorded");
        }
    }
}

/// A tool that the server does not have is answered by the gate, in the words that a hidden one gets.
pub(super) fn not_offered(
    ask: &Ask<'_>,
    aim: &Aim<'_>,
    verdict: Option<&Verdict>,
    pins: &Pins,
    facts: &Facts<'_>,
) -> Option<Outbound> {
    let Some(Subject::Tool(name)) = aim.subject else { return None };
    let open = match verdict?.decision() {
        Decision::Allow | Decision::Ask(_) => true,
        Decision::Deny(denial) => denial.code == Code::ToolChanged,
        Decision::Hidden(_) => false,
    };
    if !open || !pins.is_known() || pins.has(name) {
        return None;
    }
    let refusal = Refusal {
        kind: RefusalKind::Denied,
        code: "unknown_tool",
        reason: "the server has no such tool",
    };
    ask.scene.gate.metrics.denied(refusal.code);
    Some(match ask.scene.gate.ledger.record(&refusal, facts) {
        Ok(seq) => {
            let name = as_asked(ask, aim);
            Outbound::ok(answers::unknown(&ask.request.id, "tool", &name, Some(seq)))
        }
        Err(error) => Outbound::ok(answers::denied_call(
            &ask.request.id,
            &answers::no_record(&error),
            ask.era,
        )),
    })
}

pub(super) fn decide(
    ask: &Ask<'_>,
    rules: &Rules,
    subject: Subject<'_>,
    tool: ToolFacts<'_>,
) -> Verdict {
    rules.policy.decide(&Call {
        subject,
        args: ask.request.arguments(),
        params: ask.request.params,
        caller: Caller {
            grant: &ask.scene.holder.label,
            session: ask.scene.session_id(),
            client: ask.client.as_ref().or(ask.scene.client()).map(Client::text),
        },
        tool,
        time: ask.scene.gate.local_time(),
    })
}

/// Whether a caller may have something that is no tool without anybody being asked.
pub(crate) fn allows(ask: &Ask<'_>, holding: &Holding, subject: Subject<'_>) -> bool {
    holding.rules.as_ref().is_some_and(|rules| {
        let verdict = decide(ask, rules, subject, ToolFacts::default());
        matches!(verdict.decision(), Decision::Allow)
    })
}

/// Takes all holds and writes the row, or answers why not.
pub(super) async fn admit(
    ask: &Ask<'_>,
    aim: &Aim<'_>,
    verdict: &Verdict,
    facts: &Facts<'_>,
    in_flight: &mut Option<InFlight>,
) -> Result<Permit, Outbound> {
    let gate = &ask.scene.gate;
    // All of the message: what is parked is a part of it.
    let parked_bytes = u64::try_from(ask.body.len()).unwrap_or(u64::MAX);
    let facts = &Facts { parked_bytes, ..*facts };
    let held = ask.held.lock().unwrap_or_else(PoisonError::into_inner).take();
    let again = held.is_some();
    let admission = match held {
        Some(waiting) => gate.ledger.resume(waiting, verdict, facts),
        None => admit_together(gate, verdict, facts).await,
    };
    let admission = match admission {
        Ok(Admission::Asked(waiting)) if !again && ask.request.progress_token().is_some() => {
            return Err(approvals::hold(ask, waiting, in_flight.take()));
        }
        Ok(Admission::Asked(waiting)) if !again => {
            return Err(approvals::wait(ask, waiting, in_flight.take()).await);
        }
        other => other,
    };
    let permit = match admission {
        Ok(Admission::Permit(permit)) => permit,
        Ok(Admission::Denied(denial)) => return Err(refuse(ask, aim, verdict, &denial)),
        Ok(Admission::Asked(waiting)) => return Err(refuse(ask, aim, verdict, waiting.denial())),
        Err(error) => return Err(refuse(ask, aim, verdict, &answers::no_record(&error))),
    };
    durable(ask, aim, verdict, permit).await
}

/// Calls that came together are recorded with one write and leave together, so that their server is
/// woken once for all. A call that is alone waits for nobody.
async fn admit_together(
    gate: &Gate,
    verdict: &Verdict,
    facts: &Facts<'_>,
) -> Result<Admission, LedgerError> {
    match gate.ledger.admit_soon(verdict, facts)? {
        Soon::Now(admission) => Ok(admission),
        Soon::Drafted(drafted) => {
            tokio::task::yield_now().await;
            drafted.write().map(Admission::Permit)
        }
    }
}

pub(super) async fn durable(
    ask: &Ask<'_>,
    aim: &Aim<'_>,
    verdict: &Verdict,
    permit: Permit,
) -> Result<Permit, Outbound> {
    match Gate::until_durable(&permit).await {
        Ok(()) => Ok(permit),
        Err(error) => {
            let denial = answers::no_record(&error);
            release(permit, "the row could not be flushed");
            Err(refuse(ask, aim, verdict, &denial))
        }
    }
}

/// Headers that repeat arguments must repeat them truly: a server may decide on them.
pub(super) fn check_param_headers(ask: &Ask<'_>, aim: &Aim<'_>) -> Result<(), Outbound> {
    let (Era::Modern, Some(headers), Some(Subject::Tool(name))) =
        (ask.era, ask.headers, aim.subject)
    else {
        return Ok(());
    };
    let pins = aim.holding.server.pins();
    let Some(declared) = pins.param_headers(name) else { return Ok(()) };
    // A complaint about headers would tell of a tool that this caller must not know of.
    if !aim.holding.shows(Subject::Tool(name)) {
        return Ok(());
    }
    declared
        .check(ask.request.arguments(), headers, &ask.request.id)
        .map_err(|refused| receive::refuse(ask.scene, &refused, &ask.request.method_name))
}

/// The name that the agent used, with the server's in front where it stood there.
fn as_asked(ask: &Ask<'_>, aim: &Aim<'_>) -> String {
    let name = aim.subject.map_or("", Subject::name);
    match aim.rename {
        Some(_) => format!("{}.{name}", aim.holding.server.name),
        None if aim.subject.is_none() => ask.request.method_name.clone().into_owned(),
        None => name.to_owned(),
    }
}

/// What the agent gets for a denial: a tool result, or an error for anything else.
pub(super) fn refuse(ask: &Ask<'_>, aim: &Aim<'_>, verdict: &Verdict, denial: &Denial) -> Outbound {
    let id = &ask.request.id;
    ask.scene.gate.metrics.denied(denial.code.as_str());
    if let Decision::Hidden(Told::Unknown(_)) = verdict.decision() {
        let what = aim.subject.map_or("method", Subject::kind);
        let name = as_asked(ask, aim);
        return Outbound::ok(answers::unknown(id, what, &name, denial.audit_id));
    }
    denied(ask, denial)
}

fn denied(ask: &Ask<'_>, denial: &Denial) -> Outbound {
    let id = &ask.request.id;
    Outbound::ok(match ask.request.method {
        Method::ToolsCall => answers::denied_call(id, denial, ask.era),
        _ => answers::denied(id, denial),
    })
}

/// The server could not be reached before anything was decided; the attempt is on record.
pub(super) fn never_left(
    ask: &Ask<'_>,
    aim: &Aim<'_>,
    facts: &Facts<'_>,
    error: &upstream::UpstreamError,
) -> Outbound {
    let refusal =
        Refusal { kind: RefusalKind::Denied, code: "unreachable", reason: &error.to_string() };
    if let Err(error) = ask.scene.gate.ledger.record(&refusal, facts) {
        return denied(ask, &answers::no_record(&error));
    }
    Outbound::ok(answers::upstream_failed(&ask.request.id, &aim.holding.server.name, error))
}

/// Lets the protocol's own business through, on record.
pub(super) fn own_act(ask: &Ask<'_>, facts: &Facts<'_>) -> Result<Permit, Outbound> {
    if let Some(permit) = ask.met.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return Ok(*permit);
    }
    ask.scene.gate.ledger.own_act(facts).map_err(|error| {
        Outbound::ok(answers::denied(&ask.request.id, &answers::no_record(&error)))
    })
}

pub(super) fn release(permit: Permit, why: &str) {
    if let Err(error) = permit.release(why) {
        tracing::error!(%error, "an outcome is written later");
    }
}
