//! Content of the mirror after a sync, and repeated syncs.

use connectors::sync::SyncRequest;
use connectors::whoop::api::{self, Bounds, WaitPolicy};
use connectors::whoop::kind::Kind;
use connectors::whoop::mirror_writer::store_page;
use sandbox::{Fault, FaultKind};
use serde_json::{Value, json};
use store::clock::Clock;

use crate::fixture::{DAY_US, Fixture, KINDS};

#[tokio::test]
async fn a_full_sync_brings_everything_byte_for_byte_and_once() {
    let fixture = Fixture::new(1_200);
    let result = fixture.full().await;
    assert_eq!(result["status"], "success", "{result}");
    fixture.assert_equal();
    for (theirs, ours) in KINDS {
        let count = fixture.upstream(theirs).len();
        let part = &result["resources"][ours];
        assert_eq!(part["records_fetched"], count, "{ours}: on an edge counts once");
        assert_eq!(part["records_upserted"], count, "{ours}");
        let newest = fixture.ctx.records.newest_updated("whoop", ours).unwrap().unwrap();
        assert_eq!(part["cursor_after"], newest.0);
    }
    assert_eq!(result["resources"]["profile"]["records_upserted"], 1);
    assert_eq!(result["resources"]["profile"]["cursor_after"], Value::Null);
    // A full sync finds nothing new.
    let again = fixture.full().await;
    for (_, ours) in KINDS {
        assert_eq!(again["resources"][ours]["records_upserted"], 0, "{ours}");
    }
    assert_eq!(again["resources"]["body_measurement"]["records_upserted"], 0);
    let runs = fixture.ctx.records.runs("whoop", 6).unwrap();
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
    let fixture = Fixture::new(3_650);
    fixture.sandbox.control().fault(Fault::on("/developer", FaultKind::Delay { ms: 5 }));
    fixture.full().await;
    let pages: usize =
        KINDS.iter().map(|(theirs, _)| fixture.upstream(theirs).len().div_ceil(25)).sum();
    let counters = fixture.sandbox.control().counters();
    let requests = usize::try_from(counters.requests).unwrap();
    assert!(requests < pages + pages / 4, "{requests} requests for {pages} pages");
    assert!(counters.requests_at_once_max >= 8, "{}", counters.requests_at_once_max);
    fixture.assert_equal();
}

#[tokio::test]
async fn a_fresh_mirror_gets_ninety_days_and_then_what_is_new() {
    let fixture = Fixture::new(200);
    fixture.good().await;
    let all = fixture.upstream("cycle").len();
    let some = fixture.mirrored("cycles").len();
    assert!((85..=93).contains(&some) && some < all, "{some} of {all}");
    let before = fixture.sandbox.control().counters().requests;
    fixture.good().await;
    let asked = fixture.sandbox.control().counters().requests - before;
    assert!(asked <= 12, "{asked} requests for nothing new");
}

#[tokio::test]
async fn late_scores_edits_and_deletions_are_synced() {
    let fixture = Fixture::new(120);
    fixture.full().await;
    let mut sleeps: Vec<String> = fixture.upstream("sleep").into_keys().collect();
    let by_start =
        |id: &String| fixture.upstream("sleep")[id]["start"].as_str().unwrap().to_owned();
    sleeps.sort_by_key(by_start);
    // An old night loses its score upstream and is mirrored so; later it is scored again.
    let old = sleeps[5].clone();
    let score = fixture.upstream("sleep")[&old]["score"].clone();
    fixture.edit("sleep", &old, &json!({"score_state": "PENDING_SCORE", "score": null}));
    fixture.full().await;
    assert_eq!(fixture.mirrored("sleeps")[&old]["score_state"], "PENDING_SCORE");
    fixture.edit("sleep", &old, &json!({"score_state": "SCORED", "score": score}));
    // A night of this week is edited; another one and an old unscored one are deleted.
    let (edited, gone) = (sleeps[sleeps.len() - 3].clone(), sleeps[sleeps.len() - 4].clone());
    fixture.edit("sleep", &edited, &json!({"nap": true}));
    fixture.sandbox.control().remove("sleep", &gone).unwrap();
    let result = fixture.good().await;
    let mirrored = fixture.mirrored("sleeps");
    assert_eq!(mirrored[&old]["score_state"], "SCORED");
    assert_eq!(mirrored[&edited]["nap"], true);
    assert!(!mirrored.contains_key(&gone));
    assert_eq!(result["resources"]["sleeps"]["records_removed"], 1, "{result}");
    fixture.assert_equal();
    let gone_rows = fixture.ctx.records.deleted_since("whoop", &["sleeps"], 0, 10).unwrap();
    assert_eq!(gone_rows.iter().map(|row| row.id.as_str()).collect::<Vec<_>>(), [gone]);
}

#[tokio::test]
async fn days_that_pass_are_brought_by_the_next_sync() {
    let fixture = Fixture::new(30);
    fixture.full().await;
    fixture.sandbox.control().advance(3 * DAY_US);
    fixture.good().await;
    fixture.assert_equal();
}

#[tokio::test]
async fn a_since_after_a_long_pause_does_not_hide_the_pause_from_the_next_sync() {
    let clock = Clock::set(Clock::System.now());
    let fixture = Fixture::at(30, clock.clone());
    fixture.full().await;
    // More than the ninety days that any sync looks back.
    clock.advance(200 * DAY_US);
    fixture.sandbox.control().advance(200 * DAY_US);
    let since = SyncRequest { since: Some("last 5 days".into()), ..SyncRequest::default() };
    // The first is interrupted, the second completes.
    let broken = FaultKind::Status { code: 418, retry_after: None, reset: None, body: None };
    fixture.sandbox.control().fault(Fault::on("/developer/v2/activity", broken));
    assert_eq!(fixture.sync(&since).await["status"], "partial");
    fixture.sandbox.control().clear_faults();
    assert_eq!(fixture.sync(&since).await["status"], "success");
    assert!(fixture.mirrored("cycles").len() < 60);
    fixture.good().await;
    fixture.assert_equal();
}

#[tokio::test]
async fn a_record_on_the_edge_of_since_is_neither_lost_nor_taken_for_deleted() {
    let fixture = Fixture::new(60);
    let mut starts: Vec<String> = fixture
        .upstream("workout")
        .into_values()
        .map(|record| record["start"].as_str().unwrap().to_owned())
        .collect();
    starts.sort_unstable();
    let edge = starts[starts.len() / 2].clone();
    let expected: Vec<String> = starts.iter().filter(|start| **start >= edge).cloned().collect();
    let since = SyncRequest { since: Some(edge), ..SyncRequest::default() };
    for _ in 0..2 {
        fixture.sync(&since).await;
        let mut kept: Vec<String> = fixture
            .mirrored("workouts")
            .into_values()
            .map(|record| record["start"].as_str().unwrap().to_owned())
            .collect();
        kept.sort_unstable();
        assert_eq!(kept, expected);
    }
    fixture.good().await;
    fixture.assert_equal();
}

#[tokio::test]
async fn since_and_resources_choose_what_is_fetched() {
    let fixture = Fixture::new(60);
    let asked = SyncRequest {
        since: Some("last 10 days".into()),
        resources: Some(vec!["workouts".into(), "cycles".into()]),
        ..SyncRequest::default()
    };
    let result = fixture.sync(&asked).await;
    let names: Vec<&String> = result["resources"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["workouts", "cycles"]);
    assert!((10..=13).contains(&fixture.mirrored("cycles").len()), "{result}");
    assert!(fixture.mirrored("sleeps").is_empty());

    let unknown = SyncRequest { resources: Some(vec!["naps".into()]), ..SyncRequest::default() };
    let before = fixture.sandbox.control().counters().requests;
    let result = fixture.sync(&unknown).await;
    assert_eq!(result["status"], "error");
    assert_eq!(result["warnings"], json!(["unknown resource: naps"]));
    assert_eq!(fixture.sandbox.control().counters().requests, before, "no request was sent");

    let nothing = SyncRequest { resources: Some(Vec::new()), ..SyncRequest::default() };
    assert_eq!(fixture.sync(&nothing).await["status"], "success");

    let wrong = SyncRequest { since: Some("soonish".into()), ..SyncRequest::default() };
    let result = fixture.sync(&wrong).await;
    assert_eq!(result["status"], "partial", "snapshots know no time: {result}");
    let error = result["resources"]["cycles"]["error"].as_str().unwrap();
    assert!(error.starts_with("VALIDATION_ERROR: "), "{error}");
    let run = fixture.ctx.records.runs("whoop", 6).unwrap().pop().unwrap();
    assert_eq!((run.status.as_str(), run.since.as_deref()), ("error", Some("soonish")));
}

#[tokio::test]
async fn a_since_that_lies_ahead_brings_nothing_and_one_before_all_time_asks_no_more_than_full() {
    let fixture = Fixture::new(60);
    let since = |since: &str| SyncRequest { since: Some(since.into()), ..SyncRequest::default() };
    for ahead in ["tomorrow", "2099-01-01"] {
        let result = fixture.sync(&since(ahead)).await;
        assert_eq!(result["status"], "success", "{ahead}: {result}");
        assert!(fixture.mirrored("workouts").is_empty(), "{ahead}");
    }
    let requests = || fixture.sandbox.control().counters().requests;
    let before = requests();
    fixture.full().await;
    let full = requests() - before;
    fixture.assert_equal();
    let result = fixture.sync(&since("0001-01-01")).await;
    assert_eq!(result["status"], "success", "{result}");
    assert_eq!(requests() - before - full, full, "the years before 2010 are asked for one by one");
    fixture.assert_equal();
}

/// P32: any page, in any order, any number of times.
#[tokio::test]
async fn keeping_pages_again_in_any_order_changes_nothing() {
    let fixture = Fixture::new(150);
    fixture.full().await;
    let digest = |fixture: &Fixture| {
        let kinds = KINDS.map(|(_, ours)| fixture.mirrored(ours));
        (serde_json::to_string(&kinds.to_vec()).unwrap(), fixture.ctx.records.newest_seq().unwrap())
    };
    let before = digest(&fixture);
    let mut pages = Vec::new();
    for kind in Kind::LISTS {
        let all = api::collect(&fixture.ctx, kind, Bounds::default(), None, WaitPolicy::BRIEF)
            .await
            .unwrap();
        let texts: Vec<String> = all.records.iter().map(|raw| raw.get().to_owned()).collect();
        pages.extend(texts.chunks(25).map(|page| (kind, page.to_vec())));
    }
    let mut chance: u64 = 9;
    for _ in 0..100 {
        // A small deterministic generator: the order differs each time and is the same on every run.
        chance =
            chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let first = usize::try_from(chance >> 33).unwrap() % pages.len();
        for offset in 0..pages.len() {
            let (kind, page) = &pages[(first + offset * 7) % pages.len()];
            store_page(&fixture.ctx, *kind, page).unwrap();
        }
        assert!(digest(&fixture) == before);
    }
}

#[tokio::test]
async fn an_unreadable_record_is_kept_and_reported() {
    let fixture = Fixture::new(30);
    let id = fixture.upstream("cycle").into_keys().next().unwrap();
    fixture.edit("cycle", &id, &json!({"score": {"strain": "a lot"}}));
    let result = fixture.full().await;
    assert_eq!(result["status"], "success");
    let warnings = result["warnings"].to_string();
    assert!(warnings.contains(&id) && warnings.contains("strain"), "{warnings}");
    assert!(!warnings.contains("a lot"), "values stay out of warnings: {warnings}");
    assert_eq!(fixture.mirrored("cycles").len(), fixture.upstream("cycle").len());
}
