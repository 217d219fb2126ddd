//! Somebody else signs in over the records of the owner.

use connectors::account::{CheckError, check};
use connectors::sync::{self, Asked};
use connectors::whoop::sync::MIRROR;
use connectors::whoop::{SERVICE, api};
use serde_json::Value;

use crate::stage::Stage;

fn errors(result: &Value) -> Vec<&str> {
    let resources = result["resources"].as_object().unwrap();
    resources.values().filter_map(|part| part["error"].as_str()).collect()
}

#[tokio::test]
async fn the_login_of_somebody_else_neither_adds_nor_takes_away() {
    let stage = Stage::new(40);
    stage.full().await;
    let (theirs, desk) = stage.somebody_else();
    for asked in [Asked { full: true, ..Asked::default() }, Asked::default()] {
        let result = sync::run(&desk, &MIRROR, &asked, &|_| {}).await.unwrap();
        assert_eq!(result["status"], "error", "{result}");
        let errors = errors(&result);
        assert_eq!(errors.len(), 6, "{result}");
        for error in errors {
            assert!(error.starts_with("AUTH_FAILED: ") && error.contains("--replace"), "{error}");
        }
    }
    stage.assert_equal();
    let asked = theirs.control().counters();
    assert!(asked.paths.keys().all(|path| path.ends_with("/user/profile/basic")), "{asked:?}");
    let checked = check(&desk, &SERVICE).await;
    assert!(matches!(checked, Err(CheckError::OtherPerson(_))), "{checked:?}");
    // Started over, it is theirs.
    desk.records.forget("whoop").unwrap();
    check(&desk, &SERVICE).await.unwrap();
    let asked = Asked { full: true, ..Asked::default() };
    let result = sync::run(&desk, &MIRROR, &asked, &|_| {}).await.unwrap();
    assert_eq!(result["status"], "success", "{result}");
}

#[tokio::test]
async fn the_owner_may_sign_in_again_and_is_asked_for_the_name_once() {
    let stage = Stage::new(20);
    stage.full().await;
    let tokens = stage.sandbox.control().tokens();
    let mut account = stage.desk.accounts.load("whoop").unwrap().unwrap();
    account.created_us += 1;
    let secret = |field: &str| tokens[field].as_str().map(store::secret::Secret::new);
    (account.access, account.refresh) = (secret("access_token"), secret("refresh_token"));
    stage.desk.accounts.lock("whoop").unwrap().save(&account).unwrap();
    stage.sandbox.control().reset_counters();
    let only = |name: &str| Asked { resources: Some(vec![name.to_owned()]), ..Asked::default() };
    for _ in 0..3 {
        let result = stage.sync(&only("workouts")).await;
        assert_eq!(result["status"], "success", "{result}");
    }
    let counters = stage.sandbox.control().counters();
    assert_eq!(counters.paths["GET /developer/v2/user/profile/basic"], 1);
    // A mirror from before the name was noted knows it by the profile.
    stage.desk.records.state_drop("whoop", "member").unwrap();
    let (_theirs, desk) = stage.somebody_else();
    let refused = api::get(&desk, api::Endpoint::Body, &[], api::Patience::BRIEF).await;
    assert!(refused.unwrap_err().words.contains("--replace"));
}
