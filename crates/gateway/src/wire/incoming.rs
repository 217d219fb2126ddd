//! A message from a server, taken leniently: valid JSON with an envelope of one meaning. Members that
//! we do not know stay in the bytes and go on as they are.

use std::borrow::Cow;

use policy::json::{Bounds, Doc, Kind, Value, fold};

use super::id::Id;
use super::message::Outcome;
use super::method::Method;

const MEMBERS: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];
/// More members in one envelope than any server has.
const MEMBERS_MAX: usize = 32;

/// Why a server's message cannot be used. For the owner and the log; it repeats nothing of the message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the server sent a message that cannot be used: {words}")]
pub struct Unusable {
    pub words: String,
}

impl Unusable {
    fn new(words: impl Into<String>) -> Unusable {
        Unusable { words: words.into() }
    }
}

/// Reads the bytes of a server's message and keeps its values down to `record_depth`: 1 for the
/// envelope, 2 for the members of its result, error or params.
pub fn read_answer(bytes: &[u8], record_depth: usize) -> Result<Doc<'_>, Unusable> {
    Doc::read_shallow(bytes, &Bounds::ANSWER, record_depth)
        .map_err(|refusal| Unusable::new(refusal.to_string()))
}

/// A message from a server.
#[derive(Debug, Clone)]
pub enum Incoming<'d> {
    Request {
        id: Id,
        method: Method,
        method_name: Cow<'d, str>,
        params: Option<Value<'d>>,
    },
    Notification {
        method: Method,
        method_name: Cow<'d, str>,
        params: Option<Value<'d>>,
    },
    /// `id` is absent when the server could not tell which request it answers.
    Response {
        id: Option<Id>,
        outcome: Outcome<'d>,
    },
}

impl<'d> Incoming<'d> {
    pub fn of(doc: &'d Doc<'_>) -> Result<Incoming<'d>, Unusable> {
        let root = doc.root();
        check_envelope(root)?;
        let id = match root.get("id") {
            None => None,
            Some(value) if value.is_null() => None,
            Some(value) => Some(
                Id::lenient(value).ok_or_else(|| Unusable::new("`id` is no string or number"))?,
            ),
        };
        match root.get("method") {
            Some(method) => Incoming::call(root, method, id),
            None => Incoming::response(root, id),
        }
    }

    fn call(root: Value<'d>, method: Value<'d>, id: Option<Id>) -> Result<Incoming<'d>, Unusable> {
        if root.get("result").is_some() || root.get("error").is_some() {
            return Err(Unusable::new("it has a `method` and a `result` or `error`"));
        }
        let Some(method_name) = method.as_str() else {
            return Err(Unusable::new("`method` is no string"));
        };
        let method = Method::parse(&method_name);
        let params = root.get("params").filter(|params| !params.is_null());
        if params.is_some_and(|params| params.kind() != Kind::Object) {
            return Err(Unusable::new("`params` is no object"));
        }
        Ok(match id {
            Some(id) => Incoming::Request { id, method, method_name, params },
            None if root.get("id").is_some() => {
                return Err(Unusable::new("a request's `id` is null"));
            }
            None => Incoming::Notification { method, method_name, params },
        })
    }

    fn response(root: Value<'d>, id: Option<Id>) -> Result<Incoming<'d>, Unusable> {
        // Some servers write the other one as null.
        let present = |key: &str| root.get(key).filter(|value| !value.is_null());
        match (root.get("result"), present("error")) {
            (Some(result), Some(_)) if !result.is_null() => {
                Err(Unusable::new("it has a `result` and an `error`"))
            }
            (_, Some(error)) if error.kind() != Kind::Object => {
                Err(Unusable::new("`error` is no object"))
            }
            (_, Some(error)) => Ok(Incoming::Response { id, outcome: Outcome::Error(error) }),
            (Some(_), None) if id.is_none() => Err(Unusable::new("a result has no `id`")),
            (Some(result), None) => Ok(Incoming::Response { id, outcome: Outcome::Result(result) }),
            (None, None) => Err(Unusable::new("it has no `method`, `result` or `error`")),
        }
    }
}

/// The envelope has one meaning: no member of it twice, none that only looks like one.
fn check_envelope(root: Value<'_>) -> Result<(), Unusable> {
    if root.kind() != Kind::Object || root.is_unopened() {
        return Err(Unusable::new("it is no JSON object"));
    }
    if root.len() > MEMBERS_MAX {
        return Err(Unusable::new("its envelope has too many members"));
    }
    let mut seen = [false; MEMBERS.len()];
    for (key, _) in root.entries() {
        let text = key.text();
        let folded = fold(&text);
        let Some(index) = MEMBERS.iter().position(|known| *known == folded) else { continue };
        let again = seen.get_mut(index).is_none_or(|seen| std::mem::replace(seen, true));
        if again || MEMBERS.get(index).is_none_or(|known| *known != text) {
            return Err(Unusable::new(
                "its envelope has a member twice, or one that looks like it",
            ));
        }
    }
    if root.get("jsonrpc").and_then(Value::as_str).as_deref() != Some("2.0") {
        return Err(Unusable::new("`jsonrpc` is not \"2.0\""));
    }
    Ok(())
}
