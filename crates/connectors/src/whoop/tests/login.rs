//! The login as agents see it, the health check, and the older tools.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use sandbox::{Fault, What};
use serde_json::json;

use super::{NOW_US, code, stage};
use crate::Answer;
use crate::when;

#[tokio::test]
async fn the_status_follows_the_tokens() {
    let stage = stage(3);
    let valid = stage.call("get_whoop_auth_status", json!({})).await;
    assert_eq!(valid["status"], "valid");
    assert_eq!(valid["expires_at"], when::utc_micros(NOW_US + 3_600_000_000));
    assert_eq!(valid["has_refresh_token"], true);
    stage.clock.advance(2 * 3_600_000_000);
    assert_eq!(stage.call("get_whoop_auth_status", json!({})).await["status"], "expired");
    stage.desk.accounts.lock("whoop").unwrap().wipe().unwrap();
    assert_eq!(stage.call("get_whoop_auth_status", json!({})).await["status"], "no_tokens");
    let refused = stage.call("get_whoop_profile", json!({"fresh": true})).await;
    assert_eq!(
        (code(&refused), &refused["error"]["endpoint"]),
        ("AUTH_FAILED", &json!("/user/profile/basic"))
    );
}

#[tokio::test]
async fn health_is_the_worst_of_its_checks_and_asks_no_third_party() {
    let stage = stage(3);
    let offline = stage.call("health_check", json!({"live": "false"})).await;
    assert_eq!(offline["status"], "healthy", "{offline}");
    assert_eq!(offline["checks"]["api_reachable"]["status"], "skipped");
    assert_eq!(offline["checks"]["pypi_update_available"]["status"], "skipped");
    assert_eq!(offline["checks"]["cache_readable"]["rows_total"], 0);
    assert_eq!(offline["timestamp"], when::utc_micros(NOW_US));
    let live = stage.call("health_check", json!({})).await;
    assert_eq!(live["checks"]["api_reachable"]["detail"], "reachable");
    stage.whoop.control().fault(Fault::on(
        "/developer",
        What::Status { code: 403, retry_after: None, reset: None, body: None },
    ));
    let broken = stage.call("health_check", json!({})).await;
    assert_eq!(broken["status"], "unhealthy");
    stage.desk.accounts.lock("whoop").unwrap().wipe().unwrap();
    let signed_out = stage.call("health_check", json!({})).await;
    assert_eq!(signed_out["checks"]["api_reachable"]["detail"], "auth failed (401)");
    assert_eq!(signed_out["checks"]["auth"]["status"], "fail");
}

#[tokio::test]
async fn older_tools_give_whoops_json_as_sent() {
    let stage = stage(10);
    let page =
        stage.call("whoop-get-cycle-collection", json!({"limit": 3, "start": "2026-04-10"})).await;
    assert_eq!(page["records"].as_array().unwrap().len(), 3, "{page}");
    let record = &page["records"][0];
    assert!(record["user_id"].is_i64() && record.get("score").is_some(), "{record}");
    let same = stage.call("whoop-get-cycle-by-id", json!({"cycleId": record["id"]})).await;
    assert_eq!(&same, record);
    assert!(stage.call("whoop-get-user-profile", json!({})).await["user_id"].is_i64());
    assert!(
        stage.call("whoop-get-user-body-measurements", json!({})).await["max_heart_rate"].is_i64()
    );
    let missing = stage.answer("whoop-get-cycle-by-id", json!({"cycleId": 1})).await;
    assert!(matches!(missing, Answer::Failed { code: "NOT_FOUND", .. }), "{missing:?}");
    let bad = stage.answer("whoop-get-sleep-collection", json!({"limit": 26})).await;
    assert!(matches!(bad, Answer::Failed { .. }), "{bad:?}");
}

#[tokio::test]
async fn no_token_appears_in_an_answer_of_the_older_tools() {
    let stage = stage(3);
    let before = stage.desk.accounts.load("whoop").unwrap().unwrap();
    let url = stage.answer("whoop-get-authorization-url", json!({})).await;
    let Answer::Said { text, .. } = &url else { unreachable!("{url:?}") };
    assert!(
        text.starts_with("Authorization URL: ")
            && text.contains("offline")
            && text.contains("state=")
    );
    let refreshed = stage.call("whoop-refresh-token", json!({"refreshToken": "mine"})).await;
    assert_eq!(refreshed["status"], "success", "{refreshed}");
    let after = stage.desk.accounts.load("whoop").unwrap().unwrap();
    assert_ne!(before.refresh, after.refresh, "the rotated token is kept");
    let set = stage.call("whoop-set-access-token", json!({"accessToken": "x"})).await;
    assert_eq!(set["failed"], "refused");
    let shown = [text.clone(), refreshed.to_string(), set.to_string()].join("\n");
    for secret in before.secrets().chain(after.secrets()) {
        assert!(!shown.contains(secret.expose().as_str()));
    }
    let revoked = stage.answer("whoop-revoke-user-access", json!({})).await;
    let Answer::Said { text, .. } = &revoked else { unreachable!("{revoked:?}") };
    assert_eq!(text, "User access revoked successfully");
    assert_eq!(stage.desk.accounts.load("whoop").unwrap(), None);
    assert_eq!(
        stage.call("get_whoop_profile", json!({"fresh": true})).await["error"]["code"],
        json!("AUTH_FAILED")
    );
}
