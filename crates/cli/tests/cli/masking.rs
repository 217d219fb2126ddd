//! Secrets that a server repeats do not reach an agent, in any kind of message and over any transport.

use std::process::{Child, Command};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cli_test::{CliTest, CommandOutput};

const KEY: &str = "sk-live/+\"4f\\9a~é&z";
const LABEL: &str = "[secret API_KEY]";
const POLICY: &str =
    r#"{"version":"1","default":"allow","resources":{"a://*":{}},"prompts":{"p":{}}}"#;

fn message(id: u64, method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

fn requests() -> Vec<Value> {
    let call =
        |tool: &str| json!({ "name": tool, "arguments": {}, "_meta": { "progressToken": tool } });
    vec![
        message(1, "tools/list", &json!({})),
        message(2, "tools/call", &call("show")),
        message(3, "tools/call", &call("fail")),
        message(4, "resources/list", &json!({})),
        message(5, "resources/read", &json!({ "uri": "a://b" })),
        message(6, "prompts/get", &json!({ "name": "p" })),
        message(7, "tools/call", &call("raise")),
    ]
}

/// The requests of a client up to 2025-11-25, and of one since 2026-07-28.
fn inputs() -> [String; 2] {
    let hello = json!({
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" },
    });
    let older = [message(0, "initialize", &hello)].into_iter().chain(requests());
    let newer = requests().into_iter().map(|mut request| {
        let meta = json!({
            "progressToken": request["id"],
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { "name": "t", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/logLevel": "debug",
        });
        request["params"]["_meta"] = meta;
        request
    });
    let lines =
        |all: &mut dyn Iterator<Item = Value>| all.map(|one| one.to_string() + "\n").collect();
    [lines(&mut { older }), lines(&mut { newer })]
}

/// No form of the key may occur.
fn assert_shows_nothing(what: &str, output: &CommandOutput) {
    let all = output.all_output();
    for form in ["sk-live", "9a~", "NGYvOWF", "c2stbGl2", "736b2d6c"] {
        assert!(!all.contains(form), "{what}: `{form}` is in {all}");
    }
}

fn assert_masked(what: &str, output: &CommandOutput, label: &str) {
    assert_shows_nothing(what, output);
    assert!(output.stdout.contains(label), "{what}: {}", output.all_output());
    for line in output.stdout.lines() {
        serde_json::from_str::<Value>(line).unwrap_or_else(|_| panic!("{what}: {line}"));
    }
}

fn answers(output: &CommandOutput) -> usize {
    output.stdout.lines().filter(|line| line.contains("\"id\":")).count()
}

fn set_up() -> (CliTest, String) {
    let test = CliTest::new();
    let script = test.write("leaky.py", include_str!("leaky.py"));
    test.write("p.json", POLICY);
    (test, script)
}

#[test]
fn a_command_that_prints_its_environment_shows_no_secret() {
    let (test, script) = set_up();
    let file = test.write("key.txt", KEY);
    let key = format!("API_KEY=@{file}");
    let added = test.succeed(&[
        "server",
        "add",
        "leaky",
        "--secret-env",
        &key,
        "--",
        "python3",
        &script,
        "stdio",
    ]);
    assert_shows_nothing("server add", &added);
    for input in inputs() {
        let output = test.run_session(&["stdio", "leaky", "--policy", "p.json"], &input);
        assert_masked("stdio", &output, LABEL);
        assert!(answers(&output) >= 7, "{}", output.all_output());
        assert_eq!(output.stderr, "my key is [secret API_KEY]\n");
    }
    for command in [&["scan", "--json"][..], &["server", "show", "leaky"], &["doctor"]] {
        assert_shows_nothing(&command.join(" "), &test.run(command));
    }
}

/// A server that ends with the test.
pub(crate) struct Listening(Child);

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

pub(crate) fn listening(test: &CliTest, script: &str) -> (Listening, String) {
    let folder = test.path("");
    let child = Command::new("python3").arg(script).arg("http").arg(&folder).spawn().unwrap();
    let child = Listening(child);
    let until = Instant::now() + Duration::from_mins(1);
    loop {
        if let Ok(port) = std::fs::read_to_string(test.path("port")) {
            return (child, port);
        }
        assert!(Instant::now() < until, "the server does not listen");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_server_over_http_that_repeats_its_headers_shows_no_secret() {
    let (test, script) = set_up();
    let (_server, port) = listening(&test, &script);
    // Characters that a header can contain.
    let key = KEY.replace('é', "e");
    let file = test.write("key.txt", &format!("Bearer {key}"));
    let header = format!("Authorization=@{file}");
    for kind in ["json", "events", "legacy"] {
        let url = format!("http://127.0.0.1:{port}/{kind}");
        test.succeed(&["server", "add", kind, "--url", &url, "--header", &header]);
        for input in inputs() {
            let output = test.run_session(&["stdio", kind, "--policy", "p.json"], &input);
            assert_masked(kind, &output, "[secret Authorization]");
            assert!(answers(&output) >= 7, "{kind}: {}", output.all_output());
        }
    }
}

#[test]
fn a_secret_too_short_to_mask_gives_a_warning() {
    let (mut test, script) = set_up();
    test.set("SHORT", "abcde");
    let added = test.succeed(&[
        "server",
        "add",
        "leaky",
        "--secret-env",
        "API_KEY=env:SHORT",
        "--",
        "python3",
        &script,
        "stdio",
    ]);
    assert!(added.stderr.contains("`API_KEY` is too short"), "{}", added.all_output());
}
