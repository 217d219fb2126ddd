//! Opens the server streams of a session and forwards their messages.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use store::ledger::Ending;
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::sync::mpsc;

use crate::exchange::context::RequestContext;
use crate::exchange::outbound::{QUEUED_PARTS_MAX, ResponseParts};
use crate::notify::server_messages::for_client;
use crate::runtime::permits;
use crate::runtime::stop_signal::turned_true;
use crate::session::list_changes;
use crate::session::{ClientMessage, Session};
use crate::upstream::own_messages;
use crate::upstream::peer::Peer;
use crate::upstream::shared_stream::StreamOffered;
use crate::upstream::{Event, Events, ServerStream};
use mcp::{Era, notification_body};

/// How long to wait until a server accepts a stream request; some send no headers before the first
/// message.
const OFFER_WAIT_MAX: Duration = Duration::from_millis(250);
/// The pause before an ended stream is reopened, unless the server sent one.
const REOPEN_AFTER: Duration = Duration::from_secs(1);
/// Limits of the pause that a server may ask for; without a minimum the gate would reconnect in a
/// loop.
const REOPEN_AFTER_MIN: Duration = Duration::from_millis(100);
const REOPEN_AFTER_MAX: Duration = Duration::from_mins(5);

/// The stream of a session.
pub(crate) struct SessionStream {
    pub(crate) pieces: ResponseParts,
    /// A server was asked for its stream, which wrote an audit row.
    pub(crate) is_recorded: bool,
}

/// Opens the stream of a session. Every session has one: the gate sends its own `list_changed`, and an
/// open stream shows that the client is connected.
pub(crate) async fn open(
    context: &RequestContext,
    session: &Arc<Session>,
    last_event_id: Option<&str>,
) -> SessionStream {
    let mut is_recorded = false;
    let (sender, pieces) = mpsc::channel(QUEUED_PARTS_MAX);
    for peer in session.peers() {
        match last_event_id.and_then(|last| session.resumed(last)) {
            // A broken stream is resumed in parallel with the session's own.
            Some((server, id))
                if server == peer.server.name && peer.era == Era::Legacy && !peer.is_builtin() =>
            {
                is_recorded = true;
                let Ok(Some(events)) = open_server_stream(context, &peer, Some(id)).await else {
                    continue;
                };
                tokio::spawn(forward(context.clone(), peer, events, sender.clone()));
            }
            _ => {
                is_recorded |= !peer.is_builtin() && !session.has_server_stream(&peer.server.name);
                if session.server.is_some() {
                    start(context, &peer).await;
                } else {
                    // Several servers are not waited for.
                    let context = context.clone();
                    tokio::spawn(async move { start(&context, &peer).await });
                }
            }
        }
    }
    let own = session.open_stream();
    tokio::spawn(forward_own(own, sender, Arc::clone(session)));
    SessionStream { pieces, is_recorded }
}

/// Opens a server's own stream, once per session. Runs before the first call, so that no server request
/// is missed.
pub(crate) async fn start(context: &RequestContext, peer: &Arc<Peer>) {
    let Some(session) = context.session.as_ref().filter(|_| !peer.is_builtin()) else { return };
    if !session.add_server_stream(&peer.server.name) {
        return;
    }
    if peer.era == Era::Modern {
        return crate::notify::subscribe::follow_lists(context, peer).await;
    }
    let ready = StreamOffered::new(None);
    tokio::spawn(deliver(context.clone(), Arc::clone(peer), ready.clone()));
    offered(&ready).await;
}

/// Whether a server offers a stream. On a timeout it may.
async fn offered(ready: &StreamOffered) -> bool {
    let mut told = ready.subscribe();
    let offer = told.wait_for(Option::is_some);
    match tokio::time::timeout(OFFER_WAIT_MAX, offer).await {
        Ok(Ok(offered)) => *offered == Some(true),
        _ => true,
    }
}

/// Subscribes to the messages of a server connection that sessions share.
pub(crate) async fn shared(
    context: &RequestContext,
    peer: &Arc<Peer>,
) -> broadcast::Receiver<Bytes> {
    let shared = context.state.streams.of(&peer.server, &context.grantee.id);
    let (messages, offer, begins) = shared.listen();
    if begins {
        let (context, peer, offer) = (context.clone(), Arc::clone(peer), offer.clone());
        tokio::spawn(async move {
            while !shared.try_stop() {
                let publish = |event: Event| {
                    if !own_messages::answer_server_request(
                        context.services(),
                        &peer,
                        &event.message,
                    ) {
                        shared.publish(event.message);
                    }
                };
                // Receivers filter by the lists they want.
                receive_until(&context, &peer, &offer, shared.until_unused(), true, publish).await;
            }
        });
    }
    offered(&offer).await;
    messages
}

/// Forwards list changes of a shared process to a session. Its other messages belong to one of the
/// clients, but nothing says which.
pub(crate) async fn follow_shared(context: RequestContext, peer: Arc<Peer>) {
    let Some(session) = context.session.clone() else { return };
    let mut ended = session.ended();
    let mut retired = peer.over();
    let mut messages = shared(&context, &peer).await;
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
        let Some(method) = list_changes::list_changed(&message) else { continue };
        peer.note_notification(method);
        session.deliver(ClientMessage::plain(notification_body(method, None)));
    }
    // The next request that starts a process follows that one.
    session.remove_server_stream(&peer.server.name);
}

/// Keeps the stream of a shared connection open without receivers, because the server may send
/// requests on it.
pub(crate) async fn keep_open(context: &RequestContext, peer: &Arc<Peer>) {
    let mut messages = shared(context, peer).await;
    let mut over = peer.over();
    tokio::spawn(async move {
        // Receivers get the messages from their own subscription.
        let stream_open =
            async { while !matches!(messages.recv().await, Err(RecvError::Closed)) {} };
        tokio::select! {
            () = stream_open => {}
            () = turned_true(&mut over) => {}
        }
    });
}

/// Opens a server's own stream; `None` if it offers none.
async fn open_server_stream(
    context: &RequestContext,
    peer: &Arc<Peer>,
    last_event_id: Option<&str>,
) -> Result<Option<Events>, StreamFailed> {
    let permit = context.own_act("(stream)", &peer.server.name).await.map_err(|_| StreamFailed)?;
    let listening = peer.listen(&permit, last_event_id).await;
    let (ending, stream_open) = match listening {
        Ok(ServerStream::Open(events)) => (Ending::Ok, Ok(Some(events))),
        Ok(ServerStream::NotOffered) => (Ending::Ok, Ok(None)),
        Err(error) => {
            tracing::info!(server = %peer.server.name, %error, "could not open the server's own stream");
            (Ending::Error, Err(StreamFailed))
        }
    };
    permits::settle(permit, ending);
    stream_open
}

/// The stream could not be requested.
struct StreamFailed;

/// Forwards a server's own messages to the session.
async fn deliver(context: RequestContext, peer: Arc<Peer>, ready: StreamOffered) {
    let Some(session) = context.session.clone() else { return };
    let mut ended = session.ended();
    let publish = |event: Event| {
        if let Some(outgoing) = for_client(&context, &session, &peer, &event) {
            session.deliver(outgoing);
        }
    };
    let all = session.server.is_none();
    receive_until(&context, &peer, &ready, turned_true(&mut ended), all, publish).await;
}

/// Receives a server's messages until `over`, or until it offers no stream. Reopens a stream that
/// ends. With `of_lists` a server that reconnects counts as having changed its lists.
async fn receive_until(
    context: &RequestContext,
    peer: &Arc<Peer>,
    ready: &StreamOffered,
    over: impl Future<Output = ()>,
    of_lists: bool,
    mut publish: impl FnMut(Event),
) {
    let mut over = pin!(over);
    let mut retired = peer.over();
    let mut last_id: Option<String> = None;
    // The next back-off, once the server had a stream.
    let mut pause: Option<Duration> = None;
    let mut was_interrupted = false;
    loop {
        let heard_now = tokio::select! {
            events = open_server_stream(context, peer, last_id.as_deref()) => events,
            () = &mut over => return,
        };
        let mut events = match (heard_now, pause) {
            (Ok(Some(events)), _) => events,
            // It is restarting, or has lost our session until a call repeats the handshake.
            (Err(StreamFailed), Some(wait)) => {
                last_id = None;
                was_interrupted = true;
                pause = Some((wait * 2).min(REOPEN_AFTER_MAX));
                tokio::select! {
                    () = tokio::time::sleep(wait) => continue,
                    () = &mut over => return,
                    () = turned_true(&mut retired) => return,
                }
            }
            (Ok(None), _) | (Err(StreamFailed), None) => {
                ready.send_replace(Some(false));
                return;
            }
        };
        ready.send_replace(Some(true));
        if std::mem::take(&mut was_interrupted) && of_lists {
            for message in list_changes::all_notifications() {
                publish(Event { message, id: None, retry_ms: None });
            }
        }
        pause = Some(REOPEN_AFTER);
        let mut reopen_after = REOPEN_AFTER;
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                () = &mut over => return,
            };
            let Some(Ok(event)) = event else { break };
            last_id = event.id.clone().or(last_id);
            reopen_after = event.retry_ms.map_or(reopen_after, |ms| {
                Duration::from_millis(ms).clamp(REOPEN_AFTER_MIN, REOPEN_AFTER_MAX)
            });
            publish(event);
        }
        tokio::select! {
            () = tokio::time::sleep(reopen_after) => {}
            () = &mut over => return,
        }
    }
}

/// Forwards the gate's own messages: subscription updates and notifications of servers that joined
/// later.
async fn forward_own(
    mut own: mpsc::Receiver<ClientMessage>,
    to: mpsc::Sender<ClientMessage>,
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

async fn forward(
    context: RequestContext,
    peer: Arc<Peer>,
    mut events: Events,
    to: mpsc::Sender<ClientMessage>,
) {
    let Some(session) = context.session.clone() else { return };
    let mut ended = session.ended();
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            () = to.closed() => return,
            () = turned_true(&mut ended) => return,
        };
        let Some(Ok(event)) = event else { return };
        if let Some(outgoing) = for_client(&context, &session, &peer, &event)
            && to.send(outgoing).await.is_err()
        {
            return;
        }
    }
}
