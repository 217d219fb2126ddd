//! Checks that a server message is unambiguous JSON-RPC: no duplicate member in its envelope,
//! result, error or params, and no judged member in another spelling, which parsers that ignore
//! case would take for the judged one. Deeper levels are not checked.

use std::collections::HashSet;

use policy::json::{Kind, Value};

use crate::params::has_look_alike;

/// The members of the envelope.
const MEMBERS: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];
/// Bits of `method`, and of `result` and `error`.
const METHOD: u8 = 1 << 2;
const OUTCOME: u8 = 1 << 4 | 1 << 5;
/// Bits of `params`, `result` and `error`, whose members are checked as well.
const BODY: u8 = 1 << 3 | OUTCOME;
/// What is judged, filtered or redacted in them.
const OF_PARAMS: [&str; 8] =
    ["_meta", "data", "message", "progressToken", "requestId", "statusMessage", "taskId", "uri"];
const OF_RESULT: [&str; 19] = [
    "_meta",
    "completion",
    "content",
    "contents",
    "inputRequests",
    "isError",
    "messages",
    "prompts",
    "requestState",
    "resourceTemplates",
    "resources",
    "resultType",
    "skills",
    "statusMessage",
    "structuredContent",
    "task",
    "taskId",
    "tasks",
    "tools",
];
const OF_ERROR: [&str; 3] = ["code", "data", "message"];
const DUPLICATE: &str = "its message has a duplicate member";
const LOOK_ALIKE: &str = "its message has a member of the protocol in another spelling";
/// Up to this many members are compared pairwise, which is faster than a hash set.
const PAIRWISE_MAX: usize = 16;

/// Why a server message is refused, if it is: its meaning depends on the parser, or it is not
/// JSON-RPC.
pub fn fault(root: Value<'_>) -> Option<&'static str> {
    if root.kind() != Kind::Object {
        return Some("its message is not a JSON-RPC object");
    }
    let mut seen = 0_u8;
    for (key, value) in root.entries() {
        let Some(position) = MEMBERS.iter().position(|member| key.is(member)) else { continue };
        let bit = 1 << position;
        if seen & bit != 0 {
            return Some(DUPLICATE);
        }
        seen |= bit;
        if position == 0 && value.raw() != "\"2.0\"" {
            return Some("its message is not JSON-RPC 2.0");
        }
        if bit & BODY != 0 && has_member_twice(value) {
            return Some(DUPLICATE);
        }
        if has_judged_look_alike(position, value) {
            return Some(LOOK_ALIKE);
        }
    }
    if has_look_alike(root, &MEMBERS) {
        return Some(LOOK_ALIKE);
    }
    if seen & METHOD != 0 && seen & OUTCOME != 0 {
        return Some("its message is both a request and a response");
    }
    (seen & 1 == 0).then_some("its message is not JSON-RPC 2.0")
}

fn has_judged_look_alike(position: usize, value: Value<'_>) -> bool {
    let judged: &[&str] = match MEMBERS.get(position).copied() {
        Some("params") => &OF_PARAMS,
        Some("result") => &OF_RESULT,
        Some("error") => &OF_ERROR,
        _ => return false,
    };
    value.kind() == Kind::Object && has_look_alike(value, judged)
}

/// Whether two members of an object have the same name after unescaping.
fn has_member_twice(value: Value<'_>) -> bool {
    if value.kind() != Kind::Object {
        return false;
    }
    if value.len() > PAIRWISE_MAX {
        let mut seen = HashSet::with_capacity(value.len());
        return !value.entries().all(|(key, _)| seen.insert(key.text()));
    }
    value.entries().enumerate().any(|(position, (key, _))| {
        let text = key.text();
        value.entries().take(position).any(|(earlier, _)| earlier.is(&text))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use policy::json::{Bounds, Doc};

    use super::fault;

    #[test]
    fn a_server_message_has_one_envelope() {
        let cases = [
            (r#"{"jsonrpc":"2.0","id":1,"result":{"a":{"b":1,"b":2}},"x":1,"x":2}"#, None),
            (
                r#"{"jsonrpc":"2.0","id":1,"result":{"content":[],"content":[1]}}"#,
                Some("its message has a duplicate member"),
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"result":{"content":[],"c\u006fntent":[1]}}"#,
                Some("its message has a duplicate member"),
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"code":2,"message":"x"}}"#,
                Some("its message has a duplicate member"),
            ),
            (
                r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"data":1,"data":2}}"#,
                Some("its message has a duplicate member"),
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"result":{"1":0,"2":0,"3":0,"4":0,"5":0,"6":0,"7":0,"8":0,"9":0,"10":0,"11":0,"12":0,"13":0,"14":0,"15":0,"16":0,"1":0}}"#,
                Some("its message has a duplicate member"),
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]},"Result":{}}"#,
                Some("its message has a member of the protocol in another spelling"),
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]},"reſult":{}}"#,
                Some("its message has a member of the protocol in another spelling"),
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[],"T\u006fols":[1]}}"#,
                Some("its message has a member of the protocol in another spelling"),
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"Data":2,"message":"x"}}"#,
                Some("its message has a member of the protocol in another spelling"),
            ),
            (
                r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a","URI":"b"}}"#,
                Some("its message has a member of the protocol in another spelling"),
            ),
            (r#"{"jsonrpc":"2.0","id":1,"result":{"Tool":1,"Data":2,"a":{"Content":3}}}"#, None),
            (r#"{"id":1,"error":{},"jsonrpc": "2.0"}"#, None),
            (r#"[{"jsonrpc":"2.0"}]"#, Some("its message is not a JSON-RPC object")),
            (
                r#"{"jsonrpc":"2.0","id":1,"result":{},"result":{}}"#,
                Some("its message has a duplicate member"),
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"\u0069d":2,"result":{}}"#,
                Some("its message has a duplicate member"),
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"x","result":{}}"#,
                Some("its message is both a request and a response"),
            ),
            (
                r#"{"jsonrpc":"2.0","error":{},"method":"notifications/x"}"#,
                Some("its message is both a request and a response"),
            ),
            (r#"{"id":1,"result":{}}"#, Some("its message is not JSON-RPC 2.0")),
            (r#"{"jsonrpc":2.0,"id":1}"#, Some("its message is not JSON-RPC 2.0")),
            (r#"{"jsonrpc":"1.0","id":1}"#, Some("its message is not JSON-RPC 2.0")),
        ];
        for (text, expected) in cases {
            let doc = Doc::read_shallow(text.as_bytes(), &Bounds::ANSWER, 3).unwrap();
            assert_eq!(fault(doc.root()), expected, "{text}");
        }
    }
}
