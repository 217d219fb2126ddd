//! Tasks that a newer server makes of calls, in front of older clients: those that know no tasks, and those
//! that know the ones of 2025-11-25.

use std::io::{BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use crate::door::Client;
use crate::eras::{conversed, event, older, request, said, stage, stage_under};
use crate::world::until;

const RELATED: &str = "io.modelcontextprotocol/related-task";

fn job(arguments: &Value) -> Value {
    request("tools/call", &json!({ "name": "job", "arguments": arguments }))
}

fn as_task(arguments: &Value) -> Value {
    let mut call = job(arguments);
    call["params"]["task"] = json!({ "ttl": 60000 });
    call
}

/// Begins a task as clients of 2025-11-25 do, and gives what follows it up.
fn begun(client: &Client, arguments: &Value) -> Value {
    let begun = client.send(&as_task(arguments)).json();
    let task = &begun["result"]["task"];
    assert_eq!(task["status"], "working", "{begun}");
    assert_eq!((&task["ttl"], &task["pollInterval"]), (&json!(60000), &json!(50)), "{begun}");
    assert!(begun["result"].get("resultType").is_none(), "{begun}");
    json!({ "taskId": task["taskId"] })
}

#[test]
fn an_older_client_that_knows_no_tasks_waits_for_what_a_newer_servers_task_comes_to() {
    let stage = stage("modern");
    let client = older(&stage.client, &json!({ "elicitation": {} }));
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
    assert_eq!(stage.gate.admitted("job"), 4, "each is one call");

    let all = Client { path: "/mcp".to_owned(), ..stage.client.clone() };
    let prefixed = json!({ "name": "peer.job", "arguments": { "short": true } });
    let done = older(&all, &json!({})).send(&request("tools/call", &prefixed)).json();
    assert_eq!(said(&done)["n"], 7, "{done}");

    let unable = older(&stage.client, &json!({}));
    let refused = unable.send(&job(&json!({ "ask": true }))).json();
    assert_eq!(refused["error"]["code"], -32021, "{refused}");
    until_cancelled(&unable, "task-0");
    stage.gate.verify();
}

/// Waits until the server was told to end a task.
fn until_cancelled(client: &Client, task: &str) {
    let told = request("tools/call", &json!({ "name": "cancelled" }));
    until("the task is cancelled", Duration::from_secs(10), || {
        said(&client.send(&told).json()) == task
    });
}

#[test]
fn a_newer_servers_task_whose_older_client_is_gone_is_cancelled() {
    let stage = stage("modern");
    for (calls, hangs_up) in [(1, false), (2, true)] {
        // It hangs in its question: this client takes it, and never answers.
        let client = older(&stage.client, &json!({ "elicitation": {} }));
        let body = job(&json!({ "ask": true })).to_string();
        let mut stream = TcpStream::connect(("127.0.0.1", client.port)).unwrap();
        stream.write_all(&client.request(body.as_bytes(), "")).unwrap();
        let mut stream = BufReader::new(stream);
        assert_eq!(event(&mut stream)["method"], "elicitation/create");
        assert_eq!(stage.gate.admitted("job"), calls);
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
fn an_older_client_that_asks_for_a_task_follows_the_one_of_a_newer_server() {
    let stage = stage("modern");
    let client = older(&stage.client, &json!({ "elicitation": {} }));
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
    stage.gate.verify();
}

#[test]
fn what_a_newer_server_answers_at_once_is_a_task_for_who_asked_for_one() {
    let stage = stage("modern");
    let client = older(&stage.client, &json!({}));
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
    let other = stage.gate.grant("other", &["peer=rules"]);
    let other = older(&stage.gate.client(&other, "/mcp/peer"), &json!({}));
    assert_eq!(follow(&other, "tasks/result")["error"]["code"], -32602);
    stage.gate.verify();
}

#[test]
fn an_older_client_hears_how_a_task_of_a_newer_server_stands() {
    let stage = stage("modern");
    let client = older(&stage.client, &json!({}));
    let mut stream = BufReader::new(client.open("GET"));
    stream.get_ref().set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let task = begun(&client, &json!({}));
    // Its server is asked to tell beside the call.
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
    stage.gate.verify();
}

#[test]
fn only_clients_of_2025_11_25_are_offered_tasks() {
    let stage = stage("modern");
    for (revision, offered) in [("2025-11-25", true), ("2025-06-18", false)] {
        let hello = request(
            "initialize",
            &json!({ "protocolVersion": revision, "capabilities": {}, "clientInfo": { "name": "c", "version": "1" } }),
        );
        let hello = stage.client.send(&hello).json();
        let tasks = &hello["result"]["capabilities"]["tasks"];
        assert_eq!(tasks["requests"]["tools"]["call"].is_object(), offered, "{hello}");
        assert!(tasks.get("list").is_none(), "{hello}");
    }
}

#[test]
fn a_task_of_a_newer_server_is_its_grants_and_cut_as_its_tool_is() {
    let rules = json!({
        "version": "1", "default": "deny",
        "tools": { "job": { "redact": ["secret"] }, "cancelled": {} },
    });
    let stage = stage_under("modern", &rules, "");
    let client = older(&stage.client, &json!({}));
    let other = stage.gate.grant("other", &["peer=rules"]);
    let other = older(&stage.gate.client(&other, "/mcp/peer"), &json!({}));
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
