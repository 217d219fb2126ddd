//! Redacted data reaches the agent on no other path: not in notifications, not in server requests, not in
//! the result of a task.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use crate::http_client::{Answer, Client, call};
use crate::invalid_responses::told;
use crate::recorder::{Manner, Recorder, tool};
use crate::test_gate::Gate;

const PROFILE: &str = r#"{"profile":{"name":"GOOD","email":"LEAK"}}"#;

fn rules(action: &str) -> Value {
    let red = json!({ "redact": ["profile.email"], "action": action });
    let big = json!({ "result_bytes_max": 1000 });
    json!({ "version": "1", "default": "allow", "tools": { "red": red, "big": big } })
}

/// The result of a call, with redacted data in its text and its structure.
fn result() -> String {
    let text = serde_json::to_string(PROFILE).unwrap();
    format!(r#"{{"content":[{{"type":"text","text":{text}}}],"structuredContent":{PROFILE}}}"#)
}

fn world(manner: Manner) -> (Gate, Recorder, Client) {
    let mut gate = Gate::new();
    let recorder = Recorder::new(&["echo", "red", "big"]);
    recorder.behave(manner);
    gate.policy("rules", &rules("allow"));
    gate.run(&["server", "add", "rec", "--url", &recorder.url()]);
    let token = gate.grant("agent", &["rec=rules"]);
    gate.up();
    let client = gate.client(&token, "/mcp/rec");
    (gate, recorder, client)
}

fn answers(recorder: &Recorder, result: &str) {
    let message = format!(r#"{{json}}{{"jsonrpc":"2.0","id":{{id}},"result":{result}}}"#);
    recorder.lie(Some(told(&message)));
}

fn check(what: &str, answer: &Answer) {
    let text = answer.text();
    assert!(!text.contains("LEAK"), "{what}: {text}");
    assert!(text.contains("GOOD"), "{what}: {text}");
}

fn ask(client: &Client, method: &str, params: &Value) -> Answer {
    client.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }))
}

fn newer(client: &Client, method: &str, name: &str, mut params: Value) -> Answer {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": { "elicitation": { "form": {} } },
        "io.modelcontextprotocol/logLevel": "debug",
        "progressToken": "token",
    });
    let headers =
        format!("Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\nMcp-Name: {name}\r\n");
    ask(&Client { headers, ..client.clone() }, method, &params)
}

#[test]
fn notifications_with_a_redacted_result_are_forwarded_without_text() {
    let notifications = [
        (
            "a log line",
            r#""method":"notifications/message","params":{"level":"info","data":"LEAK"}"#,
        ),
        (
            "its own notification",
            r#""method":"notifications/own","params":{"profile":{"email":"LEAK"}}"#,
        ),
        (
            "progress",
            r#""method":"notifications/progress","params":{"progressToken":"token","progress":0.5,"total":1,"message":"LEAK","_meta":{"a":"LEAK"}}"#,
        ),
    ];
    for manner in [Manner::Honest, Manner::Newer] {
        let (_gate, recorder, client) = world(manner);
        for (what, notification) in notifications {
            let stream = format!(
                r#"{{sse}}data: {{"jsonrpc":"2.0",{notification}}}%0A%0Adata: {{"jsonrpc":"2.0","id":{{id}},"result":{}}}%0A%0A"#,
                result()
            );
            // If the gate replaced the client's progress token, it is the id.
            let translated = stream.replace(r#":"token""#, ":{id}");
            let params =
                json!({ "name": "red", "arguments": {}, "_meta": { "progressToken": "token" } });
            for era in ["older", "newer"] {
                let texts = [&stream, &translated].map(|stream| {
                    recorder.lie(Some(told(stream)));
                    let answer = match era {
                        "older" => ask(&client, "tools/call", &params),
                        _ => newer(&client, "tools/call", "red", params.clone()),
                    };
                    check(&format!("{what} for an {era} client"), &answer);
                    answer.text()
                });
                let progress = r#""progressToken":"token","progress":0.5,"total":1}"#;
                let is_told = texts.iter().any(|text| text.contains(progress));
                assert_eq!(is_told, what == "progress", "{what} for an {era} client: {texts:?}");
            }
        }
    }
}

#[test]
fn a_result_that_requests_input_is_redacted_like_any_other() {
    let (_gate, recorder, client) = world(Manner::Newer);
    let inside = result();
    let inside = inside.trim_start_matches('{');
    let form = form();
    answers(
        &recorder,
        &format!(
            r#"{{"resultType":"input_required","inputRequests":{{"q":{{"method":"elicitation/create","params":{form}}}}},{inside}"#
        ),
    );
    let answer = newer(&client, "tools/call", "red", json!({ "name": "red", "arguments": {} }));
    assert_eq!(answer.json()["result"]["resultType"], "input_required", "{}", answer.text());
    assert!(answer.json()["result"]["requestState"].is_string());
    check("a question", &answer);
    check_form(&answer.json()["result"]["inputRequests"]["q"]["params"]);
    // An older client gets the request on its stream.
    let mut lines = asked_of(&inside_with_questions(&client), "red");
    check_form(&lines.next().unwrap()["params"]);
}

/// A server request with redacted data in its message, default, options and names.
fn form() -> Value {
    let field = |more: Value| {
        let mut field = json!({ "type": "string", "title": "LEAK", "maxLength": 9 });
        field.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        field
    };
    json!({
        "mode": "form", "message": "is it LEAK?", "profile": { "email": "LEAK" }, "more": "LEAK",
        "requestedSchema": {
            "type": "object", "description": "LEAK", "required": ["GOOD"],
            "properties": {
                "GOOD": field(json!({ "default": "LEAK" })),
                "one": field(json!({ "enum": ["LEAK"], "enumNames": ["LEAK"] })),
                "several": { "type": "array", "items": { "anyOf": [{ "const": "LEAK" }] } },
            },
        },
    })
}

/// The redacted request can still be answered.
fn check_form(params: &Value) {
    let text = params.to_string();
    assert!(!text.contains("LEAK"), "{text}");
    assert!(params["message"].as_str().unwrap().starts_with("[withheld"), "{text}");
    assert_eq!(params["mode"], "form", "{text}");
    let good = json!({ "type": "string", "maxLength": 9 });
    assert_eq!(params["requestedSchema"]["properties"]["GOOD"], good, "{text}");
    assert_eq!(params["requestedSchema"]["required"], json!(["GOOD"]), "{text}");
}

/// An older client that supports elicitation.
fn inside_with_questions(client: &Client) -> Client {
    let hello = json!({
        "protocolVersion": "2025-11-25", "clientInfo": { "name": "x", "version": "1" },
        "capabilities": { "elicitation": {}, "sampling": {}, "roots": {} },
    });
    let session = ask(client, "initialize", &hello).header("mcp-session-id").expect("a session");
    Client { headers: format!("Mcp-Session-Id: {session}\r\n"), ..client.clone() }
}

/// The messages that an older client gets during a call.
fn asked_of(client: &Client, tool: &str) -> impl Iterator<Item = Value> + use<> {
    let mut stream = TcpStream::connect(("127.0.0.1", client.port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let call = call(tool, &json!({})).to_string();
    stream.write_all(&client.request(call.as_bytes(), "")).unwrap();
    let lines = BufReader::new(stream).lines().map_while(Result::ok);
    lines.filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok())
}

#[test]
fn server_requests_of_an_older_server_are_redacted_like_the_result() {
    let (_gate, recorder, client) = world(Manner::Honest);
    let words = json!({ "role": "user", "content": { "type": "text", "text": "LEAK" } });
    let sampling = json!({
        "systemPrompt": "LEAK", "messages": [words], "maxTokens": 7, "stopSequences": ["LEAK"],
    });
    let inside = inside_with_questions(&client);
    for (method, params) in [("elicitation/create", form()), ("sampling/createMessage", sampling)] {
        let question = json!({ "jsonrpc": "2.0", "id": 5, "method": method, "params": params });
        let stream = |question: &Value| {
            let last = format!(r#"{{"jsonrpc":"2.0","id":{{id}},"result":{}}}"#, result());
            told(&format!("{{sse}}data: {question}%0A%0Adata: {last}%0A%0A"))
        };
        recorder.lie(Some(stream(&question)));
        let said: Vec<Value> = asked_of(&inside, "red").take(2).collect();
        assert!(!said.iter().any(|said| said.to_string().contains("LEAK")), "{said:?}");
        assert_eq!(said[0]["method"], method, "{said:?}");
        if method == "elicitation/create" {
            check_form(&said[0]["params"]);
        } else {
            assert_eq!(said[0]["params"]["maxTokens"], 7, "{said:?}");
            let text = &said[0]["params"]["messages"][0]["content"]["text"];
            assert!(text.as_str().unwrap().starts_with("[withheld"), "{said:?}");
        }
        // Without redaction the request is forwarded unchanged.
        let said = asked_of(&inside, "echo").next().unwrap();
        assert_eq!(said, question);
    }
    let asked = newer(&client, "tools/call", "red", json!({ "name": "red", "arguments": {} }));
    assert!(!asked.text().contains("LEAK"), "{}", asked.text());
}

#[test]
fn the_result_of_a_task_is_redacted_like_that_of_its_call() {
    for manner in [Manner::Honest, Manner::Newer] {
        let (gate, recorder, client) = world(manner);
        let send = |client: &Client, method: &str, name: &str, params: Value| match manner {
            Manner::Newer => newer(client, method, name, params),
            _ => ask(client, method, &params),
        };
        let all = Client { path: "/mcp".to_owned(), ..client.clone() };
        let done = format!(r#"{{"taskId":"t1","status":"completed","result":{}}}"#, result());
        let failed = format!(
            r#"{{"taskId":"t1","status":"failed","error":{{"code":1,"message":"GOOD","data":{PROFILE}}}}}"#
        );
        let task =
            r#"{"resultType":"task","taskId":"t1","task":{"taskId":"t1","status":"working"}}"#;
        answers(&recorder, task);
        let params = json!({ "name": "red", "arguments": {}, "task": {} });
        let answer = send(&client, "tools/call", "red", params);
        assert!(answer.text().contains("t1"), "{}", answer.text());
        let follow = |client: &Client, method: &str, id: &str| {
            send(client, method, id, json!({ "taskId": id }))
        };
        for client in [&client, &all] {
            for (what, result) in [("done", &done), ("failed", &failed)] {
                answers(&recorder, result);
                let id = "t1";
                check(&format!("{what} {id} {}", client.path), &follow(client, "tasks/get", id));
            }
            if manner == Manner::Honest {
                answers(&recorder, &result());
                check("t1", &follow(client, "tasks/result", "t1"));
            }
        }
        answers(
            &recorder,
            &format!(r#"{{"resultType":"task","taskId":"t1","result":{}}}"#, result()),
        );
        check(
            "at once",
            &send(&client, "tools/call", "red", json!({ "name": "red", "arguments": {} })),
        );

        answers(&recorder, &task.replace("t1", "t2"));
        send(&client, "tools/call", "big", json!({ "name": "big", "arguments": {}, "task": {} }));
        answers(&recorder, &done.replace("LEAK", &"long ".repeat(200)));
        let answer = follow(&client, "tasks/get", "t2").json();
        assert_eq!(answer["error"]["code"], -31060, "{answer}");
        assert_eq!(answer["error"]["data"]["rule"], "/tools/big", "{answer}");

        // Without the tool its task does not exist, at either address.
        gate.policy("rules", &rules("deny"));
        // A newer client without tasks gets the same error for any task that is not its own.
        let code = if manner == Manner::Newer { -32021 } else { -32602 };
        for client in [&client, &all] {
            let answer = follow(client, "tasks/get", "t1");
            assert_eq!(answer.json()["error"]["code"], code, "{}", answer.text());
        }
    }
}

/// Clients validate a result against the tool's output schema and discard it if it does not match.
#[test]
fn a_tool_with_a_redacted_result_has_no_output_schema() {
    let (gate, recorder, client) = world(Manner::Honest);
    let with_schema = |name: &str| {
        let mut tool = tool(name, name);
        tool["outputSchema"] = json!({ "type": "object", "required": ["profile"] });
        tool
    };
    recorder.set_tools(["echo", "red", "big"].map(with_schema).to_vec());
    let looked = gate.cli(&["server", "pins", "rec", "--look"]);
    assert_eq!(looked.status.code(), Some(1));
    gate.run(&["server", "pins", "rec", "--accept"]);
    let all = Client { path: "/mcp".to_owned(), ..client.clone() };
    for (client, prefix) in [(&client, ""), (&all, "rec__")] {
        let listed = ask(client, "tools/list", &json!({})).json();
        let tools = listed["result"]["tools"].as_array().unwrap();
        for name in ["echo", "red", "big"] {
            let full = format!("{prefix}{name}");
            let tool = tools.iter().find(|tool| tool["name"] == *full).unwrap();
            assert_eq!(tool.get("outputSchema").is_some(), name != "red", "{tool}");
        }
    }
}
