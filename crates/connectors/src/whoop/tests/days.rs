//! Days: the documented UTC day, the day the owner woke, and what is said about today.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use sandbox::{Fault, FaultKind};
use serde_json::{Value, json};

use super::{code, fixture};

fn broken() -> FaultKind {
    FaultKind::Status { code: 403, retry_after: None, reset: None, body: None }
}

#[tokio::test]
async fn a_utc_day_has_the_cycle_that_starts_on_it() {
    let fixture = fixture(20);
    let day = fixture.call("get_whoop_daily_summary", json!({"date": "2026-04-10"})).await;
    assert_eq!((&day["date"], &day["day"]), (&json!("2026-04-10"), &json!("utc")));
    let cycle = &day["cycle"];
    assert!(cycle["start_utc"].as_str().unwrap() < "2026-04-11", "{cycle}");
    assert_eq!(day["recovery"]["cycle_id"], cycle["id"]);
    assert_eq!(day["score_states"]["cycle"], cycle["score_state"]);
    for workout in day["workouts"].as_array().unwrap() {
        assert!(workout["start_utc"].as_str().unwrap().starts_with("2026-04-10"), "{workout}");
    }
    let before = fixture.requests();
    assert_eq!(fixture.call("get_whoop_daily_summary", json!({"date": "2026-04-10"})).await, day);
    assert_eq!(fixture.requests(), before, "what was fetched is kept");
    let unpadded = fixture.call("get_whoop_daily_summary", json!({"date": "2026-4-10"})).await;
    assert_eq!(unpadded["cycle"], day["cycle"]);
    // The argument is repeated; the date is added for words.
    assert_eq!((&unpadded["date"], day.get("resolved_date")), (&json!("2026-4-10"), None));
    assert_eq!(unpadded["resolved_date"], "2026-04-10");
    let words = fixture.call("get_whoop_daily_summary", json!({"date": "5 days ago"})).await;
    assert_eq!(
        (&words["date"], &words["resolved_date"]),
        (&json!("5 days ago"), &json!("2026-04-10"))
    );
}

#[tokio::test]
async fn a_local_day_is_the_day_of_waking() {
    let fixture = fixture(20);
    fixture.call("sync_whoop", json!({})).await;
    for date in ["2026-04-08", "2026-04-09", "2026-04-10"] {
        let arguments = json!({"date": date, "day": "local"});
        let day = fixture.call("get_whoop_daily_summary", arguments).await;
        assert_eq!(day["day"], "local");
        if let Some(woke) = day["sleep"]["end_local"].as_str() {
            assert!(woke.starts_with(date), "{date} {woke}");
            assert_eq!(day["sleep"]["cycle_id"], day["cycle"]["id"]);
        }
    }
}

#[tokio::test]
async fn today_says_how_fresh_it_is_and_tomorrow_has_nothing() {
    let fixture = fixture(10);
    fixture.call("sync_whoop", json!({})).await;
    fixture.clock.advance(10 * 60 * 1_000_000);
    let today =
        fixture.call("get_whoop_daily_summary", json!({"date": "today", "day": "local"})).await;
    assert_eq!(today["age_seconds"], json!(600), "{today}");
    assert_eq!(today["as_of"], "2026-04-15T10:00:00.000000Z");
    for fresh in [false, true] {
        let ask = json!({"date": "2026-04-17", "fresh": fresh});
        let tomorrow = fixture.call("get_whoop_daily_summary", ask).await;
        assert_eq!(tomorrow["cycle"], Value::Null, "{tomorrow}");
        assert_eq!(tomorrow["workouts"], json!([]));
        assert_eq!(tomorrow.get("warnings"), None, "{tomorrow}");
    }
}

#[tokio::test]
async fn a_failed_part_is_null_with_a_warning_and_all_failed_is_the_failure() {
    let fixture = fixture(10);
    fixture.whoop.control().fault(Fault::on("/developer/v2/activity/workout", broken()));
    let day =
        fixture.call("get_whoop_daily_summary", json!({"date": "2026-04-10", "fresh": true})).await;
    assert_eq!(day["workouts"], json!([]));
    let warning = day["warnings"][0].as_str().unwrap();
    assert!(warning.starts_with("workouts: UPSTREAM_ERROR "), "{warning}");
    fixture.whoop.control().fault(Fault::on("/developer", broken()));
    let failed =
        fixture.call("get_whoop_daily_summary", json!({"date": "2026-04-10", "fresh": true})).await;
    assert_eq!(code(&failed), "UPSTREAM_ERROR");
    assert_eq!(failed["error"]["endpoint"], "/daily_summary");
    fixture.ctx.accounts.lock("whoop").unwrap().wipe().unwrap();
    let signed_out =
        fixture.call("get_whoop_daily_summary", json!({"date": "2026-04-10", "fresh": true})).await;
    assert_eq!(code(&signed_out), "AUTH_FAILED");
}

#[tokio::test]
async fn a_missing_recovery_is_reported_after_asking_whoop() {
    let fixture = fixture(10);
    let day = fixture.call("get_whoop_daily_summary", json!({"date": "2026-04-10"})).await;
    let id = day["recovery"]["sleep_id"].as_str().unwrap();
    fixture.whoop.control().remove("recovery", id).unwrap();
    let fresh =
        fixture.call("get_whoop_daily_summary", json!({"date": "2026-04-10", "fresh": true})).await;
    assert_eq!(fresh["recovery"], Value::Null);
    assert_eq!(fresh["warnings"], json!(["recovery: NOT_FOUND resource not found"]));
}

#[tokio::test]
async fn text_that_is_not_a_day_is_refused() {
    let fixture = fixture(3);
    for date in ["", "2026-13-01", "2026-04-10T00:00:00Z", "last week", "soon"] {
        let answer = fixture.call("get_whoop_daily_summary", json!({"date": date})).await;
        assert_eq!(code(&answer), "VALIDATION_ERROR", "{date}");
        assert_eq!(answer["error"]["endpoint"], "/daily_summary");
    }
    let answer = fixture
        .call("get_whoop_daily_summary", json!({"date": "2026-04-10", "day": "lunar"}))
        .await;
    assert_eq!(code(&answer), "VALIDATION_ERROR");
}
