//! What servers say on their own, for a session's stream.

use std::sync::Arc;

use bytes::Bytes;
use policy::json::{Bounds, Doc, Value};
use store::ledger::Ending;
use tokio::sync::mpsc;

use crate::flow::Piece;
use crate::outbound::{PIECES_WAITING_MAX, Pieces};
use crate::peer::Peer;
use crate::rebuild;
use crate::scene::{Endpoint, Scene};
use crate::serve::turned_true;
use crate::session::{AnswerTo, Outgoing, Session};
use crate::upstream::{Event, Events, Listening};
use crate::wire::{Era, Id, error_body, result_body};

/// Opens the stream of a session, or nothing when its only server has none.
pub(crate) async fn open(scene: &Scene, last_event_id: Option<&str>) -> Option<Pieces> {
    let session = Arc::clone(scene.session.as_ref()?);
    let (sender, pieces) = mpsc::channel(PIECES_WAITING_MAX);
    let peers = session.peers();
    let mut offered = matches!(scene.endpoint, Endpoint::All) || peers.is_empty();
    for peer in peers {
        if peer.era == Era::Modern || peer.is_builtin() {
            // Nothing comes on its own from these; what was subscribed to is delivered below.
            offered = offered || peer.era == Era::Modern;
            continue;
        }
        if let Some(events) = hear(scene, &peer, last_event_id).await {
            offered = true;
            tokio::spawn(forward(scene.clone(), peer, events, sender.clone()));
        }
    }
    if !offered {
        return None;
    }
    let own = session.open_stream();
    tokio::spawn(forward_own(own, sender, session));
    Some(pieces)
}

async fn hear(scene: &Scene, peer: &Arc<Peer>, last_event_id: Option<&str>) -> Option<Events> {
    let permit = scene.gate.pass(scene, "(stream)", &peer.server.name).ok()?;
    let listening = peer.listen(&permit, last_event_id).await;
    let (ending, events) = match listening {
        Ok(Listening::Open(events)) => (Ending::Ok, Some(events)),
        Ok(Listening::NotOffered) => (Ending::Ok, None),
        Err(error) => {
            tracing::info!(server = %peer.server.name, %error, "the server's own stream did not open");
            (Ending::Error, None)
        }
    };
    scene.gate.settled(permit, ending);
    events
}

/// Hands what a server says to a session that is open already.
pub(crate) async fn deliver(scene: Scene, peer: Arc<Peer>) {
    let Some(session) = scene.session.clone() else { return };
    let Some(mut events) = hear(&scene, &peer, None).await else { return };
    let mut ended = session.ended();
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            () = turned_true(&mut ended) => return,
        };
        let Some(Ok(event)) = event else { return };
        if let Some(outgoing) = heard(&scene, &session, &peer, &event) {
            session.deliver(outgoing);
        }
    }
}

/// What the gate itself has for the client: news of subscriptions and of servers that joined later.
async fn forward_own(
    mut own: mpsc::Receiver<Outgoing>,
    to: mpsc::Sender<Outgoing>,
    session: Arc<Session>,
) {
    let mut ended = session.ended();
    loop {
        tokio::select! {
            outgoing = own.recv() => match outgoing {
                Some(outgoing) => if to.send(outgoing).await.is_err() { return },
                None => return,
            },
            () = to.closed() => return,
            () = turned_true(&mut ended) => return,
        }
    }
}

async fn forward(scene: Scene, peer: Arc<Peer>, mut events: Events, to: mpsc::Sender<Outgoing>) {
    let Some(session) = scene.session.clone() else { return };
    let mut ended = session.ended();
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            () = to.closed() => return,
            () = turned_true(&mut ended) => return,
        };
        let Some(Ok(event)) = event else { return };
        if let Some(outgoing) = heard(&scene, &session, &peer, &event)
            && to.send(outgoing).await.is_err()
        {
            return;
        }
    }
}

/// A message of a server outside any request, as the client may have it.
pub(crate) fn heard(
    scene: &Scene,
    session: &Arc<Session>,
    peer: &Arc<Peer>,
    event: &Event,
) -> Option<Outgoing> {
    let as_it_is = |message: Bytes| {
        Some(Outgoing { message, event_id: event.id.clone(), retry_ms: event.retry_ms })
    };
    if event.message.is_empty() {
        return as_it_is(Bytes::new());
    }
    let doc = Doc::read_shallow(&event.message, &Bounds::ANSWER, 3).ok()?;
    let root = doc.root();
    let id = root.get("id").and_then(Id::lenient);
    match (root.get("method").and_then(Value::as_str), id) {
        (Some(method), None) => {
            if method == "notifications/tools/list_changed" {
                peer.set_checked(false);
                peer.server.forget_check();
            }
            as_it_is(event.message.clone())
        }
        (Some(method), Some(id)) if method == "ping" => {
            scene.gate.answer_server(peer, result_body(&id, "{}").into());
            None
        }
        (Some(method), Some(id)) => {
            let allowed = scene.holding(&peer.server.name).is_some_and(|holding| {
                holding.rules.as_ref().is_some_and(|rules| rules.server_may_ask(&method))
            });
            if !allowed || !session.takes.takes(&method) {
                let refusal = error_body(
                    Some(&id),
                    -32601,
                    "the client does not take this request here",
                    None,
                );
                scene.gate.answer_server(peer, refusal.into());
                return None;
            }
            let alone = session.server.is_some();
            let to = AnswerTo::Server { peer: Arc::clone(peer), id: id.clone() };
            let shown = session.ask(alone.then_some(id), to);
            if alone {
                return as_it_is(event.message.clone());
            }
            as_it_is(rebuild::with(root, "id", shown.raw().to_owned()).into())
        }
        // An answer on this stream belongs to a request whose own stream was lost.
        (None, Some(id)) => {
            let mut tail = session.reattach(&id)?;
            match tail.finish(200, &event.message) {
                Piece::Last { body, .. } => as_it_is(body),
                _ => None,
            }
        }
        (None, None) => None,
    }
}
