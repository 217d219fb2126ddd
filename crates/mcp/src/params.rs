//! Strict parsing of request params: look-alikes of protocol members are refused, and the target is
//! returned only if the params fit the method.

mod members;

use std::borrow::Cow;

use policy::json::{Kind, Value, fold};

use crate::error::{ProtocolError, code};
use crate::id::Id;
use crate::method::Method;

const NAME_BYTES_MAX: usize = 256;
/// A server's own name for a tool or prompt, which clients may know under another one.
const OWN_NAME_BYTES_MAX: usize = 512;

/// How long the names of tools and prompts may be.
struct NameBytesMax {
    tool: usize,
    prompt: usize,
}

/// From clients. A tool's own name has at most 128 characters, the server prefix and its dot 64.
const FROM_CLIENT: NameBytesMax = NameBytesMax { tool: 192, prompt: NAME_BYTES_MAX };
const TO_SERVER: NameBytesMax =
    NameBytesMax { tool: OWN_NAME_BYTES_MAX, prompt: OWN_NAME_BYTES_MAX };
const URI_BYTES_MAX: usize = 8192;

/// Members of params defined by the protocol.
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

/// Members of `notifications` in `subscriptions/listen`.
const NEWS: [&str; 5] = [
    "toolsListChanged",
    "promptsListChanged",
    "resourcesListChanged",
    "resourceSubscriptions",
    "taskIds",
];

/// Keys of `_meta` defined by the protocol.
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

/// The target of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Named<'d> {
    Tool(Cow<'d, str>),
    /// A resource, a skill by the URI of its `SKILL.md`, or a resource template in `completion/complete`.
    Resource(Cow<'d, str>),
    Prompt(Cow<'d, str>),
    Task(Cow<'d, str>),
    Nothing,
}

/// Refuses keys that some parser would take for a member of the protocol in another spelling, and
/// members that the method does not have. An unknown method may have its own members, so only
/// `_meta` is checked there.
pub(super) fn check_keys(method: Method, params: Option<Value<'_>>) -> Result<(), ProtocolError> {
    let Some(params) = params else { return Ok(()) };
    let known: &[&str] = if method == Method::Other { &[members::META] } else { &MEMBERS };
    check_exact(params, known)?;
    check_members(method, params)?;
    if let Some(wanted) = params.get("notifications").filter(|_| method == Method::Listen) {
        check_exact(wanted, &NEWS)?;
    }
    let Some(meta) = params.get("_meta") else { return Ok(()) };
    if meta.kind() != Kind::Object {
        return Err(ProtocolError::new(400, code::INVALID_PARAMS, "`_meta` must be an object"));
    }
    if meta.get(meta_keys::PROGRESS_TOKEN).is_some_and(|token| Id::strict(token).is_none()) {
        return Err(ProtocolError::params(
            "`progressToken` must be a string of at most 256 bytes or an integer",
        ));
    }
    check_exact(meta, &meta_keys::ALL)
}

/// The error does not repeat the member: it may contain anything.
fn check_members(method: Method, params: Value<'_>) -> Result<(), ProtocolError> {
    if params.entries().all(|(key, _)| members::has(method, &key.text())) {
        return Ok(());
    }
    let (name, allowed) = (method.name().unwrap_or_default(), members::of(method).unwrap_or(&[]));
    let allowed = allowed.iter().chain(&[members::META]).map(|member| format!("`{member}`"));
    let allowed = allowed.collect::<Vec<_>>().join(", ");
    Err(ProtocolError::params(format!("`params` of `{name}` can only have {allowed}")))
}

/// Refuses members that are not in the list.
fn check_only(object: Value<'_>, what: &str, known: &[&str]) -> Result<(), ProtocolError> {
    check_exact(object, known)?;
    if object.entries().all(|(key, _)| known.contains(&key.text().as_ref())) {
        return Ok(());
    }
    let known: Vec<String> = known.iter().map(|member| format!("`{member}`")).collect();
    Err(ProtocolError::params(format!("`{what}` can only have {}", known.join(", "))))
}

/// Whether a key of this object is a look-alike of one of these members.
pub fn has_look_alike(object: Value<'_>, known: &[&str]) -> bool {
    object.entries().any(|(key, _)| look_alike(&key.text(), known).is_some())
}

/// Whether some parser could take a key for one of these members, although it is none.
pub fn is_look_alike(key: &str, known: &[&str]) -> bool {
    look_alike(key, known).is_some()
}

/// The member that this key is a look-alike of.
fn look_alike<'k>(key: &str, known: &[&'k str]) -> Option<&'k str> {
    if known.contains(&key) {
        return None;
    }
    let folded = fold(key);
    known.iter().find(|known| known.eq_ignore_ascii_case(&folded)).copied()
}

fn check_exact(object: Value<'_>, known: &[&str]) -> Result<(), ProtocolError> {
    let mut alike = object.entries().filter_map(|(key, _)| look_alike(&key.text(), known));
    alike.next().map_or(Ok(()), |known| {
        Err(ProtocolError::params(format!("a key looks like `{known}` but is not")))
    })
}

/// Whether a server's own name for a tool or prompt can be in a message to the server.
pub fn can_be_sent(own: &str) -> bool {
    is_text(own, OWN_NAME_BYTES_MAX)
}

/// Checks that params fit the method and returns their target.
pub(super) fn named(method: Method, params: Option<Value<'_>>) -> Result<Named<'_>, ProtocolError> {
    let named = named_within(method, params, &FROM_CLIENT)?;
    if let Named::Tool(name) = &named {
        check_tool_name(name)?;
    }
    Ok(named)
}

/// The same for a message to a server, where a tool may have any name that the server gave it.
pub(super) fn named_to_server(
    method: Method,
    params: Option<Value<'_>>,
) -> Result<Named<'_>, ProtocolError> {
    named_within(method, params, &TO_SERVER)
}

fn named_within<'d>(
    method: Method,
    params: Option<Value<'d>>,
    bytes_max: &NameBytesMax,
) -> Result<Named<'d>, ProtocolError> {
    match method {
        Method::ToolsCall => tool(params, bytes_max.tool),
        Method::PromptsGet => prompt(params, bytes_max.prompt),
        Method::DirectoryRead => {
            list(params)?;
            Ok(Named::Resource(text(params, "uri", URI_BYTES_MAX)?))
        }
        Method::ResourcesRead
        | Method::ResourcesSubscribe
        | Method::ResourcesUnsubscribe
        | Method::SkillsGet => Ok(Named::Resource(text(params, "uri", URI_BYTES_MAX)?)),
        Method::Complete => completion(params, bytes_max.prompt),
        Method::ToolsList
        | Method::PromptsList
        | Method::SkillsList
        | Method::ResourcesList
        | Method::ResourcesTemplatesList
        | Method::TasksList => list(params),
        Method::TasksGet | Method::TasksResult | Method::TasksUpdate | Method::TasksCancel => {
            Ok(Named::Task(text(params, "taskId", NAME_BYTES_MAX)?))
        }
        _ => Ok(Named::Nothing),
    }
}

fn list(params: Option<Value<'_>>) -> Result<Named<'_>, ProtocolError> {
    match params.and_then(|params| params.get("cursor")).map(Value::kind) {
        None | Some(Kind::String) => Ok(Named::Nothing),
        Some(_) => Err(ProtocolError::params("`cursor` must be a string")),
    }
}

fn check_tool_name(name: &str) -> Result<(), ProtocolError> {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-/".contains(&byte);
    if name.bytes().all(legal) {
        return Ok(());
    }
    Err(ProtocolError::params(
        "a tool name may only contain letters, digits, `_`, `.`, `-` and `/`",
    ))
}

fn tool(params: Option<Value<'_>>, name_bytes_max: usize) -> Result<Named<'_>, ProtocolError> {
    let name = text(params, "name", name_bytes_max)?;
    arguments(params)?;
    let task = params.and_then(|params| params.get("task"));
    if task.is_some_and(|task| task.kind() != Kind::Object) {
        return Err(ProtocolError::params("`task` must be an object"));
    }
    Ok(Named::Tool(name))
}

fn prompt(params: Option<Value<'_>>, name_bytes_max: usize) -> Result<Named<'_>, ProtocolError> {
    let name = text(params, "name", name_bytes_max)?;
    let strings = |arguments: Value<'_>| {
        arguments.entries().all(|(_, argument)| argument.kind() == Kind::String)
    };
    match arguments(params)? {
        Some(arguments) if !strings(arguments) => {
            Err(ProtocolError::params("the arguments of a prompt must be strings"))
        }
        _ => Ok(Named::Prompt(name)),
    }
}

fn arguments(params: Option<Value<'_>>) -> Result<Option<Value<'_>>, ProtocolError> {
    match params.and_then(|params| params.get("arguments")) {
        Some(arguments) if arguments.kind() != Kind::Object => {
            Err(ProtocolError::params("`arguments` must be an object"))
        }
        arguments => Ok(arguments),
    }
}

fn completion(
    params: Option<Value<'_>>,
    name_bytes_max: usize,
) -> Result<Named<'_>, ProtocolError> {
    let member = |key: &str| params.and_then(|params| params.get(key));
    let (Some(reference), Some(argument)) = (member("ref"), member("argument")) else {
        return Err(ProtocolError::params("`ref` and `argument` are required"));
    };
    check_exact(reference, &["type", "name", "uri"])?;
    check_only(argument, "argument", &["name", "value"])?;
    if let Some(context) = member("context") {
        check_only(context, "context", &["arguments"])?;
    }
    match reference.get("type").and_then(Value::as_str).as_deref() {
        Some("ref/prompt") => {
            check_only(reference, "ref", &["type", "name", "title"])?;
            Ok(Named::Prompt(text(Some(reference), "name", name_bytes_max)?))
        }
        Some("ref/resource") => {
            check_only(reference, "ref", &["type", "uri"])?;
            Ok(Named::Resource(text(Some(reference), "uri", URI_BYTES_MAX)?))
        }
        _ => {
            Err(ProtocolError::params("the `type` of `ref` must be `ref/prompt` or `ref/resource`"))
        }
    }
}

/// A required string member without control characters.
fn text<'d>(
    object: Option<Value<'d>>,
    key: &str,
    bytes_max: usize,
) -> Result<Cow<'d, str>, ProtocolError> {
    let value = object.and_then(|object| object.get(key)).and_then(Value::as_str);
    let Some(value) = value else {
        return Err(ProtocolError::params(format!("`{key}` must be a string")));
    };
    if !is_text(&value, bytes_max) {
        let words = format!("`{key}` must be 1 to {bytes_max} bytes without control characters");
        return Err(ProtocolError::params(words));
    }
    Ok(value)
}

fn is_text(value: &str, bytes_max: usize) -> bool {
    (1..=bytes_max).contains(&value.len()) && !value.chars().any(char::is_control)
}
