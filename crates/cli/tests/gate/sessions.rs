//! Sessions: hidden resources, event ids of one server, log levels, and servers that are the gate itself.

use std::io::{BufRead, BufReader};
use std::time::Duration;

use serde_json::{Value, json};

use crate::http_client::Client;
use crate::invalid_responses::told;
use crate::recorder::Recorder;
use crate::test_gate::{Gate, until};

/// The capabilities of a server in its handshake.
fn offers(recorder: &Recorder, capabilities: &Value) {
    let hello = json!({
        "protocolVersion": "2025-06-18", "capabilities": capabilities,
        "serverInfo": { "name": "rec", "version": "1" },
    });
    let message = format!(r#"{{json}}{{"jsonrpc":"2.0","id":{{id}},"result":{hello}}}"#);
    recorder.lie_to_hello(Some(told(&message)));
}

fn ask(client: &Client, method: &str, params: &Value) -> Value {
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    client.send(&request).json()
}

/// Records every message that a server gets, except handshakes and listings.
fn noted(body: &[u8]) -> Option<String> {
    Some(String::from_utf8_lossy(body).into_owned()).filter(|text| !text.is_empty())
}

fn updated(uri: &str) -> Value {
    let params = json!({ "uri": uri });
    json!({ "jsonrpc": "2.0", "method": "notifications/resources/updated", "params": params })
}

/// The lines of a session's stream, resumed after the last event id.
fn heard(client: &Client, last: &str) -> impl Iterator<Item = String> + use<> {
    let headers = format!("{}{last}Accept: text/event-stream\r\n", client.headers);
    let stream = Client { headers, ..client.clone() }.open("GET");
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    BufReader::new(stream).lines().map_while(Result::ok)
}

#[test]
fn updates_of_a_hidden_resource_reach_no_client() {
    let mut gate = Gate::new();
    let recorder = Recorder::new(&["echo"]);
    offers(&recorder, &json!({ "tools": {}, "resources": { "subscribe": true } }));
    recorder.tells(vec![updated("notes:secret"), updated("notes:shown")]);
    let rules = json!({ "version": "1", "default": "allow", "hide": ["notes:secret"] });
    gate.policy("rules", &rules);
    gate.run(&["server", "add", "rec", "--url", &recorder.url()]);
    let token = gate.grant("agent", &["rec=rules"]);
    gate.up();
    for path in ["/mcp/rec", "/mcp"] {
        let session = gate.client(&token, path).with_session();
        let tool = if path == "/mcp" { "rec__echo" } else { "echo" };
        assert!(session.call(tool, &json!({})).passed());
        // On its own stream.
        let mut lines = Vec::new();
        for line in heard(&session, "") {
            let is_last = line.contains("notes:shown");
            lines.push(line);
            if is_last {
                break;
            }
        }
        let lines = lines.join("\n");
        assert!(lines.contains("notes:shown") && !lines.contains("notes:secret"), "{lines}");
        // With a call.
        let last = r#"{"jsonrpc":"2.0","id":{id},"result":{"content":[]}}"#;
        let [secret, shown] = ["notes:secret", "notes:shown"].map(updated);
        let stream = format!("data: {secret}%0A%0Adata: {shown}%0A%0Adata: {last}%0A%0A");
        recorder.lie(Some(told(&format!("{{sse}}{stream}"))));
        let text = session.call(tool, &json!({})).text();
        recorder.lie(None);
        assert!(text.contains("notes:shown") && !text.contains("notes:secret"), "{text}");
    }
}

#[test]
fn an_event_id_is_sent_to_the_server_that_issued_it() {
    let mut gate = Gate::new();
    let recorders = [Recorder::new(&["a"]), Recorder::new(&["b"])];
    gate.policy("rules", &json!({ "version": "1", "default": "allow" }));
    for (name, recorder) in ["one", "two"].iter().zip(&recorders) {
        recorder.tells(vec![updated("notes:1")]);
        offers(recorder, &json!({ "tools": {}, "resources": { "subscribe": true } }));
        gate.run(&["server", "add", name, "--url", &recorder.url()]);
    }
    let token = gate.grant("agent", &["one=rules", "two=rules"]);
    gate.up();
    let session = gate.client(&token, "/mcp").with_session();
    for tool in ["one__a", "two__b"] {
        assert!(session.call(tool, &json!({})).passed());
    }
    let mut ids: Vec<String> =
        heard(&session, "").filter(|line| line.starts_with("id: ")).take(2).collect();
    ids.sort();
    assert_eq!(ids, ["id: one/e0", "id: two/e0"]);
    let asked = |recorder: &Recorder| {
        let heads = recorder.heads().to_ascii_lowercase();
        heads.lines().filter(|line| line.starts_with("last-event-id")).map(str::to_owned).collect()
    };
    let before: Vec<Vec<String>> = recorders.iter().map(asked).collect();
    for (last, wanted) in [("one/e0", 1), ("e0", 1), ("three/e0", 1)] {
        drop(heard(&session, &format!("Last-Event-ID: {last}\r\n")).next());
        until("the first server is asked", Duration::from_secs(10), || {
            asked(&recorders[0]).len() == before[0].len() + wanted
        });
    }
    assert!(asked(&recorders[0]).iter().all(|line| line == "last-event-id: e0"));
    assert_eq!(asked(&recorders[1]), before[1], "the other one is asked nothing");
}

#[test]
fn a_resource_is_searched_only_on_servers_where_the_caller_may_see_it() {
    let mut gate = Gate::new();
    let recorders = [Recorder::new(&["echo"]), Recorder::new(&["echo"])];
    let seen = json!({ "version": "1", "default": "deny", "resources": { "notes:*": {} } });
    gate.policy("seen", &seen);
    gate.policy("unseen", &json!({ "version": "1", "default": "deny", "tools": { "echo": {} } }));
    for (name, recorder) in ["one", "two"].iter().zip(&recorders) {
        offers(recorder, &json!({ "tools": {}, "resources": {} }));
        recorder.look_at_calls_with(noted);
        gate.run(&["server", "add", name, "--url", &recorder.url()]);
    }
    let token = gate.grant("agent", &["one=unseen", "two=seen"]);
    gate.up();
    let client = gate.client(&token, "/mcp");
    for client in [client.clone(), client.with_session()] {
        let hidden = ask(&client, "resources/read", &json!({ "uri": "other:1" }));
        assert!(hidden["error"]["message"].as_str().unwrap().contains("other:1"), "{hidden}");
        let [one, two] = &recorders;
        assert_eq!((one.troubles().len(), two.troubles().len()), (0, 0), "no server is asked");
    }
    ask(&client, "resources/read", &json!({ "uri": "notes:1" }));
    let [one, two] = recorders.map(|recorder| recorder.troubles());
    assert!(one.is_empty(), "{one:?}");
    assert!(two.iter().all(|message| message.contains("resources/read")), "{two:?}");
    assert_eq!(two.len(), 1, "{two:?}");
}

#[test]
fn a_log_level_is_judged_like_any_other_method() {
    for (default, passes) in [("deny", false), ("allow", true)] {
        let mut gate = Gate::new();
        let recorder = Recorder::new(&["echo"]);
        offers(&recorder, &json!({ "tools": {}, "logging": {} }));
        recorder.look_at_calls_with(noted);
        let rules = json!({ "version": "1", "default": default, "tools": { "echo": {} } });
        gate.policy("rules", &rules);
        gate.run(&["server", "add", "rec", "--url", &recorder.url()]);
        let token = gate.grant("agent", &["rec=rules"]);
        gate.up();
        let told = || recorder.troubles().iter().filter(|m| m.contains("setLevel")).count();
        let session = gate.client(&token, "/mcp/rec").with_session();
        let answer = ask(&session, "logging/setLevel", &json!({ "level": "debug" }));
        assert_eq!(answer["error"]["code"] == -31003, !passes, "{answer}");
        assert_eq!(told() > 0, passes, "{default}");
        // The protocol's own business goes on.
        assert_eq!(ask(&session, "ping", &json!({}))["result"], json!({}));
        // At the address of all servers only those are told whose policy allows it.
        let all = gate.client(&token, "/mcp").with_session();
        assert!(all.call("rec__echo", &json!({})).passed());
        let before = told();
        let answer = ask(&all, "logging/setLevel", &json!({ "level": "info" }));
        assert_eq!(answer["result"], json!({}), "{answer}");
        assert_eq!(told() > before, passes, "{default}");
    }
}

#[test]
fn a_server_that_is_the_gate_itself_is_detected() {
    let (gate, _recorder, client) = Gate::with_recorder();
    let token = gate.folder.path().join("token");
    std::fs::write(&token, format!("Bearer {}", client.token)).unwrap();
    let header = format!("Authorization=@{}", token.display());
    let url = format!("http://127.0.0.1:{}/mcp/round", gate.port);
    gate.run(&["server", "add", "round", "--url", &url, "--header", &header, "--no-connect"]);
    gate.run(&["grant", "policy", "agent", "round", "rules"]);
    let round = Client { path: "/mcp/round".to_owned(), ..client.clone() };
    until("the grant holds it", Duration::from_secs(5), || {
        round.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" })).status == 200
    });
    let before = gate.rows().len();
    let answer = round.call("echo", &json!({}));
    assert!(answer.refused(), "{}", answer.text());
    let rows = gate.rows();
    assert!(rows.iter().any(|row| row["code"] == "508"), "{rows:?}");
    assert!(rows.len() < before + 20, "it went round {} times", rows.len() - before);
    // A loop that is visible in the settings is refused without a call.
    for address in
        ["http://127.0.0.1:4180/mcp", "http://localhost:4180/mcp/x", "http://[::1]:4180/"]
    {
        let refused = gate.cli(&["server", "add", "own", "--url", address, "--no-connect"]);
        let words = String::from_utf8(refused.stderr).unwrap();
        assert!(words.contains("this gate's own"), "{address}: {words}");
    }
}

/// An open stream is how a client shows that it is there.
#[test]
fn a_session_has_a_stream_although_its_server_has_none() {
    let (_gate, recorder, client) = Gate::with_recorder();
    recorder.has_no_stream();
    let status = heard(&client.with_session(), "").next();
    assert!(status.as_ref().is_some_and(|line| line.contains("200")), "{status:?}");
}

#[test]
fn a_get_leaves_one_row() {
    let (gate, _recorder, client) = Gate::with_recorder();
    // A server without a stream of its own.
    let silent = Recorder::new(&["quiet"]);
    silent.has_no_stream();
    gate.run(&["server", "add", "silent", "--url", &silent.url()]);
    gate.run(&["grant", "policy", "agent", "silent", "rules"]);
    let silent = Client { path: "/mcp/silent".to_owned(), ..client.clone() };
    until("the grant holds it", Duration::from_secs(5), || {
        silent.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" })).status == 200
    });
    let [silent, session] = [&silent, &client].map(Client::with_session);
    let all = Client { path: "/mcp".to_owned(), ..client.clone() }.with_session();
    let newer = "Mcp-Protocol-Version: 2026-07-28\r\n".to_owned();
    let newer = Client { headers: newer, ..client.clone() };
    let clients = [
        ("one", &session),
        ("silent", &silent),
        ("all", &all),
        ("newer", &newer),
        ("none", &client),
    ];
    for (what, client) in clients {
        for last in ["", "", "Last-Event-ID: e0\r\n"] {
            let before = gate.rows().len();
            let status = heard(client, last).next();
            let rows = gate.rows().split_off(before);
            let calls: Vec<_> = rows.iter().filter(|row| row["kind"] == "call").collect();
            assert_eq!(calls.len(), 1, "{what} {last:?} {status:?}: {calls:?}");
        }
    }
}
