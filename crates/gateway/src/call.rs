//! The path of a call: judge, admit, run, settle. Four steps from one function; nothing stands between.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use hyper::HeaderMap;
use policy::json::{Bounds, Doc, Value};
use policy::{
    Call, Caller, Code, Decision, Definition, Denial, OnChange, Subject, ToolFacts, Verdict,
};
use store::ledger::{
    Admission, Ending, Facts, Permit, PolicyVersion, Refusal, RefusalKind, Waiting,
};
use tokio::sync::{broadcast, mpsc};

use crate::answers;
use crate::approvals;
use crate::flow::{Flow, Piece, Tail, until_cancelled};
use crate::gate::Gate;
use crate::in_force::{Holding, Rules};
use crate::lists::List;
use crate::mrtr::{Inner, ParkedCall, State};
use crate::outbound::{Outbound, PIECES_WAITING_MAX};
use crate::peer::Peer;
use crate::pins::Pins;
use crate::prepare::{Prepared, Round, Wish};
use crate::receive;
use crate::scene::{Endpoint, Scene};
use crate::session::{InFlight, Outgoing};
use crate::trace::Trace;
use crate::translate;
use crate::upstream::{self, Reply};
use crate::wire::{Era, Id, Method, Refused, Request, error_body, meta_keys};

/// Argument names kept for an audit row.
const ARGUMENT_KEYS_MAX: usize = 32;

/// A request on its way through the gate.
pub(crate) struct Ask<'a> {
    pub(crate) scene: &'a Scene,
    pub(crate) request: &'a Request<'a>,
    pub(crate) body: &'a Bytes,
    pub(crate) era: Era,
    /// The HTTP headers of a request that came with some.
    pub(crate) headers: Option<&'a HeaderMap>,
    pub(crate) takes: Takes,
    pub(crate) logs: bool,
    /// The client's own name and version, where the request itself says them.
    pub(crate) client: Option<String>,
    /// The place in the queue of a call that was held for a human and is looked at again.
    pub(crate) held: Mutex<Option<Waiting>>,
}

/// Which questions of servers a client takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Takes {
    pub(crate) elicitation: bool,
    pub(crate) sampling: bool,
    pub(crate) roots: bool,
}

impl Takes {
    pub(crate) fn of(capabilities: Option<Value<'_>>) -> Takes {
        let has = |name: &str| capabilities.is_some_and(|all| all.get(name).is_some());
        Takes { elicitation: has("elicitation"), sampling: has("sampling"), roots: has("roots") }
    }

    pub(crate) fn takes(self, method: &str) -> bool {
        match method {
            "elicitation/create" => self.elicitation,
            "sampling/createMessage" => self.sampling,
            "roots/list" => self.roots,
            // Tasks and extensions of servers; the client answers what it does not know with an error.
            _ => true,
        }
    }
}

/// What stays known of a request while it is away.
#[derive(Clone)]
pub(crate) struct Asked {
    /// The whole request as the client sent it, for further rounds and rules on its result.
    body: Bytes,
    pub(crate) subject: Option<Owned>,
    takes: Takes,
    /// Fits only the same method, name and arguments.
    pub(crate) digest: String,
    pub(crate) argument_digest: Option<[u8; 32]>,
    rule: Arc<str>,
    /// The audit row of the first round.
    pub(crate) first_seq: u64,
}

/// A subject that outlives its message.
#[derive(Clone, Debug)]
pub(crate) enum Owned {
    Tool(String),
    Resource(String),
    Prompt(String),
    Method(String),
}

impl Owned {
    fn of(subject: Subject<'_>) -> Owned {
        let name = subject.name().to_owned();
        match subject {
            Subject::Tool(_) => Owned::Tool(name),
            Subject::Resource(_) => Owned::Resource(name),
            Subject::Prompt(_) => Owned::Prompt(name),
            Subject::Method(_) => Owned::Method(name),
        }
    }

    pub(crate) fn as_subject(&self) -> Subject<'_> {
        match self {
            Owned::Tool(name) => Subject::Tool(name),
            Owned::Resource(name) => Subject::Resource(name),
            Owned::Prompt(name) => Subject::Prompt(name),
            Owned::Method(name) => Subject::Method(name),
        }
    }
}

impl Asked {
    pub(crate) fn client_takes(&self, method: &str) -> bool {
        self.takes.takes(method)
    }

    /// Whether a list was asked for from its beginning.
    pub(crate) fn is_first_page(&self) -> bool {
        Doc::read_shallow(&self.body, &Bounds::MESSAGE, 2).is_ok_and(|doc| {
            doc.root().get("params").is_none_or(|params| params.get("cursor").is_none())
        })
    }

    /// The entry whose effects apply to the result.
    pub(crate) fn entry_rule(&self) -> &str {
        &self.rule
    }

    /// The same request again, with the client's answers to a modern server's questions.
    pub(crate) fn retry(
        &self,
        scene: &Scene,
        peer: &Arc<Peer>,
        answers: &[(String, String)],
        state: Option<&str>,
    ) -> Prepared {
        crate::prepare::next_round(scene, peer, &self.body, answers, state)
    }
}

/// What a request is about, at one server.
pub(crate) struct Aim<'a> {
    pub(crate) holding: &'a Holding,
    pub(crate) subject: Option<Subject<'a>>,
    /// The name the server knows, where the client used a prefixed one.
    pub(crate) rename: Option<&'a str>,
}

/// Carries one request to one server and back.
pub(crate) async fn carry(ask: &Ask<'_>, aim: &Aim<'_>, in_flight: Option<InFlight>) -> Outbound {
    match judged(ask, aim, in_flight).await {
        Ok(outbound) | Err(outbound) => outbound,
    }
}

/// Both endings are answers; an early one comes as `Err` so that `?` can leave.
async fn judged(
    ask: &Ask<'_>,
    aim: &Aim<'_>,
    in_flight: Option<InFlight>,
) -> Result<Outbound, Outbound> {
    let gate = &ask.scene.gate;
    let args = ask.request.arguments();
    let digest = gate.argument_digest(args);
    let mut keys = [""; ARGUMENT_KEYS_MAX];
    let names: Vec<_> = args
        .map(|args| args.entries().take(ARGUMENT_KEYS_MAX).map(|(key, _)| key.text()).collect())
        .unwrap_or_default();
    for (place, name) in keys.iter_mut().zip(&names) {
        *place = name;
    }
    let trace = gate.tracer.begin(ask.headers, ask.request.meta(), &gate.random);
    let trace_id = trace.as_ref().map(Trace::id_text);
    let remote = ask.scene.remote();
    let rules = aim.holding.rules.as_ref();
    let mut facts = Facts {
        argument_keys: keys.get(..names.len()).unwrap_or_default(),
        argument_digest: args.map(|_| digest),
        subject: aim.subject,
        policy: rules.map(|rules| PolicyVersion { name: &rules.name, version: rules.version }),
        server: &aim.holding.server.name,
        method: &ask.request.method_name,
        remote: remote.as_deref(),
        trace: trace_id.as_deref(),
        ..ask.scene.facts_of(ask.client.as_deref().or(ask.scene.client()))
    };
    let continued = continued_round(ask, aim, &digest)?;
    check_param_headers(ask, aim)?;
    let (verdict, peer) = verdict(ask, aim, &facts).await?;
    let pins = aim.holding.server.pins();
    facts.definition = aim.subject.and_then(|subject| pins.fingerprint(subject));
    if let Some(outbound) = not_offered(ask, aim, verdict.as_ref(), &pins, &facts) {
        return Err(outbound);
    }
    let permit = match (&verdict, &continued) {
        (None, _) => pass(ask, &facts)?,
        (Some(verdict), None) => admit(ask, aim, verdict, &facts).await?,
        (Some(verdict), Some(state)) => admit_again(ask, aim, verdict, state, &facts)?,
    };
    let first_seq = continued.as_ref().map_or(permit.seq(), |state| state.call);
    let asked = Asked {
        body: ask.body.clone(),
        subject: aim.subject.map(Owned::of),
        takes: ask.takes,
        digest: gate.call_digest(ask.request, &digest),
        argument_digest: args.map(|_| digest),
        rule: verdict.as_ref().map_or_else(|| Arc::from(""), |verdict| Arc::from(verdict.rule())),
        first_seq,
    };
    if let Some(State { inner: Inner::Parked(handle), .. }) = &continued {
        return Ok(Box::pin(resume(ask, *handle, permit)).await);
    }
    let round = match continued.as_ref().map(|state| &state.inner) {
        None => Round::First,
        Some(Inner::Server(Some(state))) => Round::FurtherWith(state),
        Some(_) => Round::Further,
    };
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
    let beside = Box::pin(log_messages(ask, &peer, &permit)).await;
    let tail = Tail {
        trace,
        beside,
        late_logs: VecDeque::new(),
        scene: ask.scene.clone(),
        permit: Some(permit),
        began: Instant::now(),
        id: ask.request.id.clone(),
        sent_id: ask.request.id.clone(),
        era: ask.era,
        method: ask.request.method_name.clone().into_owned(),
        list: List::of_method(&ask.request.method_name),
        effects: verdict.as_ref().map(|verdict| verdict.effects().clone()).unwrap_or_default(),
        rules: aim.holding.rules.clone(),
        token: None,
        logs: ask.logs,
        asked,
        in_flight,
        resumable: false,
        peer,
    };
    Ok(run(ask, aim, tail, round).await)
}

/// A client of the newer era asks for logs with each request; an older server is told once, and says
/// them beside its requests.
async fn log_messages(
    ask: &Ask<'_>,
    peer: &Arc<Peer>,
    permit: &Permit,
) -> Option<broadcast::Receiver<Bytes>> {
    if ask.era == Era::Legacy || peer.era == Era::Modern || !ask.logs || !peer.offers("logging") {
        return None;
    }
    let level = ask.request.meta().and_then(|meta| meta.get(meta_keys::LOG_LEVEL)?.as_str())?;
    ask.scene.gate.set_level(peer, permit, &level).await;
    ask.scene.gate.hear_shared(ask.scene, peer).await
}

/// Sends the request out and begins to bring back what comes.
async fn run(ask: &Ask<'_>, aim: &Aim<'_>, mut tail: Tail, round: Round<'_>) -> Outbound {
    let wish = Wish {
        request: ask.request,
        body: ask.body,
        era: ask.era,
        headers: ask.headers,
        rename: aim.rename,
        round,
        trace: tail.trace.as_ref(),
    };
    let prepared = crate::prepare::outgoing(ask.scene, &tail.peer, &wish);
    tail.sent_id = prepared.id;
    tail.token = prepared.token;
    if let Some(in_flight) = &tail.in_flight {
        in_flight.sent(&tail.peer, tail.sent_id.clone());
    }
    let Some(permit) = tail.permit.as_ref() else { return Outbound::Silent };
    let sent = tail.peer.request(permit, prepared.out);
    match until_cancelled(tail.in_flight.as_ref(), sent).await {
        None => {
            let piece = tail.cancelled();
            bring(piece, Flow::new(Reply::Accepted, tail))
        }
        Some(Err(error)) => {
            let piece = tail.failed(&error);
            bring(piece, Flow::new(Reply::Accepted, tail))
        }
        Some(Ok(reply)) => {
            let mut flow = Flow::new(reply, tail);
            let first = flow.next().await;
            bring(first, flow)
        }
    }
}

/// Turns the first piece into the answer; further ones come from a task of their own.
fn bring(first: Piece, flow: Flow) -> Outbound {
    match first {
        Piece::Last { status, body } => Outbound::with_status(status, body),
        Piece::Cancelled => Outbound::Silent,
        Piece::Question { question, id } => Outbound::ok(park(flow, question, id)),
        Piece::Broken => {
            detach(flow);
            Outbound::Silent
        }
        Piece::Interim(first) => {
            let (sender, pieces) = mpsc::channel(PIECES_WAITING_MAX);
            tokio::spawn(pump(first, flow, sender));
            Outbound::Many(pieces)
        }
    }
}

async fn pump(first: Outgoing, mut flow: Flow, to: mpsc::Sender<Outgoing>) {
    let mut next = Some(first);
    loop {
        if let Some(outgoing) = next.take()
            && to.send(outgoing).await.is_err()
        {
            return detach(flow);
        }
        let piece = tokio::select! {
            piece = flow.next() => piece,
            () = to.closed() => return detach(flow),
        };
        match piece {
            Piece::Interim(outgoing) => next = Some(outgoing),
            Piece::Last { body, .. } => {
                let _ = to.send(Outgoing::plain(body)).await;
                return;
            }
            Piece::Question { question, id } => {
                let body = park(flow, question, id);
                let _ = to.send(Outgoing::plain(body)).await;
                return;
            }
            Piece::Broken => return detach(flow),
            Piece::Cancelled => return,
        }
    }
}

/// The client or the server hung up. In a session the answer may still come on another stream.
fn detach(flow: Flow) {
    if let Some(session) = flow.tail.scene.session.clone()
        && flow.tail.resumable
    {
        session.detach(flow.tail);
    }
}

/// Parks a call whose server asked something, and says so to the client.
fn park(flow: Flow, question: translate::Question, id: Id) -> Bytes {
    let (gate, client_id) = (Arc::clone(&flow.tail.scene.gate), flow.tail.id.clone());
    let until_us = gate.clock.now().wall_us + crate::mrtr::ROUND_SECONDS_MAX * 1_000_000;
    let grant = flow.tail.scene.holder.id.clone();
    let key = question.key.clone();
    let asked = flow.tail.asked.clone();
    let scene = flow.tail.scene.clone();
    let server = flow.tail.peer.server.name.clone();
    let parked = gate.rounds.park(ParkedCall { flow, asked: vec![(key, id)], grant, until_us });
    let sealed = parked.ok().and_then(|handle| {
        gate.seal(&scene, &server, &asked.digest, asked.first_seq, Inner::Parked(handle))
    });
    match sealed {
        Some(state) => {
            let result = translate::input_required(&[question], &state);
            crate::wire::result_body(&client_id, &result).into()
        }
        None => error_body(Some(&client_id), -32603, "too many calls wait for their clients", None)
            .into(),
    }
}

/// A further round of a call that waits here: hands the answer to its server and goes on.
async fn resume(ask: &Ask<'_>, handle: u64, permit: Permit) -> Outbound {
    let id = &ask.request.id;
    let Some(mut parked) = ask.scene.gate.rounds.unpark(handle, &ask.scene.holder.id) else {
        release(permit, "the call no longer waits");
        return Outbound::ok(error_body(
            Some(id),
            -32602,
            "this call no longer waits; send it again",
            None,
        ));
    };
    let responses = ask.request.params.and_then(|params| params.get("inputResponses"));
    for (key, question) in &parked.asked {
        let Some(answer) = responses.and_then(|all| all.get(key)) else {
            release(permit, "an answer is missing");
            return Outbound::ok(error_body(
                Some(id),
                -32602,
                "inputResponses lacks an answer",
                None,
            ));
        };
        let body = crate::wire::result_body(question, answer.raw());
        let out = upstream::Outgoing::response(body.into());
        if let Err(error) = parked.flow.tail.peer.send(&permit, out).await {
            let piece = parked.flow.tail.failed(&error);
            release(permit, "the server is gone");
            return bring(piece, parked.flow);
        }
    }
    // The first round's permit stays with the call; this round's row only says that it went on.
    Gate::settled(permit, Ending::Ok);
    parked.flow.tail.id = id.clone();
    let first = parked.flow.next().await;
    bring(first, parked.flow)
}

/// The verdict, and the server's conversation where it had to be opened to know the tool. The
/// protocol's own business has no verdict.
async fn verdict(
    ask: &Ask<'_>,
    aim: &Aim<'_>,
    facts: &Facts<'_>,
) -> Result<(Option<Verdict>, Option<Arc<Peer>>), Outbound> {
    let Some(subject) = aim.subject else {
        // Before tools are shown for the first time the whole list is looked at, over all its pages.
        let server = &aim.holding.server;
        let unseen = ask.request.method == Method::ToolsList && !server.pins().is_known();
        if !unseen {
            return Ok((None, None));
        }
        let peer = Box::pin(ask.scene.gate.checked_peer(ask.scene, aim.holding, ask.era)).await;
        return Ok((None, Some(peer.map_err(|error| never_left(ask, aim, facts, &error))?)));
    };
    let Some(rules) = &aim.holding.rules else {
        return Ok((Some(Verdict::no_policy(subject)), None));
    };
    let server = &aim.holding.server;
    if !matches!(subject, Subject::Tool(_)) {
        return Ok((Some(decide(ask, rules, subject, ToolFacts::default())), None));
    }
    let pins = server.pins();
    if pins.is_known() && ask.scene.gate.is_fresh(ask.scene, server) {
        return Ok((Some(decide(ask, rules, subject, tool_facts(ask, aim, &pins, subject))), None));
    }
    // What is refused whatever the definition says needs no conversation with the server.
    let early = decide(ask, rules, subject, ToolFacts::default());
    if matches!(early.decision(), Decision::Deny(_) | Decision::Hidden(_)) {
        return Ok((Some(early), None));
    }
    let peer = Box::pin(ask.scene.gate.checked_peer(ask.scene, aim.holding, ask.era)).await;
    let peer = peer.map_err(|error| never_left(ask, aim, facts, &error))?;
    let pins = server.pins();
    Ok((Some(decide(ask, rules, subject, tool_facts(ask, aim, &pins, subject))), Some(peer)))
}

/// A tool that the server does not have is answered by the gate, in the words that a hidden one gets.
fn not_offered(
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
    let tolerant = aim
        .holding
        .rules
        .as_ref()
        .is_some_and(|rules| rules.policy.on_change(Subject::Tool(name)) != OnChange::Refuse);
    if !open || tolerant || !pins.is_known() || pins.has(name) {
        return None;
    }
    let refusal = Refusal {
        kind: RefusalKind::Denied,
        code: "unknown_tool",
        reason: "the server has no such tool",
    };
    Some(match ask.scene.gate.ledger.record(&refusal, facts) {
        Ok(_) => Outbound::ok(answers::unknown(&ask.request.id, "tool", name)),
        Err(error) => Outbound::ok(answers::denied_call(
            &ask.request.id,
            &answers::no_record(&error),
            ask.era,
        )),
    })
}

/// What is known of a tool; where all servers stand side by side, also whether its name is another's.
fn tool_facts<'p>(
    ask: &Ask<'_>,
    aim: &Aim<'_>,
    pins: &'p Pins,
    subject: Subject<'_>,
) -> ToolFacts<'p> {
    let mut facts = pins.facts(subject.name());
    if ask.scene.endpoint == Endpoint::All && facts.definition == Definition::Unchanged {
        let server = &aim.holding.server.name;
        facts.definition =
            ask.scene.gate.definition_beside_others(ask.scene, server, subject.name());
    }
    facts
}

fn decide(ask: &Ask<'_>, rules: &Rules, subject: Subject<'_>, tool: ToolFacts<'_>) -> Verdict {
    rules.policy.decide(&Call {
        subject,
        args: ask.request.arguments(),
        caller: Caller {
            grant: &ask.scene.holder.label,
            session: ask.scene.session_id(),
            client: ask.client.as_deref().or(ask.scene.client()),
        },
        tool,
        time: ask.scene.gate.local_time(),
    })
}

/// Takes all holds and writes the row, or answers why not.
async fn admit(
    ask: &Ask<'_>,
    aim: &Aim<'_>,
    verdict: &Verdict,
    facts: &Facts<'_>,
) -> Result<Permit, Outbound> {
    let gate = &ask.scene.gate;
    let held = ask.held.lock().unwrap_or_else(PoisonError::into_inner).take();
    let again = held.is_some();
    let admission = match held {
        Some(waiting) => gate.ledger.resume(waiting, verdict, facts),
        None => gate.ledger.admit(verdict, facts),
    };
    let admission = match admission {
        Ok(Admission::Asked(waiting)) if !again && ask.request.progress_token().is_some() => {
            return Err(approvals::hold(ask, waiting));
        }
        Ok(Admission::Asked(waiting)) if !again => {
            Box::pin(approvals::wait(ask, verdict, facts, waiting)).await
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

async fn durable(
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

/// A further round of an admitted call takes no new holds; a policy that now denies it stops it.
fn admit_again(
    ask: &Ask<'_>,
    aim: &Aim<'_>,
    verdict: &Verdict,
    state: &State,
    facts: &Facts<'_>,
) -> Result<Permit, Outbound> {
    match ask.scene.gate.ledger.continue_call(verdict, state.call, facts) {
        Ok(Admission::Permit(permit)) => Ok(permit),
        Ok(Admission::Denied(denial)) => Err(refuse(ask, aim, verdict, &denial)),
        Ok(Admission::Asked(waiting)) => Err(refuse(ask, aim, verdict, waiting.denial())),
        Err(error) => Err(refuse(ask, aim, verdict, &answers::no_record(&error))),
    }
}

/// Headers that repeat arguments must repeat them truly: a server may decide on them.
fn check_param_headers(ask: &Ask<'_>, aim: &Aim<'_>) -> Result<(), Outbound> {
    let (Era::Modern, Some(headers), Some(Subject::Tool(name))) =
        (ask.era, ask.headers, aim.subject)
    else {
        return Ok(());
    };
    let pins = aim.holding.server.pins();
    let Some(declared) = pins.param_headers(name) else { return Ok(()) };
    declared
        .check(ask.request.arguments(), headers, &ask.request.id)
        .map_err(|refused| receive::refuse(ask.scene, &refused, &ask.request.method_name))
}

/// Opens the state of a further round, if the request brings one.
fn continued_round(
    ask: &Ask<'_>,
    aim: &Aim<'_>,
    digest: &[u8; 32],
) -> Result<Option<State>, Outbound> {
    if ask.era == Era::Legacy {
        return Ok(None);
    }
    let Some(text) = ask.request.params.and_then(|params| params.get("requestState")) else {
        return Ok(None);
    };
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

/// What the agent gets for a denial: a tool result, or an error for anything else.
fn refuse(ask: &Ask<'_>, aim: &Aim<'_>, verdict: &Verdict, denial: &Denial) -> Outbound {
    let id = &ask.request.id;
    ask.scene.gate.metrics.denied(denial.code);
    let hidden = matches!(verdict.decision(), Decision::Hidden(_));
    let default_allows =
        aim.holding.rules.as_ref().is_some_and(|rules| rules.policy.allows_unnamed());
    if hidden && default_allows {
        let what = aim.subject.map_or("method", Subject::kind);
        return Outbound::ok(answers::unknown(id, what, aim.subject.map_or("", Subject::name)));
    }
    match ask.request.method {
        Method::ToolsCall => Outbound::ok(answers::denied_call(id, denial, ask.era)),
        _ => Outbound::ok(answers::denied(id, denial)),
    }
}

/// The server could not be reached before anything was decided; the attempt is on record.
fn never_left(
    ask: &Ask<'_>,
    aim: &Aim<'_>,
    facts: &Facts<'_>,
    error: &upstream::UpstreamError,
) -> Outbound {
    let refusal =
        Refusal { kind: RefusalKind::Denied, code: "unreachable", reason: &error.to_string() };
    if let Err(error) = ask.scene.gate.ledger.record(&refusal, facts) {
        return Outbound::ok(answers::denied(&ask.request.id, &answers::no_record(&error)));
    }
    Outbound::ok(answers::upstream_failed(&ask.request.id, &aim.holding.server.name, error))
}

/// Lets the protocol's own business through, on record.
fn pass(ask: &Ask<'_>, facts: &Facts<'_>) -> Result<Permit, Outbound> {
    ask.scene.gate.ledger.own_act(facts).map_err(|error| {
        Outbound::ok(answers::denied(&ask.request.id, &answers::no_record(&error)))
    })
}

fn release(permit: Permit, why: &str) {
    if let Err(error) = permit.release(why) {
        tracing::error!(%error, "an outcome is written later");
    }
}
