//! One conversation with one server, in the server's own era.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use connectors::{Admitted, Reader};
use policy::json::{Bounds, Doc};
use serde_json::{Map, Value};
use store::ledger::Permit;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::aside::{LARGE_BYTES, aside};
use crate::builtin::{self, Builtin, Call, Told, Work};
use crate::levels::Levels;
use crate::questions::Askable;
use crate::room::{self, Account};
use crate::server::Server;
use crate::upstream::{
    Event, Events, Link, Listening, Outgoing, Passed, Reply, State, UpstreamError, Wishes,
};
use crate::wire::{Era, Id, Method, Takes, answer, before_result, code, error_body};

/// Answers of our own to a server's questions (pings, refusals) that may be on their way to it.
const ANSWERS_UNDER_WAY_MAX: usize = 64;

/// A server we talk to.
pub(crate) struct Peer {
    pub(crate) server: Arc<Server>,
    way: Way,
    pub(crate) era: Era,
    /// What the server said about itself: an initialize or a discover result.
    pub(crate) greeting: Value,
    greeting_bytes: usize,
    /// Requests of several clients share this conversation, so their ids must be ours.
    pub(crate) shared: bool,
    /// The client capabilities that it was greeted with; a newer server hears them with each request.
    greeted: Option<Takes>,
    ids: AtomicU64,
    /// The start of its process whose tool list was compared with the pins; 0 if none was.
    checked: AtomicU64,
    /// The log levels that its clients want, where the gate tells it.
    levels: Mutex<Levels>,
    quiet: Mutex<Option<Quiet>>,
    /// Its calls that can be asked something beside them.
    pub(crate) askable: Arc<Askable>,
    /// Places for answers of our own on their way to it. Each is a task and a row, so a server that asks
    /// faster than it takes them goes without.
    answers: Arc<Semaphore>,
    /// Turns true when we are done with it.
    over: watch::Sender<bool>,
}

/// How much had been asked when somebody looked, and since when that is all.
#[derive(Clone, Copy)]
struct Quiet {
    asked: u64,
    since_us: u64,
}

/// A request whose answer has not begun.
pub(crate) type Begun = Pin<Box<dyn Future<Output = Result<Reply, UpstreamError>> + Send>>;

pub(crate) enum Way {
    Link(Link),
    Builtin(Arc<Builtin>, Reader, Account),
}

impl Peer {
    pub(crate) fn new(
        server: Arc<Server>,
        way: Way,
        era: Era,
        greeting: Value,
        shared: bool,
    ) -> Peer {
        Peer {
            server,
            way,
            era,
            greeting_bytes: serde_json::to_vec(&greeting).map_or(0, |text| text.len()),
            greeting,
            shared,
            greeted: None,
            ids: AtomicU64::new(0),
            checked: AtomicU64::new(0),
            levels: Mutex::default(),
            quiet: Mutex::new(None),
            askable: Arc::default(),
            answers: Arc::new(Semaphore::new(ANSWERS_UNDER_WAY_MAX)),
            over: watch::Sender::new(false),
        }
    }

    pub(crate) fn greeting_bytes(&self) -> usize {
        self.greeting_bytes
    }

    pub(crate) fn greeted_with(self, takes: Takes) -> Peer {
        Peer { greeted: Some(takes), ..self }
    }

    /// The client capabilities that its tool list depends on, for a client with these.
    pub(crate) fn capabilities(&self, of_client: Takes) -> Takes {
        self.greeted.unwrap_or(of_client)
    }

    /// A place for an answer of our own, if there is one.
    pub(crate) fn answer_place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.answers).try_acquire_owned().ok()
    }

    /// Turns true when nothing more will be asked of it.
    pub(crate) fn over(&self) -> watch::Receiver<bool> {
        self.over.subscribe()
    }

    /// Says that nothing more will be asked of it; what is under way goes on.
    pub(crate) fn retire(&self) {
        self.over.send_replace(true);
    }

    /// Whether it is an older server over HTTP that all clients of a grant share. Such a server may ask
    /// them something on its own stream, beside the call that it asks for.
    pub(crate) fn asks_beside(&self) -> bool {
        let over_http = matches!(self.way, Way::Link(Link::Http(_)));
        over_http && self.shared && self.era == Era::Legacy
    }

    /// An id that no client uses.
    pub(crate) fn mint(&self) -> Id {
        Id::minted("tollgate", self.ids.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn is_child(&self) -> bool {
        matches!(self.way, Way::Link(Link::Stdio(_)))
    }

    /// Whether all that it says comes on one stream, where nothing may tell about which request it is.
    pub(crate) fn shares_stream(&self) -> bool {
        matches!(&self.way, Way::Link(link) if link.shares_stream())
    }

    /// Whether its task ids are for this conversation only: it is a process of its own, or a session.
    pub(crate) fn has_own_task_ids(&self) -> bool {
        if self.server.is_shared_by_all() {
            return false;
        }
        if self.server.is_shared_by_all() {
            return false;
        }
        match &self.way {
            Way::Link(Link::Http(link)) => link.session().is_some(),
            Way::Link(Link::Stdio(_)) | Way::Builtin(..) => true,
        }
    }

    /// What its process is doing, where it has one.
    pub(crate) fn child_state(&self) -> Option<State> {
        match &self.way {
            Way::Link(Link::Stdio(link)) => Some(link.state()),
            _ => None,
        }
    }

    /// Whether its process ended and is started again after a pause, without anybody asking for it.
    pub(crate) fn is_down(&self) -> bool {
        matches!(&self.way, Way::Link(Link::Stdio(link)) if link.is_down())
    }

    /// Whether nobody has asked it anything for so long, seen by whoever looks now and then.
    pub(crate) fn is_quiet(&self, now_us: u64, for_us: u64) -> bool {
        let asked = self.ids.load(Ordering::Relaxed);
        let mut quiet = self.quiet.lock().unwrap_or_else(PoisonError::into_inner);
        if quiet.is_none_or(|quiet| quiet.asked != asked) {
            *quiet = Some(Quiet { asked, since_us: now_us });
        }
        quiet.is_some_and(|quiet| now_us.saturating_sub(quiet.since_us) > for_us)
    }

    pub(crate) fn is_builtin(&self) -> bool {
        matches!(self.way, Way::Builtin(..))
    }

    /// A process that was started again may be of another version.
    pub(crate) fn is_checked(&self) -> bool {
        self.checked.load(Ordering::Acquire) == self.runs()
    }

    pub(crate) fn set_checked(&self, checked: bool) {
        self.checked.store(if checked { self.runs() } else { 0 }, Ordering::Release);
    }

    /// It says something; if that is that a list changed, what is known of the list no longer counts.
    pub(crate) fn told(&self, method: &str) {
        match Method::parse(method) {
            Method::ToolsChanged => {
                self.set_checked(false);
                self.server.forget_check();
            }
            _ if method.ends_with("/list_changed") => self.server.forget_lists(method),
            _ => {}
        }
    }

    /// The features that it declared, as one word list in the order of names.
    pub(crate) fn offers_text(&self) -> String {
        let all = self.greeting.get("capabilities").and_then(Value::as_object);
        let names = ["completions", "logging", "prompts", "resources", "tools"];
        let declared =
            names.into_iter().filter(|name| all.is_some_and(|all| all.contains_key(*name)));
        declared.collect::<Vec<_>>().join(",")
    }

    /// How often its process was started; 1 where it has none.
    fn runs(&self) -> u64 {
        match &self.way {
            Way::Link(Link::Stdio(link)) => link.runs().max(1),
            _ => 1,
        }
    }

    /// What an older server keeps in mind, and forgets when it is started again; a built-in one does not.
    pub(crate) fn wishes(&self) -> Option<&Wishes> {
        match &self.way {
            Way::Link(link) if self.era == Era::Legacy => Some(link.wishes()),
            _ => None,
        }
    }

    /// Notes a log level that a client wants; the one to tell the server, where that changes.
    pub(crate) fn level_to_tell(&self, level: &str, now_us: u64) -> Option<&'static str> {
        let mut levels = self.levels.lock().unwrap_or_else(PoisonError::into_inner);
        if self.shared { levels.want(level, now_us) } else { levels.want_only(level) }
    }

    /// Whether it said that it tells of changes of a list, by the notification for them.
    pub(crate) fn tells_of(&self, list_changed: &str) -> bool {
        let list = list_changed.split('/').nth(1).unwrap_or_default();
        let place = format!("/capabilities/{list}/listChanged");
        self.greeting.pointer(&place).and_then(Value::as_bool) == Some(true)
    }

    /// Whether the server says it has a feature, such as `resources`.
    pub(crate) fn offers(&self, capability: &str) -> bool {
        self.greeting.get("capabilities").is_some_and(|all| all.get(capability).is_some())
    }

    /// Whether a newer server says it has an extension.
    pub(crate) fn extends(&self, extension: &str) -> bool {
        let all = self.greeting.get("capabilities").and_then(|all| all.get("extensions"));
        self.era == Era::Modern && all.is_some_and(|all| all.get(extension).is_some())
    }

    /// Whether an older server runs tools as tasks, so that the gate offers the extension in its name.
    pub(crate) fn runs_tasks(&self) -> bool {
        let call = self.greeting.pointer("/capabilities/tasks/requests/tools/call");
        self.era == Era::Legacy && call.is_some_and(Value::is_object)
    }

    pub(crate) async fn request(
        &self,
        permit: &Permit,
        out: Outgoing,
    ) -> Result<Reply, UpstreamError> {
        self.check_judged(&out)?;
        let _under = self.server.marks.under_way();
        match &self.way {
            Way::Link(link) => link.request(permit, out).await,
            Way::Builtin(builtin, reader, account) => {
                let admitted = Admitted::by(permit);
                if let Some(token) = out.progress_token.clone()
                    && builtin.tells_progress(&out.body)
                {
                    return Ok(Reply::Many(told(builtin, (reader, account), admitted, out, token)));
                }
                let call = Call { admitted: &admitted, reader, told: None };
                // Boxed, so that calls to other servers do not carry its size about.
                Ok(Box::pin(answer(builtin, account, &call, &out)).await)
            }
        }
    }

    /// The same for an older server over HTTP, to be waited for by whoever also waits for its questions.
    pub(crate) fn begin(self: &Arc<Self>, permit: &Permit, out: Outgoing) -> Begun {
        let judged = self.check_judged(&out);
        let (peer, passed) = (Arc::clone(self), Passed::new(permit, out));
        Box::pin(async move {
            judged?;
            let _under = peer.server.marks.under_way();
            match &peer.way {
                Way::Link(Link::Http(link)) => link.request_passed(passed).await,
                Way::Link(Link::Stdio(_)) | Way::Builtin(..) => {
                    Err(UpstreamError::NeverSent { why: "it is not reached over HTTP".to_owned() })
                }
            }
        })
    }

    pub(crate) async fn send(&self, permit: &Permit, out: Outgoing) -> Result<(), UpstreamError> {
        self.check_judged(&out)?;
        match &self.way {
            Way::Link(link) => link.send(permit, out).await,
            Way::Builtin(..) => Ok(()),
        }
    }

    /// Every message with a permit leaves through here. One that the gate edited is read again and
    /// compared with what was judged, so that no edit can send another call than the permit is for.
    fn check_judged(&self, out: &Outgoing) -> Result<(), UpstreamError> {
        if out.says_what_was_judged() {
            return Ok(());
        }
        tracing::error!(server = %self.server.name, "an edited message is not the call that was judged; not sent");
        let why = "the edited message is not the call that was judged".to_owned();
        Err(UpstreamError::NeverSent { why })
    }

    pub(crate) async fn listen(
        &self,
        permit: &Permit,
        last_event_id: Option<&str>,
    ) -> Result<Listening, UpstreamError> {
        match &self.way {
            Way::Link(link) => link.listen(permit, last_event_id).await,
            Way::Builtin(..) => Ok(Listening::NotOffered),
        }
    }

    pub(crate) async fn close(&self) {
        self.retire();
        if let Way::Link(link) = &self.way {
            link.close().await;
        }
    }
}

/// A call of a built-in tool that says how far it has come, ahead of its answer.
fn told(
    builtin: &Arc<Builtin>,
    (reader, account): (&Reader, &Account),
    admitted: Admitted,
    out: Outgoing,
    token: Box<str>,
) -> Events {
    let told = Told::new(token);
    let (builtin, reader, account) = (Arc::clone(builtin), reader.clone(), account.clone());
    let hears = told.clone();
    let answer = async move {
        let call = Call { admitted: &admitted, reader: &reader, told: Some(&hears) };
        match answer(&builtin, &account, &call, &out).await {
            Reply::Ours { body, .. } | Reply::One { body, .. } => body,
            Reply::Many(_) | Reply::Accepted => Bytes::new(),
        }
    };
    Events::of_work(Work::new(answer, told))
}

async fn answer(builtin: &Builtin, account: &Account, call: &Call<'_>, out: &Outgoing) -> Reply {
    let message: Value = serde_json::from_slice(&out.body).unwrap_or_default();
    let method = message.get("method").and_then(Value::as_str).unwrap_or_default();
    let none = Map::new();
    let params = message.get("params").and_then(Value::as_object).unwrap_or(&none);
    let crate::upstream::Kind::Request(id) = &out.kind else { return Reply::Accepted };
    let mut body = before_result(id);
    match builtin.answer(call, method, params, &mut body).await {
        Ok(()) => {
            let failed = builtin::is_failure(&body);
            body.push(b'}');
            match room::of_ours(account, body.into()).await {
                Ok(body) => Reply::Ours { body, failed },
                Err(why) => {
                    let body = error_body(Some(id), code::INTERNAL, &why.to_string(), None);
                    Reply::One { status: 200, body: body.into() }
                }
            }
        }
        Err(error) => {
            let data = error.data.map(|data| data.to_string());
            let body = error_body(Some(id), error.code, &error.message, data.as_deref()).into();
            Reply::One { status: 200, body }
        }
    }
}

/// Waits for the answer to a request of our own; what comes before it goes to `others`.
pub(crate) async fn last_of(
    reply: Reply,
    id: &Id,
    mut others: impl FnMut(Event),
) -> Result<Bytes, UpstreamError> {
    match reply {
        Reply::Ours { body, .. } => Ok(body),
        Reply::One { body, .. } => match fault(&body, id).await {
            Some(why) => Err(UpstreamError::Garbled { why: why.to_owned() }),
            None => Ok(body),
        },
        Reply::Accepted => {
            Err(UpstreamError::Garbled { why: "it took a request without answering".to_owned() })
        }
        Reply::Many(mut events) => {
            while let Some(event) = events.next().await {
                let event = event?;
                if is_answer(&event.message, id).await {
                    return Ok(event.message);
                }
                others(event);
            }
            Err(UpstreamError::Lost { why: "the stream ended without an answer".to_owned() })
        }
    }
}

/// Why a result cannot be believed to be the answer to this request. Errors may name no request.
async fn fault(message: &Bytes, id: &Id) -> Option<&'static str> {
    if message.len() <= LARGE_BYTES {
        return fault_of(message, id);
    }
    let (message, id) = (message.clone(), id.clone());
    aside(message.len(), move || fault_of(&message, &id)).await
}

fn fault_of(message: &[u8], id: &Id) -> Option<&'static str> {
    let doc = Doc::read_shallow(message, &Bounds::ANSWER, 1).ok()?;
    let root = doc.root();
    root.get("result")?;
    let ours = root.get("id").and_then(|value| id.is(value)) == Some(true);
    answer::trouble(root).or_else(|| (!ours).then_some("it answers another request"))
}

async fn is_answer(message: &Bytes, id: &Id) -> bool {
    if message.len() <= LARGE_BYTES {
        return answers(message, id);
    }
    let (message, id) = (message.clone(), id.clone());
    aside(message.len(), move || answers(&message, &id)).await
}

fn answers(message: &[u8], id: &Id) -> bool {
    let Ok(doc) = Doc::read_shallow(message, &Bounds::ANSWER, 1) else { return false };
    let root = doc.root();
    root.get("method").is_none() && root.get("id").and_then(Id::lenient).as_ref() == Some(id)
}
