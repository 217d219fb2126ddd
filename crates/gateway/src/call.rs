//! The path of a call: judge, admit, run, settle. Four steps from one function; nothing stands between.

mod ask;
mod bring;
mod judge;
mod rounds;

use crate::answers;
use crate::bound::Digests;
use crate::flow::{Flow, Large, Meanwhile, Next, Piece, Tail, until_cancelled};
use crate::gate::Gate;
use crate::lists::List;
use crate::outbound::Outbound;
use crate::peer::Peer;
use crate::pins::Pins;
use crate::prepare::{Round, Wish};
use crate::questions::Questions;
use crate::session::InFlight;
use crate::trace::Trace;
use crate::upstream::{Patience, Reply, Wishes};
use crate::wire::{Era, Method, Refused, TASKS, meta_keys, result_body};
use bytes::Bytes;
use policy::Subject;
use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use store::ledger::{Facts, Permit, PolicyVersion};
use tokio::sync::broadcast;

pub(crate) use ask::{Aim, Ask, Asked, Owned};
pub(crate) use judge::allows;

use bring::{bring, resume, update_task};
use judge::{admit, check_param_headers, effects, not_offered, own_act, release, rule, verdict};
use rounds::{admit_again, continued_round, round_of, unless_unopened, waiting_call};

/// Argument names kept for an audit row.
const ARGUMENT_KEYS_MAX: usize = 32;

/// Carries one request to one server and back.
pub(crate) async fn carry(ask: &Ask<'_>, aim: &Aim<'_>, in_flight: Option<InFlight>) -> Outbound {
    match judge_and_run(ask, aim, in_flight).await {
        Ok(outbound) | Err(outbound) => outbound,
    }
}

/// `Ok` is the answer of a call that ran; `Err` is one that the gate gave before, a refusal or a wait, so
/// that each step can leave with `?`. Both are sent alike.
async fn judge_and_run(
    ask: &Ask<'_>,
    aim: &Aim<'_>,
    mut in_flight: Option<InFlight>,
) -> Result<Outbound, Outbound> {
    let gate = &ask.scene.gate;
    let args = ask.request.arguments();
    let digests = Digests::of(gate, ask.request);
    let mut keys = [""; ARGUMENT_KEYS_MAX];
    let names: Vec<_> = args
        .map(|args| args.entries().take(ARGUMENT_KEYS_MAX).map(|(key, _)| key.text()).collect())
        .unwrap_or_default();
    for (place, name) in keys.iter_mut().zip(&names) {
        *place = name;
    }
    let trace = gate.tracer.begin(ask.headers, ask.request.meta(), &gate.random);
    let trace_id = trace.as_ref().map(Trace::id_text);
    let rules = aim.holding.rules.as_ref();
    let mut facts = Facts {
        argument_keys: keys.get(..names.len()).unwrap_or_default(),
        argument_digest: digests.approved,
        subject: aim.subject,
        policy: rules.map(|rules| PolicyVersion { name: &rules.name, version: rules.version }),
        server: &aim.holding.server.name,
        method: &ask.request.method_name,
        remote: ask.scene.remote(),
        trace: trace_id.as_deref(),
        ..ask.scene.facts_of(ask.client.as_ref().or(ask.scene.client()))
    };
    let continued = continued_round(ask, aim, &digests.rounds)?;
    check_param_headers(ask, aim)?;
    let (verdict, peer) = verdict(ask, aim, &facts).await?;
    let pins = aim.holding.server.pins();
    facts.definition = definition_met(ask, aim, &pins);
    if let Some(outbound) = not_offered(ask, aim, verdict.as_ref(), &pins, &facts) {
        return Err(outbound);
    }
    let parked = waiting_call(ask, continued.as_ref())?;
    let permit = match (&verdict, &continued) {
        (None, _) => own_act(ask, &facts)?,
        (Some(verdict), None) => admit(ask, aim, verdict, &facts, &mut in_flight).await?,
        (Some(verdict), Some(state)) => {
            admit_again(ask, aim, verdict, state, parked.as_deref(), &facts)?
        }
    };
    if let Some(parked) = parked {
        return Ok(Box::pin(resume(ask, parked, permit)).await);
    }
    let permit = unless_unopened(ask, aim, continued.as_ref(), permit)?;
    let asked = Asked {
        body: ask.body.clone(),
        subject: aim.subject.map(Owned::of),
        is_renamed: aim.rename.is_some(),
        takes: ask.takes,
        arguments: digests.rounds,
        argument_digest: digests.of_rounds,
        rule: rule(aim, verdict.as_ref()),
        first_seq: continued.as_ref().map_or(permit.seq(), |state| state.call),
        told: OnceLock::new(),
    };
    let round = round_of(continued.as_ref());
    let peer = match peer {
        Some(peer) => peer,
        None => match gate.peer_for(ask.scene, aim.holding, ask.era, &permit).await {
            Ok(peer) => peer,
            Err(error) => {
                release(permit, &error.to_string());
                let body =
                    answers::upstream_failed(&ask.request.id, &aim.holding.server.name, &error);
                return Ok(Outbound::ok(body));
            }
        },
    };
    let beside = if wants_log_messages(ask, &peer) {
        Box::pin(log_messages(ask, &peer, &permit)).await
    } else {
        None
    };
    let tail = Tail {
        trace,
        beside,
        late_logs: VecDeque::new(),
        questions: questions_beside(ask, &peer).await,
        scene: ask.scene.clone(),
        permit: Some(permit),
        settled: None,
        began: Instant::now(),
        id: ask.request.id.clone(),
        sent_id: ask.request.id.clone(),
        era: ask.era,
        method: ask.request.lasting_method_name(),
        list: List::of_method(&ask.request.method_name),
        effects: effects(aim, verdict.as_ref()),
        rules: aim.holding.rules.clone(),
        token: None,
        logs: ask.logs,
        meanwhile: Meanwhile::default(),
        asked,
        in_flight,
        resumable: false,
        peer,
    };
    Ok(run(ask, aim, tail, round).await)
}

/// The fingerprint of the definition that a call meets.
fn definition_met<'p>(ask: &Ask<'_>, aim: &Aim<'_>, pins: &'p Pins) -> Option<&'p str> {
    let Some(Subject::Tool(name)) = aim.subject else { return None };
    let set = Gate::capabilities_of_call(ask.scene, &aim.holding.server, ask.takes);
    pins.fingerprint(name, set)
}

/// A client of the newer era asks for logs with each request; an older server is told once, and says
/// them beside its requests.
fn wants_log_messages(ask: &Ask<'_>, peer: &Peer) -> bool {
    ask.logs
        && ask.era == Era::Modern
        && peer.era == Era::Legacy
        && peer.offers("logging")
        // Nobody can tell whose log messages those of a process that all clients share are.
        && !peer.server.is_shared_by_all()
}

/// A client of the newer era that takes questions is asked by an older server beside its calls, too. Such
/// a server is heard from the first of them on, before it goes out.
async fn questions_beside(ask: &Ask<'_>, peer: &Arc<Peer>) -> Option<Box<Questions>> {
    let takes = ask.era == Era::Modern && ask.takes.takes_questions();
    if !takes || ask.request.method.follows_up_a_task() || !peer.asks_beside() {
        return None;
    }
    let stay = || Box::pin(crate::listen::stay(ask.scene, peer));
    peer.askable.heard.get_or_init(stay).await;
    Some(Box::new(peer.askable.enter(ask.takes)))
}

async fn log_messages(
    ask: &Ask<'_>,
    peer: &Arc<Peer>,
    permit: &Permit,
) -> Option<broadcast::Receiver<Bytes>> {
    let level = ask.request.meta().and_then(|meta| meta.get(meta_keys::LOG_LEVEL)?.as_str())?;
    ask.scene.gate.set_level(peer, permit, &level).await;
    Some(crate::listen::shared(ask.scene, peer).await)
}

/// Sends the request out and begins to bring back what comes.
async fn run(ask: &Ask<'_>, aim: &Aim<'_>, mut tail: Tail, round: Round<'_>) -> Outbound {
    if is_undeclared(ask, &tail.peer)
        && let Some(permit) = tail.permit.take()
    {
        release(permit, "its client does not declare tasks");
        let refused = Refused::undeclared(TASKS).with_id(&ask.request.id);
        return Outbound::with_status(refused.http_status, refused.to_body());
    }
    if ask.request.method == Method::TasksUpdate
        && tail.peer.era == Era::Legacy
        && let Some(permit) = tail.permit.take()
    {
        return Box::pin(update_task(ask, &tail.peer, permit)).await;
    }
    if let Some(reply) = answered_at_once(ask, &tail) {
        return Box::pin(answer(Flow::new(reply, tail))).await;
    }
    let wish = Wish {
        request: ask.request,
        body: ask.body,
        era: ask.era,
        headers: ask.headers,
        subject: aim.subject,
        rename: aim.rename,
        round,
        trace: tail.trace.as_ref(),
    };
    if ask.request.method.is_kept_in_mind()
        && let Some(wishes) = tail.peer.wishes()
    {
        keep_in_mind(ask, wishes);
    }
    let mut prepared = crate::prepare::outgoing(ask.scene, &tail.peer, &wish);
    // What a task asks is nothing that its follow-ups could be asked instead.
    prepared.out.takes = Some(ask.takes).filter(|_| !ask.request.method.follows_up_a_task());
    tail.sent_id = prepared.id;
    tail.token = prepared.token;
    if let Some(in_flight) = &tail.in_flight {
        in_flight.sent(&tail.peer, tail.sent_id.clone());
    }
    let Some(permit) = tail.permit.as_ref() else { return Outbound::Silent };
    if tail.questions.is_some() {
        // Its server may ask before it answers at all.
        let patience = prepared.out.patience.insert(Patience::default()).clone();
        let begun = tail.peer.begin(permit, prepared.out);
        return Box::pin(answer(Flow::begun(begun, patience, tail))).await;
    }
    let outcome = {
        let sent = pin!(tail.peer.request(permit, prepared.out));
        until_cancelled(tail.in_flight.as_ref(), tail.cancel_grace(), sent).await
    };
    match outcome {
        None => {
            let piece = tail.cancelled();
            bring(piece, Flow::new(Reply::Accepted, tail))
        }
        Some(Err(error)) => {
            let piece = tail.failed(&error);
            bring(piece, Flow::new(Reply::Accepted, tail))
        }
        Some(Ok(reply)) => answer(Flow::new(reply, tail)).await,
    }
}

/// Whether a newer client follows up a task of an older server without the extension that this is there.
fn is_undeclared(ask: &Ask<'_>, peer: &Peer) -> bool {
    ask.era == Era::Modern
        && ask.request.method.follows_up_a_task()
        && peer.runs_tasks()
        && !ask.takes.takes_tasks()
}

/// What there is to say of a task that its newer server knows nothing of, because it answered at once.
fn answered_at_once(ask: &Ask<'_>, tail: &Tail) -> Option<Reply> {
    let crosses = ask.era == Era::Legacy && tail.peer.era == Era::Modern;
    if !crosses || !ask.request.method.follows_up_a_task() {
        return None;
    }
    let (gate, server) = (&ask.scene.gate, &tail.peer.server.name);
    let id = ask.request.params?.get("taskId")?.as_str()?;
    let now_us = gate.clock.now().wall_us;
    let task = gate.tasks.at_once.find(&ask.scene.holder.id, server, &id, now_us)?;
    Some(Reply::One { status: 200, body: result_body(&tail.sent_id, &task).into() })
}

/// Notes what an older client tells its server to remember.
fn keep_in_mind(ask: &Ask<'_>, wishes: &Wishes) {
    let told = |key: &str| ask.request.params.and_then(|params| params.get(key)?.as_str());
    match (ask.request.method, told("uri"), told("level")) {
        (Method::SetLevel, _, Some(level)) => wishes.set_level(&level),
        (Method::ResourcesSubscribe, Some(uri), _) => {
            wishes.forget(&uri);
            wishes.subscribe(&uri);
        }
        (Method::ResourcesUnsubscribe, Some(uri), _) => wishes.forget(&uri),
        _ => {}
    }
}

/// Begins to bring back what comes of a request that left.
async fn answer(mut flow: Flow) -> Outbound {
    match flow.next().await {
        Next::Piece(Piece::Last { status: 200, body }) if flow.is_streamed() => {
            Outbound::stream_of(body)
        }
        Next::Piece(first) => bring(first, flow),
        Next::Large(large) => Box::pin(read_on(flow, large)).await,
    }
}

/// The same when a large message came first. Apart, so that the state of most calls stays small.
async fn read_on(flow: Flow, large: Large) -> Outbound {
    match flow.read_on(large).await {
        (Piece::Last { status: 200, body }, flow) if flow.is_streamed() => {
            Outbound::stream_of(body)
        }
        (first, flow) => bring(first, flow),
    }
}
