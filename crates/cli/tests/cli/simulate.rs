//! `tollgate policy simulate` and `tollgate policy suggest`: what was recorded, judged again.

use insta::assert_snapshot;
use regex::Regex;
use serde_json::{Value, json};

use crate::http;
use crate::stage::Stage;

/// A stage on which alice did a little of everything, and bob something else.
fn stage() -> Stage {
    let stage = Stage::with_demo();
    let (alice, bob) = (stage.grant("alice"), stage.grant("bob"));
    let up = stage.up(&[]);
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
    stage
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

/// Which rows the calls have is the gate's business.
fn without_rows(told: &str) -> String {
    Regex::new(r"(?m)^(demo .*?) \d+$").unwrap().replace_all(told, "$1 [ROW]").into_owned()
}

fn group<'a>(report: &'a Value, name: &str, change: &str) -> &'a Value {
    let groups = report["groups"].as_array().unwrap();
    let is = |group: &&Value| group["name"] == name && group["change"] == change;
    groups.iter().find(is).unwrap_or_else(|| panic!("no {change} {name} in {report:#}"))
}

#[test]
fn what_a_draft_would_have_changed_is_shown_by_tool() {
    let stage = stage();
    stage.write("draft.json", DRAFT);
    let told = stage.told(&["policy", "simulate", "draft.json", "--grant", "alice"]);
    let table = stage.run(&["policy", "simulate", "draft.json"]).stdout;
    assert!(table.lines().all(|line| line.chars().count() <= 100), "{table}");
    assert_snapshot!(without_rows(&told));
}

#[test]
fn a_simulation_is_data_with_everything_in_it() {
    let stage = stage();
    stage.write("draft.json", DRAFT);
    let said = stage.run(&["policy", "simulate", "draft.json", "--server", "demo", "--json"]);
    assert_eq!(said.code, 1, "{}", said.everything());
    let report = said.json();
    // Two grants' calls; not the one that was turned away at the door, and no list.
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
    let found = stage.fine(&["audit", "search", "--tool", "delete_note", "--json"]).stdout;
    assert!(found.contains(&format!("\"seq\":{seq},")), "{found}");
}

#[test]
fn a_policy_in_the_gate_is_tried_by_its_name() {
    let stage = stage();
    stage.fine(&["policy", "set", "open", &stage.write("open.json", OPEN)]);
    let said = stage.run(&["policy", "simulate", "open", "--grant", "bob", "--json"]);
    assert_eq!(said.code, 1, "{}", said.everything());
    assert_eq!(said.json()["counts"]["newly_allowed"], 1);
    let story = stage.story(&[
        &["policy", "simulate", "nothing-of-this-name"],
        &["policy", "simulate", "open", "--grant", "nobody"],
        &["policy", "simulate", "open", "--since", "2126-01-01"],
    ]);
    assert_snapshot!(story);
}

const OPEN: &str = r#"{ "version": "1", "default": "allow" }"#;

#[test]
fn a_draft_that_changes_nothing_is_a_yes() {
    let stage = stage();
    stage.write("same.json", r#"{ "version": "1", "default": "deny" }"#);
    let said = stage.run(&["policy", "simulate", "same.json", "--grant", "bob"]);
    assert_eq!(said.code, 0, "{}", said.everything());
    assert!(said.stdout.contains("stays as it was: 1 call (1 denied)"), "{}", said.stdout);
}

#[test]
fn rules_on_time_and_tools_are_decided_without_arguments() {
    let stage = stage();
    stage.write(
        "facts.json",
        r#"{ "version": "1", "default": "allow", "all_tools": {
             "require": [{ "conditions": [{ "path": "time.hour", "op": "gte", "value": 0 }] }],
             "deny_if": [{ "conditions": [
                 { "path": "tool.category", "op": "eq", "value": "read" },
                 { "path": "caller.client", "op": "eq", "value": "test 1" } ] }] } }"#,
    );
    let report =
        stage.run(&["policy", "simulate", "facts.json", "--grant", "alice", "--json"]).json();
    assert_eq!(group(&report, "list_notes", "newly_denied")["calls"], 3);
    assert_eq!(report["counts"]["depends"], 0, "{report:#}");
}

#[test]
fn the_least_policy_allows_what_was_done_and_no_more() {
    let stage = stage();
    let told = stage.told(&["policy", "suggest", "--grant", "alice"]);
    let day = Regex::new(r"\d{4}-\d\d-\d\d").unwrap();
    assert_snapshot!(day.replace_all(&told, "[DAY]"));
    for format in ["json", "yaml"] {
        let made =
            stage.fine(&["policy", "suggest", "--grant", "alice", "--format", format]).stdout;
        let file = format!("least.{format}");
        stage.write(&file, &made);
        stage.fine(&["policy", "check", &file]);
        let report = stage.run(&["policy", "simulate", &file, "--grant", "alice", "--json"]).json();
        assert_eq!(report["counts"]["newly_denied"], 0, "{report:#}");
        assert_eq!(report["counts"]["depends"], 0, "{report:#}");
    }
}

#[test]
fn what_a_human_approved_is_asked_for_again() {
    let stage = Stage::with_demo();
    let token = stage.grant("alice");
    let up = stage.up(&[]);
    let url = format!("{}/demo", up.url());
    let arguments = json!({ "to": "Ada", "amount": 50 });
    std::thread::scope(|scope| {
        let call = scope.spawn(|| http::call(&url, &token, "send_money", &arguments));
        let id = loop {
            let waiting = stage.fine(&["approvals", "list", "--json"]).json();
            if let Some(id) = waiting[0]["id"].as_str() {
                break id.to_owned();
            }
        };
        stage.fine(&["approvals", "approve", "--yes", &id]);
        call.join().unwrap();
    });
    assert_eq!(up.stop().code, 0);
    let made = stage.fine(&["policy", "suggest", "--grant", "alice", "--json"]).json();
    let entry = &made["policy"]["tools"]["send_money"];
    assert_eq!(entry["action"], "require_approval", "{made:#}");
    stage.write("least.json", &made["policy"].to_string());
    let said = stage.run(&["policy", "simulate", "least.json", "--grant", "alice"]);
    assert_eq!(said.code, 0, "{}", said.everything());
    assert!(said.stdout.contains("(1 asked)"), "{}", said.stdout);
}

#[test]
fn hidden_tools_stay_hidden() {
    let stage = stage();
    stage.write(
        "hiding.json",
        r#"{ "version": "1", "default": "allow", "hide": ["delete_*", "add_note"] }"#,
    );
    stage.fine(&["policy", "set", "demo", "hiding.json"]);
    let made = stage.fine(&["policy", "suggest", "--grant", "alice", "--json"]).json();
    assert_eq!(made["policy"]["hide"], json!(["add_note", "delete_note"]), "{made:#}");
    assert_eq!(made["left_out"][0]["name"], "add_note", "{made:#}");
}

#[test]
fn a_grant_that_did_nothing_gets_no_policy() {
    let stage = stage();
    let story = stage.story(&[
        &["policy", "suggest", "--grant", "bob"],
        &["policy", "suggest", "--grant", "alice", "--server", "files"],
        &["policy", "suggest", "--grant", "bob", "--json"],
    ]);
    assert_snapshot!(story);
}
