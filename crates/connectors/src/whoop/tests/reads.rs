//! Lists and single records: requests to WHOOP, reads from the mirror, refusals.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::io::{Cursor, Write as _};

use sandbox::{Fault, FaultKind};
use serde_json::{Value, json};
use zip::write::SimpleFileOptions;

use super::{code, fixture, ids};
use crate::whoop::takeout;

#[tokio::test]
async fn a_limited_call_does_not_pass_for_the_whole_window() {
    let fixture = fixture(40);
    let first = fixture.call("list_whoop_cycles", json!({"limit": 3})).await;
    assert_eq!(ids(&first).len(), 3);
    let all = fixture.call("list_whoop_cycles", json!({})).await;
    let fresh = fixture.call("list_whoop_cycles", json!({"fresh": true})).await;
    assert!(ids(&all).len() >= 38, "{}", ids(&all).len());
    assert_eq!(ids(&all), ids(&fresh));
    assert_eq!(ids(&all)[..3], ids(&first)[..]);
    let before = fixture.requests();
    assert_eq!(fixture.call("list_whoop_cycles", json!({})).await, all);
    assert_eq!(fixture.requests(), before, "a complete window is read from the mirror");
}

#[tokio::test]
async fn a_part_of_a_window_does_not_hide_the_rest() {
    let fixture = fixture(30);
    fixture.call("list_whoop_sleeps", json!({"start": "2026-04-05", "end": "2026-04-07"})).await;
    let wide = json!({"start": "2026-04-01", "end": "2026-04-12"});
    let mirrored = fixture.call("list_whoop_sleeps", wide).await;
    let fresh = json!({"start": "2026-04-01", "end": "2026-04-12", "fresh": true});
    assert_eq!(ids(&mirrored), ids(&fixture.call("list_whoop_sleeps", fresh).await));
}

#[tokio::test]
async fn after_a_sync_nothing_is_asked_of_whoop() {
    let fixture = fixture(20);
    let synced = fixture.call("sync_whoop", json!({})).await;
    assert_eq!(synced["status"], "success", "{synced}");
    let before = fixture.requests();
    for tool in
        ["list_whoop_cycles", "list_whoop_recoveries", "list_whoop_sleeps", "list_whoop_workouts"]
    {
        let found = fixture.call(tool, json!({"start": "last 10 days"})).await;
        assert!(!ids(&found).is_empty() || tool == "list_whoop_workouts", "{tool} {found}");
        assert!(found.get("warnings").is_none(), "{found}");
    }
    fixture.call("get_whoop_daily_summary", json!({"date": "2026-04-12"})).await;
    fixture.call("get_whoop_profile", json!({})).await;
    assert_eq!(fixture.requests(), before);
}

#[tokio::test]
async fn recoveries_of_a_cold_mirror_are_answered_within_their_bounds() {
    let fixture = fixture(30);
    let window = json!({"start": "2026-04-01", "end": "2026-04-08"});
    let first = fixture.call("list_whoop_recoveries", window.clone()).await;
    assert!(ids(&first).len() >= 6, "{first}");
    assert_eq!(fixture.call("list_whoop_recoveries", window).await, first);
}

#[tokio::test]
async fn the_open_cycle_ends_now_and_is_not_in_the_future() {
    let fixture = fixture(10);
    fixture.call("sync_whoop", json!({})).await;
    let today = fixture.call("list_whoop_cycles", json!({"start": "2026-04-15"})).await;
    assert_eq!(today["records"][0]["end_utc"], Value::Null, "{today}");
    let future = fixture.call("list_whoop_cycles", json!({"start": "2026-04-17"})).await;
    assert_eq!(future, json!({"records": []}));
}

#[tokio::test]
async fn arguments_that_cannot_be_read_are_always_refused() {
    let fixture = fixture(5);
    fixture.call("sync_whoop", json!({})).await;
    for (arguments, expected) in [
        (json!({"start": "garbage"}), "VALIDATION_ERROR"),
        (json!({"end": "2026-13-01"}), "VALIDATION_ERROR"),
        (json!({"start": ""}), "VALIDATION_ERROR"),
        (json!({"limit": 0}), "VALIDATION_ERROR"),
        (json!({"limit": -1}), "VALIDATION_ERROR"),
        (json!({"limit": -1, "fresh": true}), "VALIDATION_ERROR"),
        (json!({"limit": "2", "start": "2026-04-10T00:00:00+02:00"}), "none"),
    ] {
        let answer = fixture.call("list_whoop_cycles", arguments.clone()).await;
        assert_eq!(code(&answer), expected, "{arguments} {answer}");
        if expected != "none" {
            assert_eq!(answer["error"]["endpoint"], "/cycle");
        }
    }
    for arguments in [
        json!({"limit": "abc"}),
        json!({"limit": 1.5}),
        json!({"fresh": "maybe"}),
        json!({"start": 5}),
    ] {
        let answer = fixture.call("list_whoop_cycles", arguments.clone()).await;
        assert_eq!(answer["failed"], "invalid_arguments", "{arguments}");
    }
}

#[tokio::test]
async fn without_whoop_the_mirror_answers_and_says_so_and_nothing_is_the_failure() {
    let fixture = fixture(60);
    fixture.call("list_whoop_cycles", json!({"limit": 3})).await;
    fixture.whoop.control().fault(Fault::on(
        "/developer",
        FaultKind::Status { code: 403, retry_after: None, reset: None, body: None },
    ));
    let some = fixture.call("list_whoop_cycles", json!({})).await;
    assert_eq!(ids(&some).len(), 25, "the page that was fetched");
    assert!(some["warnings"][0].as_str().unwrap().contains("UPSTREAM_ERROR"), "{some}");
    let none = fixture.call("list_whoop_workouts", json!({})).await;
    assert_eq!(code(&none), "UPSTREAM_ERROR");
    assert_eq!(none["error"]["endpoint"], "/activity/workout");
    let fresh = fixture.call("list_whoop_cycles", json!({"fresh": true})).await;
    assert_eq!(code(&fresh), "UPSTREAM_ERROR");
}

#[tokio::test]
async fn single_records_are_read_by_id_only() {
    let fixture = fixture(10);
    let sleeps = fixture.call("list_whoop_sleeps", json!({"limit": 2})).await;
    let sleep = &sleeps["records"][0];
    let before = fixture.requests();
    assert_eq!(&fixture.call("get_whoop_sleep", json!({"sleep_id": sleep["id"]})).await, sleep);
    assert_eq!(fixture.requests(), before);
    let cycle = fixture.call("get_whoop_cycle", json!({"cycle_id": sleep["cycle_id"]})).await;
    assert_eq!(cycle["id"], sleep["cycle_id"]);
    let text_id = cycle["id"].to_string();
    assert_eq!(fixture.call("get_whoop_cycle", json!({"cycle_id": text_id})).await, cycle);
    let recovery = fixture.call("get_whoop_cycle_recovery", json!({"cycle_id": cycle["id"]})).await;
    assert_eq!(recovery["cycle_id"], cycle["id"], "{recovery}");
    let missing = fixture.call("get_whoop_cycle", json!({"cycle_id": 1})).await;
    assert_eq!((code(&missing), &missing["error"]["endpoint"]), ("NOT_FOUND", &json!("/cycle/1")));
    let before = fixture.requests();
    for id in ["x/../../../cycle/7", "", "..", "a?b", "a%2Fb"] {
        let answer = fixture.call("get_whoop_sleep", json!({"sleep_id": id})).await;
        assert_eq!(code(&answer), "VALIDATION_ERROR", "{id}");
    }
    assert_eq!(fixture.requests(), before);
}

#[tokio::test]
async fn an_unreadable_record_is_reported_and_not_lost() {
    let fixture = fixture(6);
    let cycles = fixture.call("list_whoop_cycles", json!({"fresh": true})).await;
    let id = cycles["records"][2]["id"].to_string();
    let broken = json!({"score": {"strain": 1.0, "kilojoule": 1.0, "average_heart_rate": 62.5, "max_heart_rate": 100}, "updated_at": "2026-04-15T09:00:00.000Z"});
    fixture.whoop.control().edit("cycle", &id, &broken).unwrap();
    let again = fixture.call("list_whoop_cycles", json!({"fresh": true})).await;
    assert_eq!(ids(&again).len(), ids(&cycles).len() - 1);
    let warning = again["warnings"][0].as_str().unwrap();
    assert!(warning.contains(&id) && warning.contains("average_heart_rate"), "{warning}");
    let mirrored = fixture.call("list_whoop_cycles", json!({})).await;
    assert_eq!(mirrored["warnings"], again["warnings"]);
    let one = fixture.call("get_whoop_cycle", json!({"cycle_id": id})).await;
    assert_eq!(code(&one), "UPSTREAM_ERROR");
    // It does not count against the limit, and is not reported where it is not reached.
    let three = fixture.call("list_whoop_cycles", json!({"limit": 3})).await;
    assert_eq!(ids(&three), ids(&mirrored)[..3]);
    assert_eq!(three["warnings"], again["warnings"]);
    let two = fixture.call("list_whoop_cycles", json!({"limit": 2})).await;
    assert_eq!((ids(&two).len(), two.get("warnings")), (2, None));
}

#[tokio::test]
async fn many_unreadable_records_are_summarized() {
    let fixture = fixture(60);
    let cycles = fixture.call("list_whoop_cycles", json!({"fresh": true})).await;
    let broken = json!({"score": {"strain": "much"}, "updated_at": "2026-04-15T09:00:00.000Z"});
    for id in ids(&cycles).iter().skip(1).take(50) {
        fixture.whoop.control().edit("cycle", id, &broken).unwrap();
    }
    let fresh = fixture.call("list_whoop_cycles", json!({"fresh": true})).await;
    let warnings = fresh["warnings"].as_array().unwrap();
    assert_eq!((warnings.len(), &warnings[20]), (21, &json!("cycles: 30 more like these")));
    let some = fixture.call("list_whoop_cycles", json!({"limit": 4})).await;
    assert_eq!(ids(&some), ids(&fresh)[..4]);
    assert_eq!(some["warnings"], fresh["warnings"]);
}

#[tokio::test]
async fn records_deleted_at_whoop_are_gone_after_a_fresh_list() {
    let fixture = fixture(8);
    let workouts = fixture.call("list_whoop_sleeps", json!({"fresh": true})).await;
    let id = workouts["records"][1]["id"].as_str().unwrap().to_owned();
    fixture.whoop.control().remove("sleep", &id).unwrap();
    fixture.call("list_whoop_sleeps", json!({"fresh": true})).await;
    let left = fixture.call("list_whoop_sleeps", json!({})).await;
    assert!(!ids(&left).contains(&json!(id).to_string()));
}

#[tokio::test]
async fn recoveries_that_came_alone_are_found_by_the_times_of_their_cycles() {
    let fixture = fixture(12);
    let window = json!({"start": "2026-04-06", "end": "2026-04-10"});
    let fresh = json!({"start": "2026-04-06", "end": "2026-04-10", "fresh": true});
    assert!(!ids(&fixture.call("list_whoop_recoveries", fresh).await).is_empty());
    assert!(!ids(&fixture.call("list_whoop_recoveries", window).await).is_empty());
}

#[tokio::test]
async fn recoveries_are_the_same_from_a_cold_mirror_and_from_a_synced_one() {
    let (cold, asked_live, synced) = (fixture(40), fixture(40), fixture(40));
    synced.call("sync_whoop", json!({})).await;
    for (start, end) in
        [("2026-03-20", "2026-03-25"), ("2026-03-14", "2026-04-02"), ("2026-04-10", "2026-04-11")]
    {
        for start in [start.to_owned(), format!("{start}T15:00:00Z")] {
            let window = json!({"start": start, "end": end});
            let fresh = json!({"start": start, "end": end, "fresh": true});
            let expected = synced.call("list_whoop_recoveries", window.clone()).await;
            let found = cold.call("list_whoop_recoveries", window.clone()).await;
            assert_eq!(found, expected, "{window}");
            asked_live.call("list_whoop_recoveries", fresh).await;
            let found = asked_live.call("list_whoop_recoveries", window.clone()).await;
            assert_eq!(found, expected, "{window} after a fresh list");
        }
    }
}

#[tokio::test]
async fn a_window_without_length_holds_what_lies_across_it() {
    for is_synced in [true, false] {
        let fixture = fixture(20);
        if is_synced {
            fixture.call("sync_whoop", json!({})).await;
        }
        let noon = "2026-04-05T12:00:00Z";
        let found = fixture.call("list_whoop_cycles", json!({"start": noon, "end": noon})).await;
        assert_eq!(ids(&found).len(), 1, "{found}");
        let none = json!({"start": "2026-04-10", "end": "2026-04-01"});
        assert_eq!(fixture.call("list_whoop_cycles", none).await, json!({"records": []}));
    }
}

#[tokio::test]
async fn a_late_upload_is_found_behind_a_newer_record() {
    let fixture = fixture(60);
    let control = fixture.whoop.control();
    let is_late = |workout: &Value| workout["start"].as_str().unwrap() > "2026-03-20";
    let workouts = control.records("workout").unwrap();
    let late: Vec<&Value> = workouts.iter().filter(|workout| is_late(workout)).collect();
    for workout in &late {
        control.remove("workout", workout["id"].as_str().unwrap()).unwrap();
    }
    // The band was not near the phone for weeks; the syncs continued.
    fixture.call("sync_whoop", json!({})).await;
    for workout in &late {
        control.add("workout", workout).unwrap();
    }
    fixture.call("list_whoop_workouts", json!({"limit": 1, "fresh": true})).await;
    fixture.call("sync_whoop", json!({})).await;
    let all = fixture.call("list_whoop_workouts", json!({"limit": 1000})).await;
    assert!(late.len() > 10, "{}", late.len());
    assert_eq!(ids(&all).len(), workouts.len());
}

#[tokio::test]
async fn a_failed_list_of_whoop_is_not_a_missing_day() {
    let fixture = fixture(3);
    let missing = FaultKind::Status { code: 404, retry_after: None, reset: None, body: None };
    fixture.whoop.control().fault(Fault::on("/developer", missing));
    let day = fixture.call("get_whoop_daily_summary", json!({"date": "2020-01-01"})).await;
    assert_eq!(code(&day), "UPSTREAM_ERROR", "{day}");
}

#[tokio::test]
async fn a_mirror_that_is_no_database_is_said_and_left_alone() {
    let fixture = fixture(5);
    let path = fixture.ctx.records.path().to_owned();
    std::fs::write(&path, "not a database, but mine").unwrap();
    let listed = fixture.call("list_whoop_cycles", json!({})).await;
    assert_eq!((code(&listed), &listed["error"]["endpoint"]), ("CACHE_ERROR", &json!("/cycle")));
    let events = fixture.call("get_whoop_events", json!({"since": "2026-04-01"})).await;
    assert_eq!(code(&events), "CACHE_ERROR");
    let day = fixture.call("get_whoop_daily_summary", json!({"date": "2026-04-13"})).await;
    assert!(day["cycle"]["id"].is_i64(), "WHOOP stands in for the mirror: {day}");
    let health = fixture.call("health_check", json!({"live": false})).await;
    let readable = &health["checks"]["cache_readable"];
    assert_eq!(readable["status"], "fail");
    assert!(!readable["detail"].as_str().unwrap().contains('\n'), "one line: {readable}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "not a database, but mine");
}

fn export_row(cycle: &Value) -> String {
    let civil = |key: &str| cycle[key].as_str().unwrap()[..19].replace('T', " ");
    format!("{},{},UTC,50\n", civil("start"), civil("end"))
}

/// A data export of cycles that the API also has, with their recoveries.
fn export_of(cycles: &[Value]) -> Cursor<Vec<u8>> {
    let header = "Cycle start time,Cycle end time,Cycle timezone,Recovery score %\n";
    let rows = cycles.iter().filter(|cycle| cycle["end"].is_string()).map(export_row);
    let table = [header.to_owned()].into_iter().chain(rows).collect::<String>();
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    archive.start_file("physiological_cycles.csv", SimpleFileOptions::default()).unwrap();
    archive.write_all(table.as_bytes()).unwrap();
    archive.finish().unwrap()
}

#[tokio::test]
async fn an_answer_that_is_fetched_has_no_doubles_of_an_export() {
    let fixture = fixture(20);
    let cycles = fixture.whoop.control().records("cycle").unwrap();
    let imported = takeout::import(&fixture.ctx, export_of(&cycles)).unwrap();
    assert_eq!(imported.kinds["cycles"].written, cycles.len() - 1, "all but the open one");
    for (tool, kind) in [("list_whoop_cycles", "cycle"), ("list_whoop_recoveries", "recovery")] {
        let answer = fixture.call(tool, json!({"start": "2026-01-01", "limit": 500})).await;
        let count = answer["records"].as_array().unwrap().len();
        assert_eq!(count, fixture.whoop.control().records(kind).unwrap().len(), "{tool}");
    }
}
