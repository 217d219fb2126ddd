//! `stdio` and `wrap` under a flood of lines that are not calls, from the client and from the server: the
//! memory stays bounded, and calls are still answered.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::cli_test::CliTest;

/// The memory a session may use beyond one without a flood.
const FLOOD_KIB_MAX: u64 = 96 * 1024;
const BROKEN_LINES: usize = 60_000;
const NOTIFICATIONS: usize = 40_000;

/// The peak memory of a process so far.
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

/// Writes everything while reading responses, until the last request is answered; returns the peak memory.
fn peak_of(test: &CliTest, words: &[&str], output: &str, last: &Value) -> u64 {
    let mut command = test.command(words);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut mouth = child.stdin.take().unwrap();
    let output = format!("{}{output}{last}\n", hello());
    let talking = std::thread::spawn(move || {
        mouth.write_all(output.as_bytes()).unwrap();
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
fn client_lines_that_are_not_calls_use_bounded_memory() {
    let test = CliTest::with_demo();
    test.grant("alice");
    let words = ["stdio", "demo", "--grant", "alice"];
    let last = json!({ "jsonrpc": "2.0", "id": 777, "method": "ping" });
    let quiet = peak_of(&test, &words, "", &last);
    let told = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/roots/list_changed\"}\n";
    let floods = [
        ("broken lines", "x\n".repeat(BROKEN_LINES)),
        ("notifications", told.repeat(NOTIFICATIONS)),
        ("answers", "{\"jsonrpc\":\"2.0\",\"id\":9,\"result\":{}}\n".repeat(NOTIFICATIONS)),
    ];
    for (what, flood) in floods {
        let peak = peak_of(&test, &words, &flood, &last);
        assert!(peak < quiet + FLOOD_KIB_MAX, "{what}: {peak} KiB, {quiet} KiB without them");
    }
}

/// Writes a flood before each response to a call.
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
fn server_lines_that_are_not_responses_use_bounded_memory() {
    let test = CliTest::new();
    let script = test.write("server.py", FLOODING_SERVER);
    test.write("p.json", r#"{"version":"1","default":"deny","tools":{"read":{}}}"#);
    let ping = json!({ "jsonrpc": "2.0", "id": 777, "method": "ping" });
    let read = json!({ "jsonrpc": "2.0", "id": 777, "method": "tools/call", "params": { "name": "read", "arguments": {} } });
    for (what, count) in [("noise", "400000"), ("news", "40000"), ("questions", "20000")] {
        let words = ["wrap", "--policy", "p.json", "--", "python3", &script, what, count];
        let quiet = peak_of(&test, &words, "", &ping);
        let peak = peak_of(&test, &words, "", &read);
        assert!(peak < quiet + FLOOD_KIB_MAX, "{what}: {peak} KiB, {quiet} KiB without them");
    }
}
