//! `tollgate policy simulate` and `tollgate policy suggest` over recorded calls.

use insta::assert_snapshot;
use regex::Regex;
use serde_json::{Value, json};

use crate::cli_test::CliTest;
use crate::http;

/// A home in which alice made calls of every kind, and bob another one.
fn set_up() -> CliTest {
    let test = CliTest::with_demo();
    let (alice, bob) = (test.grant("alice"), test.grant("bob"));
    let up = test.up(&[]);
    let url = format!("{}/demo", up.url());
    for _ in 0..3 {
        http::call(&url, &alice, "list_notes", &json!({}));
    }
    http::call(&url, &alice, "add_note", &json!({ "text": "milk" }));
    http::call(&url, &alice, "send_money", &json!({ "to": "Ada", "amount": 5 }));
    http::call(&url, &alice, "send_money", &json!({ "to": "Ada", "amount": 5000 }));
    http::call(&url, &alice, "delete_note", &json!({ "id": 1 }));
    http::call(&url, &alice, "empty_fridge", &json!({}));
    http::call(&url, &bob, "delete_note", &json!({ "id": 1 }));
    http::call(&url, "tg_nobody", "list_notes", &json!({}));
    assert_eq!(up.stop().code, 0);
    test
}

const DRAFT: &str = r#"{
  "version": "1",
  "default": "deny",
  "tools": {
    "list_notes": { "limits": [{ "window": "hour", "max": 2 }] },
    "add_note": { "action": "require_approval" },
    "send_money": { "deny_if": [
      { "conditions": [{ "path": "args.amount", "op": "gt", "value": 100 }] },
      { "conditions": [{ "path": "args.to", "op": "eq", "value": "Eve" }] }
    ] },
    "delete_note": {}
  }
}
"#;

/// Row numbers are not part of the contract.
fn without_rows(told: &str) -> String {
    Regex::new(r"(?m)^(demo .*?) \d+$").unwrap().replace_all(told, "$1 [ROW]").into_owned()
}

fn group<'a>(report: &'a Value, name: &str, change: &str) -> &'a Value {
    let groups = report["groups"].as_array().unwrap();
    let is = |group: &&Value| group["name"] == name && group["change"] == change;
    groups.iter().find(is).unwrap_or_else(|| panic!("no {change} {name} in {report:#}"))
}

#[test]
fn changes_of_a_draft_are_shown_by_tool() {
    let test = set_up();
    test.write("draft.json", DRAFT);
    let told = test.transcript(&["policy", "simulate", "draft.json", "--grant", "alice"]);
    let table = test.run(&["policy", "simulate", "draft.json"]).stdout;
    assert!(table.lines().all(|line| line.chars().count() <= 100), "{table}");
    assert_snapshot!(without_rows(&told));
}

#[test]
fn a_simulation_as_json_is_complete() {
    let test = set_up();
    test.write("draft.json", DRAFT);
    let output = test.run(&["policy", "simulate", "draft.json", "--server", "demo", "--json"]);
    assert_eq!(output.code, 1, "{}", output.all_output());
    let report = output.json();
    // The calls of two grants; not the request without a grant, and no list.
    assert_eq!(report["calls"], 9, "{report:#}");
    let counts =
        json!({ "newly_denied": 1, "newly_allowed": 2, "now_asks": 1, "depends": 2, "same": 3 });
    assert_eq!(report["counts"], counts, "{report:#}");
    let over = group(&report, "list_notes", "newly_denied");
    assert_eq!(over["code"], "rate_limited");
    assert_eq!(over["rules"], json!(["/tools/list_notes/limits/0"]));
    let unsure = group(&report, "send_money", "depends");
    let rules = json!(["/tools/send_money/deny_if/0", "/tools/send_money/deny_if/1"]);
    assert_eq!(unsure["rules"], rules);
    let seq = group(&report, "delete_note", "newly_allowed")["first_seq"].to_string();
    let found = test.succeed(&["audit", "search", "--tool", "delete_note", "--json"]).stdout;
    assert!(found.contains(&format!("\"seq\":{seq},")), "{found}");
}

#[test]
fn a_policy_in_the_gate_is_simulated_by_its_name() {
    let test = set_up();
    test.succeed(&["policy", "set", "open", &test.write("open.json", OPEN)]);
    let output = test.run(&["policy", "simulate", "open", "--grant", "bob", "--json"]);
    assert_eq!(output.code, 1, "{}", output.all_output());
    assert_eq!(output.json()["counts"]["newly_allowed"], 1);
    let story = test.transcripts(&[
        &["policy", "simulate", "nothing-of-this-name"],
        &["policy", "simulate", "open", "--grant", "unknown"],
        &["policy", "simulate", "open", "--since", "2126-01-01"],
    ]);
    assert_snapshot!(story);
}

const OPEN: &str = r#"{ "version": "1", "default": "allow" }"#;

#[test]
fn a_draft_without_changes_exits_with_0() {
    let test = set_up();
    test.write("same.json", r#"{ "version": "1", "default": "deny" }"#);
    let output = test.run(&["policy", "simulate", "same.json", "--grant", "bob"]);
    assert_eq!(output.code, 0, "{}", output.all_output());
    assert!(output.stdout.contains("unchanged: 1 call (1 denied)"), "{}", output.stdout);
}

#[test]
fn rules_on_time_and_tools_are_decided_without_arguments() {
    let test = set_up();
    test.write(
        "facts.json",
        r#"{ "version": "1", "default": "allow", "all_tools": {
             "require": [{ "conditions": [{ "path": "time.hour", "op": "gte", "value": 0 }] }],
             "deny_if": [{ "conditions": [
                 { "path": "tool.category", "op": "eq", "value": "read" },
                 { "path": "caller.client", "op": "eq", "value": "test 1" } ] }] } }"#,
    );
    let report =
        test.run(&["policy", "simulate", "facts.json", "--grant", "alice", "--json"]).json();
    assert_eq!(group(&report, "list_notes", "newly_denied")["calls"], 3);
    assert_eq!(report["counts"]["depends"], 0, "{report:#}");
}

#[test]
fn the_least_policy_allows_what_was_done_and_no_more() {
    let test = set_up();
    let told = test.transcript(&["policy", "suggest", "--grant", "alice"]);
    let day = Regex::new(r"\d{4}-\d\d-\d\d").unwrap();
    assert_snapshot!(day.replace_all(&told, "[DAY]"));
    for format in ["json", "yaml"] {
        let made =
            test.succeed(&["policy", "suggest", "--grant", "alice", "--format", format]).stdout;
        let file = format!("least.{format}");
        test.write(&file, &made);
        test.succeed(&["policy", "check", &file]);
        let report = test.run(&["policy", "simulate", &file, "--grant", "alice", "--json"]).json();
        assert_eq!(report["counts"]["newly_denied"], 0, "{report:#}");
        assert_eq!(report["counts"]["depends"], 0, "{report:#}");
    }
}

#[test]
fn approved_calls_need_approval_in_the_suggestion() {
    let test = CliTest::with_demo();
    let token = test.grant("alice");
    let up = test.up(&[]);
    let url = format!("{}/demo", up.url());
    let arguments = json!({ "to": "Ada", "amount": 50 });
    std::thread::scope(|scope| {
        let call = scope.spawn(|| http::call(&url, &token, "send_money", &arguments));
        let id = loop {
            let waiting = test.succeed(&["approvals", "list", "--json"]).json();
            if let Some(id) = waiting[0]["id"].as_str() {
                break id.to_owned();
            }
        };
        test.succeed(&["approvals", "approve", "--yes", &id]);
        call.join().unwrap();
    });
    assert_eq!(up.stop().code, 0);
    let made = test.succeed(&["policy", "suggest", "--grant", "alice", "--json"]).json();
    let entry = &made["policy"]["tools"]["send_money"];
    assert_eq!(entry["action"], "require_approval", "{made:#}");
    test.write("least.json", &made["policy"].to_string());
    let output = test.run(&["policy", "simulate", "least.json", "--grant", "alice"]);
    assert_eq!(output.code, 0, "{}", output.all_output());
    assert!(output.stdout.contains("(1 asked)"), "{}", output.stdout);
}

#[test]
fn hidden_tools_stay_hidden() {
    let test = set_up();
    test.write(
        "hiding.json",
        r#"{ "version": "1", "default": "allow", "hide": ["delete_*", "add_note"] }"#,
    );
    test.succeed(&["policy", "set", "demo", "hiding.json"]);
    let made = test.succeed(&["policy", "suggest", "--grant", "alice", "--json"]).json();
    assert_eq!(made["policy"]["hide"], json!(["add_note", "delete_note"]), "{made:#}");
    assert_eq!(made["left_out"][0]["name"], "add_note", "{made:#}");
}

#[test]
fn a_grant_that_did_nothing_gets_no_policy() {
    let test = set_up();
    let story = test.transcripts(&[
        &["policy", "suggest", "--grant", "bob"],
        &["policy", "suggest", "--grant", "alice", "--server", "files"],
        &["policy", "suggest", "--grant", "bob", "--json"],
    ]);
    assert_snapshot!(story);
}
