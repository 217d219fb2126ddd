//! A gate that runs: decisions, approvals, changes while it runs, and its end.

use std::time::{Duration, Instant};

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::cli_test::{CliTest, Up};
use crate::http;

/// The id of the only pending approval, as soon as there is one.
pub(crate) fn wait_for_approval(test: &CliTest) -> String {
    let mut id = String::new();
    eventually("an approval waits", || {
        let waiting = test.succeed(&["approvals", "list", "--json"]).json();
        waiting[0]["id"].as_str().unwrap_or_default().clone_into(&mut id);
        !id.is_empty()
    });
    id
}

/// Polls until it is so; a gate notices changes a few times a second.
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(10), "not within 10 s: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn limits_hold_and_report_when_to_retry() {
    let test = CliTest::with_demo();
    let token = test.grant("alice");
    let up = test.up(&[]);
    let url = format!("{}/demo", up.url());
    for n in 1..=5 {
        let answer = http::call(&url, &token, "add_note", &json!({ "text": n.to_string() }));
        assert_eq!(answer.json()["result"]["isError"], false, "{}", answer.body);
    }
    let answer = http::call(&url, &token, "add_note", &json!({ "text": "6" })).json();
    let denial = &answer["result"]["_meta"]["tollgate/denial"];
    assert_eq!(denial["code"], "rate_limited");
    assert!(denial["retry_after_seconds"].as_u64().is_some_and(|wait| (1..=60).contains(&wait)));
}

#[test]
fn a_parked_call_is_shown_completely_and_runs_when_approved() {
    let test = CliTest::with_demo();
    let token = test.grant("alice");
    let up = test.up(&[]);
    let url = format!("{}/demo", up.url());
    let ask = move || {
        http::call(&url, &token, "send_money", &json!({ "to": "Ada \u{1b}[2J", "amount": 50.10 }))
    };
    let waiting = std::thread::spawn(ask.clone());
    let id = wait_for_approval(&test);
    let mut story = test.transcripts(&[&["approvals", "list"], &["approvals", "show", &id]]);
    story = regex::Regex::new(r"\d+m \d+s").unwrap().replace_all(&story, "[LEFT]").into_owned();
    assert_snapshot!(story);
    let approved = test.transcripts(&[&["approvals", "approve", "--yes", &id]]);
    // The waiting call uses the approval as soon as it can; the second decision comes after that.
    let answer = waiting.join().unwrap();
    let again = test.transcripts(&[
        &["approvals", "approve", "--yes", &id],
        &["approvals", "approve", "--yes", "ap-999-000000"],
    ]);
    assert_snapshot!("an_approval_is_answered_once", format!("{approved}\n{again}"));
    assert_eq!(answer.json()["result"]["structuredContent"]["sent"], json!(50.1));

    let waiting = std::thread::spawn(ask.clone());
    let id = wait_for_approval(&test);
    let output = test.succeed(&["approvals", "approve", "--yes", &id, "--for", "10m"]).stdout;
    assert_eq!(
        output,
        "approved for 10m: send_money on `demo` for `alice`, with these arguments\n"
    );
    assert_eq!(waiting.join().unwrap().json()["result"]["isError"], false);
    assert_eq!(ask().json()["result"]["isError"], false, "the same call goes through again");
    test.succeed(&["approvals", "deny", &id, "--because", "not today"]);
    let denied = ask();
    assert!(denied.text().contains("not today"), "{}", denied.body);
    assert_eq!(denied.json()["result"]["_meta"]["tollgate/denial"]["code"], "approval_denied");
}

#[test]
fn a_waiting_call_is_not_denied_and_its_agent_gets_no_command() {
    let test = CliTest::with_demo();
    test.write("home/tollgate.toml", "[limits]\napproval_hold_seconds = 1\n");
    let token = test.grant("alice");
    let up = test.up(&[]);
    let url = format!("{}/demo", up.url());
    let waits = http::call(&url, &token, "send_money", &json!({ "to": "Ada", "amount": 50 }));
    let text = waits.text();
    assert!(text.starts_with("[WAITING FOR APPROVAL] "), "{text}");
    assert!(text.contains("to decide (approval `ap-") && text.contains(" min "), "{text}");
    assert!(text.contains("has not run") && text.contains("send the same call again"), "{text}");
    for word in ["DENIED", "tollgate", "approvals", "--yes"] {
        assert!(!waits.body.replace("tollgate/denial", "").contains(word), "{}", waits.body);
    }
    let denial = &waits.json()["result"]["_meta"]["tollgate/denial"];
    assert_eq!(denial["code"], "approval_pending");
    assert!(denial["approval_id"].as_str().is_some_and(|id| id.starts_with("ap-")), "{denial}");
}

#[test]
fn an_approval_for_any_arguments_covers_the_tool_and_is_shown_as_such() {
    let test = CliTest::with_demo();
    test.write("home/tollgate.toml", "[limits]\napproval_hold_seconds = 1\n");
    let (alice, bob) = (test.grant("alice"), test.grant("bob"));
    let up = test.up(&[]);
    let url = format!("{}/demo", up.url());
    let pay = |token: &str, amount: u32| {
        http::call(&url, token, "send_money", &json!({ "to": "Ada", "amount": amount })).json()
    };
    let is_error = |answer: &serde_json::Value| answer["result"]["isError"].as_bool().unwrap();
    assert!(is_error(&pay(&alice, 50)) && is_error(&pay(&alice, 51)));
    let id = wait_for_approval(&test);
    let alone = test.run(&["approvals", "approve", &id, "--yes", "--any-arguments"]);
    assert_eq!(alone.code, 2, "it goes with --for: {}", alone.stderr);
    let output =
        test.succeed(&["approvals", "approve", &id, "--yes", "--for", "10m", "--any-arguments"]);
    assert_eq!(
        output.stdout,
        "approved for 10m: send_money on `demo` for `alice`, with any arguments\n"
    );
    for amount in [50, 51, 52] {
        assert!(!is_error(&pay(&alice, amount)), "{amount}");
    }
    assert!(is_error(&pay(&bob, 52)), "another grant is not covered");
    let list = test.succeed(&["approvals", "list", "--all"]).stdout;
    assert!(list.contains("approved, any arguments"), "{list}");
    assert!(test.succeed(&["approvals", "show", &id]).stdout.contains("approved, any arguments"));
    assert_eq!(test.succeed(&["approvals", "show", &id, "--json"]).json()["any_arguments"], true);
    let audit = test.succeed(&["audit", "search", "approval_decided"]).stdout;
    assert!(audit.contains("any arguments, for 600 s"), "{audit}");
    test.succeed(&["approvals", "deny", &id, "--because", "enough"]);
    for amount in [50, 51, 53] {
        assert!(is_error(&pay(&alice, amount)), "{amount}");
    }
}

#[test]
fn a_program_watches_and_decides_with_lines() {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::process::Stdio;
    let test = CliTest::with_demo();
    let token = test.grant("alice");
    let up = test.up(&[]);
    let url = format!("{}/demo", up.url());
    let mut watch = test.command(&["approvals", "watch", "--json", "--yes"]);
    let mut watch = watch.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut says = watch.stdin.take().unwrap();
    let mut hears = BufReader::new(watch.stdout.take().unwrap()).lines();
    let call = std::thread::spawn(move || {
        http::call(&url, &token, "send_money", &json!({ "to": "Ada", "amount": 50 }))
    });
    let mut next =
        || -> serde_json::Value { serde_json::from_str(&hears.next().unwrap().unwrap()).unwrap() };
    let waiting = next();
    assert_eq!((&waiting["event"], &waiting["subject"]), (&json!("waiting"), &json!("send_money")));
    writeln!(says, "y {}", waiting["id"].as_str().unwrap()).unwrap();
    // The call may have used the approval before the next poll.
    let decided = next();
    assert!(["approved", "used"].contains(&decided["event"].as_str().unwrap()), "{decided}");
    assert_eq!(decided["id"], waiting["id"]);
    assert_eq!(call.join().unwrap().json()["result"]["isError"], false);
    writeln!(says, "q").unwrap();
    assert!(watch.wait().unwrap().success());
}

#[test]
fn status_distinguishes_a_running_gate_from_a_dead_one() {
    let test = CliTest::with_demo();
    test.grant("alice");
    let up = test.up(&[]);
    let status = test.succeed(&["status", "--json"]).json();
    assert_eq!(status["running"], true);
    assert_eq!(status["gates"][0]["pid"], up.pid());
    assert_eq!(status["gates"][0]["url"], up.url());
    assert_snapshot!(test.transcript(&["status", "-n", "3"]));
    let bob = test.succeed(&["grant", "create", "bob", "--server", "demo=demo", "--json"]).json();
    assert_eq!(
        bob["url"],
        format!("{}/demo", up.url()),
        "what to paste leads to the gate that runs"
    );
    test.succeed(&["grant", "revoke", "bob"]);
    drop(up); // killed, not stopped
    let output = test.run(&["status", "--json"]);
    assert_eq!(output.code, 1);
    assert_eq!(output.json()["running"], false);
    assert_eq!(output.json()["grants"], json!({ "active": 1, "expired": 0, "revoked": 1 }));
}

#[test]
fn changes_of_the_owner_apply_without_a_restart() {
    let test = CliTest::with_demo();
    let token = test.grant("alice");
    let up = test.up(&[]);
    let url = format!("{}/demo", up.url());
    let list = |token: &str| http::call(&url, token, "list_notes", &json!({}));
    assert_eq!(list(&token).status, 200);
    let closed = test.write("p.json", r#"{"version":"1","default":"deny"}"#);
    let open = test.write("o.json", r#"{"version":"1","default":"allow"}"#);
    // The very next call after a command is judged by the change.
    for round in 0..4 {
        test.succeed(&["policy", "set", "demo", &closed]);
        assert!(list(&token).text().starts_with("[POLICY DENIED]"), "round {round}");
        test.succeed(&["policy", "set", "demo", &open]);
        assert!(!list(&token).text().starts_with("[POLICY DENIED]"), "round {round}");
        let label = format!("bob-{round}");
        let new = test.grant(&label);
        assert_eq!(list(&new).status, 200, "a new grant, round {round}");
        test.succeed(&["grant", "revoke", &label]);
        assert_eq!(list(&new).status, 401, "a revoked grant, round {round}");
    }
}

#[test]
fn the_settings_file_is_reloaded_and_a_broken_one_changes_nothing() {
    let test = CliTest::with_demo();
    let made = test.succeed(&["grant", "token", "--json"]).json();
    let (token, hash) = (made["token"].as_str().unwrap(), made["token_sha256"].as_str().unwrap());
    let up = test.up(&[]);
    let url = format!("{}/more", up.url());
    let list = || http::call(&url, token, "list_notes", &json!({}));
    assert_eq!(list().status, 401);
    let settings = format!(
        "[servers.more]\nbuiltin = \"demo\"\n[policies.open]\nfile = \"open.json\"\n\
         [grants.bob]\ntoken_sha256 = \"{hash}\"\nservers = {{ more = \"open\" }}\n"
    );
    let put = |name: &str, text: &str| std::fs::write(test.home().join(name), text).unwrap();
    put("open.json", r#"{"version":"1","default":"allow"}"#);
    put("tollgate.toml", &settings);
    eventually("the grant of the file works", || list().status == 200);
    put("tollgate.toml", &settings.replace("builtin", "bulitin"));
    std::thread::sleep(Duration::from_millis(600));
    assert_eq!(list().status, 200, "a broken file leaves the current settings");
    let status = test.succeed(&["status", "--json"]).json();
    let broken = status["settings_error"].as_str().unwrap_or_default();
    assert!(status["running"] == true && broken.contains("tollgate.toml`: line "), "{status}");
    put("tollgate.toml", &settings);
    put("open.json", r#"{"version":"1","default":"deny"}"#);
    eventually("a changed policy file counts", || list().text().starts_with("[POLICY DENIED]"));
    let output = up.stop();
    assert!(output.stderr.contains("still using the previous settings"), "{}", output.stderr);
}

#[test]
fn a_stop_settles_in_flight_calls_and_leaves_an_intact_log() {
    let test = CliTest::with_demo();
    let token = test.grant("alice");
    let up = test.up(&[]);
    let url = format!("{}/demo", up.url());
    let waiting = std::thread::spawn(move || {
        std::panic::catch_unwind(|| {
            http::call(&url, &token, "send_money", &json!({ "to": "Ada", "amount": 50 }))
        })
    });
    wait_for_approval(&test);
    let begin = Instant::now();
    let output = up.stop();
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(begin.elapsed() < Duration::from_secs(6), "a stop takes 5 s at most");
    let _ = waiting.join();
    assert_eq!(test.run(&["audit", "verify"]).code, 0);
    let open = test.succeed(&["audit", "search", "--decision", "admitted", "--json"]).stdout;
    for line in open.lines() {
        let entry: Value = serde_json::from_str(line).unwrap();
        assert_ne!(entry["outcome"], Value::Null, "{entry}");
    }
}

#[test]
fn a_second_gate_on_the_same_port_reports_the_conflict() {
    let test = CliTest::with_demo();
    let up = test.up(&[]);
    let address =
        up.url().strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap().to_owned();
    assert_snapshot!(test.transcript(&["up", "--listen", &address]));
}

#[test]
fn a_public_address_needs_tls() {
    let test = CliTest::new();
    assert_snapshot!(test.transcript(&["up", "--listen", "0.0.0.0:0"]));
}

#[test]
fn a_limit_of_a_grant_ends_with_it_and_stays_with_a_new_token() {
    let test = CliTest::with_demo();
    let note = |up: &Up, token: &str| {
        let url = format!("{}/demo", up.url());
        let answer = http::call(&url, token, "add_note", &json!({ "text": "milk" }));
        !answer.text().contains("five notes a minute")
    };
    let up = test.up(&[]);
    let token = test.grant("alice");
    let passed: Vec<bool> = (0..6).map(|_| note(&up, &token)).collect();
    assert_eq!(passed, [true, true, true, true, true, false]);
    let rotated = test.succeed(&["grant", "rotate", "alice", "--json"]).json();
    assert!(!note(&up, rotated["token"].as_str().unwrap()), "a new token is no new grant");
    drop(up);
    let up = test.up(&[]);
    assert!(!note(&up, &token), "a restart is none either");
    test.succeed(&["grant", "revoke", "alice"]);
    let token = test.grant("alice");
    let passed: Vec<bool> = (0..6).map(|_| note(&up, &token)).collect();
    assert_eq!(passed, [true, true, true, true, true, false], "a new grant counts from nothing");
}
