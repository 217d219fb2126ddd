//! Times of records: recoveries have the times of their cycles, words mean the owner's day,
//! open cycles end, and impossible times are reported.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::ops::ControlFlow;

use sandbox::{Fault, FaultKind};
use serde_json::{Value, json};
use store::records::{Cell, QueryOutput, SqlError};

use super::{NOW_US, WhoopFixture, fixture};
use crate::when;
use crate::whoop::offset_s;

const TIMES: [&str; 8] = [
    "start_utc",
    "end_utc",
    "start_local",
    "end_local",
    "timezone_offset",
    "start",
    "end",
    "local_date",
];

async fn cycle(fixture: &WhoopFixture, id: &Value) -> Value {
    fixture.call("get_whoop_cycle", json!({"cycle_id": id})).await
}

/// The recovery shows the times of its cycle, and its values.
async fn assert_dated(fixture: &WhoopFixture, recovery: &Value) {
    let cycle = cycle(fixture, &recovery["cycle_id"]).await;
    assert!(recovery["start_utc"].is_string() && recovery["local_date"].is_string(), "{recovery}");
    for name in TIMES {
        assert_eq!(recovery[name], cycle[name], "{name}: {recovery} {cycle}");
    }
    assert!(recovery.get("recovery_score").is_some() && recovery["sleep_id"].is_string());
}

#[tokio::test]
async fn recoveries_carry_the_times_of_their_cycles_in_every_tool() {
    for is_synced in [true, false] {
        for fresh in [false, true] {
            let fixture = fixture(20);
            if is_synced {
                fixture.call("sync_whoop", json!({})).await;
            }
            let window = json!({"start": "2026-04-05", "end": "2026-04-10", "fresh": fresh});
            let list = fixture.call("list_whoop_recoveries", window).await;
            let recoveries = list["records"].as_array().unwrap();
            assert!(recoveries.len() >= 4, "{list}");
            for recovery in recoveries {
                assert_dated(&fixture, recovery).await;
            }
        }
    }
    let fixture = fixture(20);
    let id =
        fixture.call("list_whoop_cycles", json!({"limit": 3})).await["records"][2]["id"].clone();
    let alone = super::fixture(20);
    let one = alone.call("get_whoop_cycle_recovery", json!({"cycle_id": id})).await;
    assert_dated(&alone, &one).await;
    let day = alone.call("get_whoop_daily_summary", json!({"date": "2026-04-10"})).await;
    assert_dated(&alone, &day["recovery"]).await;
}

#[tokio::test]
async fn recoveries_carry_the_same_in_resources_events_and_sql() {
    let fixture = fixture(20);
    fixture.call("sync_whoop", json!({})).await;
    let read = fixture.read("whoop://db/recoveries/2026-04-05/2026-04-10").await.unwrap();
    assert_dated(&fixture, &read[0]).await;
    let asked = json!({"since": "2010-01-01", "resources": ["recoveries"], "limit": 1});
    let events = fixture.call("get_whoop_events", asked).await;
    assert_dated(&fixture, &events["events"][0]["record"]).await;
    let sql = "SELECT count(*) FROM whoop_recoveries r JOIN whoop_cycles c ON c.id = r.cycle_id \
               WHERE r.start_utc = c.start_utc AND r.local_date = c.local_date \
               AND r.end_local IS c.end_local AND r.timezone_offset = c.timezone_offset";
    let count = |sql: &str| {
        let mut found = 0;
        let take = |told: QueryOutput<'_>| {
            if let QueryOutput::Row([Cell::Integer(count)]) = told {
                found = *count;
            }
            Ok::<_, SqlError>(ControlFlow::Continue(()))
        };
        fixture.ctx.records.sql(sql, take).unwrap();
        found
    };
    assert_eq!(count(sql), count("SELECT count(*) FROM whoop_recoveries"));
}

#[tokio::test]
async fn a_cycle_that_changes_takes_its_recovery_along() {
    let fixture = fixture(5);
    fixture.call("sync_whoop", json!({})).await;
    let cycles = fixture.call("list_whoop_cycles", json!({"limit": 3})).await;
    let id = cycles["records"][1]["id"].to_string();
    let moved = json!({"timezone_offset": "+09:00"});
    fixture.whoop.control().edit("cycle", &id, &moved).unwrap();
    fixture.call("sync_whoop", json!({})).await;
    let id = cycles["records"][1]["id"].clone();
    let recovery = fixture.call("get_whoop_cycle_recovery", json!({"cycle_id": id})).await;
    assert_eq!(recovery["timezone_offset"], "+09:00");
    assert_dated(&fixture, &recovery).await;
}

#[tokio::test]
async fn sleeps_have_asleep_seconds_need_and_debt() {
    let fixture = fixture(10);
    fixture.call("sync_whoop", json!({})).await;
    let sleeps = fixture.call("list_whoop_sleeps", json!({})).await;
    let scored: Vec<&Value> = sleeps["records"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|sleep| sleep["score_state"] == "SCORED")
        .collect();
    assert!(!scored.is_empty());
    for sleep in scored {
        let number = |name: &str| sleep[name].as_f64().unwrap();
        let stages = ["light_sleep_seconds", "rem_sleep_seconds", "deep_sleep_seconds"];
        let sum: f64 = stages.iter().map(|name| number(name)).sum();
        assert!((number("asleep_seconds") - sum).abs() < 0.2, "{sleep}");
        let needed = sleep["sleep_needed_seconds"].as_object().unwrap();
        let sum: f64 = needed.values().map(|part| part.as_f64().unwrap()).sum();
        assert!((number("sleep_need_seconds") - sum).abs() < 0.3, "{sleep}");
        assert_eq!(sleep["sleep_debt_seconds"], needed["need_from_sleep_debt_seconds"]);
    }
}

#[tokio::test]
async fn the_sleep_of_a_cycle_is_its_main_one_from_the_mirror_as_from_whoop() {
    let fixture = fixture(10);
    fixture.call("sync_whoop", json!({})).await;
    let list = fixture.call("list_whoop_sleeps", json!({})).await;
    let night = list["records"].as_array().unwrap().iter().find(|sleep| sleep["nap"] == false);
    let (id, cycle_id) = (night.unwrap()["id"].clone(), night.unwrap()["cycle_id"].clone());
    // The second part of the night is shorter and begins later.
    let mut part = fixture.whoop.control().record("sleep", id.as_str().unwrap()).unwrap();
    let end_us = when::instant_us(part["end"].as_str().unwrap()).unwrap();
    part["id"] = json!("00000000-0000-4000-8000-000000000001");
    part["start"] = json!(when::utc_millis(end_us + 1_800_000_000));
    part["end"] = json!(when::utc_millis(end_us + 3_600_000_000));
    part["score"]["stage_summary"]["total_in_bed_time_milli"] = json!(1_800_000);
    fixture.whoop.control().add("sleep", &part).unwrap();
    fixture.call("sync_whoop", json!({})).await;
    for drop_recovery in [false, true] {
        if drop_recovery {
            let ids = [cycle_id.to_string()];
            fixture.ctx.records.remove("whoop", "recoveries", &ids, NOW_US).unwrap();
        }
        let main = fixture.call("get_whoop_cycle_sleep", json!({"cycle_id": cycle_id})).await;
        assert_eq!(main["id"], id, "{main}");
    }
    let fresh = json!({"cycle_id": cycle_id, "fresh": true});
    assert_eq!(fixture.call("get_whoop_cycle_sleep", fresh).await["id"], id);
}

#[tokio::test]
async fn relative_days_are_local_and_dates_are_utc() {
    let fixture = fixture(20);
    fixture.call("sync_whoop", json!({})).await;
    // Whatever the clock of the newest record is, move it east of the date line.
    let newest = fixture.call("list_whoop_cycles", json!({"limit": 1})).await;
    let id = newest["records"][0]["id"].to_string();
    fixture.whoop.control().edit("cycle", &id, &json!({"timezone_offset": "+14:00"})).unwrap();
    for kind in ["sleep", "workout"] {
        for record in fixture.whoop.control().records(kind).unwrap() {
            let id = record["id"].as_str().unwrap().to_owned();
            fixture.whoop.control().edit(kind, &id, &json!({"timezone_offset": "+14:00"})).unwrap();
        }
    }
    fixture.call("sync_whoop", json!({})).await;
    assert_eq!(offset_s(&fixture.ctx.records), Some(14 * 3600));
    // 10:00 UTC on the 15th is the first minute of the 16th there.
    for (date, day, resolved, shown) in [
        ("today", Value::Null, "2026-04-16", "local"),
        ("yesterday", Value::Null, "2026-04-15", "local"),
        ("today", json!("local"), "2026-04-16", "local"),
        ("today", json!("utc"), "2026-04-15", "utc"),
    ] {
        let asked = json!({"date": date, "day": day});
        let answer = fixture.call("get_whoop_daily_summary", asked.clone()).await;
        assert_eq!(answer["resolved_date"], resolved, "{asked} {answer}");
        assert_eq!(answer["day"], shown, "{asked}");
    }
    let plain = fixture.call("get_whoop_daily_summary", json!({"date": "2026-04-15"})).await;
    assert_eq!((&plain["day"], plain.get("resolved_date")), (&json!("utc"), None));
}

#[tokio::test]
async fn a_cycle_left_open_does_not_answer_for_later_days() {
    let fixture = fixture(10);
    fixture.call("sync_whoop", json!({})).await;
    let open = fixture.call("list_whoop_cycles", json!({"limit": 1})).await;
    assert_eq!(open["records"][0]["end_utc"], Value::Null, "{open}");
    assert_eq!(open.get("stale_since"), None);
    let is_open = |answer: &Value| answer["cycle"]["id"] == open["records"][0]["id"];
    let today = fixture.call("get_whoop_daily_summary", json!({"date": "today"})).await;
    assert_eq!(today.get("stale_since"), None, "{today}");
    // Five days later WHOOP is unreachable.
    fixture.clock.advance(5 * 86_400_000_000);
    let broken = FaultKind::Status { code: 403, retry_after: None, reset: None, body: None };
    fixture.whoop.control().fault(Fault::on("/", broken));
    for date in ["today", "yesterday", "2026-04-20", "2026-04-19", "2026-04-18"] {
        let day = fixture.call("get_whoop_daily_summary", json!({"date": date})).await;
        assert!(!is_open(&day), "{date}: {day}");
        if day.get("error").is_none() {
            assert_eq!(day["stale_since"], "2026-04-15T10:00:00.000000Z", "{day}");
            assert!(day["notes"].to_string().contains("stale since 2026-04-15T10:00"), "{day}");
        }
    }
    let later = json!({"start": "2026-04-19"});
    for tool in ["list_whoop_cycles", "list_whoop_recoveries"] {
        let list = fixture.call(tool, later.clone()).await;
        assert!(list.get("error").is_some() || list["records"] == json!([]), "{list}");
    }
    // Without bounds it is still the newest, and its age is reported.
    let newest = fixture.call("list_whoop_cycles", json!({"limit": 1})).await;
    assert_eq!(newest["stale_since"], "2026-04-15T10:00:00.000000Z", "{newest}");
    let id = open["records"][0]["id"].clone();
    let one = cycle(&fixture, &id).await;
    assert_eq!(one["stale_since"], one["start_utc"], "{one}");
}

#[tokio::test]
async fn a_cycle_left_open_by_whoop_is_marked_stale() {
    let fixture = fixture(10);
    fixture.call("sync_whoop", json!({})).await;
    let open = fixture.call("list_whoop_cycles", json!({"limit": 1})).await;
    fixture.clock.advance(5 * 86_400_000_000);
    // WHOOP answers, with nothing newer.
    fixture.call("sync_whoop", json!({})).await;
    let today = fixture.call("get_whoop_daily_summary", json!({"date": "today"})).await;
    assert_eq!(today["cycle"], Value::Null, "{today}");
    assert!(today["notes"].to_string().contains("was left open"), "{today}");
    let newest = fixture.call("list_whoop_cycles", json!({"limit": 1})).await;
    assert_eq!(newest["stale_since"], open["records"][0]["start_utc"], "{newest}");
}

#[tokio::test]
async fn impossible_times_are_kept_counted_and_reported() {
    let fixture = fixture(20);
    let workouts = fixture.whoop.control().records("workout").unwrap();
    let newest = &workouts[workouts.len() - 2..];
    let id = |at: usize| newest[at]["id"].as_str().unwrap().to_owned();
    let (first, second) = (id(0), id(1));
    let start_us = when::instant_us(newest[0]["start"].as_str().unwrap()).unwrap();
    let edit = json!({"end": when::utc_millis(start_us - 1_000)});
    fixture.whoop.control().edit("workout", &first, &edit).unwrap();
    let edit = json!({"timezone_offset": "+25:00"});
    fixture.whoop.control().edit("workout", &second, &edit).unwrap();
    let result = fixture.call("sync_whoop", json!({})).await;
    assert_eq!(result["status"], "success", "{result}");
    assert_eq!(result["resources"]["workouts"]["records_doubtful"], 2, "{result}");
    assert_eq!(result["resources"]["cycles"].get("records_doubtful"), None);
    let warnings = result["warnings"].to_string();
    assert!(warnings.contains("`end` is before `start`"), "{warnings}");
    assert!(warnings.contains("`timezone_offset` is not an offset"), "{warnings}");
    let one = fixture.call("get_whoop_workout", json!({"workout_id": first})).await;
    assert_eq!((&one["id"], &one["local_date"]), (&json!(first), &Value::Null), "it is kept");
    let one = fixture.call("get_whoop_workout", json!({"workout_id": second})).await;
    assert_eq!((&one["start_local"], &one["local_date"]), (&Value::Null, &Value::Null));
    let window = fixture.call("list_whoop_workouts", json!({"start": "2010-01-01"})).await;
    assert!(!window.to_string().contains(&first), "it is in no window of time");
    let health = fixture.call("health_check", json!({"live": false})).await;
    assert_eq!(health["checks"]["cache_readable"]["rows_doubtful"], 2, "{health}");
}

#[tokio::test]
async fn health_reports_login_latency_and_refresh_token() {
    let fixture = fixture(3);
    let health = fixture.call("health_check", json!({"live": false})).await;
    let auth = &health["checks"]["auth"];
    assert!(auth["latency_ms"].is_number(), "{auth}");
    assert_eq!(auth["has_refresh_token"], true);
    fixture.ctx.accounts.lock("whoop").unwrap().wipe().unwrap();
    let health = fixture.call("health_check", json!({"live": false})).await;
    let auth = &health["checks"]["auth"];
    assert_eq!((&auth["status"], &auth["has_refresh_token"]), (&json!("fail"), &json!(false)));
    assert!(auth["latency_ms"].is_number(), "{auth}");
}

#[tokio::test]
async fn records_of_an_older_version_are_dated_without_asking_whoop() {
    let fixture = fixture(10);
    fixture.call("sync_whoop", json!({})).await;
    let asked = json!({"start": "2026-04-05"});
    let before = fixture.call("list_whoop_recoveries", asked.clone()).await;
    let older = |kind: &str, raw: &str| {
        let kind = crate::whoop::kind::Kind::parse(kind)?;
        let shaped = crate::whoop::shape::shape_text(kind, raw);
        let mut flat = shaped.flat.clone().ok()?;
        flat.retain(|name, _| !TIMES.contains(&name.as_str()));
        let flat = Value::Object(flat).to_string();
        Some(store::records::Derived {
            start_us: shaped.start_us,
            end_us: shaped.end_us,
            offset_s: shaped.offset_s,
            parent: shaped.parent,
            state: shaped.state,
            flat,
        })
    };
    assert!(fixture.ctx.records.reshape("whoop", 1, older).unwrap() > 0);
    let old = fixture.call("list_whoop_recoveries", asked.clone()).await;
    assert_eq!(old["records"][0].get("start_utc"), None);
    let requests = fixture.requests();
    fixture.ctx.prepare_once(crate::prepare);
    assert_eq!(fixture.call("list_whoop_recoveries", asked).await, before);
    assert_eq!(fixture.requests(), requests);
}
