//! Tasks of a newer server for older clients: those without tasks, and those with the tasks of 2025-11-25.

use std::io::{BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use crate::eras::{conversed, event, older, peer_gate, peer_gate_with, request, said};
use crate::http_client::Client;
use crate::test_gate::until;

const RELATED: &str = "io.modelcontextprotocol/related-task";

fn job(arguments: &Value) -> Value {
    request("tools/call", &json!({ "name": "job", "arguments": arguments }))
}

fn as_task(arguments: &Value) -> Value {
    let mut call = job(arguments);
    call["params"]["task"] = json!({ "ttl": 60000 });
    call
}

/// Creates a task as clients of 2025-11-25 do, and returns it.
fn begun(client: &Client, arguments: &Value) -> Value {
    let begun = client.send(&as_task(arguments)).json();
    let task = &begun["result"]["task"];
    assert_eq!(task["status"], "working", "{begun}");
    assert_eq!((&task["ttl"], &task["pollInterval"]), (&json!(60000), &json!(50)), "{begun}");
    assert!(begun["result"].get("resultType").is_none(), "{begun}");
    json!({ "taskId": task["taskId"] })
}

#[test]
fn an_older_client_without_tasks_waits_for_the_result_of_a_newer_servers_task() {
    let peer = peer_gate("modern");
    let client = older(&peer.client, &json!({ "elicitation": {} }));
    let done = client.send(&job(&json!({ "short": true }))).json();
    assert_eq!(said(&done)["n"], 7, "{done}");
    assert!(done["result"].get("resultType").is_none(), "{done}");
    let failed = client.send(&job(&json!({ "short": true, "fail": true }))).json();
    assert_eq!(failed["result"]["isError"], true, "{failed}");
    let broken = client.send(&job(&json!({ "short": true, "break": true }))).json();
    assert_eq!(broken["error"], json!({ "code": -32603, "message": "broke" }), "{broken}");

    let mut asks = job(&json!({ "short": true, "ask": true }));
    asks["params"]["_meta"] = json!({ "progressToken": "t" });
    let came = conversed(&client, &asks);
    let questions = came.iter().filter(|message| message["method"] == "elicitation/create");
    assert_eq!(questions.count(), 1, "it is asked once: {came:?}");
    assert_eq!(said(came.last().unwrap())["action"], "accept", "{came:?}");
    let progress = came.iter().filter(|message| message["method"] == "notifications/progress");
    let steps: Vec<_> = progress.map(|one| one["params"]["progress"].as_f64().unwrap()).collect();
    assert!(!steps.is_empty() && steps.is_sorted_by(|a, b| a < b), "{came:?}");
    assert_eq!(peer.gate.admitted("job"), 4, "each is one call");

    let all = Client { path: "/mcp".to_owned(), ..peer.client.clone() };
    let prefixed = json!({ "name": "peer__job", "arguments": { "short": true } });
    let done = older(&all, &json!({})).send(&request("tools/call", &prefixed)).json();
    assert_eq!(said(&done)["n"], 7, "{done}");

    let unable = older(&peer.client, &json!({}));
    let refused = unable.send(&job(&json!({ "ask": true }))).json();
    assert_eq!(refused["error"]["code"], -32021, "{refused}");
    until_cancelled(&unable, "task-0");
    peer.gate.verify();
}

/// Waits until the server has received a cancellation of the task.
fn until_cancelled(client: &Client, task: &str) {
    let told = request("tools/call", &json!({ "name": "cancelled" }));
    until("the task is cancelled", Duration::from_secs(10), || {
        said(&client.send(&told).json()) == task
    });
}

#[test]
fn a_newer_servers_task_is_cancelled_when_its_older_client_disconnects() {
    let peer = peer_gate("modern");
    for (calls, hangs_up) in [(1, false), (2, true)] {
        // The task waits for its server request: this client receives it and never answers.
        let client = older(&peer.client, &json!({ "elicitation": {} }));
        let body = job(&json!({ "ask": true })).to_string();
        let mut stream = TcpStream::connect(("127.0.0.1", client.port)).unwrap();
        stream.write_all(&client.request(body.as_bytes(), "")).unwrap();
        let mut stream = BufReader::new(stream);
        assert_eq!(event(&mut stream)["method"], "elicitation/create");
        assert_eq!(peer.gate.admitted("job"), calls);
        if hangs_up {
            drop(stream);
        } else {
            let back = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } });
            assert_eq!(client.send(&back).status, 202);
        }
        until_cancelled(&client, "task-0");
    }
}

#[test]
fn an_older_client_that_requests_a_task_follows_that_of_a_newer_server() {
    let peer = peer_gate("modern");
    let client = older(&peer.client, &json!({ "elicitation": {} }));
    let tools = client.send(&request("tools/list", &json!({}))).json();
    let all = tools["result"]["tools"].as_array().unwrap();
    assert!(all.iter().all(|tool| tool["execution"]["taskSupport"] == "optional"), "{tools}");
    let follow = |method: &str, task: &Value| client.send(&request(method, task)).json();

    for (arguments, status) in [
        (json!({}), "completed"),
        (json!({ "fail": true }), "failed"),
        (json!({ "break": true }), "failed"),
    ] {
        let task = begun(&client, &arguments);
        let first = follow("tasks/get", &task);
        assert_eq!(first["result"]["status"], "working", "{first}");
        assert_eq!(first["result"]["ttl"], 60000, "{first}");
        let last = follow("tasks/result", &task);
        if arguments.get("break").is_some() {
            assert_eq!(last["error"]["message"], "broke", "{last}");
        } else {
            assert_eq!(last["result"]["_meta"][RELATED], task, "{last}");
            assert_eq!(said(&last)["n"], 7, "{last}");
        }
        let ended = follow("tasks/get", &task);
        assert_eq!(ended["result"]["status"], status, "{ended}");
        assert!(ended["result"].get("result").is_none(), "{ended}");
        let late = follow("tasks/cancel", &task);
        assert_eq!(late["error"]["code"], -32602, "it has ended: {late}");
    }

    let task = begun(&client, &json!({}));
    let cancelled = follow("tasks/cancel", &task);
    assert_eq!(cancelled["result"]["status"], "cancelled", "{cancelled}");
    let never = follow("tasks/result", &task);
    assert!(never["error"]["message"].as_str().unwrap().contains("cancelled"), "{never}");

    let task = begun(&client, &json!({ "ask": true, "short": true }));
    until("it asks", Duration::from_secs(10), || {
        follow("tasks/get", &task)["result"]["status"] == "input_required"
    });
    let came = conversed(&client, &request("tasks/result", &task));
    assert_eq!(came[0]["method"], "elicitation/create", "{came:?}");
    assert_eq!(came[0]["params"]["_meta"][RELATED], task, "{came:?}");
    assert_eq!(said(came.last().unwrap())["action"], "accept", "{came:?}");
    peer.gate.verify();
}

#[test]
fn an_immediate_result_of_a_newer_server_is_a_task_if_one_was_requested() {
    let peer = peer_gate("modern");
    let client = older(&peer.client, &json!({}));
    let begun = client.send(&as_task(&json!({ "now": true }))).json();
    let task = json!({ "taskId": begun["result"]["task"]["taskId"] });
    assert_eq!(begun["result"]["task"]["status"], "working", "{begun}");
    let follow = |client: &Client, method: &str| client.send(&request(method, &task)).json();
    assert_eq!(follow(&client, "tasks/get")["result"]["status"], "completed");
    for _ in 0..2 {
        let result = follow(&client, "tasks/result");
        assert_eq!(said(&result), "at once", "{result}");
        assert_eq!(result["result"]["_meta"][RELATED], task, "{result}");
    }
    assert_eq!(follow(&client, "tasks/cancel")["error"]["code"], -32602);
    let other = peer.gate.grant("other", &["peer=rules"]);
    let other = older(&peer.gate.client(&other, "/mcp/peer"), &json!({}));
    assert_eq!(follow(&other, "tasks/result")["error"]["code"], -32602);
    peer.gate.verify();
}

#[test]
fn an_older_client_gets_the_status_of_a_task_of_a_newer_server() {
    let peer = peer_gate("modern");
    let client = older(&peer.client, &json!({}));
    let mut stream = BufReader::new(client.open("GET"));
    stream.get_ref().set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let task = begun(&client, &json!({}));
    // The server sends notifications during the call.
    std::thread::sleep(Duration::from_millis(500));
    for _ in 0..2 {
        client.send(&request("tasks/get", &task));
    }
    let news = event(&mut stream);
    assert_eq!(news["method"], "notifications/tasks/status", "{news}");
    let told = &news["params"];
    assert_eq!((&told["taskId"], &told["status"]), (&task["taskId"], &json!("completed")));
    assert_eq!(told["ttl"], 60000, "{news}");
    assert!(told.get("result").is_none() && told.get("_meta").is_none(), "{news}");
    peer.gate.verify();
}

#[test]
fn only_clients_of_2025_11_25_are_offered_tasks() {
    let peer = peer_gate("modern");
    for (revision, offered) in [("2025-11-25", true), ("2025-06-18", false)] {
        let hello = request(
            "initialize",
            &json!({ "protocolVersion": revision, "capabilities": {}, "clientInfo": { "name": "c", "version": "1" } }),
        );
        let hello = peer.client.send(&hello).json();
        let tasks = &hello["result"]["capabilities"]["tasks"];
        assert_eq!(tasks["requests"]["tools"]["call"].is_object(), offered, "{hello}");
        assert!(tasks.get("list").is_none(), "{hello}");
    }
}

#[test]
fn a_task_of_a_newer_server_belongs_to_its_grant_and_is_redacted_like_its_tool() {
    let rules = json!({
        "version": "1", "default": "deny",
        "tools": { "job": { "redact": ["secret"] }, "cancelled": {} },
    });
    let peer = peer_gate_with("modern", &rules, "");
    let client = older(&peer.client, &json!({}));
    let other = peer.gate.grant("other", &["peer=rules"]);
    let other = older(&peer.gate.client(&other, "/mcp/peer"), &json!({}));
    let plain = client.send(&job(&json!({ "short": true }))).json();
    assert!(said(&plain)["n"] == 7 && said(&plain).get("secret").is_none(), "{plain}");
    let task = begun(&client, &json!({ "short": true }));
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        let refused = other.send(&request(method, &task)).json();
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
    }
    let last = client.send(&request("tasks/result", &task)).json();
    assert!(said(&last)["n"] == 7 && said(&last).get("secret").is_none(), "{last}");
}
