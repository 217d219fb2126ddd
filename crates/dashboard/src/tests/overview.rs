//! What the first page counts.

use store::ledger::{Facts, Refusal, RefusalKind};

use super::*;

#[tokio::test]
async fn a_request_that_held_no_message_is_not_counted_as_a_call() {
    let stage = Stage::new();
    let cookie = stage.sign_in(Role::Admin);
    let ledger = &stage.dashboard.app.ledger;
    let denied = Refusal { kind: RefusalKind::Denied, code: "x", reason: "no" };
    let call = Facts { grant: "alice", server: "notes", method: "tools/call", ..Facts::default() };
    ledger.record(&denied, &call).unwrap();
    // A tab of a browser that was signed out, six times in a second.
    let stranger =
        Refusal { kind: RefusalKind::Unauthenticated, code: "401", reason: "no session" };
    let request = Facts { method: "(http)", ..Facts::default() };
    ledger.record_repeats(&stranger, &request, Some(6)).unwrap();
    ledger.record(&stranger, &request).unwrap();

    let twin: Value = serde_json::from_str(&text(&stage.get(&cookie, "/index.json"))).unwrap();
    assert_eq!([&twin["calls"], &twin["refused"], &twin["rejected"]], [&1, &1, &7], "{twin}");
    let page = text(&stage.get(&cookie, "/"));
    assert!(page.contains("1 call in the last 24 hours, 1 refused"), "{page}");
    assert!(page.contains(">7 requests</a> without a valid session or token"), "{page}");
}
