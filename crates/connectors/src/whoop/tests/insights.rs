//! The insight tools on a synced mirror, against numbers computed here from the lists.

use serde_json::{Value, json};

use super::{WhoopFixture, code, fixture};

const TOOLS: &[(&str, &str)] = &[
    ("get_whoop_today", "{}"),
    ("get_whoop_review", r#"{"period":"month"}"#),
    ("get_whoop_trend", r#"{"metric":"hrv"}"#),
    ("get_whoop_baseline", r#"{"metric":"resting_heart_rate"}"#),
    ("get_whoop_drivers", "{}"),
    ("get_whoop_relation", r#"{"x":"strain","y":"recovery","lag_days":1}"#),
    ("get_whoop_training_load", r#"{"unit":"zone_minutes"}"#),
    ("get_whoop_sleep_report", "{}"),
    ("get_whoop_records", "{}"),
];

async fn synced(days: u32) -> WhoopFixture {
    let fixture = fixture(days);
    fixture.call("sync_whoop", json!({})).await;
    fixture
}

fn arguments(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[tokio::test]
async fn every_insight_answers_compactly_and_says_its_n() {
    let fixture = synced(200).await;
    for (tool, args) in TOOLS {
        let answer = fixture.call(tool, arguments(args)).await;
        assert_eq!(code(&answer), "none", "{tool}: {answer}");
        let text = answer.to_string();
        assert!(text.contains("\"n\":") && text.contains("\"n_eff\":"), "{tool}: {text}");
        assert!(text.len() < 40_000, "{tool}: {} bytes", text.len());
    }
}

#[tokio::test]
async fn an_empty_mirror_says_to_sync_and_a_short_one_what_is_missing() {
    let empty = fixture(5);
    for (tool, args) in TOOLS {
        assert_eq!(code(&empty.call(tool, arguments(args)).await), "CACHE_EMPTY", "{tool}");
    }
    let short = synced(6).await;
    let trend = short.call("get_whoop_trend", json!({"metric": "recovery"})).await;
    assert_eq!(trend["trend"]["status"], "not_enough_data", "{trend}");
    assert!(trend["trend"]["missing"].as_u64().unwrap() >= 15, "{trend}");
}

#[tokio::test]
async fn a_recovery_is_on_the_day_of_its_local_summary() {
    let fixture = synced(40).await;
    let trend = fixture.call("get_whoop_trend", json!({"metric": "recovery", "days": 30})).await;
    let values = trend["values"].as_array().unwrap();
    assert!(values.len() > 20, "{trend}");
    for pair in values.iter().take(10) {
        let asked = json!({"date": pair[0], "day": "local"});
        let summary = fixture.call("get_whoop_daily_summary", asked).await;
        assert_eq!(summary["recovery"]["recovery_score"], pair[1], "{summary}");
    }
}

#[tokio::test]
async fn a_baseline_is_the_median_of_the_listed_recoveries() {
    let fixture = synced(120).await;
    let found = fixture.call("get_whoop_baseline", json!({"metric": "recovery"})).await;
    let month = &found["baselines"][1];
    assert_eq!(month["status"], "found", "{found}");
    let sql = "select recovery_score from whoop_recoveries where score_state = 'SCORED' \
               order by start_utc desc";
    let rows = fixture.call("query_whoop", json!({"sql": sql})).await;
    let n = usize::try_from(month["n"].as_u64().unwrap()).unwrap();
    let newest = rows["rows"].as_array().unwrap().iter().take(n);
    let mut scores: Vec<f64> = newest.map(|row| row[0].as_f64().unwrap()).collect();
    scores.sort_by(f64::total_cmp);
    let middle = f64::midpoint(scores[(n - 1) / 2], scores[n / 2]);
    assert!((month["median"].as_f64().unwrap() - middle).abs() < 1e-9, "{month} {middle}");
}

#[tokio::test]
async fn a_query_reads_the_whoop_views_and_nothing_else() {
    let fixture = synced(20).await;
    let ask = |sql: &str| json!({ "sql": sql });
    let good = fixture.call("query_whoop", ask("select count(*) as n from whoop_sleeps")).await;
    assert_eq!(good["columns"], json!(["n"]), "{good}");
    assert!(good["rows"][0][0].as_i64().unwrap() >= 18, "{good}");
    let few = json!({"sql": "select id from whoop_cycles", "limit": 3});
    let few = fixture.call("query_whoop", few).await;
    assert_eq!((few["rows"].as_array().unwrap().len(), &few["truncated"]), (3, &json!(true)));
    let endless =
        "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n";
    for refused in [
        "select * from record",
        "select * from sqlite_master",
        "select count(*) from record",
        "select * from whoop_profile",
        "select * from spotify_plays",
        "delete from whoop_cycles",
        "pragma user_version",
        "attach database 'x' as y",
        "select 1; select 2",
        endless,
        // A table expression with the name of a view must not pass for the view.
        "with whoop_cycles as (select raw from record) select * from whoop_cycles",
        "with WHOOP_CYCLES as materialized (select flat from record) select * from whoop_cycles",
        "with hidden_whoop_cycles as (select flat from record) select * from hidden_whoop_cycles",
        "with hidden__whoop_cycles as (select flat from record) select * from hidden__whoop_cycles",
        "select (with whoop_sleeps as (select service from series) select max(service) from whoop_sleeps)",
        "select * from main.record",
        "select * from temp.sqlite_master",
        "select * from hidden_whoop_cycles",
        "select * from pragma_table_info('record')",
        "select load_extension('x')",
        "create temp view x as select * from record",
        "vacuum into 'x'",
        "explain select * from record",
        // Memory in one step.
        "select length(zeroblob(1000000000))",
        "select length(randomblob(100000000))",
        "select length(printf('%.*c', 200000000, 'x'))",
        "select length(replace(hex(zeroblob(30000)), '0', hex(zeroblob(30000))))",
        "with recursive n(b) as (select zeroblob(60000) union all select b || b from n) select 1 from n",
        "select max(length(hex(a.id || b.id || c.id || d.id))) from whoop_cycles a, whoop_cycles b, whoop_cycles c, whoop_cycles d, whoop_sleeps e, whoop_sleeps f",
    ] {
        let answer = fixture.call("query_whoop", ask(refused)).await;
        assert_eq!(code(&answer), "VALIDATION_ERROR", "{refused}: {answer}");
    }
}

/// The parts of a schema by their names, whatever combines them.
fn walk(schema: &Value, visit: &mut impl FnMut(&serde_json::Map<String, Value>)) {
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        visit(properties);
    }
    match schema {
        Value::Object(members) => members.values().for_each(|own| walk(own, visit)),
        Value::Array(items) => items.iter().for_each(|own| walk(own, visit)),
        _ => {}
    }
}

#[test]
fn every_output_schema_has_n_and_n_eff_beside_what_is_estimated() {
    // What is estimated from days, by the member that only such a part has.
    const ESTIMATES: &[&str] =
        &["p", "median", "r", "sri", "ctl", "mean_7", "hedges_g", "debt_min", "n_blocks"];
    // Parts whose neighbours have their counts.
    const COUNTED_ABOVE: &[&str] = &["n_baseline", "n_before"];
    let mut estimates = 0;
    let servers = [&crate::whoop::CONNECTOR, crate::connector("personal").unwrap()];
    for tool in servers.iter().flat_map(|connector| connector.tools.iter()) {
        let schema = (tool.handler.output)();
        let mut shortfalls = 0;
        let mut is_insight = false;
        walk(&schema, &mut |part| {
            is_insight |= part.contains_key("summary") && part.contains_key("note");
            if part.contains_key("missing") {
                shortfalls += 1;
                let says = ["of", "have", "need"].iter().all(|name| part.contains_key(*name));
                assert!(says, "{}: {part:?}", tool.name);
            }
            let is_estimate = ESTIMATES.iter().any(|name| part.contains_key(*name));
            let is_counted = COUNTED_ABOVE.iter().any(|name| part.contains_key(*name));
            if is_estimate && !is_counted {
                estimates += 1;
                let has = |name: &str| part.contains_key(name);
                assert!(has("n") && has("n_eff"), "{}: {part:?}", tool.name);
            }
        });
        // Whoever estimates can have too little data, and says how much is missing.
        let is_plain = tool.name == "get_whoop_aggregates";
        assert!(!is_insight || is_plain || shortfalls > 0, "{}: no shortfall", tool.name);
    }
    assert!(estimates >= 20, "{estimates}");
}

/// With too little data each tool says what is counted, how much there is and how much is missing.
#[tokio::test]
async fn every_insight_with_too_little_data_says_how_much_is_missing() {
    let short = synced(3).await;
    for (tool, args) in TOOLS {
        let answer = short.call(tool, arguments(args)).await;
        let text = answer.to_string();
        assert!(text.contains("\"missing\":"), "{tool}: {text}");
        let summary = answer["summary"].to_string();
        assert!(summary.contains("more needed"), "{tool}: {summary}");
    }
}

#[tokio::test]
async fn a_summary_is_in_the_units_of_the_owner() {
    let mut fixture = synced(200).await;
    let load = json!({});
    let of = |answer: &Value| (answer["unit"].clone(), answer["load"]["ctl"].as_f64().unwrap());
    let calories = fixture.call("get_whoop_training_load", load.clone()).await;
    let celsius = fixture.call("get_whoop_baseline", json!({"metric": "skin_temperature"})).await;
    fixture.ctx.units = insights::Units { imperial: true, kilojoules: true };
    let joules = fixture.call("get_whoop_training_load", load).await;
    let fahrenheit =
        fixture.call("get_whoop_baseline", json!({"metric": "skin_temperature"})).await;
    let ((kcal, in_kcal), (kj, in_kj)) = (of(&calories), of(&joules));
    assert_eq!((kcal, kj), (json!("kilocalories"), json!("kilojoules")));
    assert!((in_kj / in_kcal - 4.184).abs() < 1e-3, "{in_kj} {in_kcal}");
    assert!(calories["summary"].to_string().contains(" kcal"), "{calories}");
    assert!(joules["summary"].to_string().contains(" kJ"), "{joules}");
    let median = |answer: &Value| answer["baselines"][1]["median"].as_f64().unwrap();
    let spread = |answer: &Value| answer["baselines"][1]["spread"].as_f64().unwrap();
    assert!((median(&fahrenheit) - (median(&celsius) * 1.8 + 32.0)).abs() < 1e-3);
    // A difference has no offset.
    assert!((spread(&fahrenheit) - spread(&celsius) * 1.8).abs() < 1e-3);
    assert!(fahrenheit["summary"].to_string().contains("°F"), "{fahrenheit}");
}

#[tokio::test]
async fn wrong_arguments_are_named() {
    let fixture = synced(10).await;
    for (tool, args) in [
        ("get_whoop_trend", json!({"metric": "mood"})),
        ("get_whoop_trend", json!({"metric": "hrv", "days": 0})),
        ("get_whoop_review", json!({"period": "year"})),
        ("get_whoop_relation", json!({"x": "hrv", "y": "strain", "lag_days": -1})),
        ("get_whoop_training_load", json!({"unit": "strain"})),
        ("query_whoop", json!({"sql": "select 1", "limit": 0})),
    ] {
        let answer = fixture.call(tool, args).await;
        assert_eq!(code(&answer), "VALIDATION_ERROR", "{tool}: {answer}");
    }
}

fn periods(first: [&str; 2], second: [&str; 2]) -> Value {
    json!({"first_from": first[0], "first_to": first[1], "second_from": second[0], "second_to": second[1]})
}

#[tokio::test]
async fn a_day_is_on_one_side_of_a_comparison_only() {
    let fixture = synced(100).await;
    let february = ["2026-02-01", "2026-02-28"];
    for overlapping in [february, ["2026-02-28", "2026-03-20"], ["2026-02-10", "2026-02-11"]] {
        for asked in [periods(february, overlapping), periods(overlapping, february)] {
            let answer = fixture.call("get_whoop_comparison", asked).await;
            assert_eq!(code(&answer), "VALIDATION_ERROR", "{answer}");
        }
    }
    let asked = periods(["2026-03-01", "2026-03-20"], february);
    let answer = fixture.call("get_whoop_comparison", asked).await;
    assert_eq!(answer["metrics"][0]["status"], "found", "{answer}");
}

#[tokio::test]
async fn a_review_of_the_past_is_that_of_its_last_day() {
    let fixture = fixture(500);
    fixture.call("sync_whoop", json!({ "full": true })).await;
    let review = |until: &'static str| json!({"period": "month", "until": until});
    let past = fixture.call("get_whoop_review", review("2025-03-01")).await;
    assert_eq!(past["to"], "2025-03-01");
    assert!(past["metrics"][0]["n"].as_u64().unwrap() > 40, "more than a year ago: {past}");
    let day = past["training_load"]["day"].as_str().unwrap();
    assert!(day <= "2025-03-01", "the load of {day}");
    let said = past["summary"].to_string();
    assert!(said.contains("mean of 2025-02-23 to 2025-03-01"), "{said}");
}

#[tokio::test]
async fn a_survey_of_two_weeks_judges_its_nights_by_the_days_before_them() {
    let fixture = synced(200).await;
    let answer = fixture.call("get_whoop_drivers", json!({ "days": 15 })).await;
    // Each of four vitals has episodes or none; two weeks are too few for every other look.
    assert!(answer["looks"].as_u64().unwrap() >= 4, "{answer}");
}
