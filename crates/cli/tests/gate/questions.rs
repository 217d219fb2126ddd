//! Server requests and subscriptions: only what the policy lists or allows, nothing that impersonates the
//! gate, and not endlessly.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use crate::http_client::{Answer, Client};
use crate::invalid_responses::told;
use crate::recorder::{Manner, Recorder};
use crate::test_gate::Gate;

/// A gate in front of a server of the newer or the older era, which may request little, and whose
/// `file:///secret` is denied.
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

/// Makes the recorder answer calls with this result.
fn says(recorder: &Recorder, result: &Value) {
    let message = format!(r#"{{json}}{{"jsonrpc":"2.0","id":{{id}},"result":{result}}}"#);
    recorder.lie(Some(told(&message)));
}

#[test]
fn a_server_request_cannot_impersonate_the_gate() {
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
fn input_responses_must_be_an_object() {
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
fn a_server_may_request_only_what_its_policy_lists() {
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

/// A completion notification is judged like the elicitation itself.
#[test]
fn completion_is_reported_only_for_an_elicitation_that_was_shown() {
    const LAST: &str = r#"{"jsonrpc":"2.0","id":{id},"result":{"content":[],"mark":"GOOD"}}"#;
    let question = json!({
        "jsonrpc": "2.0", "id": 5, "method": "elicitation/create",
        "params": { "mode": "url", "url": "https://x.example/", "message": "open it", "elicitationId": "own" },
    });
    let complete = |id: &str| json!({ "jsonrpc": "2.0", "method": "notifications/elicitation/complete", "params": { "elicitationId": id } });
    for (server_requests, passes) in [(json!([]), false), (json!(["elicitation"]), true)] {
        let (_gate, recorder, client) = asked_world(Manner::Honest, &server_requests);
        let all = json!({ "elicitation": { "form": {}, "url": {} } });
        let asker = Asker::new(&client, false, &all);
        let (own, other) = (complete("own"), complete("other"));
        let lie = format!(
            "{{sse}}data: {question}%0A%0Adata: {own}%0A%0Adata: {other}%0A%0Adata: {LAST}%0A%0A"
        );
        recorder.lie(Some(told(&lie)));
        let answer = asker.ask("tools/call", "echo");
        assert!(answer.text().contains("GOOD"), "{}", answer.text());
        let told = answer.text().matches("elicitation/complete").count();
        assert_eq!(told, usize::from(passes), "{}", answer.text());
        assert!(!answer.text().contains("\"other\""), "{}", answer.text());
    }
}

#[test]
fn a_task_may_request_only_what_its_policy_lists() {
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
    // The result of a task must not contain a server request.
    let question = json!({ "method": "elicitation/create", "params": { "message": "who?" } });
    let result = json!({ "resultType": "input_required", "inputRequests": { "q": question } });
    says(&recorder, &json!({ "taskId": "t1", "status": "completed", "result": result }));
    let headers = "Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tasks/get\r\nMcp-Name: t1\r\n";
    let follow = Client { headers: headers.to_owned(), ..client };
    let params = json!({ "taskId": "t1", "_meta": meta });
    let answer =
        follow.send(&json!({ "jsonrpc": "2.0", "id": 3, "method": "tasks/get", "params": params }));
    assert_eq!(answer.json()["error"]["code"], -31052, "{}", answer.text());
}

#[test]
fn a_newer_server_with_endless_rounds_is_stopped() {
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

/// Opens a subscription and returns its first line.
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
fn updates_of_denied_resources_reach_no_client() {
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
            // A newer server acknowledges its own subscriptions, and no server lists it at the common address.
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

/// Results that contain server requests.
fn asking() -> Vec<Value> {
    let question = json!({ "method": "elicitation/create", "params": { "message": "who?" } });
    let sample = json!({ "method": "sampling/createMessage", "params": { "message": "who?" } });
    vec![
        json!({ "resultType": "input_required", "inputRequests": { "q": question } }),
        json!({ "resultType": "input_required", "inputRequests": { "q": question }, "content": [] }),
        json!({ "resultType": "complete", "inputRequests": { "q": question }, "content": [] }),
        json!({ "inputRequests": { "q": sample }, "content": [], "contents": [], "messages": [] }),
        json!({ "resultType": "input_required", "inputRequests": [question] }),
        json!({ "resultType": "input_required", "inputRequests": { "q": { "params": "who?" } } }),
        json!({ "ResultType": "input_required", "InputRequests": { "q": question } }),
        json!({ "task": { "taskId": "t", "inputRequests": { "q": question } }, "content": [] }),
    ]
}

/// A client of the newer era, or one with a session, that declares these capabilities.
struct Asker {
    client: Client,
    meta: Option<Value>,
}

impl Asker {
    fn new(client: &Client, newer: bool, capabilities: &Value) -> Asker {
        if newer {
            let meta = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": capabilities,
            });
            return Asker { client: client.clone(), meta: Some(meta) };
        }
        let hello = json!({
            "jsonrpc": "2.0", "id": 0, "method": "initialize",
            "params": {
                "protocolVersion": "2025-11-25", "capabilities": capabilities,
                "clientInfo": { "name": "x", "version": "1" },
            },
        });
        let session = client.send(&hello).header("mcp-session-id").expect("a session");
        let headers = format!("Mcp-Session-Id: {session}\r\n");
        Asker { client: Client { headers, ..client.clone() }, meta: None }
    }

    fn ask(&self, method: &str, name: &str) -> Answer {
        let key = if method == "resources/read" { "uri" } else { "name" };
        let mut params = json!({ key: name });
        let mut client = self.client.clone();
        if let Some(meta) = &self.meta {
            params["_meta"] = meta.clone();
            client.headers = format!(
                "Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\nMcp-Name: {name}\r\n"
            );
        }
        client.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }))
    }
}

/// A gate whose policy allows these server requests.
fn asked_world(manner: Manner, server_requests: &Value) -> (Gate, Recorder, Client) {
    let mut gate = Gate::new();
    let recorder = Recorder::new(&["echo"]);
    recorder.behave(manner);
    let rules = json!({ "version": "1", "default": "allow", "server_requests": server_requests });
    gate.policy("rules", &rules);
    gate.run(&["server", "add", "rec", "--url", &recorder.url()]);
    let token = gate.grant("agent", &["rec=rules"]);
    gate.up();
    let client = gate.client(&token, "/mcp/rec");
    (gate, recorder, client)
}

const ASKED: [(&str, &str); 3] =
    [("tools/call", "echo"), ("resources/read", "file:///a"), ("prompts/get", "hello")];

#[test]
fn a_result_requests_nothing_that_policy_or_client_refuses() {
    let takes = json!({ "elicitation": { "form": {} }, "sampling": {} });
    let cases = [(json!([]), takes), (json!(["elicitation", "sampling"]), json!({}))];
    for manner in [Manner::Honest, Manner::Newer] {
        for (server_requests, capabilities) in &cases {
            let (_gate, recorder, client) = asked_world(manner, server_requests);
            for newer in [false, true] {
                let asker = Asker::new(&client, newer, capabilities);
                assert!(asker.ask("tools/call", "echo").passed());
                for (result, (method, name)) in
                    asking().iter().flat_map(|result| ASKED.map(|asked| (result, asked)))
                {
                    says(&recorder, result);
                    let answer = asker.ask(method, name);
                    recorder.lie(None);
                    assert!(!answer.text().contains("who?"), "{newer} {result}: {}", answer.text());
                    assert!(answer.json().get("error").is_some(), "{result}: {}", answer.text());
                }
            }
        }
    }
}

#[test]
fn a_result_requests_what_policy_and_client_allow() {
    let takes = json!({ "elicitation": { "form": {} } });
    let question = &asking()[0];
    let (_gate, recorder, client) = asked_world(Manner::Newer, &json!(["elicitation"]));
    let asker = Asker::new(&client, true, &takes);
    for (method, name) in ASKED {
        says(&recorder, question);
        let answer = asker.ask(method, name);
        assert_eq!(answer.json()["result"]["resultType"], "input_required", "{}", answer.text());
        assert!(answer.text().contains("who?"), "{}", answer.text());
        recorder.lie(None);
    }
    // An older server has no such result: a response could not be returned to it.
    let (_gate, recorder, client) = asked_world(Manner::Honest, &json!(["elicitation"]));
    for newer in [false, true] {
        let asker = Asker::new(&client, newer, &takes);
        says(&recorder, question);
        let answer = asker.ask("tools/call", "echo");
        assert_eq!(answer.json()["error"]["code"], -31052, "{}", answer.text());
        assert!(!answer.text().contains("who?"), "{}", answer.text());
        recorder.lie(None);
    }
}

#[test]
fn an_error_with_a_url_elicitation_is_a_server_request_too() {
    let error = json!({
        "code": -32042, "message": "open it",
        "data": { "elicitations": [{ "mode": "url", "url": "https://evil.example/", "elicitationId": "e" }] },
    });
    let lie = told(&format!(r#"{{json}}{{"jsonrpc":"2.0","id":{{id}},"error":{error}}}"#));
    let all = json!({ "elicitation": { "form": {}, "url": {} } });
    let cases = [(json!([]), &all, false), (json!(["elicitation"]), &json!({}), false)];
    let allowed = (json!(["elicitation"]), &all, true);
    for manner in [Manner::Honest, Manner::Newer] {
        for (server_requests, capabilities, passes) in cases.iter().chain([&allowed]) {
            let (_gate, recorder, client) = asked_world(manner, server_requests);
            for newer in [false, true] {
                let asker = Asker::new(&client, newer, capabilities);
                recorder.lie(Some(lie.clone()));
                let answer = asker.ask("tools/call", "echo");
                recorder.lie(None);
                assert_eq!(answer.text().contains("evil"), *passes, "{}", answer.text());
            }
        }
    }
}

#[test]
fn a_result_with_a_duplicate_member_is_refused() {
    let (_gate, recorder, client) = world(Manner::Honest);
    for member in [
        r#""content":[],"content":[{"type":"text","text":"LEAK"}]"#,
        r#""_meta":{},"_m\u0065ta":{"x":"LEAK"}"#,
    ] {
        let message = format!(r#"{{json}}{{"jsonrpc":"2.0","id":{{id}},"result":{{{member}}}}}"#);
        recorder.lie(Some(told(&message)));
        let answer = client.call("echo", &json!({}));
        assert_eq!(answer.json()["error"]["code"], -31052, "{}", answer.text());
        assert!(!answer.text().contains("LEAK"), "{}", answer.text());
    }
}
