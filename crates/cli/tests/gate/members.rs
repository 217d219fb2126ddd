//! Every member of the protocol in the params of every method: members that a method does not have are
//! refused, so that nothing unjudged reaches a server.

use serde_json::{Value, json};

use crate::recorder::Recorder;
use crate::test_gate::Gate;

/// The members that params have in any method of any revision, and two that none has.
pub(crate) const MEMBERS: &[&str] = &[
    "_meta",
    "argument",
    "arguments",
    "capabilities",
    "clientInfo",
    "context",
    "cursor",
    "data",
    "elicitationId",
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
    "x",
    "Reference",
];

/// Requests of clients, and the members that each has in addition to `_meta`.
fn methods() -> Vec<(&'static str, Value, &'static [&'static str])> {
    let completion = json!({
        "ref": { "type": "ref/prompt", "name": "rec.hello" },
        "argument": { "name": "a", "value": "b" },
    });
    let rounds = &["inputResponses", "requestState"];
    vec![
        ("tools/call", json!({ "name": "rec.echo" }), &["arguments", "task"]),
        ("prompts/get", json!({ "name": "rec.hello" }), &["arguments"]),
        ("completion/complete", completion, &["context"]),
        ("resources/read", json!({ "uri": "x://y" }), rounds),
        ("resources/subscribe", json!({ "uri": "x://y" }), &[]),
        ("resources/unsubscribe", json!({ "uri": "x://y" }), &[]),
        ("logging/setLevel", json!({ "level": "info" }), &[]),
        ("tools/list", json!({}), &["cursor"]),
        ("prompts/list", json!({}), &["cursor"]),
        ("resources/list", json!({}), &["cursor"]),
        ("resources/templates/list", json!({}), &["cursor"]),
        ("skills/list", json!({}), &["cursor"]),
        ("skills/get", json!({ "uri": "skill://x/SKILL.md" }), &[]),
        ("resources/directory/read", json!({ "uri": "skill://x" }), &["cursor"]),
        ("tasks/list", json!({}), &["cursor"]),
        ("tasks/get", json!({ "taskId": "t" }), &[]),
        ("tasks/result", json!({ "taskId": "t" }), &[]),
        ("tasks/cancel", json!({ "taskId": "t" }), &[]),
        ("tasks/update", json!({ "taskId": "t" }), rounds),
        ("ping", json!({}), &[]),
    ]
}

/// Only calls of `echo` and requests about the prompt `hello` were allowed.
fn trouble(body: &[u8]) -> Option<String> {
    let seen: Value = serde_json::from_slice(body).unwrap_or_default();
    let params = &seen["params"];
    let allowed = match seen["method"].as_str()? {
        "tools/call" => params["name"] == "echo" && params.get("ref").is_none(),
        "prompts/get" => params["name"] == "hello" && params.get("ref").is_none(),
        "completion/complete" => params["ref"]["name"] == "hello" && params.get("name").is_none(),
        "logging/setLevel" | "ping" => true,
        method => method.ends_with("/list"),
    };
    (!allowed).then(|| "not what was judged".to_owned())
}

#[test]
fn a_member_that_a_method_does_not_have_is_refused_and_never_sent() {
    let mut gate = Gate::new();
    let recorder = Recorder::new(&["echo", "rec.echo"]);
    recorder.look_at_calls_with(trouble);
    let rules = json!({
        "version": "1", "default": "deny", "tools": { "echo": {} },
        "prompts": { "hello": { "action": "allow" } },
    });
    gate.policy("rules", &rules);
    gate.run(&["server", "add", "rec", "--url", &recorder.url()]);
    let token = gate.grant("agent", &["rec=rules"]);
    gate.up();
    let values = [
        json!({}),
        json!({ "type": "ref/prompt", "name": "rec.hello", "uri": "x://y" }),
        json!("rec.echo"),
    ];
    for (path, prefix) in [("/mcp", "rec."), ("/mcp/rec", "")] {
        let mut line = gate.client(&token, path).line();
        for (method, params, own) in methods() {
            for (member, value) in MEMBERS.iter().flat_map(|m| values.iter().map(move |v| (m, v))) {
                if params.get(member).is_some() || *member == "_meta" || own.contains(member) {
                    continue;
                }
                let mut params = params.clone();
                params[member] = value.clone();
                let message =
                    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
                let text = message.to_string().replace("rec.hello", &format!("{prefix}hello"));
                let text = text.replace("rec.echo", &format!("{prefix}echo"));
                let answer = line.post(text.as_bytes());
                let code = answer.json()["error"]["code"].clone();
                assert_eq!(code, -32602, "{path} {text}: {}", answer.text());
            }
        }
    }
    assert_eq!(recorder.troubles(), Vec::<String>::new());
    assert!(recorder.calls().is_empty(), "{:?}", recorder.calls());
}

#[test]
fn a_prefixed_name_is_sent_as_it_was_judged() {
    let mut gate = Gate::new();
    let recorder = Recorder::new(&["read", "notes.read"]);
    gate.policy("rules", &json!({ "version": "1", "default": "deny", "tools": { "read": {} } }));
    gate.run(&["server", "add", "notes", "--url", &recorder.url()]);
    let token = gate.grant("agent", &["notes=rules"]);
    gate.up();
    let client = gate.client(&token, "/mcp");
    assert!(client.call("notes.read", &json!({})).passed());
    for extra in [json!({}), json!({ "type": "ref/prompt", "name": "notes.read" })] {
        let params = json!({ "name": "notes.read", "ref": extra });
        let answer = client
            .send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }));
        assert!(answer.refused(), "{}", answer.text());
    }
    assert_eq!(recorder.calls(), ["read"]);
}
