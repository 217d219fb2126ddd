//! What servers ask and clients subscribe to: nothing that the policy does not list or allow, nothing in
//! the gate's own name, and not without end.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use crate::door::{Answer, Client};
use crate::lies::told;
use crate::recorder::{Manner, Recorder};
use crate::world::Gate;

/// A gate before a server of the newer or the older era, which may ask for little, and whose
/// `file:///secret` is nobody's.
fn world(manner: Manner) -> (Gate, Recorder, Client) {
    let mut gate = Gate::new();
    let recorder = Recorder::new(&["echo"]);
    recorder.behave(manner);
    let rules = json!({
        "version": "1", "default": "allow",
        "resources": { "file:///secret": { "action": "deny" } },
        "server_requests": ["elicitation"],
    });
    gate.policy("rules", &rules);
    gate.run(&["server", "add", "rec", "--url", &recorder.url()]);
    let token = gate.grant("agent", &["rec=rules"]);
    gate.up();
    let client = gate.client(&token, "/mcp/rec");
    (gate, recorder, client)
}

/// A call by a client of the newer era, with more in its params.
fn newer(client: &Client, more: &Value) -> Answer {
    let mut params = json!({
        "name": "echo", "arguments": {},
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    });
    for (key, value) in more.as_object().unwrap() {
        params[key] = value.clone();
    }
    let mut client = client.clone();
    "Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: echo\r\n"
        .clone_into(&mut client.headers);
    client.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }))
}

/// The recorder answers calls with this result.
fn says(recorder: &Recorder, result: &Value) {
    let message = format!(r#"{{json}}{{"jsonrpc":"2.0","id":{{id}},"result":{result}}}"#);
    recorder.lie(Some(told(&message)));
}

#[test]
fn a_question_of_a_newer_server_does_not_speak_for_the_gate() {
    let (_gate, recorder, client) = world(Manner::Newer);
    let denial = json!({ "tollgate/denial": { "code": "denied_by_rule" }, "kept": 1 });
    says(
        &recorder,
        &json!({ "resultType": "input_required", "requestState": "s", "_meta": denial }),
    );
    let asked = newer(&client, &json!({})).json();
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    assert_eq!(asked["result"]["_meta"], json!({ "kept": 1 }), "{asked}");
}

#[test]
fn answers_to_questions_are_an_object() {
    let (_gate, recorder, client) = world(Manner::Newer);
    assert!(newer(&client, &json!({})).passed());
    let seen = recorder.calls().len();
    for wrong in [json!(null), json!(1), json!("x"), json!([]), json!(true)] {
        let answer = newer(&client, &json!({ "inputResponses": wrong }));
        assert_eq!(answer.json()["error"]["code"], -32602, "{}", answer.text());
        assert!(answer.json()["error"]["data"]["audit_id"].is_u64(), "{}", answer.text());
    }
    assert_eq!(recorder.calls().len(), seen, "passed on");
}

#[test]
fn a_server_asks_nothing_that_its_policy_does_not_list() {
    let (_gate, recorder, client) = world(Manner::Honest);
    let hello = json!({
        "jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25", "clientInfo": { "name": "x", "version": "1" },
            "capabilities": { "elicitation": {}, "sampling": {}, "roots": {} },
        },
    });
    let session = client.send(&hello).header("mcp-session-id").expect("a session");
    let inside = Client { headers: format!("Mcp-Session-Id: {session}\r\n"), ..client };
    let asked = [
        ("elicitation/create", true),
        ("sampling/createMessage", false),
        ("roots/list", false),
        ("tasks/get", false),
        ("tools/call", false),
        ("evil/question", false),
    ];
    for (method, passes) in asked {
        let question = json!({ "jsonrpc": "2.0", "id": 5, "method": method, "params": {} });
        let last = r#"{"jsonrpc":"2.0","id":{id},"result":{"content":[],"mark":"GOOD"}}"#;
        recorder.lie(Some(told(&format!("{{sse}}data: {question}%0A%0Adata: {last}%0A%0A"))));
        let answer = inside.call("echo", &json!({}));
        assert!(answer.text().contains("GOOD"), "{method}: {}", answer.text());
        assert_eq!(answer.text().contains(method), passes, "{}", answer.text());
    }
}

#[test]
fn a_task_asks_nothing_that_its_policy_does_not_list() {
    let (_gate, recorder, client) = world(Manner::Newer);
    says(&recorder, &json!({ "resultType": "task", "taskId": "t1", "status": "working" }));
    let capabilities = json!({ "elicitation": { "form": {} }, "sampling": {} });
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    });
    assert!(newer(&client, &json!({ "task": {}, "_meta": meta })).text().contains("t1"));
    for (method, passes) in [("elicitation/create", true), ("sampling/createMessage", false)] {
        let question = json!({ "method": method, "params": { "message": "who?" } });
        says(
            &recorder,
            &json!({ "taskId": "t1", "status": "input_required", "inputRequests": { "q": question } }),
        );
        let headers =
            "Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tasks/get\r\nMcp-Name: t1\r\n";
        let follow = Client { headers: headers.to_owned(), ..client.clone() };
        let params = json!({ "taskId": "t1", "_meta": meta });
        let answer = follow
            .send(&json!({ "jsonrpc": "2.0", "id": 2, "method": "tasks/get", "params": params }));
        assert_eq!(answer.json().get("result").is_some(), passes, "{}", answer.text());
        assert_eq!(answer.text().contains("who?"), passes, "{}", answer.text());
    }
}

#[test]
fn a_newer_server_that_asks_for_one_round_after_the_other_is_given_up() {
    let (gate, recorder, client) = world(Manner::Newer);
    let inside = client.with_session();
    says(&recorder, &json!({ "resultType": "input_required", "requestState": "again" }));
    let answer = inside.call("echo", &json!({}));
    assert_eq!(answer.json()["error"]["code"], -31052, "{}", answer.text());
    assert!(answer.took < Duration::from_secs(5), "{:?}", answer.took);
    recorder.lie(None);
    let rows = gate.decisions();
    let row = rows.iter().find(|row| row["tool"] == "echo").unwrap();
    assert_eq!(row["outcome"], "error", "{row}");
}

/// Opens a subscription and gives its first line.
fn acknowledged(client: &Client, uris: &Value) -> String {
    let listen = json!({
        "jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen",
        "params": {
            "notifications": { "resourceSubscriptions": uris },
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
            },
        },
    });
    let headers = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: subscriptions/listen\r\n";
    let mut stream = TcpStream::connect(("127.0.0.1", client.port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream.write_all(&client.request(listen.to_string().as_bytes(), headers)).unwrap();
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    let said = lines.find(|line| line.starts_with("data: ") || line.starts_with('{'));
    said.expect("an answer")
}

#[test]
fn nobody_hears_of_resources_that_the_policy_denies() {
    for manner in [Manner::Newer, Manner::Honest] {
        let (gate, recorder, client) = world(manner);
        recorder.look_at_calls_with(|body| {
            let body = String::from_utf8_lossy(body);
            body.contains("file:///secret").then(|| "asked for a secret".to_owned())
        });
        let all = gate.client(&client.token, "/mcp");
        for client in [&client, &all] {
            let said = acknowledged(client, &json!(["file:///a", "file:///secret"]));
            assert!(!said.contains("secret"), "{said}");
            // A newer server says itself what it tells of, and at the address of all nobody lists it.
            let gate_says = manner == Manner::Honest && client.path != "/mcp";
            assert!(said.contains("file:///a") || !gate_says, "{said}");
            for wrong in [json!("file:///a"), json!([1]), json!(vec!["file:///a"; 257])] {
                let said = acknowledged(client, &wrong);
                assert!(said.contains("-32602") && said.contains("audit_id"), "{said}");
            }
        }
        assert_eq!(recorder.troubles(), Vec::<String>::new());
    }
}
