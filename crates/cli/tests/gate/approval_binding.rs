//! What an approval is bound to and shows: the method and all params, except the fields that change when a
//! call is sent again.

use serde_json::{Value, json};

use crate::http_client::{Answer, Client};
use crate::recorder::Recorder;
use crate::test_gate::Gate;

fn world(rules: &Value) -> (Gate, Recorder, Client) {
    let mut gate = Gate::new();
    let recorder = Recorder::new(&["pay"]);
    gate.settings("[limits]\napproval_hold_seconds = 0\n");
    gate.policy("rules", rules);
    gate.run(&["server", "add", "rec", "--url", &recorder.url()]);
    let token = gate.grant("agent", &["rec=rules"]);
    gate.up();
    let client = gate.client(&token, "/mcp/rec");
    (gate, recorder, client)
}

fn asking() -> Value {
    json!({
        "version": "1", "default": "deny",
        "tools": { "pay": { "action": "require_approval" } },
        "prompts": { "hello": { "action": "require_approval" } },
    })
}

fn send(client: &Client, method: &str, params: &Value) -> Answer {
    client.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }))
}

/// The approval that the response names.
fn asked(answer: &Answer) -> String {
    let denial = answer.denial();
    assert_eq!(denial["code"], "approval_pending", "{}", answer.text());
    denial["approval_id"].as_str().unwrap().to_owned()
}

fn shown(gate: &Gate, id: &str) -> Value {
    serde_json::from_str(&gate.run(&["--json", "approvals", "show", id])).unwrap()
}

#[test]
fn an_approval_matches_no_call_with_other_params() {
    let (gate, recorder, client) = world(&asking());
    let plain = json!({ "name": "pay", "arguments": { "amount": 1 } });
    let with = |key: &str, value: Value| {
        let mut params = plain.clone();
        params[key] = value;
        params
    };
    let declared = |key: &str, value: Value| {
        with("_meta", json!({ format!("io.modelcontextprotocol/{key}"): value }))
    };
    let first = asked(&send(&client, "tools/call", &plain));
    gate.run(&["approvals", "approve", "--yes", &first]);
    for other in [
        with("_meta", json!({ "to": "mallory" })),
        with("_meta", json!({ "io.modelcontextprotocol/related-task": { "taskId": "t" } })),
        with("_meta", json!({ "claudecode/toolUseId": "pay mallory" })),
        declared("clientInfo", json!({ "name": "x", "version": "2", "description": "to mallory" })),
        declared("clientInfo", json!({ "name": "pay mallory", "version": "2" })),
        declared("clientInfo", json!({ "name": "x", "version": "2", "to": "mallory" })),
        declared("clientCapabilities", json!({ "experimental": { "to": "mallory" } })),
        declared("clientCapabilities", json!({ "extensions": { "to/mallory": {} } })),
        declared("clientCapabilities", json!({ "roots": { "listChanged": "mallory" } })),
        with("task", json!({ "ttl": 1000 })),
        with("arguments", json!({ "amount": 2 })),
    ] {
        let second = asked(&send(&client, "tools/call", &other));
        assert_ne!(second, first, "{other}");
    }
    assert_eq!(recorder.calls(), Vec::<String>::new());
    // Fields that change when a call is sent again do not matter.
    let changing = json!({
        "progressToken": "p", "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "io.modelcontextprotocol/clientInfo": { "name": "x", "version": "2" },
        "claudecode/toolUseId": "toolu_01AbCdEf",
    });
    let answer = send(&client, "tools/call", &with("_meta", changing));
    assert!(answer.text().contains("ok"), "{}", answer.text());
    assert_eq!(recorder.calls(), ["pay"]);
}

#[test]
fn an_approval_shows_everything_it_is_bound_to() {
    let (gate, _recorder, client) = world(&asking());
    let params = json!({
        "name": "pay", "arguments": { "amount": 1 },
        "_meta": {
            "to": "mallory", "progressToken": 7,
            "io.modelcontextprotocol/clientInfo": { "name": "asker", "description": "hidden words" },
        },
        "task": { "ttl": 5 },
    });
    let answer = send(&client, "tools/call", &params);
    let text = answer.text();
    let id = text.split("ap-").nth(1).unwrap();
    let id = format!("ap-{}", id.split(|c: char| !c.is_alphanumeric() && c != '-').next().unwrap());
    let people = gate.run(&["approvals", "show", &id]);
    for words in ["method     tools/call", "\"amount\": 1", "other params", "mallory", "\"ttl\": 5"]
    {
        assert!(people.contains(words), "{words}: {people}");
    }
    assert!(!people.contains("progressToken"), "{people}");
    let programs = shown(&gate, &id);
    assert_eq!(programs["arguments"], r#"{"amount":1}"#);
    let bound: Value = serde_json::from_str(programs["params"].as_str().unwrap()).unwrap();
    let description = json!({ "description": "hidden words" });
    assert_eq!(
        bound["_meta"],
        json!({ "to": "mallory", "io.modelcontextprotocol/clientInfo": description }),
    );
    assert_eq!(bound["task"], json!({ "ttl": 5 }));
    assert_eq!(programs["digest"].as_str().unwrap().len(), 64);
    let all: Value = serde_json::from_str(&gate.run(&["--json", "approvals", "list"])).unwrap();
    assert_eq!(all[0]["params"], programs["params"]);
}

#[test]
fn a_completion_is_approved_for_what_it_completes() {
    let (gate, _recorder, client) = world(&asking());
    let params = |value: &str, other: &str| {
        json!({
            "ref": { "type": "ref/prompt", "name": "hello" },
            "argument": { "name": "a", "value": value },
            "context": { "arguments": { "b": other } },
        })
    };
    let complete =
        |value: &str, other: &str| send(&client, "completion/complete", &params(value, other));
    let first = asked(&complete("x", "y"));
    let bound: Value =
        serde_json::from_str(shown(&gate, &first)["params"].as_str().unwrap()).unwrap();
    assert_eq!(bound, params("x", "y"));
    gate.run(&["approvals", "approve", "--yes", &first]);
    assert_ne!(asked(&complete("mallory", "y")), first);
    assert_ne!(asked(&complete("x", "mallory")), first);
    // The recorder does not support completions, but it got the request.
    assert_eq!(complete("x", "y").json()["error"]["code"], -32601);
}

#[test]
fn conditions_judge_all_params() {
    let (_gate, recorder, client) = world(&json!({
        "version": "1", "default": "allow",
        "tools": { "pay": {
            "deny_if": [{ "conditions": [{ "path": "params._meta.to", "op": "eq", "value": "mallory" }] }],
        } },
        "tests": [
            { "tool": "pay", "params": { "_meta": { "to": "mallory" } }, "expect": "deny" },
            { "tool": "pay", "expect": "allow" },
        ],
    }));
    let pay = |to: &str| {
        send(
            &client,
            "tools/call",
            &json!({ "name": "pay", "arguments": {}, "_meta": { "to": to } }),
        )
    };
    assert_eq!(pay("mallory").denial()["code"], "denied_by_rule");
    assert!(pay("bob").passed());
    assert_eq!(recorder.calls(), ["pay"]);
}
