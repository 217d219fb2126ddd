//! Another person signs in over the records of the owner.

use connectors::credentials::{CheckError, check};
use connectors::sync::{self, SyncRequest};
use connectors::whoop::sync::MIRROR;
use connectors::whoop::{SERVICE, api};
use serde_json::Value;

use crate::fixture::Fixture;

fn errors(result: &Value) -> Vec<&str> {
    let resources = result["resources"].as_object().unwrap();
    resources.values().filter_map(|part| part["error"].as_str()).collect()
}

#[tokio::test]
async fn a_login_of_another_person_changes_no_records() {
    let fixture = Fixture::new(40);
    fixture.full().await;
    let (theirs, ctx) = fixture.somebody_else();
    for asked in [SyncRequest { full: true, ..SyncRequest::default() }, SyncRequest::default()] {
        let result = sync::run(&ctx, &MIRROR, &asked, &|_| {}).await.unwrap().value();
        assert_eq!(result["status"], "error", "{result}");
        let errors = errors(&result);
        assert_eq!(errors.len(), 6, "{result}");
        for error in errors {
            assert!(error.starts_with("AUTH_FAILED: ") && error.contains("--replace"), "{error}");
        }
    }
    fixture.assert_equal();
    let asked = theirs.control().counters();
    assert!(asked.paths.keys().all(|path| path.ends_with("/user/profile/basic")), "{asked:?}");
    let checked = check(&ctx, &SERVICE).await;
    assert!(matches!(checked, Err(CheckError::OtherPerson(_))), "{checked:?}");
    // After `--replace` the mirror is theirs.
    ctx.records.forget("whoop").unwrap();
    check(&ctx, &SERVICE).await.unwrap();
    let asked = SyncRequest { full: true, ..SyncRequest::default() };
    let result = sync::run(&ctx, &MIRROR, &asked, &|_| {}).await.unwrap().value();
    assert_eq!(result["status"], "success", "{result}");
}

#[tokio::test]
async fn the_owner_may_sign_in_again_and_is_asked_for_the_name_once() {
    let fixture = Fixture::new(20);
    fixture.full().await;
    let tokens = fixture.sandbox.control().tokens();
    let mut account = fixture.ctx.accounts.load("whoop").unwrap().unwrap();
    account.created_us += 1;
    let secret = |field: &str| tokens[field].as_str().map(store::secret::Secret::new);
    (account.access, account.refresh) = (secret("access_token"), secret("refresh_token"));
    fixture.ctx.accounts.lock("whoop").unwrap().save(&account).unwrap();
    fixture.sandbox.control().reset_counters();
    let only = |name: &str| SyncRequest {
        resources: Some(vec![name.to_owned()]),
        ..SyncRequest::default()
    };
    for _ in 0..3 {
        let result = fixture.sync(&only("workouts")).await;
        assert_eq!(result["status"], "success", "{result}");
    }
    let counters = fixture.sandbox.control().counters();
    assert_eq!(counters.paths["GET /developer/v2/user/profile/basic"], 1);
    // An older mirror identifies its person by the profile.
    fixture.ctx.records.state_drop("whoop", "member").unwrap();
    let (_theirs, ctx) = fixture.somebody_else();
    let refused = api::get(&ctx, api::ApiPath::Body, &[], api::WaitPolicy::BRIEF).await;
    assert!(refused.unwrap_err().message.contains("--replace"));
}
