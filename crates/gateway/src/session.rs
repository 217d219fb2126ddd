//! Conversations of clients from before 2026-07-28: who opened one, what is in flight in it, and which
//! servers it talks to. A session id is an address, never a credential: every request brings its grant.

mod all;
mod opening;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use hashbrown::HashMap;
use tokio::sync::{Notify, mpsc, watch};

use crate::client::Client;
use crate::flow::Tail;
use crate::peer::Peer;
use crate::wire::{Id, Revision, Takes};

pub(crate) use all::Sessions;
pub(crate) use opening::{Opener, Opening};

/// Messages from servers that wait for the client to open its stream; the oldest goes first.
const UNDELIVERED_MAX: usize = 256;
/// And the bytes of all of them.
const UNDELIVERED_BYTES_MAX: usize = 256 << 10;
/// Requests of one session that may wait for a lost stream to be taken up again.
const DETACHED_MAX: usize = 64;
/// Questions of servers that a session's client may owe answers to; one more is refused.
const ASKED_MAX: usize = 1024;

/// One conversation.
pub(crate) struct Session {
    pub(crate) id: String,
    pub(crate) grant: String,
    /// The server of `/mcp/<server>`, or none for `/mcp`.
    pub(crate) server: Option<String>,
    pub(crate) revision: Revision,
    /// The client's own name and version, as it gave them.
    pub(crate) client: Client,
    /// The client's `params` of initialize, word for word: what its servers are greeted with.
    pub(crate) greeting: String,
    pub(crate) takes: Takes,
    /// The capabilities that its servers are greeted with.
    pub(crate) greeted: Takes,
    pub(crate) flights: Arc<Flights>,
    state: Mutex<State>,
    ended: watch::Sender<bool>,
    used_at_us: AtomicI64,
    /// What it keeps of its client's words and of what its servers said of themselves.
    kept_bytes: AtomicUsize,
}

#[derive(Default)]
struct State {
    peers: BTreeMap<String, Arc<Peer>>,
    /// Servers whose conversation is being opened.
    openings: HashMap<String, Opening>,
    asked: HashMap<Id, Asked>,
    stream: Option<mpsc::Sender<Outgoing>>,
    /// Whether the client ever opened a stream, and since when it has had neither one nor a request.
    had_stream: bool,
    gone_since_us: Option<i64>,
    undelivered: Vec<Outgoing>,
    next_ask: u64,
    log_level: Option<String>,
    /// Requests whose stream was lost; their answers may come on another one.
    detached: HashMap<Id, Tail>,
    /// Servers that are heard, and whether they have anything to say; nothing until they told.
    heard: HashMap<String, watch::Sender<Option<bool>>>,
    /// Streams of single resources, kept open for a client that subscribed to them.
    subscriptions: HashMap<String, tokio::task::AbortHandle>,
}

impl State {
    fn undelivered_bytes(&self) -> usize {
        self.undelivered.iter().map(|waiting| waiting.message.len()).sum()
    }
}

/// A message for the client outside any request of its own.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing {
    pub(crate) message: Bytes,
    pub(crate) event_id: Option<String>,
    pub(crate) retry_ms: Option<u64>,
}

impl Outgoing {
    pub(crate) fn plain(message: impl Into<Bytes>) -> Outgoing {
        Outgoing { message: message.into(), event_id: None, retry_ms: None }
    }
}

/// A request of the client that has no answer yet.
pub(crate) struct Flight {
    /// Under which id and to which server it went out.
    sent_as: Mutex<Option<(Arc<Peer>, Id)>>,
    pub(crate) cancelled: Notify,
    taken_back: AtomicBool,
}

impl Flight {
    /// The client no longer wants an answer.
    pub(crate) fn take_back(&self) {
        self.taken_back.store(true, Ordering::Release);
        self.cancelled.notify_one();
    }

    pub(crate) fn is_taken_back(&self) -> bool {
        self.taken_back.load(Ordering::Acquire)
    }

    pub(crate) fn sent_as(&self) -> Option<(Arc<Peer>, Id)> {
        self.sent_as.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A server's question to the client: where the answer goes.
pub(crate) struct Asked {
    pub(crate) to: AnswerTo,
}

impl Asked {
    fn is_waited_for(&self) -> bool {
        match &self.to {
            AnswerTo::Server { .. } => true,
            AnswerTo::Call(waiting) => !waiting.is_closed(),
        }
    }
}

pub(crate) enum AnswerTo {
    /// Back to a server that asks for itself, under the id it used.
    Server { peer: Arc<Peer>, id: Id },
    /// To a call of ours that waits for it (a server of 2026-07-28 behind an older client).
    Call(tokio::sync::oneshot::Sender<ClientAnswer>),
}

/// What a client answered to a server's question.
#[derive(Debug)]
pub(crate) enum ClientAnswer {
    Result(String),
    Error(String),
}

/// The id of this request is already in flight in this session.
#[derive(Debug)]
pub(crate) struct IdInUse;

pub(crate) struct NewSession {
    pub(crate) id: String,
    pub(crate) grant: String,
    pub(crate) server: Option<String>,
    pub(crate) revision: Revision,
    pub(crate) client: Client,
    pub(crate) greeting: String,
    pub(crate) takes: Takes,
    pub(crate) now_us: i64,
}

impl Session {
    pub(crate) fn new(new: NewSession) -> Session {
        Session {
            id: new.id,
            grant: new.grant,
            server: new.server,
            revision: new.revision,
            kept_bytes: AtomicUsize::new(new.greeting.len() + new.client.text().len()),
            greeted: Takes::of_handshake(&new.greeting),
            greeting: new.greeting,
            client: new.client,
            takes: new.takes,
            flights: Arc::default(),
            state: Mutex::default(),
            ended: watch::Sender::new(false),
            used_at_us: AtomicI64::new(new.now_us),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn touch(&self, now_us: i64) {
        self.used_at_us.store(now_us, Ordering::Relaxed);
    }

    pub(crate) fn used_at_us(&self) -> i64 {
        self.used_at_us.load(Ordering::Relaxed)
    }

    pub(crate) fn ended(&self) -> watch::Receiver<bool> {
        self.ended.subscribe()
    }

    /// Ends every stream of the session and returns its servers' links to be closed.
    pub(crate) fn end(&self) -> Vec<Arc<Peer>> {
        self.ended.send_replace(true);
        let mut state = self.state();
        state.stream = None;
        state.asked.clear();
        state.detached.clear();
        for (_, subscription) in state.subscriptions.drain() {
            subscription.abort();
        }
        std::mem::take(&mut state.peers).into_values().collect()
    }

    pub(crate) fn peer(&self, server: &str) -> Option<Arc<Peer>> {
        self.state().peers.get(server).cloned()
    }

    pub(crate) fn peers(&self) -> Vec<Arc<Peer>> {
        self.state().peers.values().cloned().collect()
    }

    /// How many processes it keeps running.
    fn commands(&self) -> usize {
        self.state().peers.values().filter(|peer| peer.is_child()).count()
    }

    /// Adds a conversation with a server; false if the session has ended.
    pub(crate) fn add_peer(&self, peer: Arc<Peer>) -> bool {
        let mut state = self.state();
        if *self.ended.borrow() {
            return false;
        }
        self.kept_bytes.fetch_add(peer.greeting_bytes(), Ordering::Relaxed);
        let before = state.peers.insert(peer.server.name.clone(), peer);
        let bytes = before.map_or(0, |before| before.greeting_bytes());
        self.kept_bytes.fetch_sub(bytes, Ordering::Relaxed);
        true
    }

    /// About how much memory it keeps as long as it is open.
    fn kept_bytes(&self) -> usize {
        self.kept_bytes.load(Ordering::Relaxed)
    }

    /// For how long a client that had a stream has had neither a stream nor a request; looked at now and
    /// then. A client that never opened a stream may well come back after a long pause.
    pub(crate) fn gone_us(&self, now_us: i64) -> i64 {
        let mut state = self.state();
        let is_heard = state.stream.as_ref().is_some_and(|stream| !stream.is_closed());
        if is_heard || !state.had_stream || !self.flights.is_empty() {
            state.gone_since_us = None;
            return 0;
        }
        let since_us = *state.gone_since_us.get_or_insert(now_us);
        now_us.saturating_sub(since_us.max(self.used_at_us()))
    }

    /// Remembers a server's question. With `keep_id` the client sees the server's own id; otherwise
    /// one of ours, because two servers may use the same. Nothing when too many wait for their answers.
    pub(crate) fn ask(&self, keep_id: Option<Id>, to: AnswerTo) -> Option<Id> {
        let mut state = self.state();
        if state.asked.len() >= ASKED_MAX {
            state.asked.retain(|_, asked| asked.is_waited_for());
        }
        if state.asked.len() >= ASKED_MAX {
            tracing::warn!(session = %self.id, "a client owes {ASKED_MAX} answers; a server's question is refused");
            return None;
        }
        let id = keep_id.unwrap_or_else(|| {
            state.next_ask += 1;
            Id::minted("ask", state.next_ask)
        });
        state.asked.insert(id.clone(), Asked { to });
        Some(id)
    }

    pub(crate) fn answered(&self, id: &Id) -> Option<Asked> {
        self.state().asked.remove(id)
    }

    pub(crate) fn log_level(&self) -> Option<String> {
        self.state().log_level.clone()
    }

    pub(crate) fn set_log_level(&self, level: &str) {
        self.state().log_level = Some(level.to_owned());
    }

    /// The place to tell whether a server has a stream, for the first who asks.
    pub(crate) fn hearing(&self, server: &str) -> Option<watch::Sender<Option<bool>>> {
        let mut state = self.state();
        if state.heard.contains_key(server) {
            return None;
        }
        let told = watch::Sender::new(None);
        state.heard.insert(server.to_owned(), told.clone());
        Some(told)
    }

    /// Whether a server was asked for its stream.
    pub(crate) fn is_hearing(&self, server: &str) -> bool {
        self.state().heard.contains_key(server)
    }

    /// A server is no longer heard.
    pub(crate) fn unheard(&self, server: &str) {
        self.state().heard.remove(server);
    }

    /// Whether a server that was asked has a stream, as far as is known.
    pub(crate) fn hears(&self, server: &str) -> bool {
        self.state().heard.get(server).is_some_and(|told| *told.borrow() != Some(false))
    }

    /// Keeps a request whose stream was lost, until its answer comes on another stream.
    pub(crate) fn detach(&self, tail: Tail) {
        let mut state = self.state();
        if state.detached.len() < DETACHED_MAX {
            state.detached.insert(tail.sent_id.clone(), tail);
        }
    }

    pub(crate) fn reattach(&self, sent_id: &Id) -> Option<Tail> {
        self.state().detached.remove(sent_id)
    }

    /// Remembers a stream for one resource; one that was there before ends.
    pub(crate) fn subscribe(&self, uri: &str, stream: tokio::task::AbortHandle) {
        if let Some(before) = self.state().subscriptions.insert(uri.to_owned(), stream) {
            before.abort();
        }
    }

    /// The same where there are not so many yet.
    pub(crate) fn subscribe_within(
        &self,
        name: &str,
        streams_max: usize,
        open: impl FnOnce() -> tokio::task::AbortHandle,
    ) {
        let mut state = self.state();
        if state.subscriptions.len() < streams_max {
            state.subscriptions.insert(name.to_owned(), open());
        }
    }

    pub(crate) fn unsubscribe(&self, uri: &str) {
        if let Some(stream) = self.state().subscriptions.remove(uri) {
            stream.abort();
        }
    }

    /// The id of a server's event as the client sees it. Where several servers share the session it names
    /// its server, so that no other one is asked to go on after it.
    pub(crate) fn event_id(&self, server: &str, id: Option<&str>) -> Option<String> {
        let id = id?;
        Some(if self.server.is_none() { format!("{server}/{id}") } else { id.to_owned() })
    }

    /// The server that a `Last-Event-ID` is about, and the id that it knows.
    pub(crate) fn resumed<'i>(&'i self, last: &'i str) -> Option<(&'i str, &'i str)> {
        match &self.server {
            Some(server) => Some((server, last)),
            None => last.split_once('/'),
        }
    }

    /// Opens the client's own stream; one that was open before ends.
    pub(crate) fn open_stream(&self) -> mpsc::Receiver<Outgoing> {
        let (sender, receiver) = mpsc::channel(UNDELIVERED_MAX);
        let mut state = self.state();
        for waiting in std::mem::take(&mut state.undelivered) {
            // The channel holds as many as may wait, so this never fails.
            let _ = sender.try_send(waiting);
        }
        state.stream = Some(sender);
        state.had_stream = true;
        receiver
    }

    pub(crate) fn is_listened_to(&self) -> bool {
        self.state().stream.as_ref().is_some_and(|stream| !stream.is_closed())
    }

    /// Hands a message to the client's stream, or keeps it until there is one.
    pub(crate) fn deliver(&self, outgoing: Outgoing) {
        let mut state = self.state();
        let unsent = match &state.stream {
            None => Some(outgoing),
            Some(stream) => match stream.try_send(outgoing) {
                Ok(()) => None,
                Err(mpsc::error::TrySendError::Full(lost)) => {
                    tracing::warn!(session = %self.id, bytes = lost.message.len(), "client reads too slowly, message dropped");
                    None
                }
                Err(mpsc::error::TrySendError::Closed(outgoing)) => Some(outgoing),
            },
        };
        let Some(outgoing) = unsent else { return };
        state.stream = None;
        let bytes = outgoing.message.len();
        if bytes > UNDELIVERED_BYTES_MAX {
            tracing::warn!(session = %self.id, bytes, "no stream is open and the message is too large to wait for one; dropped");
            return;
        }
        while state.undelivered.len() >= UNDELIVERED_MAX
            || state.undelivered_bytes() + bytes > UNDELIVERED_BYTES_MAX
        {
            state.undelivered.remove(0);
        }
        state.undelivered.push(outgoing);
    }
}

/// The requests of one client that have no answer yet.
#[derive(Default)]
pub(crate) struct Flights {
    by_id: Mutex<HashMap<Id, Arc<Flight>>>,
}

impl Flights {
    fn table(&self) -> MutexGuard<'_, HashMap<Id, Arc<Flight>>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a request is under way; a second one under the same id is refused.
    pub(crate) fn depart(self: &Arc<Self>, id: &Id) -> Result<InFlight, IdInUse> {
        let flight = Arc::new(Flight {
            sent_as: Mutex::new(None),
            cancelled: Notify::new(),
            taken_back: AtomicBool::new(false),
        });
        match self.table().entry(id.clone()) {
            hashbrown::hash_map::Entry::Occupied(_) => Err(IdInUse),
            hashbrown::hash_map::Entry::Vacant(place) => {
                place.insert(Arc::clone(&flight));
                Ok(InFlight { flights: Arc::clone(self), id: id.clone(), flight })
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.table().is_empty()
    }

    pub(crate) fn flight(&self, id: &Id) -> Option<Arc<Flight>> {
        self.table().get(id).cloned()
    }
}

/// While this lives, its id is taken.
pub(crate) struct InFlight {
    flights: Arc<Flights>,
    id: Id,
    pub(crate) flight: Arc<Flight>,
}

impl InFlight {
    pub(crate) fn sent(&self, peer: &Arc<Peer>, id: Id) {
        *self.flight.sent_as.lock().unwrap_or_else(PoisonError::into_inner) =
            Some((Arc::clone(peer), id));
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.flights.table().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use tokio::sync::oneshot;

    use super::*;

    #[test]
    fn a_client_owes_so_many_answers_and_those_nobody_waits_for_are_forgotten() {
        let session = Session::new(NewSession {
            id: "s".to_owned(),
            grant: "g".to_owned(),
            server: None,
            revision: Revision::LEGACY_NEWEST,
            client: Client::default(),
            greeting: "{}".to_owned(),
            takes: Takes::default(),
            now_us: 0,
        });
        let ask = || {
            let (answer, waiting) = oneshot::channel();
            session.ask(None, AnswerTo::Call(answer)).map(|_| waiting)
        };
        let mut waiting: Vec<_> = (0..ASKED_MAX).map(|_| ask().unwrap()).collect();
        assert!(ask().is_none());
        waiting.pop();
        assert!(ask().is_some(), "a call that ended waits for nothing");
    }
}
