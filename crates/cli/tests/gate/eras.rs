//! Clients and servers of different eras: notifications, server requests and subscriptions.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::http_client::Client;
use crate::test_gate::{Gate, until};

const PEER: &str = include_str!("peer.py");
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// A gate in front of the server of `peer.py`, which ends with the test.
pub(crate) struct PeerGate {
    pub(crate) gate: Gate,
    pub(crate) client: Client,
    pub(crate) server: Option<(Child, String)>,
}

impl Drop for PeerGate {
    fn drop(&mut self) {
        if let Some((server, _)) = &mut self.server {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

fn rules() -> Value {
    json!({
        "version": "1", "default": "deny",
        "tools": { "*": {}, "opens": { "limits": [{ "window": "hour", "max": 3 }] } },
        "resources": { "res://open": {} },
        "server_requests": ["elicitation", "sampling", "roots"],
    })
}

/// With the server as a child process of the gate.
pub(crate) fn peer_gate(era: &str) -> PeerGate {
    peer_gate_with(era, &rules(), "")
}

/// The same with this policy and these settings.
pub(crate) fn peer_gate_with(era: &str, rules: &Value, settings: &str) -> PeerGate {
    let mut gate = Gate::new();
    let script = script(&gate);
    gate.policy("rules", rules);
    gate.run(&["server", "add", "peer", "--", "python3", &script, era]);
    gate.settings(settings);
    let token = gate.grant("agent", &["peer=rules"]);
    gate.up();
    let client = gate.client(&token, "/mcp/peer");
    PeerGate { gate, client, server: None }
}

/// With the older server over HTTP, which sends requests on its own stream and answers calls like this.
pub(crate) fn peer_gate_over_http(answers: Answers) -> PeerGate {
    let mut gate = Gate::new();
    let (server, port) = served(&gate, "0", answers);
    gate.policy("rules", &rules());
    let url = format!("http://127.0.0.1:{port}/mcp");
    gate.run(&["server", "add", "peer", "--url", &url]);
    let token = gate.grant("agent", &["peer=rules"]);
    gate.up();
    let client = gate.client(&token, "/mcp/peer");
    PeerGate { gate, client, server: Some((server, port)) }
}

/// How a server over HTTP answers a call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answers {
    InAStream,
    InOneMessage,
}

/// Starts the older server on a port; returns the port.
fn served(gate: &Gate, port: &str, answers: Answers) -> (Child, String) {
    let plain = match answers {
        Answers::InAStream => None,
        Answers::InOneMessage => Some("plain"),
    };
    let mut server = Command::new("python3")
        .args([&script(gate), "legacy", port])
        .args(plain)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut port = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut port).unwrap();
    (server, port.trim().to_owned())
}

pub(crate) fn script(gate: &Gate) -> String {
    let file = gate.folder.path().join("peer.py");
    std::fs::write(&file, PEER).unwrap();
    file.to_str().unwrap().to_owned()
}

/// A request of the newer era.
pub(crate) fn newer(method: &str, params: &Value, capabilities: &Value) -> Value {
    let mut message =
        json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params.clone() });
    message["params"]["_meta"] = json!({ VERSION: "2026-07-28", CAPABILITIES: capabilities });
    message
}

/// Sends a request of the newer era and returns the last message.
pub(crate) fn ask(client: &Client, message: &Value) -> Value {
    all(client, message).pop().expect("an answer")
}

/// The same with all messages.
pub(crate) fn all(client: &Client, message: &Value) -> Vec<Value> {
    let mut client = client.clone();
    let params = &message["params"];
    let name = params["name"].as_str().or_else(|| params["taskId"].as_str());
    let name = name.map(|name| format!("Mcp-Name: {name}\r\n"));
    client.headers = format!(
        "Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: {}\r\n{}",
        message["method"].as_str().unwrap(),
        name.unwrap_or_default(),
    );
    messages(&client, message)
}

/// Sends a message and reads the stream or the single message of the response.
fn messages(client: &Client, message: &Value) -> Vec<Value> {
    let answer = client.send(message);
    let text = answer.text();
    if text.starts_with('{') {
        return vec![answer.json()];
    }
    text.lines()
        .filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok())
        .collect()
}

/// The text of a tool's result, parsed.
pub(crate) fn said(answer: &Value) -> Value {
    let text = answer["result"]["content"][0]["text"].as_str();
    text.map_or(Value::Null, |text| serde_json::from_str(text).unwrap())
}

/// A session of the older era.
pub(crate) fn older(client: &Client, capabilities: &Value) -> Client {
    let hello = json!({
        "jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25", "capabilities": capabilities,
            "clientInfo": { "name": "older", "version": "1" },
        },
    });
    let mut client = client.clone();
    let session = client.send(&hello).header("mcp-session-id").expect("a session");
    client.headers = format!("Mcp-Session-Id: {session}\r\n");
    client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    client
}

pub(crate) fn request(method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })
}

/// Calls in a session, accepts every server request, and returns all messages.
pub(crate) fn conversed(client: &Client, message: &Value) -> Vec<Value> {
    let mut stream = TcpStream::connect(("127.0.0.1", client.port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(&client.request(message.to_string().as_bytes(), "")).unwrap();
    let mut came = Vec::new();
    for line in BufReader::new(stream).lines().map(|line| line.expect("a line in time")) {
        let Some(text) = line.strip_prefix("data: ").or(line.starts_with('{').then_some(&line))
        else {
            continue;
        };
        let message: Value = serde_json::from_str(text).unwrap();
        let ends = message.get("method").is_none();
        if message.get("method").is_some() && message.get("id").is_some() {
            let accepted = json!({ "action": "accept", "content": { "n": "bob" } });
            let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": accepted });
            assert_eq!(client.send(&answer).status, 202);
        }
        came.push(message);
        if ends {
            break;
        }
    }
    came
}

/// Opens a subscription of the newer era and reads its first message.
pub(crate) fn listened(client: &Client, notifications: &Value) -> (BufReader<TcpStream>, Value) {
    listened_with(client, notifications, &json!({}))
}

/// The same with these capabilities.
pub(crate) fn listened_with(
    client: &Client,
    notifications: &Value,
    takes: &Value,
) -> (BufReader<TcpStream>, Value) {
    let listen = newer("subscriptions/listen", &json!({ "notifications": notifications }), takes);
    let headers = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: subscriptions/listen\r\n";
    let mut stream = TcpStream::connect(("127.0.0.1", client.port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(&client.request(listen.to_string().as_bytes(), headers)).unwrap();
    let mut reader = BufReader::new(stream);
    let first = event(&mut reader);
    (reader, first)
}

pub(crate) fn event(reader: &mut BufReader<TcpStream>) -> Value {
    let began = Instant::now();
    loop {
        let mut line = String::new();
        assert!(reader.read_line(&mut line).unwrap() > 0, "the stream ended");
        assert!(began.elapsed() < Duration::from_secs(30), "nothing but signs of life");
        if let Some(text) = line.strip_prefix("data: ") {
            return serde_json::from_str(text).unwrap();
        }
    }
}

#[test]
fn a_client_gets_updates_only_of_resources_that_its_policy_allows() {
    for era in ["modern", "legacy"] {
        let peer = peer_gate(era);
        for path in ["/mcp/peer", "/mcp"] {
            let client = Client { path: path.to_owned(), ..peer.client.clone() };
            let both = json!({ "resourceSubscriptions": ["res://closed", "res://open"] });
            let (_stream, ack) = listened(&client, &both);
            let heard = &ack["params"]["notifications"]["resourceSubscriptions"];
            assert_eq!(heard, &json!(["res://open"]), "{era} {path}: {ack}");
        }
    }
    let peer = peer_gate("modern");
    let both = json!({ "resourceSubscriptions": ["res://closed", "res://open"] });
    let (mut stream, _) = listened(&peer.client, &both);
    ask(&peer.client, &newer("tools/call", &json!({ "name": "touch" }), &json!({})));
    assert_eq!(event(&mut stream)["params"]["uri"], "res://open");
}

#[test]
fn ambiguous_subscriptions_are_refused() {
    let peer = peer_gate("modern");
    for notifications in [
        json!({ "resourceSubscriptions": "res://closed" }),
        json!({ "ResourceSubscriptions": ["res://closed"] }),
        json!({ "taskIds": [1] }),
    ] {
        let listen =
            newer("subscriptions/listen", &json!({ "notifications": notifications }), &json!({}));
        let refused = ask(&peer.client, &listen);
        assert_eq!(refused["error"]["code"], -32602, "{notifications}: {refused}");
        assert!(refused["error"]["data"]["audit_id"].is_u64(), "{refused}");
    }
}

#[test]
fn an_older_client_subscribes_at_the_address_of_all_servers() {
    for era in ["modern", "legacy"] {
        let peer = peer_gate(era);
        let client = Client { path: "/mcp".to_owned(), ..peer.client.clone() };
        let client = older(&client, &json!({}));
        for (uri, error) in [("res://open", None), ("res://closed", Some(-31003))] {
            let answer =
                client.send(&request("resources/subscribe", &json!({ "uri": uri }))).json();
            assert_eq!(answer["error"]["code"].as_i64(), error, "{era} {uri}: {answer}");
        }
    }
}

#[test]
fn a_server_request_on_an_older_servers_stream_reaches_the_calling_newer_client() {
    for answers in [Answers::InAStream, Answers::InOneMessage] {
        let peer = peer_gate_over_http(answers);
        let takes = json!({ "elicitation": { "form": {} } });
        let call = newer("tools/call", &json!({ "name": "form", "arguments": {} }), &takes);
        let asked = ask(&peer.client, &call);
        let again = answered(&call, &asked, &json!({ "action": "accept", "content": "bob" }));
        assert_eq!(said(&ask(&peer.client, &again))["content"], "bob", "{answers:?}");

        let unable = newer("tools/call", &json!({ "name": "form" }), &json!({}));
        let refused = ask(&peer.client, &unable);
        assert_eq!(said(&refused)["code"], -32601, "no client can answer: {refused}");
        peer.gate.verify();
    }
}

/// The next round of a call, with one input response.
pub(crate) fn answered(call: &Value, asked: &Value, answer: &Value) -> Value {
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let key = asked["result"]["inputRequests"].as_object().unwrap().keys().next().unwrap();
    let mut again = call.clone();
    again["params"]["requestState"] = asked["result"]["requestState"].clone();
    again["params"]["inputResponses"] = json!({ key: answer });
    again
}

#[test]
fn a_server_request_before_the_response_reaches_the_older_client_on_its_stream() {
    let peer = peer_gate_over_http(Answers::InOneMessage);
    let client = older(&peer.client, &json!({ "elicitation": {} }));
    let mut stream = BufReader::new(client.open("GET"));
    stream.get_ref().set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let form = request("tools/call", &json!({ "name": "form", "arguments": {} }));
    std::thread::scope(|scope| {
        let called = scope.spawn(|| client.send(&form).json());
        let question = event(&mut stream);
        assert_eq!(question["method"], "elicitation/create");
        let declined =
            json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "action": "decline" } });
        assert_eq!(client.send(&declined).status, 202);
        assert_eq!(said(&called.join().unwrap())["action"], "decline");
    });
}

#[test]
fn a_log_message_during_a_call_does_not_end_its_stream() {
    let peer = peer_gate_over_http(Answers::InAStream);
    // Where methods are denied, the server gets no level.
    peer.gate.policy("rules", &json!({ "version": "1", "default": "allow" }));
    let mut call = newer("tools/call", &json!({ "name": "logs" }), &json!({}));
    call["params"]["_meta"]["progressToken"] = json!("t");
    call["params"]["_meta"]["io.modelcontextprotocol/logLevel"] = json!("debug");
    let came = all(&peer.client, &call);
    let methods: Vec<_> = came.iter().filter_map(|message| message["method"].as_str()).collect();
    assert_eq!(methods, ["notifications/message", "notifications/progress"], "{came:?}");
    assert_eq!(said(came.last().unwrap()), "logged", "{came:?}");
}

#[test]
fn an_older_server_may_request_only_what_a_newer_client_supports() {
    let all = json!({ "elicitation": { "form": {}, "url": {} }, "sampling": { "tools": {} } });
    let least = json!({ "elicitation": {}, "sampling": {} });
    let peer = peer_gate("legacy");
    let call = |tool: &str, takes: &Value| {
        ask(&peer.client, &newer("tools/call", &json!({ "name": tool, "arguments": {} }), takes))
    };
    let told = said(&call("capabilities", &least));
    assert!(told["elicitation"]["url"].is_object(), "{told}");
    assert!(told["sampling"]["tools"].is_object(), "{told}");
    for (tool, takes, is_asked) in [
        ("form", &all, true),
        ("address", &all, true),
        ("model", &all, true),
        ("form", &least, true),
        ("address", &least, false),
        ("model", &least, false),
    ] {
        let answer = call(tool, takes);
        let asked = answer["result"]["resultType"] == "input_required";
        assert_eq!(asked, is_asked, "{tool} {takes}: {answer}");
        assert!(!answer.to_string().contains("elicitationId"), "{answer}");
        if !is_asked {
            assert_eq!(said(&answer)["code"], -32602, "{answer}");
        }
    }
}

#[test]
fn a_shared_older_server_asks_the_client_that_can_answer() {
    let peer = peer_gate("legacy");
    check_asks_the_client_that_can_answer(&peer);
    let peer = peer_gate_over_http(Answers::InOneMessage);
    check_asks_the_client_that_can_answer(&peer);
}

fn check_asks_the_client_that_can_answer(peer: &PeerGate) {
    let takes = json!({ "elicitation": {} });
    let form = json!({ "name": "form", "arguments": { "after_hold": true } });
    let form = newer("tools/call", &form, &takes);
    let hold = newer("tools/call", &json!({ "name": "hold" }), &json!({}));
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| ask(&peer.client, &form));
        // It comes later and is in flight when the server sends its request.
        let other = scope.spawn(|| ask(&peer.client, &hold));
        let again = answered(&form, &asked.join().unwrap(), &json!({ "action": "decline" }));
        assert_eq!(said(&ask(&peer.client, &again))["action"], "decline");
        assert_eq!(said(&other.join().unwrap()), "held");
    });
}

#[test]
fn a_call_cancelled_by_an_older_client_ends_at_a_newer_server_that_keeps_sending() {
    let peer = peer_gate("modern");
    let client = older(&peer.client, &json!({}));
    let chatter = json!({ "name": "chatter", "_meta": { "progressToken": "t" } });
    let mut stream = TcpStream::connect(("127.0.0.1", client.port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let body = request("tools/call", &chatter).to_string();
    stream.write_all(&client.request(body.as_bytes(), "")).unwrap();
    let mut reader = BufReader::new(stream);
    assert_eq!(event(&mut reader)["method"], "notifications/progress");
    let back = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } });
    assert_eq!(client.send(&back).status, 202);
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut reader, &mut rest).expect("the stream ends");
    let told = client.send(&request("tools/call", &json!({ "name": "cancelled" }))).json();
    assert!(!said(&told).is_null(), "{told}");
}

#[test]
fn an_older_client_gets_progress_in_every_round_of_a_newer_server() {
    let peer = peer_gate("modern");
    let client = older(&peer.client, &json!({ "elicitation": {} }));
    let steps = json!({ "name": "steps", "_meta": { "progressToken": "t" } });
    let came = conversed(&client, &request("tools/call", &steps));
    let progress = came.iter().filter(|message| message["method"] == "notifications/progress");
    let progress: Vec<_> = progress.map(|message| message["params"]["progress"].clone()).collect();
    assert_eq!(progress, [1, 2, 3], "{came:?}");
    assert_eq!(said(came.last().unwrap()), "done", "{came:?}");
}

#[test]
fn a_newer_server_that_never_finishes_its_rounds_is_stopped() {
    let peer = peer_gate("modern");
    let client = older(&peer.client, &json!({ "elicitation": {} }));
    let answer = client.send(&request("tools/call", &json!({ "name": "endless" }))).json();
    assert_eq!(answer["error"]["code"], -31052, "{answer}");
}

#[test]
fn a_log_level_at_the_address_of_all_servers_reaches_older_ones() {
    // A log level is not a tool, so the policy's default applies.
    let peer = peer_gate_with("legacy", &json!({ "version": "1", "default": "allow" }), "");
    let client = Client { path: "/mcp".to_owned(), ..peer.client.clone() };
    let level = |name: &str| request("logging/setLevel", &json!({ "level": name }));
    let told = request("tools/call", &json!({ "name": "peer__level" }));

    let before = older(&client, &json!({}));
    assert!(before.send(&level("error")).json()["result"].is_object());
    assert_eq!(said(&before.send(&told).json()), "error", "it joined the session afterwards");
    assert!(before.send(&level("debug")).json()["result"].is_object());
    assert_eq!(said(&before.send(&told).json()), "debug");
}

#[test]
fn notifications_of_a_restarted_server_are_delivered_again() {
    let mut peer = peer_gate_over_http(Answers::InAStream);
    let client = older(&peer.client, &json!({}));
    let mut stream = BufReader::new(client.open("GET"));
    stream.get_ref().set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let touch = request("tools/call", &json!({ "name": "touch" }));
    let until_heard = |stream: &mut BufReader<TcpStream>| {
        std::thread::scope(|scope| {
            let hearing = scope.spawn(|| event(stream)["method"].clone());
            while !hearing.is_finished() {
                client.send(&touch);
            }
            assert_eq!(hearing.join().unwrap(), "notifications/tools/list_changed");
        });
    };
    until_heard(&mut stream);
    let subscribe = request("resources/subscribe", &json!({ "uri": "res://open" }));
    assert!(client.send(&subscribe).json()["result"].is_object());

    let (mut server, port) = peer.server.take().unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    let unheard = |row: &Value| row["method"] == "(stream)" && row["outcome"] == "error";
    until("the gate misses the server", Duration::from_secs(20), || {
        peer.gate.rows().iter().any(unheard)
    });
    peer.server = Some(served(&peer.gate, &port, Answers::InAStream));
    // Messages from before the server's exit may still arrive.
    while stream.buffer().contains(&b'd') {
        event(&mut stream);
    }
    until_heard(&mut stream);
    let told = request("tools/call", &json!({ "name": "subscribed", "arguments": {} }));
    let came = messages(&client, &told);
    assert_eq!(said(came.last().unwrap()), json!(["res://open"]), "it is told again");
}

#[test]
fn a_slow_start_does_not_fix_the_era_of_a_newer_server() {
    let peer = peer_gate("late");
    let call = newer("tools/call", &json!({ "name": "touch" }), &json!({}));
    assert_eq!(said(&ask(&peer.client, &call)), "touched");
}

/// `tollgate stdio` as a client's child process.
struct Piped {
    child: Child,
    input: ChildStdin,
    output: BufReader<std::process::ChildStdout>,
}

impl Piped {
    fn say(&mut self, message: &Value) {
        writeln!(self.input, "{message}").unwrap();
    }

    /// Triggers a notification, and returns whether it came before the response to a later request.
    fn hears_of_a_touch(&mut self) -> bool {
        let touch = newer("tools/call", &json!({ "name": "touch" }), &json!({}));
        let list = newer("tools/list", &json!({}), &json!({}));
        let mut heard = false;
        for (id, mut message) in [(2, touch), (3, list)] {
            message["id"] = json!(id);
            self.say(&message);
            loop {
                let came = self.next();
                if came["id"] == id {
                    break;
                }
                heard |= came.get("method").is_some();
            }
        }
        heard
    }

    fn next(&mut self) -> Value {
        let mut line = String::new();
        assert!(self.output.read_line(&mut line).unwrap() > 0, "the gate ended");
        serde_json::from_str(&line).unwrap()
    }
}

#[test]
fn a_client_on_stdio_cancels_its_subscription() {
    for era in ["modern", "legacy"] {
        let peer = peer_gate(era);
        let mut command = peer.gate.command();
        command.args(["stdio", "peer", "--grant", "agent"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut piped = Piped { child, input, output: BufReader::new(output) };
        let wanted = json!({ "toolsListChanged": true, "resourceSubscriptions": ["res://open"] });
        let listen = newer("subscriptions/listen", &json!({ "notifications": wanted }), &json!({}));
        piped.say(&listen);
        assert_eq!(piped.next()["method"], "notifications/subscriptions/acknowledged");
        assert!(piped.hears_of_a_touch(), "{era}");
        let back = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } });
        piped.say(&back);
        let quiet = (0..50).any(|_| !piped.hears_of_a_touch());
        assert!(quiet && !piped.hears_of_a_touch(), "{era}: the subscription went on");
        drop(piped.input);
        assert!(piped.child.wait().unwrap().success());
    }
}
