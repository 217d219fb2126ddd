//! `call_ms_max` bounds a whole call, however a server keeps it going, and lists that never end or are too
//! long are errors.

use serde_json::{Value, json};

use crate::masked::listening;
use crate::stage::Stage;

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

/// The answer to one request of a client of a session.
fn answer(stage: &Stage, server: &str, method: &str, params: &Value) -> Value {
    let said = hello() + &message(7, method, params);
    let said = stage.speak(&["stdio", server, "--policy", "p.json"], &said);
    let answers = said.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    { answers }.find(|answer| answer["id"] == 7).unwrap_or_else(|| panic!("{}", said.everything()))
}

#[test]
fn a_server_that_drips_is_ended_at_the_total() {
    let stage = Stage::new();
    let script = stage.write("slow.py", include_str!("slow.py"));
    stage.write("p.json", POLICY);
    let (_server, port) = listening(&stage, &script);
    stage.fine(&["server", "list"]);
    let url = |kind: &str| {
        format!("[servers.{kind}]\nurl = \"http://127.0.0.1:{port}/{kind}\"\ncall_ms_max = 3000\n")
    };
    let child = format!(
        "[servers.child]\ncommand = [\"python3\", \"{script}\", \"stdio\"]\ncall_ms_max = 3000\n"
    );
    let settings = [url("json"), url("events"), child].concat();
    std::fs::write(stage.home().join("tollgate.toml"), settings).unwrap();
    for server in ["json", "events", "child"] {
        let params = json!({ "name": "drip", "arguments": {}, "_meta": { "progressToken": 1 } });
        let answer = answer(&stage, server, "tools/call", &params).to_string();
        assert!(answer.contains("the whole answer took longer than 3 s"), "{server}: {answer}");
    }
}

#[test]
fn a_list_that_is_too_long_is_an_error() {
    let stage = Stage::new();
    let script = stage.write("slow.py", include_str!("slow.py"));
    stage.write("p.json", POLICY);
    stage.fine(&[
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
    let answer = answer(&stage, "many", "tools/list", &json!({}));
    let words = answer["error"]["message"]
        .as_str()
        .unwrap_or_else(|| panic!("{}", answer.to_string().split_at(200).0));
    assert!(words.contains("10000"), "{words}");
    let added = stage.run(&["server", "add", "more", "--", "python3", &script, "stdio", "many"]);
    assert!(added.code != 0 && added.stderr.contains("10000"), "{}", added.everything());
}

/// Lists its tools page by page, and the second page leads to itself.
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
fn a_list_that_leads_to_itself_is_an_error() {
    let stage = Stage::new();
    let script = stage.write("round.py", ROUND_SERVER);
    let added = stage.run(&["server", "add", "round", "--", "python3", &script]);
    assert!(added.code != 0 && added.stderr.contains("repeats a cursor"), "{}", added.everything());
}
