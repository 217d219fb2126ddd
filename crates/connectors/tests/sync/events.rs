//! Readers of the events while syncs bring older changes behind their backs.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE;
use connectors::Desk;
use connectors::sync::{Asked, EventsAsked};
use connectors::whoop::sync::MIRROR;
use serde_json::Value;

use super::stage::Stage;

fn events(desk: &Desk, since: &str) -> Vec<String> {
    let asked = EventsAsked { since, until: None, resources: None, limit: 5_000 };
    let answer = (MIRROR.events)(desk, &asked).unwrap();
    let text = |event: &Value, key: &str| event[key].as_str().unwrap().to_owned();
    let place = |event: &Value| ["updated_at", "resource", "id"].map(|key| text(event, key));
    answer["events"].as_array().unwrap().iter().map(|event| place(event).join("|")).collect()
}

/// As documented: a reader may go on from the last event it was given.
fn cursor(events: &[String]) -> String {
    URL_SAFE.encode(events.last().unwrap())
}

#[tokio::test]
async fn what_came_late_is_told_once_to_each_process() {
    let stage = Stage::new(40);
    let some = Asked { since: Some("last 10 days".into()), ..Asked::default() };
    assert_eq!(stage.sync(&some).await["status"], "success");
    let first = events(&stage.desk, "2010-01-01");
    assert_eq!(stage.full().await["status"], "success");
    let mut whole = events(&stage.second_desk(), "2010-01-01");
    assert_eq!(whole.last(), first.last(), "both have come to the same place");
    let late = events(&stage.desk, &cursor(&first));
    assert!(late.is_sorted(), "a page has the documented order");
    let mut all = [first, late.clone()].concat();
    all.sort_unstable();
    whole.sort_unstable();
    assert_eq!(all, whole);
    assert_eq!(events(&stage.desk, &cursor(&late)), [""; 0], "nothing comes twice");
}
