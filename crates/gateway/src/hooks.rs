//! `/hooks/SERVICE`: what a service tells the gate on its own. The signature of the notice is the
//! proof; there is no grant and no session, and nothing but the owner's mirror changes.

use std::sync::Arc;

use connectors::whoop::webhook::{self, Delivery, Event};
use connectors::{Desk, Service};
use http_body_util::{BodyExt as _, Limited};
use hyper::header::{ALLOW, HeaderValue};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use store::ledger::Note;
use tokio::sync::Semaphore;

use crate::door::{TurnedAway, plain};
use crate::gate::Gate;
use crate::metrics::Came;
use crate::serve::{Arriving, Body, Remote};

/// Notices that are followed up at the same time; others wait their turn.
const FOLLOWED_MAX: usize = 4;

/// What is known of the notices under way.
pub(crate) struct Hooks {
    turns: Arc<Semaphore>,
}

impl Default for Hooks {
    fn default() -> Hooks {
        Hooks { turns: Arc::new(Semaphore::new(FOLLOWED_MAX)) }
    }
}

/// Takes one notice, or says why not. The service waits about a second, so what follows from the
/// notice is done after the answer.
pub(crate) async fn receive(
    gate: &Arc<Gate>,
    remote: &Remote,
    name: &str,
    request: Request<Arriving>,
) -> Result<Response<Body>, TurnedAway> {
    let service = wanted(gate, name).ok_or_else(|| {
        TurnedAway::new(StatusCode::NOT_FOUND, "there is nothing at this address")
    })?;
    if request.method() != Method::POST {
        return Err(TurnedAway {
            status: StatusCode::METHOD_NOT_ALLOWED,
            words: "notices come by POST",
            header: Some((ALLOW, HeaderValue::from_static("POST"))),
        });
    }
    let (head, body) = request.into_parts();
    let body = Limited::new(body, webhook::BODY_BYTES_MAX).collect();
    let body = match tokio::time::timeout(gate.bounds.body_wait_max, body).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
            return Err(TurnedAway::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "the notice is larger than any notice is",
            ));
        }
        Ok(Err(_)) => {
            return Err(TurnedAway::new(StatusCode::BAD_REQUEST, "the notice was cut off"));
        }
        Err(_) => {
            return Err(TurnedAway::new(
                StatusCode::REQUEST_TIMEOUT,
                "the notice took too long to arrive",
            ));
        }
    };
    let desk = gate.makings.desk.get().map_err(|error| {
        tracing::error!(%error, "a notice cannot be taken");
        TurnedAway::new(StatusCode::SERVICE_UNAVAILABLE, "notices cannot be taken at the moment")
    })?;
    let delivery = Delivery {
        signature: header(&head.headers, "x-whoop-signature"),
        timestamp: header(&head.headers, "x-whoop-signature-timestamp"),
        body: &body,
    };
    match webhook::receive(&desk, &delivery) {
        Ok(event) => taken(gate, service, desk, event),
        Err(refusal) => {
            gate.metrics.hooked(service.name, Came::Bad);
            Ok(refused(gate, remote, service, refusal.status(), &refusal.to_string()))
        }
    }
}

/// The service of this name, if its owner wants its notices.
fn wanted(gate: &Gate, name: &str) -> Option<&'static Service> {
    // The one service whose notices are understood.
    const WITH_NOTICES: &str = "whoop";
    let on = name == WITH_NOTICES && gate.settings.load().service(name).webhook;
    connectors::service(name).filter(|_| on)
}

fn header<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    // Two of them have two meanings.
    values.next().is_none().then_some(value)
}

fn taken(
    gate: &Arc<Gate>,
    service: &'static Service,
    desk: Arc<Desk>,
    event: Event,
) -> Result<Response<Body>, TurnedAway> {
    let note = Note { act: "notice", by: service.name, about: service.name, words: "signed" };
    if let Err(error) = gate.ledger.note(&note) {
        tracing::error!(%error, "a notice could not be recorded");
        return Err(TurnedAway::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "the notice could not be recorded, so it is not taken",
        ));
    }
    let gate = Arc::clone(gate);
    tokio::spawn(async move {
        let turns = Arc::clone(&gate.hooks.turns);
        let Ok(_turn) = turns.acquire_owned().await else { return };
        let came = match webhook::apply(&desk, &event).await {
            Ok(_) => Came::Good,
            Err(problem) => {
                tracing::warn!(service = service.name, %problem, "a notice could not be followed up; the next sync makes good for it");
                Came::Bad
            }
        };
        gate.metrics.hooked(service.name, came);
    });
    Ok(plain(StatusCode::NO_CONTENT, Body::empty()))
}

/// A notice that is not believed is one row, and its sender learns no more than the status.
fn refused(
    gate: &Gate,
    remote: &Remote,
    service: &'static Service,
    status: u16,
    words: &str,
) -> Response<Body> {
    gate.record_bad_notice(remote, service.name, status, words);
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
    plain(status, Body::empty())
}
