//! The number of requests of a sync, counted at the sandbox.

use serde_json::json;
use store::clock::Clock;

use crate::fixture::{DAY_US, Fixture, KINDS};

/// The paths of the six resources.
const PATHS: [&str; 6] = [
    "GET /developer/v2/cycle",
    "GET /developer/v2/recovery",
    "GET /developer/v2/activity/sleep",
    "GET /developer/v2/activity/workout",
    "GET /developer/v2/user/measurement/body",
    "GET /developer/v2/user/profile/basic",
];

/// Old records without a score, as years of use leave them.
fn unscore(fixture: &Fixture, score_state: &str, step: usize) -> usize {
    let mut count = 0;
    for (theirs, _) in KINDS {
        let key = if theirs == "recovery" { "sleep_id" } else { "id" };
        for record in fixture.sandbox.control().records(theirs).unwrap().iter().step_by(step) {
            let id = record[key].as_str().map_or_else(|| record[key].to_string(), str::to_owned);
            fixture.edit(theirs, &id, &json!({"score_state": score_state, "score": null}));
            count += 1;
        }
    }
    count
}

fn requests(fixture: &Fixture) -> u64 {
    fixture.sandbox.control().counters().requests
}

#[tokio::test]
async fn a_sync_with_nothing_new_asks_once_for_each_resource() {
    let clock = Clock::set(Clock::System.now());
    let fixture = Fixture::at(1_000, clock.clone());
    assert!(unscore(&fixture, "UNSCORABLE", 15) > 150);
    fixture.full().await;
    fixture.sandbox.control().reset_counters();
    for round in 1..=3 {
        fixture.good().await;
        let counters = fixture.sandbox.control().counters();
        for path in PATHS {
            assert_eq!(counters.paths.get(path), Some(&round), "{path}: {:?}", counters.paths);
        }
        assert_eq!(counters.requests, 6 * round, "{:?}", counters.paths);
    }
    // A day later some of the old ones are requested again, and no more of them that day.
    clock.advance(DAY_US + 1);
    let before = requests(&fixture);
    fixture.good().await;
    let first = requests(&fixture) - before;
    // Three of each list, and a refresh of the token, which has expired since.
    assert!((7..=6 + 12 + 1).contains(&first), "{first}");
    fixture.good().await;
    assert_eq!(requests(&fixture) - before - first, 6);
}

#[tokio::test]
async fn a_score_that_comes_late_is_found_within_the_same_requests() {
    let fixture = Fixture::new(60);
    let mut sleeps: Vec<_> = fixture.upstream("sleep").into_iter().collect();
    sleeps.sort_by_key(|(_, sleep)| sleep["start"].as_str().unwrap().to_owned());
    // Older than the week that every sync reads again.
    let (id, sleep) = sleeps[sleeps.len() - 14].clone();
    fixture.edit("sleep", &id, &json!({"score_state": "PENDING_SCORE", "score": null}));
    fixture.full().await;
    fixture.edit("sleep", &id, &json!({"score_state": "SCORED", "score": sleep["score"]}));
    fixture.sandbox.control().reset_counters();
    fixture.good().await;
    assert_eq!(fixture.mirrored("sleeps")[&id]["score_state"], "SCORED");
    assert_eq!(requests(&fixture), 6);
}

#[tokio::test]
async fn a_full_sync_costs_pages_and_not_years() {
    for days in [20, 200, 900] {
        let fixture = Fixture::new(days);
        fixture.full().await;
        let pages: usize =
            KINDS.iter().map(|(theirs, _)| fixture.upstream(theirs).len().div_ceil(25)).sum();
        // Two snapshots; at most one page too many where a year ends and where the history does.
        let years = usize::try_from(days).unwrap() / 365 + 1;
        let most = pages + 2 + KINDS.len() * 2 * years;
        let asked = usize::try_from(requests(&fixture)).unwrap();
        assert!(asked <= most, "{asked} requests for {pages} pages of {days} days");
        fixture.assert_equal();
    }
}
