//! A message arrives: it has one meaning or is refused, it belongs to one era, and each kind of it
//! goes its own way.

mod about;

use std::pin::pin;
use std::sync::Mutex;

use bytes::Bytes;
use hyper::HeaderMap;
use policy::json::{Bounds, Doc};
use store::ledger::Waiting;

use crate::aggregate;
use crate::answers;
use crate::call::{self, Aim, Ask};
use crate::door::PROTOCOL_VERSION;
use crate::greet;
use crate::outbound::Outbound;
use crate::own_tokens;
use crate::scene::{Endpoint, Scene};
use crate::serve::unless_stopped;
use crate::session::{AnswerTo, ClientAnswer};
use crate::subscribe;
use crate::tell;
use crate::turns;
use crate::wire::{
    self, Era, Message, Method, Outcome, Refused, Request, Response, Revision, Sender, Takes,
    headers, meta_keys, result_body,
};

pub(crate) use about::{About, no_such_task, subject};

/// Answers one message.
pub(crate) async fn receive(scene: &Scene, body: &Bytes, http: Option<&HeaderMap>) -> Outbound {
    turns::asked();
    again(scene, body, http, None).await
}

/// The same unless its token or its grant ends first. Then it ends as if the client had hung up: nobody hears an
/// answer who has no grant any more.
pub(crate) async fn unless_revoked(
    scene: &Scene,
    body: &Bytes,
    http: &HeaderMap,
) -> Option<Outbound> {
    let mut revoked = scene.lease.clone();
    let received = pin!(receive(scene, body, Some(http)));
    unless_stopped(received, &mut revoked).await
}

/// Answers a message that was held for a human, now that there may be an answer.
pub(crate) async fn again(
    scene: &Scene,
    body: &Bytes,
    http: Option<&HeaderMap>,
    held: Option<Waiting>,
) -> Outbound {
    if let Some(session) = &scene.session {
        session.touch(scene.gate.clock.now().wall_us);
    }
    let doc = match wire::read(body) {
        Ok(doc) => doc,
        Err(refused) => return refuse(scene, &refused, "(unreadable)"),
    };
    let message = match Message::of(&doc) {
        Ok(message) => message,
        Err(refused) => return refuse(scene, &refused, "(invalid)"),
    };
    if let Some(refused) = own_tokens::refuse(scene, body, doc.root(), &message) {
        return refused;
    }
    // What asks for no answer has no era of its own, but its headers may not contradict it either.
    if let (Some(headers), Message::Notification(_) | Message::Response(_)) = (http, &message)
        && let Err(refused) = headers::era_of_post(&message, headers, &[Revision::NEWEST])
    {
        return refuse(scene, &refused, message.method_name().unwrap_or("(response)"));
    }
    match &message {
        Message::Request(request) => {
            self::request(scene, body, http, &message, request, held).await
        }
        Message::Notification(notification) => {
            Box::pin(tell::tell(scene, body, notification)).await
        }
        Message::Response(response) => Box::pin(self::response(scene, body, response)).await,
    }
}

/// Refuses a message and says so in the audit log.
pub(crate) fn refuse(scene: &Scene, refused: &Refused, method: &str) -> Outbound {
    match scene.gate.record_refused(scene, refused, method) {
        Ok(seq) => Outbound::with_status(refused.http_status, with_row(refused, seq).to_body()),
        Err(error) => {
            let denial = answers::no_record(&error);
            let body = wire::error_body(refused.id.as_ref(), refused.code, &denial.reason, None);
            Outbound::with_status(refused.http_status.max(400), body)
        }
    }
}

/// The refusal with the number of its row, unless the protocol has its own data there.
fn with_row(refused: &Refused, seq: u64) -> Refused {
    match refused.raw_data {
        Some(_) => refused.clone(),
        None => refused.clone().with_data(format!("{{\"audit_id\":{seq}}}")),
    }
}

/// A line over the bound, on standard input.
pub(crate) fn too_long(scene: &Scene) -> Outbound {
    refuse(
        scene,
        &Refused::invalid("the message is larger than `body_bytes_max` allows"),
        "(unreadable)",
    )
}

/// A request on standard input beyond what one grant may have under way.
pub(crate) fn too_many(scene: &Scene, body: &[u8]) -> Outbound {
    let words = format!(
        "{} requests of this grant are in flight (`in_flight_per_grant_max`); wait for their answers",
        scene.gate.bounds.in_flight_per_grant_max
    );
    let refused = Refused::new(429, answers::code::RATE_LIMITED, words);
    let method = method_of(body).unwrap_or_default();
    refuse(scene, &Refused { id: id_of(body), ..refused }, &method)
}

/// A large message on standard input while other large messages take all the memory for them.
pub(crate) fn no_room(scene: &Scene, body: &[u8]) -> Outbound {
    let words = "other large messages take all the memory for them; send it again later";
    let refused = Refused::new(429, answers::code::RATE_LIMITED, words);
    let method = method_of(body).unwrap_or_default();
    refuse(scene, &Refused { id: id_of(body), ..refused }, &method)
}

/// Whether a line asks for an answer, as far as its first members tell.
pub(crate) fn is_request(body: &[u8]) -> bool {
    Doc::read_shallow(body, &Bounds::MESSAGE, 1).is_ok_and(|doc| {
        let root = doc.root();
        root.get("method").is_some() && root.get("id").is_some()
    })
}

fn id_of(body: &[u8]) -> Option<wire::Id> {
    let doc = Doc::read_shallow(body, &Bounds::MESSAGE, 1).ok()?;
    doc.root().get("id").and_then(wire::Id::strict)
}

/// A message of a client whose grant is no longer in force.
pub(crate) fn revoked(scene: &Scene, body: &[u8]) -> Outbound {
    let id = id_of(body);
    let words = "this grant has expired or was revoked, or no longer holds this server";
    refuse(scene, &Refused { id, ..Refused::new(401, answers::code::DENIED, words) }, "(revoked)")
}

/// What is left to say to a request that a fault of ours broke off; its row says the same.
pub(crate) fn broken(body: &[u8]) -> Option<Bytes> {
    let id = id_of(body)?;
    let words = "the gate failed while it worked on this; whether the call happened is unknown";
    is_request(body).then(|| wire::error_body(Some(&id), -32603, words, None).into())
}

/// Whether a message asks for a stream of news.
pub(crate) fn listens(body: &[u8]) -> bool {
    method_of(body).as_deref() == Some("subscriptions/listen")
}

/// Whether a message is the handshake that opens a session.
pub(crate) fn opens_session(body: &[u8]) -> bool {
    method_of(body).as_deref() == Some("initialize")
}

/// Whether a request is of the era without sessions, so that a session id in its headers means nothing.
pub(crate) fn names_modern(http: &HeaderMap) -> bool {
    let named = http.get(&PROTOCOL_VERSION).and_then(|value| value.to_str().ok());
    named.is_some_and(|version| Era::of_version(version) == Era::Modern)
}

fn method_of(body: &[u8]) -> Option<String> {
    let doc = Doc::read_shallow(body, &Bounds::MESSAGE, 1).ok()?;
    Some(doc.root().get("method")?.as_str()?.into_owned())
}

async fn request(
    scene: &Scene,
    body: &Bytes,
    http: Option<&HeaderMap>,
    message: &Message<'_>,
    request: &Request<'_>,
    held: Option<Waiting>,
) -> Outbound {
    let era = match era_of(scene, http, message, request) {
        Ok(era) => era,
        Err(refused) => return refuse(scene, &refused.with_id(&request.id), &request.method_name),
    };
    // A request of the newer era belongs to no session, so it must not be counted or judged as part of one.
    let flights = scene.flights();
    let alone = (era == Era::Modern && scene.session.is_some())
        .then(|| Scene { session: None, ..scene.clone() });
    let scene = alone.as_ref().unwrap_or(scene);
    if let Some(denial) = scene.gate.trouble() {
        return in_trouble(scene, request, era, &denial);
    }
    let ask = Ask {
        scene,
        request,
        body,
        era,
        headers: http,
        takes: takes(scene, era, request),
        logs: wants_logs(era, request),
        client: greet::client_in_meta(request),
        held: Mutex::new(held),
        met: Mutex::new(None),
    };
    // Over HTTP every request of the newer era stands alone; two clients may use one id.
    let in_flight = match flights.filter(|_| era == Era::Legacy || http.is_none()) {
        Some(flights) => {
            let Ok(in_flight) = flights.depart(&request.id) else {
                let refused = Refused::invalid("this id is already in flight").with_id(&request.id);
                return refuse(scene, &refused, &request.method_name);
            };
            Some(in_flight)
        }
        None => None,
    };
    // What is rare is boxed, so that a call to one server stays small.
    match request.method {
        Method::Initialize => Box::pin(greet::initialize(&ask)).await,
        Method::Ping => greet::ping(&ask),
        Method::Discover => Box::pin(greet::discover(&ask)).await,
        Method::Listen => Box::pin(subscribe::listen(&ask, in_flight)).await,
        Method::SetLevel => Box::pin(greet::set_level(&ask, in_flight)).await,
        _ => match &scene.endpoint {
            Endpoint::All => Box::pin(aggregate::request(&ask, in_flight)).await,
            Endpoint::One(_) => one(&ask, in_flight).await,
        },
    }
}

/// The store is in doubt, so the answer is no.
fn in_trouble(scene: &Scene, request: &Request<'_>, era: Era, denial: &policy::Denial) -> Outbound {
    let audit_id = scene.gate.record_trouble(scene, &request.method_name, denial);
    let denial = &policy::Denial { audit_id, ..denial.clone() };
    Outbound::ok(match request.method {
        Method::ToolsCall => answers::denied_call(&request.id, denial, era),
        _ => answers::denied(&request.id, denial),
    })
}

/// A request to the one server of this endpoint.
async fn one(ask: &Ask<'_>, in_flight: Option<crate::session::InFlight>) -> Outbound {
    let Some(holding) = ask.scene.only() else {
        let refused =
            Refused::invalid("this grant no longer holds the server").with_id(&ask.request.id);
        return refuse(ask.scene, &refused, &ask.request.method_name);
    };
    let named = match ask.request.named() {
        Ok(named) => named,
        Err(refused) => return refuse(ask.scene, &refused, &ask.request.method_name),
    };
    let about = match subject(ask, &holding.server.name, &named) {
        Ok(about) => about,
        Err(refused) => return refuse(ask.scene, &refused, &ask.request.method_name),
    };
    let (subject, task_of) = (about.as_subject(), about.task_of());
    let aim = Aim { holding, subject, task_of, rename: None };
    to_server(ask, &aim, &about, in_flight).await
}

/// A request to the server that it is about, at its own address or at that of all.
pub(crate) async fn to_server(
    ask: &Ask<'_>,
    aim: &Aim<'_>,
    about: &About<'_>,
    in_flight: Option<crate::session::InFlight>,
) -> Outbound {
    let subscribes =
        matches!(ask.request.method, Method::ResourcesSubscribe | Method::ResourcesUnsubscribe);
    if subscribes && aim.holding.server.is_shared_by_all() {
        let refused = Refused::new(
            200,
            wire::code::UNKNOWN_METHOD,
            "all clients share this server (`share`), so it takes no subscriptions",
        );
        return refuse(ask.scene, &refused.with_id(&ask.request.id), &ask.request.method_name);
    }
    if subscribes
        && let Some(outbound) = Box::pin(subscribe::for_legacy(ask, aim.holding, about)).await
    {
        return outbound;
    }
    call::carry(ask, aim, in_flight).await
}

/// The era of a request, once everything that its era demands of it is there.
fn era_of(
    scene: &Scene,
    http: Option<&HeaderMap>,
    message: &Message<'_>,
    request: &Request<'_>,
) -> Result<Era, Refused> {
    let era = match http {
        Some(headers) => headers::era_of_post(message, headers, &[Revision::NEWEST])?,
        None => headers::era_of_body(message, &[Revision::NEWEST])?,
    };
    match era {
        Era::Modern if !request.method.is_in(Revision::NEWEST) => Err(Refused::unknown_method()),
        Era::Modern => Ok(era),
        Era::Legacy => {
            let in_head = http.and_then(|headers| headers.get(&PROTOCOL_VERSION)?.to_str().ok());
            check_legacy(scene, request, in_head)?;
            check_legacy_method(request)?;
            Ok(era)
        }
    }
}

fn check_legacy(
    scene: &Scene,
    request: &Request<'_>,
    in_head: Option<&str>,
) -> Result<(), Refused> {
    if let Some(version) = in_head {
        let known = Revision::parse(version).filter(|revision| revision.era() == Era::Legacy);
        let Some(named) = known else {
            return Err(Refused::invalid(
                "the MCP-Protocol-Version header names no revision known here",
            ));
        };
        let agreed = scene.session.as_ref().map(|session| session.revision);
        if request.method != Method::Initialize && agreed.is_some_and(|agreed| agreed != named) {
            return Err(Refused::invalid(
                "the MCP-Protocol-Version header is not the revision this session agreed on",
            ));
        }
    }
    Ok(())
}

/// What only servers ask, and what only the newer revision knows, means nothing in the older ones.
fn check_legacy_method(request: &Request<'_>) -> Result<(), Refused> {
    if request.method.sender() == Sender::Server || request.method == Method::Listen {
        // In these revisions 404 means that the session is gone.
        return Err(Refused { http_status: 200, ..Refused::unknown_method() });
    }
    let rounds = ["requestState", "inputResponses"];
    let has = |key: &&&str| request.params.is_some_and(|params| params.get(key).is_some());
    match rounds.iter().find(has) {
        Some(key) if request.method != Method::Other => Err(Refused::params(format!(
            "`{key}` belongs to revision 2026-07-28, which this request does not name"
        ))),
        _ => Ok(()),
    }
}

fn takes(scene: &Scene, era: Era, request: &Request<'_>) -> Takes {
    match (era, &scene.session) {
        (Era::Modern, _) => {
            Takes::of(request.meta().and_then(|meta| meta.get(meta_keys::CLIENT_CAPABILITIES)))
        }
        (Era::Legacy, Some(session)) => session.takes,
        (Era::Legacy, None) => Takes::default(),
    }
}

fn wants_logs(era: Era, request: &Request<'_>) -> bool {
    era == Era::Legacy
        || request.meta().is_some_and(|meta| meta.get(meta_keys::LOG_LEVEL).is_some())
}

/// A client answers a question of a server.
async fn response(scene: &Scene, body: &Bytes, response: &Response<'_>) -> Outbound {
    let asked = scene.session.as_ref().and_then(|session| session.answered(&response.id));
    let Some(asked) = asked else {
        // Without the id: it is the asker's, and the client may have a request of its own under it.
        let refused = Refused::invalid("this answers nothing that was asked");
        return refuse(scene, &refused, "(response)");
    };
    match asked.to {
        AnswerTo::Call(waiting) => {
            let answer = match response.outcome {
                Outcome::Result(result) => ClientAnswer::Result(result.raw().to_owned()),
                Outcome::Error(error) => ClientAnswer::Error(error.raw().to_owned()),
            };
            if let Err(error) = scene.gate.note_passed(scene, "(response)", "") {
                let denial = answers::no_record(&error);
                return Outbound::with_status(503, answers::denied(&response.id, &denial));
            }
            // A call that no longer waits has been answered otherwise.
            let _ = waiting.send(answer);
            Outbound::Accepted
        }
        AnswerTo::Server { peer, id } => {
            tell::pass_on(scene, &peer, restored(body, response, &id), true).await
        }
    }
}

fn restored(body: &Bytes, response: &Response<'_>, id: &wire::Id) -> Bytes {
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
