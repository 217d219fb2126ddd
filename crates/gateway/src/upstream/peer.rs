//! A server as one or several clients use it: a link, the negotiated era and the `initialize` result.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use connectors::{Admitted, Caller};
use policy::json::{Bounds, Doc};
use serde_json::Value;
use store::ledger::Permit;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::builtin::{Builtin, Call};
use crate::runtime::offload::{LARGE_BYTES, offload};
use crate::runtime::response_buffer::BufferQuota;
use crate::upstream::builtin_request;
use crate::upstream::log_levels::LogLevels;
use crate::upstream::server::Server;
use crate::upstream::server_requests::ServerRequestRouter;
use crate::upstream::skills;
use crate::upstream::{
    ChildState, Event, Link, PermittedRequest, Reply, RestoreState, ServerStream, UpstreamError,
    UpstreamMessage,
};
use mcp::{ClientCapabilities, Era, Id, Method, server_message};

/// Responses of the gate to server requests (pings, refusals) that may be in flight.
const REPLIES_IN_FLIGHT_MAX: usize = 64;

/// A server with its negotiated era.
pub(crate) struct Peer {
    pub(crate) server: Arc<Server>,
    link: PeerLink,
    pub(crate) era: Era,
    /// The server's `initialize` or `server/discover` result.
    pub(crate) initialize_result: Value,
    initialize_result_bytes: usize,
    /// Shared by several clients, so request ids must be the gate's.
    pub(crate) shared: bool,
    /// The client capabilities in its handshake. A modern server gets them with each request.
    client_capabilities: Option<ClientCapabilities>,
    ids: AtomicU64,
    /// The run of its process whose tool list was checked; 0 if none.
    checked: AtomicU64,
    /// The log levels that its clients want.
    levels: Mutex<LogLevels>,
    idle_since: Mutex<Option<IdleSince>>,
    /// Routes server requests outside responses to calls.
    pub(crate) request_router: Arc<ServerRequestRouter>,
    /// Slots for responses of the gate. Each is a task and a row, so a server that sends requests faster than
    /// it reads responses gets none.
    reply_slots: Arc<Semaphore>,
    /// Turns true when the peer is retired.
    over: watch::Sender<bool>,
}

/// The request count at the last check, and since when it is unchanged.
#[derive(Clone, Copy)]
struct IdleSince {
    asked: u64,
    since_us: u64,
}

/// A request whose response has not started.
pub(crate) type PendingReply = Pin<Box<dyn Future<Output = Result<Reply, UpstreamError>> + Send>>;

pub(crate) enum PeerLink {
    Remote(Link),
    Builtin(Arc<Builtin>, Caller, BufferQuota),
}

impl Peer {
    pub(crate) fn new(
        server: Arc<Server>,
        link: PeerLink,
        era: Era,
        initialize_result: Value,
        shared: bool,
    ) -> Peer {
        Peer {
            server,
            link,
            era,
            initialize_result_bytes: serde_json::to_vec(&initialize_result)
                .map_or(0, |text| text.len()),
            initialize_result,
            shared,
            client_capabilities: None,
            ids: AtomicU64::new(0),
            checked: AtomicU64::new(0),
            levels: Mutex::default(),
            idle_since: Mutex::new(None),
            request_router: Arc::default(),
            reply_slots: Arc::new(Semaphore::new(REPLIES_IN_FLIGHT_MAX)),
            over: watch::Sender::new(false),
        }
    }

    pub(crate) fn initialize_result_bytes(&self) -> usize {
        self.initialize_result_bytes
    }

    pub(crate) fn announcing(self, client_capabilities: ClientCapabilities) -> Peer {
        Peer { client_capabilities: Some(client_capabilities), ..self }
    }

    /// The client capabilities that its tool list depends on, for a client with these.
    pub(crate) fn capabilities(&self, of_client: ClientCapabilities) -> ClientCapabilities {
        self.client_capabilities.unwrap_or(of_client)
    }

    /// A slot for a response of the gate, if one is free.
    pub(crate) fn acquire_reply_slot(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.reply_slots).try_acquire_owned().ok()
    }

    /// Turns true when no further requests are sent.
    pub(crate) fn over(&self) -> watch::Receiver<bool> {
        self.over.subscribe()
    }

    /// Ends new requests. Running ones continue.
    pub(crate) fn retire(&self) {
        self.over.send_replace(true);
    }

    /// Whether it is a legacy server over HTTP that the clients of a grant share. Such a server may send
    /// requests on its own stream, outside the call they belong to.
    pub(crate) fn may_send_unrelated_requests(&self) -> bool {
        let over_http = matches!(self.link, PeerLink::Remote(Link::Http(_)));
        over_http && self.shared && self.era == Era::Legacy
    }

    /// A request id that no client uses.
    pub(crate) fn next_id(&self) -> Id {
        Id::generated("tollgate", self.ids.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn is_child(&self) -> bool {
        matches!(self.link, PeerLink::Remote(Link::Stdio(_)))
    }

    /// Whether all its messages come on one stream and may not name their request.
    pub(crate) fn shares_stream(&self) -> bool {
        matches!(&self.link, PeerLink::Remote(link) if link.shares_stream())
    }

    /// Whether its task ids are unique to this peer: it is a process or a session of its own.
    pub(crate) fn has_own_task_ids(&self) -> bool {
        if self.server.is_shared_by_all() {
            return false;
        }
        match &self.link {
            PeerLink::Remote(Link::Http(link)) => link.session().is_some(),
            PeerLink::Remote(Link::Stdio(_)) | PeerLink::Builtin(..) => true,
        }
    }

    /// The state of its process, if it has one.
    pub(crate) fn child_state(&self) -> Option<ChildState> {
        match &self.link {
            PeerLink::Remote(Link::Stdio(link)) => Some(link.state()),
            _ => None,
        }
    }

    /// Whether its process has ended and will be restarted.
    pub(crate) fn is_restarting(&self) -> bool {
        matches!(&self.link, PeerLink::Remote(Link::Stdio(link)) if link.is_restarting())
    }

    /// Whether no request was sent for this long. Checked periodically.
    pub(crate) fn is_idle_since(&self, now_us: u64, for_us: u64) -> bool {
        let asked = self.ids.load(Ordering::Relaxed);
        let mut idle_since = self.idle_since.lock().unwrap_or_else(PoisonError::into_inner);
        if idle_since.is_none_or(|idle_since| idle_since.asked != asked) {
            *idle_since = Some(IdleSince { asked, since_us: now_us });
        }
        idle_since.is_some_and(|idle_since| now_us.saturating_sub(idle_since.since_us) > for_us)
    }

    pub(crate) fn is_builtin(&self) -> bool {
        matches!(self.link, PeerLink::Builtin(..))
    }

    /// A restarted process may have another version.
    pub(crate) fn is_checked(&self) -> bool {
        self.checked.load(Ordering::Acquire) == self.runs()
    }

    pub(crate) fn set_checked(&self, checked: bool) {
        self.checked.store(if checked { self.runs() } else { 0 }, Ordering::Release);
    }

    /// Handles a notification: a changed list makes the cached one invalid.
    pub(crate) fn note_notification(&self, method: &str) {
        match Method::parse(method) {
            Method::ToolsChanged => {
                self.set_checked(false);
                self.server.forget_check();
            }
            _ if method.ends_with("/list_changed") => self.server.forget_lists(method),
            _ => {}
        }
    }

    /// The capabilities that it declared, sorted and comma-separated.
    pub(crate) fn offers_text(&self) -> String {
        let all = self.initialize_result.get("capabilities").and_then(Value::as_object);
        let names = ["completions", "logging", "prompts", "resources", "tools"];
        let declared =
            names.into_iter().filter(|name| all.is_some_and(|all| all.contains_key(*name)));
        let reads = self.offers(skills::EXTENSION).then_some(skills::EXTENSION);
        let directories = self.reads_directories().then_some(skills::DIRECTORY_READ);
        declared.chain(reads).chain(directories).collect::<Vec<_>>().join(",")
    }

    /// How often its process was started; 1 if it has none.
    fn runs(&self) -> u64 {
        match &self.link {
            PeerLink::Remote(Link::Stdio(link)) => link.runs().max(1),
            _ => 1,
        }
    }

    /// What a legacy server forgets when it restarts. Built-in servers do not.
    pub(crate) fn restore_state(&self) -> Option<&RestoreState> {
        match &self.link {
            PeerLink::Remote(link) if self.era == Era::Legacy => Some(link.restore_state()),
            _ => None,
        }
    }

    /// Records a log level that a client wants. Returns the level to send to the server, if it changes.
    pub(crate) fn level_to_send(&self, level: &str, now_us: u64) -> Option<&'static str> {
        let mut levels = self.levels.lock().unwrap_or_else(PoisonError::into_inner);
        if self.shared { levels.want(level, now_us) } else { levels.want_only(level) }
    }

    /// Whether it announces changes of a list.
    pub(crate) fn announces_changes_of(&self, list_changed: &str) -> bool {
        let list = list_changed.split('/').nth(1).unwrap_or_default();
        let path = format!("/capabilities/{list}/listChanged");
        self.initialize_result.pointer(&path).and_then(Value::as_bool) == Some(true)
    }

    /// Whether it declares a capability, such as `resources`, or the extension for skills, which servers of both
    /// eras declare.
    pub(crate) fn offers(&self, capability: &str) -> bool {
        let all = self.initialize_result.get("capabilities");
        let extensions = all.and_then(|all| all.get("extensions"));
        let all = if capability == skills::EXTENSION { extensions } else { all };
        all.is_some_and(|all| all.get(capability).is_some())
    }

    /// Whether it lists the files of a folder.
    fn reads_directories(&self) -> bool {
        let extensions = self.initialize_result.pointer("/capabilities/extensions");
        let settings = extensions.and_then(|all| all.get(skills::EXTENSION));
        settings.and_then(|all| all.get("directoryRead")).and_then(Value::as_bool) == Some(true)
    }

    /// Whether a modern server declares an extension.
    pub(crate) fn extends(&self, extension: &str) -> bool {
        let all = self.initialize_result.get("capabilities").and_then(|all| all.get("extensions"));
        self.era == Era::Modern && all.is_some_and(|all| all.get(extension).is_some())
    }

    /// Whether a legacy server runs tools as tasks, so that the gate offers the extension for it.
    pub(crate) fn runs_tasks(&self) -> bool {
        let call = self.initialize_result.pointer("/capabilities/tasks/requests/tools/call");
        self.era == Era::Legacy && call.is_some_and(Value::is_object)
    }

    pub(crate) async fn request(
        &self,
        permit: &Permit,
        out: UpstreamMessage,
    ) -> Result<Reply, UpstreamError> {
        self.check_judged(&out)?;
        let _running = self.server.health.track_request();
        match &self.link {
            PeerLink::Remote(link) => link.request(permit, out).await,
            PeerLink::Builtin(builtin, caller, quota) => {
                let admitted = Admitted::by(permit);
                if let Some(token) = out.progress_token.clone()
                    && builtin.reports_progress(&out.body)
                {
                    let events = builtin_request::with_progress(
                        builtin,
                        (caller, quota),
                        admitted,
                        out,
                        token,
                    );
                    return Ok(Reply::Many(events));
                }
                let shows_apps =
                    out.client_capabilities.is_some_and(ClientCapabilities::shows_apps);
                let call = Call { admitted: &admitted, caller, progress: None, shows_apps };
                // Boxed, so that the future of other calls stays small.
                Ok(Box::pin(builtin_request::respond(builtin, quota, &call, &out)).await)
            }
        }
    }

    /// Sends a request to a legacy server over HTTP. The caller can wait for server requests at the same time.
    pub(crate) fn start_request(
        self: &Arc<Self>,
        permit: &Permit,
        out: UpstreamMessage,
    ) -> PendingReply {
        let judged = self.check_judged(&out);
        let (peer, permitted) = (Arc::clone(self), PermittedRequest::new(permit, out));
        Box::pin(async move {
            judged?;
            let _running = peer.server.health.track_request();
            match &peer.link {
                PeerLink::Remote(Link::Http(link)) => link.request_permitted(permitted).await,
                PeerLink::Remote(Link::Stdio(_)) | PeerLink::Builtin(..) => {
                    Err(UpstreamError::never_sent("it is not reached over HTTP"))
                }
            }
        })
    }

    pub(crate) async fn send(
        &self,
        permit: &Permit,
        out: UpstreamMessage,
    ) -> Result<(), UpstreamError> {
        self.check_judged(&out)?;
        match &self.link {
            PeerLink::Remote(link) => link.send(permit, out).await,
            PeerLink::Builtin(..) => Ok(()),
        }
    }

    /// Every message with a permit passes here. An edited one is parsed again and compared with what was
    /// judged, so that no edit can send another call than the permit is for.
    fn check_judged(&self, out: &UpstreamMessage) -> Result<(), UpstreamError> {
        if out.says_what_was_judged() {
            return Ok(());
        }
        tracing::error!(server = %self.server.name, "an edited message is not the call that was judged; not sent");
        Err(UpstreamError::NotAsJudged)
    }

    pub(crate) async fn listen(
        &self,
        permit: &Permit,
        last_event_id: Option<&str>,
    ) -> Result<ServerStream, UpstreamError> {
        match &self.link {
            PeerLink::Remote(link) => link.listen(permit, last_event_id).await,
            PeerLink::Builtin(..) => Ok(ServerStream::NotOffered),
        }
    }

    pub(crate) async fn close(&self) {
        self.retire();
        if let PeerLink::Remote(link) = &self.link {
            link.close().await;
        }
    }
}

/// Closes peers in the background.
pub(crate) fn close_all(peers: Vec<Arc<Peer>>) {
    for peer in peers {
        tokio::spawn(async move { peer.close().await });
    }
}

/// Waits for the response to a request of the gate. Earlier messages go to `others`.
pub(crate) async fn final_response(
    reply: Reply,
    id: &Id,
    mut others: impl FnMut(Event),
) -> Result<Bytes, UpstreamError> {
    match reply {
        Reply::Builtin { body, .. } => Ok(body),
        Reply::One { body, .. } => match fault(&body, id).await {
            Some(why) => Err(UpstreamError::Malformed { why: why.to_owned() }),
            None => Ok(body),
        },
        Reply::Accepted => Err(UpstreamError::Malformed {
            why: "it accepted a request without a response".to_owned(),
        }),
        Reply::Many(mut events) => {
            while let Some(event) = events.next().await {
                let event = event?;
                if is_answer(&event.message, id).await {
                    return Ok(event.message);
                }
                others(event);
            }
            Err(UpstreamError::Lost { why: "the stream ended without a response".to_owned() })
        }
    }
}

/// Why a result is not a valid response to this request. Errors may name no request.
async fn fault(message: &Bytes, id: &Id) -> Option<&'static str> {
    if message.len() <= LARGE_BYTES {
        return fault_of(message, id);
    }
    let (message, id) = (message.clone(), id.clone());
    offload(message.len(), move || fault_of(&message, &id)).await
}

fn fault_of(message: &[u8], id: &Id) -> Option<&'static str> {
    let doc = Doc::read_shallow(message, &Bounds::ANSWER, 1).ok()?;
    let root = doc.root();
    root.get("result")?;
    let ours = root.get("id").and_then(|value| id.is(value)) == Some(true);
    server_message::fault(root).or_else(|| (!ours).then_some("it responds to another request"))
}

async fn is_answer(message: &Bytes, id: &Id) -> bool {
    if message.len() <= LARGE_BYTES {
        return responds_to(message, id);
    }
    let (message, id) = (message.clone(), id.clone());
    offload(message.len(), move || responds_to(&message, &id)).await
}

fn responds_to(message: &[u8], id: &Id) -> bool {
    let Ok(doc) = Doc::read_shallow(message, &Bounds::ANSWER, 1) else { return false };
    let root = doc.root();
    root.get("method").is_none() && root.get("id").and_then(Id::lenient).as_ref() == Some(id)
}
