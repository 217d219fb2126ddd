//! Opens peers: for a session with its client's handshake, or shared by the clients of a grant, in the era that
//! the server supports.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use connectors::Caller;
use hyper::header::HeaderValue;
use policy::json::{Bounds, Doc};
use serde_json::{Value, json};
use store::ledger::Permit;

use crate::builtin::Builtin;
use crate::runtime::response_buffer::BufferQuota;
use crate::upstream::peer::{Peer, PeerLink, final_response};
use crate::upstream::server::{Backend, Server};
use crate::upstream::{HttpLink, Link, NotSent, StdioLink, UpstreamError, UpstreamMessage};
use mcp::translate::{self, ClientMeta};
use mcp::{
    ClientCapabilities, Era, Id, Revision, headers, is_error, notification_body, request_body,
    server_message,
};

/// A server that does not respond to `server/discover` within this time is taken for a legacy one.
const PROBE_WAIT_MAX: Duration = Duration::from_secs(5);

/// The client that a peer is opened for.
pub(crate) struct PeerClient<'a> {
    /// The id of the grant.
    pub(crate) grant: &'a str,
    /// For large responses.
    pub(crate) quota: &'a BufferQuota,
    pub(crate) is_over_http: bool,
    /// The gates that the request passed, for HTTP servers.
    pub(crate) via: Option<HeaderValue>,
}

/// A peer, and the server's response to the client's handshake, if there is one.
pub(crate) struct OpenedPeer {
    pub(crate) peer: Peer,
    pub(crate) answer: Option<Bytes>,
}

/// Opens a peer with the client's handshake params, unchanged.
pub(crate) async fn with_handshake(
    client: &PeerClient<'_>,
    server: &Arc<Server>,
    permit: &Permit,
    id: &Id,
    params: &str,
) -> Result<OpenedPeer, UpstreamError> {
    if let Backend::Builtin(builtin) = &server.backend {
        let asked = requested_revision(params);
        let initialize_result = builtin.initialize_result(Revision::agree(&asked).as_str());
        let body = mcp::result_body(id, &initialize_result.to_string());
        let caller = builtin.new_caller(client.grant);
        let link = PeerLink::Builtin(Arc::clone(builtin), caller, client.quota.clone());
        let peer = Peer::new(Arc::clone(server), link, Era::Legacy, initialize_result, false);
        return Ok(OpenedPeer { peer, answer: Some(body.into()) });
    }
    let link = link(server, client)?;
    let mut refusal = None;
    if server.eras().legacy != Some(false) {
        let answer = initialize(server, &link, permit, id, params).await?;
        match result_of(&answer) {
            Some(initialize_result) => {
                server.learn_eras(|eras| eras.legacy = Some(true));
                agree(&link, &initialize_result);
                set_reopening(&link, params);
                let peer = Peer::new(
                    Arc::clone(server),
                    PeerLink::Remote(link),
                    Era::Legacy,
                    initialize_result,
                    false,
                );
                let peer = peer.announcing(ClientCapabilities::of_handshake(params));
                return Ok(OpenedPeer { peer, answer: Some(answer) });
            }
            None => refusal = Some(answer),
        }
    }
    match discover(&link, permit, &client_of(params)).await {
        Ok(initialize_result) => {
            server.learn_eras(|eras| {
                eras.modern = Some(true);
                eras.legacy = Some(false);
            });
            let peer = Peer::new(
                Arc::clone(server),
                PeerLink::Remote(link),
                Era::Modern,
                initialize_result,
                false,
            );
            Ok(OpenedPeer { peer, answer: None })
        }
        Err(error) => {
            link.close().await;
            match refusal {
                // The server's own refusal is more specific.
                Some(body) if is_refusal(&body, id) => {
                    Err(UpstreamError::Status { status: 400, body })
                }
                Some(body) => Err(refused_handshake(&body)),
                None => Err(error),
            }
        }
    }
}

/// Opens a peer for clients without a session.
pub(crate) async fn shared(
    client: &PeerClient<'_>,
    server: &Arc<Server>,
    permit: &Permit,
    client_era: Era,
) -> Result<Peer, UpstreamError> {
    if let Backend::Builtin(builtin) = &server.backend {
        return Ok(shared_builtin(client, server, builtin));
    }
    let link = link(server, client)?;
    let eras = server.eras();
    let prefers_legacy = client_era == Era::Legacy && eras.legacy == Some(true);
    if eras.modern != Some(false) && !prefers_legacy {
        match discover(&link, permit, &own_meta()).await {
            Ok(initialize_result) => return Ok(shared_modern(server, link, initialize_result)),
            Err(error @ (UpstreamError::NeverSent { .. } | UpstreamError::SignIn { .. })) => {
                return Err(error);
            }
            Err(_) => server.learn_eras(|eras| eras.modern = Some(false)),
        }
    }
    shared_legacy(server, link, permit).await
}

fn shared_builtin(client: &PeerClient<'_>, server: &Arc<Server>, builtin: &Arc<Builtin>) -> Peer {
    let initialize_result = builtin.initialize_result(translate::NEWEST_LEGACY);
    // Over HTTP, all clients with the grant share it.
    let caller = if client.is_over_http {
        Caller::of_grant(client.grant)
    } else {
        builtin.new_caller(client.grant)
    };
    let link = PeerLink::Builtin(Arc::clone(builtin), caller, client.quota.clone());
    Peer::new(Arc::clone(server), link, Era::Legacy, initialize_result, false)
}

fn shared_modern(server: &Arc<Server>, link: Link, initialize_result: Value) -> Peer {
    server.learn_eras(|eras| eras.modern = Some(true));
    let is_child = matches!(link, Link::Stdio(_));
    Peer::new(Arc::clone(server), PeerLink::Remote(link), Era::Modern, initialize_result, is_child)
}

async fn shared_legacy(
    server: &Arc<Server>,
    link: Link,
    permit: &Permit,
) -> Result<Peer, UpstreamError> {
    let params = shared_handshake(server);
    let id = Id::generated("tollgate-hello", 0);
    let answer = initialize(server, &link, permit, &id, &params).await;
    if !answer.as_deref().is_ok_and(|answer| result_of(answer).is_some()) {
        // It may have been too busy to respond to `server/discover`, so that is tried again.
        server.learn_eras(|eras| eras.modern = None);
    }
    let answer = answer?;
    let Some(initialize_result) = result_of(&answer) else {
        // A slow process may have received the first `server/discover` and now expects the modern era.
        if let Ok(initialize_result) = discover(&link, permit, &own_meta()).await {
            return Ok(shared_modern(server, link, initialize_result));
        }
        link.close().await;
        return Err(refused_handshake(&answer));
    };
    server.learn_eras(|eras| eras.legacy = Some(true));
    agree(&link, &initialize_result);
    set_reopening(&link, &params);
    let initialized = notification_body("notifications/initialized", None);
    link.send(permit, UpstreamMessage::notification(initialized.into())).await?;
    let peer =
        Peer::new(Arc::clone(server), PeerLink::Remote(link), Era::Legacy, initialize_result, true);
    Ok(peer.announcing(ClientCapabilities::of_handshake(&params)))
}

/// The handshake of a shared peer. It declares everything that any client may support; unsupported requests are
/// refused later. A process that all clients share could not address one of them, so it gets no capabilities.
fn shared_handshake(server: &Server) -> String {
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
        "clientInfo": serde_json::from_str::<Value>(&gate_info()).unwrap_or_default(),
    });
    params.to_string()
}

/// The gate's own description, where it acts for no client.
fn own_meta() -> ClientMeta {
    ClientMeta { capabilities: "{}".to_owned(), info: Some(gate_info()), log_level: None }
}

/// Opens a peer in an existing session.
pub(crate) async fn joining(
    client: &PeerClient<'_>,
    server: &Arc<Server>,
    initialize_result: &str,
    permit: &Permit,
) -> Result<Peer, UpstreamError> {
    let id = Id::generated("tollgate-hello", 0);
    let opened = with_handshake(client, server, permit, &id, initialize_result).await?;
    if opened.peer.era == Era::Legacy {
        let told = notification_body("notifications/initialized", None);
        opened.peer.send(permit, UpstreamMessage::notification(told.into())).await?;
    }
    Ok(opened.peer)
}

fn link(server: &Server, client: &PeerClient<'_>) -> Result<Link, UpstreamError> {
    let is_shared = server.is_shared_by_all();
    let quota = if is_shared { BufferQuota::default() } else { client.quota.clone() };
    match &server.backend {
        Backend::Http(http) => {
            let link = HttpLink::new(Arc::clone(http)).on(quota).with_login_of(client.grant);
            if let Some(via) = &client.via {
                link.set_via(via.clone());
            }
            Ok(Link::Http(Box::new(link)))
        }
        Backend::Child(options) => {
            let mut options = (**options).clone();
            options.quota = quota;
            // Unrelated messages of a process that grants share belong to no one.
            options.route_to_request &= !is_shared;
            Ok(Link::Stdio(StdioLink::start(options)))
        }
        Backend::Broken(message) => Err(Backend::unusable(message)),
        Backend::Builtin(_) => Err(Backend::unusable("a built-in server has no link")),
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
        UpstreamMessage::request(id.clone(), request_body(id, "initialize", Some(params)).into());
    out.opens_session = true;
    let initialize_result =
        async { final_response(link.request(permit, out).await?, id, drop).await };
    match tokio::time::timeout(server.start_wait_max, initialize_result).await {
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
            "it started, but does not speak MCP: no response to `initialize` in {seconds} s, and {noise} lines that are not messages"
        )
    } else {
        format!("no response to `initialize` in {seconds} s")
    };
    UpstreamError::Lost { why }
}

/// A restarted process gets the same handshake. Its response is ignored.
fn set_reopening(link: &Link, params: &str) {
    let Link::Stdio(link) = link else { return };
    let params = params.to_owned();
    link.set_opening(move |run| {
        let id = Id::generated("tollgate-hello-again", run);
        let hello = request_body(&id, "initialize", Some(&params));
        [hello.into(), notification_body("notifications/initialized", None).into()]
    });
}

/// Asks a server whether it supports 2026-07-28.
async fn discover(
    link: &Link,
    permit: &Permit,
    client: &ClientMeta,
) -> Result<Value, UpstreamError> {
    let id = Id::generated("tollgate-probe", 0);
    let params = format!("{{\"_meta\":{}}}", client.meta());
    let mut out = UpstreamMessage::request(
        id.clone(),
        request_body(&id, "server/discover", Some(&params)).into(),
    );
    out.headers = headers::standard_headers("server/discover", None, Revision::NEWEST);
    let probe = async { final_response(link.request(permit, out).await?, &id, drop).await };
    let answer = match tokio::time::timeout(PROBE_WAIT_MAX, probe).await {
        Ok(answer) => answer?,
        Err(_) => {
            return Err(UpstreamError::Malformed {
                why: "no response to server/discover".to_owned(),
            });
        }
    };
    result_of(&answer).filter(|result| result.get("supportedVersions").is_some()).ok_or_else(|| {
        UpstreamError::Malformed { why: "the server does not support server/discover".to_owned() }
    })
}

/// The peer could not be opened, so the call was not sent, whatever failed.
pub(crate) fn as_never_sent(error: UpstreamError) -> UpstreamError {
    if !error.may_have_happened() {
        return error;
    }
    UpstreamError::NeverSent { why: NotSent::NotConnected(Box::new(error)) }
}

/// Whether the response is a valid JSON-RPC error to this request, which can be forwarded.
pub(crate) fn is_refusal(answer: &[u8], id: &Id) -> bool {
    Doc::read(answer, &Bounds::ANSWER).is_ok_and(|doc| {
        let root = doc.root();
        server_message::fault(root).is_none()
            && root.get("id").and_then(|value| id.is(value)) == Some(true)
            && root.get("error").is_some_and(is_error)
            && root.get("result").is_none()
    })
}

/// The handshake failed, so the call was not sent.
fn refused_handshake(answer: &[u8]) -> UpstreamError {
    let message = serde_json::from_slice::<Value>(answer).ok();
    let message = message.as_ref().and_then(|answer| answer.pointer("/error/message")?.as_str());
    // Servers' texts are shown to agents, but not at any length.
    let message: String =
        message.unwrap_or("its response cannot be parsed").chars().take(200).collect();
    UpstreamError::never_sent(format!("the server refused the handshake: {message}"))
}

fn result_of(answer: &[u8]) -> Option<Value> {
    let mut message: Value = serde_json::from_slice(answer).ok()?;
    message.get_mut("result").map(Value::take).filter(Value::is_object)
}

/// Sets the negotiated revision for all HTTP requests.
fn agree(link: &Link, initialize_result: &Value) {
    if let (Link::Http(link), Some(version)) =
        (link, initialize_result.get("protocolVersion").and_then(Value::as_str))
    {
        link.set_protocol_version(version);
    }
}

fn requested_revision(params: &str) -> String {
    let params: Value = serde_json::from_str(params).unwrap_or_default();
    params.get("protocolVersion").and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn client_of(params: &str) -> ClientMeta {
    match Doc::read(params.as_bytes(), &Bounds::ANSWER) {
        Ok(doc) => ClientMeta::from_initialize(doc.root()),
        Err(_) => ClientMeta { capabilities: "{}".to_owned(), info: None, log_level: None },
    }
}

/// The gate's name and version.
pub(crate) fn gate_info() -> String {
    json!({ "name": "tollgate", "version": env!("CARGO_PKG_VERSION") }).to_string()
}
