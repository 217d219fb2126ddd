//! Metrics of several sources against each other, on a synced WHOOP mirror with planted listening.

use std::collections::HashMap;

use insights::Day;
use serde_json::{Value, json};
use store::records::{Incoming, Window};

use super::{WhoopFixture, fixture};
use crate::when::local_date;
use crate::{Answer, Caller, ToolCall};

const HOUR_US: i64 = 3_600_000_000;

async fn call(fixture: &WhoopFixture, tool: &str, arguments: Value) -> Value {
    let tool = crate::connector("personal").unwrap().tool(tool).unwrap();
    let caller = &Caller::in_session("alice", 1);
    let arguments = arguments.as_object().unwrap().clone();
    let call = ToolCall { ctx: &fixture.ctx, caller, on_progress: None, gate: None, bound: None };
    match (tool.handler.run)(call, &arguments).await {
        Answer::Found(value) | Answer::Refused(value) => value,
        other => unreachable!("{other:?}"),
    }
}

/// One play each evening at 22:30 where the owner was, longer the less the owner sleeps then.
async fn plant_late_listening(fixture: &WhoopFixture) {
    let trend = fixture.call("get_whoop_trend", json!({"metric": "asleep", "days": 120})).await;
    let asleep: HashMap<&str, f64> = trend["values"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pair| (pair[0].as_str().unwrap(), pair[1].as_f64().unwrap()))
        .collect();
    for night in fixture.ctx.records.window("whoop", "sleeps", &Window::default()).unwrap() {
        let offset_s = night.offset_s.unwrap();
        let woke = local_date(night.end_us.unwrap(), offset_s).unwrap();
        let Some(asleep_min) = asleep.get(woke.to_string().as_str()) else { continue };
        let evening_us = i64::from(Day::from_date(woke).plus(-1).number()) * 24 * HOUR_US;
        let at_us = evening_us + 22 * HOUR_US + HOUR_US / 2 - i64::from(offset_s) * 1_000_000;
        let heard_ms = ((700.0 - asleep_min).max(1.0) * 60_000.0).round();
        let flat = json!({ "ms_played": heard_ms }).to_string();
        let id = woke.to_string();
        let row = Incoming {
            kind: "streams",
            id: &id,
            start_us: Some(at_us),
            end_us: Some(at_us),
            updated: &id,
            updated_us: at_us,
            raw: &flat,
            flat: &flat,
            ..Incoming::default()
        };
        fixture.ctx.records.upsert("spotify", &[row]).unwrap();
    }
}

#[tokio::test]
async fn late_listening_is_related_to_the_next_night_and_not_to_the_one_before() {
    let fixture = fixture(150);
    fixture.call("sync_whoop", json!({})).await;
    plant_late_listening(&fixture).await;
    let asked =
        |lag: u32| json!({"x": "spotify.late_listening", "y": "whoop.asleep", "lag_days": lag});
    let found = call(&fixture, "relate_daily_metrics", asked(1)).await;
    let relation = &found["relation"];
    assert_eq!(relation["status"], "found", "{found}");
    assert!(relation["r"].as_f64().unwrap() < -0.9, "{found}");
    assert!(relation["n"].as_u64().unwrap() > 80 && relation["n_eff"].is_f64(), "{found}");
    let slope = relation["slope"].as_f64().unwrap();
    assert!((-1.1..-0.7).contains(&slope), "{found}");
    assert_eq!(found["x"]["unit"], "minutes");
    let same_day = call(&fixture, "relate_daily_metrics", asked(0)).await;
    assert!(same_day["relation"]["r"].as_f64().unwrap().abs() < 0.5, "{same_day}");
    let survey = call(&fixture, "survey_daily_metrics", json!({})).await;
    let first = &survey["claims"][0];
    let names = [first["x"].as_str().unwrap(), first["y"].as_str().unwrap()];
    assert!(names.iter().any(|name| name.starts_with("spotify.")), "{survey}");
    assert!(names.contains(&"whoop.asleep") && first["lag_days"] == 1, "{survey}");
    // Listening and late listening, against seven metrics of WHOOP, at three lags.
    assert_eq!(survey["looks"], 2 * 7 * 3, "{survey}");
}

#[tokio::test]
async fn every_metric_is_listed_with_its_coverage_and_a_short_one_says_what_is_missing() {
    let fixture = fixture(30);
    fixture.call("sync_whoop", json!({})).await;
    let list = call(&fixture, "list_daily_metrics", json!({})).await;
    let metrics = list["metrics"].as_array().unwrap();
    let of = |name: &str| metrics.iter().find(|own| own["metric"] == name).unwrap();
    assert!(of("whoop.recovery")["n"].as_u64().unwrap() >= 25, "{list}");
    assert_eq!(of("whoop.resting_heart_rate")["better"], "lower");
    assert_eq!(
        (&of("steam.playing")["n"], &of("steam.playing")["from"]),
        (&json!(0), &Value::Null)
    );
    for name in
        ["spotify.late_listening", "youtube.videos_watched", "reddit.comments", "bilibili.watching"]
    {
        assert_eq!(of(name)["n"], 0, "{name}");
    }
    let asked = json!({"x": "steam.playing", "y": "whoop.recovery", "lag_days": 1});
    let short = call(&fixture, "relate_daily_metrics", asked).await;
    assert_eq!(short["relation"]["status"], "not_enough_data", "{short}");
    assert_eq!(short["relation"]["missing"], 20, "{short}");
    let unknown = json!({"x": "steam.playing", "y": "whoop.happiness"});
    let unknown = call(&fixture, "relate_daily_metrics", unknown).await;
    assert_eq!(unknown["error"]["code"], "invalid_argument", "{unknown}");
}

/// Every answer of the tools that honour the bound, for many windows.
async fn bounded_answers(fixture: &WhoopFixture) -> Vec<String> {
    let mut answers = Vec::new();
    let mut ask = Vec::new();
    for days in [30, 61, 90, 91, 120, 365] {
        for metric in ["hrv", "recovery", "asleep"] {
            ask.push(("whoop", "get_whoop_aggregates", json!({"metric": metric, "days": days})));
        }
        let pair = json!({"x": "spotify.late_listening", "y": "whoop.hrv", "days": days});
        ask.push(("personal", "relate_daily_metrics", pair));
        ask.push(("personal", "survey_daily_metrics", json!({"days": days})));
    }
    ask.push(("personal", "list_daily_metrics", json!({})));
    for (server, tool, arguments) in ask {
        let tool = crate::connector(server).unwrap().tool(tool).unwrap();
        assert!(tool.aggregates, "{}", tool.name);
        let caller = &Caller::in_session("coach", 1);
        let bound = Some(insights::BlockLength::at_least(7));
        let call = ToolCall { ctx: &fixture.ctx, caller, on_progress: None, gate: None, bound };
        answers
            .push(format!("{:?}", (tool.handler.run)(call, arguments.as_object().unwrap()).await));
    }
    answers
}

fn play(fixture: &WhoopFixture, id: &str, day: Day) {
    let at_us = (i64::from(day.number()) * 24 + 12) * HOUR_US;
    let flat = json!({ "ms_played": 1_800_000 }).to_string();
    let updated = format!("{id} {day}");
    let row = Incoming {
        kind: "streams",
        id,
        start_us: Some(at_us),
        end_us: Some(at_us),
        updated: &updated,
        updated_us: at_us,
        raw: &flat,
        flat: &flat,
        ..Incoming::default()
    };
    fixture.ctx.records.upsert("spotify", &[row]).unwrap();
}

/// The answers of the bounded tools for windows of every length.
async fn bounded_by_window(fixture: &WhoopFixture) -> Vec<String> {
    let mut answers = Vec::new();
    for days in (1..100).step_by(2) {
        let pair = json!({"x": "spotify.listening", "y": "whoop.hrv", "days": days});
        let asked = [
            ("personal", "relate_daily_metrics", pair),
            ("personal", "survey_daily_metrics", json!({"days": days})),
            ("personal", "list_daily_metrics", json!({})),
        ];
        for (server, tool, arguments) in asked {
            let tool = crate::connector(server).unwrap().tool(tool).unwrap();
            let caller = &Caller::in_session("coach", 1);
            let bound = Some(insights::BlockLength::at_least(7));
            let call = ToolCall { ctx: &fixture.ctx, caller, on_progress: None, gate: None, bound };
            let answer = (tool.handler.run)(call, arguments.as_object().unwrap()).await;
            answers.push(format!("{} {days} {answer:?}", tool.name));
        }
    }
    answers
}

/// Where a window begins and when an entry came must not show on which day something was recorded.
#[tokio::test]
async fn with_a_bound_no_window_shows_on_which_day_an_entry_is() {
    let fixture = fixture(120);
    fixture.call("sync_whoop", json!({})).await;
    let list = call(&fixture, "list_daily_metrics", json!({})).await;
    let today: Day = list["today"].as_str().unwrap().parse().unwrap();
    let monday = today.plus(-56 - i32::try_from(today.weekday()).unwrap());
    for (id, day) in [("a", -10), ("b", 2), ("c", 12), ("d", 20)] {
        play(&fixture, id, monday.plus(day));
    }
    let before = bounded_by_window(&fixture).await;
    assert!(before.iter().any(|answer| answer.contains("looks\": Number(")), "{}", before[0]);
    // A play moves by a day, within its week.
    play(&fixture, "b", monday.plus(3));
    let moved = bounded_by_window(&fixture).await;
    for (before, after) in before.iter().zip(&moved) {
        assert_eq!(before, after);
    }
    // A play of the last days makes the days before it zero, but not for these answers.
    play(&fixture, "e", today.plus(-14));
    let settled = bounded_by_window(&fixture).await;
    play(&fixture, "f", today.plus(-3));
    for (before, after) in settled.iter().zip(&bounded_by_window(&fixture).await) {
        assert_eq!(before, after);
    }
}

#[tokio::test]
async fn with_a_bound_nights_can_change_places_within_a_week_without_a_trace() {
    let fixture = fixture(200);
    fixture.call("sync_whoop", json!({})).await;
    plant_late_listening(&fixture).await;
    let before = bounded_answers(&fixture).await;
    assert!(before.iter().any(|answer| answer.contains("\"n\": Number(7)")), "{before:?}");
    let trend = json!({"metric": "hrv", "days": 150});
    let shown = fixture.call("get_whoop_trend", trend.clone()).await;
    let aggregates = fixture.call("get_whoop_aggregates", json!({"metric": "hrv"})).await;
    let week = &aggregates["blocks"][3];
    let (from, to) = (week["from"].as_str().unwrap(), week["to"].as_str().unwrap());
    // The recoveries of two nights of one week change places.
    let records = &fixture.ctx.records;
    let all = records.window("whoop", "recoveries", &Window::default()).unwrap();
    let day = |row: &store::records::StoredRecord| {
        let value: Value = serde_json::from_str(&row.flat).unwrap();
        let hrv = value["hrv_rmssd_ms"].as_f64();
        let found =
            shown["values"].as_array().unwrap().iter().find(|pair| {
                hrv.is_some_and(|hrv| (pair[1].as_f64().unwrap() - hrv).abs() < 0.001)
            });
        found.map(|pair| pair[0].as_str().unwrap().to_owned())
    };
    let inside: Vec<_> =
        all.iter().filter(|row| day(row).is_some_and(|day| *from <= *day && *day <= *to)).collect();
    assert_eq!(inside.len(), 7, "{from} to {to}");
    for (row, other) in [(inside[1], inside[4]), (inside[4], inside[1])] {
        let swapped = Incoming {
            kind: "recoveries",
            id: &row.id,
            start_us: row.start_us,
            end_us: row.end_us,
            offset_s: row.offset_s,
            updated: &row.updated,
            updated_us: row.updated_us + 1,
            parent: row.parent.as_deref(),
            state: row.state.as_deref(),
            follows: Some("cycles"),
            raw: &other.raw,
            flat: &other.flat,
        };
        assert_eq!(records.upsert("whoop", &[swapped]).unwrap().written(), 1);
    }
    assert_ne!(fixture.call("get_whoop_trend", trend).await["values"], shown["values"]);
    assert_eq!(bounded_answers(&fixture).await, before);
}
