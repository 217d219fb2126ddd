//! What a server says must be a JSON-RPC message with one reading; below its envelope anything goes.

use policy::json::{Kind, Value};

/// The members that decide what a message is.
const MEMBERS: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];
/// The places of `method`, and of `result` and `error`, among them.
const METHOD: u8 = 1 << 2;
const OUTCOME: u8 = 1 << 4 | 1 << 5;

/// Why a server's message cannot be believed, if it cannot. What it means would depend on which of two
/// members a reader takes, or it is of another protocol.
pub fn trouble(root: Value<'_>) -> Option<&'static str> {
    if root.kind() != Kind::Object {
        return Some("its message is not a JSON-RPC object");
    }
    let mut seen = 0_u8;
    for (key, value) in root.entries() {
        let Some(place) = MEMBERS.iter().position(|member| key.is(member)) else { continue };
        let bit = 1 << place;
        if seen & bit != 0 {
            return Some("its message has a member twice");
        }
        seen |= bit;
        if place == 0 && value.raw() != "\"2.0\"" {
            return Some("its message is not JSON-RPC 2.0");
        }
    }
    if seen & METHOD != 0 && seen & OUTCOME != 0 {
        return Some("its message is a request and an answer at once");
    }
    (seen & 1 == 0).then_some("its message is not JSON-RPC 2.0")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use policy::json::{Bounds, Doc};

    use super::trouble;

    #[test]
    fn a_message_of_a_server_has_one_envelope() {
        let cases = [
            (r#"{"jsonrpc":"2.0","id":1,"result":{"a":1,"a":2},"x":1,"x":2}"#, None),
            (r#"{"id":1,"error":{},"jsonrpc": "2.0"}"#, None),
            (r#"[{"jsonrpc":"2.0"}]"#, Some("its message is not a JSON-RPC object")),
            (
                r#"{"jsonrpc":"2.0","id":1,"result":{},"result":{}}"#,
                Some("its message has a member twice"),
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"\u0069d":2,"result":{}}"#,
                Some("its message has a member twice"),
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"x","result":{}}"#,
                Some("its message is a request and an answer at once"),
            ),
            (
                r#"{"jsonrpc":"2.0","error":{},"method":"notifications/x"}"#,
                Some("its message is a request and an answer at once"),
            ),
            (r#"{"id":1,"result":{}}"#, Some("its message is not JSON-RPC 2.0")),
            (r#"{"jsonrpc":2.0,"id":1}"#, Some("its message is not JSON-RPC 2.0")),
            (r#"{"jsonrpc":"1.0","id":1}"#, Some("its message is not JSON-RPC 2.0")),
        ];
        for (text, expected) in cases {
            let doc = Doc::read_shallow(text.as_bytes(), &Bounds::ANSWER, 3).unwrap();
            assert_eq!(trouble(doc.root()), expected, "{text}");
        }
    }
}
