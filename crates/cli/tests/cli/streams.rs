//! `tollgate stdio` and `tollgate wrap`: the gate as the child of one client.

use std::fs::File;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

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
    let said = stage.speak(&["stdio", "demo", "--grant", "alice"], &input);
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
    let said = stage.speak(&words, &input);
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    let names = answer(&said.stdout, 1)["result"]["tools"].as_array().unwrap().len();
    assert_eq!(names, 1, "what no rule allows is not listed");
    assert_eq!(answer(&said.stdout, 2)["result"]["content"][0]["text"], "done");
    assert_eq!(answer(&said.stdout, 3)["result"]["isError"], true);
    assert_eq!(stage.run(&["audit", "verify"]).code, 0);
}

#[test]
fn what_a_server_says_on_stderr_reaches_its_client_without_secrets() {
    let mut stage = Stage::new();
    stage.set("PLANTED", "planted-secret");
    let script = format!("echo \"ready with $KEY\" >&2\n{SHELL_SERVER}");
    let (script, tools) = (stage.write("server.sh", &script), stage.write("tools.json", TOOLS));
    stage.write("p.json", r#"{"version":"1","default":"deny","tools":{"read":{}}}"#);
    let input = lines(&[call(1, "read")]);
    let key = ["--secret-env", "KEY=env:PLANTED", "--", "sh", &script, &tools];
    stage.fine(&[&["server", "add", "book"][..], &key].concat());
    let said = stage.speak(&["stdio", "book", "--policy", "p.json"], &input);
    assert_eq!((said.code, said.stderr.as_str()), (0, "ready with [secret KEY]\n"));
    assert_eq!(answer(&said.stdout, 1)["result"]["content"][0]["text"], "done");
    let words = ["wrap", "--policy", "p.json", "--env", "KEY=open", "--", "sh", &script, &tools];
    let said = stage.speak(&words, &input);
    assert_eq!((said.code, said.stderr.as_str()), (0, "ready with open\n"));
    // Why it did not start is what its client needs most.
    let end = stage.write("end.sh", "echo \"no config\" >&2\nexit 3\n");
    let said = stage.speak(&["wrap", "--policy", "p.json", "--", "sh", &end], &input);
    assert!(said.stderr.contains("no config\n"), "{}", said.everything());
}

#[test]
fn wrong_words_start_nothing() {
    let stage = Stage::with_demo();
    stage.write("bad.json", r#"{"version":"2","default":"deny"}"#);
    stage.write("good.json", r#"{"version":"1","default":"deny"}"#);
    let story = stage.story(&[
        &["stdio", "demo"],
        &["stdio", "demo", "--grant", "nobody"],
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

/// Speaks the newest revision itself: it hears who listens, and is slow to answer a call.
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
fn who_leaves_while_listening_is_not_waited_for_and_their_last_call_is() {
    let stage = Stage::new();
    let tools = stage.write("tools.json", TOOLS);
    stage.write("p.json", r#"{"version":"1","default":"deny","tools":{"read":{}}}"#);
    stage.fine(&["server", "list"]);
    // So long that a machine with other work cannot be mistaken for it.
    let settings = "[limits]\ndrain_wait_ms_max = 60000\n";
    std::fs::write(stage.home().join("tollgate.toml"), settings).unwrap();
    for (name, server) in [("old", SHELL_SERVER), ("new", NEWEST_SERVER)] {
        let script = stage.write(&format!("{name}.sh"), server);
        let words = ["wrap", "--policy", "p.json", "--name", name, "--", "sh", &script, &tools];
        let listen = alone(
            1,
            "subscriptions/listen",
            &json!({ "notifications": { "toolsListChanged": true } }),
        );
        let read = alone(2, "tools/call", &json!({ "name": "read", "arguments": { "page": 1 } }));
        let began = Instant::now();
        let said = stage.run_with(&words, &(listen + &read));
        let took = began.elapsed();
        assert_eq!((said.code, said.stderr.as_str()), (0, ""), "{name}");
        assert!(said.stdout.contains("subscriptions/acknowledged"), "{name}: {}", said.stdout);
        assert_eq!(answer(&said.stdout, 2)["result"]["content"][0]["text"], "done", "{name}");
        assert!(took < Duration::from_secs(30), "{name}: {took:?}");
        let rows = stage.fine(&["audit", "search", "--server", name, "--json"]).stdout;
        assert!(rows.lines().count() >= 2, "{name}: {rows}");
        assert!(rows.lines().all(|row| row.contains("\"outcome\":")), "{name}: {rows}");
    }
}

/// What clients give us as standard streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    Pipes,
    Sockets,
    Files,
}

/// Says all of it before anything is read, then hears the rest.
fn conversation(stage: &Stage, held: Held, words: &[&str], said: &str) -> (i32, String) {
    let mut command = stage.command(words);
    let (mut heard, far) = UnixStream::pair().unwrap();
    let (mut mouth, ear) = UnixStream::pair().unwrap();
    match held {
        Held::Pipes => command.stdin(Stdio::piped()).stdout(Stdio::piped()),
        Held::Sockets => command.stdin(OwnedFd::from(ear)).stdout(OwnedFd::from(far)),
        Held::Files => {
            let input = File::open(stage.write("said", said)).unwrap();
            command.stdin(input).stdout(File::create(stage.path("heard")).unwrap())
        }
    };
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut text = String::new();
    match held {
        Held::Pipes => {
            child.stdin.take().unwrap().write_all(said.as_bytes()).unwrap();
            child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        }
        Held::Sockets => {
            mouth.write_all(said.as_bytes()).unwrap();
            mouth.shutdown(Shutdown::Write).unwrap();
            heard.read_to_string(&mut text).unwrap();
        }
        Held::Files => {}
    }
    let code = child.wait().unwrap().code().unwrap_or(-1);
    if held == Held::Files {
        text = std::fs::read_to_string(stage.path("heard")).unwrap();
    }
    (code, text)
}

#[test]
fn long_lines_and_a_last_one_without_an_end_are_heard_on_every_kind_of_stream() {
    let stage = Stage::with_demo();
    stage.grant("alice");
    let long = "x".repeat(1 << 20);
    let list = |id: u64, note: &str| json!({ "jsonrpc": "2.0", "id": id, "method": "tools/list", "params": { "_meta": { "note": note } } });
    let said = lines(&[list(1, &long), call(2, "list_notes"), list(3, "last")]);
    for held in [Held::Pipes, Held::Sockets, Held::Files] {
        let words = ["stdio", "demo", "--grant", "alice"];
        let (code, heard) = conversation(&stage, held, &words, said.trim_end());
        assert_eq!(code, 0, "{held:?}: {heard}");
        for id in 1..=3 {
            assert!(answer(&heard, id).get("result").is_some(), "{held:?}: {heard}");
        }
    }
}

#[test]
fn a_line_that_breaks_off_is_answered_as_broken_and_ends_the_conversation() {
    let stage = Stage::with_demo();
    stage.grant("alice");
    let said = lines(&[call(1, "list_notes")]) + r#"{"jsonrpc":"2.0","id":2,"meth"#;
    for held in [Held::Pipes, Held::Sockets, Held::Files] {
        let words = ["stdio", "demo", "--grant", "alice"];
        let (code, heard) = conversation(&stage, held, &words, &said);
        assert_eq!(code, 0, "{held:?}: {heard}");
        assert_eq!(answer(&heard, 1)["result"]["isError"], false, "{held:?}: {heard}");
        assert!(heard.contains("-32700"), "{held:?}: {heard}");
    }
}

/// Neither stream holds more than some hundred kilobytes, so this ends only if requests are read
/// while answers wait.
#[test]
fn who_does_not_read_the_answers_yet_can_still_ask() {
    let stage = Stage::with_demo();
    stage.grant("alice");
    let note = "y".repeat(12_000);
    let ask = |id: u64| json!({ "jsonrpc": "2.0", "id": id, "method": "tools/list", "params": { "_meta": { "note": note } } });
    let asked: Vec<Value> = (1..=100).map(ask).collect();
    let said = lines(&asked);
    for held in [Held::Pipes, Held::Sockets] {
        let words = ["stdio", "demo", "--grant", "alice"];
        let (code, heard) = conversation(&stage, held, &words, &said);
        assert_eq!(code, 0, "{held:?}: {heard}");
        assert_eq!(heard.lines().count(), 101, "{held:?}");
        assert!((1..=100).all(|id| answer(&heard, id).get("result").is_some()), "{held:?}");
    }
}

/// A child that ends by itself, however busy the machine is.
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
fn who_reads_nothing_any_more_is_given_up() {
    let stage = Stage::with_demo();
    stage.grant("alice");
    let settings = "[limits]\ndrain_wait_ms_max = 300\nwrite_wait_ms_max = 300\n";
    std::fs::write(stage.home().join("tollgate.toml"), settings).unwrap();
    let ping =
        |id: usize| json!({ "jsonrpc": "2.0", "id": format!("{id:0300}"), "method": "ping" });
    // More than a pipe holds, within the bound on calls in flight and beyond it.
    for count in [800, 3_000] {
        let pings: Vec<Value> = (0..count).map(ping).collect();
        let mut command = stage.command(&["stdio", "demo", "--grant", "alice"]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let unread = child.stdout.take();
        // It may be gone before it was told everything.
        let _ = child.stdin.take().unwrap().write_all(lines(&pings).as_bytes());
        ends(child, &format!("{count} answers that nobody reads"));
        drop(unread);
    }
}

#[test]
fn who_no_longer_listens_ends_the_conversation() {
    let stage = Stage::with_demo();
    stage.grant("alice");
    let mut command = stage.command(&["stdio", "demo", "--grant", "alice"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    drop(child.stdout.take());
    let mut said = child.stdin.take().unwrap();
    said.write_all(lines(&[]).as_bytes()).unwrap();
    ends(child, "nobody listens, and its input is still open");
    drop(said);
}
