//! Texts that new users stumbled over: each mistake is answered with what to do about it.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use crate::cli_test::{CliTest, CommandOutput};
use crate::http;
use crate::servers::{SHELL_SERVER, TOOLS, add_shell};

/// A command, its exit code, and a part of its output.
type Row<'a> = (&'a [&'a str], i32, &'a str);

fn check(test: &CliTest, rows: &[Row<'_>]) {
    for (command, code, words) in rows {
        let said = test.run(command);
        let everything = said.all_output();
        assert_eq!(said.code, *code, "{command:?}: {everything}");
        assert!(everything.contains(words), "{command:?} does not say `{words}`:\n{everything}");
    }
}

/// Checks the output of `doctor`, but not its exit code: another program may have the default port.
fn check_doctor(test: &CliTest, words: &str) {
    let everything = test.run(&["doctor"]).all_output();
    assert!(everything.contains(words), "`doctor` does not say `{words}`:\n{everything}");
}

#[test]
fn command_line_mistakes_are_answered_with_a_fix() {
    let test = CliTest::with_demo();
    test.write("comma.json", "{\"version\": 1, \"tools\": {\"a\": \"allow\",},}");
    test.write("list.json", "{\"version\": 1, \"hide\": [\"a\",]}");
    test.write(
        "secret.toml",
        "[servers.a]\nurl = \"https://a.example/\"\nheaders = { Authorization = \"Bearer x\" }\n",
    );
    let secret = test.path("secret.toml").display().to_string();
    let demo = format!("{}-nothing", test.home().display());
    check(
        &test,
        &[
            (
                &["server", "add", "x", "npx", "-y", "a"],
                2,
                "put `--` before the command: `tollgate server add NAME -- COMMAND`",
            ),
            (&["grant", "delete", "x"], 2, "did you mean `revoke`?"),
            (&["grant", "rm", "x"], 2, "did you mean `revoke`?"),
            (&["server", "rm", "x"], 2, "did you mean `remove`?"),
            (&["approvals", "reject", "x"], 2, "did you mean `deny`?"),
            (&["up", "--listen", "4282"], 2, "write 127.0.0.1:4282"),
            (&["up", "--listen", "localhost:4282"], 2, "write 127.0.0.1:4282"),
            (&["up", "--listen", "127.0.0.1"], 2, "the port is missing: write 127.0.0.1:4180"),
            (&["policy", "check", "comma.json"], 1, "there is a trailing comma before this"),
            (&["policy", "check", "list.json"], 1, "there is a trailing comma before this"),
            (&["stdio", "demo"], 2, "`stdio` needs a grant for server `demo`: add `--grant LABEL`"),
            (&["sql", "delete from whoop_sleeps"], 2, "only queries are possible here"),
            (&["sql", "selec 1"], 2, "SQL error: "),
            (&["export", "whoop", "sleep"], 2, "did you mean `tollgate export whoop sleeps`?"),
            (&["connect", "garmin"], 2, "unknown service `garmin`"),
            (&["purge"], 2, "this cannot be undone; no terminal to ask on, so add `--yes`"),
            (
                &["disconnect", "whoop"],
                2,
                "this cannot be undone; no terminal to ask on, so add `--yes`",
            ),
            (&["approvals", "list"], 0, "no approvals pending"),
            (&["audit", "verify"], 0, "only a checkpoint kept elsewhere detects"),
            (
                &["--config", &secret, "server", "list"],
                2,
                "is secret and must not be written in this file",
            ),
            (&["--home", &demo, "status"], 1, "(not created yet)"),
            (&["help", "audit", "tail"], 0, "Keep following new entries"),
        ],
    );
    check_doctor(&test, "no tollgate.toml; defaults are used");
}

#[test]
fn the_status_of_an_impossible_home_suggests_no_start() {
    let test = CliTest::new();
    test.write("file", "");
    let home = test.path("file/home").display().to_string();
    let said = test.run(&["--home", &home, "status"]);
    assert_eq!(said.code, 1);
    assert!(
        said.stdout.contains("cannot be created: ") && said.stdout.contains("is not a folder"),
        "{}",
        said.stdout
    );
    assert!(!said.all_output().contains("tollgate up"), "{}", said.all_output());
}

#[test]
fn hints_repeat_the_home_option() {
    let test = CliTest::with_demo();
    fs::write(test.home().join("gate.db"), "this is no database, and long enough to be looked at")
        .unwrap();
    let home = test.home().display().to_string();
    let mut command = test.command(&["--home", &home, "server", "list"]);
    let output = command.env_remove("TOLLGATE_HOME").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains(&format!("`tollgate --home {home} doctor`")), "{said}");
}

#[test]
fn a_program_that_is_not_an_mcp_server_is_reported_at_once() {
    let test = CliTest::new();
    let add = |name: &str, command: &[&str]| -> CommandOutput {
        test.run(&[&["server", "add", name, "--"], command].concat())
    };
    let said = add("echo", &["cat"]);
    assert_eq!(said.code, 2);
    assert!(
        said.stderr.contains("it started, but does not speak MCP: it sent our own request back"),
        "{}",
        said.stderr
    );
    let said = add("prints", &["sh", "-c", "echo 'usage: prints FILE'; exit 3"]);
    assert!(said.stderr.contains("it ended with exit code 3"), "{}", said.stderr);
    assert!(said.stderr.contains("it printed: usage: prints FILE"), "{}", said.stderr);
    for said in [said, add("gone", &["no-such-program"])] {
        assert!(!said.stderr.contains("--no-connect"), "{}", said.stderr);
        assert!(!said.stderr.contains("the message was not sent"), "{}", said.stderr);
    }
}

/// A server that wants OAuth.
fn wants_sign_in() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = stream;
            let mut head = [0; 4096];
            let _ = stream.read(&mut head);
            let _ = stream.write_all(
                b"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            );
        }
    });
    format!("http://{address}/mcp")
}

#[test]
fn a_server_that_wants_a_sign_in_says_how_to_give_a_token() {
    let said = CliTest::new().run(&["server", "add", "far", "--url", &wants_sign_in()]);
    assert_eq!(said.code, 0);
    assert!(said.stdout.contains("it requires a sign-in"), "{}", said.stdout);
    assert!(said.stdout.contains("publishes no sign-in metadata"), "{}", said.stdout);
    assert!(
        said.stderr.contains("`--header Authorization=@FILE` with `Bearer TOKEN`"),
        "{}",
        said.stderr
    );
}

#[test]
fn the_owner_learns_why_a_token_was_refused_and_its_client_does_not() {
    let test = CliTest::with_demo();
    let live = test.grant("alice");
    let gone = test.grant("bob");
    test.succeed(&["grant", "revoke", "bob"]);
    // One letter in the middle: the last six, a checksum, no longer match.
    let mut mistyped = live.clone().into_bytes();
    mistyped[20] = if mistyped[20] == b'a' { b'b' } else { b'a' };
    let mistyped = String::from_utf8(mistyped).unwrap();
    let up = test.up(&[]);
    let url = format!("{}/demo", up.url());
    for token in [gone.as_str(), mistyped.as_str()] {
        let answer = http::call(&url, token, "list_notes", &serde_json::json!({}));
        assert_eq!(answer.status, 401);
        assert!(
            answer.body.contains("this grant is not known, has expired, or was revoked"),
            "{}",
            answer.body
        );
    }
    let log = up.stop().stderr;
    let rows = test.succeed(&["audit", "tail", "-n", "100"]).stdout;
    assert!(rows.contains("a token with a typo"), "{rows}");
    assert!(rows.contains("a token of grant `bob`, which was revoked"), "{rows}");
    assert!(log.contains("shutting down after running calls finish"), "{log}");
}

#[test]
fn a_sync_without_an_account_warns_once() {
    let said = CliTest::new().run(&["sync", "whoop"]);
    assert_ne!(said.code, 0);
    assert!(said.stderr.matches("warning:").count() <= 1, "{}", said.stderr);
}

#[test]
fn differing_pins_are_reported_with_the_accept_command() {
    let test = CliTest::new();
    add_shell(&test, "book", TOOLS);
    test.write("tools.json", &TOOLS.replace("Reads a page.", "Reads a page, or more."));
    test.run(&["server", "pins", "book", "--look"]);
    check(
        &test,
        &[(
            &["server", "pins", "book"],
            1,
            "if these changes are expected: `tollgate server pins book --accept`",
        )],
    );
    check_doctor(&test, "`book`: 1 tool differs from what you accepted");
}

#[test]
fn a_server_without_the_gate_is_direct() {
    let test = CliTest::new();
    fs::create_dir_all(test.path(".cursor")).unwrap();
    test.write(".cursor/mcp.json", r#"{"mcpServers":{"a":{"command":"b"}}}"#);
    check(&test, &[(&["clients", "list"], 0, "direct")]);
}

#[test]
fn unusable_catalogue_entries_are_reported_as_skipped() {
    let test = CliTest::new();
    test.write("odd.jsonl", "{\"x\":1}\n{\"y\":2}\n");
    check(
        &test,
        &[(
            &["catalog", "import", "odd.jsonl"],
            0,
            "skipped 2 entries that describe neither a server nor a tool",
        )],
    );
}

#[cfg(feature = "demo")]
#[test]
fn the_demo_home_syncs_while_it_runs_and_explains_itself_afterwards() {
    let test = CliTest::new();
    let up = test.up(&["--demo"]);
    let home = format!("{}-demo", test.home().display());
    test.succeed(&["--home", &home, "sync", "whoop"]);
    let findings = test.run(&["--home", &home, "doctor", "--json"]).json();
    let wrong = |f: &&serde_json::Value| {
        f["health"] == "wrong" && ["accounts", "mirror"].contains(&f["about"].as_str().unwrap())
    };
    assert_eq!(findings.as_array().unwrap().iter().find(wrong), None);
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"health_check","arguments":{}}}
"#;
    let health = test.run_session(&["--home", &home, "stdio", "whoop", "--grant", "demo"], call);
    assert!(health.stdout.contains("\"id\":2"), "{}", health.all_output());
    assert!(!health.stdout.contains("demo home"), "{}", health.stdout);
    up.stop();

    let said = test.run(&["--home", &home, "sync", "whoop"]);
    assert_eq!(said.code, 2, "{}", said.all_output());
    let sentence =
        "this is the demo home; its accounts are made up, so `api.prod.whoop.com` is not contacted";
    assert_eq!(said.stderr.matches(sentence).count(), 1, "{}", said.stderr);
    assert!(said.stderr.matches("warning:").count() <= 1, "{}", said.stderr);
    let accounts = test.run(&["--home", &home, "accounts"]).all_output();
    assert_eq!(accounts.matches(sentence).count(), 1, "{accounts}");
}

/// Phrases that confused users: the command, the phrase now, and the phrase before.
#[test]
fn messages_use_the_agreed_phrases() {
    let test = CliTest::with_demo();
    for (command, plain, before) in [
        (&["audit", "verify"][..], "only a checkpoint kept elsewhere detects", "cannot be told"),
        (&["audit", "checkpoint", "--help"], "removed rows at the end", "cut-off end"),
        (&["connect", "whoop"], "needs no tick there", "no box to tick"),
        (&["stdio", "demo"], "add `--grant LABEL`", "for whom?"),
        (&["--help"], "Search a catalogue of servers and tools", "Servers and tools there are"),
        (&["--help"], "Status of your accounts", "How your accounts stand"),
        (&["--help"], "Query your data with SQL (read-only)", "Ask your data in SQL"),
        (&["--help"], "Access for clients: create, list", "Who comes in"),
        (&["approvals", "list"], "no approvals pending", "nothing waits for you"),
        (&["help", "audit", "tail"], "Keep following new entries", "Go on showing"),
        (&["connect", "garmin"], "unknown service `garmin`", "to have an account at"),
        (&["sql", "selec 1"], "SQL error: ", "the question is not understood"),
        (&["policy", "set", "demo", POLICY_FILE], "unchanged (version 1)", "is that text already"),
        (&["doctor"], "no tollgate.toml; defaults are used", "all as usual"),
    ] {
        let said = test.run(command).all_output();
        assert!(said.contains(plain), "{command:?} does not say `{plain}`:\n{said}");
        assert!(!said.contains(before), "{command:?} still says `{before}`:\n{said}");
    }
    let grant = "[grants.file]\ntoken_sha256 = \"0000000000000000000000000000000000000000000000000000000000000000\"\n[grants.file.servers]\ndemo = \"demo\"\n";
    test.write("home/tollgate.toml", grant);
    let said = test.run(&["grant", "revoke", "file"]).stderr;
    assert!(said.contains("grant `file` is defined in tollgate.toml"), "{said}");
    let again = |label: &str| test.run(&["grant", "create", label, "--server", "demo=demo"]).stderr;
    assert!(again("file").contains("or remove that one from tollgate.toml first"));
    test.grant("alice");
    assert!(again("alice").contains("or `tollgate grant revoke alice` first"));
}

const POLICY_FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/commands/up/demo/policy.json");

#[cfg(unix)]
#[test]
fn a_server_whose_guard_was_killed_is_reported_as_killed() {
    let test = CliTest::new();
    let script = format!("echo $PPID > \"$1.guard\"\n{SHELL_SERVER}");
    let (script, tools) = (test.write("server.sh", &script), test.write("tools.json", TOOLS));
    test.succeed(&["server", "add", "book", "--no-share", "--", "sh", &script, &tools]);
    test.write("p.json", "{\"version\":\"1\",\"default\":\"allow\"}");
    test.succeed(&["policy", "set", "p", "p.json"]);
    let made = test.succeed(&["grant", "create", "alice", "--server", "book=p", "--json"]).json();
    let up = test.up(&[]);
    let url = format!("{}/book", up.url());
    let token = made["token"].as_str().unwrap();
    let call = || http::call(&url, token, "read", &serde_json::json!({ "page": 1 }));
    assert_eq!(call().text(), "done");
    let guard = fs::read_to_string(format!("{tools}.guard")).unwrap();
    let guard = rustix::process::Pid::from_raw(guard.trim().parse().unwrap()).unwrap();
    rustix::process::kill_process(guard, rustix::process::Signal::KILL).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(200));
    call();
    let log = up.stop().stderr;
    assert!(log.contains("its process was killed"), "{log}");
    assert!(!log.contains("guard"), "{log}");
}

#[test]
fn a_refusal_because_of_pins_names_the_command_that_shows_them() {
    for (tools, state, next) in [
        (
            TOOLS.replace("\"tear\"", "\"read\""),
            "more than once under one name",
            "offer one of them",
        ),
        (
            TOOLS.replace("Reads a page.", "Reads it."),
            "changed since the owner accepted",
            "accept it",
        ),
    ] {
        let test = CliTest::new();
        add_shell(&test, "book", TOOLS);
        test.write("p.json", "{\"version\":\"1\",\"default\":\"allow\"}");
        test.succeed(&["policy", "set", "p", "p.json"]);
        let made =
            test.succeed(&["grant", "create", "alice", "--server", "book=p", "--json"]).json();
        test.write("tools.json", &tools);
        let up = test.up(&[]);
        let url = format!("{}/book", up.url());
        let token = made["token"].as_str().unwrap();
        let text = http::call(&url, token, "read", &serde_json::json!({ "page": 1 })).text();
        assert!(text.contains(state) && text.contains(next), "{text}");
        assert!(text.contains("(`tollgate server pins book`)"), "{text}");
        check(&test, &[(&["server", "pins", "book"], 1, "`tollgate server pins book --accept`")]);
    }
}
