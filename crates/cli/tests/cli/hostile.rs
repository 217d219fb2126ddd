//! Text of a server or an agent cannot control the owner's terminal.

use serde_json::{Value, json};

use crate::cli_test::CliTest;
use crate::http;
use crate::servers::add_shell;

/// Clears a screen, moves the cursor, sets a title, starts a right-to-left run, hides a message.
const NASTY: &str = "\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m\r\u{8}\u{202e}\u{e0041}\u{2028}x";

fn assert_no_control_characters(what: &str, text: &str) {
    for c in text.chars() {
        let tame = c == '\n' || !c.is_control() && !"\u{202e}\u{e0041}\u{2028}".contains(c);
        assert!(tame, "{what} prints {c:?}: {text:?}");
    }
}

#[test]
fn control_characters_of_a_server_are_escaped() {
    let test = CliTest::new();
    let tools = json!([
        { "name": format!("a{NASTY}"), "description": NASTY, "inputSchema": { "type": "object" } },
        { "name": "b", "title": NASTY, "description": format!("fine\n{NASTY}"), "inputSchema": { "type": "object" } },
    ]);
    assert_no_control_characters("server add", &add_shell(&test, "bad", &tools.to_string()));
    let mut changed = tools;
    changed[1]["description"] = Value::from(format!("changed {NASTY}"));
    test.write("tools.json", &changed.to_string());
    let shown = test.run(&["server", "tools", "bad"]).stdout;
    assert!(
        shown.contains("⟨U+001B⟩[2J") && shown.contains("⟨U+202E⟩"),
        "it is shown, not hidden: {shown}"
    );
    for command in [
        &["server", "pins", "bad", "--look"][..],
        &["server", "pins", "bad", "--json"],
        &["server", "tools", "bad"],
        &["server", "tools", "bad", "--json"],
        &["server", "list", "--json"],
        &["doctor"],
        &["status"],
    ] {
        assert_no_control_characters(&command.join(" "), &test.run(command).all_output());
    }
}

#[test]
fn control_characters_of_an_agent_are_escaped() {
    let test = CliTest::with_demo();
    let token = test.grant("alice");
    let up = test.up(&["--log", "trace"]);
    let url = format!("{}/demo", up.url());
    // A header cannot carry the name, so this one is refused; the arguments of the other are parked.
    let meta = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": NASTY, "version": NASTY } });
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": meta });
    let bearer = format!("Bearer {token}");
    let headers = [
        ("Authorization", bearer.as_str()),
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
    ];
    http::post(&url, &headers, &hello.to_string());
    let odd = json!({ "jsonrpc": "2.0", "id": 2, "method": format!("odd/{NASTY}") });
    http::post(&url, &headers, &odd.to_string());
    let asked = std::thread::spawn({
        let (url, token) = (url.clone(), token.clone());
        move || http::call(&url, &token, "send_money", &json!({ "to": NASTY, "amount": 50 }))
    });
    let id = crate::gate::wait_for_approval(&test);
    let shown = test.run(&["approvals", "show", &id]).stdout;
    assert!(shown.contains("⟨U+009B⟩31m"), "it is shown, not hidden: {shown}");
    for command in [
        &["approvals", "list"][..],
        &["approvals", "list", "--json"],
        &["approvals", "show", &id],
        &["approvals", "show", &id, "--json"],
        &["audit", "tail", "-n", "100"],
        &["audit", "tail", "-n", "100", "--json"],
        &["audit", "search", "--json"],
        &["audit", "export", "--format", "jsonl"],
        &["status", "--json"],
    ] {
        assert_no_control_characters(&command.join(" "), &test.run(command).all_output());
    }
    test.succeed(&["approvals", "deny", &id, "--because", "no"]);
    asked.join().unwrap();
    let output = up.stop();
    assert_no_control_characters("the log", &output.stderr);
}

#[test]
fn control_characters_in_arguments_are_escaped() {
    let test = CliTest::with_demo();
    test.write(
        "p.json",
        &format!(
            "{{\"version\":\"1\",\"default\":\"deny\",\"tools\":{{\"{}\":{{\"x\":1}}}}}}",
            "a\u{9b}2J\u{202e}"
        ),
    );
    for command in [
        &["policy", "check", "p.json"][..],
        &["grant", "show", NASTY],
        &["policy", "explain", "p.json", NASTY],
    ] {
        let output = test.run(command);
        assert_ne!(output.code, 0);
        assert_no_control_characters(command[0], &output.all_output());
    }
}

/// Malicious or meaningless files and arguments: name, then the content of `p.json`, or the arguments.
const POLICIES: &[(&str, &str)] = &[
    ("nothing", ""),
    ("null", "null"),
    ("a list", "[]"),
    ("a byte order mark", "\u{feff}{\"version\":\"1\",\"default\":\"allow\"}"),
    ("a field twice", r#"{"version":"1","default":"deny","default":"allow"}"#),
    ("a tool twice", r#"{"version":"1","default":"deny","tools":{"a":{"action":"deny"},"a":{}}}"#),
    ("a tool that is null", r#"{"version":"1","default":"allow","tools":{"a":null}}"#),
    ("rules that are null", r#"{"version":"1","default":"allow","tools":{"a":{"deny_if":null}}}"#),
    ("a field misspelt", r#"{"version":"1","default":"allow","tool":{}}"#),
    ("a field in capitals", r#"{"version":"1","default":"allow","Hide":["a"]}"#),
    ("another version", r#"{"version":"2","default":"allow"}"#),
    ("a version that is a number", r#"{"version":1,"default":"allow"}"#),
    ("no default", r#"{"version":"1","tools":{}}"#),
    ("a default of its own", r#"{"version":"1","default":"no"}"#),
    ("a default that is false", r#"{"version":"1","default":false}"#),
    ("a second value", r#"{"version":"1","default":"deny"}{"version":"1","default":"allow"}"#),
    ("a comment", r#"{"version":"1",/* */"default":"allow"}"#),
    (
        "a pattern that does not compile",
        r#"{"version":"1","default":"allow","tools":{"a":{"deny_if":[{"conditions":[{"path":"args.a","op":"regex","value":"("}]}]}}}"#,
    ),
    (
        "a pattern that grows",
        r#"{"version":"1","default":"allow","tools":{"a":{"deny_if":[{"conditions":[{"path":"args.a","op":"regex","value":"(a{1000}){1000}"}]}]}}}"#,
    ),
    (
        "a pattern that looks back",
        r#"{"version":"1","default":"allow","tools":{"a":{"deny_if":[{"conditions":[{"path":"args.a","op":"regex","value":"(a)\\1"}]}]}}}"#,
    ),
    (
        "an unknown operator",
        r#"{"version":"1","default":"allow","tools":{"a":{"deny_if":[{"conditions":[{"path":"args.a","op":"=","value":1}]}]}}}"#,
    ),
    (
        "a path that leads nowhere",
        r#"{"version":"1","default":"allow","tools":{"a":{"deny_if":[{"conditions":[{"path":"args..a[","op":"eq","value":1}]}]}}}"#,
    ),
    (
        "a limit below nothing",
        r#"{"version":"1","default":"allow","tools":{"a":{"limits":[{"window":"minute","max":-1}]}}}"#,
    ),
    (
        "a limit beyond counting",
        r#"{"version":"1","default":"allow","tools":{"a":{"limits":[{"window":"minute","max":1e300}]}}}"#,
    ),
    (
        "a window of nothing",
        r#"{"version":"1","default":"allow","tools":{"a":{"limits":[{"window":0,"max":1}]}}}"#,
    ),
    (
        "a window before now",
        r#"{"version":"1","default":"allow","tools":{"a":{"limits":[{"window":-5,"max":1}]}}}"#,
    ),
    (
        "a window without end",
        r#"{"version":"1","default":"allow","tools":{"a":{"limits":[{"window":"99999999999999999d","max":1}]}}}"#,
    ),
    (
        "an unknown scope",
        r#"{"version":"1","default":"allow","tools":{"a":{"limits":[{"window":"minute","max":1,"scope":"world"}]}}}"#,
    ),
    (
        "a time-out before now",
        r#"{"version":"1","default":"allow","tools":{"a":{"approve_if":[{"conditions":[],"timeout":"-1m"}]}}}"#,
    ),
    (
        "a network that is none",
        r#"{"version":"1","default":"allow","tools":{"a":{"deny_if":[{"conditions":[{"path":"args.a","op":"cidr_in","value":["1.2.3.4/99"]}]}]}}}"#,
    ),
    ("hide that is text", r#"{"version":"1","default":"allow","hide":"x"}"#),
    (
        "a bound below nothing",
        r#"{"version":"1","default":"allow","tools":{"a":{"result_bytes_max":-1}}}"#,
    ),
    ("a cut that is none", r#"{"version":"1","default":"allow","tools":{"a":{"redact":["[["]}}}"#),
    ("half a surrogate", r#"{"version":"1","default":"allow","description":"\ud800"}"#),
    (
        "a test that fails",
        r#"{"version":"1","default":"allow","tests":[{"name":"x","tool":"a","expect":"deny"}]}"#,
    ),
];

const YAML: &[(&str, &str)] = &[
    ("nothing", ""),
    ("a comment", "# nothing\n"),
    ("two documents", "version: \"1\"\ndefault: deny\n---\nversion: \"1\"\ndefault: allow\n"),
    ("an anchor", "version: \"1\"\ndefault: &a allow\n"),
    ("a merge", "version: \"1\"\ndefault: allow\ntools:\n  <<: {b: {}}\n"),
    ("a tag", "version: !!str 1\ndefault: allow\n"),
    ("a tag that runs code", "version: \"1\"\ndefault: !!python/object:os.system allow\n"),
    ("a bare no", "version: \"1\"\ndefault: no\n"),
    ("a version with a point", "version: 1.0\ndefault: allow\n"),
    ("a cut file", "version: \"1\"\ndefault: allow\ntools:\n  echo:\n"),
    ("a file cut in a rule", "version: \"1\"\ndefault: allow\ntools:\n  echo:\n    deny_if:\n"),
    (
        "a bomb of aliases",
        "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n",
    ),
    ("a tab", "version: \"1\"\n\tdefault: allow\n"),
    ("a field twice", "version: \"1\"\ndefault: deny\ndefault: allow\n"),
    ("a NUL", "version: \"1\"\ndefault: allow\u{0}\n"),
    ("an include", "version: \"1\"\ndefault: allow\ntools: !include x.yaml\n"),
    ("a key that is a list", "? [a]\n: b\n"),
];

const SETTINGS: &[(&str, &str)] = &[
    ("garbage", "{{{"),
    ("an unknown key", "lisen = \"127.0.0.1:1\"\n"),
    ("a key twice", "listen = \"127.0.0.1:1\"\nlisten = \"127.0.0.1:2\"\n"),
    ("an address that is none", "listen = \"nowhere\"\n"),
    ("a port that is none", "listen = \"127.0.0.1:99999\"\n"),
    ("an unknown durability", "durability = \"maybe\"\n"),
    ("a limit below nothing", "[limits]\nbody_bytes_max = -1\n"),
    ("a limit beyond its range", "[limits]\nbody_bytes_max = 99999999999999\n"),
    ("a limit of nothing", "[limits]\nin_flight_per_grant_max = 0\n"),
    ("an unknown limit", "[limits]\nbody_byte_max = 5\n"),
    ("a server without a way to it", "[servers.a]\n"),
    (
        "a server with two ways to it",
        "[servers.a]\ncommand = [\"x\"]\nurl = \"http://127.0.0.1/\"\n",
    ),
    ("an empty command", "[servers.a]\ncommand = []\n"),
    ("a server that leads out of its folder", "[servers.\"../x\"]\ncommand = [\"x\"]\n"),
    (
        "a server with a password in its address",
        "[servers.a]\nurl = \"https://u:p@example.com/\"\n",
    ),
    ("a server in clear text", "[servers.a]\nurl = \"http://example.com/\"\n"),
    ("a server by another protocol", "[servers.a]\nurl = \"ftp://example.com/\"\n"),
    (
        "a secret in clear text",
        "[servers.a]\nurl = \"https://example.com/\"\n[servers.a.headers]\nAuthorization = \"Bearer x\"\n",
    ),
    ("a token in clear text", "[grants.g]\ntoken = \"tg_x\"\nservers = { a = \"p\" }\n"),
    ("a hash that is none", "[grants.g]\ntoken_sha256 = \"zz\"\nservers = { a = \"p\" }\n"),
    ("a policy that is not there", "[policies.p]\nfile = \"nope.json\"\n"),
    ("a policy without end", "[policies.p]\nfile = \"/dev/zero\"\n"),
    ("a time zone that is none", "time_zone = \"Mars/Phobos\"\n"),
    ("a host that is an address", "hostnames = [\"http://x/\"]\n"),
    ("a host of stars", "hostnames = [\"*\"]\n"),
];

const WORDS: &[&[&str]] = &[
    &["server", "add", "../x", "--", "true"],
    &["server", "add", "a b", "--", "true"],
    &["server", "add", "", "--", "true"],
    &["server", "add", NASTY, "--", "true"],
    &["server", "add", "x", "--url", "javascript:alert(1)"],
    &["server", "add", "x", "--url", "https://"],
    &["server", "add", "x", "--url", "http://example.com/"],
    &["server", "add", "x", "--url", "https://u:p@example.com/"],
    &["server", "add", "x", "--url", "https://127.0.0.1:1/", "--header", "A=b"],
    &["server", "add", "x", "--", "/nonexistent/program"],
    &["server", "add", "x"],
    &["grant", "create", "a\nb", "--server", "x"],
    &["grant", "create", "x", "--server", "nope=nope"],
    &["grant", "create", "x", "--server", "="],
    &["grant", "revoke", NASTY],
    &["grant", "rotate", "x", "--overlap", "1e9d"],
    &["audit", "tail", "-n", "99999999999999999999"],
    &["audit", "search", "--since", "yesterday-ish"],
    &["audit", "export", "--format", "xml"],
    &["audit", "verify", "--checkpoint", "/nonexistent"],
    &["audit", "verify", "--checkpoint", "/dev/zero"],
    &["policy", "check", "/dev/zero"],
    &["policy", "check", "/"],
    &["policy", "set", "../x", "/dev/null"],
    &["policy", "explain", "x"],
    &["approvals", "approve", "--yes", "../../x"],
    &["approvals", "approve", "--yes", NASTY],
    &["stdio", "nope", "--grant", "nope"],
    &["wrap", "--policy", "/nonexistent", "--", "true"],
    &["up", "--listen", "nowhere"],
    &["up", "--listen", "8.8.8.8:1"],
    &["scan", "/dev/zero"],
    &["catalog", "show", "../../etc/passwd"],
    &[NASTY],
];

/// A refusal with words in time: no crash, no signal, nothing that steers the terminal.
fn assert_refused(test: &CliTest, what: &str, words: &[&str]) {
    let began = std::time::Instant::now();
    let output = test.run(words);
    let text = output.all_output();
    assert!(matches!(output.code, 1 | 2), "{what}: ended with {}: {text}", output.code);
    assert!(text.contains("error:"), "{what}: {text}");
    assert!(!text.contains("panicked"), "{what}: {text}");
    assert!(began.elapsed() < std::time::Duration::from_secs(5), "{what}: {:?}", began.elapsed());
    assert_no_control_characters(what, &text);
}

#[test]
fn malicious_files_and_arguments_are_refused_with_an_error() {
    let test = CliTest::new();
    for (file, cases) in [("p.json", POLICIES), ("p.yaml", YAML)] {
        for (name, text) in cases {
            test.write(file, text);
            assert_refused(&test, &format!("{file}: {name}"), &["policy", "check", file]);
        }
    }
    for (name, text) in [
        ("deep nesting", "[".repeat(1_000_000)),
        ("too large", format!("{}{{}}", " ".repeat(2_000_000))),
        ("a million fields", format!("{{{}\"a\":1}}", "\"a\":1,".repeat(100_000))),
    ] {
        test.write("p.json", &text);
        assert_refused(&test, name, &["policy", "check", "p.json"]);
        test.write("p.yaml", &text);
        assert_refused(&test, name, &["policy", "check", "p.yaml"]);
    }
    for words in WORDS {
        assert_refused(&test, &format!("{words:?}"), words);
    }
    for (name, text) in SETTINGS {
        test.write("tollgate.toml", text);
        assert_refused(&test, name, &["--config", "tollgate.toml", "server", "list"]);
    }
}
