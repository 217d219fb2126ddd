//! `stdio` and `wrap` under a flood of lines that are not calls, from the client and from the server: the
//! memory stays bounded, and calls are still answered.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::stage::Stage;

/// What a conversation may take beyond one without a flood.
const FLOOD_KIB_MAX: u64 = 96 * 1024;
const BROKEN_LINES: usize = 60_000;
const NOTIFICATIONS: usize = 40_000;

/// The most memory that a process had so far.
fn peak_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn hello() -> String {
    let hello = json!({
        "jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": { "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } },
    });
    format!("{hello}\n{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}}\n")
}

/// Says all of it while it reads the answers, until the last request is answered; its peak memory.
fn peak_of(stage: &Stage, words: &[&str], said: &str, last: &Value) -> u64 {
    let mut command = stage.command(words);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut mouth = child.stdin.take().unwrap();
    let said = format!("{}{said}{last}\n", hello());
    let talking = std::thread::spawn(move || {
        mouth.write_all(said.as_bytes()).unwrap();
        mouth
    });
    let mut answers = BufReader::new(child.stdout.take().unwrap()).lines();
    let answers =
        answers.by_ref().map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    let answer = { answers }.find(|answer| answer["id"] == last["id"]).unwrap_or_default();
    let peak = peak_kib(child.id());
    drop(talking.join().unwrap());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(answer["result"].is_object(), "the last request: {answer}");
    peak
}

#[test]
#[cfg(target_os = "linux")]
fn lines_of_a_client_that_are_no_calls_take_no_memory() {
    let stage = Stage::with_demo();
    stage.grant("alice");
    let words = ["stdio", "demo", "--grant", "alice"];
    let last = json!({ "jsonrpc": "2.0", "id": 777, "method": "ping" });
    let quiet = peak_of(&stage, &words, "", &last);
    let told = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/roots/list_changed\"}\n";
    let floods = [
        ("broken lines", "x\n".repeat(BROKEN_LINES)),
        ("notifications", told.repeat(NOTIFICATIONS)),
        ("answers", "{\"jsonrpc\":\"2.0\",\"id\":9,\"result\":{}}\n".repeat(NOTIFICATIONS)),
    ];
    for (what, flood) in floods {
        let peak = peak_of(&stage, &words, &flood, &last);
        assert!(peak < quiet + FLOOD_KIB_MAX, "{what}: {peak} KiB, {quiet} KiB without them");
    }
}

/// Writes a flood before each answer to a call.
const FLOODING_SERVER: &str = r#"
import json, sys
flood = {"noise": "x", "news": json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "y" * 200}}),
         "questions": json.dumps({"jsonrpc": "2.0", "id": "q", "method": "roots/list"})}[sys.argv[1]]
for line in sys.stdin:
    message = json.loads(line)
    method, id = message.get("method"), message.get("id")
    if id is None or method is None:
        continue
    if method == "initialize":
        result = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}, "logging": {}}, "serverInfo": {"name": "f", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [{"name": "read", "inputSchema": {"type": "object"}}]}
    else:
        sys.stdout.write((flood + "\n") * int(sys.argv[2]))
        result = {"content": []}
    print(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}), flush=True)
"#;

#[test]
#[cfg(target_os = "linux")]
fn lines_of_a_server_that_are_no_answers_take_no_memory() {
    let stage = Stage::new();
    let script = stage.write("server.py", FLOODING_SERVER);
    stage.write("p.json", r#"{"version":"1","default":"deny","tools":{"read":{}}}"#);
    let ping = json!({ "jsonrpc": "2.0", "id": 777, "method": "ping" });
    let read = json!({ "jsonrpc": "2.0", "id": 777, "method": "tools/call", "params": { "name": "read", "arguments": {} } });
    for (what, count) in [("noise", "400000"), ("news", "40000"), ("questions", "20000")] {
        let words = ["wrap", "--policy", "p.json", "--", "python3", &script, what, count];
        let quiet = peak_of(&stage, &words, "", &ping);
        let peak = peak_of(&stage, &words, "", &read);
        assert!(peak < quiet + FLOOD_KIB_MAX, "{what}: {peak} KiB, {quiet} KiB without them");
    }
}
