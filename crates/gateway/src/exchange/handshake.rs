//! Opens sessions (`initialize`), answers `server/discover`, and the protocol messages that the gate answers
//! itself.

use std::sync::Arc;

use policy::json::{Kind, Value};
use serde_json::json;
use store::ledger::{Ending, Permit};

use crate::exchange::call::{self, IncomingRequest, Target};
use crate::exchange::connect;
use crate::exchange::context::Endpoint;
use crate::exchange::context::RequestContext;
use crate::exchange::error_responses;
use crate::exchange::outbound::Outbound;
use crate::exchange::refuse;
use crate::runtime::permits;
use crate::session::{NewSession, Session};
use crate::snapshot::ServerAccess;
use crate::upstream::UpstreamError;
use crate::upstream::open::{self, OpenedPeer};
use crate::upstream::peer::Peer;
use crate::upstream::skills;
use mcp::ClientInfo;
use mcp::edit::{self, Member};
use mcp::translate;
use mcp::{ClientCapabilities, Era, ProtocolError, Request, Revision, meta_keys, result_body};

/// Larger handshake params are refused.
const HANDSHAKE_BYTES_MAX: usize = 64 * 1024;

/// Opens a session.
pub(crate) async fn initialize(incoming: &IncomingRequest<'_>) -> Outbound {
    if incoming.context.session.is_some() {
        let refused =
            ProtocolError::invalid("this session is open already").with_id(&incoming.request.id);
        return refuse::refuse(incoming.context, &refused, "initialize");
    }
    let params = match handshake_params(incoming.request) {
        Ok(params) => params,
        Err(message) => {
            let refused = ProtocolError::params(message).with_id(&incoming.request.id);
            return refuse::refuse(incoming.context, &refused, "initialize");
        }
    };
    let server = incoming.context.endpoint.server().unwrap_or_default();
    let permit = match incoming.context.own_act("initialize", server).await {
        Ok(permit) => permit,
        Err(error) => return ledger_failure_response(incoming, &error),
    };
    let initialize_params = initialize_params(incoming, params);
    match &incoming.context.endpoint {
        Endpoint::All => {
            let agreed = Revision::agree(&requested_version(params));
            let result = gate_initialize_result(incoming.context, agreed);
            let answer = SessionDraft {
                agreed,
                body: result_body(&incoming.request.id, &result.to_string()),
                peer: None,
            };
            open_session(incoming, answer, initialize_params, permit, params)
        }
        Endpoint::One(_) => match incoming.context.only() {
            Some(access) => with_server(incoming, access, initialize_params, permit, params).await,
            None => Outbound::with_status(
                404,
                error_responses::unknown(&incoming.request.id, "server", server, None),
            ),
        },
    }
}

/// The params of a valid handshake, or what is wrong with them.
fn handshake_params<'d>(request: &Request<'d>) -> Result<Value<'d>, &'static str> {
    let params = request.params.ok_or("`protocolVersion` is required")?;
    let kind = |key: &str| params.get(key).map(Value::kind);
    if kind("protocolVersion") != Some(Kind::String) {
        return Err("`protocolVersion` is required and must be a string");
    }
    let is_object = |key: &str| kind(key).is_none_or(|kind| kind == Kind::Object);
    if !is_object("capabilities") || !is_object("clientInfo") {
        return Err("`capabilities` and `clientInfo` must be objects");
    }
    // Each session keeps them for its servers.
    if params.raw().len() > HANDSHAKE_BYTES_MAX {
        return Err("the handshake has more than 65536 bytes");
    }
    Ok(params)
}

/// The client's `initialize` params for servers: without capabilities that the policy forbids servers to use, and with a
/// revision that the gate supports, because many servers accept any revision.
fn initialize_params(incoming: &IncomingRequest<'_>, params: Value<'_>) -> String {
    const SERVER_REQUESTS: [(&str, &str); 3] = [
        ("elicitation", "elicitation/create"),
        ("sampling", "sampling/createMessage"),
        ("roots", "roots/list"),
    ];
    let may = |method: &str| {
        incoming.context.only().is_none_or(|access| {
            access.rules.as_ref().is_none_or(|rules| rules.server_may_ask(method))
        })
    };
    let kept = |name: &str| {
        SERVER_REQUESTS.iter().all(|(capability, method)| *capability != name || may(method))
    };
    edit::object(
        params,
        |key, value| match key {
            "capabilities" => Member::Replace(edit::object(
                value,
                |name, _| if kept(name) { Member::Keep } else { Member::Drop },
                &[],
            )),
            "protocolVersion" => Member::Replace(
                json!(Revision::agree(&requested_version(params)).as_str()).to_string(),
            ),
            _ => Member::Keep,
        },
        &[],
    )
}

struct SessionDraft {
    agreed: Revision,
    body: Vec<u8>,
    peer: Option<Peer>,
}

async fn with_server(
    incoming: &IncomingRequest<'_>,
    access: &ServerAccess,
    initialize_params: String,
    permit: Permit,
    params: Value<'_>,
) -> Outbound {
    if access.server.is_shared_by_all() {
        return with_shared(incoming, access, initialize_params, permit, params).await;
    }
    let (context, id) = (incoming.context, &incoming.request.id);
    let opened = open::with_handshake(
        &context.peer_client(),
        &access.server,
        &permit,
        id,
        &initialize_params,
    )
    .await;
    match opened {
        Ok(OpenedPeer { peer, answer }) => {
            let (agreed, body) = if let Some(body) = answer {
                (agreed_on(&peer.initialize_result), body.to_vec())
            } else {
                let agreed = Revision::agree(&requested_version(params));
                let result = translate::initialize_result(&peer.initialize_result, agreed.as_str());
                (agreed, result_body(&incoming.request.id, &result.to_string()))
            };
            open_session(
                incoming,
                SessionDraft { agreed, body, peer: Some(peer) },
                initialize_params,
                permit,
                params,
            )
        }
        Err(error) if can_sign_in_later(&error) => {
            let agreed = Revision::agree(&requested_version(params));
            let body =
                result_body(id, &unopened_server_result(incoming.context, agreed).to_string());
            let draft = SessionDraft { agreed, body, peer: None };
            open_session(incoming, draft, initialize_params, permit, params)
        }
        // Other bodies are not for agents: a sign-in page, for example.
        Err(UpstreamError::Status { body, .. })
            if open::is_refusal(&body, &incoming.request.id) =>
        {
            permits::settle(permit, Ending::Error);
            Outbound::ok(body)
        }
        Err(error) => {
            if error.may_have_happened() {
                permits::settle(permit, Ending::Error);
            } else {
                permits::release(permit, &error.to_string());
            }
            Outbound::ok(error_responses::upstream_failed(
                &incoming.request.id,
                &access.server.name,
                &error,
            ))
        }
    }
}

/// Opens a session on a process that all clients share.
async fn with_shared(
    incoming: &IncomingRequest<'_>,
    access: &ServerAccess,
    initialize_params: String,
    permit: Permit,
    params: Value<'_>,
) -> Outbound {
    match connect::peer_for(incoming.context, access, Era::Legacy, &permit).await {
        Ok(peer) => {
            let agreed = Revision::agree(&requested_version(params));
            let result = match peer.era {
                Era::Modern => {
                    translate::initialize_result(&peer.initialize_result, agreed.as_str())
                }
                Era::Legacy => shared_initialize_result(peer.initialize_result.clone(), agreed),
            };
            let body = result_body(&incoming.request.id, &result.to_string());
            open_session(
                incoming,
                SessionDraft { agreed, body, peer: None },
                initialize_params,
                permit,
                params,
            )
        }
        Err(error) => {
            permits::release(permit, &error.to_string());
            Outbound::ok(error_responses::upstream_failed(
                &incoming.request.id,
                &access.server.name,
                &error,
            ))
        }
    }
}

/// The `initialize` result of a shared process, without features for single clients.
fn shared_initialize_result(mut result: serde_json::Value, agreed: Revision) -> serde_json::Value {
    if let Some(version) = result.get_mut("protocolVersion") {
        *version = json!(agreed.as_str());
    }
    if let Some(serde_json::Value::Object(all)) = result.get_mut("capabilities") {
        all.remove("logging");
        if let Some(serde_json::Value::Object(resources)) = all.get_mut("resources") {
            resources.remove("subscribe");
        }
    }
    result
}

fn agreed_on(result: &serde_json::Value) -> Revision {
    let version =
        result.get("protocolVersion").and_then(serde_json::Value::as_str).unwrap_or_default();
    Revision::parse(version).unwrap_or(Revision::LEGACY_NEWEST)
}

fn requested_version(params: Value<'_>) -> String {
    params.get("protocolVersion").and_then(Value::as_str).unwrap_or_default().into_owned()
}

fn open_session(
    incoming: &IncomingRequest<'_>,
    opening: SessionDraft,
    initialize_params: String,
    permit: Permit,
    params: Value<'_>,
) -> Outbound {
    let services = incoming.context.services();
    let Some(id) = services.random_name() else {
        permits::settle(permit, Ending::Error);
        return Outbound::ok(internal_error(incoming, "cannot create a session id"));
    };
    let session = Arc::new(Session::new(NewSession {
        id: id.clone(),
        grant: incoming.context.grantee.id.clone(),
        server: incoming.context.endpoint.server().map(str::to_owned),
        revision: opening.agreed,
        client: params.get("clientInfo").map(ClientInfo::of).unwrap_or_default(),
        client_capabilities: ClientCapabilities::of(params.get("capabilities")),
        initialize_params,
        now_us: services.clock.now().wall_us,
    }));
    if let Some(peer) = opening.peer {
        // A new session cannot have ended.
        let _ = session.add_peer(Arc::new(peer));
    }
    incoming.context.state.sessions.open(&session, &services.bounds);
    permits::settle(permit, Ending::Ok);
    Outbound::One { status: 200, body: opening.body.into(), session: Some(id) }
}

fn internal_error(incoming: &IncomingRequest<'_>, message: &str) -> Vec<u8> {
    mcp::error_body(Some(&incoming.request.id), -32603, message, None)
}

/// The client's name in a modern request.
pub(crate) fn client_in_meta(request: &Request<'_>) -> Option<ClientInfo> {
    request.meta()?.get(meta_keys::CLIENT_INFO).map(ClientInfo::of)
}

/// The gate's own `initialize` result at the endpoint of all servers.
fn gate_initialize_result(context: &RequestContext, agreed: Revision) -> serde_json::Value {
    let mut result = json!({
        "protocolVersion": agreed.as_str(),
        "capabilities": {
            "tools": { "listChanged": true },
            "resources": { "subscribe": true, "listChanged": true },
            "prompts": { "listChanged": true },
            "completions": {},
            "logging": {},
        },
        "serverInfo": { "name": "tollgate", "version": env!("CARGO_PKG_VERSION") },
        "instructions": "Several servers behind one gate. A tool's name begins with its server's, as in `server__tool`.",
    });
    let accesses = || context.grantee.accesses.values().filter(|access| access.rules.is_some());
    let offers = |what: &str| accesses().any(|access| access.server.may_offer(what));
    let all = result.get_mut("capabilities").and_then(serde_json::Value::as_object_mut);
    if let Some(all) = all.filter(|_| offers(skills::EXTENSION)) {
        let settings = json!({ "directoryRead": offers(skills::DIRECTORY_READ) });
        all.insert("extensions".to_owned(), json!({ skills::EXTENSION: settings }));
    }
    result
}

/// Whether the server can be used after a sign-in of this grant. The client is connected without it, so that a
/// call can ask for the sign-in.
fn can_sign_in_later(error: &UpstreamError) -> bool {
    matches!(error, UpstreamError::SignIn { page: Some(_), .. })
}

/// What a server that is not open yet may offer.
fn unopened_server_result(context: &RequestContext, agreed: Revision) -> serde_json::Value {
    let mut result = gate_initialize_result(context, agreed);
    if let Some(object) = result.as_object_mut() {
        object.remove("instructions");
    }
    result
}

/// Answers a ping.
pub(crate) async fn ping(incoming: &IncomingRequest<'_>) -> Outbound {
    respond_directly(incoming, "{}").await
}

pub(super) async fn respond_directly(incoming: &IncomingRequest<'_>, result: &str) -> Outbound {
    let server = incoming.context.endpoint.server().unwrap_or_default();
    match incoming.context.record_passed(&incoming.request.method_name, server).await {
        Ok(()) => Outbound::ok(result_body(&incoming.request.id, result)),
        Err(error) => ledger_failure_response(incoming, &error),
    }
}

fn ledger_failure_response(
    incoming: &IncomingRequest<'_>,
    error: &store::ledger::LedgerError,
) -> Outbound {
    Outbound::ok(error_responses::denied(
        &incoming.request.id,
        &error_responses::ledger_failure(error),
    ))
}

/// `server/discover` for a modern client.
pub(crate) async fn discover(incoming: &IncomingRequest<'_>) -> Outbound {
    let Some(access) = incoming.context.only() else {
        let own = gate_initialize_result(incoming.context, Revision::LEGACY_NEWEST);
        let result = translate::discover_result(&own);
        return respond_directly(incoming, &result.to_string()).await;
    };
    let permit = match incoming.context.own_act("server/discover", &access.server.name).await {
        Ok(permit) => permit,
        Err(error) => return ledger_failure_response(incoming, &error),
    };
    match connect::peer_for(incoming.context, access, incoming.era, &permit).await {
        Ok(peer) if peer.era == Era::Legacy => {
            let result = translate::discover_result(&peer.initialize_result);
            permits::settle(permit, Ending::Ok);
            Outbound::ok(result_body(&incoming.request.id, &result.to_string()))
        }
        Ok(_) => {
            incoming.reuse_permit(permit);
            call::carry(
                incoming,
                &Target { access, subject: None, task_of: None, rename: None },
                None,
            )
            .await
        }
        Err(error) if can_sign_in_later(&error) => {
            permits::release(permit, &error.to_string());
            let result = unopened_server_result(incoming.context, Revision::LEGACY_NEWEST);
            let result = translate::discover_result(&result);
            Outbound::ok(result_body(&incoming.request.id, &result.to_string()))
        }
        Err(error) => {
            permits::release(permit, &error.to_string());
            Outbound::ok(error_responses::upstream_failed(
                &incoming.request.id,
                &access.server.name,
                &error,
            ))
        }
    }
}
