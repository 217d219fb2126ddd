//! What a new user should see without knowing an option for it.

use std::fs;

use serde_json::json;

use crate::cli_test::{CliTest, CommandOutput};
use crate::http;
use crate::servers::{SHELL_SERVER, TOOLS, add_shell};

/// Runs a command with `--home` and without the variable.
fn at_home(test: &CliTest, arguments: &[&str]) -> CommandOutput {
    let home = test.home().display().to_string();
    let mut command = test.command(&[&["--home", &home], arguments].concat());
    let output = command.env_remove("TOLLGATE_HOME").output().unwrap();
    CommandOutput {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

#[test]
fn doctor_reports_a_server_that_exits_at_every_start() {
    let test = CliTest::new();
    let ends = test.write("ends.sh", "echo 'no config file' >&2\nexit 4\n");
    let add = |name: &str, command: &[&str]| {
        test.succeed(&[&["server", "add", name, "--no-connect", "--"], command].concat());
    };
    add("ends", &["sh", &ends]);
    add("slow", &["sleep", "30"]);
    add_shell(&test, "fine", TOOLS);
    let doctor = test.run(&["doctor"]);
    assert_eq!(doctor.code, 1, "{}", doctor.all_output());
    let said = doctor.stdout;
    assert!(said.contains("it ended with exit code 4; it printed: no config file"), "{said}");
    assert!(said.contains("`fine` can be started or reached"), "{said}");
    let slow = "look  servers    `slow` was started and has not answered within 5 s";
    assert!(said.contains(slow), "{said}");
    // A check accepts nothing.
    let listed = test.succeed(&["server", "list"]).stdout;
    assert_eq!(listed.matches("not seen yet").count(), 2, "{listed}");
}

#[test]
fn every_suggested_command_repeats_the_home() {
    let test = CliTest::with_demo();
    let token = test.grant("alice");
    test.write("home/tollgate.toml", "[limits]\napproval_hold_seconds = 1\n");
    let up = test.up(&[]);
    let url = format!("{}/demo", up.url());
    http::call(&url, &token, "send_money", &json!({ "to": "Ada", "amount": 50 }));
    let waiting = test.succeed(&["approvals", "list", "--json"]).json();
    let id = waiting[0]["id"].as_str().unwrap();
    let script = test.write("quiet.sh", "");
    for command in [
        &["approvals", "show", id][..],
        &["server", "add", "x", "--no-connect", "--", "sh", &script, "--token", "abcdefgh"],
        &["server", "list"],
        &["server", "tools", "x"],
        &["audit", "verify"],
        &["accounts"],
        &["policy", "show", "nothing"],
        &["policy", "simulate", "--grant", "alice", "--policy", "demo"],
        &["grant", "create", "bob", "--server", "x"],
        &["doctor"],
        &["sync", "whoop"],
        &["service", "status"],
    ] {
        let said = at_home(&test, command).all_output();
        for (at, _) in said.match_indices("`tollgate ") {
            let rest = &said[at..];
            assert!(rest.starts_with("`tollgate --home "), "{command:?}: {said}");
        }
    }
    let home = test.home().display().to_string();
    let shown = at_home(&test, &["approvals", "show", id]).stderr;
    assert!(shown.contains(&format!("`tollgate --home {home} approvals approve {id}`")), "{shown}");
    // A home from the environment needs no option.
    assert!(!test.succeed(&["approvals", "show", id]).stderr.contains("--home"));
}

#[test]
fn a_standing_approval_is_listed() {
    let test = CliTest::with_demo();
    let token = test.grant("alice");
    test.write("home/tollgate.toml", "[limits]\napproval_hold_seconds = 1\n");
    let up = test.up(&[]);
    let url = format!("{}/demo", up.url());
    let pay = |amount: u32| {
        http::call(&url, &token, "send_money", &json!({ "to": "Ada", "amount": amount }))
    };
    pay(50);
    let id = test.succeed(&["approvals", "list", "--json"]).json()[0]["id"].clone();
    let id = id.as_str().unwrap();
    test.succeed(&["approvals", "approve", id, "--yes", "--for", "10m"]);
    let listed = test.succeed(&["approvals", "list"]);
    assert!(listed.stderr.contains("no approvals pending"), "{}", listed.stderr);
    let heading = "standing approvals (their calls do not wait)\n";
    let (before, after) =
        listed.stdout.split_once(heading).unwrap_or_else(|| panic!("{}", listed.stdout));
    assert!(before.is_empty() && after.contains(id) && after.contains("9m "), "{after}");

    pay(60);
    let listed = test.succeed(&["approvals", "list"]).stdout;
    let (before, after) = listed.split_once(heading).unwrap();
    assert!(before.contains("waiting") && !before.contains(id), "{listed}");
    assert!(after.contains("approved") && after.contains(id), "{listed}");
    let rows = test.succeed(&["approvals", "list", "--json"]).json();
    let states: Vec<&str> =
        rows.as_array().unwrap().iter().map(|row| row["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["waiting", "approved"]);
    test.succeed(&["approvals", "deny", id, "--because", "enough"]);
    let listed = test.succeed(&["approvals", "list"]).stdout;
    assert!(!listed.contains("standing"), "{listed}");
}

/// A typo in the name of a tool makes its rules apply to nothing.
#[test]
fn a_policy_that_names_a_tool_which_no_server_has_draws_a_warning() {
    let test = CliTest::new();
    add_shell(&test, "book", TOOLS);
    let typo = r#"{"version":"1","default":"allow","tools":{"raed":{"action":"deny"},"te*":{}}}"#;
    let file = test.write("typo.json", typo);
    // No grant has it, so it is not known which tools are meant.
    let set = test.succeed(&["policy", "set", "p", &file]);
    assert!(!set.stderr.contains("warning"), "{}", set.stderr);
    let warning =
        "warning: policy `p` names tools that are not on `book`: `raed`, did you mean `read`?";
    let hint = "hint: `tollgate server tools book` lists the names";
    let said = |output: CommandOutput| {
        assert!(
            output.stderr.contains(warning) && output.stderr.contains(hint),
            "{}",
            output.stderr
        );
    };
    said(test.succeed(&["grant", "create", "alice", "--server", "book=p"]));
    said(test.succeed(&["policy", "set", "p", &file]));
    said(test.succeed(&["grant", "policy", "alice", "book", "p"]));
    let doctor = test.run(&["doctor"]).stdout;
    assert!(doctor.contains("look  policies   policy `p` names tools"), "{doctor}");
    let fixed = test.write("fixed.json", &typo.replace("raed", "read"));
    let set = test.succeed(&["policy", "set", "p", &fixed]);
    assert!(!set.stderr.contains("warning"), "{}", set.stderr);
    assert!(!test.run(&["doctor"]).stdout.contains("names tools"));
}

#[test]
fn a_second_demo_on_one_home_is_refused_and_the_first_keeps_running() {
    let test = CliTest::new();
    let up = test.up(&["--demo"]);
    let second = test.run(&["up", "--demo", "--listen", "127.0.0.1:0"]);
    assert_eq!(second.code, 2, "{}", second.all_output());
    let home = format!("{}-demo", test.home().display());
    let expected = format!("a demo runs on `{home}` already: {}", up.url());
    assert!(second.stderr.contains(&expected), "{}", second.stderr);
    test.succeed(&["--home", &home, "sync", "whoop"]);
    up.stop();
    // The next one starts after the first has stopped.
    drop(test.up(&["--demo"]));
}

#[test]
fn a_recommendation_reports_what_it_leaves_out() {
    let test = CliTest::new();
    let script = test.write("leaky.py", include_str!("leaky.py"));
    let command = ["server", "add", "leaky", "--env", "API_KEY=none", "--", "python3", &script];
    let added = test.succeed(&[&command[..], &["stdio"]].concat()).stderr;
    assert!(added.contains("`tollgate policy recommend leaky --out leaky.json`"), "{added}");
    let left_out = "left out: the prompts and resources of `leaky`";
    let plain = test.succeed(&["policy", "recommend", "leaky"]);
    assert!(plain.stderr.contains(left_out) && plain.stderr.contains("--look"), "{}", plain.stderr);
    let looked = test.succeed(&["policy", "recommend", "leaky", "--look"]);
    assert!(!looked.stderr.contains("left out"), "{}", looked.stderr);
    assert!(looked.stdout.contains("\"resources\""), "{}", looked.stdout);
    // A server that declares tools only leaves nothing out.
    add_shell(&test, "book", TOOLS);
    let tools_only = test.succeed(&["policy", "recommend", "book"]).stderr;
    assert!(!tools_only.contains("left out"), "{tools_only}");
}

/// A database server lists its tables as resources, which fails without the database. Its tools are there.
#[test]
fn a_server_whose_resources_cannot_be_listed_is_known_by_its_tools() {
    let test = CliTest::new();
    let declared = SHELL_SERVER.replace(r#""tools":{}"#, r#""tools":{},"resources":{}"#);
    let refused = declared.replace(
        r#"    *'"id":'*)"#,
        r#"    *'"method":"resources/list"'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"connection refused"}}\n' "$id" ;;
    *'"id":'*)"#,
    );
    let (script, tools) = (test.write("server.sh", &refused), test.write("tools.json", TOOLS));
    test.succeed(&["server", "add", "tables", "--", "sh", &script, &tools]);
    let why = "it answered `resources/list` with error -32603";

    let scanned = test.succeed(&["scan", "tables"]).stdout;
    assert!(scanned.contains("tables: 2 tools") && scanned.contains(why), "{scanned}");
    let report = test.succeed(&["scan", "tables", "--json"]).json();
    assert!(report["servers"][0]["unread"][0].as_str().unwrap().contains(why), "{report}");
    let recommended = test.succeed(&["policy", "recommend", "tables", "--look"]);
    assert!(recommended.stderr.contains(why), "{}", recommended.stderr);
    let doctor = test.run(&["doctor"]).stdout;
    let look =
        format!("look  servers    `tables` can be started, but the response is invalid: {why}");
    assert!(doctor.contains(&look), "{doctor}");
    assert!(!doctor.contains("does not answer as an MCP server"), "{doctor}");
}

/// A file server below a dot folder: the recommended rules refuse dot files, but not all of its files.
#[test]
fn a_recommended_policy_leaves_a_server_its_own_dot_folder() {
    let test = CliTest::new();
    let folder = test.path("a-folder-of-some-length/.notes");
    fs::create_dir_all(folder.join("inner")).unwrap();
    let shown = folder.display().to_string();
    let schema = r#"{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}"#;
    let tools =
        format!(r#"[{{"name":"read_file","description":"Read a file.","inputSchema":{schema}}}]"#);
    let (script, tools) = (test.write("server.sh", SHELL_SERVER), test.write("tools.json", &tools));
    let command = ["--", "sh", &script, &tools];
    test.succeed(&[&["server", "add", "whole"], &command[..], &[&shown]].concat());
    let below = ["server", "add", "below", "--cwd", &shown];
    test.succeed(&[&below[..], &command, &["./inner"]].concat());
    for (server, file, expect) in [
        ("whole", "today.md", 0),
        ("whole", ".git/config", 1),
        ("below", "inner/today.md", 0),
        ("below", "today.md", 1),
    ] {
        let policy = test.path(&format!("{server}.json")).display().to_string();
        let _ = fs::remove_file(&policy);
        test.succeed(&["policy", "recommend", server, "--out", &policy]);
        let args = json!({ "path": format!("{shown}/{file}") }).to_string();
        let explained = test.run(&["policy", "explain", &policy, "read_file", "--args", &args]);
        assert_eq!(explained.code, expect, "{server} {file}: {}", explained.all_output());
    }
}
