//! A request on its way through the gate, and what stays known of it while it is away.

use crate::client::Client;
use crate::gate::Gate;
use crate::in_force::Holding;
use crate::peer::Peer;
use crate::prepare::{Again, Prepared};
use crate::scene::Scene;
use crate::wire::{self, Era, Id, Message, Question, Request, Takes};
use bytes::Bytes;
use hyper::HeaderMap;
use policy::Subject;
use policy::json::{Bounds, Doc, Value};
use std::borrow::Cow;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use store::ledger::{Permit, Waiting};

/// A request on its way through the gate.
pub(crate) struct Ask<'a> {
    pub(crate) scene: &'a Scene,
    pub(crate) request: &'a Request<'a>,
    pub(crate) body: &'a Bytes,
    pub(crate) era: Era,
    /// The HTTP headers of a request that came with some.
    pub(crate) headers: Option<&'a HeaderMap>,
    pub(crate) takes: Takes,
    pub(crate) logs: bool,
    /// The client's own name and version, where the request itself says them.
    pub(crate) client: Option<Client>,
    /// The place in the queue of a call that was held for a human and is looked at again.
    pub(crate) held: Mutex<Option<Waiting>>,
    /// The row that the request has already, where its server had to be met before its way was known.
    pub(crate) met: Mutex<Option<Box<Permit>>>,
}

impl Ask<'_> {
    /// Goes on under a row that was written before: one request is one row.
    pub(crate) fn goes_on_with(&self, permit: Permit) {
        *self.met.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(permit));
    }
}

/// What stays known of a request while it is away.
#[derive(Clone)]
pub(crate) struct Asked {
    /// The whole request as the client sent it, for further rounds and rules on its result.
    pub(super) body: Bytes,
    pub(crate) subject: Option<Owned>,
    /// The client named it with its server's name in front, and the server knows it without.
    pub(super) is_renamed: bool,
    pub(crate) takes: Takes,
    /// Digest of all that further rounds are bound to.
    pub(super) arguments: [u8; 32],
    pub(crate) argument_digest: Option<[u8; 32]>,
    pub(super) rule: Arc<str>,
    /// The audit row of the first round.
    pub(crate) first_seq: u64,
    pub(super) told: OnceLock<Box<ToldBeside>>,
}

/// What a request says of the messages that come beside its answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct ToldBeside {
    progress_token: Option<Id>,
    log_level: Option<String>,
}

impl ToldBeside {
    fn read(request: &[u8]) -> Option<ToldBeside> {
        let doc = Doc::read_shallow(request, &Bounds::MESSAGE, 3).ok()?;
        let meta = doc.root().get("params")?.get("_meta")?;
        let level = meta.get(wire::meta_keys::LOG_LEVEL).and_then(Value::as_str);
        Some(ToldBeside {
            progress_token: meta.get("progressToken").and_then(Id::lenient),
            log_level: level.map(Cow::into_owned),
        })
    }
}

/// A subject that outlives its message.
#[derive(Clone, Debug)]
pub(crate) enum Owned {
    Tool(String),
    Resource(String),
    Prompt(String),
    Method(String),
}

impl Owned {
    pub(super) fn of(subject: Subject<'_>) -> Owned {
        let name = subject.name().to_owned();
        match subject {
            Subject::Tool(_) => Owned::Tool(name),
            Subject::Resource(_) => Owned::Resource(name),
            Subject::Prompt(_) => Owned::Prompt(name),
            Subject::Method(_) => Owned::Method(name),
        }
    }

    pub(crate) fn as_subject(&self) -> Subject<'_> {
        match self {
            Owned::Tool(name) => Subject::Tool(name),
            Owned::Resource(name) => Subject::Resource(name),
            Owned::Prompt(name) => Subject::Prompt(name),
            Owned::Method(name) => Subject::Method(name),
        }
    }
}

impl Asked {
    /// The progress token that the client gave.
    pub(crate) fn progress_token(&self) -> Option<&Id> {
        self.told().progress_token.as_ref()
    }

    /// The least level of log messages that the client asked for.
    pub(crate) fn log_level(&self) -> Option<&str> {
        self.told().log_level.as_deref()
    }

    /// Read when it is first needed, because few requests get more than an answer, and once, because a
    /// server may say thousands of things to a request that is long to read.
    fn told(&self) -> &ToldBeside {
        self.told.get_or_init(|| Box::new(ToldBeside::read(&self.body).unwrap_or_default()))
    }

    /// Whether a client of 2025-11-25 wants the call as a task. Read when it is needed: few do.
    pub(crate) fn wants_task(&self) -> bool {
        Doc::read_shallow(&self.body, &Bounds::MESSAGE, 2).is_ok_and(|doc| {
            doc.root().get("params").is_some_and(|params| params.get("task").is_some())
        })
    }

    /// How long it wants the task to be kept.
    pub(crate) fn wanted_ttl_ms(&self) -> Option<i64> {
        let doc = Doc::read_shallow(&self.body, &Bounds::MESSAGE, 3).ok()?;
        doc.root().get("params")?.get("task")?.get("ttl")?.as_number()?.parse().ok()
    }

    /// The task that a request follows up.
    pub(crate) fn task_id(&self) -> Option<String> {
        let doc = Doc::read_shallow(&self.body, &Bounds::MESSAGE, 2).ok()?;
        Some(doc.root().get("params")?.get("taskId")?.as_str()?.into_owned())
    }

    /// Fits only the same method, name, arguments and other params. Worked out when a further round needs it.
    pub(crate) fn digest(&self, gate: &Gate) -> Option<String> {
        let doc = wire::read(&self.body).ok()?;
        match Message::of(&doc).ok()? {
            Message::Request(request) => Some(gate.call_digest(&request, &self.arguments)),
            Message::Notification(_) | Message::Response(_) => None,
        }
    }

    pub(crate) fn client_takes(&self, method: &str) -> bool {
        self.takes.takes(method)
    }

    pub(crate) fn client_takes_tasks(&self) -> bool {
        self.takes.takes_tasks()
    }

    pub(crate) fn client_takes_kind(&self, question: Question) -> bool {
        self.takes.takes_kind(question)
    }

    /// Whether a list was asked for from its beginning.
    pub(crate) fn is_first_page(&self) -> bool {
        Doc::read_shallow(&self.body, &Bounds::MESSAGE, 2).is_ok_and(|doc| {
            doc.root().get("params").is_none_or(|params| params.get("cursor").is_none())
        })
    }

    /// The entry whose effects apply to the result.
    pub(crate) fn entry_rule(&self) -> &str {
        &self.rule
    }

    /// The same request again, with the client's answers to a modern server's questions.
    pub(crate) fn retry(
        &self,
        scene: &Scene,
        peer: &Arc<Peer>,
        answers: &[(String, String)],
        state: Option<&str>,
    ) -> Prepared {
        let again = Again {
            body: &self.body,
            subject: self.subject.as_ref().map(Owned::as_subject),
            is_renamed: self.is_renamed,
            answers,
            state,
            token: self.progress_token(),
        };
        crate::prepare::next_round(scene, peer, &again)
    }
}

/// What a request is about, at one server.
pub(crate) struct Aim<'a> {
    pub(crate) holding: &'a Holding,
    pub(crate) subject: Option<Subject<'a>>,
    /// The tools whose calls began the task that is followed up.
    pub(crate) task_of: Option<&'a [String]>,
    /// The name the server knows, where the client used a prefixed one.
    pub(crate) rename: Option<&'a str>,
}
