//! What a server says must be a JSON-RPC message with one reading: no member twice in its envelope, nor
//! in its result, its error or its params. Below that anything goes.

use std::collections::HashSet;

use policy::json::{Kind, Value};

/// The members that decide what a message is.
const MEMBERS: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];
/// The places of `method`, and of `result` and `error`, among them.
const METHOD: u8 = 1 << 2;
const OUTCOME: u8 = 1 << 4 | 1 << 5;
/// The places of `params`, `result` and `error`: what they hold has a meaning by its name.
const BODY: u8 = 1 << 3 | OUTCOME;
/// Up to this many members are compared pair by pair, which is quicker than a table.
const PAIRWISE_MAX: usize = 16;

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
        if bit & BODY != 0 && has_member_twice(value) {
            return Some("its message has a member twice");
        }
    }
    if seen & METHOD != 0 && seen & OUTCOME != 0 {
        return Some("its message is a request and an answer at once");
    }
    (seen & 1 == 0).then_some("its message is not JSON-RPC 2.0")
}

/// Whether two members of an object have one name, however it is escaped.
fn has_member_twice(value: Value<'_>) -> bool {
    if value.kind() != Kind::Object {
        return false;
    }
    if value.len() > PAIRWISE_MAX {
        let mut seen = HashSet::with_capacity(value.len());
        return !value.entries().all(|(key, _)| seen.insert(key.text()));
    }
    value.entries().enumerate().any(|(place, (key, _))| {
        let text = key.text();
        value.entries().take(place).any(|(earlier, _)| earlier.is(&text))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use policy::json::{Bounds, Doc};

    use super::trouble;

    #[test]
    fn a_message_of_a_server_has_one_envelope() {
        let cases = [
            (r#"{"jsonrpc":"2.0","id":1,"result":{"a":{"b":1,"b":2}},"x":1,"x":2}"#, None),
            (
                r#"{"jsonrpc":"2.0","id":1,"result":{"content":[],"content":[1]}}"#,
                Some("its message has a member twice"),
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"result":{"content":[],"c\u006fntent":[1]}}"#,
                Some("its message has a member twice"),
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"code":2,"message":"x"}}"#,
                Some("its message has a member twice"),
            ),
            (
                r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"data":1,"data":2}}"#,
                Some("its message has a member twice"),
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"result":{"1":0,"2":0,"3":0,"4":0,"5":0,"6":0,"7":0,"8":0,"9":0,"10":0,"11":0,"12":0,"13":0,"14":0,"15":0,"16":0,"1":0}}"#,
                Some("its message has a member twice"),
            ),
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
