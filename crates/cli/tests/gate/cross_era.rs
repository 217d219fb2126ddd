//! Features that only one era has: URL elicitation, tasks, missing capabilities.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use crate::decisions::held;
use crate::eras::{
    Answers, PeerGate, all, answered, ask, conversed, event, listened, listened_with, newer, older,
    peer_gate, peer_gate_over_http, peer_gate_with, request, said,
};
use crate::http_client::Client;
use crate::test_gate::until;

#[test]
fn a_newer_client_gets_the_url_elicitation_of_an_older_servers_error() {
    let peer = peer_gate("legacy");
    let takes = json!({ "elicitation": { "url": {} } });
    let call = newer("tools/call", &json!({ "name": "opens", "arguments": {} }), &takes);
    let asked = ask(&peer.client, &call);
    let question = &asked["result"]["inputRequests"]["address-1"];
    assert_eq!(question["method"], "elicitation/create", "{asked}");
    let params = json!({ "mode": "url", "message": "go", "url": "https://example.com" });
    assert_eq!(question["params"], params);

    let again = answered(&call, &asked, &json!({ "action": "accept" }));
    assert_eq!(said(&ask(&peer.client, &again)), 2, "the call was sent once more");
    let used = ask(&peer.client, &again);
    assert_eq!(used["error"]["code"], -32602, "{used}");
    for _ in 0..2 {
        assert!(said(&ask(&peer.client, &call)).is_number(), "three calls are allowed");
    }
    let fourth = ask(&peer.client, &call);
    assert_eq!(fourth["result"]["_meta"]["tollgate/denial"]["code"], "rate_limited", "{fourth}");
    peer.gate.verify();
}

#[test]
fn a_declined_url_elicitation_ends_the_call() {
    let peer = peer_gate("legacy");
    let takes = json!({ "elicitation": { "url": {} } });
    let arguments = json!({ "name": "opens", "arguments": { "never": true } });
    let call = newer("tools/call", &arguments, &takes);
    let asked = ask(&peer.client, &call);
    let declined = ask(&peer.client, &answered(&call, &asked, &json!({ "action": "decline" })));
    assert_eq!(declined["result"]["isError"], true, "{declined}");
    let asked = ask(&peer.client, &call);
    let still = ask(&peer.client, &answered(&call, &asked, &json!({ "action": "accept" })));
    assert_eq!(still["result"]["resultType"], "input_required", "{still}");

    let unable = ask(&peer.client, &newer("tools/call", &arguments, &json!({ "elicitation": {} })));
    check_unable(&unable, &json!({ "elicitation": { "url": {} } }));
    peer.gate.verify();
}

fn check_unable(answer: &Value, needs: &Value) {
    assert_eq!(answer["error"]["code"], -32021, "{answer}");
    assert_eq!(&answer["error"]["data"]["requiredCapabilities"], needs, "{answer}");
}

#[test]
fn a_call_that_needs_a_missing_client_capability_reports_it() {
    let peer = peer_gate("legacy");
    let call =
        |takes| ask(&peer.client, &newer("tools/call", &json!({ "name": "strict" }), &takes));
    check_unable(&call(json!({})), &json!({ "sampling": {} }));
    check_unable(&call(json!({ "elicitation": {} })), &json!({ "sampling": {} }));
    let asked = call(json!({ "sampling": {} }));
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    peer.gate.verify();
}

#[test]
fn an_older_client_gets_the_url_elicitation_of_a_newer_server() {
    let peer = peer_gate("modern");
    let call = request("tools/call", &json!({ "name": "address", "arguments": {} }));
    let able = older(&peer.client, &json!({ "elicitation": { "url": {} } }));
    let came = conversed(&able, &call);
    assert_eq!(came[0]["method"], "elicitation/create", "{came:?}");
    assert!(came[0]["params"]["elicitationId"].is_string(), "{came:?}");
    assert_eq!(said(&came[1])["action"], "accept", "{came:?}");

    let unable = older(&peer.client, &json!({ "elicitation": {} }));
    check_unable(&unable.send(&call).json(), &json!({ "elicitation": { "url": {} } }));
}

#[test]
fn progress_grows_also_after_a_wait_for_a_human() {
    let rules = json!({
        "version": "1", "default": "deny", "tools": { "logs": { "action": "require_approval" } },
    });
    for era in ["modern", "legacy"] {
        let peer = peer_gate_with(era, &rules, "[limits]\napproval_hold_ms = 60000\n");
        let mut call = newer("tools/call", &json!({ "name": "logs" }), &json!({}));
        call["params"]["_meta"]["progressToken"] = json!("t");
        let came = std::thread::scope(|scope| {
            let calling = scope.spawn(|| all(&peer.client, &call));
            // The first progress about the wait is sent before a decision is possible.
            let id = held(&peer.gate, "agent");
            std::thread::sleep(Duration::from_millis(500));
            peer.gate.run(&["approvals", "approve", "--yes", &id]);
            calling.join().unwrap()
        });
        let progress = came.iter().filter(|message| message["method"] == "notifications/progress");
        let steps: Vec<_> =
            progress.map(|one| one["params"]["progress"].as_f64().unwrap()).collect();
        assert!(steps.len() > 1 && steps.is_sorted_by(|a, b| a < b), "{era}: {came:?}");
        assert_eq!(said(came.last().unwrap()), "logged", "{era}: {came:?}");
    }
}

#[test]
fn concurrent_requests_of_an_older_server_reach_a_newer_client_together() {
    let takes = json!({ "elicitation": {}, "sampling": { "tools": {} } });
    let call = newer("tools/call", &json!({ "name": "several", "arguments": {} }), &takes);
    let declined = json!({ "action": "decline" });
    for peer in [
        peer_gate("legacy"),
        peer_gate_over_http(Answers::InAStream),
        peer_gate_over_http(Answers::InOneMessage),
    ] {
        let asked = ask(&peer.client, &call);
        assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
        let requests = asked["result"]["inputRequests"].as_object().unwrap();
        let mut methods: Vec<_> = requests.values().map(|one| &one["method"]).collect();
        methods.sort_by_key(|method| method.as_str());
        assert_eq!(methods, ["elicitation/create", "sampling/createMessage"], "{asked}");
        let answers: Value = requests.keys().map(|key| (key.clone(), declined.clone())).collect();
        let mut again = answered(&call, &asked, &declined);
        again["params"]["inputResponses"] = answers;
        let done = ask(&peer.client, &again);
        assert_eq!(said(&done), json!({ "form": declined, "model": declined }), "{done}");

        let asked = ask(&peer.client, &call);
        let rest = ask(&peer.client, &answered(&call, &asked, &declined));
        let left = rest["result"]["inputRequests"].as_object().unwrap();
        assert_eq!(left.len(), 1, "one is answered: {rest}");
        let done = ask(&peer.client, &answered(&call, &rest, &declined));
        assert_eq!(said(&done), json!({ "form": declined, "model": declined }), "{done}");

        let only = newer("tools/call", &call["params"], &json!({ "elicitation": {} }));
        let asked = ask(&peer.client, &only);
        let left = asked["result"]["inputRequests"].as_object().unwrap();
        assert_eq!(left.len(), 1, "what it does not take, it is not asked: {asked}");
        let done = ask(&peer.client, &answered(&only, &asked, &declined));
        assert_eq!(said(&done)["form"], declined, "{done}");
        assert!(said(&done)["model"]["code"].is_number(), "{done}");
        peer.gate.verify();
    }
}

/// The response to a call whose client accepts every server request. It is unknown for which call an older
/// server asks, so one client may get the requests of all in-flight calls.
fn answer_after_questions(peer: &PeerGate, call: &Value, under_way: usize) -> Value {
    let accepted = json!({ "action": "accept", "content": "bob" });
    let mut answer = ask(&peer.client, call);
    for _ in 0..under_way {
        if answer["result"]["resultType"] != "input_required" {
            break;
        }
        answer = ask(&peer.client, &answered(call, &answer, &accepted));
    }
    answer
}

#[test]
fn many_concurrent_calls_share_the_requests_of_an_older_server() {
    const CALLS: usize = 12;
    let peer = peer_gate("legacy");
    let takes = json!({ "elicitation": {} });
    let call = newer("tools/call", &json!({ "name": "form", "arguments": {} }), &takes);
    std::thread::scope(|scope| {
        let answer = || answer_after_questions(&peer, &call, CALLS);
        let calls: Vec<_> = (0..CALLS).map(|_| scope.spawn(answer)).collect();
        for call in calls {
            let answer = call.join().unwrap();
            assert_eq!(said(&answer)["content"], "bob", "{answer}");
        }
    });
    peer.gate.verify();
}

/// The second call is the newest, so its client gets the server request of the first one, and then its own
/// response.
#[test]
fn a_call_that_ends_first_does_not_lose_the_server_request_of_another() {
    let takes = json!({ "elicitation": {} });
    let form = json!({ "name": "form", "arguments": { "after_hold": true } });
    let form = newer("tools/call", &form, &takes);
    let hold = json!({ "name": "hold", "arguments": { "until": "asks" } });
    let hold = newer("tools/call", &hold, &takes);
    for peer in [peer_gate("legacy"), peer_gate_over_http(Answers::InOneMessage)] {
        std::thread::scope(|scope| {
            let first = scope.spawn(|| answer_after_questions(&peer, &form, 2));
            until("the first is admitted", Duration::from_secs(10), || {
                !peer.gate.decisions().is_empty()
            });
            let answer = answer_after_questions(&peer, &hold, 2);
            assert_eq!(said(&answer), "held", "{answer}");
            let first = first.join().unwrap();
            assert_eq!(said(&first)["content"], "bob", "{first}");
        });
        peer.gate.verify();
    }
}

#[test]
fn pending_server_requests_have_a_memory_limit() {
    let takes = json!({ "elicitation": {} });
    let form = json!({ "name": "form", "arguments": { "mebibytes": 5 } });
    let form = newer("tools/call", &form, &takes);
    for peer in [peer_gate("legacy"), peer_gate_over_http(Answers::InAStream)] {
        let first = ask(&peer.client, &form);
        assert_eq!(first["result"]["resultType"], "input_required", "{}", first["error"]);
        let second = ask(&peer.client, &form);
        assert_eq!(second["error"]["code"], -32603, "{}", second["result"]["resultType"]);
        let words = second["error"]["message"].as_str().unwrap();
        assert!(words.contains("answer some of them first"), "{words}");

        let accepted = json!({ "action": "accept", "content": "bob" });
        let done = ask(&peer.client, &answered(&form, &first, &accepted));
        assert_eq!(said(&done)["content"], "bob", "{done}");
        let third = ask(&peer.client, &form);
        assert_eq!(third["result"]["resultType"], "input_required", "{}", third["error"]);
        peer.gate.verify();
    }
}

/// A request about a task, in the newer era.
fn follow_up(peer: &PeerGate, method: &str, task: &str) -> Value {
    let takes = json!({ "extensions": { TASKS: {} } });
    ask(&peer.client, &newer(method, &json!({ "taskId": task }), &takes))
}

fn begun(peer: &PeerGate, arguments: &Value) -> String {
    let takes = json!({ "extensions": { TASKS: {} } });
    let job = json!({ "name": "job", "arguments": arguments });
    let begun = ask(&peer.client, &newer("tools/call", &job, &takes));
    let task = &begun["result"];
    assert_eq!(task["resultType"], "task", "{begun}");
    assert_eq!((&task["ttlMs"], &task["pollIntervalMs"]), (&json!(60000), &json!(50)), "{begun}");
    task["taskId"].as_str().unwrap().to_owned()
}

const TASKS: &str = "io.modelcontextprotocol/tasks";

#[test]
fn a_newer_client_follows_a_task_of_an_older_server() {
    for peer in [peer_gate("legacy"), peer_gate_over_http(Answers::InAStream)] {
        let found = ask(&peer.client, &newer("server/discover", &json!({}), &json!({})));
        assert!(found["result"]["capabilities"]["extensions"][TASKS].is_object(), "{found}");
        for (arguments, status, came_to) in [
            (json!({}), "completed", json!({ "isError": false })),
            (json!({ "fail": true }), "completed", json!({ "isError": true })),
            (json!({ "break": true }), "failed", json!({ "code": -32603 })),
        ] {
            let task = begun(&peer, &arguments);
            let first = follow_up(&peer, "tasks/get", &task);
            assert_eq!(first["result"]["status"], "working", "{first}");
            assert_eq!(first["result"]["resultType"], "complete", "{first}");
            let last = follow_up(&peer, "tasks/get", &task);
            assert_eq!(last["result"]["status"], status, "{last}");
            let within = if status == "failed" { "error" } else { "result" };
            for (key, value) in came_to.as_object().unwrap() {
                assert_eq!(&last["result"][within][key], value, "{last}");
            }
        }
        let task = begun(&peer, &json!({}));
        let cancelled = follow_up(&peer, "tasks/cancel", &task);
        assert_eq!(cancelled["result"], json!({ "resultType": "complete" }), "{cancelled}");
        let seen = follow_up(&peer, "tasks/get", &task);
        assert_eq!(seen["result"]["status"], "cancelled", "{seen}");
        peer.gate.verify();
    }
}

#[test]
fn a_client_without_the_tasks_capability_cannot_follow_tasks_of_an_older_server() {
    let peer = peer_gate("legacy");
    let task = begun(&peer, &json!({}));
    let needs = json!({ "extensions": { TASKS: {} } });
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let call = newer(method, &json!({ "taskId": task }), &json!({ "elicitation": {} }));
        check_unable(&ask(&peer.client, &call), &needs);
    }
    let wanted = json!({ "notifications": { "taskIds": [task] } });
    check_unable(&ask(&peer.client, &newer("subscriptions/listen", &wanted, &json!({}))), &needs);
    assert_eq!(follow_up(&peer, "tasks/get", &task)["result"]["status"], "working");
    peer.gate.verify();
}

#[test]
fn a_task_of_an_older_server_belongs_to_its_grant_and_is_redacted_like_its_tool() {
    let mut peer = peer_gate("legacy");
    let rules = json!({
        "version": "1", "default": "deny",
        "tools": { "job": { "redact": ["secret"] } },
    });
    peer.gate.policy("cut", &rules);
    let cut = peer.gate.grant("cut", &["peer=cut"]);
    let other = peer.gate.grant("other", &["peer=cut"]);
    peer.client = peer.gate.client(&cut, "/mcp/peer");
    let task = begun(&peer, &json!({}));
    peer.client = peer.gate.client(&other, "/mcp/peer");
    for method in ["tasks/get", "tasks/cancel"] {
        let refused = follow_up(&peer, method, &task);
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
    }
    peer.client = peer.gate.client(&cut, "/mcp/peer");
    follow_up(&peer, "tasks/get", &task);
    let last = follow_up(&peer, "tasks/get", &task);
    let text = last["result"]["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains('7') && !text.contains("secret"), "{last}");
}

#[test]
fn a_newer_client_without_tasks_waits_for_the_result_of_the_task() {
    for peer in [
        peer_gate("legacy"),
        peer_gate_over_http(Answers::InAStream),
        peer_gate_over_http(Answers::InOneMessage),
    ] {
        let job = |arguments: Value, takes: Value| {
            newer("tools/call", &json!({ "name": "job", "arguments": arguments }), &takes)
        };
        let done = ask(&peer.client, &job(json!({ "short": true }), json!({})));
        assert_eq!(said(&done)["n"], 7, "{done}");
        let broken = ask(&peer.client, &job(json!({ "short": true, "break": true }), json!({})));
        assert_eq!(broken["error"]["message"], "broke", "{broken}");

        let asks = job(json!({ "short": true, "ask": true }), json!({ "elicitation": {} }));
        let asked = ask(&peer.client, &asks);
        let again = answered(&asks, &asked, &json!({ "action": "decline" }));
        assert_eq!(said(&ask(&peer.client, &again))["action"], "decline");
        peer.gate.verify();
    }
}

#[test]
fn a_server_request_of_an_older_servers_task_is_answered_with_an_update() {
    let peer = peer_gate("legacy");
    let takes = json!({ "elicitation": {}, "extensions": { TASKS: {} } });
    let send = |method: &str, params: &Value| ask(&peer.client, &newer(method, params, &takes));
    let job = json!({ "name": "job", "arguments": { "ask": true, "short": true } });
    let begun = send("tools/call", &job);
    let task = json!({ "taskId": begun["result"]["taskId"] });
    let early = send("tasks/update", &task);
    assert_eq!(early["error"]["code"], -32602, "{early}");
    // It is polled more than once before it is answered.
    let mut asking = Value::Null;
    for _ in 0..3 {
        asking = send("tasks/get", &task)["result"].clone();
        assert_eq!(asking["status"], "input_required", "{asking}");
        assert_eq!(asking["inputRequests"].as_object().map(serde_json::Map::len), Some(1));
    }
    let (key, question) = asking["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(question["method"], "elicitation/create", "{asking}");
    let mut update = task.clone();
    update["inputResponses"] = json!({ "other": {} });
    assert_eq!(send("tasks/update", &update)["result"], json!({ "resultType": "complete" }));
    update["inputResponses"] = json!({ key: { "action": "decline" } });
    assert_eq!(send("tasks/update", &update)["result"], json!({ "resultType": "complete" }));
    let mut done = Value::Null;
    until("the task ends", Duration::from_secs(10), || {
        done = send("tasks/get", &task)["result"].clone();
        done["status"] == "completed"
    });
    assert!(done["result"]["content"][0]["text"].as_str().unwrap().contains("decline"), "{done}");
    let late = send("tasks/update", &update);
    assert_eq!(late["error"]["code"], -32602, "{late}");
    peer.gate.verify();
}

#[test]
fn a_newer_client_gets_the_status_of_a_task_of_an_older_server() {
    for peer in [peer_gate("legacy"), peer_gate_over_http(Answers::InAStream)] {
        let takes = json!({ "elicitation": {}, "extensions": { TASKS: {} } });
        let send = |method: &str, params: &Value| ask(&peer.client, &newer(method, params, &takes));
        let asks = peer.server.is_none();
        let arguments = json!({ "ask": asks, "later": true, "short": true });
        let begun = send("tools/call", &json!({ "name": "job", "arguments": arguments }));
        let id = &begun["result"]["taskId"];
        let wanted = json!({ "taskIds": [id, "another"] });
        let (mut stream, ack) = listened_with(&peer.client, &wanted, &takes);
        assert_eq!(ack["params"]["notifications"]["taskIds"], json!([id]), "{ack}");
        if asks {
            let news = event(&mut stream);
            let asked = &news["params"];
            assert_eq!(asked["status"], "input_required", "{news}");
            let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap();
            let answers = json!({ key: { "action": "decline" } });
            send("tasks/update", &json!({ "taskId": id, "inputResponses": answers }));
        }
        let news = event(&mut stream);
        assert_eq!(news["method"], "notifications/tasks", "{news}");
        let task = &news["params"];
        assert_eq!((&task["taskId"], &task["status"]), (id, &json!("completed")), "{news}");
        assert!(task["result"]["content"].is_array() && task["ttlMs"] == 60000, "{news}");
        assert_eq!(task["_meta"]["io.modelcontextprotocol/subscriptionId"], 1, "{news}");
        peer.gate.verify();
    }
}

#[test]
fn an_abandoned_task_is_cancelled() {
    let peer = peer_gate("legacy");
    let job = newer("tools/call", &json!({ "name": "job", "arguments": {} }), &json!({}));
    let headers = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: job\r\n";
    let mut stream = TcpStream::connect(("127.0.0.1", peer.client.port)).unwrap();
    stream.write_all(&peer.client.request(job.to_string().as_bytes(), headers)).unwrap();
    until("the call is on its way", Duration::from_secs(10), || peer.gate.admitted("job") == 1);
    std::thread::sleep(Duration::from_millis(500));
    drop(stream);
    let told = newer("tools/call", &json!({ "name": "cancelled" }), &json!({}));
    until("the task is cancelled", Duration::from_secs(10), || {
        said(&ask(&peer.client, &told)) == "task-0"
    });
}

#[test]
fn extensions_cross_eras_without_free_members_of_an_older_client() {
    const UI: &str = "io.modelcontextprotocol/ui";
    let newer_one = peer_gate("modern");
    for revision in ["2025-11-25", "2025-06-18"] {
        let takes = json!({ "extensions": { UI: { "b": 2 }, "example.org/own": {}, TASKS: {} } });
        let hello = json!({
            "protocolVersion": revision, "capabilities": takes,
            "clientInfo": { "name": "older", "version": "1" },
        });
        let hello = newer_one.client.send(&request("initialize", &hello)).json();
        let offered = &hello["result"]["capabilities"]["extensions"];
        assert_eq!(offered, &json!({ UI: { "a": 1 } }), "{hello}");
        let client = older(&newer_one.client, &takes);
        let told = client.send(&request("tools/call", &json!({ "name": "capabilities" }))).json();
        assert_eq!(said(&told)["extensions"], json!({ UI: {}, TASKS: {} }), "{told}");
    }

    let older_one = peer_gate("legacy");
    let found = ask(&older_one.client, &newer("server/discover", &json!({}), &json!({})));
    let offered = &found["result"]["capabilities"]["extensions"];
    assert_eq!(offered, &json!({ UI: { "a": 1 }, TASKS: {} }), "{found}");
}

#[test]
fn two_newer_clients_of_one_grant_each_have_their_own_log_level() {
    for peer in [peer_gate("legacy"), peer_gate_over_http(Answers::InAStream)] {
        // Where methods are denied, the server gets no level.
        peer.gate.policy("rules", &json!({ "version": "1", "default": "allow" }));
        let call = |tool: &str, level: &str| {
            let mut call = newer("tools/call", &json!({ "name": tool }), &json!({}));
            call["params"]["_meta"]["progressToken"] = json!("t");
            call["params"]["_meta"]["io.modelcontextprotocol/logLevel"] = json!(level);
            all(&peer.client, &call)
        };
        let told = |level: &str| said(call("level", level).last().unwrap());
        assert_eq!(told("error"), "error");
        assert_eq!(told("debug"), "debug");
        assert_eq!(told("error"), "debug", "another client wants to hear more");
        for (level, lines) in [("debug", 1), ("error", 0), ("info", 1)] {
            let came = call("logs", level);
            let heard = came.iter().filter(|one| one["method"] == "notifications/message");
            assert_eq!(heard.count(), lines, "{level}: {came:?}");
        }
        assert_eq!(told("emergency"), "debug");
    }
}

/// What the restarted server reports that it was sent.
fn remembered(peer: &PeerGate, client: &Client, name: &str, expected: &Value) {
    let call = request("tools/call", &json!({ "name": name, "arguments": {} }));
    let mut last = Value::Null;
    until(&format!("{name} is {expected}"), Duration::from_secs(20), || {
        last = client.send(&call).json();
        said_if_any(&last).as_ref() == Some(expected)
    });
    peer.gate.verify();
}

fn said_if_any(answer: &Value) -> Option<Value> {
    answer["result"]["content"].is_array().then(|| said(answer))
}

/// A newer client requests logs with each call, for which an older server gets `logging/setLevel`.
#[test]
fn the_log_level_of_a_call_reaches_a_server_only_if_its_policy_allows_methods() {
    for (default, told) in [("deny", json!(null)), ("allow", json!("debug"))] {
        let rules = json!({ "version": "1", "default": default, "tools": { "level": {} } });
        let peer = peer_gate_with("legacy", &rules, "");
        let mut call =
            newer("tools/call", &json!({ "name": "level", "arguments": {} }), &json!({}));
        call["params"]["_meta"]["io.modelcontextprotocol/logLevel"] = json!("debug");
        assert_eq!(said(&ask(&peer.client, &call)), told, "{default}");
    }
}

#[test]
fn a_restarted_server_gets_its_subscriptions_and_log_level_again() {
    let peer = peer_gate_with("legacy", &json!({ "version": "1", "default": "allow" }), "");
    let client = older(&peer.client, &json!({}));
    for (method, params) in [
        ("logging/setLevel", json!({ "level": "error" })),
        ("resources/subscribe", json!({ "uri": "res://open" })),
    ] {
        assert!(client.send(&request(method, &params)).json()["result"].is_object(), "{method}");
    }
    client.send(&request("tools/call", &json!({ "name": "die", "arguments": {} })));
    remembered(&peer, &client, "level", &json!("error"));
    remembered(&peer, &client, "subscribed", &json!(["res://open"]));
}

#[test]
fn an_older_server_is_unsubscribed_when_no_client_wants_a_resource() {
    for peer in [peer_gate("legacy"), peer_gate_over_http(Answers::InOneMessage)] {
        let subscribed = || {
            let told = newer("tools/call", &json!({ "name": "subscribed" }), &json!({}));
            said_if_any(&ask(&peer.client, &told))
        };
        let wanted = json!({ "resourceSubscriptions": ["res://open"] });
        let first = listened(&peer.client, &wanted);
        let second = listened(&peer.client, &wanted);
        assert_eq!(subscribed(), Some(json!(["res://open"])));
        if peer.server.is_none() {
            ask(&peer.client, &newer("tools/call", &json!({ "name": "die" }), &json!({})));
            until("it is told again", Duration::from_secs(20), || {
                subscribed() == Some(json!(["res://open"]))
            });
        }
        drop(first);
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(subscribed(), Some(json!(["res://open"])), "one is left");
        drop(second);
        until("it is told", Duration::from_secs(10), || subscribed() == Some(json!([])));
    }
}
