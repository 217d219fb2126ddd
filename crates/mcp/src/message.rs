//! Strict parsing of client messages: exactly the members of JSON-RPC 2.0, each once and of the
//! right type.

use std::borrow::Cow;

use policy::json::{Bounds, Doc, Kind, Refusal, RefusalKind, Value, fold};

use crate::error::ProtocolError;
use crate::id::Id;
use crate::method::{Method, MethodKind};
use crate::params::{self, Named};

const METHOD_BYTES_MAX: usize = 128;
const MEMBERS: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];

/// Parses the bytes of a client message.
pub fn read(bytes: &[u8]) -> Result<Doc<'_>, ProtocolError> {
    Doc::read(bytes, &Bounds::MESSAGE).map_err(|refusal| {
        let id = id_despite(&refusal, bytes);
        ProtocolError { id, ..ProtocolError::from(refusal) }
    })
}

/// The id of an unambiguous request that is refused for a number or a size. On a pipe only the id
/// tells the client which call failed; without it the client would wait forever.
fn id_despite(refusal: &Refusal, bytes: &[u8]) -> Option<Id> {
    match refusal.kind {
        RefusalKind::NumberNotExact
        | RefusalKind::LongNumber
        | RefusalKind::LongString
        | RefusalKind::TooDeep
        | RefusalKind::TooManyNodes => {}
        _ => return None,
    }
    let doc = Doc::read_shallow(bytes, &Bounds::ANSWER, 1).ok()?;
    let mut ids = doc.root().entries().filter(|(key, _)| key.text() == "id");
    let (_, id) = ids.next()?;
    ids.next().is_none().then(|| Id::strict(id))?
}

/// A client message.
#[derive(Debug, Clone)]
pub enum Message<'d> {
    Request(Request<'d>),
    Notification(Notification<'d>),
    Response(Response<'d>),
}

#[derive(Debug, Clone)]
pub struct Request<'d> {
    pub id: Id,
    pub method: Method,
    pub method_name: Cow<'d, str>,
    /// An object, if present.
    pub params: Option<Value<'d>>,
}

#[derive(Debug, Clone)]
pub struct Notification<'d> {
    pub method: Method,
    pub method_name: Cow<'d, str>,
    pub params: Option<Value<'d>>,
}

/// The client's response to a server request.
#[derive(Debug, Clone)]
pub struct Response<'d> {
    pub id: Id,
    pub outcome: Outcome<'d>,
}

#[derive(Debug, Clone, Copy)]
pub enum Outcome<'d> {
    Result(Value<'d>),
    Error(Value<'d>),
}

impl<'d> Message<'d> {
    /// Classifies a document.
    pub fn of(doc: &'d Doc<'_>) -> Result<Message<'d>, ProtocolError> {
        let root = doc.root();
        match root.kind() {
            Kind::Object => {}
            Kind::Array => {
                return Err(ProtocolError::invalid("batches are not accepted; send one message"));
            }
            _ => return Err(ProtocolError::invalid("a message must be a JSON object")),
        }
        let members = Members::of(root);
        let id = members.id.map(checked_id).transpose()?;
        let message = Message::with_id(root, &members, id.clone());
        message.map_err(|refused| ProtocolError { id: refused.id.clone().or(id), ..refused })
    }

    fn with_id(
        root: Value<'d>,
        members: &Members<'d>,
        id: Option<Id>,
    ) -> Result<Message<'d>, ProtocolError> {
        members.check(root)?;
        match (members.method, id) {
            (Some(method), id) => Message::call(members, method, id),
            (None, Some(id)) => {
                Ok(Message::Response(Response { id, outcome: members.checked_outcome()? }))
            }
            (None, None) => {
                Err(ProtocolError::invalid("a message needs a `method`, or the `id` of a request"))
            }
        }
    }

    fn call(
        members: &Members<'d>,
        method: Value<'d>,
        id: Option<Id>,
    ) -> Result<Message<'d>, ProtocolError> {
        if members.result.is_some() || members.error.is_some() {
            return Err(ProtocolError::invalid(
                "a message with a `method` must not have a `result` or `error`",
            ));
        }
        let (method, method_name) = checked_method(method)?;
        let params = members.params;
        params::check_keys(method, params)?;
        match (id, method.kind()) {
            (Some(_), Some(MethodKind::Notification)) => Err(ProtocolError::invalid(
                "this method is a notification; send it without an `id`",
            )),
            (None, Some(MethodKind::Request)) => {
                Err(ProtocolError::invalid("this method is a request; send it with an `id`"))
            }
            (Some(id), _) => Ok(Message::Request(Request { id, method, method_name, params })),
            (None, _) => Ok(Message::Notification(Notification { method, method_name, params })),
        }
    }

    pub fn id(&self) -> Option<&Id> {
        match self {
            Message::Request(Request { id, .. }) | Message::Response(Response { id, .. }) => {
                Some(id)
            }
            Message::Notification(_) => None,
        }
    }

    pub fn method(&self) -> Option<Method> {
        match self {
            Message::Request(Request { method, .. })
            | Message::Notification(Notification { method, .. }) => Some(*method),
            Message::Response(_) => None,
        }
    }

    pub fn method_name(&self) -> Option<&str> {
        match self {
            Message::Request(Request { method_name, .. })
            | Message::Notification(Notification { method_name, .. }) => Some(method_name),
            Message::Response(_) => None,
        }
    }

    pub fn params(&self) -> Option<Value<'d>> {
        match self {
            Message::Request(Request { params, .. })
            | Message::Notification(Notification { params, .. }) => *params,
            Message::Response(_) => None,
        }
    }
}

impl<'d> Request<'d> {
    /// The target of the request, after the check that its params fit the method.
    pub fn named(&self) -> Result<Named<'d>, ProtocolError> {
        params::named(self.method, self.params).map_err(|refused| refused.with_id(&self.id))
    }

    /// The same for a message to a server, where a tool may have any name that the server gave it.
    pub(crate) fn named_to_server(&self) -> Result<Named<'d>, ProtocolError> {
        params::named_to_server(self.method, self.params)
    }

    /// The method's name, independent of the message's lifetime.
    pub fn lasting_method_name(&self) -> Cow<'static, str> {
        match self.method.name() {
            Some(name) => Cow::Borrowed(name),
            None => Cow::Owned(self.method_name.clone().into_owned()),
        }
    }

    /// The arguments of `tools/call` or `prompts/get`.
    pub fn arguments(&self) -> Option<Value<'d>> {
        self.params.and_then(|params| params.get("arguments"))
    }

    /// The `_meta` of the params.
    pub fn meta(&self) -> Option<Value<'d>> {
        self.params.and_then(|params| params.get("_meta"))
    }

    /// The progress token as written.
    pub fn progress_token(&self) -> Option<&'d str> {
        let token = self.meta()?.get("progressToken")?;
        matches!(token.kind(), Kind::String | Kind::Number).then(|| token.raw())
    }
}

/// The members of a message, found in one pass. The JSON reader refuses duplicates.
#[derive(Default)]
struct Members<'d> {
    jsonrpc: Option<Value<'d>>,
    id: Option<Value<'d>>,
    method: Option<Value<'d>>,
    params: Option<Value<'d>>,
    result: Option<Value<'d>>,
    error: Option<Value<'d>>,
    /// Whether there is an unknown member.
    more: bool,
}

impl<'d> Members<'d> {
    fn of(root: Value<'d>) -> Members<'d> {
        let mut members = Members::default();
        for (key, value) in root.entries() {
            let position = match &*key.text() {
                "jsonrpc" => &mut members.jsonrpc,
                "id" => &mut members.id,
                "method" => &mut members.method,
                "params" => &mut members.params,
                "result" => &mut members.result,
                "error" => &mut members.error,
                _ => {
                    members.more = true;
                    continue;
                }
            };
            *position = Some(value);
        }
        members
    }

    fn check(&self, root: Value<'d>) -> Result<(), ProtocolError> {
        if self.more {
            return Err(unknown_member(root));
        }
        if self.jsonrpc.and_then(Value::as_str).as_deref() != Some("2.0") {
            return Err(ProtocolError::invalid("`jsonrpc` must be \"2.0\""));
        }
        if self.params.is_some_and(|params| params.kind() != Kind::Object) {
            return Err(ProtocolError::invalid("`params` must be an object"));
        }
        Ok(())
    }

    fn checked_outcome(&self) -> Result<Outcome<'d>, ProtocolError> {
        if self.params.is_some() {
            return Err(ProtocolError::invalid("a response must not have `params`"));
        }
        match (self.result, self.error) {
            (Some(result), None) => Ok(Outcome::Result(result)),
            (None, Some(error)) if is_error(error) => Ok(Outcome::Error(error)),
            (None, Some(_)) => {
                Err(ProtocolError::invalid("`error` needs an integer `code` and a `message`"))
            }
            _ => Err(ProtocolError::invalid("a response needs either a `result` or an `error`")),
        }
    }
}

#[cold]
fn unknown_member(root: Value<'_>) -> ProtocolError {
    let folds = |known: &str| root.entries().any(|(key, _)| fold(&key.text()) == known);
    match MEMBERS.iter().find(|known| root.get(known).is_none() && folds(known)) {
        Some(known) => ProtocolError::invalid(format!("a member looks like `{known}` but is not")),
        None => ProtocolError::invalid(
            "a message may only have `jsonrpc`, `id`, `method`, `params`, `result` and `error`",
        ),
    }
}

fn checked_id(value: Value<'_>) -> Result<Id, ProtocolError> {
    Id::strict(value).ok_or_else(|| {
        ProtocolError::invalid("`id` must be a string of at most 256 bytes or a 64-bit integer")
    })
}

fn checked_method(value: Value<'_>) -> Result<(Method, Cow<'_, str>), ProtocolError> {
    let name = value.as_str().ok_or_else(|| ProtocolError::invalid("`method` must be a string"))?;
    let legal = (1..=METHOD_BYTES_MAX).contains(&name.len());
    if !legal || !name.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(ProtocolError::invalid("`method` must be 1 to 128 visible ASCII characters"));
    }
    if let Some(near) = Method::near_miss(&name).and_then(Method::name) {
        return Err(ProtocolError::invalid(format!("`method` looks like `{near}` but is not")));
    }
    Ok((Method::parse(&name), name))
}

/// Whether an `error` is valid: some clients would not recognize one without code and message.
pub fn is_error(error: Value<'_>) -> bool {
    let code = error.get("code").and_then(Value::as_number);
    let message = error.get("message").map(Value::kind);
    code.is_some_and(|code| code.parse::<i64>().is_ok()) && message == Some(Kind::String)
}
