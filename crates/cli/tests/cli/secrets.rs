//! Planted secrets and a grant's token are nowhere in clear: not in a response, a log, an error, an export or a
//! file of the home. The token is printed once, by the command that creates it.
#![allow(clippy::print_stdout, reason = "the figures of a promise are for people")]

use crate::cli_test::{CliTest, files_below};
use crate::http;
use crate::servers::{SHELL_SERVER, TOOLS};

const HEADER: &str = "Bearer planted-header-5f1d8a";
const VARIABLE: &str = "planted-variable-93bc02";
const QUERY: &str = "planted-query-77aa41";

fn assert_clean(what: &str, bytes: &[u8], secrets: &[&str]) {
    for secret in secrets {
        let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
        assert!(!found, "`{secret}` is in {what}");
    }
}

/// A server that prints its secret to stderr.
fn set_up() -> CliTest {
    let mut test = CliTest::with_demo();
    test.set("PLANTED", VARIABLE);
    let loud = format!("echo \"my key is $API_KEY\" >&2\n{SHELL_SERVER}");
    let (script, tools) = (test.write("loud.sh", &loud), test.write("tools.json", TOOLS));
    let header = test.write("header.txt", &format!("{HEADER}\n"));
    let header = format!("Authorization=@{header}");
    test.succeed(&[
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
    test.succeed(&["server", "add", "far", "--no-connect", "--url", &url, "--header", &header]);
    std::fs::remove_file(test.path("header.txt")).unwrap();
    test
}

#[test]
fn no_secret_is_in_any_output_or_file() {
    let test = set_up();
    let made = test.succeed(&[
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

    let up = test.up(&["--log", "trace", "--log-format", "json"]);
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
        let output = test.run(command);
        assert_clean(&command.join(" "), output.all_output().as_bytes(), &secrets);
    }
    let output = up.stop();
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(output.stderr.contains("shutting down"), "the log is searched: {}", output.stderr);
    assert_clean("the log", output.all_output().as_bytes(), &secrets);
    let files = files_below(&test.home());
    assert!(files.len() > 4);
    for (path, bytes) in files {
        assert_clean(&path.display().to_string(), &bytes, &secrets);
    }
}

/// Every command that shows data of the home.
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

#[cfg(unix)]
#[test]
fn a_crash_leaves_no_core_file_that_would_hold_the_secrets_in_clear() {
    let test = CliTest::with_demo();
    assert!(!test.up(&[]).leaves_a_core());
    let mut other = std::process::Command::new("sleep");
    let mut other = other.arg("60").current_dir(test.path("")).spawn().unwrap();
    // If this system writes no core files, the test proves nothing, and says so.
    let others = if crate::cli_test::leaves_a_core(&mut other) {
        "another program leaves one"
    } else {
        "nor does any other"
    };
    println!("P08: a gate that crashes leaves no core file; {others} here");
}

#[test]
fn a_secret_on_the_command_line_is_refused_and_not_repeated() {
    let test = CliTest::new();
    for option in ["--header", "--secret-env"] {
        let output = test.run(&[
            "server",
            "add",
            "x",
            option,
            "API_KEY=hunter2-hunter2",
            "--url",
            "https://example.com/",
        ]);
        assert_eq!(output.code, 2);
        assert!(!output.all_output().contains("hunter2"), "{}", output.all_output());
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
    let told = test.transcript(&header).replace("hunter2-hunter2", "[TYPED]");
    insta::assert_snapshot!(told);
}

#[test]
fn a_secret_among_the_arguments_of_a_server_is_masked_wherever_it_is_shown() {
    let test = CliTest::new();
    let planted = ["hunter2-planted", "q7Zp2LxV9mT4sRb8Kd1WfQ", "ghp_planted0123456789"];
    let [word, random, known] = planted;
    let assigned = format!("API_TOKEN={word}");
    let header = format!("Authorization: Bearer {word}");
    let url = format!("https://mcp.example/s/{random}/mcp");
    let add = |name: &str, words: &[&str]| {
        let command = ["server", "add", name, "--no-connect", "--", "/no/such/program"];
        test.succeed(&[&command, words].concat())
    };
    let output = add("a", &["--api-key", word]).all_output();
    assert!(
        output.contains("looks like a secret") && output.contains("tollgate server seal a`"),
        "{output}"
    );
    add("b", &["-e", &assigned, "--header", &header]);
    add("c", &[random, "--with", known]);
    add("plain", &["-y", "@modelcontextprotocol/server-filesystem", "/srv"]);
    let far = test.succeed(&["server", "add", "far", "--no-connect", "--url", &url]).all_output();
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
        let output = test.run(command).all_output();
        assert_clean(&command.join(" "), output.as_bytes(), &planted);
    }
    let list = test.succeed(&["server", "list"]).all_output();
    assert!(list.contains("--api-key [secret]") && list.contains("API_TOKEN=[secret]"), "{list}");
    assert!(list.contains("server-filesystem /srv"), "{list}");
    assert!(list.contains("argument 2 of server `a` looks like a secret"), "{list}");
    assert!(!list.contains("of server `plain`"), "{list}");
}

/// Prints its arguments and exits, like a program with a wrong password.
const QUOTES_ITS_ARGUMENTS: &str = r#"[ "$2" = hunter2-planted ] && echo "the password fits" >&2
echo "cannot log in with $*" >&2
exit 3
"#;

#[test]
fn a_sealed_argument_reaches_its_server_and_nothing_else() {
    let test = CliTest::new();
    let planted = ["hunter2-planted", "other-planted-word", "plain-planted-word"];
    let [password, other, plain] = planted;
    let script = test.write("quotes.sh", QUOTES_ITS_ARGUMENTS);
    let key = format!("--api-key={other}");
    let command = ["server", "add", "db", "--no-connect", "--", "sh", &script];
    test.succeed(&[&command[..], &["-p", password, &key, plain]].concat());

    // Recognized, and so masked in the server's output, even before it is sealed.
    let doctor = test.run(&["doctor", "--thorough"]).all_output();
    assert!(doctor.contains("the password fits") && doctor.contains("argument 3"), "{doctor}");
    assert_clean("doctor", doctor.as_bytes(), &planted[..2]);

    let sealed = test.succeed(&["server", "seal", "db", "--json"]).json();
    assert_eq!(sealed["sealed_arguments"], serde_json::json!([3, 4]));
    let sealed = test.succeed(&["server", "seal", "db", "--arg", "5"]).all_output();
    assert!(sealed.contains("argument 5 sealed"), "{sealed}");
    for command in [
        &["doctor", "--thorough"][..],
        &["server", "list"],
        &["server", "list", "--json"],
        &["status"],
        &["audit", "tail", "-n", "100"],
    ] {
        let output = test.run(command).all_output();
        assert_clean(&command.join(" "), output.as_bytes(), &planted);
        assert!(!output.contains("looks like a secret"), "{output}");
    }
    let doctor = test.run(&["doctor", "--thorough"]).all_output();
    assert!(doctor.contains("the password fits"), "{doctor}");
    let list = test.succeed(&["server", "list"]).all_output();
    assert!(list.contains("-p [secret] --api-key=[secret] [secret]"), "{list}");
    for (path, bytes) in files_below(&test.home()) {
        assert_clean(&path.display().to_string(), &bytes, &planted);
    }
    for (words, why) in [
        (&["db"][..], "no argument of server `db` looks like a secret"),
        (&["db", "--arg", "3"], "argument 3 of server `db` is sealed already"),
        (&["db", "--arg", "9"], "its arguments are 1 to 5"),
    ] {
        let output = test.run(&[&["server", "seal"], words].concat());
        assert_eq!(output.code, 2, "{}", output.all_output());
        assert!(output.stderr.contains(why), "{}", output.stderr);
    }
}

#[test]
fn a_prompt_without_a_terminal_suggests_an_alternative() {
    let output = CliTest::new().run(&[
        "server",
        "add",
        "x",
        "--url",
        "https://example.com/",
        "--header",
        "X-Key",
    ]);
    assert_eq!(output.code, 2);
    assert!(
        output
            .stderr
            .contains("hint: without a terminal, give `X-Key=@FILE` or `X-Key=env:VARIABLE`"),
        "{}",
        output.stderr
    );
}

#[test]
fn the_vault_key_may_come_from_the_environment() {
    let mut test = CliTest::new();
    test.set("TOLLGATE_VAULT_KEY", &"ab".repeat(32));
    test.succeed(&["server", "add", "demo", "--builtin", "demo"]);
    assert!(!test.home().join("vault.key").exists());
    test.set("TOLLGATE_VAULT_KEY", &"cd".repeat(32));
    let output = test.run(&["server", "list"]);
    assert_eq!(output.code, 2);
    assert!(output.stderr.contains("the vault key is not the one"), "{}", output.stderr);
}

#[test]
#[should_panic(expected = "is in")]
fn the_search_itself_finds_what_is_planted() {
    let test = set_up();
    let seen = test.succeed(&["server", "list", "--json"]).stdout + VARIABLE;
    assert_clean("a list", seen.as_bytes(), &[VARIABLE]);
}
