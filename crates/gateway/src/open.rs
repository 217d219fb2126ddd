//! Opens conversations with servers: for a session with its client's own words, or one that the
//! clients of a grant share, in whichever era the server speaks.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use connectors::Reader;
use policy::json::{Bounds, Doc};
use serde_json::{Value, json};
use store::ledger::Permit;

use crate::in_force::Holding;
use crate::peer::{Peer, Way, last_of};
use crate::room::Account;
use crate::scene::{Scene, Transport};
use crate::server::{Reach, Server};
use crate::translate::{self, ClientWords};
use crate::upstream::{HttpLink, Link, Outgoing, StdioLink, UpstreamError};
use crate::wire::{
    Era, Id, Revision, Takes, answer, headers, is_error, notification_body, request_body,
};

/// A server that says nothing to `server/discover` for so long is taken for one of the older era.
const PROBE_WAIT_MAX: Duration = Duration::from_secs(5);

/// A conversation, and the server's own answer to the client's handshake if it gave one.
pub(crate) struct Opened {
    pub(crate) peer: Peer,
    pub(crate) answer: Option<Bytes>,
}

/// Opens a conversation with a client's own handshake. `params` are the client's, word for word.
pub(crate) async fn with_handshake(
    scene: &Scene,
    server: &Arc<Server>,
    permit: &Permit,
    id: &Id,
    params: &str,
) -> Result<Opened, UpstreamError> {
    let holder = &scene.holder;
    if let Reach::Builtin(builtin) = &server.reach {
        let asked = asked_revision(params);
        let greeting = builtin.greeting(Revision::agree(&asked).as_str());
        let body = crate::wire::result_body(id, &greeting.to_string());
        let reader = builtin.new_reader(&holder.id);
        let way = Way::Builtin(Arc::clone(builtin), reader, holder.room.clone());
        let peer = Peer::new(Arc::clone(server), way, Era::Legacy, greeting, false);
        return Ok(Opened { peer, answer: Some(body.into()) });
    }
    let link = link(server, scene)?;
    let mut refusal = None;
    if server.eras().legacy != Some(false) {
        let answer = initialize(server, &link, permit, id, params).await?;
        match result_of(&answer) {
            Some(greeting) => {
                server.learn(|eras| eras.legacy = Some(true));
                agree(&link, &greeting);
                opens_again(&link, params);
                let peer =
                    Peer::new(Arc::clone(server), Way::Link(link), Era::Legacy, greeting, false);
                let peer = peer.greeted_with(Takes::of_handshake(params));
                return Ok(Opened { peer, answer: Some(answer) });
            }
            None => refusal = Some(answer),
        }
    }
    match discover(&link, permit, &client_of(params)).await {
        Ok(greeting) => {
            server.learn(|eras| {
                eras.modern = Some(true);
                eras.legacy = Some(false);
            });
            let peer = Peer::new(Arc::clone(server), Way::Link(link), Era::Modern, greeting, false);
            Ok(Opened { peer, answer: None })
        }
        Err(error) => {
            link.close().await;
            match refusal {
                // The server's own refusal of the handshake says more than ours could.
                Some(body) if is_refusal(&body, id) => {
                    Err(UpstreamError::Status { status: 400, body })
                }
                Some(body) => Err(refused_handshake(&body)),
                None => Err(error),
            }
        }
    }
}

/// Opens a conversation for clients without a session.
pub(crate) async fn shared(
    scene: &Scene,
    server: &Arc<Server>,
    permit: &Permit,
    client_era: Era,
) -> Result<Peer, UpstreamError> {
    if let Reach::Builtin(builtin) = &server.reach {
        let greeting = builtin.greeting(translate::NEWEST_LEGACY);
        let reader = match scene.transport {
            // Its clients are all who hold the grant.
            Transport::Http { .. } => Reader::of_grant(&scene.holder.id),
            Transport::Stdio => builtin.new_reader(&scene.holder.id),
        };
        let way = Way::Builtin(Arc::clone(builtin), reader, scene.holder.room.clone());
        return Ok(Peer::new(Arc::clone(server), way, Era::Legacy, greeting, false));
    }
    let link = link(server, scene)?;
    let is_child = matches!(link, Link::Stdio(_));
    let eras = server.eras();
    let prefers_legacy = client_era == Era::Legacy && eras.legacy == Some(true);
    let client =
        ClientWords { capabilities: "{}".to_owned(), info: Some(our_info()), log_level: None };
    if eras.modern != Some(false) && !prefers_legacy {
        match discover(&link, permit, &client).await {
            Ok(greeting) => {
                server.learn(|eras| eras.modern = Some(true));
                return Ok(Peer::new(
                    Arc::clone(server),
                    Way::Link(link),
                    Era::Modern,
                    greeting,
                    is_child,
                ));
            }
            Err(error @ UpstreamError::NeverSent { .. }) => return Err(error),
            Err(_) => server.learn(|eras| eras.modern = Some(false)),
        }
    }
    // All that any client may take; what one does not take is refused when it is asked. A process that
    // all clients share could not tell whom it asks, so it asks nobody.
    let capabilities = if server.is_shared_by_all() {
        json!({})
    } else {
        json!({
            "elicitation": { "form": {}, "url": {} },
            "sampling": { "tools": {}, "context": {} },
            "roots": { "listChanged": false },
        })
    };
    let params = json!({
        "protocolVersion": translate::NEWEST_LEGACY,
        "capabilities": capabilities,
        "clientInfo": serde_json::from_str::<Value>(&our_info()).unwrap_or_default(),
    });
    let params = params.to_string();
    let id = Id::minted("tollgate-hello", 0);
    let answer = initialize(server, &link, permit, &id, &params).await;
    if !answer.as_deref().is_ok_and(|answer| result_of(answer).is_some()) {
        // It may only have been too busy to say that it speaks the newer revision; it is asked again.
        server.learn(|eras| eras.modern = None);
    }
    let answer = answer?;
    let Some(greeting) = result_of(&answer) else {
        // A process that took long to start heard our first question all the same, and has chosen.
        if let Ok(greeting) = discover(&link, permit, &client).await {
            server.learn(|eras| eras.modern = Some(true));
            let way = Way::Link(link);
            return Ok(Peer::new(Arc::clone(server), way, Era::Modern, greeting, is_child));
        }
        link.close().await;
        return Err(refused_handshake(&answer));
    };
    server.learn(|eras| eras.legacy = Some(true));
    agree(&link, &greeting);
    opens_again(&link, &params);
    link.send(
        permit,
        Outgoing::notification(notification_body("notifications/initialized", None).into()),
    )
    .await?;
    let peer = Peer::new(Arc::clone(server), Way::Link(link), Era::Legacy, greeting, true);
    Ok(peer.greeted_with(Takes::of_handshake(&params)))
}

/// Opens a server's conversation inside a session that began without it.
pub(crate) async fn joining(
    scene: &Scene,
    holding: &Holding,
    permit: &Permit,
) -> Result<Peer, UpstreamError> {
    let Some(session) = &scene.session else { return Err(UpstreamError::Closed) };
    let id = Id::minted("tollgate-hello", 0);
    let opened = with_handshake(scene, &holding.server, permit, &id, &session.greeting).await?;
    if opened.peer.era == Era::Legacy {
        let told = notification_body("notifications/initialized", None);
        opened.peer.send(permit, Outgoing::notification(told.into())).await?;
    }
    Ok(opened.peer)
}

fn link(server: &Server, scene: &Scene) -> Result<Link, UpstreamError> {
    let is_shared = server.is_shared_by_all();
    let account = if is_shared { Account::default() } else { scene.holder.room.clone() };
    match &server.reach {
        Reach::Http(http) => {
            let link = HttpLink::new(Arc::clone(http)).on(account);
            if let Some(via) = scene.via.and(&scene.gate.instance) {
                link.set_via(via);
            }
            Ok(Link::Http(Box::new(link)))
        }
        Reach::Child(options) => {
            let mut options = (**options).clone();
            options.account = account;
            // Where grants share a process, what it says on its own is nobody's in particular.
            options.route_to_request &= !is_shared;
            Ok(Link::Stdio(StdioLink::start(options)))
        }
        Reach::Broken(words) => Err(Reach::unusable(words)),
        Reach::Builtin(_) => Err(Reach::unusable("a built-in server has no link")),
    }
}

async fn initialize(
    server: &Server,
    link: &Link,
    permit: &Permit,
    id: &Id,
    params: &str,
) -> Result<Bytes, UpstreamError> {
    let mut out =
        Outgoing::request(id.clone(), request_body(id, "initialize", Some(params)).into());
    out.opens_session = true;
    let greeting = async { last_of(link.request(permit, out).await?, id, drop).await };
    match tokio::time::timeout(server.start_wait_max, greeting).await {
        Ok(answer) => answer,
        Err(_) => Err(no_answer(link, server.start_wait_max)),
    }
}

fn no_answer(link: &Link, wait_max: Duration) -> UpstreamError {
    let noise = match link {
        Link::Stdio(link) => link.noise_lines(),
        Link::Http(_) => 0,
    };
    let seconds = wait_max.as_secs();
    let why = if noise > 0 {
        format!(
            "it started, but does not speak MCP: no answer to `initialize` in {seconds} s, and {noise} lines that are no messages"
        )
    } else {
        format!("it did not answer `initialize` in {seconds} s")
    };
    UpstreamError::Lost { why }
}

/// A process that was started again is greeted like the one before; what it answers is known.
fn opens_again(link: &Link, params: &str) {
    let Link::Stdio(link) = link else { return };
    let params = params.to_owned();
    link.opens_with(move |run| {
        let id = Id::minted("tollgate-hello-again", run);
        let hello = request_body(&id, "initialize", Some(&params));
        [hello.into(), notification_body("notifications/initialized", None).into()]
    });
}

/// Asks a server whether it speaks 2026-07-28.
async fn discover(
    link: &Link,
    permit: &Permit,
    client: &ClientWords,
) -> Result<Value, UpstreamError> {
    let id = Id::minted("tollgate-probe", 0);
    let params = format!("{{\"_meta\":{}}}", client.meta());
    let mut out =
        Outgoing::request(id.clone(), request_body(&id, "server/discover", Some(&params)).into());
    out.headers = headers::standard_headers("server/discover", None, Revision::NEWEST);
    let probe = async { last_of(link.request(permit, out).await?, &id, drop).await };
    let answer = match tokio::time::timeout(PROBE_WAIT_MAX, probe).await {
        Ok(answer) => answer?,
        Err(_) => {
            return Err(UpstreamError::Garbled { why: "no answer to server/discover".to_owned() });
        }
    };
    result_of(&answer).filter(|result| result.get("supportedVersions").is_some()).ok_or_else(|| {
        UpstreamError::Garbled { why: "the server does not know server/discover".to_owned() }
    })
}

/// A conversation that did not begin: whatever went wrong, the call itself was not sent.
pub(crate) fn before_the_call(error: UpstreamError) -> UpstreamError {
    if !error.may_have_happened() {
        return error;
    }
    UpstreamError::NeverSent { why: format!("no conversation with the server began: {error}") }
}

/// Whether a server said no to this request in the protocol's own words, which can be passed on.
pub(crate) fn is_refusal(answer: &[u8], id: &Id) -> bool {
    Doc::read(answer, &Bounds::ANSWER).is_ok_and(|doc| {
        let root = doc.root();
        answer::trouble(root).is_none()
            && root.get("id").and_then(|value| id.is(value)) == Some(true)
            && root.get("error").is_some_and(is_error)
            && root.get("result").is_none()
    })
}

/// The call behind a handshake that failed was never sent.
fn refused_handshake(answer: &[u8]) -> UpstreamError {
    let words = serde_json::from_slice::<Value>(answer).ok();
    let words = words.as_ref().and_then(|answer| answer.pointer("/error/message")?.as_str());
    // A server's words are shown to agents elsewhere, too, but not without end.
    let words: String = words.unwrap_or("its answer cannot be read").chars().take(200).collect();
    UpstreamError::NeverSent { why: format!("the server refused the handshake: {words}") }
}

fn result_of(answer: &[u8]) -> Option<Value> {
    let mut message: Value = serde_json::from_slice(answer).ok()?;
    message.get_mut("result").map(Value::take).filter(Value::is_object)
}

/// From now on every HTTP request names the revision that was agreed on.
fn agree(link: &Link, greeting: &Value) {
    if let (Link::Http(link), Some(version)) =
        (link, greeting.get("protocolVersion").and_then(Value::as_str))
    {
        link.set_protocol_version(version);
    }
}

fn asked_revision(params: &str) -> String {
    let params: Value = serde_json::from_str(params).unwrap_or_default();
    params.get("protocolVersion").and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn client_of(params: &str) -> ClientWords {
    match Doc::read(params.as_bytes(), &Bounds::ANSWER) {
        Ok(doc) => ClientWords::from_initialize(doc.root()),
        Err(_) => ClientWords { capabilities: "{}".to_owned(), info: None, log_level: None },
    }
}

/// How the gate introduces itself to servers.
pub(crate) fn our_info() -> String {
    json!({ "name": "tollgate", "version": env!("CARGO_PKG_VERSION") }).to_string()
}
