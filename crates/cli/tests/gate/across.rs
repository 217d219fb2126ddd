//! What one era has and the other does not: addresses that a user must open, capabilities that are missing.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use crate::decisions::held;
use crate::door::Client;
use crate::eras::{
    Answers, Stage, all, answered, ask, conversed, event, listened, listened_with, newer, older,
    request, said, stage, stage_over_http, stage_under,
};
use crate::world::until;

#[test]
fn a_newer_client_is_asked_to_open_the_address_that_an_older_server_names_in_an_error() {
    let stage = stage("legacy");
    let takes = json!({ "elicitation": { "url": {} } });
    let call = newer("tools/call", &json!({ "name": "opens", "arguments": {} }), &takes);
    let asked = ask(&stage.client, &call);
    let question = &asked["result"]["inputRequests"]["address-1"];
    assert_eq!(question["method"], "elicitation/create", "{asked}");
    let params = json!({ "mode": "url", "message": "go", "url": "https://example.com" });
    assert_eq!(question["params"], params);

    let again = answered(&call, &asked, &json!({ "action": "accept" }));
    assert_eq!(said(&ask(&stage.client, &again)), 2, "the call was sent once more");
    let used = ask(&stage.client, &again);
    assert_eq!(used["error"]["code"], -32602, "{used}");
    for _ in 0..2 {
        assert!(said(&ask(&stage.client, &call)).is_number(), "three calls are allowed");
    }
    let fourth = ask(&stage.client, &call);
    assert_eq!(fourth["result"]["_meta"]["tollgate/denial"]["code"], "rate_limited", "{fourth}");
    stage.gate.verify();
}

#[test]
fn an_address_that_is_not_opened_ends_the_call() {
    let stage = stage("legacy");
    let takes = json!({ "elicitation": { "url": {} } });
    let arguments = json!({ "name": "opens", "arguments": { "never": true } });
    let call = newer("tools/call", &arguments, &takes);
    let asked = ask(&stage.client, &call);
    let declined = ask(&stage.client, &answered(&call, &asked, &json!({ "action": "decline" })));
    assert_eq!(declined["result"]["isError"], true, "{declined}");
    let asked = ask(&stage.client, &call);
    let still = ask(&stage.client, &answered(&call, &asked, &json!({ "action": "accept" })));
    assert_eq!(still["result"]["resultType"], "input_required", "{still}");

    let unable =
        ask(&stage.client, &newer("tools/call", &arguments, &json!({ "elicitation": {} })));
    check_unable(&unable, &json!({ "elicitation": { "url": {} } }));
    stage.gate.verify();
}

fn check_unable(answer: &Value, needs: &Value) {
    assert_eq!(answer["error"]["code"], -32021, "{answer}");
    assert_eq!(&answer["error"]["data"]["requiredCapabilities"], needs, "{answer}");
}

#[test]
fn a_call_that_fails_for_what_its_client_cannot_do_says_so() {
    let stage = stage("legacy");
    let call =
        |takes| ask(&stage.client, &newer("tools/call", &json!({ "name": "strict" }), &takes));
    check_unable(&call(json!({})), &json!({ "sampling": {} }));
    check_unable(&call(json!({ "elicitation": {} })), &json!({ "sampling": {} }));
    let asked = call(json!({ "sampling": {} }));
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    stage.gate.verify();
}

#[test]
fn an_older_client_opens_the_address_that_a_newer_server_names() {
    let stage = stage("modern");
    let call = request("tools/call", &json!({ "name": "address", "arguments": {} }));
    let able = older(&stage.client, &json!({ "elicitation": { "url": {} } }));
    let came = conversed(&able, &call);
    assert_eq!(came[0]["method"], "elicitation/create", "{came:?}");
    assert!(came[0]["params"]["elicitationId"].is_string(), "{came:?}");
    assert_eq!(said(&came[1])["action"], "accept", "{came:?}");

    let unable = older(&stage.client, &json!({ "elicitation": {} }));
    check_unable(&unable.send(&call).json(), &json!({ "elicitation": { "url": {} } }));
}

#[test]
fn progress_grows_also_after_a_wait_for_a_human() {
    let rules = json!({
        "version": "1", "default": "deny", "tools": { "logs": { "action": "require_approval" } },
    });
    for era in ["modern", "legacy"] {
        let stage = stage_under(era, &rules, "[limits]\napproval_hold_ms = 60000\n");
        let mut call = newer("tools/call", &json!({ "name": "logs" }), &json!({}));
        call["params"]["_meta"]["progressToken"] = json!("t");
        let came = std::thread::scope(|scope| {
            let calling = scope.spawn(|| all(&stage.client, &call));
            // The first word about the wait goes out before anybody can decide.
            let id = held(&stage.gate, "agent");
            std::thread::sleep(Duration::from_millis(500));
            stage.gate.run(&["approvals", "approve", "--yes", &id]);
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
fn what_an_older_server_asks_at_once_a_newer_client_is_asked_at_once() {
    let takes = json!({ "elicitation": {}, "sampling": { "tools": {} } });
    let call = newer("tools/call", &json!({ "name": "several", "arguments": {} }), &takes);
    let declined = json!({ "action": "decline" });
    for stage in [
        stage("legacy"),
        stage_over_http(Answers::InAStream),
        stage_over_http(Answers::InOneMessage),
    ] {
        let asked = ask(&stage.client, &call);
        assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
        let requests = asked["result"]["inputRequests"].as_object().unwrap();
        let mut methods: Vec<_> = requests.values().map(|one| &one["method"]).collect();
        methods.sort_by_key(|method| method.as_str());
        assert_eq!(methods, ["elicitation/create", "sampling/createMessage"], "{asked}");
        let answers: Value = requests.keys().map(|key| (key.clone(), declined.clone())).collect();
        let mut again = answered(&call, &asked, &declined);
        again["params"]["inputResponses"] = answers;
        let done = ask(&stage.client, &again);
        assert_eq!(said(&done), json!({ "form": declined, "model": declined }), "{done}");

        let asked = ask(&stage.client, &call);
        let rest = ask(&stage.client, &answered(&call, &asked, &declined));
        let left = rest["result"]["inputRequests"].as_object().unwrap();
        assert_eq!(left.len(), 1, "one is answered: {rest}");
        let done = ask(&stage.client, &answered(&call, &rest, &declined));
        assert_eq!(said(&done), json!({ "form": declined, "model": declined }), "{done}");

        let only = newer("tools/call", &call["params"], &json!({ "elicitation": {} }));
        let asked = ask(&stage.client, &only);
        let left = asked["result"]["inputRequests"].as_object().unwrap();
        assert_eq!(left.len(), 1, "what it does not take, it is not asked: {asked}");
        let done = ask(&stage.client, &answered(&only, &asked, &declined));
        assert_eq!(said(&done)["form"], declined, "{done}");
        assert!(said(&done)["model"]["code"].is_number(), "{done}");
        stage.gate.verify();
    }
}

/// The answer to a call whose client says yes to all that it is asked. Nothing says for which call an older
/// server asks, so one client may be asked for as many as are under way.
fn answer_after_questions(stage: &Stage, call: &Value, under_way: usize) -> Value {
    let accepted = json!({ "action": "accept", "content": "bob" });
    let mut answer = ask(&stage.client, call);
    for _ in 0..under_way {
        if answer["result"]["resultType"] != "input_required" {
            break;
        }
        answer = ask(&stage.client, &answered(call, &answer, &accepted));
    }
    answer
}

#[test]
fn many_calls_at_once_share_what_an_older_server_asks() {
    const CALLS: usize = 12;
    let stage = stage("legacy");
    let takes = json!({ "elicitation": {} });
    let call = newer("tools/call", &json!({ "name": "form", "arguments": {} }), &takes);
    std::thread::scope(|scope| {
        let answer = || answer_after_questions(&stage, &call, CALLS);
        let calls: Vec<_> = (0..CALLS).map(|_| scope.spawn(answer)).collect();
        for call in calls {
            let answer = call.join().unwrap();
            assert_eq!(said(&answer)["content"], "bob", "{answer}");
        }
    });
    stage.gate.verify();
}

/// The second call is the newest, so its client is asked what the first one needs; meanwhile it is answered.
#[test]
fn a_call_that_is_answered_meanwhile_does_not_lose_what_another_asks() {
    let takes = json!({ "elicitation": {} });
    let form = json!({ "name": "form", "arguments": { "after_hold": true } });
    let form = newer("tools/call", &form, &takes);
    let hold = json!({ "name": "hold", "arguments": { "until": "asks" } });
    let hold = newer("tools/call", &hold, &takes);
    for stage in [stage("legacy"), stage_over_http(Answers::InOneMessage)] {
        std::thread::scope(|scope| {
            let first = scope.spawn(|| answer_after_questions(&stage, &form, 2));
            until("the first is admitted", Duration::from_secs(10), || {
                !stage.gate.decisions().is_empty()
            });
            let answer = answer_after_questions(&stage, &hold, 2);
            assert_eq!(said(&answer), "held", "{answer}");
            let first = first.join().unwrap();
            assert_eq!(said(&first)["content"], "bob", "{first}");
        });
        stage.gate.verify();
    }
}

#[test]
fn questions_that_wait_for_their_clients_take_up_so_much_memory() {
    let takes = json!({ "elicitation": {} });
    let form = json!({ "name": "form", "arguments": { "mebibytes": 5 } });
    let form = newer("tools/call", &form, &takes);
    for stage in [stage("legacy"), stage_over_http(Answers::InAStream)] {
        let first = ask(&stage.client, &form);
        assert_eq!(first["result"]["resultType"], "input_required", "{}", first["error"]);
        let second = ask(&stage.client, &form);
        assert_eq!(second["error"]["code"], -32603, "{}", second["result"]["resultType"]);
        let words = second["error"]["message"].as_str().unwrap();
        assert!(words.contains("answer some of them first"), "{words}");

        let accepted = json!({ "action": "accept", "content": "bob" });
        let done = ask(&stage.client, &answered(&form, &first, &accepted));
        assert_eq!(said(&done)["content"], "bob", "{done}");
        let third = ask(&stage.client, &form);
        assert_eq!(third["result"]["resultType"], "input_required", "{}", third["error"]);
        stage.gate.verify();
    }
}

/// A request about a task, in the newer era.
fn follow_up(stage: &Stage, method: &str, task: &str) -> Value {
    let takes = json!({ "extensions": { TASKS: {} } });
    ask(&stage.client, &newer(method, &json!({ "taskId": task }), &takes))
}

fn begun(stage: &Stage, arguments: &Value) -> String {
    let takes = json!({ "extensions": { TASKS: {} } });
    let job = json!({ "name": "job", "arguments": arguments });
    let begun = ask(&stage.client, &newer("tools/call", &job, &takes));
    let task = &begun["result"];
    assert_eq!(task["resultType"], "task", "{begun}");
    assert_eq!((&task["ttlMs"], &task["pollIntervalMs"]), (&json!(60000), &json!(50)), "{begun}");
    task["taskId"].as_str().unwrap().to_owned()
}

const TASKS: &str = "io.modelcontextprotocol/tasks";

#[test]
fn a_newer_client_follows_a_task_of_an_older_server() {
    for stage in [stage("legacy"), stage_over_http(Answers::InAStream)] {
        let found = ask(&stage.client, &newer("server/discover", &json!({}), &json!({})));
        assert!(found["result"]["capabilities"]["extensions"][TASKS].is_object(), "{found}");
        for (arguments, status, came_to) in [
            (json!({}), "completed", json!({ "isError": false })),
            (json!({ "fail": true }), "completed", json!({ "isError": true })),
            (json!({ "break": true }), "failed", json!({ "code": -32603 })),
        ] {
            let task = begun(&stage, &arguments);
            let first = follow_up(&stage, "tasks/get", &task);
            assert_eq!(first["result"]["status"], "working", "{first}");
            assert_eq!(first["result"]["resultType"], "complete", "{first}");
            let last = follow_up(&stage, "tasks/get", &task);
            assert_eq!(last["result"]["status"], status, "{last}");
            let within = if status == "failed" { "error" } else { "result" };
            for (key, value) in came_to.as_object().unwrap() {
                assert_eq!(&last["result"][within][key], value, "{last}");
            }
        }
        let task = begun(&stage, &json!({}));
        let cancelled = follow_up(&stage, "tasks/cancel", &task);
        assert_eq!(cancelled["result"], json!({ "resultType": "complete" }), "{cancelled}");
        let seen = follow_up(&stage, "tasks/get", &task);
        assert_eq!(seen["result"]["status"], "cancelled", "{seen}");
        stage.gate.verify();
    }
}

#[test]
fn who_does_not_declare_tasks_does_not_follow_those_of_an_older_server() {
    let stage = stage("legacy");
    let task = begun(&stage, &json!({}));
    let needs = json!({ "extensions": { TASKS: {} } });
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let call = newer(method, &json!({ "taskId": task }), &json!({ "elicitation": {} }));
        check_unable(&ask(&stage.client, &call), &needs);
    }
    let wanted = json!({ "notifications": { "taskIds": [task] } });
    check_unable(&ask(&stage.client, &newer("subscriptions/listen", &wanted, &json!({}))), &needs);
    assert_eq!(follow_up(&stage, "tasks/get", &task)["result"]["status"], "working");
    stage.gate.verify();
}

#[test]
fn a_task_of_an_older_server_is_its_grants_and_cut_as_its_tool_is() {
    let mut stage = stage("legacy");
    let rules = json!({
        "version": "1", "default": "deny",
        "tools": { "job": { "redact": ["secret"] } },
    });
    stage.gate.policy("cut", &rules);
    let cut = stage.gate.grant("cut", &["peer=cut"]);
    let other = stage.gate.grant("other", &["peer=cut"]);
    stage.client = stage.gate.client(&cut, "/mcp/peer");
    let task = begun(&stage, &json!({}));
    stage.client = stage.gate.client(&other, "/mcp/peer");
    for method in ["tasks/get", "tasks/cancel"] {
        let refused = follow_up(&stage, method, &task);
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
    }
    stage.client = stage.gate.client(&cut, "/mcp/peer");
    follow_up(&stage, "tasks/get", &task);
    let last = follow_up(&stage, "tasks/get", &task);
    let text = last["result"]["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains('7') && !text.contains("secret"), "{last}");
}

#[test]
fn a_newer_client_that_knows_no_tasks_waits_for_what_the_task_comes_to() {
    for stage in [
        stage("legacy"),
        stage_over_http(Answers::InAStream),
        stage_over_http(Answers::InOneMessage),
    ] {
        let job = |arguments: Value, takes: Value| {
            newer("tools/call", &json!({ "name": "job", "arguments": arguments }), &takes)
        };
        let done = ask(&stage.client, &job(json!({ "short": true }), json!({})));
        assert_eq!(said(&done)["n"], 7, "{done}");
        let broken = ask(&stage.client, &job(json!({ "short": true, "break": true }), json!({})));
        assert_eq!(broken["error"]["message"], "broke", "{broken}");

        let asks = job(json!({ "short": true, "ask": true }), json!({ "elicitation": {} }));
        let asked = ask(&stage.client, &asks);
        let again = answered(&asks, &asked, &json!({ "action": "decline" }));
        assert_eq!(said(&ask(&stage.client, &again))["action"], "decline");
        stage.gate.verify();
    }
}

#[test]
fn what_a_task_of_an_older_server_asks_is_answered_with_an_update() {
    let stage = stage("legacy");
    let takes = json!({ "elicitation": {}, "extensions": { TASKS: {} } });
    let send = |method: &str, params: &Value| ask(&stage.client, &newer(method, params, &takes));
    let job = json!({ "name": "job", "arguments": { "ask": true, "short": true } });
    let begun = send("tools/call", &job);
    let task = json!({ "taskId": begun["result"]["taskId"] });
    let early = send("tasks/update", &task);
    assert_eq!(early["error"]["code"], -32602, "{early}");
    // It is looked at more than once before it is answered.
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
    stage.gate.verify();
}

#[test]
fn a_newer_client_hears_how_a_task_of_an_older_server_stands() {
    for stage in [stage("legacy"), stage_over_http(Answers::InAStream)] {
        let takes = json!({ "elicitation": {}, "extensions": { TASKS: {} } });
        let send =
            |method: &str, params: &Value| ask(&stage.client, &newer(method, params, &takes));
        let asks = stage.server.is_none();
        let arguments = json!({ "ask": asks, "later": true, "short": true });
        let begun = send("tools/call", &json!({ "name": "job", "arguments": arguments }));
        let id = &begun["result"]["taskId"];
        let wanted = json!({ "taskIds": [id, "another"] });
        let (mut stream, ack) = listened_with(&stage.client, &wanted, &takes);
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
        stage.gate.verify();
    }
}

#[test]
fn a_task_that_nobody_waits_for_any_more_is_cancelled() {
    let stage = stage("legacy");
    let job = newer("tools/call", &json!({ "name": "job", "arguments": {} }), &json!({}));
    let headers = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: job\r\n";
    let mut stream = TcpStream::connect(("127.0.0.1", stage.client.port)).unwrap();
    stream.write_all(&stage.client.request(job.to_string().as_bytes(), headers)).unwrap();
    until("the call is on its way", Duration::from_secs(10), || stage.gate.admitted("job") == 1);
    std::thread::sleep(Duration::from_millis(500));
    drop(stream);
    let told = newer("tools/call", &json!({ "name": "cancelled" }), &json!({}));
    until("the task is cancelled", Duration::from_secs(10), || {
        said(&ask(&stage.client, &told)) == "task-0"
    });
}

#[test]
fn extensions_that_the_gate_does_not_know_cross_eras() {
    const UI: &str = "io.modelcontextprotocol/ui";
    let newer_one = stage("modern");
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
        assert_eq!(said(&told)["extensions"], takes["extensions"], "{told}");
    }

    let older_one = stage("legacy");
    let found = ask(&older_one.client, &newer("server/discover", &json!({}), &json!({})));
    let offered = &found["result"]["capabilities"]["extensions"];
    assert_eq!(offered, &json!({ UI: { "a": 1 }, TASKS: {} }), "{found}");
}

#[test]
fn two_newer_clients_of_one_grant_each_have_their_own_log_level() {
    for stage in [stage("legacy"), stage_over_http(Answers::InAStream)] {
        let call = |tool: &str, level: &str| {
            let mut call = newer("tools/call", &json!({ "name": tool }), &json!({}));
            call["params"]["_meta"]["progressToken"] = json!("t");
            call["params"]["_meta"]["io.modelcontextprotocol/logLevel"] = json!(level);
            all(&stage.client, &call)
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

/// What the server says it was told, once it runs again.
fn remembered(stage: &Stage, client: &Client, name: &str, expected: &Value) {
    let call = request("tools/call", &json!({ "name": name, "arguments": {} }));
    let mut last = Value::Null;
    until(&format!("{name} is {expected}"), Duration::from_secs(20), || {
        last = client.send(&call).json();
        said_if_any(&last).as_ref() == Some(expected)
    });
    stage.gate.verify();
}

fn said_if_any(answer: &Value) -> Option<Value> {
    answer["result"]["content"].is_array().then(|| said(answer))
}

#[test]
fn a_server_that_was_started_again_is_told_what_it_has_forgotten() {
    let stage = stage_under("legacy", &json!({ "version": "1", "default": "allow" }), "");
    let client = older(&stage.client, &json!({}));
    for (method, params) in [
        ("logging/setLevel", json!({ "level": "error" })),
        ("resources/subscribe", json!({ "uri": "res://open" })),
    ] {
        assert!(client.send(&request(method, &params)).json()["result"].is_object(), "{method}");
    }
    client.send(&request("tools/call", &json!({ "name": "die", "arguments": {} })));
    remembered(&stage, &client, "level", &json!("error"));
    remembered(&stage, &client, "subscribed", &json!(["res://open"]));
}

#[test]
fn an_older_server_hears_when_nobody_wants_a_resource_any_more() {
    for stage in [stage("legacy"), stage_over_http(Answers::InOneMessage)] {
        let subscribed = || {
            let told = newer("tools/call", &json!({ "name": "subscribed" }), &json!({}));
            said_if_any(&ask(&stage.client, &told))
        };
        let wanted = json!({ "resourceSubscriptions": ["res://open"] });
        let first = listened(&stage.client, &wanted);
        let second = listened(&stage.client, &wanted);
        assert_eq!(subscribed(), Some(json!(["res://open"])));
        if stage.server.is_none() {
            ask(&stage.client, &newer("tools/call", &json!({ "name": "die" }), &json!({})));
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
