//! Parses as much of a server's message as its routing needs.

use bytes::Bytes;
use policy::json::{Bounds, Doc, Kind, Value};

use crate::runtime::offload::{LARGE_BYTES, offload};
use mcp::{Id, InputKind};

/// The depth of the members that routing needs: `params._meta.x`.
const DEPTH: usize = 3;

const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

/// The id or progress token in a JSON text.
pub(super) fn id_of(text: &str) -> Option<Id> {
    Id::lenient(Doc::read(text.as_bytes(), &Bounds::ANSWER).ok()?.root())
}

/// What a message of a server belongs to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Inbound {
    /// The response to the request with this id.
    Response(Id),
    /// The request with this progress token.
    Progress(Id),
    /// The subscription with this id.
    Tagged(Id),
    /// A server request. It does not name the call it belongs to.
    ServerRequest(InputKind),
    /// No request.
    Other,
}

/// All ids in a message.
pub(super) fn ids_of(message: &[u8]) -> Vec<Id> {
    let Ok(doc) = Doc::read_shallow(message, &Bounds::ANSWER, 1) else { return Vec::new() };
    let ids = doc.root().entries().filter(|(key, _)| key.text() == "id");
    ids.filter_map(|(_, value)| Id::lenient(value)).collect()
}

/// Parses a message for routing, a large one on another thread. None if it is not JSON-RPC.
pub(super) async fn inbound(message: &Bytes) -> Option<Inbound> {
    if message.len() <= LARGE_BYTES {
        return read(message);
    }
    let message = message.clone();
    offload(message.len(), move || read(&message)).await
}

/// Parses a message for routing. None if it is not JSON-RPC.
pub(super) fn read(message: &[u8]) -> Option<Inbound> {
    let doc = Doc::read_shallow(message, &Bounds::ANSWER, DEPTH).ok()?;
    let root = doc.root();
    if root.kind() != Kind::Object {
        return None;
    }
    let id = root.get("id");
    let Some(method) = root.get("method") else {
        let has_outcome = root.get("result").or_else(|| root.get("error")).is_some();
        // An error without an id belongs to no request.
        return has_outcome
            .then(|| id.and_then(Id::lenient).map_or(Inbound::Other, Inbound::Response));
    };
    let method = method.as_str()?;
    if id.is_some() {
        return Some(Inbound::ServerRequest(InputKind::of(&method, root.get("params"))));
    }
    Some(notification(&method, root.get("params")))
}

/// The id of the gate's own request that was sent back: a program that is not a server, such as `cat`, echoes
/// its input.
pub(super) fn echoed(message: &[u8]) -> Option<Id> {
    let doc = Doc::read_shallow(message, &Bounds::ANSWER, DEPTH).ok()?;
    let method = doc.root().get("method")?.as_str()?;
    let ours = matches!(&*method, "initialize" | "server/discover");
    doc.root().get("id").filter(|_| ours).and_then(Id::lenient)
}

fn notification(method: &str, params: Option<Value<'_>>) -> Inbound {
    let Some(params) = params else {
        return Inbound::Other;
    };
    if method == "notifications/progress"
        && let Some(token) = params.get("progressToken").and_then(Id::lenient)
    {
        return Inbound::Progress(token);
    }
    let tag = params.get("_meta").and_then(|meta| meta.get(SUBSCRIPTION_ID)).and_then(Id::lenient);
    tag.map_or(Inbound::Other, Inbound::Tagged)
}

/// The id of a response of which only both ends are known. Servers write `id` first or last, next to `jsonrpc`
/// at most.
pub(super) fn id_at_an_end(head: &[u8], tail: &[u8]) -> Option<Id> {
    id_first(head).or_else(|| id_last(tail))
}

/// The request that an invalid line seems to respond to.
pub(super) fn id_of_broken(line: &[u8]) -> Option<Id> {
    let line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line).trim_ascii();
    let line = line.strip_prefix(b"[").map_or(line, <[u8]>::trim_ascii_start);
    let line = line.strip_suffix(b"]").map_or(line, <[u8]>::trim_ascii_end);
    if !line.starts_with(b"{") {
        return None;
    }
    id_at_an_end(line, line)
}

fn id_first(head: &[u8]) -> Option<Id> {
    let mut rest = skip(head.trim_ascii_start(), b"{")?;
    if let Some(after) = member(rest, b"\"jsonrpc\"") {
        rest = skip(skip(after, b"\"2.0\"")?, b",")?;
    }
    let value = member(rest, b"\"id\"")?;
    let end = value.iter().position(|byte| *byte == b',')?;
    id_of(std::str::from_utf8(value.get(..end)?).ok()?.trim())
}

fn id_last(tail: &[u8]) -> Option<Id> {
    let text = tail.trim_ascii_end().strip_suffix(b"}")?;
    let text = String::from_utf8_lossy(text);
    let text =
        text.strip_suffix("\"jsonrpc\":\"2.0\"").map_or(&*text, |text| text.trim_end_matches(','));
    let (_, value) = text.rsplit_once("\"id\":")?;
    id_of(value.trim())
}

/// The text after a member's name and colon.
fn member<'a>(text: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    skip(skip(text, name)?, b":")
}

/// The text after this word and the white space that follows.
fn skip<'a>(text: &'a [u8], word: &[u8]) -> Option<&'a [u8]> {
    text.strip_prefix(word).map(<[u8]>::trim_ascii_start)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use super::*;

    fn key(text: &str) -> Id {
        id_of(text).unwrap()
    }

    #[test]
    fn messages_find_their_owner() {
        let cases = [
            (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, Some(Inbound::Response(key("1")))),
            (r#"{"error":{},"id":"a","jsonrpc":"2.0"}"#, Some(Inbound::Response(key("\"a\"")))),
            (r#"{"jsonrpc":"2.0","id":null,"error":{}}"#, Some(Inbound::Other)),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#,
                Some(Inbound::ServerRequest(InputKind::Roots)),
            ),
            (
                r#"{"method":"notifications/progress","params":{"progressToken":"\u0061"}}"#,
                Some(Inbound::Progress(key("\"a\""))),
            ),
            (r#"{"method":"notifications/progress","params":{}}"#, Some(Inbound::Other)),
            (
                r#"{"method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":7}}}"#,
                Some(Inbound::Tagged(key("7"))),
            ),
            (r#"{"method":"notifications/message"}"#, Some(Inbound::Other)),
            (r#"{"jsonrpc":"2.0"}"#, None),
            (r#"{"method":7}"#, None),
            ("[]", None),
            ("listening on port 3000", None),
            ("{\"cut\":", None),
        ];
        for (message, expected) in cases {
            assert_eq!(read(message.as_bytes()), expected, "{message}");
        }
    }

    #[test]
    fn a_malformed_response_still_has_its_id() {
        let cases = [
            (r#"{"jsonrpc":"2.0","id":5,"result":{"a":[1,,2]}}"#, Some("5")),
            (r#"{"jsonrpc":"2.0","id":5}"#, Some("5")),
            (r#"[{"jsonrpc":"2.0","id":"a","result":{}}]"#, Some("\"a\"")),
            ("{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":\"\u{fffd}\"", Some("7")),
            ("\u{feff}{\"id\":7,\"result\":{}}", Some("7")),
            ("listening on \"id\":5", None),
            ("", None),
        ];
        for (line, expected) in cases {
            assert_eq!(id_of_broken(line.as_bytes()), expected.map(key), "{line}");
        }
    }

    #[test]
    fn the_id_of_a_long_answer_is_found_at_either_end() {
        let cases = [
            (r#"{"jsonrpc":"2.0","id":5,"result":{"#, "x}}", Some("5")),
            (r#" { "id" : "a" , "result":{"#, "x}}", Some("\"a\"")),
            (r#"{"result":{"x":""#, r#"x"},"jsonrpc":"2.0","id":6}"#, Some("6")),
            (r#"{"result":{"x":""#, r#"x"},"id":6,"jsonrpc":"2.0"}"#, Some("6")),
            (r#"{"result":{"x":""#, r#"x"}}"#, None),
            (r#"{"method":"x","id":5,"#, r#"x"}}"#, None),
        ];
        for (head, tail, expected) in cases {
            let found = id_at_an_end(head.as_bytes(), tail.as_bytes());
            assert_eq!(found, expected.map(key), "{head} … {tail}");
        }
    }
}
