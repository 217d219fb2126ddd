//! What an approval and the further rounds of a call are bound to: the method and all params, except the
//! fields that legitimately change from one sending of a call to the next.

use policy::json::{Bounds, Doc, Kind, Value, canonical};

use crate::gate::Gate;
use crate::rebuild::{self, Member};
use crate::wire::{Method, Request, meta_keys};

/// Members of the client's own description, which changes between versions of a client.
const CLIENT_INFO: [&str; 6] = ["name", "title", "version", "description", "websiteUrl", "icons"];
const CLIENT_CAPABILITIES: [&str; 6] =
    ["roots", "sampling", "elicitation", "tasks", "extensions", "experimental"];
/// Where Claude Code and VS Code give each sending of a call an id, and how their ids begin. Only what looks
/// like such an id is left out.
const CALL_IDS: [(&str, &str); 2] =
    [("claudecode/toolUseId", "toolu_"), ("vscode.requestId", "request_")];
const CALL_ID_BYTES_MAX: usize = 64;

/// Stands before bound params in the text that is parked for the owner. Older versions parked the
/// arguments alone, which begin with a brace.
const PARKED: &str = "params ";

/// Answers to a server's questions are part of a call only where it is not a further round of it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answers {
    Bound,
    LeftOut,
}

/// Keyed digests of one sending of a call.
pub(crate) struct Digests {
    /// What all its rounds have in common.
    pub(crate) rounds: [u8; 32],
    /// The same, if it has anything to be bound to besides its subject.
    pub(crate) of_rounds: Option<[u8; 32]>,
    /// What an approval is bound to: a first round that comes with answers is approved with them.
    pub(crate) approved: Option<[u8; 32]>,
}

impl Digests {
    pub(crate) fn of(gate: &Gate, request: &Request<'_>) -> Digests {
        let (rounds, is_any) = gate.bound_digest(request, Answers::LeftOut);
        let of_rounds = Some(rounds).filter(|_| is_any);
        let answers = request.params.is_some_and(|params| params.get("inputResponses").is_some());
        let approved = if answers {
            let (digest, is_any) = gate.bound_digest(request, Answers::Bound);
            Some(digest).filter(|_| is_any)
        } else {
            of_rounds
        };
        Digests { rounds, of_rounds, approved }
    }
}

/// What is parked for the owner to read: all params that are bound, as the client wrote them.
pub(crate) fn parked_text(request: &Request<'_>) -> String {
    let params = request.params.map(|params| text(request.method, params, Answers::Bound, true));
    format!("{PARKED}{}", params.as_deref().unwrap_or("{}"))
}

/// Writes what a digest of the request covers, and says whether that is anything. The subject is not in
/// it: it is bound by the name that its server knows. Arguments alone are written as older versions did,
/// so that their rows and their approvals compare with ours.
pub(crate) fn write(request: &Request<'_>, answers: Answers, out: &mut Vec<u8>) -> bool {
    let arguments = request.arguments();
    let Some(params) = request.params.filter(|_| has_more_than_arguments(request, answers)) else {
        match arguments {
            Some(arguments) => canonical(arguments, out),
            None => out.extend_from_slice(b"{}"),
        }
        return arguments.is_some();
    };
    out.extend_from_slice(b"params\0");
    let bound = text(request.method, params, answers, false);
    match Doc::read(bound.as_bytes(), &Bounds::ANSWER) {
        Ok(doc) => canonical(doc.root(), out),
        // It was written from a document a moment ago.
        Err(_) => out.extend_from_slice(bound.as_bytes()),
    }
    true
}

fn has_more_than_arguments(request: &Request<'_>, answers: Answers) -> bool {
    let Some(params) = request.params else { return false };
    params.entries().any(|(key, value)| match &*key.text() {
        "arguments" => !matches!(request.method, Method::ToolsCall | Method::PromptsGet),
        "_meta" => value.entries().any(|(key, value)| is_bound_meta(&key.text(), value)),
        key => is_bound(request.method, params, key, answers, false),
    })
}

/// The params without what is not bound; with `names`, also what the subject says.
fn text(method: Method, params: Value<'_>, answers: Answers, names: bool) -> String {
    let change = |key: &str, value: Value<'_>| match key {
        "_meta" => {
            let kept = rebuild::object(
                value,
                |key, value| if is_bound_meta(key, value) { Member::Keep } else { Member::Drop },
                &[],
            );
            if kept == "{}" { Member::Drop } else { Member::Replace(kept) }
        }
        "arguments" if !names && is_empty(value) => Member::Drop,
        "ref" if !names && method == Method::Complete => {
            Member::Replace(rebuild::without(value, &["name", "uri"]))
        }
        key if is_bound(method, params, key, answers, names) => Member::Keep,
        _ => Member::Drop,
    };
    rebuild::object(params, change, &[])
}

/// Whether a member of params besides `_meta` is bound.
fn is_bound(method: Method, params: Value<'_>, key: &str, answers: Answers, names: bool) -> bool {
    match (method, key) {
        (Method::Other, _) => true,
        (_, "requestState") => false,
        (_, "inputResponses") => answers == Answers::Bound && params.get("requestState").is_none(),
        (Method::ToolsCall | Method::PromptsGet, "name")
        | (
            Method::ResourcesRead | Method::ResourcesSubscribe | Method::ResourcesUnsubscribe,
            "uri",
        ) => names,
        _ => true,
    }
}

/// What is left out must look like what it is named after: anything else could tell the server something
/// that was not approved.
fn is_bound_meta(key: &str, value: Value<'_>) -> bool {
    let is_text = || value.kind() == Kind::String;
    let has_only = |known: &[&str]| {
        value.kind() == Kind::Object
            && value.entries().all(|(key, _)| known.contains(&&*key.text()))
    };
    let is_id = |id: &str| {
        id.len() <= CALL_ID_BYTES_MAX
            && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
    };
    let is_call_id = |(known, begin): &(&str, &str)| {
        key == *known && value.as_str().is_some_and(|id| id.starts_with(begin) && is_id(&id))
    };
    let is_left_out = match key {
        meta_keys::PROGRESS_TOKEN => is_text() || value.kind() == Kind::Number,
        meta_keys::TRACEPARENT
        | meta_keys::TRACESTATE
        | meta_keys::BAGGAGE
        | meta_keys::PROTOCOL_VERSION => is_text(),
        meta_keys::CLIENT_INFO => has_only(&CLIENT_INFO),
        meta_keys::CLIENT_CAPABILITIES => has_only(&CLIENT_CAPABILITIES),
        _ => CALL_IDS.iter().any(is_call_id),
    };
    !is_left_out
}

fn is_empty(value: Value<'_>) -> bool {
    value.kind() == Kind::Object && value.is_empty()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use super::*;
    use crate::wire::{Message, read};

    fn digested(method: &str, params: &str, answers: Answers) -> String {
        let source = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
        let doc = read(source.as_bytes()).unwrap();
        let Message::Request(request) = Message::of(&doc).unwrap() else { panic!("{source}") };
        let mut out = Vec::new();
        write(&request, answers, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn check(method: &str, params: &str, expected: &str) {
        assert_eq!(digested(method, params, Answers::Bound), expected, "{params}");
    }

    #[test]
    fn fields_that_change_are_left_out_and_all_others_are_bound() {
        let call = "tools/call";
        check(call, r#"{"name":"x","arguments":{"b":1,"a":2}}"#, r#"{"a":2,"b":1}"#);
        check(call, r#"{"name":"y"}"#, "{}");
        let changing = r#"{"name":"x","arguments":{"a":1},"requestState":"s","_meta":{
            "progressToken":1,"traceparent":"t","tracestate":"s","baggage":"b",
            "io.modelcontextprotocol/clientInfo":{},
            "io.modelcontextprotocol/clientCapabilities":{},
            "io.modelcontextprotocol/protocolVersion":"2026-07-28",
            "vscode.requestId":"request_0af76519-16cd-43dd",
            "claudecode/toolUseId":"toolu_01AbC"}}"#;
        check(call, changing, r#"{"a":1}"#);
        check(
            call,
            r#"{"name":"x","_meta":{"progressToken":1,"to":"mallory"},"arguments":{"a":1}}"#,
            "params\0{\"_meta\":{\"to\":\"mallory\"},\"arguments\":{\"a\":1}}",
        );
        for meta in [
            r#""baggage":{"to":"mallory"}"#,
            r#""io.modelcontextprotocol/clientInfo":{"to":"mallory"}"#,
            r#""io.modelcontextprotocol/clientCapabilities":{"to":"mallory"}"#,
        ] {
            let params = format!(r#"{{"name":"x","_meta":{{{meta}}}}}"#);
            check(call, &params, &format!("params\0{{\"_meta\":{{{meta}}}}}"));
        }
        check(
            call,
            r#"{"name":"x","_meta":{"claudecode/toolUseId":"to mallory"}}"#,
            "params\0{\"_meta\":{\"claudecode/toolUseId\":\"to mallory\"}}",
        );
        check(call, r#"{"name":"x","task":{"ttl":1}}"#, "params\0{\"task\":{\"ttl\":1}}");
        check(
            "completion/complete",
            r#"{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":"v"},"context":{"arguments":{"x":"y"}}}"#,
            "params\0{\"argument\":{\"name\":\"a\",\"value\":\"v\"},\"context\":{\"arguments\":{\"x\":\"y\"}},\"ref\":{\"type\":\"ref/prompt\"}}",
        );
        check("tasks/get", r#"{"taskId":"t"}"#, "params\0{\"taskId\":\"t\"}");
        check(
            "x/other",
            r#"{"name":"x","requestState":1,"_meta":{"progressToken":1}}"#,
            "params\0{\"name\":\"x\",\"requestState\":1}",
        );
        check("resources/read", r#"{"uri":"x:y"}"#, "{}");
    }

    #[test]
    fn answers_are_bound_where_they_come_unasked() {
        let unasked = r#"{"name":"x","inputResponses":{"q":1}}"#;
        check("tools/call", unasked, "params\0{\"inputResponses\":{\"q\":1}}");
        assert_eq!(digested("tools/call", unasked, Answers::LeftOut), "{}");
        let further = r#"{"name":"x","inputResponses":{"q":1},"requestState":"s"}"#;
        check("tools/call", further, "{}");
    }
}
