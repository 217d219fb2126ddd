//! Calls with a server request, where client and server are of different eras: one call for limits and for
//! the log, under the name that the server knows, and closed when the gate stops.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use crate::http_client::{Client, call};
use crate::recorder::Manner;
use crate::test_gate::Gate;

/// A server on stdio whose tool `ask` requests a name: in the older era as a request during the call, in the
/// newer one as its result.
const CHILD: &str = r#"
import json, sys
modern = sys.argv[1] == "modern"
QUESTION = {"message": "who?", "requestedSchema": {"type": "object", "properties": {"n": {"type": "string"}}}}
VERSION = "io.modelcontextprotocol/protocolVersion"
def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
asking = None
for line in sys.stdin:
    message = json.loads(line)
    id, method, params = message.get("id"), message.get("method"), message.get("params") or {}
    if method is None and asking is not None:
        say(id=asking, result={"content": [{"type": "text", "text": json.dumps(message["result"])}]})
        asking = None
    elif method is None or id is None:
        continue
    elif modern and VERSION not in params.get("_meta", {}):
        say(id=id, error={"code": -32022, "message": "version", "data": {"supported": ["2026-07-28"]}})
    elif not modern and method == "server/discover":
        say(id=id, error={"code": -32601, "message": "no such method"})
    elif method == "initialize":
        say(id=id, result={"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "a", "version": "1"}})
    elif method == "server/discover":
        say(id=id, result={"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private"})
    elif method == "tools/list":
        say(id=id, result={"resultType": "complete", "tools": [{"name": "ask", "inputSchema": {"type": "object"}}], "ttlMs": 0, "cacheScope": "private"})
    elif method == "tools/call" and params["name"] != "ask":
        say(id=id, error={"code": -32602, "message": "unknown tool " + params["name"]})
    elif method == "tools/call" and modern and "requestState" in params:
        say(id=id, result={"resultType": "complete", "content": [{"type": "text", "text": json.dumps(params["inputResponses"]["q"])}]})
    elif method == "tools/call" and modern:
        say(id=id, result={"resultType": "input_required", "requestState": "s", "inputRequests": {"q": {"method": "elicitation/create", "params": {"mode": "form", **QUESTION}}}})
    elif method == "tools/call":
        asking = id
        say(id="question", method="elicitation/create", params=QUESTION)
    else:
        say(id=id, result={})
"#;

fn gate_with(era: &str) -> (Gate, Client) {
    let mut gate = Gate::new();
    let script = gate.folder.path().join("asks.py");
    std::fs::write(&script, CHILD).unwrap();
    let rules = json!({
        "version": "1", "default": "deny",
        "tools": { "ask": { "limits": [{ "window": "hour", "max": 1 }] } },
    });
    gate.policy("rules", &rules);
    gate.run(&["server", "add", "asks", "--", "python3", script.to_str().unwrap(), era]);
    let token = gate.grant("agent", &["asks=rules"]);
    gate.up();
    let client = gate.client(&token, "/mcp");
    (gate, client)
}

fn name() -> Value {
    json!({ "action": "accept", "content": { "n": "bob" } })
}

/// One round of a call by a client of the newer era.
fn round(client: &Client, id: u64, more: &Value) -> Value {
    let mut message = call("asks__ask", &json!({}));
    message["id"] = json!(id);
    for (key, value) in more.as_object().unwrap() {
        message["params"][key] = value.clone();
    }
    message["params"]["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": { "elicitation": { "form": {} } },
    });
    let mut client = client.clone();
    "Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: asks__ask\r\n"
        .clone_into(&mut client.headers);
    client.send(&message).json()
}

/// Sends a call of the older era, answers the server requests on its stream, and returns the response.
fn conversed(client: &Client) -> Value {
    let hello = json!({
        "jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25", "capabilities": { "elicitation": {} },
            "clientInfo": { "name": "rounds", "version": "1" },
        },
    });
    let mut client = client.clone();
    let session = client.send(&hello).header("mcp-session-id").expect("a session");
    client.headers = format!("Mcp-Session-Id: {session}\r\n");
    client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    let mut stream = TcpStream::connect(("127.0.0.1", client.port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let body = call("asks__ask", &json!({})).to_string();
    stream.write_all(&client.request(body.as_bytes(), "")).unwrap();
    for line in BufReader::new(stream).lines().map(|line| line.expect("a line in time")) {
        let Some(text) = line.strip_prefix("data: ") else { continue };
        let message: Value = serde_json::from_str(text).unwrap();
        if message.get("method").is_none() {
            return message;
        }
        assert_eq!(message["method"], "elicitation/create", "{message}");
        let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": name() });
        assert_eq!(client.send(&answer).status, 202);
    }
    panic!("the stream ended without a response");
}

fn check_counted_once(gate: &Gate) {
    gate.verify();
    let holds = |row: &&Value| row["holds"].as_array().is_some_and(|holds| !holds.is_empty());
    let rows = gate.decisions();
    let admitted: Vec<_> = rows.iter().filter(|row| row["decision"] == "admitted").collect();
    assert_eq!(admitted.iter().copied().filter(holds).count(), 1, "{admitted:?}");
    let open = admitted.iter().filter(|row| row["outcome"].is_null()).count();
    assert_eq!(open, 0, "{admitted:?}");
}

#[test]
fn a_newer_client_finishes_its_single_call_with_an_older_server() {
    let (gate, client) = gate_with("legacy");
    let asked = round(&client, 1, &json!({}));
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let key = asked["result"]["inputRequests"].as_object().unwrap().keys().next().unwrap();
    let more = json!({
        "requestState": asked["result"]["requestState"], "inputResponses": { key: name() },
    });
    let done = round(&client, 2, &more);
    assert!(done["result"]["content"][0]["text"].as_str().unwrap().contains("bob"), "{done}");
    let again = round(&client, 3, &json!({}));
    let code = &again["result"]["_meta"]["tollgate/denial"]["code"];
    assert_eq!(code, "rate_limited", "the limit of one holds: {again}");
    check_counted_once(&gate);
}

#[test]
fn a_newer_client_without_an_input_response_is_asked_again() {
    let (gate, client) = gate_with("legacy");
    let mut asked = round(&client, 1, &json!({}));
    for (id, answers) in [(2, json!({})), (3, json!({ "another": name() }))] {
        let state = asked["result"]["requestState"].clone();
        let more = json!({ "requestState": state, "inputResponses": answers });
        let again = round(&client, id, &more);
        assert_eq!(again["id"], id, "{again}");
        let questions = &again["result"]["inputRequests"];
        assert_eq!(*questions, asked["result"]["inputRequests"], "{again}");
        asked = again;
    }
    let key = asked["result"]["inputRequests"].as_object().unwrap().keys().next().unwrap();
    let more = json!({
        "requestState": asked["result"]["requestState"], "inputResponses": { key: name() },
    });
    let done = round(&client, 4, &more);
    assert!(done["result"]["content"][0]["text"].as_str().unwrap().contains("bob"), "{done}");
    check_counted_once(&gate);
}

#[test]
fn an_older_client_finishes_a_call_under_the_prefixed_name_with_a_newer_server() {
    let (gate, client) = gate_with("modern");
    let done = conversed(&client);
    assert!(
        done["result"]["content"][0]["text"].as_str().unwrap_or_default().contains("bob"),
        "{done}"
    );
    check_counted_once(&gate);
}

#[test]
fn a_call_that_waits_for_its_client_is_closed_when_the_gate_stops() {
    let (mut gate, client) = gate_with("legacy");
    let asked = round(&client, 1, &json!({}));
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    gate.stop();
    let rows = gate.decisions();
    let row = rows.iter().find(|row| row["decision"] == "admitted").unwrap();
    assert_eq!(row["outcome"], "unknown", "{row}");
}

#[test]
fn an_unrequested_response_is_not_returned_under_its_id() {
    let (_gate, _recorder, client) = Gate::with_recorder();
    let refused = client.send(&json!({ "jsonrpc": "2.0", "id": 5, "result": {} }));
    assert_eq!(refused.status, 400, "{}", refused.text());
    assert!(refused.json()["id"].is_null(), "{}", refused.text());
}

#[test]
fn a_server_that_accepts_any_revision_gets_one_that_the_gate_supports() {
    let (_gate, mut client) = gate_with("legacy");
    client.path = "/mcp/asks".to_owned();
    for asked in ["1999-01-01", "2026-07-28", "2099-01-01"] {
        let hello = json!({
            "jsonrpc": "2.0", "id": 0, "method": "initialize",
            "params": { "protocolVersion": asked, "capabilities": {}, "clientInfo": { "name": "x", "version": "1" } },
        });
        let answer = client.send(&hello);
        let agreed =
            answer.json()["result"]["protocolVersion"].as_str().unwrap_or_default().to_owned();
        let session = answer.header("mcp-session-id").expect("a session");
        let mut inside = client.clone();
        inside.headers = format!("Mcp-Session-Id: {session}\r\nMcp-Protocol-Version: {agreed}\r\n");
        let list = inside.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }));
        assert_eq!(list.json()["result"]["tools"][0]["name"], "ask", "{asked}: {}", list.text());
    }
}

/// Opens a subscription of the newer era and waits until it is acknowledged.
fn listened(client: &Client) -> BufReader<TcpStream> {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let listen = json!({
        "jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen",
        "params": { "notifications": { "toolsListChanged": true }, "_meta": meta },
    });
    let headers = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: subscriptions/listen\r\n";
    let mut stream = TcpStream::connect(("127.0.0.1", client.port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream.write_all(&client.request(listen.to_string().as_bytes(), headers)).unwrap();
    let mut reader = BufReader::new(stream);
    line_with(&mut reader, "notifications/subscriptions/acknowledged");
    reader
}

fn line_with(reader: &mut BufReader<TcpStream>, words: &str) {
    let mut line = String::new();
    while !line.contains(words) {
        line.clear();
        assert!(reader.read_line(&mut line).unwrap() > 0, "the stream ended before `{words}`");
    }
}

#[test]
fn a_newer_client_gets_the_first_notification_of_an_older_servers_stream() {
    let (_gate, recorder, client) = Gate::with_recorder();
    recorder.behave(Manner::Mute);
    // A client that leaves does not end the subscription of the other, whichever came first.
    drop(listened(&client));
    let mut first = listened(&client);
    let mut second = listened(&client);
    recorder.behave(Manner::Honest);
    line_with(&mut first, "notifications/tools/list_changed");
    line_with(&mut second, "notifications/tools/list_changed");
}

#[test]
fn a_newer_client_gets_the_http_status_of_an_older_servers_error() {
    let (_gate, _recorder, mut newer) = Gate::with_recorder();
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    newer.headers = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: no/such\r\n".to_owned();
    let unknown =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "no/such", "params": { "_meta": meta } });
    let answer = newer.send(&unknown);
    assert_eq!((answer.status, &answer.json()["error"]["code"]), (404, &json!(-32601)));
    let older = Client { headers: String::new(), ..newer };
    let answer = older.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "no/such" }));
    assert_eq!((answer.status, &answer.json()["error"]["code"]), (200, &json!(-32601)));
}

/// On a child's single stream it is unknown to which call a server request belongs.
#[test]
fn the_text_of_a_server_request_is_withheld_if_the_policy_redacts_any_result() {
    let (gate, client) = gate_with("legacy");
    let rules = |tools: Value| json!({ "version": "1", "default": "allow", "tools": tools });
    for (tools, told) in [
        (json!({ "other": { "redact": ["a"] } }), false),
        (json!({ "ask": { "redact": ["a"] } }), false),
        (json!({}), true),
    ] {
        gate.policy("rules", &rules(tools));
        let answer = round(&client, 1, &json!({}));
        let asked = &answer["result"]["inputRequests"];
        let asked = asked.as_object().and_then(|all| all.values().next()).cloned();
        let params = asked.unwrap_or_else(|| panic!("{answer}"))["params"].clone();
        assert_eq!(params["message"] == "who?", told, "{params}");
        assert_eq!(params["requestedSchema"]["properties"]["n"]["type"], "string", "{params}");
        let state = answer["result"]["requestState"].clone();
        let key = answer["result"]["inputRequests"].as_object().unwrap().keys().next().unwrap();
        let answers = json!({ "requestState": state, "inputResponses": { key: name() } });
        let last = round(&client, 2, &answers);
        assert!(last.get("result").is_some(), "{last}");
    }
}
