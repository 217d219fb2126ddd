//! Servers with invalid responses: whatever one sends, the agent gets a result that its policy allows or a
//! clear error, the call is closed in the log, and the gate keeps running. The table is `invalid_responses.txt`.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

use crate::hostile::{expand, table};
use crate::recorder::Recorder;
use crate::test_gate::{Gate, until};

const LIES: &str = include_str!("invalid_responses.txt");
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(5);

fn rules() -> Value {
    json!({
        "version": "1",
        "default": "allow",
        "tools": {
            "red": { "redact": ["profile.email"] },
            "big": { "result_bytes_max": 100 },
            "secret": { "action": "deny" },
        },
    })
}

pub(crate) fn told(raw: &str) -> Vec<u8> {
    let head = "HTTP/1.1 200 OK~connection: close~content-type: ";
    let text = raw
        .replace("{json}", &format!("{head}application/json~~"))
        .replace("{sse}", &format!("{head}text/event-stream~~"))
        .replace('~', "\r\n");
    expand(&text)
}

/// The last message of a body that is JSON or an event stream.
fn last(body: &str) -> Value {
    let event = body.lines().rev().find_map(|line| line.strip_prefix("data: "));
    serde_json::from_str(event.unwrap_or(body)).unwrap_or_default()
}

fn check(name: &str, wanted: &str, body: &str) {
    assert!(!body.contains("LEAK"), "{name}: {body}");
    let answer = last(body);
    assert_eq!(answer["jsonrpc"], "2.0", "{name}: {body}");
    let fits = match wanted {
        "error" => {
            answer["error"]["code"] == -31052 && answer["error"]["message"].as_str().is_some()
        }
        "sign-in" => answer["error"]["code"] == -31041,
        "ok" => answer["result"]["mark"] == "GOOD",
        _ => answer.get("error").is_some() || answer["result"]["isError"] == true,
    };
    assert!(fits, "{name}: wanted {wanted}, got {body}");
}

#[test]
fn p22_p24_invalid_responses_over_http_affect_no_other_client() {
    let mut gate = Gate::new();
    let recorder = Recorder::new(&["echo", "red", "big", "secret"]);
    gate.policy("rules", &rules());
    gate.run(&["server", "add", "rec", "--url", &recorder.url()]);
    let token = gate.grant("agent", &["rec=rules"]);
    gate.up();
    let client = gate.client(&token, "/mcp/rec");
    assert!(client.call("echo", &json!({})).passed());
    let before = gate.decisions().len();
    let mut lies = 0;
    for case in table(LIES, 4) {
        recorder.lie(Some(told(case[3])));
        let answer = client.call(case[1], &json!({}));
        assert_eq!(answer.status, 200, "{}: {}", case[0], answer.text());
        assert!(answer.took < ANSWER_WAIT_MAX, "{}: {:?}", case[0], answer.took);
        assert!(!answer.head.contains("LEAK"), "{}: {}", case[0], answer.head);
        check(case[0], case[2], &answer.text());
        lies += 1;
    }
    recorder.lie(None);
    assert!(client.call("echo", &json!({})).passed(), "the gate keeps running");
    assert!(!client.call("secret", &json!({})).passed(), "and so does its policy");
    let rows = gate.decisions();
    assert_eq!(rows.len() - before, lies + 2, "one row each");
    let open = rows.iter().filter(|row| row["decision"] == "admitted" && row["outcome"].is_null());
    assert_eq!(open.count(), 0, "every call is closed");
    assert!(!gate.log().contains("panicked"), "{}", gate.log());
    println!("P22: {lies} lies of a server over HTTP, each answered in time and closed, 0 leaks");
    println!("P24: {lies} lies of one server, calls pass afterwards");
}

/// A handshake gets one response with its own id, and no invalid message of the server.
#[test]
fn p22_an_invalid_handshake_opens_no_session() {
    let (_gate, recorder, client) = Gate::with_recorder();
    let greeting = r#"{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"LEAK","version":"1"}}"#;
    let cases = [
        (
            "another id",
            -31052,
            format!(r#"{{json}}{{"jsonrpc":"2.0","id":77,"result":{greeting}}}"#),
        ),
        (
            "two results",
            -31052,
            format!(
                r#"{{json}}{{"jsonrpc":"2.0","id":{{id}},"result":{greeting},"result":{greeting}}}"#
            ),
        ),
        (
            "another's refusal",
            -31052,
            r#"{json}{"jsonrpc":"2.0","id":"x","error":{"code":1,"message":"no","data":"LEAK"}}"#
                .to_owned(),
        ),
        (
            "an error that is none",
            -31052,
            r#"{json}{"jsonrpc":"2.0","id":{id},"error":{"data":"LEAK"}}"#.to_owned(),
        ),
        (
            "text next to a status",
            -31041,
            r#"HTTP/1.1 401 x~content-type: application/json~connection: close~~{"error":"LEAK"}"#
                .to_owned(),
        ),
        (
            "a refusal",
            -32000,
            r#"{json}{"jsonrpc":"2.0","id":{id},"error":{"code":-32000,"message":"no"}}"#
                .to_owned(),
        ),
    ];
    for (name, code, lie) in cases {
        recorder.lie_to_hello(Some(told(&lie)));
        let answer = client.send(&hello());
        assert_eq!(answer.json()["id"], 0, "{name}: {}", answer.text());
        assert_eq!(answer.json()["error"]["code"], code, "{name}: {}", answer.text());
        assert!(!answer.text().contains("LEAK"), "{name}: {}", answer.text());
        assert_eq!(answer.header("mcp-session-id"), None, "{name}");
    }
    recorder.lie_to_hello(None);
    assert!(client.with_session().call("echo", &json!({})).passed(), "the gate keeps running");
}

/// A server on stdio that writes the bytes of the argument `raw`.
const CHILD: &str = r#"
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "method" not in message or "id" not in message:
        continue
    id, method = json.dumps(message["id"]), message["method"]
    if method == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "c", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [{"name": n, "inputSchema": {"type": "object"}} for n in ["echo", "red", "big", "secret"]]}
    elif method == "tools/call" and "raw" in message["params"]["arguments"]:
        raw = message["params"]["arguments"]["raw"].encode("latin-1").replace(b"{id}", id.encode())
        sys.stdout.buffer.write(raw + b"\n")
        sys.stdout.buffer.flush()
        continue
    elif method == "tools/call":
        result = {"content": [], "mark": "GOOD"}
    else:
        result = {}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"#;

/// `tollgate stdio` as a client sees it.
struct Streams {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
}

impl Streams {
    fn start(gate: &Gate, words: &[&str]) -> Streams {
        let mut child = gate
            .command()
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Streams { child, input, lines }
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input, "{message}").unwrap();
    }

    /// The next line with this id; earlier lines are added to `others`.
    fn answer(&self, id: u64, others: &mut Vec<String>) -> String {
        loop {
            let line = self.lines.recv_timeout(ANSWER_WAIT_MAX).expect("an answer in time");
            if serde_json::from_str::<Value>(&line).unwrap()["id"] == id {
                return line;
            }
            others.push(line);
        }
    }

    fn end(mut self) {
        drop(self.input);
        assert!(self.child.wait().unwrap().success());
    }
}

fn hello() -> Value {
    json!({
        "jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": { "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "x", "version": "1" } },
    })
}

fn with_liar(gate: &Gate) {
    let script = gate.folder.path().join("liar.py");
    std::fs::write(&script, CHILD).unwrap();
    gate.policy("rules", &rules());
    gate.run(&["server", "add", "liar", "--", "python3", script.to_str().unwrap()]);
    gate.grant("agent", &["liar=rules"]);
}

#[test]
fn p22_p24_invalid_responses_on_stdio_affect_no_other_client() {
    let gate = Gate::new();
    with_liar(&gate);
    let mut streams = Streams::start(&gate, &["stdio", "liar", "--grant", "agent"]);
    let mut others = Vec::new();
    streams.send(&hello());
    streams.answer(0, &mut others);
    let mut lies = 0;
    for case in table(LIES, 4).filter(|case| case[3].starts_with("{json}") && case[3] != "{json}") {
        // Only a response with the request's id is distinguished from noise before the timeout.
        if !case[3].contains("\"id\":{id}") || case[3].contains("/*") {
            continue;
        }
        let raw: String =
            expand(&case[3].replace("{json}", "")).into_iter().map(char::from).collect();
        lies += 1;
        streams.send(&json!({
            "jsonrpc": "2.0", "id": lies, "method": "tools/call",
            "params": { "name": case[1], "arguments": { "raw": raw } },
        }));
        let line = streams.answer(lies, &mut others);
        check(case[0], case[2], &line);
    }
    let noise = "listening on port 3000\n\u{1b}[31mred\n[]\n5\n";
    let raw = format!("{noise}{}", r#"{"jsonrpc":"2.0","id":{id},"result":{"mark":"GOOD"}}"#);
    streams.send(&json!({
        "jsonrpc": "2.0", "id": 900, "method": "tools/call", "params": { "name": "echo", "arguments": { "raw": raw } },
    }));
    check("noise before the answer", "ok", &streams.answer(900, &mut others));
    // On one stream it is unknown whether the text belongs to another call, of `red`.
    let words = [
        r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"LEAK"}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/own","params":{"profile":{"email":"LEAK"}}}"#,
        r#"{"jsonrpc":"2.0","id":{id},"result":{"mark":"GOOD"}}"#,
    ];
    streams.send(&json!({
        "jsonrpc": "2.0", "id": 901, "method": "tools/call",
        "params": { "name": "echo", "arguments": { "raw": words.join("\n") } },
    }));
    check("words before the answer", "ok", &streams.answer(901, &mut others));
    assert!(others.iter().all(|line| !line.contains("LEAK")), "{others:?}");
    streams.end();
    let rows = gate.decisions();
    let open = rows.iter().filter(|row| row["decision"] == "admitted" && row["outcome"].is_null());
    assert_eq!(open.count(), 0, "every call is closed");
    println!("P22: {lies} lies of a server on standard streams, each answered in time, 0 leaks");
    assert!(lies > 30, "{lies}");
}

/// Over HTTP a client can resume such a stream in its session; on a pipe it would wait forever.
#[test]
fn p22_a_truncated_stream_is_an_error_on_stdio() {
    let (gate, recorder, _client) = Gate::with_recorder();
    let mut streams = Streams::start(&gate, &["stdio", "rec", "--grant", "agent"]);
    let mut others = Vec::new();
    streams.send(&hello());
    streams.answer(0, &mut others);
    recorder.lie(Some(told("{sse}id: 7%0Adata: %0A%0A")));
    let call = |id: u64| {
        json!({
            "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": "echo", "arguments": {} },
        })
    };
    streams.send(&call(1));
    check("a stream that breaks off", "error", &streams.answer(1, &mut others));
    recorder.lie(None);
    streams.send(&call(2));
    assert!(streams.answer(2, &mut others).contains("\"result\""), "the gate keeps running");
    streams.end();
}

/// Messages that are dropped are logged for the owner, but not every line of a flood.
#[test]
fn p24_endless_messages_of_a_server_do_not_fill_the_log() {
    const TIMES: usize = 5000;
    let mut gate = Gate::new();
    let recorder = Recorder::new(&["echo"]);
    gate.policy("rules", &rules());
    gate.run(&["server", "add", "rec", "--url", &recorder.url()]);
    let token = gate.grant("agent", &["rec=rules"]);
    gate.up();
    let others = r#"data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"x","progress":1}}%0A%0A"#;
    let good = r#"data: {"jsonrpc":"2.0","id":{id},"result":{"content":[],"mark":"GOOD"}}%0A%0A"#;
    recorder.lie(Some(told(&format!("{{sse}}{}{good}", others.repeat(TIMES)))));
    // The longer the request, the longer each message takes to compare.
    let answer = gate.client(&token, "/mcp/rec").call("echo", &json!({ "x": "x".repeat(900_000) }));
    check("words about another request", "ok", &answer.text());
    assert!(answer.took < ANSWER_WAIT_MAX, "{:?}", answer.took);
    let lines = gate.log().lines().count();
    assert!((50..500).contains(&lines), "{lines} lines in the log");
    println!(
        "P24: {TIMES} messages about another's request: {lines} lines in the log, answered after {:.0?}",
        answer.took
    );
}

/// The gate answers each server request itself, with a row; those beyond its rate are dropped.
#[test]
fn p23_endless_server_requests_fill_neither_memory_nor_log() {
    const TIMES: usize = 20_000;
    let mut gate = Gate::new();
    with_liar(&gate);
    let token = gate.grant("web", &["liar=rules"]);
    gate.up();
    let client = gate.client(&token, "/mcp/liar");
    assert!(client.call("echo", &json!({})).passed());
    let before = gate.rows().len();
    let ping = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";
    let good = r#"{"jsonrpc":"2.0","id":{id},"result":{"content":[],"mark":"GOOD"}}"#;
    let raw = format!("{}{good}", ping.repeat(TIMES));
    let answer = client.call("echo", &json!({ "raw": raw }));
    check("a flood of questions", "ok", &answer.text());
    let (rows, memory) = (gate.rows().len() - before, gate.rss_mib());
    println!("P23: {TIMES} questions at once: {rows} rows, {memory} MiB");
    assert!(rows < TIMES / 4, "{rows} rows");
    assert!(memory < 256, "{memory} MiB");
    assert!(client.call("echo", &json!({})).passed(), "the server is still heard");
}

#[test]
fn p23_a_client_on_stdio_has_a_limit_on_in_flight_calls() {
    const PLACES: usize = 4;
    let gate = Gate::new();
    gate.settings(&format!("[limits]\nin_flight_per_grant_max = {PLACES}\n"));
    with_liar(&gate);
    let mut streams = Streams::start(&gate, &["stdio", "liar", "--grant", "agent"]);
    let mut others = Vec::new();
    streams.send(&hello());
    streams.answer(0, &mut others);
    // A server that does not answer keeps its calls in flight.
    let call = |id: usize| {
        json!({
            "jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": { "name": "echo", "arguments": { "raw": "" } },
        })
    };
    for id in 1..=PLACES + 3 {
        streams.send(&call(id));
    }
    for id in PLACES + 1..=PLACES + 3 {
        let line = streams.answer(id as u64, &mut others);
        let answer: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(answer["error"]["code"], -31029, "{line}");
        assert!(answer["error"]["message"].as_str().unwrap().contains("in_flight_per_grant_max"));
        assert!(answer["error"]["data"]["audit_id"].is_u64(), "{line}");
    }
    // A cancellation counts against no limit, and frees one.
    let back = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } });
    streams.send(&back);
    until("the call is cancelled", Duration::from_secs(10), || {
        gate.decisions().iter().any(|row| row["outcome"] == "cancelled")
    });
    streams.send(&json!({
        "jsonrpc": "2.0", "id": 50, "method": "tools/call", "params": { "name": "echo", "arguments": {} },
    }));
    check("after a call was cancelled", "ok", &streams.answer(50, &mut others));
    let _ = streams.child.kill();
    let _ = streams.child.wait();
    let refused = gate.decisions().iter().filter(|row| row["code"] == "-31029").count();
    assert_eq!(refused, 3, "one row each");
    println!("P23: {PLACES} calls in flight on standard streams, 3 more refused with a row each");
}
