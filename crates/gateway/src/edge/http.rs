//! One HTTP request becomes one message, or is rejected with a reason and an audit row.

mod media;
mod pages;
mod reach;
mod registry_view;
mod rejection;
mod relay;
mod routes;
mod sessions;

use std::sync::Arc;

use hyper::header::{
    ACCEPT, ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HeaderName,
    HeaderValue, WWW_AUTHENTICATE,
};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};

use self::rejection::{RejectedRequest, loop_rejection, reject};
use self::relay::relay;
use self::routes::Route;
use self::sessions::{session_header, session_named, session_of};
use crate::edge::Edge;
use crate::edge::dispatch;
use crate::edge::owner_pages;
use crate::edge::serve::{
    Body, BodyError, BufferedBody, HostError, IncomingBody, Remote, read_buffered,
};
use crate::edge::sign_in_callback;
use crate::edge::webhooks;
use crate::exchange::context::{Endpoint, RequestContext, Transport};
use crate::exchange::outbound::{Outbound, ResponseParts};
use crate::exchange::state::SharedState;
use crate::runtime::bounds::Bounds;
use crate::runtime::loop_detection::Via;
use crate::snapshot::{Grantee, Lease};

pub(crate) use self::rejection::Rejection;
pub use self::routes::{CALLBACK, addresses};

pub(crate) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
pub(crate) const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const NO_GRANT: &str = "this grant is not known, has expired, or was revoked";
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// One of the in-flight requests that a grant may have.
type InFlightSlot = tokio::sync::OwnedSemaphorePermit;

/// Handles one HTTP request.
pub(crate) async fn answer(
    edge: Arc<Edge>,
    remote: Remote,
    request: Request<IncomingBody>,
) -> Response<Body> {
    let is_chunked = match media::is_chunked(request.headers()) {
        Ok(is_chunked) => is_chunked,
        Err(rejection) => return reject(&edge.state, &remote, &rejection.into()),
    };
    let mut response = match route(&edge, &remote, request).await {
        Ok(response) => response,
        Err(rejected) => reject(&edge.state, &remote, &rejected),
    };
    if is_chunked {
        // hyper drops a `Content-Length` sent together with chunks before we see it, so a proxy in
        // front may have framed the body differently. Do not read another request from this
        // connection.
        response.headers_mut().insert(hyper::header::CONNECTION, media::CLOSE);
    }
    response
}

/// Records a connection that never sent a valid request, and makes the response to it.
pub(crate) fn reject_connection(
    edge: &Edge,
    remote: &Remote,
    status: u16,
    message: &'static str,
) -> Response<Body> {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
    let busy = status == StatusCode::SERVICE_UNAVAILABLE;
    let header = busy.then(|| (hyper::header::RETRY_AFTER, HeaderValue::from_static("1")));
    reject(&edge.state, remote, &Rejection { status, message, header }.into())
}

async fn route(
    edge: &Arc<Edge>,
    remote: &Remote,
    request: Request<IncomingBody>,
) -> Result<Response<Body>, RejectedRequest> {
    let at = request.uri().path();
    let routed = routes::route(at);
    let is_registry = matches!(routed, Some((Route::Registry, _)));
    let is_probe = matches!(routed, Some((Route::Live | Route::Ready, _)));
    let host = if is_probe {
        // A probe names the address of the machine as its host, and learns one bit.
        Ok(())
    } else if is_registry {
        edge.hosts.check_host(request.headers())
    } else {
        edge.hosts.check(request.headers())
    };
    let host = match host {
        // Web clients sign in from their own origin.
        Err(HostError::Origin) if edge.is_for_programs(at) => Ok(()),
        checked => checked,
    };
    let check_target = |()| if is_probe { Ok(()) } else { edge.hosts.check_target(request.uri()) };
    let addressed = host.and_then(check_target);
    if let Err(host_error) = addressed {
        return Err(Rejection::new(StatusCode::FORBIDDEN, host_error.message()).into());
    }
    let server = match routed {
        Some((Route::All, _)) => None,
        Some((Route::Server, name)) => Some(name),
        Some((Route::Live | Route::Ready, _)) => return Ok(pages::probe(&edge.state, &request)?),
        Some((Route::Metrics, _)) => return Ok(pages::metrics(&edge.state, &request)?),
        Some((Route::PolicySchema, _)) => return Ok(pages::policy_schema(&request)?),
        Some((Route::Registry, _)) => return Ok(registry_view::answer(edge, remote, &request)),
        Some((Route::Webhook, service)) => {
            let service = service.to_owned();
            return Ok(Box::pin(webhooks::receive(edge, remote, &service, request)).await?);
        }
        Some((Route::SignInCallback, _)) => {
            return Ok(Box::pin(sign_in_callback::receive(edge, remote, &request)).await?);
        }
        None => {
            let Some(pages) = edge.pages_for(&request) else { return Err(not_found().into()) };
            let page = owner_pages::respond(edge, pages.as_ref(), remote, request);
            return Ok(Box::pin(page).await?);
        }
    };
    let (grantee, lease) = authenticate(&edge.state, request.headers(), server)
        .map_err(|rejected| edge.challenge(rejected, server))?;
    if !remote.register_grant(&grantee.id) {
        let rejection = Rejection {
            status: StatusCode::SERVICE_UNAVAILABLE,
            message: "this grant has `connections_per_grant_max` open connections; use those or close some",
            header: Some((hyper::header::CONNECTION, media::CLOSE)),
        };
        return Err(RejectedRequest { rejection, grantee: Some(grantee), audit_reason: None });
    }
    let known = Arc::clone(&grantee);
    let endpoint = endpoint(&known, server);
    let named = endpoint.clone();
    let answered = handle_mcp(&edge.state, remote, (grantee, lease), endpoint, request).await;
    answered.map_err(|rejection| {
        let rejected = RejectedRequest { rejection, grantee: Some(known), audit_reason: None };
        edge.challenge(rejected, named.as_ref().and_then(Endpoint::server))
    })
}

fn not_found() -> Rejection {
    Rejection::new(StatusCode::NOT_FOUND, "not found")
}

fn no_server() -> Rejection {
    Rejection::new(StatusCode::NOT_FOUND, "this grant has no server of that name")
}

fn endpoint(grantee: &Grantee, server: Option<&str>) -> Option<Endpoint> {
    let Some(name) = server else { return Some(Endpoint::All) };
    grantee.accesses.get_key_value(name).map(|(name, _)| Endpoint::One(Arc::clone(name)))
}

async fn handle_mcp(
    state: &Arc<SharedState>,
    remote: &Remote,
    (grantee, lease): (Arc<Grantee>, Lease),
    endpoint: Option<Endpoint>,
    request: Request<IncomingBody>,
) -> Result<Response<Body>, Rejection> {
    let endpoint = endpoint.ok_or_else(no_server)?;
    let via =
        Via::of(request.headers(), &state.services.instance).map_err(|why| loop_rejection(&why))?;
    let Some(slot) = grantee.try_slot() else {
        return Err(Rejection {
            status: StatusCode::TOO_MANY_REQUESTS,
            message: "this grant has `in_flight_per_grant_max` requests in flight; wait for their responses",
            header: Some((hyper::header::RETRY_AFTER, HeaderValue::from_static("1"))),
        });
    };
    let context = RequestContext {
        state: Arc::clone(state),
        grantee,
        lease,
        endpoint,
        session: None,
        transport: Transport::Http { remote: remote.address() },
        via,
        client_requests: None,
    };
    match *request.method() {
        // Not boxed: that would cost every call an allocation. Rare methods are boxed.
        Method::POST => post(context, request, slot).await,
        Method::GET => Box::pin(get(context, request.headers())).await,
        Method::DELETE => Box::pin(delete(context, request.headers())).await,
        _ => Err(not_allowed()),
    }
}

fn not_allowed() -> Rejection {
    Rejection {
        status: StatusCode::METHOD_NOT_ALLOWED,
        message: "only POST is allowed here, and GET and DELETE for sessions",
        header: Some((ALLOW, HeaderValue::from_static("POST, GET, DELETE"))),
    }
}

/// The grant of the bearer token. Tokens are compared by their hash.
fn authenticate(
    state: &SharedState,
    headers: &HeaderMap,
    server: Option<&str>,
) -> Result<(Arc<Grantee>, Lease), RejectedRequest> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = values.next().ok_or_else(|| {
        unauthorized("authorization needed: send `Authorization: Bearer tg_…`; create a grant with `tollgate grant create`")
    })?;
    if values.next().is_some() {
        return Err(unauthorized("there is more than one Authorization header").into());
    }
    let token = bearer(value)
        .ok_or_else(|| unauthorized("the Authorization header must read `Bearer tg_…`"))?;
    let now_us = state.services.now_us();
    state.snapshots.grantee_of(token, server, now_us).ok_or_else(|| {
        let audit_reason = Some(state.snapshots.token_refusal_reason(token, now_us).into());
        RejectedRequest { rejection: unauthorized(NO_GRANT), grantee: None, audit_reason }
    })
}

/// The token of an Authorization header. The scheme is case-insensitive.
fn bearer(value: &HeaderValue) -> Option<&str> {
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn unauthorized(message: &'static str) -> Rejection {
    const REALM: HeaderValue = HeaderValue::from_static("Bearer realm=\"tollgate\"");
    Rejection { status: StatusCode::UNAUTHORIZED, message, header: Some((WWW_AUTHENTICATE, REALM)) }
}

async fn post(
    mut context: RequestContext,
    request: Request<IncomingBody>,
    slot: InFlightSlot,
) -> Result<Response<Body>, Rejection> {
    let (head, body) = request.into_parts();
    media::check(&head.headers)?;
    let body = read_body(&context.services().bounds, &head.headers, body).await?;
    renew_grantee(&mut context)?;
    if let Some(id) = session_header(&head.headers)? {
        context.session = session_named(&context, id, &body.bytes, &head.headers)?;
    }
    let received = dispatch::receive_unless_revoked(&context, &body.bytes, &head.headers).await;
    let outbound = received.ok_or_else(|| unauthorized(NO_GRANT))?;
    // A subscription may stay open for days and does not count as in flight.
    let listens = matches!(outbound, Outbound::Many(_)) && dispatch::is_subscription(&body.bytes);
    // The response reuses the request's header map, which saves an allocation per request.
    let mut headers = head.headers;
    headers.clear();
    Ok(respond(context, outbound, (!listens).then_some(slot), headers))
}

/// The grant as it is now: it may have been revoked or changed while the body arrived.
fn renew_grantee(context: &mut RequestContext) -> Result<(), Rejection> {
    let is_revoked = *context.lease.borrow();
    let now = context.state.snapshots.current_grantee(&context.grantee, None);
    let now = now.filter(|_| !is_revoked).ok_or_else(|| unauthorized(NO_GRANT))?;
    if context.endpoint.server().is_some_and(|server| !now.accesses.contains_key(server)) {
        return Err(no_server());
    }
    context.grantee = now;
    Ok(())
}

async fn read_body(
    bounds: &Bounds,
    headers: &HeaderMap,
    body: IncomingBody,
) -> Result<BufferedBody, Rejection> {
    let announced =
        headers.get(CONTENT_LENGTH).and_then(|n| n.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|bytes| bytes > bounds.body_bytes_max) {
        return Err(body_rejection(BodyError::TooLarge));
    }
    read_buffered(body, bounds).await.map_err(body_rejection)
}

fn body_rejection(why: BodyError) -> Rejection {
    let (status, message) = match why {
        BodyError::TooLarge => {
            (StatusCode::PAYLOAD_TOO_LARGE, "the message is larger than `body_bytes_max`")
        }
        BodyError::CutOff => (StatusCode::BAD_REQUEST, "the message was cut off"),
        BodyError::TooSlow => (StatusCode::REQUEST_TIMEOUT, "the message took too long to arrive"),
        BodyError::BufferFull => {
            (StatusCode::TOO_MANY_REQUESTS, "buffer for large messages full; retry later")
        }
    };
    let header = (why == BodyError::BufferFull)
        .then(|| (hyper::header::RETRY_AFTER, HeaderValue::from_static("1")));
    Rejection { status, message, header }
}

/// The session's stream of server-initiated messages.
async fn get(
    mut context: RequestContext,
    headers: &HeaderMap,
) -> Result<Response<Body>, Rejection> {
    let session = session_of(&context, headers)?;
    context.session = Some(Arc::clone(&session));
    let wanted = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !wanted.contains("text/event-stream") && !wanted.contains("*/*") {
        return Err(Rejection::new(
            StatusCode::NOT_ACCEPTABLE,
            "the client must accept `text/event-stream`",
        ));
    }
    let last = headers.get(LAST_EVENT_ID).and_then(|value| value.to_str().ok());
    let opened = crate::notify::server_streams::open(&context, &session, last).await;
    // One audit row per request: asking a server for its stream may have written it.
    let server = context.endpoint.server().unwrap_or_default();
    if !opened.is_recorded && context.record_passed("(stream)", server).await.is_err() {
        return Err(ledger_unavailable());
    }
    // It may stay open for days and does not count as in flight.
    Ok(event_stream(context, opened.pieces, None))
}

fn ledger_unavailable() -> Rejection {
    let message = "the audit log cannot be written, so requests are refused";
    Rejection::new(StatusCode::SERVICE_UNAVAILABLE, message)
}

async fn delete(
    mut context: RequestContext,
    headers: &HeaderMap,
) -> Result<Response<Body>, Rejection> {
    let session = session_of(&context, headers)?;
    context.session = Some(Arc::clone(&session));
    let server = context.endpoint.server().unwrap_or_default();
    if let Err(error) = context.record_passed("(session end)", server).await {
        tracing::error!(%error, "could not record the end of a session");
    }
    context.state.sessions.end(&session.id).await;
    Ok(base_response(StatusCode::OK, Body::empty()))
}

/// The HTTP response; `header_map` becomes its header map.
fn respond(
    context: RequestContext,
    outbound: Outbound,
    slot: Option<InFlightSlot>,
    header_map: HeaderMap,
) -> Response<Body> {
    match outbound {
        Outbound::Accepted => base_response_in(header_map, StatusCode::ACCEPTED, Body::empty()),
        Outbound::NoResponse => event_stream_head(Body::empty()),
        Outbound::One { status, body, session } => {
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
            let mut response = base_response_in(header_map, status, Body::complete(body));
            let headers = response.headers_mut();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            if let Some(id) = session.and_then(|id| HeaderValue::from_str(&id).ok()) {
                headers.insert(SESSION_ID, id);
            }
            response
        }
        Outbound::Many(pieces) => event_stream(context, pieces, slot),
    }
}

pub(crate) fn base_response(status: StatusCode, body: Body) -> Response<Body> {
    base_response_in(HeaderMap::new(), status, body)
}

fn base_response_in(header_map: HeaderMap, status: StatusCode, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = header_map;
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn event_stream_head(body: Body) -> Response<Body> {
    let mut response = base_response(StatusCode::OK, body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// The stream holds the in-flight slot of its request until it ends.
fn event_stream(
    context: RequestContext,
    pieces: ResponseParts,
    slot: Option<InFlightSlot>,
) -> Response<Body> {
    let (feed, body) = Body::streamed();
    tokio::spawn(async move {
        relay(context, pieces, feed).await;
        drop(slot);
    });
    event_stream_head(body)
}
