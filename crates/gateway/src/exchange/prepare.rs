//! Prepares the message for the server: the same bytes if nothing must change, edited ones if a name, an id or
//! the era differs.

use std::sync::Arc;

use bytes::Bytes;
use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use policy::Subject;
use policy::json::{Bounds, Doc, Value};

use crate::exchange::bridge::Crossing;
use crate::exchange::context::RequestContext;
use crate::runtime::trace::Trace;
use crate::upstream::UpstreamMessage;
use crate::upstream::peer::Peer;
use mcp::edit::{self, Member, string};
use mcp::translate::{self, ClientMeta, modern_tasks};
use mcp::{
    Era, Id, JudgedTarget, Message, Method, Named, Request, Revision, TASKS, headers, meta_keys,
    request_body,
};

/// The client's request, and what must be changed in it.
pub(crate) struct OutgoingDraft<'a> {
    pub(crate) request: &'a Request<'a>,
    pub(crate) body: &'a Bytes,
    pub(in crate::exchange) crossing: &'a Crossing,
    pub(crate) headers: Option<&'a HeaderMap>,
    /// What was judged.
    pub(crate) subject: Option<Subject<'a>>,
    /// The server's name for what the client named with a prefix.
    pub(crate) rename: Option<&'a str>,
    pub(crate) round: Round<'a>,
    pub(crate) trace: Option<&'a Trace>,
}

/// The round of a call, and the server's state for it.
#[derive(Clone, Copy)]
pub(crate) enum Round<'a> {
    First,
    /// The server returned no state.
    Further,
    FurtherWith(&'a str),
    /// The gate's own question was answered; for the server it is the first round.
    AfterOwnQuestion,
}

/// A message that is ready to be sent.
pub(crate) struct Prepared {
    pub(crate) out: UpstreamMessage,
    /// The request id for the server.
    pub(crate) id: Id,
    /// The client's progress token, if the server gets another.
    pub(crate) token: Option<String>,
}

/// Prepares the message for the server.
pub(crate) fn outgoing(
    context: &RequestContext,
    peer: &Peer,
    draft: &OutgoingDraft<'_>,
) -> Prepared {
    let request = draft.request;
    let id = if peer.shared { peer.next_id() } else { request.id.clone() };
    // Clients that share a child may use the same token; the request id is unique.
    let own_token = request.progress_token().filter(|_| peer.shared);
    let changes = peer.shared
        || draft.rename.is_some()
        || !matches!(draft.round, Round::First)
        || !draft.crossing.is_none();
    let traced = draft.trace.filter(|_| peer.is_child() || has_trace(request));
    let (body, is_edited) = if changes || traced.is_some() {
        let (body, is_edited) = rewrite(context, peer, draft, &id, own_token.is_some());
        (Bytes::from(body), is_edited)
    } else {
        (draft.body.clone(), false)
    };
    let mut out = UpstreamMessage::request(id.clone(), body);
    if is_edited {
        let judged = judged_as(request, method_for(draft), draft.subject);
        out.edited = Some(Box::new(judged));
    }
    out.progress_token = match own_token {
        Some(_) => Some(id.raw().into()),
        None => request.progress_token().map(Into::into),
    };
    out.stays_open = request.method_name == "subscriptions/listen";
    out.prefers_stream = draft.headers.is_some_and(prefers_stream);
    if peer.era == Era::Modern {
        out.headers = modern_headers(peer, &out.body);
    }
    out.headers.extend(draft.trace.into_iter().flat_map(trace_headers));
    Prepared { out, id, token: own_token.map(str::to_owned) }
}

/// Whether a client's `Accept` names event streams before JSON.
fn prefers_stream(headers: &HeaderMap) -> bool {
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

/// A child has no headers, so the trace context goes into the message: the parent, and the state that belongs
/// to it.
fn with_trace(params: Value<'_>, trace: &Trace) -> String {
    let Some(parent) = trace.parent_text() else { return params.raw().to_owned() };
    let mut ours = vec![(meta_keys::TRACEPARENT, string(&parent))];
    ours.extend(trace.state_text().map(|state| (meta_keys::TRACESTATE, string(state))));
    let keep = |key: &str, _: Value<'_>| match key {
        meta_keys::TRACEPARENT | meta_keys::TRACESTATE => Member::Drop,
        _ => Member::Keep,
    };
    let meta = if let Some(meta) = params.get("_meta") {
        edit::object(meta, keep, &ours)
    } else {
        let parts = ours.iter().map(|(key, raw)| format!("{}:{raw}", string(key)));
        format!("{{{}}}", parts.collect::<Vec<_>>().join(","))
    };
    edit::with(params, "_meta", meta)
}

/// What an edited request must still name: the method and the judged subject. A request without a subject, such
/// as a task follow-up, and one about a skill, which is judged by the path of its URI, must name what the client
/// named.
fn judged_as(request: &Request<'_>, method: &str, subject: Option<Subject<'_>>) -> JudgedTarget {
    let named = match subject {
        Some(Subject::Tool(name)) => Named::Tool(name.into()),
        Some(Subject::Resource(uri)) => Named::Resource(uri.into()),
        Some(Subject::Prompt(name)) => Named::Prompt(name.into()),
        // Parsed when the request arrived.
        Some(Subject::Skill(_) | Subject::Method(_)) | None => {
            request.named().unwrap_or(Named::Nothing)
        }
    };
    JudgedTarget::new(method, named)
}

/// The request with all edits, and whether more than its id was edited.
fn rewrite(
    context: &RequestContext,
    peer: &Peer,
    draft: &OutgoingDraft<'_>,
    id: &Id,
    new_token: bool,
) -> (Vec<u8>, bool) {
    let request = draft.request;
    let mut params = request.params.map(|params| params.raw().to_owned());
    let method = method_for(draft);
    let mut is_edited = method != request.method_name;
    let mut apply = |act: &dyn Fn(Value<'_>) -> String| {
        is_edited = true;
        let text = params.take().unwrap_or_else(|| "{}".to_owned());
        params = Some(match Doc::read(text.as_bytes(), &Bounds::ANSWER) {
            Ok(doc) => act(doc.root()),
            // Cannot fail: it was parsed before.
            Err(_) => text.clone(),
        });
    };
    if let Some(name) = draft.rename {
        apply(&|params| renamed(request.method, params, name));
    }
    match draft.round {
        Round::First => {}
        Round::AfterOwnQuestion => {
            apply(&|params| edit::without(params, &["requestState", "inputResponses"]));
        }
        Round::Further => apply(&|params| edit::without(params, &["requestState"])),
        Round::FurtherWith(state) => {
            apply(&|params| edit::with(params, "requestState", string(state)));
        }
    }
    match draft.crossing {
        Crossing::NewerToOlder(_) => {
            apply(&translate::legacy_params);
            if runs_only_as_task(peer, draft) {
                apply(&|params| edit::with(params, "task", "{}".to_owned()));
            }
        }
        Crossing::OlderToNewer(_) => {
            let client = client_meta_for(context, peer, request.method);
            apply(&|params| translate::modern_params(Some(params), &client));
            if is_wanted_as_task(request) {
                apply(&|params| edit::without(params, &["task"]));
            }
        }
        Crossing::None => {}
    }
    if let Some(trace) = draft.trace.filter(|_| peer.is_child() || has_trace(request)) {
        apply(&|params| with_trace(params, trace));
    }
    if new_token {
        apply(&|params| match params.get("_meta") {
            Some(meta) => {
                let meta = edit::with(meta, "progressToken", id.raw().to_owned());
                edit::with(params, "_meta", meta)
            }
            None => params.raw().to_owned(),
        });
    }
    (request_body(id, method, params.as_deref()), is_edited)
}

/// The method for the server. In the modern era `tasks/get` returns the result of a task.
fn method_for<'a>(draft: &'a OutgoingDraft<'_>) -> &'a str {
    match draft.request.method {
        Method::TasksResult if draft.crossing.to_newer().is_some() => "tasks/get",
        _ => &draft.request.method_name,
    }
}

/// Whether a client of 2025-11-25 wants its call as a task. In the modern era the server decides.
fn is_wanted_as_task(request: &Request<'_>) -> bool {
    request.method == Method::ToolsCall
        && request.params.is_some_and(|params| params.get("task").is_some())
}

/// Whether a legacy server runs the tool only as a task.
fn runs_only_as_task(peer: &Peer, draft: &OutgoingDraft<'_>) -> bool {
    if draft.request.method != Method::ToolsCall {
        return false;
    }
    let named = || draft.request.params?.get("name")?.as_str();
    match draft.rename {
        Some(name) => peer.server.pins().only_as_task(name),
        None => named().is_some_and(|name| peer.server.pins().only_as_task(&name)),
    }
}

/// The params with the server's name for the subject. The method determines which member it is.
fn renamed(method: Method, params: Value<'_>, name: &str) -> String {
    match (method, params.get("ref")) {
        (Method::ToolsCall | Method::PromptsGet, _) => edit::with(params, "name", string(name)),
        (Method::Complete, Some(reference)) => {
            let reference = edit::with(reference, "name", string(name));
            edit::with(params, "ref", reference)
        }
        // No other method uses a prefixed name.
        _ => params.raw().to_owned(),
    }
}

/// The description of a session's client, for servers that require it with every request.
pub(crate) fn client_meta(context: &RequestContext) -> ClientMeta {
    let Some(session) = &context.session else {
        return ClientMeta { capabilities: "{}".to_owned(), info: None, log_level: None };
    };
    let mut message = match Doc::read(session.initialize_params.as_bytes(), &Bounds::ANSWER) {
        Ok(doc) => ClientMeta::from_initialize(doc.root()),
        Err(_) => ClientMeta { capabilities: "{}".to_owned(), info: None, log_level: None },
    };
    message.capabilities = modern_tasks::declare_tasks(&message.capabilities, false);
    message.log_level = session.log_level();
    message
}

/// The same with tasks, if the server may create one: the gate handles them for its client.
pub(crate) fn client_meta_with_tasks(context: &RequestContext, peer: &Peer) -> ClientMeta {
    let message = client_meta(context);
    let capabilities = modern_tasks::declare_tasks(&message.capabilities, peer.extends(TASKS));
    ClientMeta { capabilities, ..message }
}

fn client_meta_for(context: &RequestContext, peer: &Peer, method: Method) -> ClientMeta {
    if method == Method::ToolsCall || method.follows_up_a_task() {
        return client_meta_with_tasks(context, peer);
    }
    client_meta(context)
}

/// The headers that mirror a modern request. They are made from the body, never copied from the client: an
/// undeclared `Mcp-Param-*` header would carry data to the server that was not judged.
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

/// The headers that mirror arguments, as the tool's schema declares.
fn param_headers(peer: &Peer, params: Option<Value<'_>>) -> Vec<(HeaderName, HeaderValue)> {
    let pins = peer.server.pins();
    let name = params.and_then(|params| params.get("name")?.as_str());
    let Some(declared) = name.and_then(|name| pins.param_headers(&name)) else { return Vec::new() };
    declared.write(params.and_then(|params| params.get("arguments")))
}

/// A request of the gate itself, in the server's era.
pub(crate) fn own_request(
    peer: &Peer,
    method: &str,
    params: Option<&str>,
    client: &ClientMeta,
) -> Prepared {
    let id = peer.next_id();
    let params = match peer.era {
        Era::Legacy => params.map(str::to_owned),
        Era::Modern => Some(match params.map(|text| Doc::read(text.as_bytes(), &Bounds::ANSWER)) {
            Some(Ok(doc)) => translate::modern_params(Some(doc.root()), client),
            _ => translate::modern_params(None, client),
        }),
    };
    let body = Bytes::from(request_body(&id, method, params.as_deref()));
    let mut out = UpstreamMessage::request(id.clone(), body);
    if peer.era == Era::Modern {
        out.headers = modern_headers(peer, &out.body);
    }
    Prepared { out, id, token: None }
}

/// A further round: the client's request with its answers to the input requests of a modern server.
pub(crate) struct FurtherRound<'a> {
    pub(crate) body: &'a Bytes,
    /// What was judged, by the server's name.
    pub(crate) subject: Option<Subject<'a>>,
    /// The client used the name with the server's prefix.
    pub(crate) is_renamed: bool,
    pub(crate) answers: &'a [(String, String)],
    pub(crate) state: Option<&'a str>,
    /// The token for progress notifications.
    pub(crate) token: Option<&'a Id>,
}

pub(crate) fn next_round(
    context: &RequestContext,
    peer: &Arc<Peer>,
    round: &FurtherRound<'_>,
) -> Prepared {
    let id = peer.next_id();
    // A request that cannot be parsed again is not sent.
    let nothing = || (Vec::new(), JudgedTarget::new("", Named::Nothing));
    let (body, judged) = next_body(context, peer, round, &id).unwrap_or_else(nothing);
    let mut out = UpstreamMessage::request(id.clone(), Bytes::from(body));
    out.edited = Some(Box::new(judged));
    out.progress_token = round.token.map(|token| token.raw().into());
    out.headers = modern_headers(peer, &out.body);
    Prepared { out, id, token: None }
}

fn next_body(
    context: &RequestContext,
    peer: &Peer,
    round: &FurtherRound<'_>,
    id: &Id,
) -> Option<(Vec<u8>, JudgedTarget)> {
    let doc = mcp::read(round.body).ok()?;
    let Message::Request(request) = Message::of(&doc).ok()? else { return None };
    let client = client_meta_for(context, peer, request.method);
    let params = translate::modern_params(request.params, &client);
    let params = with_answers(request.method, &params, round);
    let judged = judged_as(&request, &request.method_name, round.subject);
    Some((request_body(id, &request.method_name, Some(&params)), judged))
}

fn with_answers(method: Method, params: &str, round: &FurtherRound<'_>) -> String {
    let parts: Vec<String> =
        round.answers.iter().map(|(key, raw)| format!("{}:{raw}", string(key))).collect();
    let responses = format!("{{{}}}", parts.join(","));
    let Ok(doc) = Doc::read(params.as_bytes(), &Bounds::ANSWER) else { return params.to_owned() };
    let mut extra = vec![("inputResponses", responses)];
    extra.extend(round.state.map(|state| ("requestState", string(state))));
    let keep = |key: &str, _: Value<'_>| if key == "task" { Member::Drop } else { Member::Keep };
    let answered = edit::object(doc.root(), keep, &extra);
    let renamed_to = round.subject.filter(|_| round.is_renamed).map(Subject::name);
    let Some(name) = renamed_to else { return answered };
    match Doc::read(answered.as_bytes(), &Bounds::ANSWER) {
        Ok(doc) => renamed(method, doc.root(), name),
        // Cannot fail: this code wrote it.
        Err(_) => answered,
    }
}
