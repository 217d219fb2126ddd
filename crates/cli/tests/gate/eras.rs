//! Clients and servers of different eras, and what they tell and ask each other beside calls.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::door::Client;
use crate::world::{Gate, until};

const PEER: &str = include_str!("peer.py");
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// A gate in front of the server of `peer.py`, which ends with it.
pub(crate) struct Stage {
    pub(crate) gate: Gate,
    pub(crate) client: Client,
    pub(crate) server: Option<(Child, String)>,
}

impl Drop for Stage {
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

/// The server as a process of the gate.
pub(crate) fn stage(era: &str) -> Stage {
    stage_under(era, &rules(), "")
}

/// The same under these rules and settings.
pub(crate) fn stage_under(era: &str, rules: &Value, settings: &str) -> Stage {
    let mut gate = Gate::new();
    let script = script(&gate);
    gate.policy("rules", rules);
    gate.run(&["server", "add", "peer", "--", "python3", &script, era]);
    gate.settings(settings);
    let token = gate.grant("agent", &["peer=rules"]);
    gate.up();
    let client = gate.client(&token, "/mcp/peer");
    Stage { gate, client, server: None }
}

/// The older server over HTTP, which asks on its own stream and answers calls in this way.
pub(crate) fn stage_over_http(answers: Answers) -> Stage {
    let mut gate = Gate::new();
    let (server, port) = served(&gate, "0", answers);
    gate.policy("rules", &rules());
    let url = format!("http://127.0.0.1:{port}/mcp");
    gate.run(&["server", "add", "peer", "--url", &url]);
    let token = gate.grant("agent", &["peer=rules"]);
    gate.up();
    let client = gate.client(&token, "/mcp/peer");
    Stage { gate, client, server: Some((server, port)) }
}

/// How a server over HTTP answers a call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answers {
    InAStream,
    InOneMessage,
}

/// The older server at a port, and which one that is.
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

fn script(gate: &Gate) -> String {
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

/// Sends a request of the newer era and gives its last message.
pub(crate) fn ask(client: &Client, message: &Value) -> Value {
    all(client, message).pop().expect("an answer")
}

/// The same with all that came.
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

/// Sends a message and reads the stream or the one message that comes back.
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

/// What a tool said, as the server wrote it.
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

/// Calls in a session, accepts whatever is asked, and gives all that came.
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

/// Listens with the newer era's one long request, until its first message.
pub(crate) fn listened(client: &Client, notifications: &Value) -> (BufReader<TcpStream>, Value) {
    listened_with(client, notifications, &json!({}))
}

/// The same of a client with these capabilities.
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
fn a_client_hears_only_of_resources_that_its_policy_lets_it_have() {
    for era in ["modern", "legacy"] {
        let stage = stage(era);
        for path in ["/mcp/peer", "/mcp"] {
            let client = Client { path: path.to_owned(), ..stage.client.clone() };
            let both = json!({ "resourceSubscriptions": ["res://closed", "res://open"] });
            let (_stream, ack) = listened(&client, &both);
            let heard = &ack["params"]["notifications"]["resourceSubscriptions"];
            assert_eq!(heard, &json!(["res://open"]), "{era} {path}: {ack}");
        }
    }
    let stage = stage("modern");
    let both = json!({ "resourceSubscriptions": ["res://closed", "res://open"] });
    let (mut stream, _) = listened(&stage.client, &both);
    ask(&stage.client, &newer("tools/call", &json!({ "name": "touch" }), &json!({})));
    assert_eq!(event(&mut stream)["params"]["uri"], "res://open");
}

#[test]
fn what_a_client_wants_to_hear_has_one_meaning() {
    let stage = stage("modern");
    for notifications in [
        json!({ "resourceSubscriptions": "res://closed" }),
        json!({ "ResourceSubscriptions": ["res://closed"] }),
        json!({ "taskIds": [1] }),
    ] {
        let listen =
            newer("subscriptions/listen", &json!({ "notifications": notifications }), &json!({}));
        let refused = ask(&stage.client, &listen);
        assert_eq!(refused["error"]["code"], -32602, "{notifications}: {refused}");
        assert!(refused["error"]["data"]["audit_id"].is_u64(), "{refused}");
    }
}

#[test]
fn an_older_client_subscribes_at_the_address_of_all_servers() {
    for era in ["modern", "legacy"] {
        let stage = stage(era);
        let client = Client { path: "/mcp".to_owned(), ..stage.client.clone() };
        let client = older(&client, &json!({}));
        for (uri, error) in [("res://open", None), ("res://closed", Some(-31003))] {
            let answer =
                client.send(&request("resources/subscribe", &json!({ "uri": uri }))).json();
            assert_eq!(answer["error"]["code"].as_i64(), error, "{era} {uri}: {answer}");
        }
    }
}

#[test]
fn an_older_server_that_asks_on_its_own_stream_asks_the_newer_client_that_calls() {
    for answers in [Answers::InAStream, Answers::InOneMessage] {
        let stage = stage_over_http(answers);
        let takes = json!({ "elicitation": { "form": {} } });
        let call = newer("tools/call", &json!({ "name": "form", "arguments": {} }), &takes);
        let asked = ask(&stage.client, &call);
        let again = answered(&call, &asked, &json!({ "action": "accept", "content": "bob" }));
        assert_eq!(said(&ask(&stage.client, &again))["content"], "bob", "{answers:?}");

        let unable = newer("tools/call", &json!({ "name": "form" }), &json!({}));
        let nobody = ask(&stage.client, &unable);
        assert_eq!(said(&nobody)["code"], -32601, "nobody to be asked: {nobody}");
        stage.gate.verify();
    }
}

/// The next round of a call, which brings one answer to what was asked.
pub(crate) fn answered(call: &Value, asked: &Value, answer: &Value) -> Value {
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let key = asked["result"]["inputRequests"].as_object().unwrap().keys().next().unwrap();
    let mut again = call.clone();
    again["params"]["requestState"] = asked["result"]["requestState"].clone();
    again["params"]["inputResponses"] = json!({ key: answer });
    again
}

#[test]
fn an_older_server_that_asks_before_it_answers_at_all_asks_the_older_client_on_its_stream() {
    let stage = stage_over_http(Answers::InOneMessage);
    let client = older(&stage.client, &json!({ "elicitation": {} }));
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
fn a_log_message_beside_a_call_does_not_end_its_stream() {
    let stage = stage_over_http(Answers::InAStream);
    let mut call = newer("tools/call", &json!({ "name": "logs" }), &json!({}));
    call["params"]["_meta"]["progressToken"] = json!("t");
    call["params"]["_meta"]["io.modelcontextprotocol/logLevel"] = json!("debug");
    let came = all(&stage.client, &call);
    let methods: Vec<_> = came.iter().filter_map(|message| message["method"].as_str()).collect();
    assert_eq!(methods, ["notifications/message", "notifications/progress"], "{came:?}");
    assert_eq!(said(came.last().unwrap()), "logged", "{came:?}");
}

#[test]
fn an_older_server_may_ask_all_that_a_newer_client_takes_and_nothing_else() {
    let all = json!({ "elicitation": { "form": {}, "url": {} }, "sampling": { "tools": {} } });
    let least = json!({ "elicitation": {}, "sampling": {} });
    let stage = stage("legacy");
    let call = |tool: &str, takes: &Value| {
        ask(&stage.client, &newer("tools/call", &json!({ "name": tool, "arguments": {} }), takes))
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
fn an_older_server_of_all_clients_asks_the_one_that_can_be_asked() {
    let stage = stage("legacy");
    check_asks_the_one_that_can_be_asked(&stage);
    let stage = stage_over_http(Answers::InOneMessage);
    check_asks_the_one_that_can_be_asked(&stage);
}

fn check_asks_the_one_that_can_be_asked(stage: &Stage) {
    let takes = json!({ "elicitation": {} });
    let form = json!({ "name": "form", "arguments": { "after_hold": true } });
    let form = newer("tools/call", &form, &takes);
    let hold = newer("tools/call", &json!({ "name": "hold" }), &json!({}));
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| ask(&stage.client, &form));
        // It comes later and is under way when the server asks.
        let other = scope.spawn(|| ask(&stage.client, &hold));
        let again = answered(&form, &asked.join().unwrap(), &json!({ "action": "decline" }));
        assert_eq!(said(&ask(&stage.client, &again))["action"], "decline");
        assert_eq!(said(&other.join().unwrap()), "held");
    });
}

#[test]
fn a_call_that_an_older_client_takes_back_ends_at_a_newer_server_that_goes_on_talking() {
    let stage = stage("modern");
    let client = older(&stage.client, &json!({}));
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
fn an_older_client_hears_of_progress_in_every_round_of_a_newer_server() {
    let stage = stage("modern");
    let client = older(&stage.client, &json!({ "elicitation": {} }));
    let steps = json!({ "name": "steps", "_meta": { "progressToken": "t" } });
    let came = conversed(&client, &request("tools/call", &steps));
    let progress = came.iter().filter(|message| message["method"] == "notifications/progress");
    let progress: Vec<_> = progress.map(|message| message["params"]["progress"].clone()).collect();
    assert_eq!(progress, [1, 2, 3], "{came:?}");
    assert_eq!(said(came.last().unwrap()), "done", "{came:?}");
}

#[test]
fn a_newer_server_that_never_comes_to_an_end_does_not_keep_the_gate_at_it() {
    let stage = stage("modern");
    let client = older(&stage.client, &json!({ "elicitation": {} }));
    let answer = client.send(&request("tools/call", &json!({ "name": "endless" }))).json();
    assert_eq!(answer["error"]["code"], -31052, "{answer}");
}

#[test]
fn a_log_level_at_the_address_of_all_servers_reaches_older_ones() {
    // A log level is no tool, so it follows the policy's default.
    let stage = stage_under("legacy", &json!({ "version": "1", "default": "allow" }), "");
    let client = Client { path: "/mcp".to_owned(), ..stage.client.clone() };
    let level = |name: &str| request("logging/setLevel", &json!({ "level": name }));
    let told = request("tools/call", &json!({ "name": "peer.level" }));

    let before = older(&client, &json!({}));
    assert!(before.send(&level("error")).json()["result"].is_object());
    assert_eq!(said(&before.send(&told).json()), "error", "it joined the session afterwards");
    assert!(before.send(&level("debug")).json()["result"].is_object());
    assert_eq!(said(&before.send(&told).json()), "debug");
}

#[test]
fn a_server_that_was_started_again_is_heard_again() {
    let mut stage = stage_over_http(Answers::InAStream);
    let client = older(&stage.client, &json!({}));
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

    let (mut server, port) = stage.server.take().unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    let unheard = |row: &Value| row["method"] == "(stream)" && row["outcome"] == "error";
    until("the gate misses the server", Duration::from_secs(20), || {
        stage.gate.rows().iter().any(unheard)
    });
    stage.server = Some(served(&stage.gate, &port, Answers::InAStream));
    // What was under way when the server ended may still be there.
    while stream.buffer().contains(&b'd') {
        event(&mut stream);
    }
    until_heard(&mut stream);
    let told = request("tools/call", &json!({ "name": "subscribed", "arguments": {} }));
    let came = messages(&client, &told);
    assert_eq!(said(came.last().unwrap()), json!(["res://open"]), "it is told again");
}

#[test]
fn a_newer_server_that_starts_slowly_is_not_taken_for_an_older_one_for_good() {
    let stage = stage("late");
    let call = newer("tools/call", &json!({ "name": "touch" }), &json!({}));
    assert_eq!(said(&ask(&stage.client, &call)), "touched");
}

/// The gate as a command of a client.
struct Piped {
    child: Child,
    input: ChildStdin,
    output: BufReader<std::process::ChildStdout>,
}

impl Piped {
    fn say(&mut self, message: &Value) {
        writeln!(self.input, "{message}").unwrap();
    }

    /// Makes the server have news, and says whether any came before the answer to a later request.
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
fn a_client_on_standard_streams_takes_its_subscription_back() {
    for era in ["modern", "legacy"] {
        let stage = stage(era);
        let mut command = stage.gate.command();
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
