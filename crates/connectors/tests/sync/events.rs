//! Readers of events while syncs store older changes.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE;
use connectors::ConnectorContext;
use connectors::sync::{EventsRequest, SyncRequest};
use connectors::whoop::sync::MIRROR;
use serde_json::Value;

use super::fixture::Fixture;

fn events(ctx: &ConnectorContext, since: &str) -> Vec<String> {
    let asked = EventsRequest { since, until: None, resources: None, limit: 5_000 };
    let answer = (MIRROR.events)(ctx, &asked).unwrap();
    let text = |event: &Value, key: &str| event[key].as_str().unwrap().to_owned();
    let place = |event: &Value| ["updated_at", "resource", "id"].map(|key| text(event, key));
    answer["events"].as_array().unwrap().iter().map(|event| place(event).join("|")).collect()
}

/// As documented: a reader may continue from its last event.
fn cursor(events: &[String]) -> String {
    URL_SAFE.encode(events.last().unwrap())
}

#[tokio::test]
async fn late_changes_are_reported_once_to_each_process() {
    let fixture = Fixture::new(40);
    let some = SyncRequest { since: Some("last 10 days".into()), ..SyncRequest::default() };
    assert_eq!(fixture.sync(&some).await["status"], "success");
    let first = events(&fixture.ctx, "2010-01-01");
    assert_eq!(fixture.full().await["status"], "success");
    let mut whole = events(&fixture.second_desk(), "2010-01-01");
    assert_eq!(whole.last(), first.last(), "both have come to the same place");
    let late = events(&fixture.ctx, &cursor(&first));
    assert!(late.is_sorted(), "a page has the documented order");
    let mut all = [first, late.clone()].concat();
    all.sort_unstable();
    whole.sort_unstable();
    assert_eq!(all, whole);
    assert_eq!(events(&fixture.ctx, &cursor(&late)), [""; 0], "nothing comes twice");
}
