//! Clients that request large results and read nothing, or little: the response buffer stays bounded, and a
//! client that reads gets its result.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::http_client::{Client, call};
use crate::recorder::{Manner, Recorder};
use crate::test_gate::{Gate, TOOLS, number};

/// A server on standard streams whose tool `other` answers with eight megabytes.
const CHILD: &str = r#"
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    id, method, result = message.get("id"), message["method"], {}
    if id is None:
        continue
    if method == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
    if method == "tools/list":
        result = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("echo", "other")]}
    if method == "tools/call":
        words = "x" * (8 << 20) if message["params"]["name"] == "other" else "ok"
        result = {"content": [{"type": "text", "text": words}]}
    print(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}), flush=True)
"#;

/// How much of a response a client reads.
#[derive(Clone, Copy)]
enum Takes {
    Nothing,
    /// A little, repeatedly.
    Sips,
}

struct Case {
    name: &'static str,
    manner: Manner,
    /// Whether the policy redacts the result.
    cut: bool,
    takes: Takes,
}

const CASES: [Case; 5] = [
    Case { name: "JSON", manner: Manner::Wordy, cut: false, takes: Takes::Nothing },
    Case { name: "JSON, cut", manner: Manner::Wordy, cut: true, takes: Takes::Nothing },
    Case { name: "events", manner: Manner::WordyEvent, cut: false, takes: Takes::Nothing },
    Case { name: "events, cut", manner: Manner::WordyEvent, cut: true, takes: Takes::Nothing },
    Case { name: "events, in sips", manner: Manner::WordyEvent, cut: false, takes: Takes::Sips },
];

fn rules(cut: bool) -> Value {
    let other = if cut { json!({ "redact": ["secret"] }) } else { json!({}) };
    json!({ "version": "1", "default": "allow", "tools": { "other": other } })
}

/// A client with a small receive buffer, as over a network: on loopback the system buffers megabytes.
fn asks(client: &Client) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", client.port)).unwrap();
    rustix::net::sockopt::set_socket_recv_buffer_size(&stream, 4096).unwrap();
    stream
        .write_all(&client.request(call("other", &json!({})).to_string().as_bytes(), ""))
        .unwrap();
    stream
}

fn sip(streams: &mut [TcpStream], takes: Takes) {
    if let Takes::Sips = takes {
        for stream in streams {
            let _ = stream.set_nonblocking(true);
            let _ = stream.read(&mut [0; 2000]);
        }
    }
}

/// The slowest normal call and the peak memory while many clients hold large results.
fn normal_call_under_load(
    gate: &Gate,
    normal: &Client,
    hostile: &Client,
    takes: Takes,
) -> (Duration, u64) {
    let clients = number("TOLLGATE_CLIENTS", 40);
    let mut open: Vec<TcpStream> = (0..clients).map(|_| asks(hostile)).collect();
    let began = Instant::now();
    let mut slowest = Duration::ZERO;
    while began.elapsed() < Duration::from_secs(4) {
        let answer = normal.call("echo", &json!({}));
        assert!(answer.passed(), "{}", answer.text());
        slowest = slowest.max(answer.took);
        sip(&mut open, takes);
        std::thread::sleep(Duration::from_millis(100));
    }
    // Clients that read nothing lose their share of the buffer to one that waits.
    let answer = normal.call("other", &json!({}));
    let bytes = answer.body.len();
    assert!(bytes > 8 << 20, "{}", answer.text());
    (slowest, gate.rss_mib())
}

fn judge(name: &str, (slowest, memory): (Duration, u64)) {
    println!(
        "P23: clients with 8 MB each that they do not read ({name}): a normal call took {slowest:.0?} at most, {memory} MiB"
    );
    assert!(slowest < Duration::from_secs(2));
    assert!(memory < 256, "{memory} MiB");
}

#[test]
fn p23_unread_large_results_use_bounded_memory() {
    for case in CASES {
        let mut gate = Gate::new();
        let recorder = Recorder::new(TOOLS);
        gate.policy("rules", &rules(case.cut));
        gate.run(&["server", "add", "rec", "--url", &recorder.url()]);
        let (normal, hostile) = (gate.grant("n", &["rec=rules"]), gate.grant("h", &["rec=rules"]));
        gate.up();
        let (normal, hostile) =
            (gate.client(&normal, "/mcp/rec"), gate.client(&hostile, "/mcp/rec"));
        assert!(normal.call("echo", &json!({})).passed());
        recorder.behave(case.manner);
        judge(case.name, normal_call_under_load(&gate, &normal, &hostile, case.takes));
    }
}

#[test]
fn p23_unread_large_results_of_a_command_use_bounded_memory() {
    let mut gate = Gate::new();
    let script = gate.folder.path().join("wordy.py");
    fs::write(&script, CHILD).unwrap();
    gate.policy("rules", &rules(false));
    gate.run(&["server", "add", "child", "--", "python3", script.to_str().unwrap()]);
    // One process per grant, so that a normal call does not wait for responses of others.
    let (normal, hostile) = (gate.grant("n", &["child=rules"]), gate.grant("h", &["child=rules"]));
    gate.up();
    let (normal, hostile) =
        (gate.client(&normal, "/mcp/child"), gate.client(&hostile, "/mcp/child"));
    assert!(normal.call("echo", &json!({})).passed());
    judge("a command", normal_call_under_load(&gate, &normal, &hostile, Takes::Nothing));
}
