//! Events, resources, exports, sizes, and the table itself.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{code, fixture, ids};
use crate::Reach;
use crate::whoop::CONNECTOR;
use crate::whoop::kind::Kind;
use crate::whoop::mirror_writer::store_page;

fn keys(answer: &Value) -> Vec<String> {
    let events = answer["events"].as_array().unwrap();
    events.iter().map(|e| format!("{}|{}|{}", e["updated_at"], e["resource"], e["id"])).collect()
}

#[tokio::test]
async fn events_come_once_each_in_order_page_by_page() {
    let fixture = fixture(15);
    fixture.call("sync_whoop", json!({})).await;
    fixture.clock.advance(1_000_000);
    let whole =
        fixture.call("get_whoop_events", json!({"since": "2010-01-01", "limit": 5000})).await;
    assert_eq!(whole["next_cursor"], Value::Null);
    assert_eq!(whole["count"].as_u64().unwrap(), u64::try_from(keys(&whole).len()).unwrap());
    let mut seen = Vec::new();
    let mut since = "2010-01-01".to_owned();
    loop {
        let page = fixture.call("get_whoop_events", json!({"since": since, "limit": 7})).await;
        assert_eq!(page["since"], since.as_str());
        seen.extend(keys(&page));
        match page["next_cursor"].as_str() {
            Some(next) => since = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(seen, keys(&whole));
}

#[tokio::test]
async fn a_sync_in_between_loses_no_event_and_repeats_none() {
    let fixture = fixture(40);
    fixture.call("sync_whoop", json!({"since": "2026-04-08"})).await;
    fixture.clock.advance(1_000_000);
    let first = fixture
        .call(
            "get_whoop_events",
            json!({"since": "2010-01-01", "limit": 5, "resources": ["sleeps", "cycles"]}),
        )
        .await;
    let mut seen = keys(&first);
    let mut since = first["next_cursor"].as_str().unwrap().to_owned();
    fixture.call("sync_whoop", json!({"since": "2026-03-10"})).await;
    fixture.clock.advance(1_000_000);
    loop {
        let page = fixture
            .call(
                "get_whoop_events",
                json!({"since": since, "limit": 5, "resources": ["sleeps", "cycles"]}),
            )
            .await;
        seen.extend(keys(&page));
        match page["next_cursor"].as_str() {
            Some(next) => since = next.to_owned(),
            None => break,
        }
    }
    let whole = fixture
        .call(
            "get_whoop_events",
            json!({"since": "2010-01-01", "limit": 5000, "resources": ["sleeps", "cycles"]}),
        )
        .await;
    let all: BTreeSet<String> = keys(&whole).into_iter().collect();
    assert_eq!(seen.len(), all.len(), "an event came twice or never");
    assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), all);
}

#[tokio::test]
async fn event_arguments_are_checked_in_order() {
    let fixture = fixture(3);
    for (arguments, word) in [
        (json!({"since": "x", "until": "y", "limit": 0, "resources": []}), "since"),
        (json!({"since": "2026-04-10", "until": "y", "limit": 0, "resources": []}), "until"),
        (json!({"since": "2026-04-10", "until": "2026-04-10", "limit": 0}), "later"),
        (json!({"since": "2026-04-10", "limit": 0, "resources": []}), "limit"),
        (json!({"since": "2026-04-10", "limit": 5001}), "limit"),
        (json!({"since": "2026-04-10", "resources": []}), "resources"),
        (json!({"since": "2026-04-10", "resources": ["steps"]}), "resource"),
    ] {
        let answer = fixture.call("get_whoop_events", arguments.clone()).await;
        assert_eq!(code(&answer), "VALIDATION_ERROR", "{arguments}");
        assert_eq!(answer["error"]["endpoint"], "get_whoop_events");
        assert!(answer["error"]["message"].as_str().unwrap().contains(word), "{answer}");
    }
    let missing = fixture.call("get_whoop_events", json!({})).await;
    assert_eq!(missing["failed"], "invalid_arguments");
}

/// 25,000 tokens: no tokenizer makes one token of less than two bytes of such records on average.
const ANSWER_BYTES_MAX: usize = 50_000;

#[tokio::test]
async fn an_answer_fits_an_agent_unless_more_is_asked_for() {
    let fixture = fixture(400);
    let long = fixture.call("list_whoop_sleeps", json!({"start": "2025-06-01"})).await;
    assert_eq!(long["truncated"], true);
    assert!(long.to_string().len() <= ANSWER_BYTES_MAX, "{}", long.to_string().len());
    assert!(long["hint"].as_str().unwrap().contains("end="), "{}", long["hint"]);
    let asked =
        fixture.call("list_whoop_sleeps", json!({"start": "2025-06-01", "limit": 150})).await;
    assert_eq!(ids(&asked).len(), 150);
    assert!(asked.get("truncated").is_none());
    fixture.clock.advance(1_000_000);
    let events = fixture.call("get_whoop_events", json!({"since": "2010-01-01"})).await;
    assert!(events.to_string().len() <= ANSWER_BYTES_MAX, "{}", events.to_string().len());
    assert_eq!((&events["truncated"], events["next_cursor"].is_string()), (&json!(true), true));
}

#[tokio::test]
async fn resources_show_the_mirror_and_fetch_nothing() {
    let fixture = fixture(10);
    let empty = fixture.read("whoop://db/profile").await.unwrap();
    assert_eq!(code(&empty), "NOT_FOUND");
    assert!(empty["error"].get("endpoint").is_none());
    fixture.call("sync_whoop", json!({})).await;
    let before = fixture.requests();
    assert!(fixture.read("whoop://db/profile").await.unwrap()["email"].is_string());
    let cycles = fixture.read("whoop://db/cycles/2026-04-08/2026-04-10").await.unwrap();
    assert!(cycles.as_array().unwrap().len() >= 2, "{cycles}");
    let runs = fixture.read("whoop://db/sync_runs/6").await.unwrap();
    assert_eq!(runs.as_array().unwrap().len(), 6);
    assert_eq!(runs[0]["status"], "success");
    for refused in [
        "whoop://db/cycles/2026-4-8/2026-04-10",
        "whoop://db/cycles/2026-02-30/2026-04-10",
        "whoop://db/sync_runs/0",
        "whoop://db/sync_runs/501",
        "whoop://db/sync_runs/x",
    ] {
        assert_eq!(code(&fixture.read(refused).await.unwrap()), "VALIDATION_ERROR", "{refused}");
    }
    let events = fixture.read("whoop://db/events/2026-04-01T00:00:00Z").await.unwrap();
    assert_eq!(events["status"], "success");
    let bad = fixture.read("whoop://db/events/nonsense").await.unwrap();
    assert_eq!(bad["error"]["endpoint"], "get_whoop_events");
    assert!(fixture.read("whoop://db/steps").await.is_none());
    assert_eq!(fixture.requests(), before);
}

#[tokio::test]
async fn exports_check_their_arguments_and_stay_in_their_folder() {
    let mut fixture = fixture(10);
    let ask = |kind: &str, format: &str, path: &str| json!({"kind": kind, "format": format, "path": path});
    let empty = fixture.call("export_whoop", ask("cycles", "csv", "c.csv")).await;
    assert_eq!(
        (code(&empty), &empty["error"]["endpoint"]),
        ("CACHE_EMPTY", &json!("export_whoop"))
    );
    fixture.call("sync_whoop", json!({})).await;
    for (kind, format) in [("steps", "csv"), ("profile", "csv"), ("cycles", "xml")] {
        assert_eq!(
            code(&fixture.call("export_whoop", ask(kind, format, "x")).await),
            "VALIDATION_ERROR"
        );
    }
    let done = fixture.call("export_whoop", ask("all", "jsonl", "out")).await;
    assert_eq!(done["status"], "success", "{done}");
    assert_eq!(done["files"].as_array().unwrap().len(), 6);
    assert_eq!(done["range"], json!({"start": null, "end": null}));
    assert!(fixture.ctx.exports.join("out/body_measurements.jsonl").exists());
    assert_eq!(
        code(&fixture.call("export_whoop", ask("all", "jsonl", "out")).await),
        "FILE_EXISTS"
    );
    std::fs::write(fixture.ctx.exports.join("taken"), "mine").unwrap();
    let mut onto_a_file = ask("all", "jsonl", "taken");
    assert_eq!(code(&fixture.call("export_whoop", onto_a_file.clone()).await), "FILE_EXISTS");
    onto_a_file["overwrite"] = json!(true);
    assert_eq!(code(&fixture.call("export_whoop", onto_a_file).await), "EXPORT_ERROR");
    assert_eq!(std::fs::read(fixture.ctx.exports.join("taken")).unwrap(), b"mine");
    fixture.ctx.tilde = fixture.ctx.exports.parent().map(Into::into);
    let path = "~/exports/tilde.csv";
    let tilde = fixture.call("export_whoop", ask("cycles", "csv", path)).await;
    assert_eq!(tilde["files"][0]["path"], path, "{tilde}");
    assert!(fixture.ctx.exports.join("tilde.csv").exists());
    let outside = fixture.call("export_whoop", ask("cycles", "csv", "~/tilde.csv")).await;
    assert_eq!(code(&outside), "EXPORT_ERROR", "{outside}");
    let outside = fixture.call("export_whoop", ask("cycles", "csv", "../../x.csv")).await;
    assert_eq!(code(&outside), "EXPORT_ERROR", "{outside}");
}

#[tokio::test]
async fn csv_can_be_asked_for_that_no_spreadsheet_takes_for_formulas() {
    let fixture = fixture(1);
    let workout = json!({
        "id": "w1", "updated_at": "2026-04-10T00:00:00.000Z", "start": "2026-04-09T23:00:00.000Z",
        "sport_name": "=HYPERLINK(\"http://example.invalid\")",
    });
    store_page(&fixture.ctx, Kind::Workouts, &[workout.to_string()]).unwrap();
    for (format, safe, expected) in [
        ("csv", json!(null), ",\"=HYPERLINK"),
        ("csv", json!(false), ",\"=HYPERLINK"),
        ("csv", json!(true), ",\"'=HYPERLINK"),
        ("csv", json!("true"), ",\"'=HYPERLINK"),
        // As on the command line, it does not apply to the other formats.
        ("jsonl", json!(true), ": \"=HYPERLINK"),
    ] {
        let mut ask = json!({"kind": "workouts", "format": format, "path": "w", "overwrite": true});
        if !safe.is_null() {
            ask["safe"] = safe.clone();
        }
        let done = fixture.call("export_whoop", ask).await;
        assert_eq!(done["status"], "success", "{done}");
        let text = std::fs::read_to_string(fixture.ctx.exports.join("w")).unwrap();
        assert!(text.contains(expected), "{format} {safe}: {text}");
    }
    let unread = json!({"kind": "workouts", "format": "csv", "path": "w", "safe": "perhaps"});
    assert_eq!(fixture.call("export_whoop", unread).await["failed"], "invalid_arguments");
}

#[tokio::test]
async fn the_bounds_of_an_export_may_be_words() {
    let fixture = fixture(40);
    fixture.call("sync_whoop", json!({})).await;
    let count = async |path: &str, start: &str, end: &str| {
        let ask =
            json!({"kind": "cycles", "format": "csv", "path": path, "start": start, "end": end});
        let done = fixture.call("export_whoop", ask).await;
        assert_eq!(done["range"], json!({"start": start, "end": end}), "{done}");
        done["files"][0]["records"].clone()
    };
    // Words are the owner's days, as in lists; dates are UTC days.
    for (path, words) in [("a.csv", "yesterday"), ("b.csv", "last month")] {
        let list = json!({"start": words, "end": words, "limit": 100});
        let list = fixture.call("list_whoop_cycles", list).await;
        assert_eq!(count(path, words, words).await, json!(ids(&list).len()), "{words}");
    }
    let list = json!({"start": "2026-04-14", "end": "2026-04-15"});
    let list = fixture.call("list_whoop_cycles", list).await;
    assert_eq!(count("c.csv", "2026-04-14", "2026-04-14").await, json!(ids(&list).len()));
    for start in ["2026-04-14T00:00:00Z", "soon", ""] {
        let ask = json!({"kind": "cycles", "format": "csv", "path": "e.csv", "start": start});
        assert_eq!(code(&fixture.call("export_whoop", ask).await), "VALIDATION_ERROR", "{start}");
    }
}

#[test]
fn tools_that_may_contact_whoop_are_marked() {
    let here: Vec<&str> = CONNECTOR
        .tools
        .iter()
        .filter(|tool| tool.reach == Reach::Here)
        .map(|tool| tool.name)
        .collect();
    assert_eq!(
        here,
        [
            "get_whoop_auth_status",
            "get_whoop_events",
            "export_whoop",
            "get_whoop_today",
            "get_whoop_review",
            "get_whoop_comparison",
            "get_whoop_trend",
            "get_whoop_baseline",
            "get_whoop_drivers",
            "get_whoop_relation",
            "get_whoop_training_load",
            "get_whoop_sleep_report",
            "get_whoop_records",
            "get_whoop_aggregates",
            "query_whoop",
            "whoop-get-authorization-url"
        ]
    );
}

#[test]
fn the_table_has_the_documented_tools_and_addresses() {
    let of = |set: &str| CONNECTOR.tools.iter().filter(|tool| tool.set == set).count();
    assert_eq!((of("main"), of("classic")), (29, 16));
    assert_eq!((CONNECTOR.resources.len(), CONNECTOR.templates.len()), (2, 7));
    assert!(CONNECTOR.instructions.len() < 300, "{}", CONNECTOR.instructions.len());
    for tool in CONNECTOR.tools {
        let schema = tool.output_schema();
        assert!(!schema["properties"].as_object().unwrap().is_empty(), "{}", tool.name);
    }
}

#[tokio::test]
async fn an_export_may_go_to_the_folder_that_the_owner_allows_and_nowhere_else() {
    let mut fixture = fixture(5);
    fixture.call("sync_whoop", json!({})).await;
    let home = tempfile::tempdir().unwrap();
    fixture.ctx.tilde = Some(home.path().to_owned());
    let ask = |path: &str| json!({"kind": "cycles", "format": "csv", "path": path});
    let refused = fixture.call("export_whoop", ask("~/whoop/a.csv")).await;
    assert_eq!(code(&refused), "EXPORT_ERROR");
    let words = refused["error"]["message"].as_str().unwrap();
    assert!(words.contains("`exports` of `[services.whoop]`"), "{words}");
    // The owner's choice at sign-in counts; the settings take precedence.
    crate::whoop::export::allow_folder(&fixture.ctx.records, "~/whoop").unwrap();
    let done = fixture.call("export_whoop", ask("~/whoop/a.csv")).await;
    assert_eq!(done["files"][0]["path"], "~/whoop/a.csv", "{done}");
    assert!(home.path().join("whoop/a.csv").is_file());
    fixture.ctx.exports_allowed = Some("~/other".to_owned());
    assert_eq!(code(&fixture.call("export_whoop", ask("~/whoop/b.csv")).await), "EXPORT_ERROR");
    let done = fixture.call("export_whoop", ask("~/other/deep/b.csv")).await;
    assert_eq!(done["status"], "success", "{done}");
    for path in ["~/other/../c.csv", "~/otherwise.csv", "/etc/c.csv", "~/c.csv"] {
        let refused = fixture.call("export_whoop", ask(path)).await;
        assert_eq!(code(&refused), "EXPORT_ERROR", "{path}: {refused}");
    }
    // The default folder still works.
    assert_eq!(fixture.call("export_whoop", ask("d.csv")).await["status"], "success");
    let all = json!({"kind": "all", "format": "jsonl", "path": "all"});
    let done = fixture.call("export_whoop", all).await;
    let names: Vec<&str> = done["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| file["resource"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        ["cycles", "recoveries", "sleeps", "workouts", "body_measurements", "profile_snapshots"]
    );
}
