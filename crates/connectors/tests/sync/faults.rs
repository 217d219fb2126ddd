//! Faults at WHOOP: the rest is synced, failures are reported, and nothing counts as deleted.

use std::time::Duration;

use connectors::fetch::{self, WaitPolicy};
use connectors::http::Request;
use connectors::sync::SyncRequest;
use connectors::whoop::SERVICE;
use sandbox::{Fault, FaultKind, TokenKind};

use crate::fixture::Fixture;

const LISTS: &str = "/developer/v2/activity";

fn status(code: u16, reset: Option<&str>) -> FaultKind {
    FaultKind::Status { code, retry_after: None, reset: reset.map(str::to_owned), body: None }
}

#[tokio::test]
async fn a_temporary_failure_is_retried() {
    for what in [
        status(429, Some("1")),
        status(429, None),
        status(503, None),
        FaultKind::Cut { after_bytes: None },
        FaultKind::HangUp,
        FaultKind::Garbage,
        FaultKind::Truncate,
        FaultKind::Html,
        FaultKind::Length { by: 40 },
    ] {
        let fixture = Fixture::new(60);
        fixture.sandbox.control().fault(Fault::on(LISTS, what.clone()).next(1).after(1));
        let result = fixture.full().await;
        assert_eq!(result["status"], "success", "{what:?}: {result}");
        fixture.assert_equal();
    }
}

#[tokio::test]
async fn a_page_that_hangs_is_asked_for_again_by_a_sync_and_not_while_an_agent_waits() {
    let fixture = Fixture::new(5);
    let base = &fixture.ctx.settings.of(&SERVICE).unwrap().api_base;
    let asked = || Request::get(base, &["cycle"]).wait_max(Duration::from_millis(300));
    for (wait, is_answered) in [(WaitPolicy::SYNC, true), (WaitPolicy::SOON, false)] {
        let hang = Fault::on("/developer/v2/cycle", FaultKind::Delay { ms: 1_000 }).next(1);
        fixture.sandbox.control().fault(hang);
        let reply = fetch::send(&fixture.ctx, &SERVICE, asked(), wait).await;
        assert_eq!(reply.is_ok(), is_answered, "{:?}", reply.err());
    }
}

#[tokio::test]
async fn a_permanent_failure_fails_one_resource_and_removes_nothing() {
    for (what, code) in [
        (status(418, None), "UPSTREAM_ERROR"),
        (status(403, None), "UPSTREAM_ERROR"),
        (FaultKind::Garbage, "UPSTREAM_ERROR"),
        (FaultKind::RepeatToken, "UPSTREAM_ERROR"),
        (status(429, Some("86400")), "RATE_LIMITED"),
    ] {
        let fixture = Fixture::new(90);
        fixture.full().await;
        let before = fixture.mirrored("sleeps");
        let fault = Fault::on("/developer/v2/activity/sleep", what.clone()).after(1);
        fixture.sandbox.control().fault(fault);
        let result = fixture.full().await;
        let part = &result["resources"]["sleeps"];
        assert_eq!(part["status"], "error", "{what:?}: {result}");
        let error = part["error"].as_str().unwrap();
        assert!(error.starts_with(code), "{what:?}: {error}");
        assert!(part["cursor_after"].is_null());
        let warnings = result["warnings"].to_string();
        assert!(warnings.contains(&format!("sleeps: {code}")), "{warnings}");
        assert_eq!(fixture.mirrored("sleeps"), before, "{what:?}");
        let run = &fixture.ctx.records.runs("whoop", 6).unwrap()[3];
        assert_eq!((run.resource.as_str(), run.status.as_str()), ("sleeps", "error"));
        assert_eq!(run.error.as_deref(), Some(error));
        // A day later all is well.
        fixture.sandbox.control().clear_faults();
        if code != "RATE_LIMITED" {
            assert_eq!(fixture.full().await["status"], "success");
            fixture.assert_equal();
        }
    }
}

#[tokio::test]
async fn a_token_that_dies_in_the_middle_is_refreshed_once() {
    let fixture = Fixture::new(400);
    fixture.sandbox.control().expire(TokenKind::Access);
    let result = fixture.full().await;
    assert_eq!(result["status"], "success", "{result}");
    fixture.assert_equal();
    let counters = fixture.sandbox.control().counters();
    assert_eq!((counters.refreshes, counters.refreshes_at_once_max), (1, 1));
}

#[tokio::test]
async fn without_a_login_no_request_is_sent_and_the_command_is_named() {
    let fixture = Fixture::new(30);
    fixture.ctx.accounts.lock("whoop").unwrap().wipe().unwrap();
    let result = fixture.sync(&SyncRequest::default()).await;
    assert_eq!(result["status"], "error");
    let error = result["resources"]["profile"]["error"].as_str().unwrap();
    assert!(
        error.starts_with("AUTH_FAILED: ") && error.contains("tollgate connect whoop"),
        "{error}"
    );
    assert_eq!(fixture.sandbox.control().counters().requests, 0);
}
