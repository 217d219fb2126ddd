//! Grant tokens inside messages: they reach no server and no row.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::http_client::Client;
use crate::recorder::Recorder;
use crate::test_gate::Gate;

fn message(method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })
}

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()
}

fn percent(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect::<Vec<_>>().concat()
}

fn messages(token: &str) -> Vec<(String, Value)> {
    let key = json!({ token: 1 });
    let call = |arguments: Value| {
        message("tools/call", &json!({ "name": "echo", "arguments": arguments }))
    };
    let all = vec![
        ("name", message("tools/call", &json!({ "name": token }))),
        ("part of a name", message("tools/call", &json!({ "name": format!("x{token}y") }))),
        ("prompt", message("prompts/get", &json!({ "name": token }))),
        ("uri", message("resources/read", &json!({ "uri": format!("https://x/?k={token}") }))),
        ("key", call(key)),
        ("value", call(json!({ "a": [{ "b": format!("Bearer {token}") }] }))),
        ("file", call(json!({ "content": STANDARD.encode(format!("{{\"token\":\"{token}\"}}")) }))),
        ("hex", call(json!({ "content": format!("00{}", hex(token)) }))),
        ("query", call(json!({ "url": format!("https://x/?k={}", percent(token)) }))),
        ("meta", message("tools/call", &json!({ "name": "echo", "_meta": { "x": token } }))),
        ("method", message(&format!("x/{token}"), &json!({}))),
        ("id", json!({ "jsonrpc": "2.0", "id": token, "method": "ping" })),
        (
            "notification",
            json!({
                "jsonrpc": "2.0", "method": "notifications/cancelled",
                "params": { "requestId": 1, "reason": token },
            }),
        ),
        ("response", json!({ "jsonrpc": "2.0", "id": 1, "result": { "x": token } })),
        (
            "handshake",
            message(
                "initialize",
                &json!({
                    "protocolVersion": "2025-06-18", "capabilities": {},
                    "clientInfo": { "name": token, "version": "1" },
                }),
            ),
        ),
    ];
    all.into_iter().map(|(name, message)| (name.to_owned(), message)).collect()
}

fn refused(client: &Client, name: &str, body: &str) {
    let answer = client.post(body.as_bytes());
    let error = &answer.json()["error"];
    assert_eq!(error["data"]["code"], "own_token", "{name}: {}", answer.text());
    assert!(error["data"]["audit_id"].is_u64(), "{name}: {}", answer.text());
    assert!(!answer.text().contains(&client.token), "{name}: {}", answer.text());
}

#[test]
fn a_grant_token_in_a_message_reaches_no_server_and_no_row() {
    let mut gate = Gate::new();
    let recorder = Recorder::new(&["echo"]);
    recorder.look_at_calls_with(|body| {
        let body = String::from_utf8_lossy(body);
        (body.contains("tg_") || body.contains("\\u0074g_")).then(|| "a token".to_owned())
    });
    gate.policy("rules", &json!({ "version": "1", "default": "allow" }));
    gate.run(&["server", "add", "rec", "--url", &recorder.url()]);
    let token = gate.grant("agent", &["rec=rules"]);
    gate.up();
    for path in ["/mcp/rec", "/mcp"] {
        let client = gate.client(&token, path);
        for (name, message) in messages(&token) {
            let text = message.to_string();
            refused(&client, &name, &text);
            refused(&client, &name, &text.replace("tg_", "\\u0074\\u0067\\u005f"));
        }
    }
    // A truncated one is not a token, but its row does not contain it either.
    let client = gate.client(&token, "/mcp/rec");
    let cut = &token[..45];
    let arguments = json!({ cut: 1 });
    client.send(&message("tools/call", &json!({ "name": cut, "arguments": arguments })));
    client.send(&message("resources/read", &json!({ "uri": format!("x://{cut}") })));
    assert!(client.call("echo", &json!({ "text": "tg_short words pass" })).passed());
    assert_eq!(recorder.count("echo"), 1);
    gate.stop();
    assert!(
        gate.files_with(&[cut.to_owned()]).is_empty(),
        "{:?}",
        gate.files_with(&[cut.to_owned()])
    );
    assert!(!gate.log().contains(cut), "{}", gate.log());
}
