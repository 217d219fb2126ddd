//! `call_ms_max` limits a whole call, whatever the server sends, and lists that never end or are too long are
//! errors.

use serde_json::{Value, json};

use crate::cli_test::CliTest;
use crate::masking::listening;

const POLICY: &str = r#"{"version":"1","default":"allow"}"#;

fn message(id: u64, method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string() + "\n"
}

fn hello() -> String {
    let hello = json!({
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" },
    });
    message(0, "initialize", &hello)
}

/// The response to one request in a session.
fn answer(test: &CliTest, server: &str, method: &str, params: &Value) -> Value {
    let output = hello() + &message(7, method, params);
    let output = test.run_session(&["stdio", server, "--policy", "p.json"], &output);
    let answers = output.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    { answers }
        .find(|answer| answer["id"] == 7)
        .unwrap_or_else(|| panic!("{}", output.all_output()))
}

#[test]
fn a_dripping_response_times_out_at_the_total() {
    let test = CliTest::new();
    let script = test.write("slow.py", include_str!("slow.py"));
    test.write("p.json", POLICY);
    let (_server, port) = listening(&test, &script);
    test.succeed(&["server", "list"]);
    let url = |kind: &str| {
        format!("[servers.{kind}]\nurl = \"http://127.0.0.1:{port}/{kind}\"\ncall_ms_max = 3000\n")
    };
    let child = format!(
        "[servers.child]\ncommand = [\"python3\", \"{script}\", \"stdio\"]\ncall_ms_max = 3000\n"
    );
    let settings = [url("json"), url("events"), child].concat();
    std::fs::write(test.home().join("tollgate.toml"), settings).unwrap();
    for server in ["json", "events", "child"] {
        let params = json!({ "name": "drip", "arguments": {}, "_meta": { "progressToken": 1 } });
        let answer = answer(&test, server, "tools/call", &params).to_string();
        assert!(answer.contains("the whole response took longer than 3 s"), "{server}: {answer}");
    }
}

#[test]
fn a_list_that_is_too_long_is_an_error() {
    let test = CliTest::new();
    let script = test.write("slow.py", include_str!("slow.py"));
    test.write("p.json", POLICY);
    test.succeed(&[
        "server",
        "add",
        "many",
        "--no-connect",
        "--",
        "python3",
        &script,
        "stdio",
        "many",
    ]);
    let answer = answer(&test, "many", "tools/list", &json!({}));
    let words = answer["error"]["message"]
        .as_str()
        .unwrap_or_else(|| panic!("{}", answer.to_string().split_at(200).0));
    assert!(words.contains("10000"), "{words}");
    let added = test.run(&["server", "add", "more", "--", "python3", &script, "stdio", "many"]);
    assert!(added.code != 0 && added.stderr.contains("10000"), "{}", added.all_output());
}

/// Lists its tools page by page, and the second page has its own cursor.
const ROUND_SERVER: &str = r#"
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message or "method" not in message:
        continue
    if message["method"] == "initialize":
        result = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "r", "version": "1"}}
    else:
        result = {"tools": [{"name": "read", "inputSchema": {"type": "object"}}], "nextCursor": "again"}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"#;

#[test]
fn a_list_with_a_repeated_cursor_is_an_error() {
    let test = CliTest::new();
    let script = test.write("round.py", ROUND_SERVER);
    let added = test.run(&["server", "add", "round", "--", "python3", &script]);
    assert!(added.code != 0 && added.stderr.contains("repeats a cursor"), "{}", added.all_output());
}
