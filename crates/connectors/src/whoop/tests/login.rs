//! The login as agents see it, the health check, and the older tools.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use sandbox::{Fault, FaultKind};
use serde_json::json;

use super::{NOW_US, code, fixture};
use crate::Answer;
use crate::when;

#[tokio::test]
async fn the_status_follows_the_tokens() {
    let fixture = fixture(3);
    let valid = fixture.call("get_whoop_auth_status", json!({})).await;
    assert_eq!(valid["status"], "valid");
    assert_eq!(valid["expires_at"], when::utc_micros(NOW_US + 3_600_000_000));
    assert_eq!(valid["has_refresh_token"], true);
    fixture.clock.advance(2 * 3_600_000_000);
    assert_eq!(fixture.call("get_whoop_auth_status", json!({})).await["status"], "expired");
    fixture.ctx.accounts.lock("whoop").unwrap().wipe().unwrap();
    assert_eq!(fixture.call("get_whoop_auth_status", json!({})).await["status"], "no_tokens");
    let refused = fixture.call("get_whoop_profile", json!({"fresh": true})).await;
    assert_eq!(
        (code(&refused), &refused["error"]["endpoint"]),
        ("AUTH_FAILED", &json!("/user/profile/basic"))
    );
}

#[tokio::test]
async fn health_is_the_worst_of_its_checks_and_asks_no_third_party() {
    let fixture = fixture(3);
    let offline = fixture.call("health_check", json!({"live": "false"})).await;
    assert_eq!(offline["status"], "healthy", "{offline}");
    assert_eq!(offline["checks"]["api_reachable"]["status"], "skipped");
    assert_eq!(offline["checks"]["pypi_update_available"]["status"], "skipped");
    assert_eq!(offline["checks"]["cache_readable"]["rows_total"], 0);
    assert_eq!(offline["timestamp"], when::utc_micros(NOW_US));
    let live = fixture.call("health_check", json!({})).await;
    assert_eq!(live["checks"]["api_reachable"]["detail"], "reachable");
    fixture.whoop.control().fault(Fault::on(
        "/developer",
        FaultKind::Status { code: 403, retry_after: None, reset: None, body: None },
    ));
    let broken = fixture.call("health_check", json!({})).await;
    assert_eq!(broken["status"], "unhealthy");
    fixture.ctx.accounts.lock("whoop").unwrap().wipe().unwrap();
    let signed_out = fixture.call("health_check", json!({})).await;
    assert_eq!(signed_out["checks"]["api_reachable"]["detail"], "auth failed (401)");
    assert_eq!(signed_out["checks"]["auth"]["status"], "fail");
}

#[tokio::test]
async fn older_tools_give_whoops_json_as_sent() {
    let fixture = fixture(10);
    let page = fixture
        .call("whoop-get-cycle-collection", json!({"limit": 3, "start": "2026-04-10"}))
        .await;
    assert_eq!(page["records"].as_array().unwrap().len(), 3, "{page}");
    let record = &page["records"][0];
    assert!(record["user_id"].is_i64() && record.get("score").is_some(), "{record}");
    let same = fixture.call("whoop-get-cycle-by-id", json!({"cycleId": record["id"]})).await;
    assert_eq!(&same, record);
    assert!(fixture.call("whoop-get-user-profile", json!({})).await["user_id"].is_i64());
    assert!(
        fixture.call("whoop-get-user-body-measurements", json!({})).await["max_heart_rate"]
            .is_i64()
    );
    let missing = fixture.answer("whoop-get-cycle-by-id", json!({"cycleId": 1})).await;
    let Answer::Failed { code: "NOT_FOUND", message: words } = &missing else {
        unreachable!("{missing:?}")
    };
    assert_eq!(words, "resource not found", "the code is said once");
    let bad = fixture.answer("whoop-get-sleep-collection", json!({"limit": 26})).await;
    assert!(matches!(bad, Answer::Failed { .. }), "{bad:?}");
}

#[tokio::test]
async fn a_bare_date_of_the_older_tools_is_the_owners_day_before_there_is_a_mirror() {
    let fixture = fixture(10);
    let newest = fixture.whoop.control().records("cycle").unwrap();
    let newest = newest.iter().max_by_key(|cycle| cycle["start"].to_string()).unwrap();
    let id = newest["id"].to_string();
    let patch = json!({"timezone_offset": "+05:45"});
    fixture.whoop.control().edit("cycle", &id, &patch).unwrap();
    let days = json!({"start": "2026-04-10", "end": "2026-04-10"});
    let nights = fixture.call("whoop-get-sleep-collection", days.clone()).await;
    let instants = json!({"start": "2026-04-09T18:15:00Z", "end": "2026-04-10T18:15:00Z"});
    assert_eq!(nights, fixture.call("whoop-get-sleep-collection", instants).await);
    let before = fixture.requests();
    fixture.call("whoop-get-sleep-collection", days).await;
    assert_eq!(fixture.requests(), before + 1, "where the owner is was asked once");
}

#[tokio::test]
async fn no_token_appears_in_an_answer_of_the_older_tools() {
    let fixture = fixture(3);
    let before = fixture.ctx.accounts.load("whoop").unwrap().unwrap();
    let url = fixture.answer("whoop-get-authorization-url", json!({})).await;
    let Answer::Text { text, .. } = &url else { unreachable!("{url:?}") };
    assert!(
        text.starts_with("Authorization URL: ")
            && text.contains("offline")
            && text.contains("state=")
    );
    let refreshed = fixture.call("whoop-refresh-token", json!({"refreshToken": "mine"})).await;
    assert_eq!(refreshed["status"], "success", "{refreshed}");
    let after = fixture.ctx.accounts.load("whoop").unwrap().unwrap();
    assert_ne!(before.refresh, after.refresh, "the rotated token is kept");
    let set = fixture.call("whoop-set-access-token", json!({"accessToken": "x"})).await;
    assert_eq!(set["failed"], "AUTH_FAILED", "{set}");
    assert_eq!(fixture.ctx.accounts.load("whoop").unwrap().unwrap(), after, "nothing changed");
    let shown = [text.clone(), refreshed.to_string(), set.to_string()].join("\n");
    for secret in before.secrets().chain(after.secrets()) {
        assert!(!shown.contains(secret.expose().as_str()));
    }
    let revoked = fixture.answer("whoop-revoke-user-access", json!({})).await;
    let Answer::Text { text, .. } = &revoked else { unreachable!("{revoked:?}") };
    assert_eq!(text, "User access revoked successfully");
    assert_eq!(fixture.ctx.accounts.load("whoop").unwrap(), None);
    assert_eq!(
        fixture.call("get_whoop_profile", json!({"fresh": true})).await["error"]["code"],
        json!("AUTH_FAILED")
    );
}

/// Where the sandbox sends the browser: it consents at once.
fn code_of(url: &str) -> String {
    use std::io::{Read as _, Write as _};
    let rest = url.strip_prefix("http://").unwrap();
    let (host, path) = rest.split_once('/').unwrap();
    let mut stream = std::net::TcpStream::connect(host).unwrap();
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (_, code) = answer.split_once("code=").unwrap();
    code.split(['&', '\r']).next().unwrap().to_owned()
}

#[tokio::test]
async fn a_code_is_exchanged_into_the_vault_and_a_wrong_one_changes_nothing() {
    let fixture = fixture(3);
    fixture.call("sync_whoop", json!({})).await;
    let before = fixture.ctx.accounts.load("whoop").unwrap().unwrap();
    let wrong = fixture.answer("whoop-exchange-code-for-token", json!({"code": "nonsense"})).await;
    let Answer::Failed { code: "AUTH_FAILED", message: words } = &wrong else {
        unreachable!("{wrong:?}")
    };
    assert!(words.contains("invalid_grant") && !words.contains("nonsense"), "{words}");
    assert_eq!(fixture.ctx.accounts.load("whoop").unwrap().unwrap(), before);
    let missing = fixture.answer("whoop-exchange-code-for-token", json!({})).await;
    assert!(matches!(missing, Answer::Failed { code: "invalid_arguments", .. }), "{missing:?}");

    let url = fixture.call("whoop-get-authorization-url", json!({})).await;
    let code = code_of(url["url"].as_str().unwrap());
    let told = fixture.call("whoop-exchange-code-for-token", json!({"code": code})).await;
    assert_eq!(told["status"], "success", "{told}");
    assert_eq!(told["expires_at"], when::utc_micros(NOW_US + 3_600_000_000));
    assert!(told["scopes"].as_array().unwrap().contains(&json!("offline")), "{told}");
    let after = fixture.ctx.accounts.load("whoop").unwrap().unwrap();
    assert_ne!(after.access, before.access);
    assert_ne!(after.refresh, before.refresh);
    for secret in after.secrets().chain(before.secrets()) {
        assert!(!told.to_string().contains(secret.expose().as_str()));
    }
    let profile = fixture.call("get_whoop_profile", json!({"fresh": true})).await;
    assert!(profile["email"].is_string(), "{profile}");
    // A code works once.
    let again = fixture.answer("whoop-exchange-code-for-token", json!({"code": code})).await;
    assert!(matches!(again, Answer::Failed { .. }), "{again:?}");
}

#[tokio::test]
async fn an_access_token_that_the_owner_lets_through_is_set_if_it_works() {
    let fixture = fixture(3);
    let before = fixture.ctx.accounts.load("whoop").unwrap().unwrap();
    let tokens = fixture.whoop.control().tokens();
    let token = tokens["access_token"].as_str().unwrap();
    let set = fixture.answer("whoop-set-access-token", json!({"accessToken": token})).await;
    let Answer::Text { text, value } = &set else { unreachable!("{set:?}") };
    assert_eq!(text, "Access token set successfully");
    assert!(!value.to_string().contains(token));
    let after = fixture.ctx.accounts.load("whoop").unwrap().unwrap();
    assert_eq!(after.access.unwrap().expose(), token);
    assert_eq!(after.refresh, before.refresh);
    let odd = fixture.answer("whoop-set-access-token", json!({"accessToken": "a b"})).await;
    assert!(matches!(odd, Answer::Failed { .. }), "{odd:?}");
}
