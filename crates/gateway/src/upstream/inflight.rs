//! The requests that wait on one shared stream, and who gets which message: answers by id, progress by
//! token, subscriptions by their tag, and the rest to whoever listens.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;

use super::error::{Excess, UpstreamError};
use super::queue::{Queue, Refused, Room, Weighed};
use super::route::Inbound;
use crate::wire::{Id, Question, Takes};

/// A message for somebody.
pub(super) struct Item {
    pub(super) message: Bytes,
    /// Nothing comes after it.
    pub(super) is_answer: bool,
}

impl Weighed for Item {
    fn bytes(&self) -> usize {
        self.message.len()
    }
}

/// How far a request has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Progress {
    Queued = 0,
    /// Some of it may have been read.
    Begun = 1,
    /// Nobody wants it any more.
    Abandoned = 2,
}

/// One request that waits for its answer.
pub(super) struct Request {
    pub(super) id: Id,
    pub(super) queue: Queue<Item>,
    token: Option<Id>,
    takes: Option<Takes>,
    /// It waits for its client to answer a question.
    asking: AtomicBool,
    /// How often its client was asked something.
    asked: AtomicU32,
    age: u64,
    progress: AtomicU8,
}

impl Request {
    pub(super) fn set_asking(&self, asking: bool) {
        self.asking.store(asking, Ordering::Release);
    }

    /// Says that writing starts; refused if nobody waits any more.
    pub(super) fn begin(&self) -> bool {
        self.step(Progress::Queued, Progress::Begun)
    }

    /// Says that nobody waits; true if it was already sent, so that the server should be told.
    pub(super) fn abandon(&self) -> bool {
        !self.step(Progress::Queued, Progress::Abandoned)
            && self.step(Progress::Begun, Progress::Abandoned)
    }

    fn step(&self, from: Progress, to: Progress) -> bool {
        let (from, to) = (from as u8, to as u8);
        self.progress.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// What the end of the stream means for this request.
    fn failure(&self, why: &str) -> UpstreamError {
        if self.progress.load(Ordering::Acquire) == Progress::Begun as u8 {
            UpstreamError::lost(why)
        } else {
            UpstreamError::never_sent(why)
        }
    }
}

/// What became of a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Delivery {
    Delivered,
    /// Kept for a listener, at the price of so many older ones.
    Kept {
        dropped: usize,
    },
    /// The request it belongs to is not (or no longer) waiting.
    Unclaimed,
}

/// How much waits for readers, and how long for slow ones.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowance {
    pub(super) request: Room,
    pub(super) unheard: Room,
    pub(super) slow_reader_wait_max: Duration,
    /// Whether what belongs to no request goes to the newest one.
    pub(super) route_to_request: bool,
}

/// All that waits on one stream.
pub(super) struct InFlight {
    allowance: Allowance,
    table: Mutex<Table>,
}

struct Table {
    requests: HashMap<Id, Arc<Request>>,
    tokens: HashMap<Id, Arc<Request>>,
    by_age: BTreeMap<u64, Arc<Request>>,
    next_age: u64,
    unheard: Arc<Queue<Item>>,
    heard: bool,
    closed: Option<String>,
}

impl InFlight {
    pub(super) fn new(allowance: Allowance) -> InFlight {
        let table = Table {
            requests: HashMap::new(),
            tokens: HashMap::new(),
            by_age: BTreeMap::new(),
            next_age: 0,
            unheard: Arc::new(Queue::new(allowance.unheard)),
            heard: false,
            closed: None,
        };
        InFlight { allowance, table: Mutex::new(table) }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a request into the table before it is sent, so that no answer is too fast.
    pub(super) fn register(
        &self,
        id: Id,
        token: Option<Id>,
        takes: Option<Takes>,
    ) -> Result<Arc<Request>, UpstreamError> {
        let mut table = self.lock();
        if let Some(why) = &table.closed {
            return Err(UpstreamError::never_sent(why.as_str()));
        }
        if table.requests.contains_key(&id) {
            return Err(UpstreamError::never_sent("its id is in use"));
        }
        let request = Arc::new(Request {
            queue: Queue::new(self.allowance.request),
            id,
            token,
            takes,
            asking: AtomicBool::new(false),
            asked: AtomicU32::new(0),
            age: table.next_age,
            progress: AtomicU8::new(Progress::Queued as u8),
        });
        table.add(&request);
        Ok(request)
    }

    pub(super) fn forget(&self, request: &Request) {
        self.lock().remove(request);
    }

    /// Gives a message to whom it belongs, in order. Waits for a slow reader, but not for ever.
    pub(super) async fn deliver(&self, inbound: &Inbound, message: Bytes) -> Delivery {
        let is_answer = matches!(inbound, Inbound::Answer(_));
        let item = Item { message, is_answer };
        let Some(request) = self.owner(inbound) else {
            return if is_answer { Delivery::Unclaimed } else { self.keep(item) };
        };
        match request.queue.push(item, self.allowance.slow_reader_wait_max).await {
            Ok(()) => Delivery::Delivered,
            Err(Refused::Closed) => Delivery::Unclaimed,
            Err(Refused::Full) => {
                let bytes_max = self.allowance.request.bytes_max;
                self.fail(&request, UpstreamError::TooLarge { what: Excess::Backlog, bytes_max });
                Delivery::Unclaimed
            }
        }
    }

    /// The request a message belongs to. An answer ends it.
    fn owner(&self, inbound: &Inbound) -> Option<Arc<Request>> {
        let mut table = self.lock();
        match inbound {
            Inbound::Answer(id) => {
                let request = table.requests.get(id).cloned()?;
                table.remove(&request);
                Some(request)
            }
            Inbound::Progress(token) => table.tokens.get(token).cloned(),
            Inbound::Tagged(id) => table.requests.get(id).cloned(),
            Inbound::Asks(question) if self.allowance.route_to_request => table.asked(*question),
            Inbound::Other if self.allowance.route_to_request => {
                table.by_age.last_key_value().map(|(_, request)| Arc::clone(request))
            }
            Inbound::Asks(_) | Inbound::Other => None,
        }
    }

    fn keep(&self, item: Item) -> Delivery {
        let unheard = Arc::clone(&self.lock().unheard);
        Delivery::Kept { dropped: unheard.push_dropping_oldest(item) }
    }

    /// What belongs to no request, from what was kept on. A second listener ends the first.
    pub(super) fn listen(&self) -> Result<Arc<Queue<Item>>, UpstreamError> {
        let mut table = self.lock();
        if let Some(why) = &table.closed {
            return Err(UpstreamError::never_sent(why.as_str()));
        }
        if table.heard {
            table.unheard.close(None);
            table.unheard = Arc::new(Queue::new(self.allowance.unheard));
        }
        table.heard = true;
        Ok(Arc::clone(&table.unheard))
    }

    /// The listener has gone; messages are kept again.
    pub(super) fn unlisten(&self, queue: &Arc<Queue<Item>>) {
        let mut table = self.lock();
        if Arc::ptr_eq(&table.unheard, queue) {
            table.heard = false;
        }
    }

    /// Fails the request with this id; false if there is none.
    pub(super) fn fail_id(&self, id: &Id, error: UpstreamError) -> bool {
        let request = self.lock().requests.get(id).cloned();
        request.is_some_and(|request| {
            self.fail(&request, error);
            true
        })
    }

    fn fail(&self, request: &Request, error: UpstreamError) {
        self.lock().remove(request);
        request.queue.close(Some(error));
    }

    /// The stream has ended: everybody hears it, after what they were given before.
    pub(super) fn close(&self, why: &str) {
        let mut table = self.lock();
        table.closed.get_or_insert_with(|| why.to_owned());
        let requests = std::mem::take(&mut table.requests);
        table.tokens.clear();
        table.by_age.clear();
        let unheard = Arc::clone(&table.unheard);
        drop(table);
        for request in requests.values() {
            request.queue.close(Some(request.failure(why)));
        }
        unheard.close(Some(UpstreamError::lost(why)));
    }
}

impl Table {
    fn add(&mut self, request: &Arc<Request>) {
        self.next_age += 1;
        self.by_age.insert(request.age, Arc::clone(request));
        if let Some(token) = &request.token {
            self.tokens.insert(token.clone(), Arc::clone(request));
        }
        self.requests.insert(request.id.clone(), Arc::clone(request));
    }

    /// The newest request whose client takes the question, or that refuses it; one that is asking its
    /// client already only if there is no other.
    fn asked(&self, question: Question) -> Option<Arc<Request>> {
        let of_clients = || self.by_age.values().rev().filter(|request| request.takes.is_some());
        let free = || of_clients().filter(|request| !request.asking.load(Ordering::Acquire));
        let takes =
            |request: &&Arc<Request>| request.takes.is_some_and(|takes| takes.takes_kind(question));
        // Most calls ask once, so one that was not asked yet comes first.
        let times = |request: &&Arc<Request>| request.asked.load(Ordering::Relaxed);
        let found = free().filter(takes).min_by_key(times).or_else(|| free().next());
        let found = found.or_else(|| of_clients().find(takes))?;
        found.asked.fetch_add(1, Ordering::Relaxed);
        Some(Arc::clone(found))
    }

    fn remove(&mut self, request: &Request) {
        if self.by_age.remove(&request.age).is_none() {
            return;
        }
        self.requests.remove(&request.id);
        if let Some(token) = &request.token {
            self.tokens.remove(token);
        }
    }
}
