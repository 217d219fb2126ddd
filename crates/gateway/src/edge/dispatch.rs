//! Dispatch of client messages: a message is parsed strictly or refused, its era is determined, and
//! it goes to the handler of its method.

use std::pin::pin;
use std::sync::Mutex;

use bytes::Bytes;
use hyper::HeaderMap;
use policy::json::{Bounds, Doc};
use store::ledger::HeldCall;

use crate::edge::http::PROTOCOL_VERSION;
use crate::exchange::aggregate;
use crate::exchange::call::{self, IncomingRequest, Target};
use crate::exchange::context::{Endpoint, RequestContext};
use crate::exchange::error_responses;
use crate::exchange::handshake;
use crate::exchange::log_level;
use crate::exchange::names;
use crate::exchange::outbound::Outbound;
use crate::exchange::own_tokens;
use crate::exchange::refuse::{id_of, refuse};
use crate::exchange::skills;
use crate::exchange::subject::subject;
use crate::notify::from_client;
use crate::notify::subscribe;
use crate::runtime::pacing;
use crate::runtime::stop_signal::unless_stopped;
use crate::session::{ClientResponse, ResponseTarget};
use mcp::{
    ClientCapabilities, Era, Message, Method, Outcome, ProtocolError, Request, Response, Revision,
    Sender, headers, meta_keys, result_body,
};

/// Handles one message.
pub(crate) async fn receive(
    context: &RequestContext,
    body: &Bytes,
    http: Option<&HeaderMap>,
) -> Outbound {
    pacing::note_request();
    process(context, body, http, None).await
}

/// Like [`receive`], but stops when the token or the grant ends: a revoked client gets no response,
/// as if it had disconnected.
pub(crate) async fn receive_unless_revoked(
    context: &RequestContext,
    body: &Bytes,
    http: &HeaderMap,
) -> Option<Outbound> {
    let mut revoked = context.lease.clone();
    let received = pin!(receive(context, body, Some(http)));
    unless_stopped(received, &mut revoked).await
}

/// Handles a message, possibly one that was parked for an approval.
pub(crate) async fn process(
    context: &RequestContext,
    body: &Bytes,
    http: Option<&HeaderMap>,
    held: Option<HeldCall>,
) -> Outbound {
    if let Some(session) = &context.session {
        session.touch(context.services().clock.now().wall_us);
    }
    let doc = match mcp::read(body) {
        Ok(doc) => doc,
        Err(refused) => return refuse(context, &refused, "(unreadable)"),
    };
    let message = match Message::of(&doc) {
        Ok(message) => message,
        Err(refused) => return refuse(context, &refused, "(invalid)"),
    };
    if let Some(refused) = own_tokens::refuse(context, body, doc.root(), &message) {
        return refused;
    }
    // Notifications and responses have no era of their own, but their headers must not contradict
    // the body.
    if let (Some(headers), Message::Notification(_) | Message::Response(_)) = (http, &message)
        && let Err(refused) = headers::era_of_post(&message, headers, &[Revision::NEWEST])
    {
        return refuse(context, &refused, message.method_name().unwrap_or("(response)"));
    }
    match &message {
        Message::Request(request) => {
            self::request(context, body, http, &message, request, held).await
        }
        Message::Notification(notification) => {
            Box::pin(from_client::handle(context, body, notification)).await
        }
        Message::Response(response) => Box::pin(self::response(context, body, response)).await,
    }
}

/// The response to a line on standard input that is longer than the bound.
pub(crate) fn refuse_too_long(context: &RequestContext) -> Outbound {
    refuse(
        context,
        &ProtocolError::invalid("the message is larger than `body_bytes_max` allows"),
        "(unreadable)",
    )
}

/// The response to a request on standard input beyond the in-flight limit of its grant.
pub(crate) fn refuse_too_many(context: &RequestContext, body: &[u8]) -> Outbound {
    let message = format!(
        "{} requests of this grant are in flight (`in_flight_per_grant_max`); wait for their responses",
        context.services().bounds.in_flight_per_grant_max
    );
    let refused = ProtocolError::new(429, error_responses::code::RATE_LIMITED, message);
    let method = method_of(body).unwrap_or_default();
    refuse(context, &ProtocolError { id: id_of(body), ..refused }, &method)
}

/// The response to a large message on standard input when the buffer for large messages is full.
pub(crate) fn refuse_buffer_full(context: &RequestContext, body: &[u8]) -> Outbound {
    let message = "buffer for large messages full; retry later";
    let refused = ProtocolError::new(429, error_responses::code::RATE_LIMITED, message);
    let method = method_of(body).unwrap_or_default();
    refuse(context, &ProtocolError { id: id_of(body), ..refused }, &method)
}

/// Whether a message is a request, judged by its top-level members.
pub(crate) fn is_request(body: &[u8]) -> bool {
    Doc::read_shallow(body, &Bounds::MESSAGE, 1).is_ok_and(|doc| {
        let root = doc.root();
        root.get("method").is_some() && root.get("id").is_some()
    })
}

/// The error for a request whose handler panicked; its audit row says the same.
pub(crate) fn panic_response(body: &[u8]) -> Option<Bytes> {
    let id = id_of(body)?;
    let message = "internal error in the gate; whether the call happened is unknown";
    is_request(body).then(|| mcp::error_body(Some(&id), -32603, message, None).into())
}

/// Whether a message opens a subscription stream.
pub(crate) fn is_subscription(body: &[u8]) -> bool {
    method_of(body).as_deref() == Some("subscriptions/listen")
}

/// Whether a message is the handshake that opens a session.
pub(crate) fn opens_session(body: &[u8]) -> bool {
    method_of(body).as_deref() == Some("initialize")
}

/// Whether a request is of the modern era, where a session id in the headers has no meaning.
pub(crate) fn has_modern_version(http: &HeaderMap) -> bool {
    let named = http.get(&PROTOCOL_VERSION).and_then(|value| value.to_str().ok());
    named.is_some_and(|version| Era::of_version(version) == Era::Modern)
}

fn method_of(body: &[u8]) -> Option<String> {
    let doc = Doc::read_shallow(body, &Bounds::MESSAGE, 1).ok()?;
    Some(doc.root().get("method")?.as_str()?.into_owned())
}

async fn request(
    context: &RequestContext,
    body: &Bytes,
    http: Option<&HeaderMap>,
    message: &Message<'_>,
    request: &Request<'_>,
    held: Option<HeldCall>,
) -> Outbound {
    let era = match era_of(context, http, message, request) {
        Ok(era) => era,
        Err(refused) => {
            return refuse(context, &refused.with_id(&request.id), &request.method_name);
        }
    };
    // A modern request belongs to no session, so it is neither counted nor judged as part of one.
    let client_requests = context.client_requests();
    let sessionless = (era == Era::Modern && context.session.is_some())
        .then(|| RequestContext { session: None, ..context.clone() });
    let context = sessionless.as_ref().unwrap_or(context);
    if let Some(denial) = context.services().store_denial() {
        return store_failure(context, request, era, &denial);
    }
    let incoming = IncomingRequest {
        context,
        request,
        body,
        era,
        headers: http,
        client_capabilities: capabilities(context, era, request),
        logs: wants_logs(era, request),
        client: handshake::client_in_meta(request),
        resumed_approval: Mutex::new(held),
        existing_permit: Mutex::new(None),
    };
    // Over HTTP modern requests are independent; two clients may use one id.
    let in_flight = match client_requests.filter(|_| era == Era::Legacy || http.is_none()) {
        Some(client_requests) => {
            let Ok(in_flight) = client_requests.begin(&request.id) else {
                let refused =
                    ProtocolError::invalid("this id is already in flight").with_id(&request.id);
                return refuse(context, &refused, &request.method_name);
            };
            Some(in_flight)
        }
        None => None,
    };
    // Rare methods are boxed, so that the future of a call to one server stays small.
    match request.method {
        Method::Initialize => Box::pin(handshake::initialize(&incoming)).await,
        Method::Ping => handshake::ping(&incoming).await,
        Method::Discover => Box::pin(handshake::discover(&incoming)).await,
        Method::Listen => Box::pin(subscribe::listen(&incoming, in_flight)).await,
        Method::SetLevel => Box::pin(log_level::set_level(&incoming, in_flight)).await,
        _ => match &context.endpoint {
            Endpoint::All => Box::pin(aggregate::request(&incoming, in_flight)).await,
            Endpoint::One(_) => to_single_server(&incoming, in_flight).await,
        },
    }
}

/// The store failed, so the request is denied.
fn store_failure(
    context: &RequestContext,
    request: &Request<'_>,
    era: Era,
    denial: &policy::Denial,
) -> Outbound {
    let audit_id = context.record_denied(&request.method_name, denial);
    let denial = &policy::Denial { audit_id, ..denial.clone() };
    Outbound::ok(match request.method {
        Method::ToolsCall => error_responses::denied_call(&request.id, denial, era),
        _ => error_responses::denied(&request.id, denial),
    })
}

/// A request to the single server of this endpoint.
async fn to_single_server(
    incoming: &IncomingRequest<'_>,
    in_flight: Option<crate::session::InFlightGuard>,
) -> Outbound {
    let Some(access) = incoming.context.only() else {
        let refused = ProtocolError::invalid("this grant no longer has access to the server")
            .with_id(&incoming.request.id);
        return refuse(incoming.context, &refused, &incoming.request.method_name);
    };
    let named = match incoming.request.named() {
        Ok(named) => named,
        Err(refused) => return refuse(incoming.context, &refused, &incoming.request.method_name),
    };
    Box::pin(skills::learn(incoming, access, &named)).await;
    let about = match subject(incoming, &access.server.name, &named) {
        Ok(about) => about,
        Err(refused) => return refuse(incoming.context, &refused, &incoming.request.method_name),
    };
    let rename = if access.server.spec.options.map_names {
        Box::pin(names::own_name(incoming, access, &named)).await
    } else {
        None
    };
    let (subject, task_of) = (about.renamed(rename.as_deref()), about.task_of());
    let target = Target { access, subject, task_of, rename: rename.as_deref() };
    call::to_server(incoming, &target, &about, in_flight).await
}

/// The era of a request, after the checks that this era requires.
fn era_of(
    context: &RequestContext,
    http: Option<&HeaderMap>,
    message: &Message<'_>,
    request: &Request<'_>,
) -> Result<Era, ProtocolError> {
    let era = match http {
        Some(headers) => headers::era_of_post(message, headers, &[Revision::NEWEST])?,
        None => headers::era_of_body(message, &[Revision::NEWEST])?,
    };
    match era {
        Era::Modern if !request.method.is_in(Revision::NEWEST) => {
            Err(ProtocolError::unknown_method())
        }
        Era::Modern => Ok(era),
        Era::Legacy => {
            let header_version =
                http.and_then(|headers| headers.get(&PROTOCOL_VERSION)?.to_str().ok());
            check_legacy(context, request, header_version)?;
            check_legacy_method(request)?;
            Ok(era)
        }
    }
}

fn check_legacy(
    context: &RequestContext,
    request: &Request<'_>,
    header_version: Option<&str>,
) -> Result<(), ProtocolError> {
    if let Some(version) = header_version {
        let known = Revision::parse(version).filter(|revision| revision.era() == Era::Legacy);
        let Some(named) = known else {
            return Err(ProtocolError::invalid(
                "the MCP-Protocol-Version header names an unknown revision",
            ));
        };
        let agreed = context.session.as_ref().map(|session| session.revision);
        if request.method != Method::Initialize && agreed.is_some_and(|agreed| agreed != named) {
            return Err(ProtocolError::invalid(
                "the MCP-Protocol-Version header differs from the revision of this session",
            ));
        }
    }
    Ok(())
}

/// Methods that only servers send, and those of the modern era, do not exist in legacy revisions.
fn check_legacy_method(request: &Request<'_>) -> Result<(), ProtocolError> {
    if request.method.sender() == Sender::Server || request.method == Method::Listen {
        // In legacy revisions 404 means that the session is gone.
        return Err(ProtocolError { http_status: 200, ..ProtocolError::unknown_method() });
    }
    let rounds = ["requestState", "inputResponses"];
    let has = |key: &&&str| request.params.is_some_and(|params| params.get(key).is_some());
    match rounds.iter().find(has) {
        Some(key) if request.method != Method::Other => Err(ProtocolError::params(format!(
            "`{key}` belongs to revision 2026-07-28, which this request does not name"
        ))),
        _ => Ok(()),
    }
}

fn capabilities(context: &RequestContext, era: Era, request: &Request<'_>) -> ClientCapabilities {
    match (era, &context.session) {
        (Era::Modern, _) => ClientCapabilities::of(
            request.meta().and_then(|meta| meta.get(meta_keys::CLIENT_CAPABILITIES)),
        ),
        (Era::Legacy, Some(session)) => session.client_capabilities,
        (Era::Legacy, None) => ClientCapabilities::default(),
    }
}

fn wants_logs(era: Era, request: &Request<'_>) -> bool {
    era == Era::Legacy
        || request.meta().is_some_and(|meta| meta.get(meta_keys::LOG_LEVEL).is_some())
}

/// A client's response to a server request.
async fn response(context: &RequestContext, body: &Bytes, response: &Response<'_>) -> Outbound {
    let asked =
        context.session.as_ref().and_then(|session| session.take_server_request(&response.id));
    let Some(asked) = asked else {
        // Without the id: the client may have a request of its own with the same id.
        let refused = ProtocolError::invalid("no pending server request has this id");
        return refuse(context, &refused, "(response)");
    };
    match asked.to {
        ResponseTarget::Call(waiting) => {
            let answer = match response.outcome {
                Outcome::Result(result) => ClientResponse::Result(result.raw().to_owned()),
                Outcome::Error(error) => ClientResponse::Error(error.raw().to_owned()),
            };
            if let Err(error) = context.record_passed("(response)", "").await {
                let denial = error_responses::ledger_failure(&error);
                return Outbound::with_status(503, error_responses::denied(&response.id, &denial));
            }
            // The call no longer waits if it timed out or was cancelled.
            let _ = waiting.send(answer);
            Outbound::Accepted
        }
        ResponseTarget::Server { peer, id } => {
            from_client::pass_on(context, &peer, with_id(body, response, &id), true).await
        }
    }
}

fn with_id(body: &Bytes, response: &Response<'_>, id: &mcp::Id) -> Bytes {
    if response.id.raw() == id.raw() {
        return body.clone();
    }
    match response.outcome {
        Outcome::Result(result) => result_body(id, result.raw()).into(),
        Outcome::Error(error) => {
            format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"error\":{}}}", id.raw(), error.raw()).into()
        }
    }
}
