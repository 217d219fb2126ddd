//! Limits, approvals, and the content of denials.

use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::http_client::{Client, call, exchange};
use crate::recorder::{Manner, Recorder, tool};
use crate::test_gate::{Gate, METRICS_TOKEN, TOOLS, rounds, rules, until};

/// The same call from many clients at once; returns how many passed.
fn race(clients: usize, client: &Client, tool: &str, arguments: &Value) -> usize {
    let passed = Mutex::new(0);
    thread::scope(|scope| {
        for _ in 0..clients {
            scope.spawn(|| {
                if client.call(tool, arguments).passed() {
                    *passed.lock().unwrap() += 1;
                }
            });
        }
    });
    passed.into_inner().unwrap()
}

/// How many clients race for a limit of three.
const CLIENTS: usize = 100;
/// How many retries race for one approval.
const RETRIES: usize = 50;
const ROUNDS_PER_GRANT: usize = 100;

#[test]
fn p05_a_limit_holds_against_clients_in_parallel() {
    let mut gate = Gate::new();
    let recorder = Recorder::new(TOOLS);
    gate.set_up(&recorder);
    let times = rounds(3);
    let tokens: Vec<String> =
        (0..times).map(|round| gate.grant(&format!("racer-{round}"), &["rec=rules"])).collect();
    gate.up();
    let mut over = 0;
    for token in &tokens {
        let before = recorder.count("limited");
        let passed = race(CLIENTS, &gate.client(token, "/mcp/rec"), "limited", &json!({}));
        let seen = recorder.count("limited") - before;
        assert_eq!((passed, seen), (3, 3));
        over += seen.saturating_sub(3);
    }
    println!("P05: {times} rounds of {CLIENTS} clients, limit 3: 3 admitted each, {over} over");
}

#[test]
fn p07_p36_an_approval_lets_one_exact_call_through_once() {
    let (gate, recorder, _) = Gate::with_recorder();
    let times = rounds(3);
    // A late client asks again, and a grant may have at most 256 pending approvals.
    let clients: Vec<Client> = (0..times.div_ceil(ROUNDS_PER_GRANT))
        .map(|number| gate.grant(&format!("payer-{number}"), &["rec=rules"]))
        .map(|token| gate.client(&token, "/mcp/rec"))
        .collect();
    until("the grants count", Duration::from_secs(5), || {
        clients.iter().all(|client| client.call("echo", &json!({})).passed())
    });
    for round in 0..times {
        let client = &clients[round / ROUNDS_PER_GRANT];
        let arguments =
            json!({ "nonce": format!("r{round}"), "amount": 5, "note": "line\u{1b}[2Jtwo" });
        let asked = client.call("pay", &arguments).denial();
        assert_eq!(asked["code"], "approval_pending", "{asked}");
        let id = asked["approval_id"].as_str().unwrap().to_owned();
        let shown = gate.run(&["approvals", "show", &id]);
        for word in
            [format!("r{round}"), "amount".to_owned(), "payer".to_owned(), "digest".to_owned()]
        {
            assert!(shown.contains(&word), "the owner sees the complete call: {shown}");
        }
        assert!(!shown.contains('\u{1b}'), "control characters are made visible: {shown:?}");
        assert_eq!(
            race(5, client, "pay", &arguments),
            0,
            "nothing passes before the owner says so"
        );

        gate.run(&["approvals", "approve", "--yes", &id]);
        let mut other = arguments.clone();
        other["amount"] = json!(6);
        assert!(!client.call("pay", &other).passed(), "other arguments are another call");
        let before = recorder.count("pay");
        let reordered =
            json!({ "note": "line\u{1b}[2Jtwo", "amount": 5, "nonce": format!("r{round}") });
        let passed = race(RETRIES, client, "pay", &reordered);
        assert_eq!((passed, recorder.count("pay") - before), (1, 1));
        assert!(!gate.cli(&["approvals", "approve", "--yes", &id]).status.success(), "not twice");
    }
    println!(
        "P07: {times} approvals, {RETRIES} racing retries each, {} executions",
        recorder.count("pay")
    );
    println!("P36: whole call shown, other arguments refused, second approval refused");
}

/// A gate that holds calls which wait for a human.
fn that_holds() -> (Gate, Recorder) {
    let mut gate = Gate::new();
    let recorder = Recorder::new(TOOLS);
    gate.set_up(&recorder);
    gate.settings("[limits]\napproval_hold_ms = 60000\n");
    gate.up();
    (gate, recorder)
}

/// The approval id of this grant's held call.
pub(crate) fn held(gate: &Gate, grant: &str) -> String {
    let mut id = None;
    until("the call is held", Duration::from_secs(10), || {
        let all: Value = serde_json::from_str(&gate.run(&["--json", "approvals", "list"])).unwrap();
        let waits = |one: &&Value| one["grant"] == grant && one["state"] == "waiting";
        let found = all.as_array().unwrap().iter().find(waits);
        id = found.map(|one| one["id"].as_str().unwrap().to_owned());
        id.is_some()
    });
    id.unwrap()
}

/// An action of the owner on a grant.
type Act<'a> = &'a dyn Fn(&str);

#[test]
fn a_held_call_is_judged_by_the_policy_at_its_resumption() {
    let (gate, recorder) = that_holds();
    let mut denies = rules();
    denies["tools"]["pay"] = json!({ "action": "deny", "reason": "not any more" });
    let mut edited = rules();
    edited["description"] = json!("another version");
    let changed: Vec<Value> = TOOLS.iter().map(|name| tool(name, "not as it was")).collect();
    let watcher = gate.client(&gate.grant("watcher", &["rec=rules"]), "/mcp/rec");
    // The owner's action while the call waits, and the code of the denial that follows.
    let acts: [(&str, Act<'_>, Value); 4] = [
        ("denied", &|_| gate.policy("rules", &denies), json!("denied_by_rule")),
        ("edited", &|_| gate.policy("rules", &edited), json!("approval_expired")),
        ("revoked", &|label| drop(gate.run(&["grant", "revoke", label])), Value::Null),
        (
            "changed",
            &|_| {
                recorder.set_tools(changed.clone());
                // It exits with 1, like `diff`, when there is a difference.
                gate.cli(&["server", "pins", "rec", "--look"]);
                until("the gate knows", Duration::from_secs(5), || {
                    !watcher.call("echo", &json!({})).passed()
                });
            },
            json!("tool_changed"),
        ),
    ];
    for (label, act, code) in acts {
        gate.policy("rules", &rules());
        let client = gate.client(&gate.grant(label, &["rec=rules"]), "/mcp/rec");
        for message in [call("pay", &json!({})), with_progress(call("pay", &json!({})))] {
            // A stream of a revoked grant is closed, and a changed tool stays changed.
            let is_told = message["params"]["_meta"].is_object();
            if is_told && ["revoked", "changed"].contains(&label) {
                continue;
            }
            gate.policy("rules", &rules());
            let answer = thread::scope(|scope| {
                let calling = scope.spawn(|| client.send(&message));
                let id = held(&gate, label);
                act(label);
                gate.run(&["approvals", "approve", "--yes", &id]);
                calling.join().unwrap()
            });
            assert!(!answer.passed(), "{label}: {}", answer.text());
            let says = code.as_str().is_none_or(|code| answer.text().contains(code));
            assert!(says, "{label}: {}", answer.text());
        }
    }
    assert_eq!(recorder.count("pay"), 0);
}

fn with_progress(mut call: Value) -> Value {
    call["params"]["_meta"] = json!({ "progressToken": "p" });
    call
}

#[test]
fn a_held_call_that_its_client_cancelled_does_not_resume() {
    let (gate, recorder) = that_holds();
    let client = gate.client(&gate.grant("fickle", &["rec=rules"]), "/mcp/rec").with_session();
    let nonce = |nonce: &str| call("pay", &json!({ "nonce": nonce }));
    for message in [nonce("quiet"), with_progress(nonce("told"))] {
        thread::scope(|scope| {
            let calling = scope.spawn(|| client.send(&message));
            let id = held(&gate, "fickle");
            client.send(&json!({
                "jsonrpc": "2.0", "method": "notifications/cancelled",
                "params": { "requestId": message["id"] },
            }));
            gate.run(&["approvals", "approve", "--yes", &id]);
            calling.join().unwrap();
        });
    }
    assert_eq!(recorder.count("pay"), 0);
}

#[test]
fn a_stop_answers_held_calls_at_once() {
    let (mut gate, _recorder) = that_holds();
    let client = gate.client(&gate.grant("patient", &["rec=rules"]), "/mcp/rec");
    let calling = thread::spawn(move || client.call("pay", &json!({})));
    held(&gate, "patient");
    gate.stop();
    let denial = calling.join().unwrap().denial();
    assert_eq!(denial["code"], "approval_pending", "{denial}");
}

#[test]
fn p38_every_denial_names_its_rule_its_reason_and_its_row() {
    let mut gate = Gate::new();
    let names = ["echo", "limited", "secret", "pay", "unlisted", "hidden", "changed"];
    let recorder = Recorder::new(&names);
    gate.set_up(&recorder);
    gate.policy("strict", &json!({
        "version": "1",
        "default": "deny",
        "hide": ["hidden"],
        "tools": {
            "secret": { "action": "deny", "reason": "no secrets" },
            "pay": { "action": "require_approval" },
            "limited": { "limits": [{ "window": "hour", "max": 1 }] },
            "changed": {},
            "echo": {
                "require": [{ "conditions": [{ "path": "args.nonce", "op": "eq", "value": "x" }] }],
                "deny_if": [{ "conditions": [{ "path": "args.amount", "op": "gt", "value": 5 }], "on_deny": "too much" }],
            },
        },
    }));
    let token = gate.grant("strict", &["rec=strict"]);
    let bare = gate.grant("bare", &["rec"]);
    let (last, others) = names.split_last().unwrap();
    let mut tools: Vec<Value> = others.iter().map(|name| tool(name, name)).collect();
    tools.push(tool(last, "not as it was"));
    recorder.set_tools(tools);
    gate.up();
    let client = gate.client(&token, "/mcp/rec");
    let without_rules = gate.client(&bare, "/mcp/rec");
    assert!(client.call("limited", &json!({})).passed());
    let answers = [
        client.call("secret", &json!({ "nonce": "hunter2" })),
        client.call("pay", &json!({ "nonce": "hunter2" })),
        client.call("limited", &json!({ "nonce": "hunter2" })),
        client.call("hidden", &json!({ "nonce": "hunter2" })),
        client.call("unlisted", &json!({ "nonce": "hunter2" })),
        client.call("nowhere", &json!({ "nonce": "hunter2" })),
        client.call("changed", &json!({ "nonce": "hunter2" })),
        client.call("echo", &json!({ "nonce": "hunter2" })),
        client.call("echo", &json!({ "nonce": "x", "amount": 6 })),
        client.call("echo", &json!({ "nonce": "x", "amount": "hunter2" })),
        without_rules.call("echo", &json!({ "nonce": "hunter2" })),
        client.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": { "uri": "file:///etc/passwd" } })),
        client.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "prompts/get", "params": { "name": "x" } })),
        client.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "company/secrets", "params": {} })),
    ];
    let rows = gate.decisions();
    let mut whole = 0;
    for answer in &answers {
        let denial = answer.denial();
        let text = answer.text();
        let says = |key: &str| denial[key].as_str().is_some_and(|words| !words.is_empty());
        assert!(says("code") && says("rule") && says("reason"), "{text}");
        let row = rows.iter().find(|row| row["seq"] == denial["audit_id"]);
        let row = row.unwrap_or_else(|| panic!("no row for {text}"));
        assert_ne!(row["decision"], "admitted");
        assert!(!text.contains("hunter2"), "the argument is not repeated: {text}");
        whole += 1;
    }
    println!("P38: {whole} of {} denials name rule, reason and row", answers.len());
}

#[test]
fn an_approval_does_not_match_a_changed_definition() {
    let mut gate = Gate::new();
    let recorder = Recorder::new(&["pay"]);
    // The list is refreshed as often as possible.
    gate.settings(&format!(
        "[limits]\napproval_hold_seconds = 0\n[servers.rec]\nurl = \"{}\"\npins_fresh_seconds = 0\n",
        recorder.url()
    ));
    gate.policy(
        "trusting",
        &json!({
            "version": "1", "default": "deny", "on_change": "allow",
            "tools": { "pay": { "action": "require_approval" } },
        }),
    );
    let token = gate.grant("trusting", &["rec=trusting"]);
    gate.up();
    let client = gate.client(&token, "/mcp/rec");
    let approved = || {
        let id = client.call("pay", &json!({})).denial()["approval_id"].clone();
        gate.run(&["approvals", "approve", "--yes", id.as_str().unwrap()]);
        id
    };
    let first = approved();
    recorder.set_tools(vec![tool("pay", "now to another person")]);
    until("the change is seen", Duration::from_secs(20), || {
        client.call("pay", &json!({ "nonce": "something else" }));
        !gate.cli(&["server", "pins", "rec"]).status.success()
    });
    let again = client.call("pay", &json!({}));
    assert_eq!(again.denial()["code"], "approval_pending", "{}", again.text());
    assert_ne!(again.denial()["approval_id"], first);
    approved();
    assert!(client.call("pay", &json!({})).passed());
}

/// The response about a tool, without the parts that differ in every call.
fn told(client: &Client, tool: &str, arguments: &Value, modern: bool) -> (u16, Value) {
    let mut client = client.clone();
    let name = if client.path == "/mcp" { format!("rec__{tool}") } else { tool.to_owned() };
    let mut message = call(&name, arguments);
    if modern {
        message["params"]["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        client.headers = format!(
            "Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: {name}\r\n"
        );
    }
    let answer = client.send(&message);
    let mut body: Value = serde_json::from_str(&answer.text().replace(tool, "NAME")).unwrap();
    for place in ["/error/data", "/result/_meta/tollgate~1denial"] {
        if let Some(data) = body.pointer_mut(place).and_then(Value::as_object_mut) {
            data.remove("audit_id").expect("a row");
        }
    }
    (answer.status, body)
}

#[test]
fn a_hidden_tool_is_answered_like_one_that_does_not_exist() {
    let mut gate = Gate::new();
    let recorder = Recorder::new(&[]);
    let mut secret = tool("get_secret", "its schema names a header, which must not tell of it");
    secret["inputSchema"]["properties"]["nonce"]["x-mcp-header"] = json!("Nonce");
    recorder.set_tools(vec![tool("echo", "echo"), secret]);
    gate.set_up(&recorder);
    let rule = json!({ "conditions": [{ "path": "args.nonce", "op": "eq", "value": "x" }] });
    let policies = [
        json!({ "default": "deny", "tools": { "echo": {} } }),
        json!({ "default": "deny", "tools": { "*": {} } }),
        json!({ "default": "deny", "tools": { "get_secret": {}, "*": { "deny_if": [rule] } } }),
        json!({ "default": "allow", "tools": { "get_*": { "action": "deny", "reason": "no" } } }),
        json!({ "default": "allow" }),
        json!({ "default": "allow", "all_tools": { "deny_if": [rule] } }),
        json!({ "default": "allow", "on_change": "allow" }),
        json!({ "default": "deny", "on_change": "warn", "tools": { "get_*": {} } }),
        json!({ "default": "deny", "tools": { "*": { "on_change": "allow" } } }),
        json!({ "default": "allow", "on_change": "allow", "all_tools": { "approve_if": [rule] } }),
    ];
    let mut grants = Vec::new();
    for (index, mut policy) in policies.into_iter().enumerate() {
        policy["version"] = json!("1");
        policy["hide"] = json!(["get_secret"]);
        let name = format!("hiding-{index}");
        gate.policy(&name, &policy);
        grants.push((gate.grant(&name, &[&format!("rec={name}")]), policy));
    }
    gate.up();
    for (token, policy) in &grants {
        for path in ["/mcp/rec", "/mcp"] {
            let client = gate.client(token, path);
            for arguments in [json!({}), json!({ "nonce": "x" })] {
                for modern in [false, true] {
                    let told = |tool| told(&client, tool, &arguments, modern);
                    assert_eq!(told("get_secret"), told("get_nowhere"), "{path} {policy}");
                }
            }
        }
    }
    assert_eq!(recorder.calls(), Vec::<String>::new());
}

/// A name that no list has is unknown, but one that a page of a list has just shown is not.
#[test]
fn a_new_tool_can_be_called_as_soon_as_a_list_showed_it() {
    let mut gate = Gate::new();
    let recorder = Recorder::new(&[]);
    recorder.set_tools(vec![tool("echo", "echo"), tool("other", "other")]);
    // The gate learns of changes only from forwarded messages.
    let url = recorder.url();
    gate.settings(&format!("[servers.rec]\nurl = \"{url}\"\npins_fresh_seconds = 60\n"));
    gate.policy("tolerant", &json!({ "version": "1", "default": "allow", "on_change": "allow" }));
    let token = gate.grant("tolerant", &["rec=tolerant"]);
    gate.up();
    let client = gate.client(&token, "/mcp/rec");
    assert!(client.call("echo", &json!({})).passed());
    for (manner, name) in [(Manner::Honest, "late"), (Manner::Pages, "later")] {
        assert!(client.call(name, &json!({})).refused(), "{name} is not there yet");
        let names = ["echo", "other", "late", "later"];
        let known = names.iter().take_while(|known| **known != name).chain([&name]);
        recorder.set_tools(known.map(|name| tool(name, name)).collect());
        recorder.behave(manner);
        let last = listed(&client);
        assert!(last.iter().any(|shown| shown == name), "{last:?}");
        let answer = client.call(name, &json!({}));
        assert!(answer.passed(), "{name}: {}", answer.text());
    }
}

#[test]
fn an_approval_that_expires_while_its_call_is_held_is_reported() {
    let mut gate = Gate::new();
    let recorder = Recorder::new(&["pay"]);
    let ask = json!({ "conditions": [], "timeout": "1s" });
    let rules =
        json!({ "version": "1", "default": "deny", "tools": { "pay": { "approve_if": [ask] } } });
    gate.policy("rules", &rules);
    gate.run(&["server", "add", "rec", "--url", &recorder.url()]);
    let token = gate.grant("agent", &["rec=rules"]);
    gate.up();
    let answer = gate.client(&token, "/mcp/rec").call("pay", &json!({}));
    assert_eq!(answer.denial()["code"], "approval_expired", "{}", answer.text());
    assert!(answer.took < Duration::from_secs(10), "held for {:?}", answer.took);
    assert_eq!(recorder.count("pay"), 0);
}

#[test]
fn an_approval_that_matches_no_call_is_reported() {
    let (gate, _recorder, client) = Gate::with_recorder();
    let asked = |nonce: &str| {
        let denial = client.call("pay", &json!({ "nonce": nonce })).denial();
        denial["approval_id"].as_str().unwrap().to_owned()
    };
    let told = |id: &str| {
        let shown: Value =
            serde_json::from_str(&gate.run(&["--json", "approvals", "show", id])).unwrap();
        let output = gate.cli(&["approvals", "approve", "--yes", id]);
        assert!(output.status.success());
        let warned = String::from_utf8(output.stderr).unwrap();
        assert_eq!(
            shown["void"].is_string(),
            warned.contains("this approval matches no call"),
            "{warned}"
        );
        warned
    };
    assert_eq!(asked("as it was"), asked("as it was"));
    assert_eq!(gate.log().matches("ERROR").count(), 0, "{}", gate.log());
    assert!(told(&asked("as it was")).starts_with("it runs now if its client still waits"));
    let (first, second) = (asked("policy"), asked("grant"));
    let mut newer = rules();
    newer["description"] = json!("changed");
    gate.policy("rules", &newer);
    assert!(told(&first).contains("is now judged by `rules@2`"));
    gate.run(&["grant", "revoke", "agent"]);
    assert!(told(&second).contains("grant `agent` is gone"));
}

#[test]
fn a_tool_that_its_server_does_not_have_is_counted_as_denied() {
    let (gate, _recorder, client) = Gate::with_recorder();
    for _ in 0..3 {
        assert!(client.call("nowhere", &json!({})).refused());
    }
    for scheme in ["Bearer", "bearer", "BEARER"] {
        let head = format!("Host: 127.0.0.1:{}\r\nConnection: close", gate.port);
        let request = format!(
            "GET /metrics HTTP/1.1\r\n{head}\r\nAuthorization: {scheme} {METRICS_TOKEN}\r\n\r\n"
        );
        let shown = exchange(gate.port, request.as_bytes(), Duration::from_secs(10));
        assert_eq!(shown.status, 200, "{scheme}: {}", shown.text());
        let row = r#"tollgate_requests_denied_total{code="unknown_tool"} 3"#;
        assert!(shown.text().contains(row), "{scheme}: {}", shown.text());
    }
}

#[test]
fn a_server_that_is_down_is_named_in_the_list_of_all() {
    let (gate, _recorder, client) = Gate::with_recorder();
    gate.run(&["server", "add", "down", "--no-connect", "--url", "http://127.0.0.1:9/mcp"]);
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    let all = Client { path: "/mcp".to_owned(), ..client };
    assert_eq!(all.send(&list).json()["result"].get("_meta"), None);
    gate.run(&["grant", "policy", "agent", "down", "rules"]);
    let found = all.send(&list).json()["result"].clone();
    assert_eq!(found["_meta"]["tollgate/left_out"], json!(["down"]), "{found}");
    let why = found["_meta"]["tollgate/left_out_reasons"]["down"].as_str().unwrap();
    assert!(why.contains("refused"), "{found}");
    assert_eq!(found["tools"].as_array().unwrap().len(), TOOLS.len(), "{found}");
}

/// An empty list would be misleading.
#[test]
fn a_list_of_all_servers_is_an_error_when_none_of_them_answers() {
    let (gate, _recorder, _) = Gate::with_recorder();
    for (name, port) in [("down", 9), ("gone", 10)] {
        let url = format!("http://127.0.0.1:{port}/mcp");
        gate.run(&["server", "add", name, "--no-connect", "--url", &url]);
    }
    let token = gate.grant("none", &["down=rules", "gone=rules"]);
    let client = gate.client(&token, "/mcp");
    for method in ["tools/list", "prompts/list", "resources/list"] {
        let list = json!({ "jsonrpc": "2.0", "id": 1, "method": method });
        let found = client.send(&list).json();
        let words = found["error"]["message"].as_str().unwrap_or_else(|| panic!("{found}"));
        assert!(words.contains(method), "{found}");
        assert!(words.contains("`down`: ") && words.contains("`gone`: "), "{found}");
    }
}

/// The names of all tools, page by page.
fn listed(client: &Client) -> Vec<String> {
    let mut names = Vec::new();
    let mut params = json!({});
    loop {
        let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": params });
        let page = client.send(&list).json();
        let tools = page["result"]["tools"].as_array().unwrap().iter();
        names.extend(tools.map(|tool| tool["name"].as_str().unwrap().to_owned()));
        match page["result"]["nextCursor"].as_str() {
            Some(next) if !next.is_empty() => params = json!({ "cursor": next }),
            _ => return names,
        }
    }
}

/// Parked calls have a limit on disk, and are deleted when their approval ends.
#[test]
fn parked_calls_have_a_disk_limit_and_are_deleted_when_they_end() {
    let (gate, _recorder, client) = Gate::with_recorder();
    let large = vec!["x".repeat(64 << 10); 48];
    let mut waiting = Vec::new();
    let refused = loop {
        let number = waiting.len();
        let denial = client.call("pay", &json!({ "n": number, "text": large })).denial();
        if denial["code"] != "approval_pending" {
            break denial;
        }
        let id = denial["approval_id"].as_str().unwrap().to_owned();
        assert!(gate.run(&["approvals", "show", &id]).contains("xxx"), "kept when it is told");
        waiting.push(id);
        assert!(waiting.len() < 20, "nothing stops it");
    };
    assert_eq!(refused["code"], "rate_limited", "{refused}");
    let reason = refused["reason"].as_str().unwrap();
    assert!(reason.contains("cannot wait for the owner"), "{reason}");
    assert_eq!(waiting.len(), 5, "16 MiB of a grant");
    for (number, id) in waiting.iter().enumerate() {
        if number % 2 == 0 {
            gate.run(&["approvals", "deny", id, "--because", "no"]);
        } else {
            gate.run(&["approvals", "approve", "--yes", id]);
            assert!(client.call("pay", &json!({ "n": number, "text": large })).passed());
        }
    }
    until("the arguments are gone", Duration::from_secs(30), || {
        let kept = |id: &String| gate.run(&["approvals", "show", id]).contains("xxx");
        !waiting.iter().any(kept)
    });
    assert_eq!(client.call("pay", &json!({ "text": large })).denial()["code"], "approval_pending");
}
