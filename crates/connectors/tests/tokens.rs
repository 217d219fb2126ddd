//! Tokens against a provider with strict rotation: one refresh for any number of calls, no lost token,
//! and an outage differs from an ended login.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::format_push_string,
    reason = "a test fails where the stage does not stand"
)]

use std::sync::Arc;

use connectors::credentials::{check, revoke};
use connectors::oauth::token_response::Tokens;
use connectors::tokens::{TokenError, access, after_401, refresh_now};
use connectors::{ConnectorContext, Service};
use sandbox::{Config, Fault, FaultKind, Running, Sandbox, TokenKind};
use serde_json::{Value, json};
use store::accounts::{Account, AccountState};
use store::clock::Clock;
use store::home::Home;
use store::random::Random;
use store::secret::Secret;
use store::vault::{Vault, run_no_program};

const TOKEN_PATH: &str = "/oauth/oauth2/token";
const HOUR_US: i64 = 3_600_000_000;

struct Fixture {
    sandbox: Running,
    folder: tempfile::TempDir,
    service: &'static Service,
}

impl Fixture {
    /// WHOOP with one day of data, and an account whose access token expires in so many seconds.
    fn new(left_s: i64) -> Fixture {
        let now_us = Clock::System.now().wall_us;
        let sandbox = Sandbox::start(Config::whoop(7, 1, now_us)).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let service = connectors::connector("whoop").unwrap().service;
        let fixture = Fixture { sandbox, folder, service };
        fixture.connect(left_s, &fixture.sandbox.control().tokens());
        fixture
    }

    fn connect(&self, left_s: i64, tokens: &Value) {
        let ctx = self.connector_context();
        let now_us = ctx.clock.now().wall_us;
        let mut account = Account::new("whoop", now_us);
        Tokens::read(tokens.as_object().unwrap()).ok().unwrap().apply(&mut account, now_us);
        account.expires_us = Some(now_us + left_s * 1_000_000);
        ctx.accounts.lock("whoop").unwrap().save(&account).unwrap();
    }

    /// A separate context, which acts as another process.
    fn connector_context(&self) -> ConnectorContext {
        let home = Home::create(&self.folder.path().join("home")).unwrap();
        let vault = Arc::new(Vault::open_home(&home, &Random::System, run_no_program).unwrap());
        let ready = self.sandbox.control().ready();
        let url = self.sandbox.url().to_owned();
        let settings = connectors::read_settings(&|name| match name {
            "WHOOP_API_BASE_URL" | "WHOOP_OAUTH_BASE_URL" => Some(url.clone()),
            "WHOOP_CLIENT_ID" => ready["client_id"].as_str().map(str::to_owned),
            "WHOOP_CLIENT_SECRET" => ready["client_secret"].as_str().map(str::to_owned),
            _ => None,
        });
        ConnectorContext::open(&home, vault, Clock::System, Random::System, settings.unwrap())
            .unwrap()
    }

    fn kept(&self) -> Account {
        self.connector_context().accounts.load("whoop").unwrap().unwrap()
    }

    fn refreshes(&self) -> (u64, u64) {
        let counters = self.sandbox.control().counters();
        (counters.refreshes, counters.refreshes_at_once_max)
    }

    fn fault(&self, what: FaultKind) {
        self.sandbox.control().fault(Fault::on(TOKEN_PATH, what));
    }
}

fn status(code: u16, body: &str) -> FaultKind {
    FaultKind::Status { code, retry_after: None, reset: None, body: Some(body.to_owned()) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn twenty_concurrent_calls_with_an_old_token_make_one_refresh() {
    let fixture = Fixture::new(-1);
    let ctx = Arc::new(fixture.connector_context());
    let asking: Vec<_> = (0..20)
        .map(|_| {
            let (ctx, service) = (Arc::clone(&ctx), fixture.service);
            tokio::spawn(async move { access(&ctx, service).await.unwrap().expose().clone() })
        })
        .collect();
    let mut tokens = Vec::new();
    for one in asking {
        tokens.push(one.await.unwrap());
    }
    tokens.dedup();
    assert_eq!(tokens.len(), 1);
    assert_eq!(fixture.refreshes(), (1, 1));
    check(&ctx, fixture.service).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn twenty_calls_that_see_a_401_make_one_refresh_and_all_succeed() {
    let fixture = Fixture::new(3600);
    let ctx = Arc::new(fixture.connector_context());
    for round in 1..=3 {
        fixture.sandbox.control().expire(TokenKind::Access);
        let asking: Vec<_> = (0..20)
            .map(|_| {
                let (ctx, service) = (Arc::clone(&ctx), fixture.service);
                tokio::spawn(async move { check(&ctx, service).await })
            })
            .collect();
        for one in asking {
            one.await.unwrap().unwrap();
        }
        assert_eq!(fixture.refreshes(), (round, 1));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn token_stores_in_two_processes_share_one_refresh_through_the_file() {
    let fixture = Fixture::new(-1);
    let desks: Vec<_> = (0..8).map(|_| Arc::new(fixture.connector_context())).collect();
    let asking: Vec<_> = desks
        .iter()
        .map(|ctx| {
            let (ctx, service) = (Arc::clone(ctx), fixture.service);
            tokio::spawn(async move { access(&ctx, service).await.unwrap().expose().clone() })
        })
        .collect();
    let mut tokens = Vec::new();
    for one in asking {
        tokens.push(one.await.unwrap());
    }
    tokens.dedup();
    assert_eq!((tokens.len(), fixture.refreshes()), (1, (1, 1)));
}

#[tokio::test]
async fn a_token_is_refreshed_five_minutes_ahead_and_not_before() {
    let fixture = Fixture::new(6 * 60);
    access(&fixture.connector_context(), fixture.service).await.unwrap();
    assert_eq!(fixture.refreshes().0, 0);
    let fixture = Fixture::new(4 * 60);
    let before = fixture.kept();
    let token = access(&fixture.connector_context(), fixture.service).await.unwrap();
    let after = fixture.kept();
    assert_eq!(fixture.refreshes().0, 1);
    assert_eq!(after.access, Some(token));
    assert_ne!(after.refresh, before.refresh);
    assert!(after.expires_us.unwrap() > before.expires_us.unwrap());
    assert!(after.refreshed_us.is_some() && after.refreshing_us.is_none());
}

#[tokio::test]
async fn an_answer_without_a_refresh_token_keeps_the_old_one() {
    let fixture = Fixture::new(-1);
    fixture.sandbox.control().set(&json!({ "rotation": "kept" })).unwrap();
    let before = fixture.kept().refresh;
    access(&fixture.connector_context(), fixture.service).await.unwrap();
    assert_eq!(fixture.kept().refresh, before);
    refresh_now(&fixture.connector_context(), fixture.service).await.unwrap();
    assert_eq!(fixture.refreshes().0, 2);
}

#[tokio::test]
async fn a_temporary_failure_keeps_the_login_and_the_next_attempt_works() {
    for what in [
        status(503, r#"{"error":"invalid_grant"}"#),
        status(429, "slow"),
        status(401, r#"{"error":"invalid_client"}"#),
        status(400, "not json"),
        FaultKind::Html,
        status(500, r#"{"error":"server_error"}"#),
    ] {
        let fixture = Fixture::new(-1);
        let before = fixture.kept();
        fixture.sandbox.control().set(&json!({ "rotation": "gentle" })).unwrap();
        fixture.fault(what.clone());
        let ctx = fixture.connector_context();
        let error = access(&ctx, fixture.service).await.unwrap_err();
        let is_kept = matches!(error, TokenError::Outage { .. } | TokenError::UnknownClient { .. });
        assert!(is_kept, "{what:?}: {error}");
        let kept = fixture.kept();
        assert_eq!((kept.refresh, kept.access), (before.refresh, before.access));
        assert_eq!(kept.state, AccountState::Live);
        fixture.sandbox.control().clear_faults();
        access(&ctx, fixture.service).await.unwrap();
    }
}

#[tokio::test]
async fn a_token_that_is_still_good_serves_while_the_refresh_fails() {
    let fixture = Fixture::new(4 * 60);
    fixture.fault(status(503, ""));
    let ctx = fixture.connector_context();
    let token = access(&ctx, fixture.service).await.unwrap();
    assert_eq!(fixture.kept().access, Some(token));
}

#[tokio::test]
async fn an_ended_login_is_reported_once_and_not_retried() {
    for (set, words) in [("invalid_grant", "invalid_grant"), ("invalid_request", "invalid_request")]
    {
        let fixture = Fixture::new(-1);
        fixture.sandbox.control().set(&json!({ "reused": set })).unwrap();
        fixture.sandbox.control().expire(TokenKind::All);
        let ctx = fixture.connector_context();
        for _ in 0..3 {
            let error = access(&ctx, fixture.service).await.unwrap_err();
            let shown = error.to_string();
            assert!(matches!(error, TokenError::Dead { .. }), "{shown}");
            assert!(shown.contains(words) && shown.contains("tollgate connect whoop"), "{shown}");
        }
        assert_eq!(fixture.refreshes().0, 1);
        // Signing in again brings it back.
        fixture.connect(3600, &fixture.sandbox.control().tokens());
        check(&ctx, fixture.service).await.unwrap();
    }
}

#[tokio::test]
async fn without_an_account_the_error_says_so_and_no_request_is_sent() {
    let fixture = Fixture::new(-1);
    let ctx = fixture.connector_context();
    assert!(ctx.accounts.lock("whoop").unwrap().wipe().unwrap());
    let error = access(&ctx, fixture.service).await.unwrap_err();
    assert!(matches!(error, TokenError::NotConnected { .. }));
    let used = Secret::new("x");
    let error = after_401(&ctx, fixture.service, &used).await.unwrap_err();
    assert!(matches!(error, TokenError::NotConnected { .. }));
    assert_eq!(fixture.sandbox.control().counters().requests, 0);
}

#[tokio::test]
async fn refreshes_are_bounded_if_a_service_refuses_every_token() {
    let fixture = Fixture::new(3600);
    let fault = Fault::on("/developer", FaultKind::Unauthorized);
    fixture.sandbox.control().fault(fault);
    let ctx = fixture.connector_context();
    for _ in 0..30 {
        check(&ctx, fixture.service).await.unwrap_err();
    }
    assert_eq!(fixture.refreshes().0, 10);
}

#[tokio::test]
async fn repeatedly_revoked_tokens_are_replaced_each_time() {
    let fixture = Fixture::new(3600);
    let ctx = fixture.connector_context();
    for round in 1..=25 {
        fixture.sandbox.control().expire(TokenKind::Access);
        check(&ctx, fixture.service).await.unwrap();
        assert_eq!(fixture.refreshes(), (round, 1));
    }
}

#[tokio::test]
async fn a_refresh_that_failed_many_times_works_as_soon_as_it_can() {
    let fixture = Fixture::new(3600);
    let ctx = fixture.connector_context();
    fixture.sandbox.control().expire(TokenKind::Access);
    fixture.fault(status(503, ""));
    for _ in 0..15 {
        check(&ctx, fixture.service).await.unwrap_err();
    }
    fixture.sandbox.control().clear_faults();
    check(&ctx, fixture.service).await.unwrap();
}

#[tokio::test]
async fn twenty_calls_share_one_failed_refresh() {
    let fixture = Fixture::new(-1);
    fixture.fault(status(503, ""));
    let ctx = Arc::new(fixture.connector_context());
    let asking: Vec<_> = (0..20)
        .map(|_| {
            let (ctx, service) = (Arc::clone(&ctx), fixture.service);
            tokio::spawn(async move { access(&ctx, service).await.unwrap_err() })
        })
        .collect();
    for one in asking {
        one.await.unwrap();
    }
    assert!(fixture.refreshes().0 <= 2, "{:?}", fixture.refreshes());
}

#[tokio::test]
async fn a_cancelled_call_does_not_cancel_the_refresh() {
    let fixture = Fixture::new(-1);
    fixture.fault(FaultKind::Delay { ms: 300 });
    let ctx = fixture.connector_context();
    let wait = std::time::Duration::from_millis(100);
    assert!(tokio::time::timeout(wait, access(&ctx, fixture.service)).await.is_err());
    let before = fixture.kept();
    assert!(before.refreshing_us.is_some());
    let refreshed = async {
        while fixture.kept().refresh == before.refresh {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(10), refreshed).await.unwrap();
    access(&ctx, fixture.service).await.unwrap();
    assert_eq!(fixture.refreshes(), (1, 1));
}

#[tokio::test]
async fn taking_consent_back_makes_the_token_useless() {
    let fixture = Fixture::new(3600);
    let ctx = fixture.connector_context();
    assert!(revoke(&ctx, fixture.service).await.unwrap());
    check(&ctx, fixture.service).await.unwrap_err();
    // Nothing is left to revoke.
    assert!(!revoke(&ctx, fixture.service).await.unwrap());
}

#[tokio::test]
async fn no_error_shows_a_secret() {
    let fixture = Fixture::new(-1);
    let account = fixture.kept();
    let ready = fixture.sandbox.control().ready();
    let mut secrets: Vec<String> = account.secrets().map(|s| s.expose().clone()).collect();
    secrets.push(ready["client_secret"].as_str().unwrap().to_owned());
    let mut shown = format!("{account:?}");
    let echoes = secrets.join(" ");
    for what in [
        status(400, &json!({ "error": echoes, "error_description": echoes }).to_string()),
        status(400, &json!({ "error": "invalid_client", "error_description": echoes }).to_string()),
        status(500, &echoes),
        status(200, &json!({ "access_token": format!("{echoes}\r\nx") }).to_string()),
        FaultKind::HangUp,
        status(400, &json!({ "error": "invalid_grant", "error_description": echoes }).to_string()),
    ] {
        fixture.sandbox.control().clear_faults();
        fixture.fault(what);
        let error = access(&fixture.connector_context(), fixture.service).await.unwrap_err();
        shown.push_str(&format!("{error} {error:?}"));
    }
    shown.push_str(&format!("{:?}", fixture.kept()));
    for secret in secrets {
        assert!(!shown.contains(&secret), "{shown}");
    }
}

#[test]
fn an_hour_is_an_hour() {
    let fixture = Fixture::new(-1);
    let mut account = fixture.kept();
    let tokens = json!({ "access_token": "a", "expires_in": 3600 });
    Tokens::read(tokens.as_object().unwrap()).ok().unwrap().apply(&mut account, 0);
    assert_eq!(account.expires_us, Some(HOUR_US));
}
