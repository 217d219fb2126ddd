//! Makes of a client's request what its server is sent: the same bytes where nothing must change,
//! spliced ones where a name, an id or an era differs.

use std::sync::Arc;

use bytes::Bytes;
use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use policy::Subject;
use policy::json::{Bounds, Doc, Value};

use crate::peer::Peer;
use crate::rebuild::{self, Member, string};
use crate::scene::Scene;
use crate::trace::Trace;
use crate::translate::{self, ClientWords, newer_tasks};
use crate::upstream::Outgoing;
use crate::wire::{
    self, Era, Id, Message, Method, Named, Request, Revision, TASKS, Target, headers, meta_keys,
    request_body,
};

/// What the client asked, and what must be different in it.
pub(crate) struct Wish<'a> {
    pub(crate) request: &'a Request<'a>,
    pub(crate) body: &'a Bytes,
    pub(crate) era: Era,
    pub(crate) headers: Option<&'a HeaderMap>,
    /// What was judged.
    pub(crate) subject: Option<Subject<'a>>,
    /// The server's own name for what the client named with a prefix.
    pub(crate) rename: Option<&'a str>,
    pub(crate) round: Round<'a>,
    pub(crate) trace: Option<&'a Trace>,
}

/// Which round of a call this is, and the state the server gave for it.
#[derive(Clone, Copy)]
pub(crate) enum Round<'a> {
    First,
    /// The server had given no state of its own.
    Further,
    FurtherWith(&'a str),
}

/// A message ready to leave.
pub(crate) struct Prepared {
    pub(crate) out: Outgoing,
    /// The id the server knows it by.
    pub(crate) id: Id,
    /// The client's progress token, where the server is given another.
    pub(crate) token: Option<String>,
}

/// The message for the server.
pub(crate) fn outgoing(scene: &Scene, peer: &Peer, wish: &Wish<'_>) -> Prepared {
    let request = wish.request;
    let id = if peer.shared { peer.mint() } else { request.id.clone() };
    // Two clients that share a child may use one token; the id of the request is unique.
    let own_token = request.progress_token().filter(|_| peer.shared);
    let changes = peer.shared
        || wish.rename.is_some()
        || !matches!(wish.round, Round::First)
        || wish.era != peer.era;
    let traced = wish.trace.filter(|_| peer.is_child() || has_trace(request));
    let (body, is_edited) = if changes || traced.is_some() {
        let (body, is_edited) = rewritten(scene, peer, wish, &id, own_token.is_some());
        (Bytes::from(body), is_edited)
    } else {
        (wish.body.clone(), false)
    };
    let mut out = Outgoing::request(id.clone(), body);
    if is_edited {
        let judged = judged_as(request, method_for(peer, wish), wish.subject);
        out.edited = Some(Box::new(judged));
    }
    out.progress_token = match own_token {
        Some(_) => Some(id.raw().into()),
        None => request.progress_token().map(Into::into),
    };
    out.stays_open = request.method_name == "subscriptions/listen";
    out.prefers_stream = wish.headers.is_some_and(names_stream_first);
    if peer.era == Era::Modern {
        out.headers = modern_headers(peer, &out.body);
    }
    out.headers.extend(wish.trace.into_iter().flat_map(trace_headers));
    Prepared { out, id, token: own_token.map(str::to_owned) }
}

/// Whether a client's `Accept` names event streams before JSON.
fn names_stream_first(headers: &HeaderMap) -> bool {
    let Some(accept) = headers.get(hyper::header::ACCEPT) else { return false };
    let mut named = accept.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    let is_stream = |named: &[u8]| match named {
        _ if named.starts_with(b"text/event-stream") => Some(true),
        _ if named.starts_with(b"application/json") => Some(false),
        _ => None,
    };
    named.find_map(is_stream).unwrap_or(false)
}

fn has_trace(request: &Request<'_>) -> bool {
    request.meta().is_some_and(|meta| meta.get(meta_keys::TRACEPARENT).is_some())
}

fn trace_headers(trace: &Trace) -> Vec<(HeaderName, HeaderValue)> {
    let parent = trace.parent_text().and_then(|text| HeaderValue::from_str(&text).ok());
    let state = trace.state_text().and_then(|text| HeaderValue::from_str(text).ok());
    let named = |name, value: Option<HeaderValue>| Some((HeaderName::from_static(name), value?));
    [named("traceparent", parent), named("tracestate", state)].into_iter().flatten().collect()
}

/// A child has no headers, so the trace goes into the message: its parent, and the state that belongs to
/// that parent and no other.
fn with_trace(params: Value<'_>, trace: &Trace) -> String {
    let Some(parent) = trace.parent_text() else { return params.raw().to_owned() };
    let mut ours = vec![(meta_keys::TRACEPARENT, string(&parent))];
    ours.extend(trace.state_text().map(|state| (meta_keys::TRACESTATE, string(state))));
    let keep = |key: &str, _: Value<'_>| match key {
        meta_keys::TRACEPARENT | meta_keys::TRACESTATE => Member::Drop,
        _ => Member::Keep,
    };
    let meta = if let Some(meta) = params.get("_meta") {
        rebuild::object(meta, keep, &ours)
    } else {
        let parts = ours.iter().map(|(key, raw)| format!("{}:{raw}", string(key)));
        format!("{{{}}}", parts.collect::<Vec<_>>().join(","))
    };
    rebuild::with(params, "_meta", meta)
}

/// What an edited request must still say: the method, and the subject of its verdict. What has no
/// subject, such as the follow-up of a task, must name what the client named.
fn judged_as(request: &Request<'_>, method: &str, subject: Option<Subject<'_>>) -> Target {
    let named = match subject {
        Some(Subject::Tool(name)) => Named::Tool(name.into()),
        Some(Subject::Resource(uri)) => Named::Resource(uri.into()),
        Some(Subject::Prompt(name)) => Named::Prompt(name.into()),
        // It was read when the request came in.
        Some(Subject::Method(_)) | None => request.named().unwrap_or(Named::Nothing),
    };
    Target::new(method, named)
}

/// The request with all that must be different in it, and whether that is more than its id.
fn rewritten(
    scene: &Scene,
    peer: &Peer,
    wish: &Wish<'_>,
    id: &Id,
    new_token: bool,
) -> (Vec<u8>, bool) {
    let request = wish.request;
    let mut params = request.params.map(|params| params.raw().to_owned());
    let method = method_for(peer, wish);
    let mut is_edited = method != request.method_name;
    let mut apply = |act: &dyn Fn(Value<'_>) -> String| {
        is_edited = true;
        let text = params.take().unwrap_or_else(|| "{}".to_owned());
        params = Some(match Doc::read(text.as_bytes(), &Bounds::ANSWER) {
            Ok(doc) => act(doc.root()),
            // It was read a moment ago.
            Err(_) => text.clone(),
        });
    };
    if let Some(name) = wish.rename {
        apply(&|params| renamed(request.method, params, name));
    }
    match wish.round {
        Round::First => {}
        Round::Further => apply(&|params| rebuild::without(params, &["requestState"])),
        Round::FurtherWith(state) => {
            apply(&|params| rebuild::with(params, "requestState", string(state)));
        }
    }
    match (wish.era, peer.era) {
        (Era::Modern, Era::Legacy) => {
            apply(&translate::legacy_params);
            if runs_only_as_task(peer, wish) {
                apply(&|params| rebuild::with(params, "task", "{}".to_owned()));
            }
        }
        (Era::Legacy, Era::Modern) => {
            let client = words_for(scene, peer, request.method);
            apply(&|params| translate::modern_params(Some(params), &client));
            if is_wanted_as_task(request) {
                apply(&|params| rebuild::without(params, &["task"]));
            }
        }
        _ => {}
    }
    if let Some(trace) = wish.trace.filter(|_| peer.is_child() || has_trace(request)) {
        apply(&|params| with_trace(params, trace));
    }
    if new_token {
        apply(&|params| match params.get("_meta") {
            Some(meta) => {
                let meta = rebuild::with(meta, "progressToken", id.raw().to_owned());
                rebuild::with(params, "_meta", meta)
            }
            None => params.raw().to_owned(),
        });
    }
    (request_body(id, method, params.as_deref()), is_edited)
}

/// The method as the server knows it. In the newer era a task tells itself what it came to.
fn method_for<'a>(peer: &Peer, wish: &'a Wish<'_>) -> &'a str {
    match wish.request.method {
        Method::TasksResult if wish.era == Era::Legacy && peer.era == Era::Modern => "tasks/get",
        _ => &wish.request.method_name,
    }
}

/// Whether a client of 2025-11-25 wants its call as a task; in the newer era that is the server's to decide.
fn is_wanted_as_task(request: &Request<'_>) -> bool {
    request.method == Method::ToolsCall
        && request.params.is_some_and(|params| params.get("task").is_some())
}

/// Whether an older server would refuse the call as it is.
fn runs_only_as_task(peer: &Peer, wish: &Wish<'_>) -> bool {
    if wish.request.method != Method::ToolsCall {
        return false;
    }
    let named = || wish.request.params?.get("name")?.as_str();
    match wish.rename {
        Some(name) => peer.server.pins().only_as_task(name),
        None => named().is_some_and(|name| peer.server.pins().only_as_task(&name)),
    }
}

/// The params with the server's own name for what they name. Where that stands is the method's to say,
/// never which members are there.
fn renamed(method: Method, params: Value<'_>, name: &str) -> String {
    match (method, params.get("ref")) {
        (Method::ToolsCall | Method::PromptsGet, _) => rebuild::with(params, "name", string(name)),
        (Method::Complete, Some(reference)) => {
            let reference = rebuild::with(reference, "name", string(name));
            rebuild::with(params, "ref", reference)
        }
        // No other method names anything by a prefix.
        _ => params.raw().to_owned(),
    }
}

/// What a session's client said about itself, for a server that wants to hear it on every request.
pub(crate) fn client_words(scene: &Scene) -> ClientWords {
    let Some(session) = &scene.session else {
        return ClientWords { capabilities: "{}".to_owned(), info: None, log_level: None };
    };
    let mut words = match Doc::read(session.greeting.as_bytes(), &Bounds::ANSWER) {
        Ok(doc) => ClientWords::from_initialize(doc.root()),
        Err(_) => ClientWords { capabilities: "{}".to_owned(), info: None, log_level: None },
    };
    words.capabilities = newer_tasks::declared(&words.capabilities, false);
    words.log_level = session.log_level();
    words
}

/// The same with tasks, where a server may make one: the gate takes them for its client.
pub(crate) fn task_words(scene: &Scene, peer: &Peer) -> ClientWords {
    let words = client_words(scene);
    let capabilities = newer_tasks::declared(&words.capabilities, peer.extends(TASKS));
    ClientWords { capabilities, ..words }
}

fn words_for(scene: &Scene, peer: &Peer, method: Method) -> ClientWords {
    if method == Method::ToolsCall || method.follows_up_a_task() {
        return task_words(scene, peer);
    }
    client_words(scene)
}

/// The headers that mirror a modern request. They are made from the body, never taken over from the
/// client: an `Mcp-Param-*` header that the tool does not declare would tell the server something that
/// was not judged.
fn modern_headers(peer: &Peer, body: &Bytes) -> Vec<(HeaderName, HeaderValue)> {
    let Ok(doc) = Doc::read(body, &Bounds::ANSWER) else { return Vec::new() };
    let root = doc.root();
    let (Some(method), params) = (root.get("method").and_then(Value::as_str), root.get("params"))
    else {
        return Vec::new();
    };
    let mut all = headers::standard_headers(&method, params, Revision::NEWEST);
    if method == "tools/call" {
        all.extend(param_headers(peer, params));
    }
    all
}

/// The headers that a tool's schema wants its arguments repeated in.
fn param_headers(peer: &Peer, params: Option<Value<'_>>) -> Vec<(HeaderName, HeaderValue)> {
    let pins = peer.server.pins();
    let name = params.and_then(|params| params.get("name")?.as_str());
    let Some(declared) = name.and_then(|name| pins.param_headers(&name)) else { return Vec::new() };
    declared.write(params.and_then(|params| params.get("arguments")))
}

/// A request of the gate's own, in the server's era.
pub(crate) fn own(
    peer: &Peer,
    method: &str,
    params: Option<&str>,
    client: &ClientWords,
) -> Prepared {
    let id = peer.mint();
    let params = match peer.era {
        Era::Legacy => params.map(str::to_owned),
        Era::Modern => Some(match params.map(|text| Doc::read(text.as_bytes(), &Bounds::ANSWER)) {
            Some(Ok(doc)) => translate::modern_params(Some(doc.root()), client),
            _ => translate::modern_params(None, client),
        }),
    };
    let body = Bytes::from(request_body(&id, method, params.as_deref()));
    let mut out = Outgoing::request(id.clone(), body);
    if peer.era == Era::Modern {
        out.headers = modern_headers(peer, &out.body);
    }
    Prepared { out, id, token: None }
}

/// The client's request once more, with its answers to a modern server's questions.
pub(crate) struct Again<'a> {
    pub(crate) body: &'a Bytes,
    /// What was judged, by the name that the server knows.
    pub(crate) subject: Option<Subject<'a>>,
    /// The client named it with its server's name in front.
    pub(crate) is_renamed: bool,
    pub(crate) answers: &'a [(String, String)],
    pub(crate) state: Option<&'a str>,
    /// Under which the client hears of its progress.
    pub(crate) token: Option<&'a Id>,
}

pub(crate) fn next_round(scene: &Scene, peer: &Arc<Peer>, again: &Again<'_>) -> Prepared {
    let id = peer.mint();
    // A request that cannot be read again is no message, and does not leave.
    let nothing = || (Vec::new(), Target::new("", Named::Nothing));
    let (body, judged) = next_body(scene, peer, again, &id).unwrap_or_else(nothing);
    let mut out = Outgoing::request(id.clone(), Bytes::from(body));
    out.edited = Some(Box::new(judged));
    out.progress_token = again.token.map(|token| token.raw().into());
    out.headers = modern_headers(peer, &out.body);
    Prepared { out, id, token: None }
}

fn next_body(scene: &Scene, peer: &Peer, again: &Again<'_>, id: &Id) -> Option<(Vec<u8>, Target)> {
    let doc = wire::read(again.body).ok()?;
    let Message::Request(request) = Message::of(&doc).ok()? else { return None };
    let client = words_for(scene, peer, request.method);
    let params = translate::modern_params(request.params, &client);
    let params = with_answers(request.method, &params, again);
    let judged = judged_as(&request, &request.method_name, again.subject);
    Some((request_body(id, &request.method_name, Some(&params)), judged))
}

fn with_answers(method: Method, params: &str, again: &Again<'_>) -> String {
    let parts: Vec<String> =
        again.answers.iter().map(|(key, raw)| format!("{}:{raw}", string(key))).collect();
    let responses = format!("{{{}}}", parts.join(","));
    let Ok(doc) = Doc::read(params.as_bytes(), &Bounds::ANSWER) else { return params.to_owned() };
    let mut extra = vec![("inputResponses", responses)];
    extra.extend(again.state.map(|state| ("requestState", string(state))));
    let keep = |key: &str, _: Value<'_>| if key == "task" { Member::Drop } else { Member::Keep };
    let answered = rebuild::object(doc.root(), keep, &extra);
    let renamed_to = again.subject.filter(|_| again.is_renamed).map(Subject::name);
    let Some(name) = renamed_to else { return answered };
    match Doc::read(answered.as_bytes(), &Bounds::ANSWER) {
        Ok(doc) => renamed(method, doc.root(), name),
        // It was written a moment ago.
        Err(_) => answered,
    }
}
