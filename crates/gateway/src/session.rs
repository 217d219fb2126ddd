//! Sessions of legacy clients (before 2026-07-28): the client, its requests in flight and its
//! servers. A session id is an address, never a credential: every request is authenticated by its
//! grant.

mod disconnect;
mod elicitations;
mod in_flight_requests;
pub(crate) mod list_changes;
mod pending_peer;
mod sessions;

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use hashbrown::{HashMap, HashSet};
use policy::json::Value;
use tokio::sync::{mpsc, watch};

use crate::upstream::peer::Peer;
use mcp::ClientInfo;
use mcp::{ClientCapabilities, Id, Revision};

pub(crate) use in_flight_requests::{InFlightGuard, InFlightRequests};
pub(crate) use pending_peer::{Opener, Opening};
pub(crate) use sessions::Sessions;

/// Server messages queued until the client opens its stream; beyond this the oldest is dropped.
const UNDELIVERED_MAX: usize = 256;
/// Bytes of all of them.
const UNDELIVERED_BYTES_MAX: usize = 256 << 10;
/// Requests of one session that may wait for a broken stream to be resumed.
const DETACHED_MAX: usize = 64;
/// Server requests that the client has not answered; one more is refused.
const SERVER_REQUESTS_MAX: usize = 1024;

/// A session of a legacy client.
pub(crate) struct Session {
    pub(crate) id: String,
    pub(crate) grant: String,
    /// The server of `/mcp/<server>`, or none for `/mcp`.
    pub(crate) server: Option<String>,
    pub(crate) revision: Revision,
    /// Name and version of the client.
    pub(crate) client: ClientInfo,
    /// The client's `params` of initialize, unchanged; the handshake with its servers uses them.
    pub(crate) initialize_params: String,
    pub(crate) client_capabilities: ClientCapabilities,
    /// The capabilities in `initialize_params`, as announced to its servers.
    pub(crate) announced_capabilities: ClientCapabilities,
    pub(crate) client_requests: Arc<InFlightRequests>,
    state: Mutex<SessionState>,
    ended: watch::Sender<bool>,
    used_at_us: AtomicI64,
    /// Whether a server runs, or ran, a task for it.
    has_task: AtomicBool,
    /// Memory for the client's handshake and its servers' initialize results.
    kept_bytes: AtomicUsize,
}

#[derive(Default)]
struct SessionState {
    peers: BTreeMap<String, Arc<Peer>>,
    /// Servers that are being connected.
    openings: HashMap<String, Opening>,
    server_requests: HashMap<Id, PendingServerRequest>,
    /// Server and `elicitationId` of elicitations sent to the client, oldest first.
    elicited: VecDeque<(String, String)>,
    /// The `elicitationId` of a pending sign-in, by server.
    sign_ins: HashMap<String, String>,
    stream: Option<mpsc::Sender<ClientMessage>>,
    /// Since when the client has had neither a stream nor a request.
    gone_since_us: Option<i64>,
    undelivered: Vec<ClientMessage>,
    next_id: u64,
    log_level: Option<String>,
    /// Requests whose stream broke; their responses may arrive on another one.
    detached: HashMap<Id, Box<dyn DetachedCall>>,
    /// Servers whose own stream was requested.
    server_streams: HashSet<String>,
    /// Resource streams kept open for a client that subscribed to them.
    subscriptions: HashMap<String, tokio::task::AbortHandle>,
}

impl SessionState {
    fn undelivered_bytes(&self) -> usize {
        self.undelivered.iter().map(|waiting| waiting.message.len()).sum()
    }
}

/// A message to the client that is not a direct response.
#[derive(Clone, Debug)]
pub(crate) struct ClientMessage {
    pub(crate) message: Bytes,
    pub(crate) event_id: Option<String>,
    pub(crate) retry_ms: Option<u64>,
}

impl ClientMessage {
    pub(crate) fn plain(message: impl Into<Bytes>) -> ClientMessage {
        ClientMessage { message: message.into(), event_id: None, retry_ms: None }
    }
}

/// A server request that waits for the client's response.
pub(crate) struct PendingServerRequest {
    pub(crate) to: ResponseTarget,
}

impl PendingServerRequest {
    fn is_waited_for(&self) -> bool {
        match &self.to {
            ResponseTarget::Server { .. } => true,
            ResponseTarget::Call(waiting) => !waiting.is_closed(),
        }
    }
}

pub(crate) enum ResponseTarget {
    /// A server's own request, with the id it used.
    Server { peer: Arc<Peer>, id: Id },
    /// A call of ours that waits (a modern server behind a legacy client).
    Call(tokio::sync::oneshot::Sender<ClientResponse>),
}

/// The client's response to a server request.
#[derive(Debug)]
pub(crate) enum ClientResponse {
    Result(String),
    Error(String),
}

/// A call whose stream broke. Its response may arrive on another stream of its session. It must not
/// hold the session, which holds it.
pub(crate) trait DetachedCall: Send {
    /// The response as the client may receive it.
    fn finish(
        self: Box<Self>,
        session: &Arc<Session>,
        message: &Bytes,
        root: Value<'_>,
    ) -> Option<Bytes>;
}

pub(crate) struct NewSession {
    pub(crate) id: String,
    pub(crate) grant: String,
    pub(crate) server: Option<String>,
    pub(crate) revision: Revision,
    pub(crate) client: ClientInfo,
    pub(crate) initialize_params: String,
    pub(crate) client_capabilities: ClientCapabilities,
    pub(crate) now_us: i64,
}

impl Session {
    pub(crate) fn new(new: NewSession) -> Session {
        Session {
            id: new.id,
            grant: new.grant,
            server: new.server,
            revision: new.revision,
            kept_bytes: AtomicUsize::new(new.initialize_params.len() + new.client.text().len()),
            announced_capabilities: ClientCapabilities::of_handshake(&new.initialize_params),
            initialize_params: new.initialize_params,
            client: new.client,
            client_capabilities: new.client_capabilities,
            client_requests: Arc::default(),
            state: Mutex::default(),
            ended: watch::Sender::new(false),
            used_at_us: AtomicI64::new(new.now_us),
            has_task: AtomicBool::new(false),
        }
    }

    fn state(&self) -> MutexGuard<'_, SessionState> {
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

    /// Ends every stream of the session and returns its peers to be closed.
    pub(crate) fn end(&self) -> Vec<Arc<Peer>> {
        self.ended.send_replace(true);
        let mut state = self.state();
        state.stream = None;
        state.server_requests.clear();
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

    /// The number of its child processes.
    fn commands(&self) -> usize {
        self.state().peers.values().filter(|peer| peer.is_child()).count()
    }

    /// Adds the connection to a server; false if the session has ended.
    pub(crate) fn add_peer(&self, peer: Arc<Peer>) -> bool {
        let mut state = self.state();
        if *self.ended.borrow() {
            return false;
        }
        self.kept_bytes.fetch_add(peer.initialize_result_bytes(), Ordering::Relaxed);
        let before = state.peers.insert(peer.server.name.clone(), peer);
        let bytes = before.map_or(0, |before| before.initialize_result_bytes());
        self.kept_bytes.fetch_sub(bytes, Ordering::Relaxed);
        true
    }

    /// About how much memory it uses while it is open.
    fn kept_bytes(&self) -> usize {
        self.kept_bytes.load(Ordering::Relaxed)
    }

    /// Registers a server request. With `keep_id` the client sees the server's own id; otherwise
    /// one of ours, because two servers may use the same. None when too many are pending.
    pub(crate) fn add_server_request(&self, keep_id: Option<Id>, to: ResponseTarget) -> Option<Id> {
        let mut state = self.state();
        if state.server_requests.len() >= SERVER_REQUESTS_MAX {
            state.server_requests.retain(|_, server_requests| server_requests.is_waited_for());
        }
        if state.server_requests.len() >= SERVER_REQUESTS_MAX {
            tracing::warn!(session = %self.id, "refused a server request: the client has {SERVER_REQUESTS_MAX} unanswered ones");
            return None;
        }
        let id = keep_id.unwrap_or_else(|| {
            state.next_id += 1;
            Id::generated("ask", state.next_id)
        });
        state.server_requests.insert(id.clone(), PendingServerRequest { to });
        Some(id)
    }

    pub(crate) fn take_server_request(&self, id: &Id) -> Option<PendingServerRequest> {
        self.state().server_requests.remove(id)
    }

    pub(crate) fn log_level(&self) -> Option<String> {
        self.state().log_level.clone()
    }

    pub(crate) fn set_log_level(&self, level: &str) {
        self.state().log_level = Some(level.to_owned());
    }

    /// Registers the stream of a server; false if it was requested before.
    pub(crate) fn add_server_stream(&self, server: &str) -> bool {
        self.state().server_streams.insert(server.to_owned())
    }

    /// Whether the stream of a server was requested.
    pub(crate) fn has_server_stream(&self, server: &str) -> bool {
        self.state().server_streams.contains(server)
    }

    /// Forgets the stream of a server.
    pub(crate) fn remove_server_stream(&self, server: &str) {
        self.state().server_streams.remove(server);
    }

    /// Keeps a request whose stream broke, until its response arrives on another stream.
    pub(crate) fn detach(&self, sent_id: Id, call: Box<dyn DetachedCall>) {
        let mut state = self.state();
        if state.detached.len() < DETACHED_MAX {
            state.detached.insert(sent_id, call);
        }
    }

    pub(crate) fn reattach(&self, sent_id: &Id) -> Option<Box<dyn DetachedCall>> {
        self.state().detached.remove(sent_id)
    }

    /// Registers the stream of one resource and aborts the previous one.
    pub(crate) fn subscribe(&self, uri: &str, stream: tokio::task::AbortHandle) {
        if let Some(before) = self.state().subscriptions.insert(uri.to_owned(), stream) {
            before.abort();
        }
    }

    /// The same, unless there are `streams_max` already.
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

    /// The id of a server's event as the client sees it. Where several servers share the session it
    /// contains the server, so that only that one is asked to resume.
    pub(crate) fn event_id(&self, server: &str, id: Option<&str>) -> Option<String> {
        let id = id?;
        Some(if self.server.is_none() { format!("{server}/{id}") } else { id.to_owned() })
    }

    /// The server of a `Last-Event-ID` and the server's own id.
    pub(crate) fn resumed<'i>(&'i self, last: &'i str) -> Option<(&'i str, &'i str)> {
        match &self.server {
            Some(server) => Some((server, last)),
            None => last.split_once('/'),
        }
    }

    /// Opens the client's stream and closes the previous one.
    pub(crate) fn open_stream(&self) -> mpsc::Receiver<ClientMessage> {
        let (sender, receiver) = mpsc::channel(UNDELIVERED_MAX);
        let mut state = self.state();
        for waiting in std::mem::take(&mut state.undelivered) {
            // The channel has the capacity of the queue, so this never fails.
            let _ = sender.try_send(waiting);
        }
        state.stream = Some(sender);
        receiver
    }

    pub(crate) fn has_stream(&self) -> bool {
        self.state().stream.as_ref().is_some_and(|stream| !stream.is_closed())
    }

    /// Sends a message to the client's stream, or queues it until there is one.
    pub(crate) fn deliver(&self, outgoing: ClientMessage) {
        let mut state = self.state();
        let unsent = match &state.stream {
            None => Some(outgoing),
            Some(stream) => match stream.try_send(outgoing) {
                Ok(()) => None,
                Err(mpsc::error::TrySendError::Full(lost)) => {
                    tracing::warn!(session = %self.id, bytes = lost.message.len(), "dropped a message: the client reads its stream too slowly");
                    None
                }
                Err(mpsc::error::TrySendError::Closed(outgoing)) => Some(outgoing),
            },
        };
        let Some(outgoing) = unsent else { return };
        state.stream = None;
        let bytes = outgoing.message.len();
        if bytes > UNDELIVERED_BYTES_MAX {
            tracing::warn!(session = %self.id, bytes, "dropped a message: no stream is open and it is too large to queue");
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use tokio::sync::oneshot;

    use super::*;

    #[test]
    fn pending_server_requests_are_bounded_and_those_of_ended_calls_removed() {
        let session = Session::new(NewSession {
            id: "s".to_owned(),
            grant: "g".to_owned(),
            server: None,
            revision: Revision::LEGACY_NEWEST,
            client: ClientInfo::default(),
            initialize_params: "{}".to_owned(),
            client_capabilities: ClientCapabilities::default(),
            now_us: 0,
        });
        let ask = || {
            let (answer, waiting) = oneshot::channel();
            session.add_server_request(None, ResponseTarget::Call(answer)).map(|_| waiting)
        };
        let mut waiting: Vec<_> = (0..SERVER_REQUESTS_MAX).map(|_| ask().unwrap()).collect();
        assert!(ask().is_none());
        waiting.pop();
        assert!(ask().is_some(), "a call that ended does not wait");
    }
}
