//! What a new user stumbled over in words: each mistake is answered with what to do about it.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use crate::http;
use crate::servers::{TOOLS, add_shell};
use crate::stage::{Said, Stage};

/// A command, how it ends, and what it says of the mistake.
type Row<'a> = (&'a [&'a str], i32, &'a str);

fn check(stage: &Stage, rows: &[Row<'_>]) {
    for (command, code, words) in rows {
        let said = stage.run(command);
        let everything = said.everything();
        assert_eq!(said.code, *code, "{command:?}: {everything}");
        assert!(everything.contains(words), "{command:?} does not say `{words}`:\n{everything}");
    }
}

/// What `doctor` says. How it ends is left open: another program may have the usual port.
fn check_doctor(stage: &Stage, words: &str) {
    let everything = stage.run(&["doctor"]).everything();
    assert!(everything.contains(words), "`doctor` does not say `{words}`:\n{everything}");
}

#[test]
fn mistakes_on_the_command_line_are_answered_with_the_way_out() {
    let stage = Stage::with_demo();
    stage.write("comma.json", "{\"version\": 1, \"tools\": {\"a\": \"allow\",},}");
    stage.write("list.json", "{\"version\": 1, \"hide\": [\"a\",]}");
    stage.write(
        "secret.toml",
        "[servers.a]\nurl = \"https://a.example/\"\nheaders = { Authorization = \"Bearer x\" }\n",
    );
    let secret = stage.path("secret.toml").display().to_string();
    let demo = format!("{}-nothing", stage.home().display());
    check(
        &stage,
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
            (&["sql", "delete from whoop_sleeps"], 2, "only reading is possible here"),
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
            (&["--home", &demo, "status"], 1, "(not made yet)"),
            (&["help", "audit", "tail"], 0, "Keep following new entries"),
        ],
    );
    check_doctor(&stage, "no tollgate.toml; defaults are used");
}

#[test]
fn a_home_that_cannot_be_made_is_not_offered_a_start() {
    let stage = Stage::new();
    stage.write("file", "");
    let home = stage.path("file/home").display().to_string();
    let said = stage.run(&["--home", &home, "status"]);
    assert_eq!(said.code, 1);
    assert!(
        said.stdout.contains("cannot be made: ") && said.stdout.contains("is not a folder"),
        "{}",
        said.stdout
    );
    assert!(!said.everything().contains("tollgate up"), "{}", said.everything());
}

#[test]
fn hints_name_the_home_that_the_command_was_told_of() {
    let stage = Stage::with_demo();
    fs::write(stage.home().join("gate.db"), "this is no database, and long enough to be looked at")
        .unwrap();
    let home = stage.home().display().to_string();
    let mut command = stage.command(&["--home", &home, "server", "list"]);
    let output = command.env_remove("TOLLGATE_HOME").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains(&format!("`tollgate --home {home} doctor`")), "{said}");
}

#[test]
fn a_program_that_is_no_mcp_server_is_told_at_once() {
    let stage = Stage::new();
    let add = |name: &str, command: &[&str]| -> Said {
        stage.run(&[&["server", "add", name, "--"], command].concat())
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
    let said = Stage::new().run(&["server", "add", "far", "--url", &wants_sign_in()]);
    assert_eq!(said.code, 2);
    assert!(
        said.stderr.contains("status 401: it wants you to sign in (OAuth), or a token"),
        "{}",
        said.stderr
    );
    assert!(
        said.stderr.contains("`--header Authorization=@FILE` with `Bearer TOKEN`"),
        "{}",
        said.stderr
    );
}

#[test]
fn the_owner_learns_why_a_token_was_refused_and_its_client_does_not() {
    let stage = Stage::with_demo();
    let live = stage.grant("alice");
    let gone = stage.grant("bob");
    stage.fine(&["grant", "revoke", "bob"]);
    // One letter in the middle: the last six do not fit it any more.
    let mut mistyped = live.clone().into_bytes();
    mistyped[20] = if mistyped[20] == b'a' { b'b' } else { b'a' };
    let mistyped = String::from_utf8(mistyped).unwrap();
    let up = stage.up(&[]);
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
    let rows = stage.fine(&["audit", "tail", "-n", "100"]).stdout;
    assert!(rows.contains("a token with a typo in it"), "{rows}");
    assert!(rows.contains("a token of grant `bob`, which was revoked"), "{rows}");
    assert!(log.contains("shutting down after running calls finish"), "{log}");
}

#[test]
fn a_sync_without_an_account_warns_once() {
    let said = Stage::new().run(&["sync", "whoop"]);
    assert_ne!(said.code, 0);
    assert!(said.stderr.matches("warning:").count() <= 1, "{}", said.stderr);
}

#[test]
fn pins_that_differ_are_said_so_with_the_command_that_accepts_them() {
    let stage = Stage::new();
    add_shell(&stage, "book", TOOLS);
    stage.write("tools.json", &TOOLS.replace("Reads a page.", "Reads a page, or more."));
    stage.run(&["server", "pins", "book", "--look"]);
    check(
        &stage,
        &[(
            &["server", "pins", "book"],
            1,
            "if these changes are expected: `tollgate server pins book --accept`",
        )],
    );
    check_doctor(&stage, "`book`: 1 tool differs from what you accepted");
}

#[test]
fn a_server_past_the_gate_is_direct() {
    let stage = Stage::new();
    fs::create_dir_all(stage.path(".cursor")).unwrap();
    stage.write(".cursor/mcp.json", r#"{"mcpServers":{"a":{"command":"b"}}}"#);
    check(&stage, &[(&["clients", "list"], 0, "direct")]);
}

#[test]
fn entries_of_a_catalogue_that_describe_nothing_are_skipped_in_words() {
    let stage = Stage::new();
    stage.write("odd.jsonl", "{\"x\":1}\n{\"y\":2}\n");
    check(
        &stage,
        &[(
            &["catalog", "import", "odd.jsonl"],
            0,
            "skipped 2 entries that describe neither a server nor a tool",
        )],
    );
}

#[test]
fn the_demo_home_syncs_while_it_runs_and_says_one_sentence_afterwards() {
    let stage = Stage::new();
    let up = stage.up(&["--demo"]);
    let home = format!("{}-demo", stage.home().display());
    stage.fine(&["--home", &home, "sync", "whoop"]);
    let findings = stage.run(&["--home", &home, "doctor", "--json"]).json();
    let wrong = |f: &&serde_json::Value| {
        f["health"] == "wrong" && ["accounts", "mirror"].contains(&f["about"].as_str().unwrap())
    };
    assert_eq!(findings.as_array().unwrap().iter().find(wrong), None);
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"health_check","arguments":{}}}
"#;
    let health = stage.speak(&["--home", &home, "stdio", "whoop", "--grant", "demo"], call);
    assert!(health.stdout.contains("\"id\":2"), "{}", health.everything());
    assert!(!health.stdout.contains("demo home"), "{}", health.stdout);
    up.stop();

    let said = stage.run(&["--home", &home, "sync", "whoop"]);
    assert_eq!(said.code, 2, "{}", said.everything());
    let sentence =
        "this is the demo home; its accounts are made up, so `api.prod.whoop.com` is not contacted";
    assert_eq!(said.stderr.matches(sentence).count(), 1, "{}", said.stderr);
    assert!(said.stderr.matches("warning:").count() <= 1, "{}", said.stderr);
}
