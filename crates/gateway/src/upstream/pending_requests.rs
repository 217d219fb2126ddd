//! The pending requests of one shared stream, and the routing of its messages: responses by id, progress by
//! token, subscriptions by their id, and the rest to the listener.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;

use super::error::{Excess, UpstreamError};
use super::queue::{ByteSize, PushError, Queue, QueueBounds};
use super::route::Inbound;
use mcp::{ClientCapabilities, Id, InputKind};

/// A message of the stream.
pub(super) struct InboundMessage {
    pub(super) message: Bytes,
    /// It is the response, so nothing follows.
    pub(super) is_answer: bool,
}

impl ByteSize for InboundMessage {
    fn bytes(&self) -> usize {
        self.message.len()
    }
}

/// How far a request was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum SendState {
    Queued = 0,
    /// It may have been read in part.
    Begun = 1,
    /// No longer needed.
    Abandoned = 2,
}

/// A request that waits for its response.
pub(super) struct PendingRequest {
    pub(super) id: Id,
    pub(super) queue: Queue<InboundMessage>,
    token: Option<Id>,
    client_capabilities: Option<ClientCapabilities>,
    /// Its client is answering a server request.
    waiting_for_client: AtomicBool,
    /// How many server requests were routed to it.
    times_asked: AtomicU32,
    age: u64,
    send_state: AtomicU8,
}

impl PendingRequest {
    pub(super) fn set_waiting_for_client(&self, waiting_for_client: bool) {
        self.waiting_for_client.store(waiting_for_client, Ordering::Release);
    }

    /// Marks the start of writing. False if the request was abandoned.
    pub(super) fn begin(&self) -> bool {
        self.step(SendState::Queued, SendState::Begun)
    }

    /// Abandons the request. True if it was sent, so that the server should be notified.
    pub(super) fn abandon(&self) -> bool {
        !self.step(SendState::Queued, SendState::Abandoned)
            && self.step(SendState::Begun, SendState::Abandoned)
    }

    fn step(&self, from: SendState, to: SendState) -> bool {
        let (from, to) = (from as u8, to as u8);
        self.send_state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// What the end of the stream means for this request.
    fn failure(&self, why: &str) -> UpstreamError {
        if self.send_state.load(Ordering::Acquire) == SendState::Begun as u8 {
            UpstreamError::lost(why)
        } else {
            UpstreamError::never_sent(why)
        }
    }
}

/// What happened to a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Delivery {
    Delivered,
    /// Queued for a listener; this many older ones were dropped.
    Kept {
        dropped: usize,
    },
    /// Its request is not pending (any more).
    Unclaimed,
}

/// Queue sizes, and how long to wait for slow readers.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueueLimits {
    pub(super) request: QueueBounds,
    pub(super) unclaimed: QueueBounds,
    pub(super) slow_reader_wait_max: Duration,
    /// Whether messages that belong to no request go to the newest request.
    pub(super) route_to_request: bool,
}

/// The pending requests of one stream.
pub(super) struct PendingRequests {
    queue_limits: QueueLimits,
    table: Mutex<Table>,
}

struct Table {
    requests: HashMap<Id, Arc<PendingRequest>>,
    tokens: HashMap<Id, Arc<PendingRequest>>,
    by_age: BTreeMap<u64, Arc<PendingRequest>>,
    next_age: u64,
    unclaimed: Arc<Queue<InboundMessage>>,
    has_listener: bool,
    closed: Option<String>,
}

impl PendingRequests {
    pub(super) fn new(queue_limits: QueueLimits) -> PendingRequests {
        let table = Table {
            requests: HashMap::new(),
            tokens: HashMap::new(),
            by_age: BTreeMap::new(),
            next_age: 0,
            unclaimed: Arc::new(Queue::new(queue_limits.unclaimed)),
            has_listener: false,
            closed: None,
        };
        PendingRequests { queue_limits, table: Mutex::new(table) }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a request before it is sent, so that no response is too early.
    pub(super) fn register(
        &self,
        id: Id,
        token: Option<Id>,
        client_capabilities: Option<ClientCapabilities>,
    ) -> Result<Arc<PendingRequest>, UpstreamError> {
        let mut table = self.lock();
        if let Some(why) = &table.closed {
            return Err(UpstreamError::never_sent(why.as_str()));
        }
        if table.requests.contains_key(&id) {
            return Err(UpstreamError::never_sent("its id is in use"));
        }
        let request = Arc::new(PendingRequest {
            queue: Queue::new(self.queue_limits.request),
            id,
            token,
            client_capabilities,
            waiting_for_client: AtomicBool::new(false),
            times_asked: AtomicU32::new(0),
            age: table.next_age,
            send_state: AtomicU8::new(SendState::Queued as u8),
        });
        table.add(&request);
        Ok(request)
    }

    pub(super) fn forget(&self, request: &PendingRequest) {
        self.lock().remove(request);
    }

    /// Delivers a message in order. Waits a limited time for a slow reader.
    pub(super) async fn deliver(&self, inbound: &Inbound, message: Bytes) -> Delivery {
        let is_answer = matches!(inbound, Inbound::Response(_));
        let message = InboundMessage { message, is_answer };
        let Some(request) = self.owner(inbound) else {
            return if is_answer { Delivery::Unclaimed } else { self.keep(message) };
        };
        match request.queue.push(message, self.queue_limits.slow_reader_wait_max).await {
            Ok(()) => Delivery::Delivered,
            Err(PushError::Closed) => Delivery::Unclaimed,
            Err(PushError::Full) => {
                let bytes_max = self.queue_limits.request.bytes_max;
                self.fail(&request, UpstreamError::TooLarge { what: Excess::Backlog, bytes_max });
                Delivery::Unclaimed
            }
        }
    }

    /// The request that a message belongs to. A response removes it.
    fn owner(&self, inbound: &Inbound) -> Option<Arc<PendingRequest>> {
        let mut table = self.lock();
        match inbound {
            Inbound::Response(id) => {
                let request = table.requests.get(id).cloned()?;
                table.remove(&request);
                Some(request)
            }
            Inbound::Progress(token) => table.tokens.get(token).cloned(),
            Inbound::Tagged(id) => table.requests.get(id).cloned(),
            Inbound::ServerRequest(question) if self.queue_limits.route_to_request => {
                table.request_for(*question)
            }
            Inbound::Other if self.queue_limits.route_to_request => {
                table.by_age.last_key_value().map(|(_, request)| Arc::clone(request))
            }
            Inbound::ServerRequest(_) | Inbound::Other => None,
        }
    }

    fn keep(&self, message: InboundMessage) -> Delivery {
        let unclaimed = Arc::clone(&self.lock().unclaimed);
        Delivery::Kept { dropped: unclaimed.push_dropping_oldest(message) }
    }

    /// The messages that belong to no request, including queued ones. A second listener ends the first.
    pub(super) fn listen(&self) -> Result<Arc<Queue<InboundMessage>>, UpstreamError> {
        let mut table = self.lock();
        if let Some(why) = &table.closed {
            return Err(UpstreamError::never_sent(why.as_str()));
        }
        if table.has_listener {
            table.unclaimed.close(None);
            table.unclaimed = Arc::new(Queue::new(self.queue_limits.unclaimed));
        }
        table.has_listener = true;
        Ok(Arc::clone(&table.unclaimed))
    }

    /// The listener has gone; messages are queued again.
    pub(super) fn unlisten(&self, queue: &Arc<Queue<InboundMessage>>) {
        let mut table = self.lock();
        if Arc::ptr_eq(&table.unclaimed, queue) {
            table.has_listener = false;
        }
    }

    /// Fails the request with this id. False if there is none.
    pub(super) fn fail_id(&self, id: &Id, error: UpstreamError) -> bool {
        let request = self.lock().requests.get(id).cloned();
        request.is_some_and(|request| {
            self.fail(&request, error);
            true
        })
    }

    fn fail(&self, request: &PendingRequest, error: UpstreamError) {
        self.lock().remove(request);
        request.queue.close(Some(error));
    }

    /// The stream has ended: all readers get the error after the messages they have.
    pub(super) fn close(&self, why: &str) {
        let mut table = self.lock();
        table.closed.get_or_insert_with(|| why.to_owned());
        let requests = std::mem::take(&mut table.requests);
        table.tokens.clear();
        table.by_age.clear();
        let unclaimed = Arc::clone(&table.unclaimed);
        drop(table);
        for request in requests.values() {
            request.queue.close(Some(request.failure(why)));
        }
        unclaimed.close(Some(UpstreamError::lost(why)));
    }
}

impl Table {
    fn add(&mut self, request: &Arc<PendingRequest>) {
        self.next_age += 1;
        self.by_age.insert(request.age, Arc::clone(request));
        if let Some(token) = &request.token {
            self.tokens.insert(token.clone(), Arc::clone(request));
        }
        self.requests.insert(request.id.clone(), Arc::clone(request));
    }

    /// The newest request whose client supports the server request, or that refuses it. One whose client is
    /// busy only if there is no other.
    fn request_for(&self, question: InputKind) -> Option<Arc<PendingRequest>> {
        let of_clients =
            || self.by_age.values().rev().filter(|request| request.client_capabilities.is_some());
        let free =
            || of_clients().filter(|request| !request.waiting_for_client.load(Ordering::Acquire));
        let client_capabilities = |request: &&Arc<PendingRequest>| {
            request
                .client_capabilities
                .is_some_and(|client_capabilities| client_capabilities.accepts(question))
        };
        // Most calls send one request, so a call without one comes first.
        let times = |request: &&Arc<PendingRequest>| request.times_asked.load(Ordering::Relaxed);
        let found = free().filter(client_capabilities).min_by_key(times).or_else(|| free().next());
        let found = found.or_else(|| of_clients().find(client_capabilities))?;
        found.times_asked.fetch_add(1, Ordering::Relaxed);
        Some(Arc::clone(found))
    }

    fn remove(&mut self, request: &PendingRequest) {
        if self.by_age.remove(&request.age).is_none() {
            return;
        }
        self.requests.remove(&request.id);
        if let Some(token) = &request.token {
            self.tokens.remove(token);
        }
    }
}
