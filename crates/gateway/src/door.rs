//! One HTTP request becomes one message, or is turned away with its reason and its audit row.

mod away;
mod media;
mod pages;
mod relay;
mod routes;

use std::sync::Arc;

use hyper::header::{
    ACCEPT, ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HeaderName,
    HeaderValue, WWW_AUTHENTICATE,
};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};

use self::away::{Rejected, turned_away};
use self::relay::relay;
use self::routes::Route;
use crate::gate::Gate;
use crate::hooks;
use crate::in_force::{Holder, Lease};
use crate::outbound::{Outbound, Pieces};
use crate::receive;
use crate::scene::{Endpoint, Scene, Transport};
use crate::serve::{AllowedHosts, Arriving, Body, Gathered, Remote, Ungathered, gather};
use crate::session::Session;
use crate::via::{Loop, Via};

pub(crate) use self::away::TurnedAway;
pub use self::routes::addresses;

pub(crate) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
pub(crate) const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const NO_GRANT: &str = "this grant is not known, has expired, or was revoked";
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Room among the requests of one grant that may be in flight.
type Place = tokio::sync::OwnedSemaphorePermit;

/// Answers one HTTP request.
pub(crate) async fn answer(
    gate: Arc<Gate>,
    hosts: Arc<AllowedHosts>,
    remote: Remote,
    request: Request<Arriving>,
) -> Response<Body> {
    let in_chunks = match media::in_chunks(request.headers()) {
        Ok(in_chunks) => in_chunks,
        Err(away) => return turned_away(&gate, &remote, &away.into()),
    };
    let mut response = match enter(&gate, &hosts, &remote, request).await {
        Ok(response) => response,
        Err(rejected) => turned_away(&gate, &remote, &rejected),
    };
    if in_chunks {
        // A `Content-Length` beside chunks is gone before anybody here sees it, so what comes after
        // the chunks may be what a proxy in front took for the body.
        response.headers_mut().insert(hyper::header::CONNECTION, media::CLOSE);
    }
    response
}

/// What never became a request, recorded, and the answer to it.
pub(crate) fn broken(
    gate: &Gate,
    remote: &Remote,
    status: u16,
    words: &'static str,
) -> Response<Body> {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
    let busy = status == StatusCode::SERVICE_UNAVAILABLE;
    let header = busy.then(|| (hyper::header::RETRY_AFTER, HeaderValue::from_static("1")));
    turned_away(gate, remote, &TurnedAway { status, words, header }.into())
}

async fn enter(
    gate: &Arc<Gate>,
    hosts: &AllowedHosts,
    remote: &Remote,
    request: Request<Arriving>,
) -> Result<Response<Body>, Rejected> {
    let addressed = hosts.check(request.headers()).and_then(|()| hosts.check_target(request.uri()));
    if let Err(misdirected) = addressed {
        return Err(TurnedAway::new(StatusCode::FORBIDDEN, misdirected.words()).into());
    }
    let server = match routes::route(request.uri().path()) {
        Some((Route::All, _)) => None,
        Some((Route::Server, name)) => Some(name),
        Some((Route::Metrics, _)) => return Ok(pages::metrics(gate, &request)?),
        Some((Route::PolicySchema, _)) => return Ok(pages::policy_schema(&request)?),
        Some((Route::Hook, service)) => {
            let service = service.to_owned();
            return Ok(Box::pin(hooks::receive(gate, remote, &service, request)).await?);
        }
        None => return Err(nothing_here().into()),
    };
    let (holder, lease) = identify(gate, request.headers())?;
    if !remote.let_stay(&holder.id) {
        let away = TurnedAway {
            status: StatusCode::SERVICE_UNAVAILABLE,
            words: "as many connections of this grant are open as `connections_per_grant_max` allows; use those, or close some",
            header: Some((hyper::header::CONNECTION, media::CLOSE)),
        };
        return Err(Rejected { away, holder: Some(holder), refused: None });
    }
    let known = Arc::clone(&holder);
    let endpoint = endpoint(&known, server);
    let answered = at_mcp(gate, remote, (holder, lease), endpoint, request).await;
    answered.map_err(|away| Rejected { away, holder: Some(known), refused: None })
}

fn nothing_here() -> TurnedAway {
    TurnedAway::new(StatusCode::NOT_FOUND, "there is nothing at this address")
}

fn endpoint(holder: &Holder, server: Option<&str>) -> Option<Endpoint> {
    let Some(name) = server else { return Some(Endpoint::All) };
    holder.holdings.get_key_value(name).map(|(name, _)| Endpoint::One(Arc::clone(name)))
}

async fn at_mcp(
    gate: &Arc<Gate>,
    remote: &Remote,
    (holder, lease): (Arc<Holder>, Lease),
    endpoint: Option<Endpoint>,
    request: Request<Arriving>,
) -> Result<Response<Body>, TurnedAway> {
    let endpoint = endpoint.ok_or_else(|| {
        TurnedAway::new(StatusCode::NOT_FOUND, "this grant holds no server of that name")
    })?;
    let via = Via::of(request.headers(), &gate.instance).map_err(|why| went_round(&why))?;
    let Some(place) = holder.place() else {
        return Err(TurnedAway {
            status: StatusCode::TOO_MANY_REQUESTS,
            words: "as many requests of this grant are in flight as `in_flight_per_grant_max` allows; wait for their answers",
            header: Some((hyper::header::RETRY_AFTER, HeaderValue::from_static("1"))),
        });
    };
    let scene = Scene {
        gate: Arc::clone(gate),
        holder,
        lease,
        endpoint,
        session: None,
        transport: Transport::Http { remote: remote.clone() },
        via,
        flights: None,
    };
    match *request.method() {
        // In the connection's own memory: every call would allocate it anew. What is rare is boxed.
        Method::POST => post(scene, request, place).await,
        Method::GET => Box::pin(get(scene, request.headers())).await,
        Method::DELETE => Box::pin(delete(scene, request.headers())).await,
        _ => Err(not_allowed()),
    }
}

fn went_round(why: &Loop) -> TurnedAway {
    match why {
        Loop::Here => TurnedAway::new(
            StatusCode::LOOP_DETECTED,
            "this request came through this gate before: the address of a server leads back to the gate; see `tollgate server list`",
        ),
        Loop::TooLong => TurnedAway::new(
            StatusCode::BAD_REQUEST,
            "the Tollgate-Via header names more gates than a request may pass",
        ),
    }
}

fn not_allowed() -> TurnedAway {
    TurnedAway {
        status: StatusCode::METHOD_NOT_ALLOWED,
        words: "this address takes POST, and GET and DELETE for sessions",
        header: Some((ALLOW, HeaderValue::from_static("POST, GET, DELETE"))),
    }
}

/// The grant that the bearer token names. A token is compared by its hash.
fn identify(gate: &Gate, headers: &HeaderMap) -> Result<(Arc<Holder>, Lease), Rejected> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = values.next().ok_or_else(|| {
        unknown("a grant is needed: send `Authorization: Bearer tg_…`; make one with `tollgate grant create`")
    })?;
    if values.next().is_some() {
        return Err(unknown("there is more than one Authorization header").into());
    }
    let token =
        bearer(value).ok_or_else(|| unknown("the Authorization header must read `Bearer tg_…`"))?;
    gate.holder_of(token).ok_or_else(|| {
        let refused = Some(Box::new(gate.why_refused(token)));
        Rejected { away: unknown(NO_GRANT), holder: None, refused }
    })
}

/// The token of an Authorization header; the name of the scheme may be written in any case.
fn bearer(value: &HeaderValue) -> Option<&str> {
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn unknown(words: &'static str) -> TurnedAway {
    const REALM: HeaderValue = HeaderValue::from_static("Bearer realm=\"tollgate\"");
    TurnedAway { status: StatusCode::UNAUTHORIZED, words, header: Some((WWW_AUTHENTICATE, REALM)) }
}

async fn post(
    mut scene: Scene,
    request: Request<Arriving>,
    place: Place,
) -> Result<Response<Body>, TurnedAway> {
    let (head, body) = request.into_parts();
    media::check(&head.headers)?;
    let body = read_body(&scene.gate, &head.headers, body).await?;
    if let Some(id) = only(&head.headers, &SESSION_ID)? {
        scene.session = session_named(&scene, id, &body.bytes, &head.headers)?;
    }
    let received = receive::unless_revoked(&scene, &body.bytes, &head.headers).await;
    let outbound = received.ok_or_else(|| unknown(NO_GRANT))?;
    // What a client listens to may stay open for days and is not worked on.
    let listens = matches!(outbound, Outbound::Many(_)) && receive::listens(&body.bytes);
    // The table of the request's headers, emptied, is the table of the answer's: the connection hands
    // it on to the next request, and none has to be made.
    let mut headers = head.headers;
    headers.clear();
    Ok(respond(scene, outbound, (!listens).then_some(place), headers))
}

/// The value of a header that may stand once. Two of them have two meanings.
fn only<'h>(
    headers: &'h HeaderMap,
    name: &HeaderName,
) -> Result<Option<&'h HeaderValue>, TurnedAway> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    if values.next().is_some() {
        return Err(TurnedAway::new(
            StatusCode::BAD_REQUEST,
            "the Mcp-Session-Id header was sent more than once",
        ));
    }
    Ok(first)
}

/// The session a header names. A 2026-07-28 request has none, whatever its headers say.
fn session_named(
    scene: &Scene,
    id: &HeaderValue,
    body: &[u8],
    headers: &HeaderMap,
) -> Result<Option<Arc<Session>>, TurnedAway> {
    if receive::names_modern(headers) {
        return Ok(None);
    }
    let found = id
        .to_str()
        .ok()
        .and_then(|id| scene.gate.sessions.find(id, &scene.holder.id, scene.endpoint.server()));
    match found {
        Some(session) => Ok(Some(session)),
        None if receive::opens_session(body) => Ok(None),
        None => Err(no_session()),
    }
}

fn no_session() -> TurnedAway {
    TurnedAway::new(
        StatusCode::NOT_FOUND,
        "there is no such session here; start again with initialize",
    )
}

async fn read_body(
    gate: &Gate,
    headers: &HeaderMap,
    body: Arriving,
) -> Result<Gathered, TurnedAway> {
    let announced =
        headers.get(CONTENT_LENGTH).and_then(|n| n.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|bytes| bytes > gate.bounds.body_bytes_max) {
        return Err(not_read(Ungathered::TooLarge));
    }
    gather(body, &gate.bounds).await.map_err(not_read)
}

fn not_read(why: Ungathered) -> TurnedAway {
    let (status, words) = match why {
        Ungathered::TooLarge => {
            (StatusCode::PAYLOAD_TOO_LARGE, "the message is larger than `body_bytes_max`")
        }
        Ungathered::CutOff => (StatusCode::BAD_REQUEST, "the message was cut off"),
        Ungathered::TooSlow => (StatusCode::REQUEST_TIMEOUT, "the message took too long to arrive"),
        Ungathered::NoRoom => {
            (StatusCode::TOO_MANY_REQUESTS, "too many large messages at once; try again")
        }
    };
    let header = (why == Ungathered::NoRoom)
        .then(|| (hyper::header::RETRY_AFTER, HeaderValue::from_static("1")));
    TurnedAway { status, words, header }
}

/// The stream of what servers say on their own, for sessions.
async fn get(mut scene: Scene, headers: &HeaderMap) -> Result<Response<Body>, TurnedAway> {
    scene.session = Some(session_of(&scene, headers)?);
    let wanted = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !wanted.contains("text/event-stream") && !wanted.contains("*/*") {
        return Err(TurnedAway::new(
            StatusCode::NOT_ACCEPTABLE,
            "the client must accept `text/event-stream`",
        ));
    }
    let last = headers.get(LAST_EVENT_ID).and_then(|value| value.to_str().ok());
    let opened = crate::listen::open(&scene, last).await;
    // One request is one row: asking a server for its stream is one already.
    match opened.pieces {
        None if opened.is_recorded => Ok(away::words(&not_allowed(), None)),
        None => Err(not_allowed()),
        Some(pieces) => {
            let server = scene.endpoint.server().unwrap_or_default();
            if !opened.is_recorded && scene.gate.note_passed(&scene, "(stream)", server).is_err() {
                return Err(no_row());
            }
            // It may stay open for days and is no request that is being worked on.
            Ok(event_stream(scene, pieces, None))
        }
    }
}

fn no_row() -> TurnedAway {
    let words = "the audit log cannot be written, so nothing is let through";
    TurnedAway::new(StatusCode::SERVICE_UNAVAILABLE, words)
}

async fn delete(mut scene: Scene, headers: &HeaderMap) -> Result<Response<Body>, TurnedAway> {
    let session = session_of(&scene, headers)?;
    scene.session = Some(Arc::clone(&session));
    let server = scene.endpoint.server().unwrap_or_default();
    if let Err(error) = scene.gate.note_passed(&scene, "(session end)", server) {
        tracing::error!(%error, "the end of a session could not be recorded");
    }
    scene.gate.end_session(&session.id).await;
    Ok(plain(StatusCode::OK, Body::empty()))
}

fn session_of(scene: &Scene, headers: &HeaderMap) -> Result<Arc<Session>, TurnedAway> {
    let modern = headers.get(&PROTOCOL_VERSION).is_some_and(|version| version == "2026-07-28");
    let id = match only(headers, &SESSION_ID)? {
        Some(id) if !modern => id.to_str().unwrap_or_default(),
        _ if modern => return Err(not_allowed()),
        _ => {
            return Err(TurnedAway::new(
                StatusCode::BAD_REQUEST,
                "the Mcp-Session-Id header is missing",
            ));
        }
    };
    scene.gate.sessions.find(id, &scene.holder.id, scene.endpoint.server()).ok_or_else(no_session)
}

/// The answer, with `table` for its headers.
fn respond(
    scene: Scene,
    outbound: Outbound,
    place: Option<Place>,
    table: HeaderMap,
) -> Response<Body> {
    match outbound {
        Outbound::Accepted => plain_in(table, StatusCode::ACCEPTED, Body::empty()),
        Outbound::Silent => event_stream_head(Body::empty()),
        Outbound::One { status, body, session } => {
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
            let mut response = plain_in(table, status, Body::whole(body));
            let headers = response.headers_mut();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            if let Some(id) = session.and_then(|id| HeaderValue::from_str(&id).ok()) {
                headers.insert(SESSION_ID, id);
            }
            response
        }
        Outbound::Many(pieces) => event_stream(scene, pieces, place),
    }
}

pub(crate) fn plain(status: StatusCode, body: Body) -> Response<Body> {
    plain_in(HeaderMap::new(), status, body)
}

fn plain_in(table: HeaderMap, status: StatusCode, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = table;
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn event_stream_head(body: Body) -> Response<Body> {
    let mut response = plain(StatusCode::OK, body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// The place of a request among those in flight goes with its stream: it is worked on until that ends.
fn event_stream(scene: Scene, pieces: Pieces, place: Option<Place>) -> Response<Body> {
    let (feed, body) = Body::pieces();
    tokio::spawn(async move {
        relay(scene, pieces, feed).await;
        drop(place);
    });
    event_stream_head(body)
}
