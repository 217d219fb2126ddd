//! A task belongs to its grant and session: across restarts, in lists, and whatever ids a server uses.

use std::time::Duration;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::eras::{older, request};
use crate::http_client::Client;
use crate::invalid_responses::told;
use crate::recorder::Recorder;
use crate::test_gate::{Gate, until};

/// A gate with the grants `a` and `b`; an address in the results of `red` is redacted.
fn world() -> (Gate, Recorder, Client, Client) {
    let mut gate = Gate::new();
    let recorder = Recorder::new(&["plain", "red", "gone"]);
    let red = json!({ "redact": ["email"] });
    let rules = json!({ "version": "1", "default": "allow", "tools": { "red": red } });
    gate.policy("rules", &rules);
    gate.run(&["server", "add", "rec", "--url", &recorder.url()]);
    let [a, b] = ["a", "b"].map(|label| gate.grant(label, &["rec=rules"]));
    gate.up();
    let (a, b) = (gate.client(&a, "/mcp/rec"), gate.client(&b, "/mcp/rec"));
    (gate, recorder, a, b)
}

fn says(recorder: &Recorder, result: &Value) {
    let message = format!(r#"{{json}}{{"jsonrpc":"2.0","id":{{id}},"result":{result}}}"#);
    recorder.lie(Some(told(&message)));
}

fn ask(client: &Client, method: &str, params: &Value) -> Value {
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    client.send(&request).json()
}

/// The server makes a task of a call of this tool.
fn begin(recorder: &Recorder, client: &Client, tool: &str, id: &str) -> Value {
    says(recorder, &json!({ "task": task(id) }));
    let begun = ask(client, "tools/call", &json!({ "name": tool, "arguments": {}, "task": {} }));
    assert_eq!(begun["result"]["task"]["taskId"], id, "{begun}");
    begun
}

fn task(id: &str) -> Value {
    json!({ "taskId": id, "status": "working", "statusMessage": "LEAK", "ttl": 60000 })
}

/// The result of a task.
fn done() -> Value {
    json!({ "content": [], "structuredContent": { "email": "LEAK", "name": "GOOD" } })
}

fn result_of(recorder: &Recorder, client: &Client, id: &str) -> String {
    says(recorder, &done());
    ask(client, "tasks/result", &json!({ "taskId": id })).to_string()
}

fn is_refused(answer: &str) -> bool {
    answer.contains("unknown task") && !answer.contains("GOOD")
}

#[test]
fn a_task_belongs_to_its_grant_after_a_restart_and_an_unknown_one_to_none() {
    let (mut gate, recorder, a, b) = world();
    begin(&recorder, &a, "red", "t1");
    // In a session, whose id the gate forgets when it ends.
    let session = a.with_session();
    begin(&recorder, &session, "red", "t2");
    assert!(is_refused(&result_of(&recorder, &a, "t2")), "another conversation of the grant");
    gate.stop();
    gate.up();
    let [a, b] = [a, b].map(|client| Client { port: gate.port, ..client });
    for id in ["t1", "t2", "unknown"] {
        let answer = result_of(&recorder, &b, id);
        assert!(is_refused(&answer), "{id}: {answer}");
        let answer = result_of(&recorder, &a, id);
        if id == "unknown" {
            assert!(is_refused(&answer), "{answer}");
        } else {
            assert!(answer.contains("GOOD") && !answer.contains("LEAK"), "{id}: {answer}");
        }
    }
    gate.verify();
}

#[test]
fn a_task_from_before_a_kill_still_belongs_to_its_grant() {
    let (mut gate, recorder, a, b) = world();
    begin(&recorder, &a, "red", "t1");
    // The owner is stored off the path of the call.
    let stored = || std::fs::read(gate.home.join("gate.db-wal")).unwrap_or_default();
    until("the owner is stored", Duration::from_secs(10), || {
        stored().windows(3).any(|bytes| bytes == b"red")
    });
    gate.kill();
    gate.up();
    let [a, b] = [a, b].map(|client| Client { port: gate.port, ..client });
    let answer = result_of(&recorder, &a, "t1");
    assert!(answer.contains("GOOD") && !answer.contains("LEAK"), "{answer}");
    assert!(is_refused(&result_of(&recorder, &b, "t1")));
}

/// Another process on the home, such as a second gate, may get requests about the task.
/// The server may work on it long after its client closed the stream.
#[test]
fn a_session_with_a_task_is_not_ended_as_gone() {
    let (mut gate, recorder, _, _) = world();
    gate.settings("[limits]\nsession_gone_seconds_max = 1\n");
    gate.stop();
    gate.up();
    let token = gate.grant("c", &["rec=rules"]);
    let client = older(&gate.client(&token, "/mcp/rec"), &json!({}));
    begin(&recorder, &client, "plain", "task-1");
    std::thread::sleep(Duration::from_secs(3));
    says(&recorder, &task("task-1"));
    let answer = client.send(&request("tasks/get", &json!({ "taskId": "task-1" })));
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[test]
fn a_task_of_another_process_on_the_home_belongs_to_its_grant_there_too() {
    let (mut gate, recorder, a, b) = world();
    let (first, first_port) = (gate.child.take(), gate.port);
    gate.up();
    assert_ne!(gate.port, first_port);
    let [there_a, there_b] = [&a, &b].map(|one| Client { port: gate.port, ..one.clone() });
    assert!(is_refused(&result_of(&recorder, &there_a, "t1")), "it was not created yet");
    begin(&recorder, &a, "red", "t1");
    until("the other process knows it", Duration::from_secs(10), || {
        let answer = result_of(&recorder, &there_a, "t1");
        answer.contains("GOOD") && !answer.contains("LEAK")
    });
    assert!(is_refused(&result_of(&recorder, &there_b, "t1")));
    // A process that has not seen the task yet does not let another grant own it either.
    begin(&recorder, &a, "red", "t2");
    let stored = || std::fs::read(gate.home.join("gate.db-wal")).unwrap_or_default();
    let hash = Sha256::digest("t2").into_iter().map(|byte| format!("{byte:02x}"));
    let hash = hash.collect::<Vec<_>>().concat();
    until("the owner is stored", Duration::from_secs(10), || {
        stored().windows(hash.len()).any(|bytes| bytes == hash.as_bytes())
    });
    // Others see it once it is flushed, too.
    std::thread::sleep(Duration::from_secs(1));
    begin(&recorder, &there_b, "plain", "t2");
    let answer = result_of(&recorder, &there_b, "t2");
    assert!(is_refused(&answer), "{answer}");
    gate.stop();
    gate.child = first;
}

#[test]
fn a_list_of_tasks_has_only_own_tasks_of_allowed_tools() {
    let (gate, recorder, a, b) = world();
    begin(&recorder, &a, "red", "own");
    begin(&recorder, &a, "gone", "hidden");
    begin(&recorder, &b, "plain", "anothers");
    let red = json!({ "redact": ["email"] });
    let tools = json!({ "red": red, "gone": { "action": "hide" } });
    gate.policy("rules", &json!({ "version": "1", "default": "allow", "tools": tools }));
    until("the policy applies", Duration::from_secs(10), || {
        is_refused(&result_of(&recorder, &a, "hidden"))
    });
    let all: Vec<Value> = ["own", "hidden", "anothers", "unknown"].map(task).to_vec();
    says(&recorder, &json!({ "tasks": all, "nextCursor": "next", "about": "anothers" }));
    let listed = ask(&a, "tasks/list", &json!({}));
    let tasks = listed["result"]["tasks"].as_array().unwrap();
    assert_eq!(tasks.len(), 1, "{listed}");
    assert_eq!((&tasks[0]["taskId"], &tasks[0]["status"]), (&json!("own"), &json!("working")));
    assert_eq!(listed["result"]["nextCursor"], "next", "{listed}");
    for word in ["LEAK", "hidden", "anothers", "unknown"] {
        assert!(!listed.to_string().contains(word), "{word}: {listed}");
    }
    let listed = ask(&b, "tasks/list", &json!({}));
    assert_eq!(listed["result"]["tasks"], json!([task("anothers")]), "{listed}");
}

#[test]
fn one_id_in_two_sessions_is_two_tasks_with_separate_redaction() {
    let (_gate, recorder, a, b) = world();
    let hello = json!({
        "protocolVersion": "2025-11-25", "capabilities": { "tools": {}, "tasks": {} },
        "serverInfo": { "name": "rec", "version": "1" },
    });
    let hello = format!(r#"{{"jsonrpc":"2.0","id":{{id}},"result":{hello}}}"#);
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nmcp-session-id: own\r\nconnection: close\r\n\r\n";
    recorder.lie_to_hello(Some(format!("{head}{hello}").into_bytes()));
    let [first, second, third] = [&a, &a, &b].map(Client::with_session);
    begin(&recorder, &first, "red", "task-1");
    begin(&recorder, &second, "plain", "task-1");
    begin(&recorder, &third, "plain", "task-1");
    let answer = result_of(&recorder, &first, "task-1");
    assert!(answer.contains("GOOD") && !answer.contains("LEAK"), "{answer}");
    for plain in [&second, &third] {
        let answer = result_of(&recorder, plain, "task-1");
        assert!(answer.contains("GOOD") && answer.contains("LEAK"), "{answer}");
    }
}

#[test]
fn a_grant_cannot_take_over_a_task_on_a_shared_server() {
    let (_gate, recorder, a, b) = world();
    begin(&recorder, &a, "red", "task-1");
    begin(&recorder, &b, "plain", "task-1");
    let answer = result_of(&recorder, &b, "task-1");
    assert!(is_refused(&answer), "{answer}");
    // Nor can the grant itself bypass the redaction with another tool or in another session.
    begin(&recorder, &a, "plain", "task-1");
    begin(&recorder, &a.with_session(), "plain", "task-1");
    let answer = result_of(&recorder, &a, "task-1");
    assert!(answer.contains("GOOD") && !answer.contains("LEAK"), "{answer}");
}

#[test]
fn no_text_of_a_task_bypasses_the_redaction_of_its_tool() {
    let (_gate, recorder, a, _) = world();
    let session = a.with_session();
    let begun = begin(&recorder, &session, "red", "t1");
    assert!(!begun.to_string().contains("LEAK"), "{begun}");
    says(&recorder, &task("t1"));
    let got = ask(&session, "tasks/get", &json!({ "taskId": "t1" }));
    assert_eq!(got["result"]["status"], "working", "{got}");
    assert!(!got.to_string().contains("LEAK"), "{got}");
    // Task notifications during another call: the caller's own without text, those of others not at all.
    let news = |id: &str| {
        let params = task(id);
        json!({ "jsonrpc": "2.0", "method": "notifications/tasks/status", "params": params })
    };
    let last = r#"{"jsonrpc":"2.0","id":{id},"result":{"content":[]}}"#;
    let stream = format!("data: {}%0A%0Adata: {}%0A%0A", news("t1"), news("anothers"));
    recorder.lie(Some(told(&format!("{{sse}}{stream}data: {last}%0A%0A"))));
    let heard = session.call("plain", &json!({})).text();
    assert!(heard.contains("notifications/tasks/status"), "{heard}");
    assert!(!heard.contains("LEAK") && !heard.contains("anothers"), "{heard}");
}
