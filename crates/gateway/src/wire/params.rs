//! The params of a request: members that only look like those of the protocol are refused, and what a
//! request names is told only once the params fit its method.

use std::borrow::Cow;

use policy::json::{Kind, Value, fold};

use super::id::Id;
use super::members;
use super::method::Method;
use super::refused::{Refused, code};

/// A tool's own name has at most 128 characters, a server's prefix and its dot 64.
const TOOL_NAME_BYTES_MAX: usize = 192;
const NAME_BYTES_MAX: usize = 256;
const URI_BYTES_MAX: usize = 8192;

/// Members of params that the protocol gives a meaning.
const MEMBERS: [&str; 32] = [
    "_meta",
    "argument",
    "arguments",
    "capabilities",
    "clientInfo",
    "context",
    "cursor",
    "data",
    "error",
    "inputRequests",
    "inputResponses",
    "level",
    "logger",
    "message",
    "mode",
    "name",
    "notifications",
    "progress",
    "progressToken",
    "protocolVersion",
    "reason",
    "ref",
    "requestId",
    "requestState",
    "requestedSchema",
    "result",
    "status",
    "task",
    "taskId",
    "total",
    "uri",
    "url",
];

/// Members of what a client wants to hear by `subscriptions/listen`.
const NEWS: [&str; 5] = [
    "toolsListChanged",
    "promptsListChanged",
    "resourcesListChanged",
    "resourceSubscriptions",
    "taskIds",
];

/// Keys of `_meta` that the protocol gives a meaning.
pub mod meta_keys {
    pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
    pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
    pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
    pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
    pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
    pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
    pub const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";
    pub const PROGRESS_TOKEN: &str = "progressToken";
    pub const TRACEPARENT: &str = "traceparent";
    pub const TRACESTATE: &str = "tracestate";
    pub const BAGGAGE: &str = "baggage";

    pub(super) const ALL: [&str; 11] = [
        PROTOCOL_VERSION,
        CLIENT_CAPABILITIES,
        CLIENT_INFO,
        LOG_LEVEL,
        SERVER_INFO,
        SUBSCRIPTION_ID,
        RELATED_TASK,
        PROGRESS_TOKEN,
        TRACEPARENT,
        TRACESTATE,
        BAGGAGE,
    ];
}

/// What a request is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Named<'d> {
    Tool(Cow<'d, str>),
    /// A resource, or the template of one in `completion/complete`.
    Resource(Cow<'d, str>),
    Prompt(Cow<'d, str>),
    Task(Cow<'d, str>),
    Nothing,
}

/// Refuses keys that some reader takes for a member of the protocol though they are written otherwise, and
/// members that the method does not have. An unknown method may have members of its own, so there only
/// `_meta` is guarded.
pub(super) fn check_keys(method: Method, params: Option<Value<'_>>) -> Result<(), Refused> {
    let Some(params) = params else { return Ok(()) };
    let known: &[&str] = if method == Method::Other { &[members::META] } else { &MEMBERS };
    check_exact(params, known)?;
    check_members(method, params)?;
    if let Some(wanted) = params.get("notifications").filter(|_| method == Method::Listen) {
        check_exact(wanted, &NEWS)?;
    }
    let Some(meta) = params.get("_meta") else { return Ok(()) };
    if meta.kind() != Kind::Object {
        return Err(Refused::new(400, code::INVALID_PARAMS, "`_meta` must be an object"));
    }
    if meta.get(meta_keys::PROGRESS_TOKEN).is_some_and(|token| Id::strict(token).is_none()) {
        return Err(Refused::params(
            "`progressToken` must be a string of at most 256 bytes or a whole number",
        ));
    }
    check_exact(meta, &meta_keys::ALL)
}

/// The words do not repeat the member: it may be anything.
fn check_members(method: Method, params: Value<'_>) -> Result<(), Refused> {
    if params.entries().all(|(key, _)| members::has(method, &key.text())) {
        return Ok(());
    }
    let (name, allowed) = (method.name().unwrap_or_default(), members::of(method).unwrap_or(&[]));
    let allowed = allowed.iter().chain(&[members::META]).map(|member| format!("`{member}`"));
    let allowed = allowed.collect::<Vec<_>>().join(", ");
    Err(Refused::params(format!("`params` of `{name}` can only have {allowed}")))
}

/// Refuses members that are not in the list, for objects whose members all have a meaning.
fn check_only(object: Value<'_>, what: &str, known: &[&str]) -> Result<(), Refused> {
    check_exact(object, known)?;
    if object.entries().all(|(key, _)| known.contains(&key.text().as_ref())) {
        return Ok(());
    }
    let known: Vec<String> = known.iter().map(|member| format!("`{member}`")).collect();
    Err(Refused::params(format!("`{what}` can only have {}", known.join(", "))))
}

/// Whether some reader takes a key of this object for one of these members, though it is written otherwise.
pub(crate) fn has_look_alike(object: Value<'_>, known: &[&str]) -> bool {
    check_exact(object, known).is_err()
}

fn check_exact(object: Value<'_>, known: &[&str]) -> Result<(), Refused> {
    for (key, _) in object.entries() {
        let text = key.text();
        if known.contains(&text.as_ref()) {
            continue;
        }
        let folded = fold(&text);
        if let Some(known) = known.iter().find(|known| known.eq_ignore_ascii_case(&folded)) {
            return Err(Refused::params(format!("a key looks like `{known}` but is not")));
        }
    }
    Ok(())
}

/// Checks that params fit the method and tells what they name.
pub(super) fn named(method: Method, params: Option<Value<'_>>) -> Result<Named<'_>, Refused> {
    match method {
        Method::ToolsCall => tool(params),
        Method::PromptsGet => prompt(params),
        Method::ResourcesRead | Method::ResourcesSubscribe | Method::ResourcesUnsubscribe => {
            Ok(Named::Resource(text(params, "uri", URI_BYTES_MAX)?))
        }
        Method::Complete => completion(params),
        Method::ToolsList
        | Method::PromptsList
        | Method::ResourcesList
        | Method::ResourcesTemplatesList
        | Method::TasksList => list(params),
        Method::TasksGet | Method::TasksResult | Method::TasksUpdate | Method::TasksCancel => {
            Ok(Named::Task(text(params, "taskId", NAME_BYTES_MAX)?))
        }
        _ => Ok(Named::Nothing),
    }
}

fn list(params: Option<Value<'_>>) -> Result<Named<'_>, Refused> {
    match params.and_then(|params| params.get("cursor")).map(Value::kind) {
        None | Some(Kind::String) => Ok(Named::Nothing),
        Some(_) => Err(Refused::params("`cursor` must be a string")),
    }
}

fn tool(params: Option<Value<'_>>) -> Result<Named<'_>, Refused> {
    let name = text(params, "name", TOOL_NAME_BYTES_MAX)?;
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-/".contains(&byte);
    if !name.bytes().all(legal) {
        return Err(Refused::params("a tool's name is letters, digits and `_`, `.`, `-`, `/`"));
    }
    arguments(params)?;
    let task = params.and_then(|params| params.get("task"));
    if task.is_some_and(|task| task.kind() != Kind::Object) {
        return Err(Refused::params("`task` must be an object"));
    }
    Ok(Named::Tool(name))
}

fn prompt(params: Option<Value<'_>>) -> Result<Named<'_>, Refused> {
    let name = text(params, "name", NAME_BYTES_MAX)?;
    let strings = |arguments: Value<'_>| {
        arguments.entries().all(|(_, argument)| argument.kind() == Kind::String)
    };
    match arguments(params)? {
        Some(arguments) if !strings(arguments) => {
            Err(Refused::params("the arguments of a prompt must be strings"))
        }
        _ => Ok(Named::Prompt(name)),
    }
}

fn arguments(params: Option<Value<'_>>) -> Result<Option<Value<'_>>, Refused> {
    match params.and_then(|params| params.get("arguments")) {
        Some(arguments) if arguments.kind() != Kind::Object => {
            Err(Refused::params("`arguments` must be an object"))
        }
        arguments => Ok(arguments),
    }
}

fn completion(params: Option<Value<'_>>) -> Result<Named<'_>, Refused> {
    let member = |key: &str| params.and_then(|params| params.get(key));
    let (Some(reference), Some(argument)) = (member("ref"), member("argument")) else {
        return Err(Refused::params("`ref` and `argument` are needed"));
    };
    check_exact(reference, &["type", "name", "uri"])?;
    check_only(argument, "argument", &["name", "value"])?;
    if let Some(context) = member("context") {
        check_only(context, "context", &["arguments"])?;
    }
    match reference.get("type").and_then(Value::as_str).as_deref() {
        Some("ref/prompt") => {
            check_only(reference, "ref", &["type", "name", "title"])?;
            Ok(Named::Prompt(text(Some(reference), "name", NAME_BYTES_MAX)?))
        }
        Some("ref/resource") => {
            check_only(reference, "ref", &["type", "uri"])?;
            Ok(Named::Resource(text(Some(reference), "uri", URI_BYTES_MAX)?))
        }
        _ => Err(Refused::params("the `type` of `ref` must be `ref/prompt` or `ref/resource`")),
    }
}

/// A member that must be a string without control characters.
fn text<'d>(
    object: Option<Value<'d>>,
    key: &str,
    bytes_max: usize,
) -> Result<Cow<'d, str>, Refused> {
    let value = object.and_then(|object| object.get(key)).and_then(Value::as_str);
    let Some(value) = value else {
        return Err(Refused::params(format!("`{key}` must be a string")));
    };
    if value.is_empty() || value.len() > bytes_max || value.chars().any(char::is_control) {
        let words = format!("`{key}` must be 1 to {bytes_max} bytes without control characters");
        return Err(Refused::params(words));
    }
    Ok(value)
}
