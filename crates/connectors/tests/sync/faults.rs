//! WHOOP has a bad day. What can be got is got, what fails is said, and nothing is taken for deleted.

use std::time::Duration;

use connectors::fetch::{self, Patience};
use connectors::http::Request;
use connectors::sync::Asked;
use connectors::whoop::SERVICE;
use sandbox::{Fault, What, Which};

use crate::stage::Stage;

const LISTS: &str = "/developer/v2/activity";

fn status(code: u16, reset: Option<&str>) -> What {
    What::Status { code, retry_after: None, reset: reset.map(str::to_owned), body: None }
}

#[tokio::test]
async fn trouble_that_passes_is_waited_out() {
    for what in [
        status(429, Some("1")),
        status(429, None),
        status(503, None),
        What::Cut { after_bytes: None },
        What::HangUp,
        What::Garbage,
        What::Truncate,
        What::Html,
        What::Length { by: 40 },
    ] {
        let stage = Stage::new(60);
        stage.sandbox.control().fault(Fault::on(LISTS, what.clone()).next(1).after(1));
        let result = stage.full().await;
        assert_eq!(result["status"], "success", "{what:?}: {result}");
        stage.assert_equal();
    }
}

#[tokio::test]
async fn a_page_that_hangs_is_asked_for_again_by_a_sync_and_not_while_an_agent_waits() {
    let stage = Stage::new(5);
    let base = &stage.desk.settings.of(&SERVICE).unwrap().api_base;
    let asked = || Request::get(base, &["cycle"]).wait_max(Duration::from_millis(300));
    for (patience, is_answered) in [(Patience::SYNC, true), (Patience::SOON, false)] {
        let hang = Fault::on("/developer/v2/cycle", What::Delay { ms: 1_000 }).next(1);
        stage.sandbox.control().fault(hang);
        let reply = fetch::send(&stage.desk, &SERVICE, asked(), patience).await;
        assert_eq!(reply.is_ok(), is_answered, "{:?}", reply.err());
    }
}

#[tokio::test]
async fn trouble_that_stays_fails_one_resource_and_removes_nothing() {
    for (what, code) in [
        (status(418, None), "UPSTREAM_ERROR"),
        (status(403, None), "UPSTREAM_ERROR"),
        (What::Garbage, "UPSTREAM_ERROR"),
        (What::RepeatToken, "UPSTREAM_ERROR"),
        (status(429, Some("86400")), "RATE_LIMITED"),
    ] {
        let stage = Stage::new(90);
        stage.full().await;
        let before = stage.mirrored("sleeps");
        let fault = Fault::on("/developer/v2/activity/sleep", what.clone()).after(1);
        stage.sandbox.control().fault(fault);
        let result = stage.full().await;
        let part = &result["resources"]["sleeps"];
        assert_eq!(part["status"], "error", "{what:?}: {result}");
        let error = part["error"].as_str().unwrap();
        assert!(error.starts_with(code), "{what:?}: {error}");
        assert!(part["cursor_after"].is_null());
        let warnings = result["warnings"].to_string();
        assert!(warnings.contains(&format!("sleeps: {code}")), "{warnings}");
        assert_eq!(stage.mirrored("sleeps"), before, "{what:?}");
        let run = &stage.desk.records.runs("whoop", 6).unwrap()[3];
        assert_eq!((run.resource.as_str(), run.status.as_str()), ("sleeps", "error"));
        assert_eq!(run.error.as_deref(), Some(error));
        // A day later all is well.
        stage.sandbox.control().clear_faults();
        if code != "RATE_LIMITED" {
            assert_eq!(stage.full().await["status"], "success");
            stage.assert_equal();
        }
    }
}

#[tokio::test]
async fn a_token_that_dies_in_the_middle_is_refreshed_once() {
    let stage = Stage::new(400);
    stage.sandbox.control().expire(Which::Access);
    let result = stage.full().await;
    assert_eq!(result["status"], "success", "{result}");
    stage.assert_equal();
    let counters = stage.sandbox.control().counters();
    assert_eq!((counters.refreshes, counters.refreshes_at_once_max), (1, 1));
}

#[tokio::test]
async fn without_a_login_nothing_is_asked_and_the_way_in_is_said() {
    let stage = Stage::new(30);
    stage.desk.accounts.lock("whoop").unwrap().wipe().unwrap();
    let result = stage.sync(&Asked::default()).await;
    assert_eq!(result["status"], "error");
    let error = result["resources"]["profile"]["error"].as_str().unwrap();
    assert!(
        error.starts_with("AUTH_FAILED: ") && error.contains("tollgate connect whoop"),
        "{error}"
    );
    assert_eq!(stage.sandbox.control().counters().requests, 0);
}
