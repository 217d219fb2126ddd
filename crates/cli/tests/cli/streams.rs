//! `tollgate stdio` and `tollgate wrap`: the gate as the child of one client.

use serde_json::{Value, json};

use crate::servers::{SHELL_SERVER, TOOLS};
use crate::stage::Stage;

/// A handshake and then these requests, one a line.
fn lines(requests: &[Value]) -> String {
    let hello = json!({
        "jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": { "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } },
    });
    let told = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let all = [hello, told].into_iter().chain(requests.iter().cloned());
    all.map(|message| message.to_string() + "\n").collect()
}

fn call(id: u64, tool: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": tool, "arguments": {} } })
}

fn answer(stdout: &str, id: u64) -> Value {
    let answers = stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    answers
        .into_iter()
        .find(|answer| answer["id"] == id)
        .unwrap_or_else(|| panic!("no answer {id}: {stdout}"))
}

#[test]
fn a_grant_speaks_over_standard_streams() {
    let stage = Stage::with_demo();
    stage.grant("alice");
    let input = lines(&[call(1, "list_notes"), call(2, "delete_note")]);
    let said = stage.run_with(&["stdio", "demo", "--grant", "alice"], &input);
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    assert_eq!(answer(&said.stdout, 1)["result"]["isError"], false);
    let text = &answer(&said.stdout, 2)["result"]["content"][0]["text"];
    assert_eq!(text, "[POLICY DENIED] notes are not for agents to delete");
    let rows = stage
        .fine(&["audit", "search", "--grant", "alice", "--tool", "delete_note", "--json"])
        .stdout;
    assert_eq!(serde_json::from_str::<Value>(&rows).unwrap()["decision"], "denied");
}

#[test]
fn a_policy_file_stands_in_front_of_any_command() {
    let stage = Stage::new();
    let (script, tools) =
        (stage.write("server.sh", SHELL_SERVER), stage.write("tools.json", TOOLS));
    stage.write("p.json", r#"{"version":"1","default":"deny","tools":{"read":{}}}"#);
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    let input = lines(&[list, call(2, "read"), call(3, "tear")]);
    let words = ["wrap", "--policy", "p.json", "--name", "book", "--", "sh", &script, &tools];
    let said = stage.run_with(&words, &input);
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    let names = answer(&said.stdout, 1)["result"]["tools"].as_array().unwrap().len();
    assert_eq!(names, 1, "what no rule allows is not listed");
    assert_eq!(answer(&said.stdout, 2)["result"]["content"][0]["text"], "done");
    assert_eq!(answer(&said.stdout, 3)["result"]["isError"], true);
    assert_eq!(stage.run(&["audit", "verify"]).code, 0);
}

#[test]
fn wrong_words_start_nothing() {
    let stage = Stage::with_demo();
    stage.write("bad.json", r#"{"version":"2","default":"deny"}"#);
    let story = stage.story(&[
        &["stdio", "demo"],
        &["stdio", "demo", "--grant", "nobody"],
        &["stdio", "nothing", "--policy", "bad.json"],
        &["wrap", "--policy", "bad.json", "--", "true"],
    ]);
    insta::assert_snapshot!(story);
}
