//! What a sync brings, and that bringing it again changes nothing.

use connectors::sync::Asked;
use connectors::whoop::api::{self, Bounds, Patience};
use connectors::whoop::keep::keep;
use connectors::whoop::kind::Kind;
use sandbox::{Fault, What};
use serde_json::{Value, json};
use store::clock::Clock;

use crate::stage::{DAY_US, KINDS, Stage};

#[tokio::test]
async fn a_full_sync_brings_everything_byte_for_byte_and_once() {
    let stage = Stage::new(1_200);
    let result = stage.full().await;
    assert_eq!(result["status"], "success", "{result}");
    stage.assert_equal();
    for (theirs, ours) in KINDS {
        let count = stage.upstream(theirs).len();
        let part = &result["resources"][ours];
        assert_eq!(part["records_fetched"], count, "{ours}: on an edge counts once");
        assert_eq!(part["records_upserted"], count, "{ours}");
        let newest = stage.desk.records.newest_updated("whoop", ours).unwrap().unwrap();
        assert_eq!(part["cursor_after"], newest.0);
    }
    assert_eq!(result["resources"]["profile"]["records_upserted"], 1);
    assert_eq!(result["resources"]["profile"]["cursor_after"], Value::Null);
    // The whole of it again is nothing new.
    let again = stage.full().await;
    for (_, ours) in KINDS {
        assert_eq!(again["resources"][ours]["records_upserted"], 0, "{ours}");
    }
    assert_eq!(again["resources"]["body_measurement"]["records_upserted"], 0);
    let runs = stage.desk.records.runs("whoop", 6).unwrap();
    let names: Vec<&str> = runs.iter().rev().map(|run| run.resource.as_str()).collect();
    assert_eq!(
        names,
        ["cycles", "recoveries", "sleeps", "workouts", "body_measurement", "profile"]
    );
    assert!(runs.iter().all(|run| run.status == "success"));
    assert_eq!(runs[5].since.as_deref(), Some("2010-01-01T00:00:00Z"));
}

#[tokio::test]
async fn ten_years_take_hardly_more_requests_than_pages() {
    let stage = Stage::new(3_650);
    stage.sandbox.control().fault(Fault::on("/developer", What::Delay { ms: 5 }));
    stage.full().await;
    let pages: usize =
        KINDS.iter().map(|(theirs, _)| stage.upstream(theirs).len().div_ceil(25)).sum();
    let counters = stage.sandbox.control().counters();
    let requests = usize::try_from(counters.requests).unwrap();
    assert!(requests < pages + pages / 4, "{requests} requests for {pages} pages");
    assert!(counters.requests_at_once_max >= 8, "{}", counters.requests_at_once_max);
    stage.assert_equal();
}

#[tokio::test]
async fn a_fresh_mirror_gets_ninety_days_and_then_what_is_new() {
    let stage = Stage::new(200);
    stage.good().await;
    let all = stage.upstream("cycle").len();
    let some = stage.mirrored("cycles").len();
    assert!((85..=93).contains(&some) && some < all, "{some} of {all}");
    let before = stage.sandbox.control().counters().requests;
    stage.good().await;
    let asked = stage.sandbox.control().counters().requests - before;
    assert!(asked <= 12, "{asked} requests for nothing new");
}

#[tokio::test]
async fn late_scores_edits_and_deletions_arrive() {
    let stage = Stage::new(120);
    stage.full().await;
    let mut sleeps: Vec<String> = stage.upstream("sleep").into_keys().collect();
    let by_start = |id: &String| stage.upstream("sleep")[id]["start"].as_str().unwrap().to_owned();
    sleeps.sort_by_key(by_start);
    // An old night loses its score upstream and is mirrored so; later it is scored again.
    let old = sleeps[5].clone();
    let score = stage.upstream("sleep")[&old]["score"].clone();
    stage.edit("sleep", &old, &json!({"score_state": "PENDING_SCORE", "score": null}));
    stage.full().await;
    assert_eq!(stage.mirrored("sleeps")[&old]["score_state"], "PENDING_SCORE");
    stage.edit("sleep", &old, &json!({"score_state": "SCORED", "score": score}));
    // A night of this week is edited, another one goes, and so does an old one without a score.
    let (edited, gone) = (sleeps[sleeps.len() - 3].clone(), sleeps[sleeps.len() - 4].clone());
    stage.edit("sleep", &edited, &json!({"nap": true}));
    stage.sandbox.control().remove("sleep", &gone).unwrap();
    let result = stage.good().await;
    let mirrored = stage.mirrored("sleeps");
    assert_eq!(mirrored[&old]["score_state"], "SCORED");
    assert_eq!(mirrored[&edited]["nap"], true);
    assert!(!mirrored.contains_key(&gone));
    assert_eq!(result["resources"]["sleeps"]["records_removed"], 1, "{result}");
    stage.assert_equal();
    let gone_rows = stage.desk.records.gone_since("whoop", &["sleeps"], 0, 10).unwrap();
    assert_eq!(gone_rows.iter().map(|row| row.id.as_str()).collect::<Vec<_>>(), [gone]);
}

#[tokio::test]
async fn days_that_pass_are_brought_by_the_next_sync() {
    let stage = Stage::new(30);
    stage.full().await;
    stage.sandbox.control().advance(3 * DAY_US);
    stage.good().await;
    stage.assert_equal();
}

#[tokio::test]
async fn a_since_after_a_long_pause_does_not_hide_the_pause_from_the_next_sync() {
    let clock = Clock::set(Clock::System.now());
    let stage = Stage::at(30, clock.clone());
    stage.full().await;
    // More than the ninety days that any sync looks back.
    clock.advance(200 * DAY_US);
    stage.sandbox.control().advance(200 * DAY_US);
    let since = Asked { since: Some("last 5 days".into()), ..Asked::default() };
    // The first is cut short, the second ends.
    let broken = What::Status { code: 418, retry_after: None, reset: None, body: None };
    stage.sandbox.control().fault(Fault::on("/developer/v2/activity", broken));
    assert_eq!(stage.sync(&since).await["status"], "partial");
    stage.sandbox.control().clear_faults();
    assert_eq!(stage.sync(&since).await["status"], "success");
    assert!(stage.mirrored("cycles").len() < 60);
    stage.good().await;
    stage.assert_equal();
}

#[tokio::test]
async fn a_record_on_the_edge_of_since_is_neither_lost_nor_taken_for_deleted() {
    let stage = Stage::new(60);
    let mut starts: Vec<String> = stage
        .upstream("workout")
        .into_values()
        .map(|record| record["start"].as_str().unwrap().to_owned())
        .collect();
    starts.sort_unstable();
    let edge = starts[starts.len() / 2].clone();
    let expected: Vec<String> = starts.iter().filter(|start| **start >= edge).cloned().collect();
    let since = Asked { since: Some(edge), ..Asked::default() };
    for _ in 0..2 {
        stage.sync(&since).await;
        let mut kept: Vec<String> = stage
            .mirrored("workouts")
            .into_values()
            .map(|record| record["start"].as_str().unwrap().to_owned())
            .collect();
        kept.sort_unstable();
        assert_eq!(kept, expected);
    }
    stage.good().await;
    stage.assert_equal();
}

#[tokio::test]
async fn since_and_resources_choose_what_is_fetched() {
    let stage = Stage::new(60);
    let asked = Asked {
        since: Some("last 10 days".into()),
        resources: Some(vec!["workouts".into(), "cycles".into()]),
        ..Asked::default()
    };
    let result = stage.sync(&asked).await;
    let names: Vec<&String> = result["resources"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["workouts", "cycles"]);
    assert!((10..=13).contains(&stage.mirrored("cycles").len()), "{result}");
    assert!(stage.mirrored("sleeps").is_empty());

    let unknown = Asked { resources: Some(vec!["naps".into()]), ..Asked::default() };
    let before = stage.sandbox.control().counters().requests;
    let result = stage.sync(&unknown).await;
    assert_eq!(result["status"], "error");
    assert_eq!(result["warnings"], json!(["unknown resource: naps"]));
    assert_eq!(stage.sandbox.control().counters().requests, before, "nobody was asked");

    let nothing = Asked { resources: Some(Vec::new()), ..Asked::default() };
    assert_eq!(stage.sync(&nothing).await["status"], "success");

    let wrong = Asked { since: Some("soonish".into()), ..Asked::default() };
    let result = stage.sync(&wrong).await;
    assert_eq!(result["status"], "partial", "snapshots know no time: {result}");
    let error = result["resources"]["cycles"]["error"].as_str().unwrap();
    assert!(error.starts_with("VALIDATION_ERROR: "), "{error}");
    let run = stage.desk.records.runs("whoop", 6).unwrap().pop().unwrap();
    assert_eq!((run.status.as_str(), run.since.as_deref()), ("error", Some("soonish")));
}

#[tokio::test]
async fn a_since_that_lies_ahead_brings_nothing_and_one_before_all_time_asks_no_more_than_full() {
    let stage = Stage::new(60);
    let since = |since: &str| Asked { since: Some(since.into()), ..Asked::default() };
    for ahead in ["tomorrow", "2099-01-01"] {
        let result = stage.sync(&since(ahead)).await;
        assert_eq!(result["status"], "success", "{ahead}: {result}");
        assert!(stage.mirrored("workouts").is_empty(), "{ahead}");
    }
    let requests = || stage.sandbox.control().counters().requests;
    let before = requests();
    stage.full().await;
    let full = requests() - before;
    stage.assert_equal();
    let result = stage.sync(&since("0001-01-01")).await;
    assert_eq!(result["status"], "success", "{result}");
    assert_eq!(requests() - before - full, full, "the years before 2010 are asked for one by one");
    stage.assert_equal();
}

/// P32: any page, in any order, any number of times.
#[tokio::test]
async fn keeping_pages_again_in_any_order_changes_nothing() {
    let stage = Stage::new(150);
    stage.full().await;
    let digest = |stage: &Stage| {
        let kinds = KINDS.map(|(_, ours)| stage.mirrored(ours));
        (serde_json::to_string(&kinds.to_vec()).unwrap(), stage.desk.records.newest_seq().unwrap())
    };
    let before = digest(&stage);
    let mut pages = Vec::new();
    for kind in Kind::LISTS {
        let all = api::collect(&stage.desk, kind, Bounds::default(), None, Patience::BRIEF)
            .await
            .unwrap();
        let texts: Vec<String> = all.records.iter().map(|raw| raw.get().to_owned()).collect();
        pages.extend(texts.chunks(25).map(|page| (kind, page.to_vec())));
    }
    let mut chance: u64 = 9;
    for _ in 0..100 {
        // A small generator of our own: the order differs each time and is the same on every run.
        chance =
            chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let first = usize::try_from(chance >> 33).unwrap() % pages.len();
        for offset in 0..pages.len() {
            let (kind, page) = &pages[(first + offset * 7) % pages.len()];
            keep(&stage.desk, *kind, page).unwrap();
        }
        assert!(digest(&stage) == before);
    }
}

#[tokio::test]
async fn a_record_that_cannot_be_read_is_kept_and_said() {
    let stage = Stage::new(30);
    let id = stage.upstream("cycle").into_keys().next().unwrap();
    stage.edit("cycle", &id, &json!({"score": {"strain": "a lot"}}));
    let result = stage.full().await;
    assert_eq!(result["status"], "success");
    let warnings = result["warnings"].to_string();
    assert!(warnings.contains(&id) && warnings.contains("strain"), "{warnings}");
    assert!(!warnings.contains("a lot"), "values stay out of warnings: {warnings}");
    assert_eq!(stage.mirrored("cycles").len(), stage.upstream("cycle").len());
}
