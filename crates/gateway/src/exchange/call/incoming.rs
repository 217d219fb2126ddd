//! An incoming request, and the part of it that an in-flight call keeps.

use crate::exchange::context::RequestContext;
use crate::exchange::digests::{Digests, call_digest};
use crate::exchange::outbound::Outbound;
use crate::exchange::prepare::{FurtherRound, Prepared};
use crate::exchange::sign_in::FailedRequest;
use crate::runtime::Services;
use crate::snapshot::ServerAccess;
use crate::upstream::UpstreamError;
use crate::upstream::peer::Peer;
use bytes::Bytes;
use hyper::HeaderMap;
use mcp::ClientInfo;
use mcp::{ClientCapabilities, Era, Id, InputKind, Message, Request};
use policy::Subject;
use policy::json::{Bounds, Doc, Value};
use std::borrow::Cow;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use store::ledger::{HeldCall, Permit};

/// An incoming request.
pub(crate) struct IncomingRequest<'a> {
    pub(crate) context: &'a RequestContext,
    pub(crate) request: &'a Request<'a>,
    pub(crate) body: &'a Bytes,
    pub(crate) era: Era,
    /// The HTTP headers, if it came over HTTP.
    pub(crate) headers: Option<&'a HeaderMap>,
    pub(crate) client_capabilities: ClientCapabilities,
    pub(crate) logs: bool,
    /// The client's name and version, if the request contains them.
    pub(crate) client: Option<ClientInfo>,
    /// The approval of a held call that is judged again.
    pub(crate) resumed_approval: Mutex<Option<HeldCall>>,
    /// The permit of a request that is recorded already, because its server had to be contacted to route it.
    pub(crate) existing_permit: Mutex<Option<Box<Permit>>>,
}

impl IncomingRequest<'_> {
    /// The response to a request that the server did not get.
    pub(super) fn not_sent(&self, server: &str, error: &UpstreamError) -> Outbound {
        let services = self.context.services();
        let request = FailedRequest {
            context: self.context,
            id: &self.request.id,
            era: self.era,
            method: self.request.method,
            client_capabilities: self.client_capabilities,
            server,
        };
        Outbound::ok(request.response(error, || {
            let arguments = Digests::of(services, self.request).rounds;
            Some(call_digest(services, self.request, &arguments))
        }))
    }

    /// Continues under a permit that was written before: one request is one row.
    pub(crate) fn reuse_permit(&self, permit: Permit) {
        *self.existing_permit.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(Box::new(permit));
    }
}

/// What an in-flight call keeps of its request.
#[derive(Clone)]
pub(crate) struct RequestInfo {
    /// The whole request as the client sent it, for further rounds and rules on its result.
    pub(super) body: Bytes,
    pub(crate) subject: Option<OwnedSubject>,
    /// The client used the name with the server's prefix.
    pub(super) is_renamed: bool,
    pub(crate) client_capabilities: ClientCapabilities,
    /// Digest of everything that further rounds are bound to.
    pub(super) arguments: [u8; 32],
    pub(crate) argument_digest: Option<[u8; 32]>,
    pub(super) rule: Arc<str>,
    pub(crate) first_seq: u64,
    pub(super) notification_options: OnceLock<Box<NotificationOptions>>,
}

/// The options of a request for the notifications that precede its response.
#[derive(Clone, Debug, Default)]
pub(crate) struct NotificationOptions {
    progress_token: Option<Id>,
    log_level: Option<String>,
}

impl NotificationOptions {
    fn read(request: &[u8]) -> Option<NotificationOptions> {
        let doc = Doc::read_shallow(request, &Bounds::MESSAGE, 3).ok()?;
        let meta = doc.root().get("params")?.get("_meta")?;
        let level = meta.get(mcp::meta_keys::LOG_LEVEL).and_then(Value::as_str);
        Some(NotificationOptions {
            progress_token: meta.get("progressToken").and_then(Id::lenient),
            log_level: level.map(Cow::into_owned),
        })
    }
}

/// An owned policy subject.
#[derive(Clone, Debug)]
pub(crate) enum OwnedSubject {
    Tool(String),
    Resource(String),
    Prompt(String),
    Skill(String),
    Method(String),
}

impl OwnedSubject {
    pub(super) fn of(subject: Subject<'_>) -> OwnedSubject {
        let name = subject.name().to_owned();
        match subject {
            Subject::Tool(_) => OwnedSubject::Tool(name),
            Subject::Resource(_) => OwnedSubject::Resource(name),
            Subject::Prompt(_) => OwnedSubject::Prompt(name),
            Subject::Skill(_) => OwnedSubject::Skill(name),
            Subject::Method(_) => OwnedSubject::Method(name),
        }
    }

    pub(crate) fn as_subject(&self) -> Subject<'_> {
        match self {
            OwnedSubject::Tool(name) => Subject::Tool(name),
            OwnedSubject::Resource(name) => Subject::Resource(name),
            OwnedSubject::Prompt(name) => Subject::Prompt(name),
            OwnedSubject::Skill(name) => Subject::Skill(name),
            OwnedSubject::Method(name) => Subject::Method(name),
        }
    }
}

impl RequestInfo {
    /// The client's progress token.
    pub(crate) fn progress_token(&self) -> Option<&Id> {
        self.notification_options().progress_token.as_ref()
    }

    /// The minimum level of log messages that the client wants.
    pub(crate) fn log_level(&self) -> Option<&str> {
        self.notification_options().log_level.as_deref()
    }

    /// Parsed once and on first use: few requests get notifications, but some get thousands.
    fn notification_options(&self) -> &NotificationOptions {
        self.notification_options
            .get_or_init(|| Box::new(NotificationOptions::read(&self.body).unwrap_or_default()))
    }

    /// Whether a client of 2025-11-25 wants the call as a task.
    pub(crate) fn wants_task(&self) -> bool {
        Doc::read_shallow(&self.body, &Bounds::MESSAGE, 2).is_ok_and(|doc| {
            doc.root().get("params").is_some_and(|params| params.get("task").is_some())
        })
    }

    /// The task lifetime that the client wants.
    pub(crate) fn wanted_ttl_ms(&self) -> Option<i64> {
        let doc = Doc::read_shallow(&self.body, &Bounds::MESSAGE, 3).ok()?;
        doc.root().get("params")?.get("task")?.get("ttl")?.as_number()?.parse().ok()
    }

    /// The task that a request follows up.
    pub(crate) fn task_id(&self) -> Option<String> {
        let doc = Doc::read_shallow(&self.body, &Bounds::MESSAGE, 2).ok()?;
        Some(doc.root().get("params")?.get("taskId")?.as_str()?.into_owned())
    }

    /// Matches only the same method, name, arguments and other params. Computed when a further round needs it.
    pub(crate) fn digest(&self, services: &Services) -> Option<String> {
        let doc = mcp::read(&self.body).ok()?;
        match Message::of(&doc).ok()? {
            Message::Request(request) => Some(call_digest(services, &request, &self.arguments)),
            Message::Notification(_) | Message::Response(_) => None,
        }
    }

    pub(crate) fn client_takes(&self, method: &str) -> bool {
        self.client_capabilities.accepts_method(method)
    }

    pub(crate) fn client_takes_tasks(&self) -> bool {
        self.client_capabilities.accepts_tasks()
    }

    pub(crate) fn client_takes_kind(&self, question: InputKind) -> bool {
        self.client_capabilities.accepts(question)
    }

    /// Whether the request asks for the first page of a list.
    pub(crate) fn is_first_page(&self) -> bool {
        Doc::read_shallow(&self.body, &Bounds::MESSAGE, 2).is_ok_and(|doc| {
            doc.root().get("params").is_none_or(|params| params.get("cursor").is_none())
        })
    }

    /// The policy entry whose effects apply to the result.
    pub(crate) fn entry_rule(&self) -> &str {
        &self.rule
    }

    /// The same request with the client's answers to the input requests of a modern server.
    pub(crate) fn retry(
        &self,
        context: &RequestContext,
        peer: &Arc<Peer>,
        answers: &[(String, String)],
        state: Option<&str>,
    ) -> Prepared {
        let again = FurtherRound {
            body: &self.body,
            subject: self.subject.as_ref().map(OwnedSubject::as_subject),
            is_renamed: self.is_renamed,
            answers,
            state,
            token: self.progress_token(),
        };
        crate::exchange::prepare::next_round(context, peer, &again)
    }
}

/// What a request names at one server.
pub(crate) struct Target<'a> {
    pub(crate) access: &'a ServerAccess,
    pub(crate) subject: Option<Subject<'a>>,
    /// The tools that created the task of a follow-up.
    pub(crate) task_of: Option<&'a [String]>,
    /// The server's name for it, if the client used a prefixed one.
    pub(crate) rename: Option<&'a str>,
}
