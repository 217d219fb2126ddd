//! `tollgate stdio` and `tollgate wrap`: the gate as a child process of one client.

use std::fs::File;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cli_test::CliTest;
use crate::servers::{SHELL_SERVER, TOOLS};

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
fn a_grant_works_over_stdio() {
    let test = CliTest::with_demo();
    test.grant("alice");
    let input = lines(&[call(1, "list_notes"), call(2, "delete_note")]);
    let output = test.run_session(&["stdio", "demo", "--grant", "alice"], &input);
    assert_eq!((output.code, output.stderr.as_str()), (0, ""));
    assert_eq!(answer(&output.stdout, 1)["result"]["isError"], false);
    let text = &answer(&output.stdout, 2)["result"]["content"][0]["text"];
    assert_eq!(text, "[POLICY DENIED] notes are not for agents to delete");
    let rows = test
        .succeed(&["audit", "search", "--grant", "alice", "--tool", "delete_note", "--json"])
        .stdout;
    assert_eq!(serde_json::from_str::<Value>(&rows).unwrap()["decision"], "denied");
}

#[test]
fn a_policy_file_guards_any_command() {
    let test = CliTest::new();
    let (script, tools) = (test.write("server.sh", SHELL_SERVER), test.write("tools.json", TOOLS));
    test.write("p.json", r#"{"version":"1","default":"deny","tools":{"read":{}}}"#);
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    let input = lines(&[list, call(2, "read"), call(3, "tear")]);
    let words = ["wrap", "--policy", "p.json", "--name", "book", "--", "sh", &script, &tools];
    let output = test.run_session(&words, &input);
    assert_eq!((output.code, output.stderr.as_str()), (0, ""));
    let names = answer(&output.stdout, 1)["result"]["tools"].as_array().unwrap().len();
    assert_eq!(names, 1, "what no rule allows is not listed");
    assert_eq!(answer(&output.stdout, 2)["result"]["content"][0]["text"], "done");
    assert_eq!(answer(&output.stdout, 3)["result"]["isError"], true);
    assert_eq!(test.run(&["audit", "verify"]).code, 0);
}

#[test]
fn the_stderr_of_a_server_reaches_its_client_without_secrets() {
    let mut test = CliTest::new();
    test.set("PLANTED", "planted-secret");
    let script = format!("echo \"ready with $KEY\" >&2\n{SHELL_SERVER}");
    let (script, tools) = (test.write("server.sh", &script), test.write("tools.json", TOOLS));
    test.write("p.json", r#"{"version":"1","default":"deny","tools":{"read":{}}}"#);
    let input = lines(&[call(1, "read")]);
    let key = ["--secret-env", "KEY=env:PLANTED", "--", "sh", &script, &tools];
    test.succeed(&[&["server", "add", "book"][..], &key].concat());
    let output = test.run_session(&["stdio", "book", "--policy", "p.json"], &input);
    assert_eq!((output.code, output.stderr.as_str()), (0, "ready with [secret KEY]\n"));
    assert_eq!(answer(&output.stdout, 1)["result"]["content"][0]["text"], "done");
    let words = ["wrap", "--policy", "p.json", "--env", "KEY=open", "--", "sh", &script, &tools];
    let output = test.run_session(&words, &input);
    assert_eq!((output.code, output.stderr.as_str()), (0, "ready with open\n"));
    // The reason of a failed start reaches the client.
    let end = test.write("end.sh", "echo \"no config\" >&2\nexit 3\n");
    let output = test.run_session(&["wrap", "--policy", "p.json", "--", "sh", &end], &input);
    assert!(output.stderr.contains("no config\n"), "{}", output.all_output());
}

#[test]
fn wrong_arguments_start_nothing() {
    let test = CliTest::with_demo();
    test.write("bad.json", r#"{"version":"2","default":"deny"}"#);
    test.write("good.json", r#"{"version":"1","default":"deny"}"#);
    let story = test.transcripts(&[
        &["stdio", "demo"],
        &["stdio", "demo", "--grant", "unknown"],
        &["stdio", "nothing", "--policy", "bad.json"],
        &["wrap", "--policy", "bad.json", "--", "true"],
        &["wrap", "--policy", "good.json", "--", "/no/such/program"],
    ]);
    insta::assert_snapshot!(story);
}

/// A request of the newest revision, which has no handshake.
fn alone(id: u64, method: &str, params: &Value) -> String {
    let mut params = params.clone();
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "t", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string() + "\n"
}

/// A server of the newest revision: it accepts subscriptions and answers calls slowly.
const NEWEST_SERVER: &str = r#"
while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\("[^"]*"\|[0-9]*\).*/\1/p')
  case "$line" in
    *'"method":"server/discover"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"new","version":"1"},"ttlMs":0,"cacheScope":"private"}}\n' "$id" ;;
    *'"method":"subscriptions/listen"'*) printf '{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/subscriptionId":%s}}}\n' "$id" ;;
    *'"method":"tools/list"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":%s}}\n' "$id" "$(cat "$1")" ;;
    *'"method":"tools/call"'*) sleep 0.5; printf '{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","content":[{"type":"text","text":"done"}]}}\n' "$id" ;;
    *'"id":'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n' "$id" ;;
  esac
done
"#;

#[test]
fn a_client_that_leaves_is_waited_for_only_until_its_last_call() {
    let test = CliTest::new();
    let tools = test.write("tools.json", TOOLS);
    test.write("p.json", r#"{"version":"1","default":"deny","tools":{"read":{}}}"#);
    test.succeed(&["server", "list"]);
    // Longer than any delay of a busy machine.
    let settings = "[limits]\ndrain_wait_ms_max = 60000\n";
    std::fs::write(test.home().join("tollgate.toml"), settings).unwrap();
    for (name, server) in [("old", SHELL_SERVER), ("new", NEWEST_SERVER)] {
        let script = test.write(&format!("{name}.sh"), server);
        let words = ["wrap", "--policy", "p.json", "--name", name, "--", "sh", &script, &tools];
        let listen = alone(
            1,
            "subscriptions/listen",
            &json!({ "notifications": { "toolsListChanged": true } }),
        );
        let read = alone(2, "tools/call", &json!({ "name": "read", "arguments": { "page": 1 } }));
        let began = Instant::now();
        let output = test.run_with(&words, &(listen + &read));
        let took = began.elapsed();
        assert_eq!((output.code, output.stderr.as_str()), (0, ""), "{name}");
        assert!(output.stdout.contains("subscriptions/acknowledged"), "{name}: {}", output.stdout);
        assert_eq!(answer(&output.stdout, 2)["result"]["content"][0]["text"], "done", "{name}");
        assert!(took < Duration::from_secs(30), "{name}: {took:?}");
        let rows = test.succeed(&["audit", "search", "--server", name, "--json"]).stdout;
        assert!(rows.lines().count() >= 2, "{name}: {rows}");
        assert!(rows.lines().all(|row| row.contains("\"outcome\":")), "{name}: {rows}");
    }
}

/// The kinds of streams that clients use for stdin and stdout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StreamKind {
    Pipes,
    Sockets,
    Files,
}

/// Writes everything before reading anything.
fn conversation(test: &CliTest, kind: StreamKind, words: &[&str], output: &str) -> (i32, String) {
    let mut command = test.command(words);
    let (mut heard, far) = UnixStream::pair().unwrap();
    let (mut mouth, ear) = UnixStream::pair().unwrap();
    match kind {
        StreamKind::Pipes => command.stdin(Stdio::piped()).stdout(Stdio::piped()),
        StreamKind::Sockets => command.stdin(OwnedFd::from(ear)).stdout(OwnedFd::from(far)),
        StreamKind::Files => {
            let input = File::open(test.write("output", output)).unwrap();
            command.stdin(input).stdout(File::create(test.path("heard")).unwrap())
        }
    };
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut text = String::new();
    match kind {
        StreamKind::Pipes => {
            child.stdin.take().unwrap().write_all(output.as_bytes()).unwrap();
            child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        }
        StreamKind::Sockets => {
            mouth.write_all(output.as_bytes()).unwrap();
            mouth.shutdown(Shutdown::Write).unwrap();
            heard.read_to_string(&mut text).unwrap();
        }
        StreamKind::Files => {}
    }
    let code = child.wait().unwrap().code().unwrap_or(-1);
    if kind == StreamKind::Files {
        text = std::fs::read_to_string(test.path("heard")).unwrap();
    }
    (code, text)
}

#[test]
fn long_and_unterminated_lines_are_read_on_every_kind_of_stream() {
    let test = CliTest::with_demo();
    test.grant("alice");
    let long = "x".repeat(1 << 20);
    let list = |id: u64, note: &str| json!({ "jsonrpc": "2.0", "id": id, "method": "tools/list", "params": { "_meta": { "note": note } } });
    let output = lines(&[list(1, &long), call(2, "list_notes"), list(3, "last")]);
    for held in [StreamKind::Pipes, StreamKind::Sockets, StreamKind::Files] {
        let words = ["stdio", "demo", "--grant", "alice"];
        let (code, heard) = conversation(&test, held, &words, output.trim_end());
        assert_eq!(code, 0, "{held:?}: {heard}");
        for id in 1..=3 {
            assert!(answer(&heard, id).get("result").is_some(), "{held:?}: {heard}");
        }
    }
}

#[test]
fn a_truncated_line_gets_an_error_and_ends_the_session() {
    let test = CliTest::with_demo();
    test.grant("alice");
    let output = lines(&[call(1, "list_notes")]) + r#"{"jsonrpc":"2.0","id":2,"meth"#;
    for held in [StreamKind::Pipes, StreamKind::Sockets, StreamKind::Files] {
        let words = ["stdio", "demo", "--grant", "alice"];
        let (code, heard) = conversation(&test, held, &words, &output);
        assert_eq!(code, 0, "{held:?}: {heard}");
        assert_eq!(answer(&heard, 1)["result"]["isError"], false, "{held:?}: {heard}");
        assert!(heard.contains("-32700"), "{held:?}: {heard}");
    }
}

/// Neither stream buffers more than some hundred kilobytes, so this ends only if requests are read while
/// responses wait.
#[test]
fn requests_are_read_while_responses_wait() {
    let test = CliTest::with_demo();
    test.grant("alice");
    let note = "y".repeat(12_000);
    let ask = |id: u64| json!({ "jsonrpc": "2.0", "id": id, "method": "tools/list", "params": { "_meta": { "note": note } } });
    let asked: Vec<Value> = (1..=100).map(ask).collect();
    let output = lines(&asked);
    for held in [StreamKind::Pipes, StreamKind::Sockets] {
        let words = ["stdio", "demo", "--grant", "alice"];
        let (code, heard) = conversation(&test, held, &words, &output);
        assert_eq!(code, 0, "{held:?}: {heard}");
        assert_eq!(heard.lines().count(), 101, "{held:?}");
        assert!((1..=100).all(|id| answer(&heard, id).get("result").is_some()), "{held:?}");
    }
}

/// Waits for a child to exit, with a generous timeout.
fn ends(mut child: Child, what: &str) {
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if began.elapsed() > Duration::from_secs(90) {
            let _ = child.kill();
            panic!("{what}: it is still there");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_client_that_stops_reading_is_abandoned() {
    let test = CliTest::with_demo();
    test.grant("alice");
    let settings = "[limits]\ndrain_wait_ms_max = 300\nwrite_wait_ms_max = 300\n";
    std::fs::write(test.home().join("tollgate.toml"), settings).unwrap();
    let ping =
        |id: usize| json!({ "jsonrpc": "2.0", "id": format!("{id:0300}"), "method": "ping" });
    // More than a pipe buffers, within the limit on in-flight calls and beyond it.
    for count in [800, 3_000] {
        let pings: Vec<Value> = (0..count).map(ping).collect();
        let mut command = test.command(&["stdio", "demo", "--grant", "alice"]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let unread = child.stdout.take();
        // It may have exited before everything was written.
        let _ = child.stdin.take().unwrap().write_all(lines(&pings).as_bytes());
        ends(child, &format!("{count} unread responses"));
        drop(unread);
    }
}

#[test]
fn a_closed_output_ends_the_session() {
    let test = CliTest::with_demo();
    test.grant("alice");
    let mut command = test.command(&["stdio", "demo", "--grant", "alice"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    drop(child.stdout.take());
    let mut output = child.stdin.take().unwrap();
    output.write_all(lines(&[]).as_bytes()).unwrap();
    ends(child, "its output is closed, and its input is still open");
    drop(output);
}
