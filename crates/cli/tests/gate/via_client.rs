//! `via: "client"`: the client's own user approves a call through the protocol's elicitation. The approval is the
//! same as an owner's: bound to the exact call, used once, and never enough where a rule asks the owner.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use crate::http_client::{Client, call};
use crate::recorder::{Manner, Recorder};
use crate::test_gate::Gate;

fn world(manner: Manner) -> (Gate, Recorder, Client) {
    let mut gate = Gate::new();
    let recorder = Recorder::new(&["pay", "wipe"]);
    recorder.behave(manner);
    gate.settings("[limits]\napproval_hold_seconds = 0\n");
    let by_client = json!({ "conditions": [], "via": "client", "on_deny": "money leaves" });
    let by_owner = json!({
        "conditions": [{ "path": "args.amount", "op": "gt", "value": 100 }], "via": "owner",
    });
    let rules = json!({
        "version": "1", "default": "deny",
        "tools": {
            "pay": { "approve_if": [by_client, by_owner], "limits": [{ "window": "hour", "max": 2 }] },
            "wipe": { "action": "require_approval" },
        },
    });
    gate.policy("rules", &rules);
    gate.run(&["server", "add", "rec", "--url", &recorder.url()]);
    let token = gate.grant("agent", &["rec=rules"]);
    gate.up();
    let client = gate.client(&token, "/mcp/rec");
    (gate, recorder, client)
}

/// One round of a call by a client of the newer era.
fn round(client: &Client, tool: &str, arguments: &Value, more: &Value, asks: bool) -> Value {
    let mut message = call(tool, arguments);
    for (key, value) in more.as_object().unwrap() {
        message["params"][key] = value.clone();
    }
    let capabilities = if asks { json!({ "elicitation": { "form": {} } }) } else { json!({}) };
    message["params"]["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
        "io.modelcontextprotocol/clientInfo": { "name": "asker", "version": "1" },
    });
    let mut client = client.clone();
    client.headers = format!(
        "Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: {tool}\r\n"
    );
    client.send(&message).json()
}

fn answer(result: &Value, decision: &Value) -> Value {
    json!({
        "requestState": result["requestState"],
        "inputResponses": { "tollgate/approval": decision },
    })
}

fn approve() -> Value {
    json!({ "action": "accept", "content": { "decision": "approve" } })
}

fn denial(response: &Value) -> &Value {
    &response["result"]["_meta"]["tollgate/denial"]
}

/// Whether the response is the server's.
fn has_run(response: &Value) -> bool {
    response["result"]["content"][0]["text"].as_str().is_some_and(|text| text.starts_with("ok"))
}

#[test]
fn a_user_of_a_newer_client_reads_the_call_and_approves_it_once() {
    let (gate, recorder, client) = world(Manner::Newer);
    let arguments = json!({ "to": "ada", "amount": 5 });
    let asked = round(&client, "pay", &arguments, &json!({}), true);
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let request = &asked["result"]["inputRequests"]["tollgate/approval"];
    assert_eq!(request["method"], "elicitation/create", "{asked}");
    let message = request["params"]["message"].as_str().unwrap();
    for words in ["money leaves", "`rec`", "\"to\":\"ada\"", "\"amount\":5", "\"name\":\"pay\""] {
        assert!(message.contains(words), "{words}: {message}");
    }
    assert_eq!(recorder.calls(), Vec::<String>::new());
    let other = json!({ "to": "mallory", "amount": 5 });
    let stolen = round(&client, "pay", &other, &answer(&asked["result"], &approve()), true);
    assert!(stolen["error"]["message"].as_str().unwrap().contains("another call"), "{stolen}");

    let done = round(&client, "pay", &arguments, &answer(&asked["result"], &approve()), true);
    assert!(has_run(&done), "{done}");
    assert_eq!(recorder.calls(), ["pay"]);
    let again = round(&client, "pay", &arguments, &answer(&asked["result"], &approve()), true);
    assert!(again["error"]["message"].as_str().unwrap().contains("used already"), "{again}");
    let asks_again = round(&client, "pay", &arguments, &json!({}), true);
    assert_eq!(asks_again["result"]["resultType"], "input_required", "used once: {asks_again}");
    let log = gate.run(&["--json", "audit", "tail", "-n", "50"]);
    assert!(log.contains(r#""by":"client (asker)""#), "{log}");
    assert!(!log.contains("ada"), "{log}");
}

#[test]
fn the_question_shows_hidden_characters() {
    let (_gate, _recorder, client) = world(Manner::Newer);
    let hidden = "\u{e0070}\u{202e}\u{200b}\u{ad}\u{2800}\u{fe0f}\u{2028}\u{9b}";
    let arguments = json!({ "to": format!("ada{hidden}") });
    let asked = round(&client, "pay", &arguments, &json!({}), true);
    let request = &asked["result"]["inputRequests"]["tollgate/approval"];
    let message = request["params"]["message"].as_str().unwrap();
    for c in hidden.chars() {
        assert!(!message.contains(c), "{c:?} is hidden in {message:?}");
        assert!(message.contains(&format!("U+{:04X}", u32::from(c))), "{c:?}: {message:?}");
    }
}

#[test]
fn a_user_who_refuses_or_closes_the_question_sends_nothing() {
    let (gate, recorder, client) = world(Manner::Newer);
    let arguments = json!({ "amount": 6 });
    let asked = round(&client, "pay", &arguments, &json!({}), true);
    let decline = json!({ "action": "decline" });
    let refused = round(&client, "pay", &arguments, &answer(&asked["result"], &decline), true);
    assert_eq!(denial(&refused)["code"], "approval_denied", "{refused}");
    assert!(refused.to_string().contains("the user of the client refused it"), "{refused}");

    let arguments = json!({ "amount": 7 });
    let asked = round(&client, "pay", &arguments, &json!({}), true);
    let cancel = json!({ "action": "cancel" });
    let waits = round(&client, "pay", &arguments, &answer(&asked["result"], &cancel), true);
    assert_eq!(denial(&waits)["code"], "approval_pending", "{waits}");
    let id = denial(&waits)["approval_id"].as_str().unwrap();
    gate.run(&["approvals", "approve", "--yes", id]);
    let done = round(&client, "pay", &arguments, &json!({}), true);
    assert!(has_run(&done), "the owner can decide, too: {done}");
    assert_eq!(recorder.calls(), ["pay"]);
}

#[test]
fn the_owner_is_asked_where_a_rule_says_so_or_the_client_cannot_ask() {
    let (_gate, recorder, client) = world(Manner::Newer);
    for (tool, arguments, asks) in [
        ("pay", json!({ "amount": 101 }), true),
        ("pay", json!({ "amount": "101" }), true),
        ("wipe", json!({}), true),
        ("pay", json!({ "amount": 5 }), false),
        ("pay", json!({ "amount": 5, "note": "x".repeat(5_000) }), true),
    ] {
        let response = round(&client, tool, &arguments, &json!({}), asks);
        assert_eq!(denial(&response)["code"], "approval_pending", "{tool} {arguments} {response}");
    }
    assert_eq!(recorder.calls(), Vec::<String>::new());
}

/// Sends a call of the older era and answers the questions on its stream.
fn conversed(client: &Client, arguments: &Value, decision: &Value) -> (Value, usize) {
    let hello = json!({
        "jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25", "capabilities": { "elicitation": {} },
            "clientInfo": { "name": "older", "version": "1" },
        },
    });
    let mut client = client.clone();
    let session = client.send(&hello).header("mcp-session-id").expect("a session");
    client.headers = format!("Mcp-Session-Id: {session}\r\n");
    client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    let mut stream = TcpStream::connect(("127.0.0.1", client.port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let body = call("pay", arguments).to_string();
    stream.write_all(&client.request(body.as_bytes(), "")).unwrap();
    let mut asked = 0;
    for line in BufReader::new(stream).lines().map(|line| line.expect("a line in time")) {
        let Some(text) = line.strip_prefix("data: ") else { continue };
        let message: Value = serde_json::from_str(text).unwrap();
        if message.get("method").is_none() {
            return (message, asked);
        }
        assert_eq!(message["method"], "elicitation/create", "{message}");
        assert!(message["params"]["message"].as_str().unwrap().contains("money leaves"));
        asked += 1;
        let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": decision });
        assert_eq!(client.send(&answer).status, 202);
    }
    panic!("the stream ended without a response");
}

#[test]
fn a_user_of_an_older_client_is_asked_on_the_stream_of_the_call() {
    let (gate, recorder, client) = world(Manner::Honest);
    let (done, asked) = conversed(&client, &json!({ "amount": 8 }), &approve());
    assert!(has_run(&done) && asked == 1, "{asked}: {done}");
    assert_eq!(recorder.calls(), ["pay"]);
    let decline = json!({ "action": "decline" });
    let (refused, _) = conversed(&client, &json!({ "amount": 9 }), &decline);
    assert_eq!(denial(&refused)["code"], "approval_denied", "{refused}");
    assert_eq!(recorder.calls(), ["pay"]);
    let log = gate.run(&["--json", "audit", "tail", "-n", "50"]);
    assert!(log.contains(r#""by":"client (older)""#), "{log}");
}
