//! What a policy cuts out of a result reaches the agent on no other way: not beside the result, not in a
//! question of the server, not as what a task comes to.

use serde_json::{Value, json};

use crate::door::{Answer, Client};
use crate::lies::told;
use crate::recorder::{Manner, Recorder};
use crate::world::Gate;

const PROFILE: &str = r#"{"profile":{"name":"GOOD","email":"LEAK"}}"#;

fn rules(action: &str) -> Value {
    let red = json!({ "redact": ["profile.email"], "action": action });
    let big = json!({ "result_bytes_max": 1000 });
    json!({ "version": "1", "default": "allow", "tools": { "red": red, "big": big } })
}

/// The result of a call, with what must go in its text and in its structure.
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
fn what_a_server_says_beside_a_result_is_passed_on_without_words() {
    let beside = [
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
        for (what, notification) in beside {
            let stream = format!(
                r#"{{sse}}data: {{"jsonrpc":"2.0",{notification}}}%0A%0Adata: {{"jsonrpc":"2.0","id":{{id}},"result":{}}}%0A%0A"#,
                result()
            );
            // Where the gate gave the server a token in place of the client's own, it is the id.
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
fn a_result_that_asks_for_input_is_cut_like_any_other() {
    let (_gate, recorder, client) = world(Manner::Newer);
    let questions = r#""inputRequests":{"q":{"method":"elicitation/create","params":{"message":"GOOD?","requestedSchema":{"type":"object","properties":{}}}}}"#;
    let inside = result();
    let inside = inside.trim_start_matches('{');
    answers(&recorder, &format!(r#"{{"resultType":"input_required",{questions},{inside}"#));
    let answer = newer(&client, "tools/call", "red", json!({ "name": "red", "arguments": {} }));
    assert_eq!(answer.json()["result"]["resultType"], "input_required", "{}", answer.text());
    assert!(answer.json()["result"]["requestState"].is_string());
    check("a question", &answer);
}

#[test]
fn what_a_task_comes_to_is_cut_like_the_result_of_its_call() {
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
            // A task of before the gate was started has no tool that is known, so nothing may come.
            for id in if client.path == "/mcp" { &["t1"][..] } else { &["t1", "t0"] } {
                for (what, result) in [("done", &done), ("failed", &failed)] {
                    answers(&recorder, result);
                    check(
                        &format!("{what} {id} {}", client.path),
                        &follow(client, "tasks/get", id),
                    );
                }
                if manner == Manner::Honest {
                    answers(&recorder, &result());
                    check(id, &follow(client, "tasks/result", id));
                }
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

        // Without the tool there is no task of it, on either address.
        gate.policy("rules", &rules("deny"));
        for client in [&client, &all] {
            let answer = follow(client, "tasks/get", "t1");
            assert_eq!(answer.json()["error"]["code"], -32602, "{}", answer.text());
        }
    }
}
