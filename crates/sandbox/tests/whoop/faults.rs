//! Every fault as it reaches a client.

use std::time::{Duration, Instant};

use sandbox::{Fault, FaultKind, TokenKind};
use serde_json::json;

use crate::client::{get, send, start, token, try_send};

const PROFILE: &str = "/developer/v2/user/profile/basic";

#[test]
fn a_response_can_be_replaced_a_limited_number_of_times() {
    let running = start(|_| ());
    let bearer = token(&running);
    let what =
        FaultKind::Status { code: 503, retry_after: Some("2".into()), reset: None, body: None };
    running.control().fault(Fault::on("/developer", what).after(1).next(2));
    let statuses: Vec<u16> = (0..4).map(|_| get(running.url(), PROFILE, &bearer).status).collect();
    assert_eq!(statuses, [200, 503, 503, 200]);
    assert_eq!(running.control().counters().faults, 2);
    running.control().fault(Fault::on(PROFILE, FaultKind::Unauthorized));
    assert_eq!(get(running.url(), PROFILE, &bearer).status, 401);
    assert_eq!(get(running.url(), "/developer/v2/cycle", &bearer).status, 200);
    running.control().clear_faults();
    assert_eq!(get(running.url(), PROFILE, &bearer).status, 200);
}

#[test]
fn a_body_can_be_truncated_wrong_or_late() {
    let running = start(|_| ());
    let bearer = token(&running);
    let whole = get(running.url(), PROFILE, &bearer);
    let with = |what: FaultKind| {
        running.control().fault(Fault::on(PROFILE, what).next(1));
        get(running.url(), PROFILE, &bearer)
    };
    let cut = with(FaultKind::Cut { after_bytes: None });
    assert_eq!((cut.announced(), cut.body.len()), (whole.body.len(), whole.body.len() / 2));
    assert!(whole.body.starts_with(&cut.body));
    let cut = with(FaultKind::Cut { after_bytes: Some(7) });
    assert_eq!(cut.body.len(), 7);
    let truncated = with(FaultKind::Truncate);
    assert_eq!(truncated.announced(), truncated.body.len());
    assert!(serde_json::from_slice::<serde_json::Value>(&truncated.body).is_err());
    assert!(with(FaultKind::Garbage).text().contains("not json"));
    let html = with(FaultKind::Html);
    assert_eq!((html.status, html.header("content-type")), (200, Some("text/html")));
    let more = with(FaultKind::Length { by: 100 });
    assert_eq!((more.announced(), more.body.len()), (whole.body.len() + 100, whole.body.len()));
    let fewer = with(FaultKind::Length { by: -10 });
    assert_eq!(
        (fewer.announced(), fewer.body.len()),
        (whole.body.len() - 10, whole.body.len() - 10)
    );
    let begun = Instant::now();
    let dripped = with(FaultKind::Drip { bytes: 30, every_ms: 10 });
    assert_eq!(dripped.body, whole.body);
    assert!(begun.elapsed() >= Duration::from_millis(30));
    let begun = Instant::now();
    assert_eq!(with(FaultKind::Delay { ms: 60 }).body, whole.body);
    assert!(begun.elapsed() >= Duration::from_millis(60));
    running.control().fault(Fault::on(PROFILE, FaultKind::HangUp).next(1));
    assert!(try_send(running.url(), "GET", PROFILE, &[], "").is_none());
}

#[test]
fn a_page_token_can_repeat_forever() {
    let running = start(|_| ());
    let bearer = token(&running);
    running.control().fault(Fault::on("/developer/v2/cycle", FaultKind::RepeatToken));
    let first = get(running.url(), "/developer/v2/cycle?limit=5", &bearer).json();
    let next = first["next_token"].as_str().unwrap();
    let path = format!("/developer/v2/cycle?limit=5&nextToken={next}");
    let (second, third) = (get(running.url(), &path, &bearer), get(running.url(), &path, &bearer));
    assert_eq!(second.json()["next_token"], first["next_token"]);
    assert_eq!(second.json(), third.json());
    assert_ne!(second.json()["records"], first["records"]);
}

#[test]
fn a_refresh_with_a_lost_response_has_happened() {
    let running = start(|_| ());
    let tokens = running.control().tokens();
    let ready = running.control().ready();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let form = format!(
        "grant_type=refresh_token&refresh_token={}&client_id={}&client_secret={}",
        text(&tokens["refresh_token"]),
        text(&ready["client_id"]),
        text(&ready["client_secret"])
    );
    let kind = ("content-type", "application/x-www-form-urlencoded");
    let post = || try_send(running.url(), "POST", "/oauth/oauth2/token", &[kind], &form);
    let busy = FaultKind::Status { code: 500, retry_after: None, reset: None, body: None };
    running.control().fault(Fault::on("/oauth", busy).next(1));
    assert_eq!(post().unwrap().status, 500);
    running.control().fault(Fault::on("/oauth", FaultKind::HangUp).next(1));
    assert!(post().is_none());
    assert_eq!(post().unwrap().json()["error"], "invalid_grant");
}

#[test]
fn concurrent_refreshes_are_counted() {
    let running = start(|_| ());
    running.control().fault(Fault::on("/oauth", FaultKind::Delay { ms: 150 }));
    let kind = ("content-type", "application/x-www-form-urlencoded");
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let form = "grant_type=refresh_token&refresh_token=x";
                send(running.url(), "POST", "/oauth/oauth2/token", &[kind], form)
            });
        }
    });
    let counters = running.control().counters();
    assert_eq!((counters.refreshes, counters.refreshes_granted), (3, 0));
    assert!((2..=3).contains(&counters.refreshes_at_once_max), "{counters:?}");
}

#[test]
fn tokens_can_be_invalidated() {
    let running = start(|_| ());
    let bearer = token(&running);
    running.control().expire(TokenKind::Access);
    assert_eq!(get(running.url(), PROFILE, &bearer).status, 401);
    let bearer = token(&running);
    running.control().advance(3_600_000_000);
    assert_eq!(get(running.url(), PROFILE, &bearer).status, 401);
    running.control().set(&json!({ "expires_in_s": 10 })).unwrap();
    assert_eq!(running.control().tokens()["expires_in"], 10);
}
