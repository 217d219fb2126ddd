//! What a message was judged as. A message that the gate edited is read again before it leaves, as
//! strictly as when it came in, and must still say the same.

use std::borrow::Cow;

use policy::json::{Bounds, Doc};

use super::message::{Message, Request};
use super::params::Named;

/// Edits add what the other era needs to know of the client, so an edited message may be larger than the
/// one that came in. Its keys and numbers are held to the same rules.
const EDITED: Bounds = Bounds {
    bytes_max: 2 * Bounds::MESSAGE.bytes_max,
    nodes_max: 2 * Bounds::MESSAGE.nodes_max,
    ..Bounds::MESSAGE
};

/// The method of a message and what it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    method: String,
    named: Named<'static>,
}

impl Target {
    pub fn new(method: &str, named: Named<'_>) -> Target {
        Target { method: method.to_owned(), named: named.into_owned() }
    }

    /// Whether these bytes have one reading, and it is this.
    pub fn is_of(&self, body: &[u8]) -> bool {
        let Ok(doc) = Doc::read(body, &EDITED) else { return false };
        match Message::of(&doc) {
            Ok(Message::Request(request)) => self.is_request(&request),
            Ok(Message::Notification(told)) => {
                told.method_name == self.method && self.named == Named::Nothing
            }
            Ok(Message::Response(_)) | Err(_) => false,
        }
    }

    fn is_request(&self, request: &Request<'_>) -> bool {
        request.method_name == self.method && request.named().is_ok_and(|named| named == self.named)
    }
}

impl Named<'_> {
    /// The same for longer than the message is there.
    pub fn into_owned(self) -> Named<'static> {
        let owned = |name: Cow<'_, str>| Cow::Owned(name.into_owned());
        match self {
            Named::Tool(name) => Named::Tool(owned(name)),
            Named::Resource(uri) => Named::Resource(owned(uri)),
            Named::Prompt(name) => Named::Prompt(owned(name)),
            Named::Task(id) => Named::Task(owned(id)),
            Named::Nothing => Named::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edited_message_must_say_what_was_judged() {
        let read = Target::new("tools/call", Named::Tool("read".into()));
        let cases = [
            (r#""tools/call","params":{"name":"read"}"#, true),
            (r#""tools/call","params":{"name":"read","arguments":{"name":"x"}}"#, true),
            (r#""tools/call","params":{"name":"notes.read"}"#, false),
            (r#""tools/call","params":{"name":"read","ref":{}}"#, false),
            (r#""tools/call","params":{"name":"read","name":"write"}"#, false),
            (r#""tools/call","params":{"name":"read","Name":"write"}"#, false),
            (r#""prompts/get","params":{"name":"read"}"#, false),
            (r#""tools/call""#, false),
        ];
        for (rest, expected) in cases {
            let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":{rest}}}"#);
            assert_eq!(read.is_of(body.as_bytes()), expected, "{body}");
        }
        assert!(!read.is_of(b""));
        let told = Target::new("notifications/cancelled", Named::Nothing);
        assert!(told.is_of(
            br#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#
        ));
        assert!(!told.is_of(br#"{"jsonrpc":"2.0","method":"notifications/progress"}"#));
    }
}
