//! Notifications of clients, and other messages that expect no answer.

use std::sync::Arc;

use bytes::Bytes;
use policy::json::{Bounds, Doc};
use store::ledger::LedgerError;

use crate::answers;
use crate::gate::Gate;
use crate::listen;
use crate::outbound::Outbound;
use crate::peer::Peer;
use crate::rebuild;
use crate::receive;
use crate::scene::Scene;
use crate::upstream::Outgoing;
use crate::wire::{Era, Id, Method, Named, Notification, Refused, Sender, Target, error_body};

/// Takes a notification and passes it to the servers it concerns.
pub(crate) async fn tell(scene: &Scene, body: &Bytes, told: &Notification<'_>) -> Outbound {
    if told.method.sender() == Sender::Server {
        return receive::refuse(
            scene,
            &Refused::invalid("only servers send this notification"),
            &told.method_name,
        );
    }
    match told.method {
        Method::Cancelled => cancel(scene, body, told).await,
        Method::Other if !others_allowed(scene) => {
            let words = "no rule allows notifications of this method";
            receive::refuse(
                scene,
                &Refused::new(403, answers::code::DENIED, words),
                &told.method_name,
            )
        }
        _ => to_servers(scene, body, told).await,
    }
}

/// Methods that no revision knows may reach data, so they follow the policy's default.
fn others_allowed(scene: &Scene) -> bool {
    let mut holdings = scene.holder.holdings.values();
    let open = |holding: &crate::in_force::Holding| {
        holding.rules.as_ref().is_some_and(|rules| rules.allows_methods())
    };
    match scene.only() {
        Some(holding) => open(holding),
        None => holdings.all(open),
    }
}

/// Without a record nothing is passed on. There is no id to say it under.
fn no_record(error: &LedgerError) -> Outbound {
    let reason = answers::no_record(error).reason;
    Outbound::with_status(503, error_body(None, answers::code::STORE_UNAVAILABLE, &reason, None))
}

/// Every legacy server of the session hears it; modern ones have no such notifications.
async fn to_servers(scene: &Scene, body: &Bytes, told: &Notification<'_>) -> Outbound {
    let peers: Vec<Arc<Peer>> = match &scene.session {
        Some(session) => {
            session.peers().into_iter().filter(|peer| peer.era == Era::Legacy).collect()
        }
        None => Vec::new(),
    };
    if peers.is_empty() {
        return match scene.gate.note_passed(
            scene,
            &told.method_name,
            scene.endpoint.server().unwrap_or_default(),
        ) {
            Ok(()) => Outbound::Accepted,
            Err(error) => no_record(&error),
        };
    }
    let mut last = Outbound::Accepted;
    for peer in peers {
        last = deliver(scene, &peer, Outgoing::notification(body.clone()), &told.method_name).await;
        if told.method == Method::Initialized {
            listen::start(scene, &peer).await;
        }
    }
    last
}

/// A client takes a request back.
async fn cancel(scene: &Scene, body: &Bytes, told: &Notification<'_>) -> Outbound {
    let Some(id) = told.params.and_then(|params| params.get("requestId")).and_then(Id::strict)
    else {
        let refused = Refused::invalid("`requestId` must be the id of a request");
        return receive::refuse(scene, &refused, &told.method_name);
    };
    let flight = scene.flights().and_then(|flights| flights.flight(&id));
    let sent = flight.as_ref().and_then(|flight| flight.sent_as());
    let outbound = match &sent {
        Some((peer, sent_id)) if peer.era == Era::Legacy => {
            let mut out = Outgoing::notification(body.clone());
            if *sent_id != id {
                out.body = with_request_id(body, sent_id);
                out.edited = Some(Box::new(Target::new(&told.method_name, Named::Nothing)));
            }
            deliver(scene, peer, out, &told.method_name).await
        }
        // A modern server learns of it when the stream of the request ends.
        _ => match scene.gate.note_passed(scene, &told.method_name, "") {
            Ok(()) => Outbound::Accepted,
            Err(error) => no_record(&error),
        },
    };
    if let Some(flight) = flight {
        flight.take_back();
    }
    outbound
}

fn with_request_id(body: &Bytes, id: &Id) -> Bytes {
    let Ok(doc) = Doc::read(body, &Bounds::MESSAGE) else { return body.clone() };
    let root = doc.root();
    match root.get("params") {
        Some(params) => {
            let params = rebuild::with(params, "requestId", id.raw().to_owned());
            rebuild::with(root, "params", params).into()
        }
        None => body.clone(),
    }
}

/// Passes a client's answer to the server that asked.
pub(crate) async fn pass_on(
    scene: &Scene,
    peer: &Arc<Peer>,
    body: Bytes,
    is_response: bool,
) -> Outbound {
    let out = if is_response { Outgoing::response(body) } else { Outgoing::notification(body) };
    deliver(scene, peer, out, "(response)").await
}

/// Sends what asks for no answer, on record.
async fn deliver(scene: &Scene, peer: &Arc<Peer>, out: Outgoing, method: &str) -> Outbound {
    let permit = match scene.gate.own_act(scene, method, &peer.server.name) {
        Ok(permit) => permit,
        Err(error) => return no_record(&error),
    };
    match peer.send(&permit, out).await {
        Ok(()) => {
            Gate::settled(permit, store::ledger::Ending::Ok);
            Outbound::Accepted
        }
        Err(error) => {
            tracing::info!(server = %peer.server.name, %error, method, "a message did not reach the server");
            if error.may_have_happened() {
                Gate::settled(permit, store::ledger::Ending::Unknown);
            } else {
                Gate::released(permit, &error);
            }
            Outbound::Accepted
        }
    }
}
