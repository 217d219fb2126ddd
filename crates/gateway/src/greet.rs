//! How a conversation begins: the handshake of sessions, `server/discover` of the newer era, and the
//! small courtesies that the gate answers itself.

use std::sync::Arc;
use std::time::Duration;

use policy::Subject;
use policy::json::{Kind, Value};
use serde_json::json;
use store::ledger::{Ending, Permit};

use crate::answers;
use crate::call::{self, Aim, Ask};
use crate::client::Client;
use crate::gate::Gate;
use crate::in_force::Holding;
use crate::open::{self, Opened};
use crate::outbound::Outbound;
use crate::peer::Peer;
use crate::rebuild::{self, Member};
use crate::receive;
use crate::scene::{Endpoint, Scene};
use crate::session::{InFlight, NewSession, Session};
use crate::translate;
use crate::upstream::UpstreamError;
use crate::wire::{Era, Refused, Request, Revision, Takes, meta_keys, result_body};

/// What a client says of itself in its handshake; more is refused.
const HANDSHAKE_BYTES_MAX: usize = 64 * 1024;

/// So long a session's wish for log messages waits for all its servers.
const TELL_LEVEL_WAIT_MAX: Duration = Duration::from_secs(1);

/// What a session may ask for of a server's log.
pub(crate) const LOG_LEVELS: [&str; 8] =
    ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// How bad a level of log messages says that things are; nothing of one that there is not.
pub(crate) fn log_rank(level: &str) -> Option<usize> {
    LOG_LEVELS.iter().position(|known| *known == level)
}

/// Opens a session.
pub(crate) async fn initialize(ask: &Ask<'_>) -> Outbound {
    if ask.scene.session.is_some() {
        let refused = Refused::invalid("this session is open already").with_id(&ask.request.id);
        return receive::refuse(ask.scene, &refused, "initialize");
    }
    let params = match handshake(ask.request) {
        Ok(params) => params,
        Err(words) => {
            let refused = Refused::params(words).with_id(&ask.request.id);
            return receive::refuse(ask.scene, &refused, "initialize");
        }
    };
    let server = ask.scene.endpoint.server().unwrap_or_default();
    let permit = match ask.scene.gate.own_act(ask.scene, "initialize", server) {
        Ok(permit) => permit,
        Err(error) => return refused_by_store(ask, &error),
    };
    let greeting = greeting(ask, params);
    match &ask.scene.endpoint {
        Endpoint::All => {
            let agreed = Revision::agree(&asked_version(params));
            let result = all_servers(agreed);
            let answer = Opening {
                agreed,
                body: result_body(&ask.request.id, &result.to_string()),
                peer: None,
            };
            open(ask, answer, greeting, permit, params)
        }
        Endpoint::One(_) => match ask.scene.only() {
            Some(holding) => with_server(ask, holding, greeting, permit, params).await,
            None => Outbound::with_status(
                404,
                answers::unknown(&ask.request.id, "server", server, None),
            ),
        },
    }
}

/// The params of a handshake that can be believed, or what is wrong with them.
fn handshake<'d>(request: &Request<'d>) -> Result<Value<'d>, &'static str> {
    let params = request.params.ok_or("`protocolVersion` is needed")?;
    let kind = |key: &str| params.get(key).map(Value::kind);
    if kind("protocolVersion") != Some(Kind::String) {
        return Err("`protocolVersion` is needed, and it is a string");
    }
    let is_object = |key: &str| kind(key).is_none_or(|kind| kind == Kind::Object);
    if !is_object("capabilities") || !is_object("clientInfo") {
        return Err("`capabilities` and `clientInfo` must be objects");
    }
    // Each session keeps it for its servers.
    if params.raw().len() > HANDSHAKE_BYTES_MAX {
        return Err("the handshake has more than 65536 bytes");
    }
    Ok(params)
}

/// The client's handshake without what its policies keep servers from asking, and with a revision
/// that the gate can speak: many servers agree to whatever they are asked for.
fn greeting(ask: &Ask<'_>, params: Value<'_>) -> String {
    const QUESTIONS: [(&str, &str); 3] = [
        ("elicitation", "elicitation/create"),
        ("sampling", "sampling/createMessage"),
        ("roots", "roots/list"),
    ];
    let may = |method: &str| {
        ask.scene.only().is_none_or(|holding| {
            holding.rules.as_ref().is_none_or(|rules| rules.server_may_ask(method))
        })
    };
    let kept = |name: &str| {
        QUESTIONS.iter().all(|(capability, method)| *capability != name || may(method))
    };
    rebuild::object(
        params,
        |key, value| match key {
            "capabilities" => Member::Replace(rebuild::object(
                value,
                |name, _| if kept(name) { Member::Keep } else { Member::Drop },
                &[],
            )),
            "protocolVersion" => {
                Member::Replace(json!(Revision::agree(&asked_version(params)).as_str()).to_string())
            }
            _ => Member::Keep,
        },
        &[],
    )
}

struct Opening {
    agreed: Revision,
    body: Vec<u8>,
    peer: Option<Peer>,
}

async fn with_server(
    ask: &Ask<'_>,
    holding: &Holding,
    greeting: String,
    permit: Permit,
    params: Value<'_>,
) -> Outbound {
    if holding.server.is_shared_by_all() {
        return with_shared(ask, holding, greeting, permit, params).await;
    }
    let (scene, id) = (ask.scene, &ask.request.id);
    let opened = open::with_handshake(scene, &holding.server, &permit, id, &greeting).await;
    match opened {
        Ok(Opened { peer, answer }) => {
            let (agreed, body) = if let Some(body) = answer {
                (agreed_on(&peer.greeting), body.to_vec())
            } else {
                let agreed = Revision::agree(&asked_version(params));
                let result = translate::initialize_result(&peer.greeting, agreed.as_str());
                (agreed, result_body(&ask.request.id, &result.to_string()))
            };
            open(ask, Opening { agreed, body, peer: Some(peer) }, greeting, permit, params)
        }
        // What else a server says beside a status is not for agents: a sign-in page, its own words.
        Err(UpstreamError::Status { body, .. }) if open::is_refusal(&body, &ask.request.id) => {
            Gate::settled(permit, Ending::Error);
            Outbound::ok(body)
        }
        Err(error) => {
            if error.may_have_happened() {
                Gate::settled(permit, Ending::Error);
            } else {
                Gate::released(permit, &error);
            }
            Outbound::ok(answers::upstream_failed(&ask.request.id, &holding.server.name, &error))
        }
    }
}

/// Opens a session on a process that all clients share.
async fn with_shared(
    ask: &Ask<'_>,
    holding: &Holding,
    greeting: String,
    permit: Permit,
    params: Value<'_>,
) -> Outbound {
    match ask.scene.gate.peer_for(ask.scene, holding, Era::Legacy, &permit).await {
        Ok(peer) => {
            let agreed = Revision::agree(&asked_version(params));
            let result = match peer.era {
                Era::Modern => translate::initialize_result(&peer.greeting, agreed.as_str()),
                Era::Legacy => shared_greeting(peer.greeting.clone(), agreed),
            };
            let body = result_body(&ask.request.id, &result.to_string());
            open(ask, Opening { agreed, body, peer: None }, greeting, permit, params)
        }
        Err(error) => {
            Gate::released(permit, &error);
            Outbound::ok(answers::upstream_failed(&ask.request.id, &holding.server.name, &error))
        }
    }
}

/// What a process that all clients share says of itself, without what it has for one client only.
fn shared_greeting(mut greeting: serde_json::Value, agreed: Revision) -> serde_json::Value {
    if let Some(version) = greeting.get_mut("protocolVersion") {
        *version = json!(agreed.as_str());
    }
    if let Some(serde_json::Value::Object(all)) = greeting.get_mut("capabilities") {
        all.remove("logging");
        if let Some(serde_json::Value::Object(resources)) = all.get_mut("resources") {
            resources.remove("subscribe");
        }
    }
    greeting
}

fn agreed_on(greeting: &serde_json::Value) -> Revision {
    let version =
        greeting.get("protocolVersion").and_then(serde_json::Value::as_str).unwrap_or_default();
    Revision::parse(version).unwrap_or(Revision::LEGACY_NEWEST)
}

fn asked_version(params: Value<'_>) -> String {
    params.get("protocolVersion").and_then(Value::as_str).unwrap_or_default().into_owned()
}

fn open(
    ask: &Ask<'_>,
    opening: Opening,
    greeting: String,
    permit: Permit,
    params: Value<'_>,
) -> Outbound {
    let gate = &ask.scene.gate;
    let Some(id) = gate.random_name() else {
        Gate::settled(permit, Ending::Error);
        return Outbound::ok(wire_error(ask, "no session id could be made"));
    };
    let session = Arc::new(Session::new(NewSession {
        id: id.clone(),
        grant: ask.scene.holder.id.clone(),
        server: ask.scene.endpoint.server().map(str::to_owned),
        revision: opening.agreed,
        client: params.get("clientInfo").map(Client::of).unwrap_or_default(),
        takes: Takes::of(params.get("capabilities")),
        greeting,
        now_us: gate.clock.now().wall_us,
    }));
    if let Some(peer) = opening.peer {
        // A session that nobody knows yet has not ended.
        let _ = session.add_peer(Arc::new(peer));
    }
    gate.add_session(&session);
    Gate::settled(permit, Ending::Ok);
    Outbound::One { status: 200, body: opening.body.into(), session: Some(id) }
}

fn wire_error(ask: &Ask<'_>, words: &str) -> Vec<u8> {
    crate::wire::error_body(Some(&ask.request.id), -32603, words, None)
}

/// The client's name from a request of the newer era, which says it each time.
pub(crate) fn client_in_meta(request: &Request<'_>) -> Option<Client> {
    request.meta()?.get(meta_keys::CLIENT_INFO).map(Client::of)
}

/// What the gate says of itself where it stands for all servers of a grant.
fn all_servers(agreed: Revision) -> serde_json::Value {
    json!({
        "protocolVersion": agreed.as_str(),
        "capabilities": {
            "tools": { "listChanged": true },
            "resources": { "subscribe": true, "listChanged": true },
            "prompts": { "listChanged": true },
            "completions": {},
            "logging": {},
        },
        "serverInfo": { "name": "tollgate", "version": env!("CARGO_PKG_VERSION") },
        "instructions": "Several servers behind one gate. A tool's name begins with its server's, as in `server.tool`.",
    })
}

/// Answers a ping; the gate is there.
pub(crate) fn ping(ask: &Ask<'_>) -> Outbound {
    courtesy(ask, "{}")
}

fn courtesy(ask: &Ask<'_>, result: &str) -> Outbound {
    let server = ask.scene.endpoint.server().unwrap_or_default();
    match ask.scene.gate.note_passed(ask.scene, &ask.request.method_name, server) {
        Ok(()) => Outbound::ok(result_body(&ask.request.id, result)),
        Err(error) => refused_by_store(ask, &error),
    }
}

fn refused_by_store(ask: &Ask<'_>, error: &store::ledger::LedgerError) -> Outbound {
    Outbound::ok(answers::denied(&ask.request.id, &answers::no_record(error)))
}

/// A session's wish for log messages. Newer servers hear it on every request instead.
pub(crate) async fn set_level(ask: &Ask<'_>, in_flight: Option<InFlight>) -> Outbound {
    let level = ask.request.params.and_then(|params| params.get("level")?.as_str());
    let Some(level) = level.filter(|level| LOG_LEVELS.contains(&level.as_ref())) else {
        let words = format!("`level` must be one of {}", LOG_LEVELS.join(", "));
        let refused = Refused::params(words).with_id(&ask.request.id);
        return receive::refuse(ask.scene, &refused, &ask.request.method_name);
    };
    let method = Subject::Method(&ask.request.method_name);
    if let Some(holding) = ask.scene.only()
        && !call::allows(ask, holding, method)
    {
        // Refused like any other method that the policy does not allow.
        let aim = Aim { holding, subject: Some(method), task_of: None, rename: None };
        return call::carry(ask, &aim, in_flight).await;
    }
    if let Some(session) = &ask.scene.session {
        session.set_log_level(&level);
        if ask.scene.only().is_none() {
            tell_all(ask.scene, session.peers()).await;
        }
    }
    let legacy = ask.scene.session.as_ref().is_some_and(|session| {
        session.peers().iter().any(|peer| peer.era == Era::Legacy && !peer.is_builtin())
    });
    match ask.scene.only() {
        Some(holding) if legacy => {
            call::carry(
                ask,
                &Aim { holding, subject: Some(method), task_of: None, rename: None },
                in_flight,
            )
            .await
        }
        _ => courtesy(ask, "{}"),
    }
}

/// Tells several servers which log messages are wanted. One that does not answer holds up nobody.
async fn tell_all(scene: &Scene, peers: Vec<Arc<Peer>>) {
    let telling: Vec<_> = peers
        .into_iter()
        .map(|peer| {
            let scene = scene.clone();
            tokio::spawn(async move { scene.gate.tell_level(&scene, &peer).await })
        })
        .collect();
    let all = async {
        for told in telling {
            // A task that was dropped told nothing.
            let _ = told.await;
        }
    };
    // Those that take longer hear it all the same.
    let _ = tokio::time::timeout(TELL_LEVEL_WAIT_MAX, all).await;
}

/// What there is, for a client of the newer era.
pub(crate) async fn discover(ask: &Ask<'_>) -> Outbound {
    let Some(holding) = ask.scene.only() else {
        let result = translate::discover_result(&all_servers(Revision::LEGACY_NEWEST));
        return courtesy(ask, &result.to_string());
    };
    let permit = match ask.scene.gate.own_act(ask.scene, "server/discover", &holding.server.name) {
        Ok(permit) => permit,
        Err(error) => return refused_by_store(ask, &error),
    };
    match ask.scene.gate.peer_for(ask.scene, holding, ask.era, &permit).await {
        Ok(peer) if peer.era == Era::Legacy => {
            let result = translate::discover_result(&peer.greeting);
            Gate::settled(permit, Ending::Ok);
            Outbound::ok(result_body(&ask.request.id, &result.to_string()))
        }
        Ok(_) => {
            ask.goes_on_with(permit);
            call::carry(ask, &Aim { holding, subject: None, task_of: None, rename: None }, None)
                .await
        }
        Err(error) => {
            Gate::released(permit, &error);
            Outbound::ok(answers::upstream_failed(&ask.request.id, &holding.server.name, &error))
        }
    }
}
