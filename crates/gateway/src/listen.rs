//! What servers say on their own, for a session's stream.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use policy::json::{Bounds, Doc, Value};
use store::ledger::Ending;
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::sync::mpsc;

use crate::flow::Piece;
use crate::gate::Gate;
use crate::in_force::Rules;
use crate::news;
use crate::outbound::{PIECES_WAITING_MAX, Pieces};
use crate::peer::Peer;
use crate::results;
use crate::room;
use crate::scene::{Endpoint, Scene};
use crate::serve::turned_true;
use crate::session::{AnswerTo, Outgoing, Session};
use crate::shared::Offer;
use crate::tasks;
use crate::upstream::{Event, Events, Listening};
use crate::wire::{Era, Id, Method, answer, error_body, notification_body, result_body};

/// A server may take so long to say whether it has a stream; some say nothing until they have news.
const OFFER_WAIT_MAX: Duration = Duration::from_millis(250);
/// The pause before a stream that ended is asked for again, unless the server named one.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// What a server may name: asking at once again and again would be all we do.
const AGAIN_AFTER_MIN: Duration = Duration::from_millis(100);
const AGAIN_AFTER_MAX: Duration = Duration::from_mins(5);

/// What came of asking for a session's stream.
pub(crate) struct Opened {
    /// Nothing when the session's only server has none.
    pub(crate) pieces: Option<Pieces>,
    /// A server was asked for it now, and that is a row.
    pub(crate) is_recorded: bool,
}

/// Opens the stream of a session.
pub(crate) async fn open(scene: &Scene, last_event_id: Option<&str>) -> Opened {
    let mut is_recorded = false;
    let pieces = open_noting(scene, last_event_id, &mut is_recorded).await;
    Opened { pieces, is_recorded }
}

async fn open_noting(
    scene: &Scene,
    last_event_id: Option<&str>,
    is_recorded: &mut bool,
) -> Option<Pieces> {
    let session = Arc::clone(scene.session.as_ref()?);
    let (sender, pieces) = mpsc::channel(PIECES_WAITING_MAX);
    let peers = session.peers();
    let mut offered = matches!(scene.endpoint, Endpoint::All) || peers.is_empty();
    for peer in peers {
        match last_event_id.and_then(|last| session.resumed(last)) {
            // A stream that broke off is taken up where it was, beside the session's own.
            Some((server, id))
                if server == peer.server.name && peer.era == Era::Legacy && !peer.is_builtin() =>
            {
                *is_recorded = true;
                let Ok(Some(events)) = hear(scene, &peer, Some(id)).await else { continue };
                offered = true;
                tokio::spawn(forward(scene.clone(), peer, events, sender.clone()));
            }
            _ => {
                *is_recorded |= !peer.is_builtin() && !session.is_hearing(&peer.server.name);
                if offered {
                    let scene = scene.clone();
                    tokio::spawn(async move { start(&scene, &peer).await });
                } else {
                    offered = start(scene, &peer).await;
                }
            }
        }
    }
    if !offered {
        return None;
    }
    let own = session.open_stream();
    tokio::spawn(forward_own(own, sender, session));
    Some(pieces)
}

/// Begins to hear what a server says on its own, once for each session; false when it says nothing.
/// Done before the first call goes out, so that no question of the server finds nobody listening.
pub(crate) async fn start(scene: &Scene, peer: &Arc<Peer>) -> bool {
    let Some(session) = &scene.session else { return false };
    if peer.is_builtin() {
        return false;
    }
    let Some(ready) = session.hearing(&peer.server.name) else {
        return session.hears(&peer.server.name);
    };
    if peer.era == Era::Modern {
        crate::subscribe::follow_lists(scene, peer).await;
        return true;
    }
    tokio::spawn(deliver(scene.clone(), Arc::clone(peer), ready.clone()));
    offered(&ready).await
}

/// Whether a server has a stream; one that has not said so in time may well have one.
async fn offered(ready: &Offer) -> bool {
    let mut told = ready.subscribe();
    let offer = told.wait_for(Option::is_some);
    match tokio::time::timeout(OFFER_WAIT_MAX, offer).await {
        Ok(Ok(offered)) => *offered == Some(true),
        _ => true,
    }
}

/// What the server of a shared conversation says on its own, from now on.
pub(crate) async fn shared(scene: &Scene, peer: &Arc<Peer>) -> broadcast::Receiver<Bytes> {
    let shared = scene.gate.heard(&peer.server, &scene.holder.id);
    let (messages, offer, begins) = shared.listen();
    if begins {
        let (scene, peer, offer) = (scene.clone(), Arc::clone(peer), offer.clone());
        tokio::spawn(async move {
            while !shared.rests() {
                let tell = |event: Event| {
                    if !asks(&scene, &peer, &event.message) {
                        shared.tell(event.message);
                    }
                };
                // Who listens says which lists it wants to hear of.
                hear_until(&scene, &peer, &offer, shared.unheard(), true, tell).await;
            }
        });
    }
    offered(&offer).await;
    messages
}

/// Tells a session which lists of a process that all clients share have changed. Whatever else such a
/// process says belongs to somebody, and nothing tells to whom.
pub(crate) async fn follow_shared(scene: Scene, peer: Arc<Peer>) {
    let Some(session) = scene.session.clone() else { return };
    let mut ended = session.ended();
    let mut retired = peer.over();
    let mut messages = shared(&scene, &peer).await;
    loop {
        let message = tokio::select! {
            message = messages.recv() => message,
            () = turned_true(&mut ended) => return,
            () = turned_true(&mut retired) => break,
        };
        let message = match message {
            Ok(message) => message,
            Err(RecvError::Lagged(_)) => continue,
            Err(RecvError::Closed) => break,
        };
        let Some(method) = news::list_changed(&message) else { continue };
        peer.told(method);
        session.deliver(Outgoing::plain(notification_body(method, None)));
    }
    // The next process is followed by the next request that opens it.
    session.unheard(&peer.server.name);
}

/// Hears the server of a shared conversation from now on for as long as that lasts, whether anybody
/// listens or not, because it may ask something there.
pub(crate) async fn stay(scene: &Scene, peer: &Arc<Peer>) {
    let mut messages = shared(scene, peer).await;
    let mut over = peer.over();
    tokio::spawn(async move {
        // Those who listen hear it by themselves.
        let heard = async { while !matches!(messages.recv().await, Err(RecvError::Closed)) {} };
        tokio::select! {
            () = heard => {}
            () = turned_true(&mut over) => {}
        }
    });
}

/// Whether a server asks something here. It is put to one of the calls that are under way, or refused.
pub(crate) fn asks(scene: &Scene, peer: &Arc<Peer>, message: &Bytes) -> bool {
    let Ok(doc) = Doc::read_shallow(message, &Bounds::ANSWER, 3) else { return false };
    let root = doc.root();
    let id = root.get("id").and_then(Id::lenient);
    let (Some(method), Some(id)) = (root.get("method").and_then(Value::as_str), id) else {
        return false;
    };
    if method == "ping" {
        scene.gate.answer_server(peer, result_body(&id, "{}").into());
    } else if !peer.askable.put(&method, root.get("params"), message) {
        let words = "no client takes this request here";
        scene.gate.answer_server(peer, error_body(Some(&id), -32601, words, None).into());
    }
    true
}

/// A server's own stream, nothing if it has none; or that it could not be asked for.
async fn hear(
    scene: &Scene,
    peer: &Arc<Peer>,
    last_event_id: Option<&str>,
) -> Result<Option<Events>, Unheard> {
    let permit = scene.gate.own_act(scene, "(stream)", &peer.server.name).map_err(|_| Unheard)?;
    let listening = peer.listen(&permit, last_event_id).await;
    let (ending, heard) = match listening {
        Ok(Listening::Open(events)) => (Ending::Ok, Ok(Some(events))),
        Ok(Listening::NotOffered) => (Ending::Ok, Ok(None)),
        Err(error) => {
            tracing::info!(server = %peer.server.name, %error, "the server's own stream did not open");
            (Ending::Error, Err(Unheard))
        }
    };
    Gate::settled(permit, ending);
    heard
}

/// A stream could not be asked for.
struct Unheard;

/// Hands what a server says to the session.
async fn deliver(scene: Scene, peer: Arc<Peer>, ready: Offer) {
    let Some(session) = scene.session.clone() else { return };
    let mut ended = session.ended();
    let tell = |event: Event| {
        if let Some(outgoing) = heard(&scene, &session, &peer, &event) {
            session.deliver(outgoing);
        }
    };
    let all = session.server.is_none();
    hear_until(&scene, &peer, &ready, turned_true(&mut ended), all, tell).await;
}

/// Hears a server until it is over or the server has no stream, and asks again when its stream ends. With
/// `of_lists` a server that comes back is taken to have said that its lists changed.
async fn hear_until(
    scene: &Scene,
    peer: &Arc<Peer>,
    ready: &Offer,
    over: impl Future<Output = ()>,
    of_lists: bool,
    mut tell: impl FnMut(Event),
) {
    let mut over = pin!(over);
    let mut retired = peer.over();
    let mut last_id: Option<String> = None;
    // How long to wait once more, for a server that has been heard.
    let mut pause: Option<Duration> = None;
    let mut was_away = false;
    loop {
        let heard_now = tokio::select! {
            events = hear(scene, peer, last_id.as_deref()) => events,
            () = &mut over => return,
        };
        let mut events = match (heard_now, pause) {
            (Ok(Some(events)), _) => events,
            // It is being restarted, or does not know us any more until a call greets it again.
            (Err(Unheard), Some(wait)) => {
                last_id = None;
                was_away = true;
                pause = Some((wait * 2).min(AGAIN_AFTER_MAX));
                tokio::select! {
                    () = tokio::time::sleep(wait) => continue,
                    () = &mut over => return,
                    () = turned_true(&mut retired) => return,
                }
            }
            (Ok(None), _) | (Err(Unheard), None) => {
                ready.send_replace(Some(false));
                return;
            }
        };
        ready.send_replace(Some(true));
        if std::mem::take(&mut was_away) && of_lists {
            for message in news::of_lists() {
                tell(Event { message, id: None, retry_ms: None });
            }
        }
        pause = Some(AGAIN_AFTER);
        let mut again_after = AGAIN_AFTER;
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                () = &mut over => return,
            };
            let Some(Ok(event)) = event else { break };
            last_id = event.id.clone().or(last_id);
            again_after = event.retry_ms.map_or(again_after, |ms| {
                Duration::from_millis(ms).clamp(AGAIN_AFTER_MIN, AGAIN_AFTER_MAX)
            });
            tell(event);
        }
        tokio::select! {
            () = tokio::time::sleep(again_after) => {}
            () = &mut over => return,
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

/// The policy as it is now.
fn rules(scene: &Scene, peer: &Peer) -> Option<Arc<Rules>> {
    let holder = scene.gate.renewed(&scene.holder, None)?;
    holder.holdings.get(&*peer.server.name)?.rules.clone()
}

/// Whether it cuts something out of results of this server.
fn redacts(scene: &Scene, peer: &Peer) -> bool {
    rules(scene, peer).is_none_or(|rules| rules.policy.redacts())
}

/// Whether the resource that a notification names may be seen by this caller.
fn shows_resource(scene: &Scene, peer: &Peer, notification: Value<'_>) -> bool {
    rules(scene, peer).is_some_and(|rules| rules.shows_resource_of(notification))
}

fn is_about_a_request(method: &str) -> bool {
    matches!(method, "notifications/progress" | "notifications/cancelled")
}

/// A message of a server outside any request, as the client may have it.
pub(crate) fn heard(
    scene: &Scene,
    session: &Arc<Session>,
    peer: &Arc<Peer>,
    event: &Event,
) -> Option<Outgoing> {
    let as_it_is = |message: Bytes| {
        let message = room::made_from(&event.message, message);
        let event_id = session.event_id(&peer.server.name, event.id.as_deref());
        Some(Outgoing { message, event_id, retry_ms: event.retry_ms })
    };
    if event.message.is_empty() {
        return as_it_is(Bytes::new());
    }
    let doc = Doc::read_shallow(&event.message, &Bounds::ANSWER, 3).ok()?;
    let root = doc.root();
    if let Some(why) = answer::trouble(root) {
        tracing::warn!(server = %peer.server.name, "dropped what a server said: {why}");
        return None;
    }
    let id = root.get("id").and_then(Id::lenient);
    match (root.get("method").and_then(Value::as_str), id) {
        // A server tells news; it calls nothing by telling, and where several servers share a session
        // it does not speak of requests, which may be another's.
        (Some(method), None)
            if !method.starts_with("notifications/")
                || session.server.is_none() && is_about_a_request(&method) =>
        {
            None
        }
        (Some(method), None) => {
            peer.told(&method);
            match Method::parse(&method) {
                // Nobody can tell whether it is about a call out of whose result something is cut.
                Method::LogMessage | Method::Other if redacts(scene, peer) => None,
                Method::Progress if redacts(scene, peer) => {
                    as_it_is(results::wordless_progress(root).into())
                }
                Method::ResourceUpdated if !shows_resource(scene, peer, root) => None,
                Method::TaskStatus | Method::TasksNotification => {
                    let rules = rules(scene, peer);
                    let server = &peer.server.name;
                    as_it_is(tasks::news(scene, rules.as_deref(), server, &event.message)?)
                }
                _ => as_it_is(event.message.clone()),
            }
        }
        (Some(method), Some(id)) if method == "ping" => {
            scene.gate.answer_server(peer, result_body(&id, "{}").into());
            None
        }
        (Some(method), Some(id)) => {
            let rules = rules(scene, peer).filter(|rules| rules.server_may_ask(&method));
            // Nobody can tell about which call it is asked.
            let redacted = rules.as_ref().filter(|rules| rules.policy.redacts());
            let redacted = redacted.map(|rules| rules.policy.redacted_anywhere());
            let cut = results::question(redacted.as_ref(), &event.message);
            let alone = session.server.is_some();
            let to = AnswerTo::Server { peer: Arc::clone(peer), id: id.clone() };
            let asked = (rules.is_some() && cut.is_ok() && session.takes.takes(&method))
                .then(|| session.ask(alone.then(|| id.clone()), to));
            let Some((shown, cut)) = asked.flatten().zip(cut.ok()) else {
                let words = "the client does not take this request here";
                let refusal = error_body(Some(&id), -32601, words, None);
                scene.gate.answer_server(peer, refusal.into());
                return None;
            };
            let message = results::question_as(root, cut.as_deref(), (!alone).then_some(&shown));
            as_it_is(message.map_or_else(|| event.message.clone(), Bytes::from))
        }
        // An answer on this stream belongs to a request whose own stream was lost.
        (None, Some(id)) => {
            let mut tail = session.reattach(&id)?;
            match tail.finish(200, &event.message, root) {
                Piece::Last { body, .. } => as_it_is(body),
                _ => None,
            }
        }
        (None, None) => None,
    }
}
