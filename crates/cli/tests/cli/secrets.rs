//! A planted secret and a grant's token are nowhere in clear: not in an answer, a log, an error, an
//! export or a file of the home. The token is printed once, by the command that makes it.
#![allow(clippy::print_stdout, reason = "the figures of a promise are for people")]

use crate::http;
use crate::servers::{SHELL_SERVER, TOOLS};
use crate::stage::{Stage, files_below, leaves_a_core};

const HEADER: &str = "Bearer planted-header-5f1d8a";
const VARIABLE: &str = "planted-variable-93bc02";
const QUERY: &str = "planted-query-77aa41";

fn assert_clean(what: &str, bytes: &[u8], secrets: &[&str]) {
    for secret in secrets {
        let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
        assert!(!found, "`{secret}` stands in {what}");
    }
}

/// A server that shouts its secret at everybody who listens to its stderr.
fn stage() -> Stage {
    let mut stage = Stage::with_demo();
    stage.set("PLANTED", VARIABLE);
    let loud = format!("echo \"my key is $API_KEY\" >&2\n{SHELL_SERVER}");
    let (script, tools) = (stage.write("loud.sh", &loud), stage.write("tools.json", TOOLS));
    let header = stage.write("header.txt", &format!("{HEADER}\n"));
    let header = format!("Authorization=@{header}");
    stage.fine(&[
        "server",
        "add",
        "loud",
        "--secret-env",
        "API_KEY=env:PLANTED",
        "--",
        "sh",
        &script,
        &tools,
    ]);
    let url = format!("https://127.0.0.1:9/mcp?key={QUERY}");
    stage.fine(&["server", "add", "far", "--no-connect", "--url", &url, "--header", &header]);
    std::fs::remove_file(stage.path("header.txt")).unwrap();
    stage
}

#[test]
fn no_secret_is_in_any_output_or_file() {
    let stage = stage();
    let made = stage.fine(&[
        "grant",
        "create",
        "alice",
        "--server",
        "demo=demo",
        "--server",
        "loud=demo",
        "--server",
        "far=demo",
        "--json",
    ]);
    let token = made.json()["token"].as_str().unwrap().to_owned();
    let secrets = [HEADER, "planted-header", VARIABLE, QUERY, token.as_str()];

    let up = stage.up(&["--log", "trace", "--log-format", "json"]);
    let url = up.url().to_owned();
    for server in ["demo", "loud", "far"] {
        let answer = http::call(
            &format!("{url}/{server}"),
            &token,
            "read",
            &serde_json::json!({ "page": 1 }),
        );
        assert_clean("an answer", answer.body.as_bytes(), &secrets);
    }
    for wrong in [format!("{token}x"), token.to_uppercase()] {
        let answer = http::call(&format!("{url}/demo"), &wrong, "read", &serde_json::json!({}));
        assert_eq!(answer.status, 401);
        assert_clean("an answer", answer.body.as_bytes(), &secrets);
    }
    for command in COMMANDS {
        let said = stage.run(command);
        assert_clean(&command.join(" "), said.everything().as_bytes(), &secrets);
    }
    let said = up.stop();
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stderr.contains("shutting down"), "the log is looked at: {}", said.stderr);
    assert_clean("the log", said.everything().as_bytes(), &secrets);
    let files = files_below(&stage.home());
    assert!(files.len() > 4);
    for (path, bytes) in files {
        assert_clean(&path.display().to_string(), &bytes, &secrets);
    }
}

/// Everything that shows what the home holds.
const COMMANDS: &[&[&str]] = &[
    &["--log", "trace", "server", "list"],
    &["server", "list", "--json"],
    &["--log", "trace", "server", "pins", "loud", "--look"],
    &["--log", "trace", "server", "pins", "far", "--look"],
    &["server", "tools", "loud", "--json"],
    &["server", "add", "again", "--url", "https://127.0.0.1:9/", "--header", "X=@nowhere"],
    &["grant", "list", "--json"],
    &["grant", "show", "alice"],
    &["grant", "show", "alice", "--json"],
    &["status", "--json"],
    &["doctor", "--json"],
    &["doctor", "--thorough"],
    &["approvals", "list", "--all", "--json"],
    &["audit", "tail", "-n", "1000"],
    &["audit", "search", "--json"],
    &["audit", "export", "--format", "jsonl"],
    &["audit", "export", "--format", "csv"],
    &["audit", "export", "--format", "chain"],
    &["audit", "verify", "--json"],
];

#[test]
fn a_crash_leaves_no_core_file_that_would_hold_the_secrets_in_clear() {
    let stage = Stage::with_demo();
    assert!(!stage.up(&[]).leaves_a_core());
    let mut other = std::process::Command::new("sleep");
    let mut other = other.arg("60").current_dir(stage.path("")).spawn().unwrap();
    // Where no program leaves one, this shows nothing, and says so.
    let others =
        if leaves_a_core(&mut other) { "another program leaves one" } else { "nor does any other" };
    println!("P08: a gate that crashes leaves no core file; {others} here");
}

#[test]
fn a_secret_on_the_command_line_is_refused_and_not_repeated() {
    let stage = Stage::new();
    for option in ["--header", "--secret-env"] {
        let said = stage.run(&[
            "server",
            "add",
            "x",
            option,
            "API_KEY=hunter2-hunter2",
            "--url",
            "https://example.com/",
        ]);
        assert_eq!(said.code, 2);
        assert!(!said.everything().contains("hunter2"), "{}", said.everything());
    }
    let header = [
        "server",
        "add",
        "x",
        "--url",
        "https://example.com/",
        "--header",
        "API_KEY=hunter2-hunter2",
    ];
    let told = stage.told(&header).replace("hunter2-hunter2", "[TYPED]");
    insta::assert_snapshot!(told);
}

#[test]
fn a_secret_among_the_arguments_of_a_server_is_masked_wherever_it_is_shown() {
    let stage = Stage::new();
    let planted = ["hunter2-planted", "q7Zp2LxV9mT4sRb8Kd1WfQ", "ghp_planted0123456789"];
    let [word, random, known] = planted;
    let assigned = format!("API_TOKEN={word}");
    let header = format!("Authorization: Bearer {word}");
    let url = format!("https://mcp.example/s/{random}/mcp");
    let add = |name: &str, words: &[&str]| {
        let command = ["server", "add", name, "--no-connect", "--", "/no/such/program"];
        stage.fine(&[&command, words].concat())
    };
    let said = add("a", &["--api-key", word]).everything();
    assert!(said.contains("looks like a secret") && said.contains("--secret-env NAME"), "{said}");
    add("b", &["-e", &assigned, "--header", &header]);
    add("c", &[random, "--with", known]);
    add("plain", &["-y", "@modelcontextprotocol/server-filesystem", "/srv"]);
    let far = stage.fine(&["server", "add", "far", "--no-connect", "--url", &url]).everything();
    assert_clean("server add", far.as_bytes(), &planted);
    for command in [
        &["server", "list"][..],
        &["server", "list", "--json"],
        &["server", "add", "a2", "--no-connect", "--json", "--", "x", "--token", word],
        &["doctor"],
        &["doctor", "--thorough", "--json"],
        &["status"],
        &["audit", "tail", "-n", "100"],
        &["audit", "export", "--format", "jsonl"],
    ] {
        let said = stage.run(command).everything();
        assert_clean(&command.join(" "), said.as_bytes(), &planted);
    }
    let list = stage.fine(&["server", "list"]).everything();
    assert!(list.contains("--api-key [secret]") && list.contains("API_TOKEN=[secret]"), "{list}");
    assert!(list.contains("server-filesystem /srv"), "{list}");
    assert!(list.contains("argument 2 of server `a` looks like a secret"), "{list}");
    assert!(!list.contains("of server `plain`"), "{list}");
}

#[test]
fn a_prompt_without_a_terminal_says_what_to_do_instead() {
    let said = Stage::new().run(&[
        "server",
        "add",
        "x",
        "--url",
        "https://example.com/",
        "--header",
        "X-Key",
    ]);
    assert_eq!(said.code, 2);
    assert!(
        said.stderr
            .contains("hint: without a terminal, give `X-Key=@FILE` or `X-Key=env:VARIABLE`"),
        "{}",
        said.stderr
    );
}

#[test]
fn the_vault_key_may_come_from_the_environment() {
    let mut stage = Stage::new();
    stage.set("TOLLGATE_VAULT_KEY", &"ab".repeat(32));
    stage.fine(&["server", "add", "demo", "--builtin", "demo"]);
    assert!(!stage.home().join("vault.key").exists());
    stage.set("TOLLGATE_VAULT_KEY", &"cd".repeat(32));
    let said = stage.run(&["server", "list"]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("the vault key is not the one"), "{}", said.stderr);
}

#[test]
#[should_panic(expected = "stands in")]
fn the_search_itself_finds_what_is_planted() {
    let stage = stage();
    let seen = stage.fine(&["server", "list", "--json"]).stdout + VARIABLE;
    assert_clean("a list", seen.as_bytes(), &[VARIABLE]);
}
