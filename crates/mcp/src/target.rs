//! The target that a message was judged by. An edited message is parsed again before it is sent, as
//! strictly as on arrival, and must still have this target.

use std::borrow::Cow;

use policy::json::{Bounds, Doc};

use crate::message::{Message, Request};
use crate::params::Named;

/// Edits add members that the other era needs, so an edited message may be larger. The rules for
/// keys and numbers are the same.
const EDITED: Bounds = Bounds {
    bytes_max: 2 * Bounds::MESSAGE.bytes_max,
    nodes_max: 2 * Bounds::MESSAGE.nodes_max,
    ..Bounds::MESSAGE
};

/// The method and the target of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JudgedTarget {
    method: String,
    named: Named<'static>,
}

impl JudgedTarget {
    pub fn new(method: &str, named: Named<'_>) -> JudgedTarget {
        JudgedTarget { method: method.to_owned(), named: named.into_owned() }
    }

    /// Whether these bytes are unambiguous and have this target.
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
        let is_same = |named: Named<'_>| named == self.named;
        request.method_name == self.method && request.named_to_server().is_ok_and(is_same)
    }
}

impl Named<'_> {
    /// The same, independent of the message's lifetime.
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
    fn an_edited_message_must_match_what_was_judged() {
        let read = JudgedTarget::new("tools/call", Named::Tool("read".into()));
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
        let odd = JudgedTarget::new("tools/call", Named::Tool("größe lesen".into()));
        for (name, expected) in [("größe lesen", true), ("größe  lesen", false), ("read", false)]
        {
            let body = format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{name}"}}}}"#
            );
            assert_eq!(odd.is_of(body.as_bytes()), expected, "{name}");
        }
        let told = JudgedTarget::new("notifications/cancelled", Named::Nothing);
        assert!(told.is_of(
            br#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#
        ));
        assert!(!told.is_of(br#"{"jsonrpc":"2.0","method":"notifications/progress"}"#));
    }

    /// A second, slower reader of the same bytes. It sees the last of two members of one name.
    fn method_and_name(body: &[u8]) -> Option<(String, String)> {
        let message: serde_json::Value = serde_json::from_slice(body).ok()?;
        let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
        Some((text(message.get("method")?)?, text(message.pointer("/params/name")?)?))
    }

    proptest::proptest! {
        #![proptest_config(proptest::test_runner::Config {
            failure_persistence: None,
            ..proptest::test_runner::Config::default()
        })]

        /// Whatever an edit does to a message: if it passes, every reader finds the method and name that
        /// were judged.
        #[test]
        fn a_message_that_passes_names_what_was_judged(
            method in "tools/call|prompts/get|resources/read",
            name in "(notes[.])?[a-z\\\\\"é]{1,6}",
            members in proptest::collection::vec(
                ("name|Name|ref|uri|arguments|_meta|n\\\\u0061me", r#""(notes[.])?[a-z]{0,3}"|\{\}|1|\[\]"#),
                0..3,
            ),
            at in 0..4_usize,
            flip in proptest::option::weighted(0.3, (0..200_usize, 0..8_u32)),
        ) {
            let judged = JudgedTarget::new("tools/call", Named::Tool(name.as_str().into()));
            let mut params: Vec<String> =
                members.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
            let own = format!("\"name\":{}", serde_json::Value::from(name.as_str()));
            params.insert(at.min(params.len()), own);
            let params = params.join(",");
            let mut body = format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{{params}}}}}"#
            ).into_bytes();
            if let Some((position, bit)) = flip {
                let position = position % body.len();
                if let Some(byte) = body.get_mut(position) {
                    *byte ^= 1 << bit;
                }
            }
            if judged.is_of(&body) {
                let seen = method_and_name(&body);
                proptest::prop_assert_eq!(seen, Some(("tools/call".to_owned(), name.clone())));
            }
            if members.is_empty() && flip.is_none() {
                proptest::prop_assert_eq!(judged.is_of(&body), method == "tools/call");
            }
        }
    }
}
