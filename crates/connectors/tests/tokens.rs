//! Tokens against a provider that rotates strictly: one refresh however many ask, nothing lost, and
//! an outage told apart from a login that has ended.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::format_push_string,
    reason = "a test fails where the stage does not stand"
)]

use std::sync::Arc;

use connectors::account::{check, revoke};
use connectors::oauth::answer::Tokens;
use connectors::tokens::{TokenError, access, after_401, refresh_now};
use connectors::{Desk, Service, Settings};
use sandbox::{Config, Fault, Running, Sandbox, What, Which};
use serde_json::{Value, json};
use store::accounts::{Account, State};
use store::clock::Clock;
use store::home::Home;
use store::random::Random;
use store::secret::Secret;
use store::vault::{Vault, ask_nobody};

const TOKEN_PATH: &str = "/oauth/oauth2/token";
const HOUR_US: i64 = 3_600_000_000;

struct Stage {
    sandbox: Running,
    folder: tempfile::TempDir,
    service: &'static Service,
}

impl Stage {
    /// WHOOP with one day of data, and an account whose access token ends in so many seconds.
    fn new(left_s: i64) -> Stage {
        let now_us = Clock::System.now().wall_us;
        let sandbox = Sandbox::start(Config::whoop(7, 1, now_us)).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let service = connectors::service("whoop").unwrap();
        let stage = Stage { sandbox, folder, service };
        stage.connect(left_s, &stage.sandbox.control().tokens());
        stage
    }

    fn connect(&self, left_s: i64, tokens: &Value) {
        let desk = self.desk();
        let now_us = desk.clock.now().wall_us;
        let mut account = Account::new("whoop", now_us);
        Tokens::read(tokens.as_object().unwrap()).ok().unwrap().apply(&mut account, now_us);
        account.expires_us = Some(now_us + left_s * 1_000_000);
        desk.accounts.lock("whoop").unwrap().save(&account).unwrap();
    }

    /// A desk of its own: another process, as far as the memory of tokens is concerned.
    fn desk(&self) -> Desk {
        let home = Home::create(&self.folder.path().join("home")).unwrap();
        let vault = Arc::new(Vault::open_home(&home, &Random::System, ask_nobody).unwrap());
        let ready = self.sandbox.control().ready();
        let url = self.sandbox.url().to_owned();
        let settings = Settings::read(&|name| match name {
            "WHOOP_API_BASE_URL" | "WHOOP_OAUTH_BASE_URL" => Some(url.clone()),
            "WHOOP_CLIENT_ID" => ready["client_id"].as_str().map(str::to_owned),
            "WHOOP_CLIENT_SECRET" => ready["client_secret"].as_str().map(str::to_owned),
            _ => None,
        });
        Desk::open(&home, vault, Clock::System, Random::System, settings.unwrap()).unwrap()
    }

    fn kept(&self) -> Account {
        self.desk().accounts.load("whoop").unwrap().unwrap()
    }

    fn refreshes(&self) -> (u64, u64) {
        let counters = self.sandbox.control().counters();
        (counters.refreshes, counters.refreshes_at_once_max)
    }

    fn fault(&self, what: What) {
        self.sandbox.control().fault(Fault::on(TOKEN_PATH, what));
    }
}

fn status(code: u16, body: &str) -> What {
    What::Status { code, retry_after: None, reset: None, body: Some(body.to_owned()) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn twenty_who_ask_at_once_with_an_old_token_make_one_refresh() {
    let stage = Stage::new(-1);
    let desk = Arc::new(stage.desk());
    let asking: Vec<_> = (0..20)
        .map(|_| {
            let (desk, service) = (Arc::clone(&desk), stage.service);
            tokio::spawn(async move { access(&desk, service).await.unwrap().expose().clone() })
        })
        .collect();
    let mut tokens = Vec::new();
    for one in asking {
        tokens.push(one.await.unwrap());
    }
    tokens.dedup();
    assert_eq!(tokens.len(), 1);
    assert_eq!(stage.refreshes(), (1, 1));
    check(&desk, stage.service).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn twenty_calls_that_see_a_401_make_one_refresh_and_all_succeed() {
    let stage = Stage::new(3600);
    let desk = Arc::new(stage.desk());
    for round in 1..=3 {
        stage.sandbox.control().expire(Which::Access);
        let asking: Vec<_> = (0..20)
            .map(|_| {
                let (desk, service) = (Arc::clone(&desk), stage.service);
                tokio::spawn(async move { check(&desk, service).await })
            })
            .collect();
        for one in asking {
            one.await.unwrap().unwrap();
        }
        assert_eq!(stage.refreshes(), (round, 1));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn desks_that_know_nothing_of_each_other_share_one_refresh_through_the_file() {
    let stage = Stage::new(-1);
    let desks: Vec<_> = (0..8).map(|_| Arc::new(stage.desk())).collect();
    let asking: Vec<_> = desks
        .iter()
        .map(|desk| {
            let (desk, service) = (Arc::clone(desk), stage.service);
            tokio::spawn(async move { access(&desk, service).await.unwrap().expose().clone() })
        })
        .collect();
    let mut tokens = Vec::new();
    for one in asking {
        tokens.push(one.await.unwrap());
    }
    tokens.dedup();
    assert_eq!((tokens.len(), stage.refreshes()), (1, (1, 1)));
}

#[tokio::test]
async fn a_token_is_refreshed_five_minutes_ahead_and_not_before() {
    let stage = Stage::new(6 * 60);
    access(&stage.desk(), stage.service).await.unwrap();
    assert_eq!(stage.refreshes().0, 0);
    let stage = Stage::new(4 * 60);
    let before = stage.kept();
    let token = access(&stage.desk(), stage.service).await.unwrap();
    let after = stage.kept();
    assert_eq!(stage.refreshes().0, 1);
    assert_eq!(after.access, Some(token));
    assert_ne!(after.refresh, before.refresh);
    assert!(after.expires_us.unwrap() > before.expires_us.unwrap());
    assert!(after.refreshed_us.is_some() && after.refreshing_us.is_none());
}

#[tokio::test]
async fn an_answer_without_a_refresh_token_keeps_the_old_one() {
    let stage = Stage::new(-1);
    stage.sandbox.control().set(&json!({ "rotation": "kept" })).unwrap();
    let before = stage.kept().refresh;
    access(&stage.desk(), stage.service).await.unwrap();
    assert_eq!(stage.kept().refresh, before);
    refresh_now(&stage.desk(), stage.service).await.unwrap();
    assert_eq!(stage.refreshes().0, 2);
}

#[tokio::test]
async fn a_passing_trouble_keeps_the_login_and_the_next_try_works() {
    for what in [
        status(503, r#"{"error":"invalid_grant"}"#),
        status(429, "slow"),
        status(401, r#"{"error":"invalid_client"}"#),
        status(400, "not json"),
        What::Html,
        status(500, r#"{"error":"server_error"}"#),
    ] {
        let stage = Stage::new(-1);
        let before = stage.kept();
        stage.sandbox.control().set(&json!({ "rotation": "gentle" })).unwrap();
        stage.fault(what.clone());
        let desk = stage.desk();
        let error = access(&desk, stage.service).await.unwrap_err();
        assert!(matches!(error, TokenError::Outage { .. }), "{what:?}: {error}");
        let kept = stage.kept();
        assert_eq!((kept.refresh, kept.access), (before.refresh, before.access));
        assert_eq!(kept.state, State::Live);
        stage.sandbox.control().clear_faults();
        access(&desk, stage.service).await.unwrap();
    }
}

#[tokio::test]
async fn a_token_that_is_still_good_serves_while_the_refresh_fails() {
    let stage = Stage::new(4 * 60);
    stage.fault(status(503, ""));
    let desk = stage.desk();
    let token = access(&desk, stage.service).await.unwrap();
    assert_eq!(stage.kept().access, Some(token));
}

#[tokio::test]
async fn a_login_that_has_ended_is_said_once_and_not_asked_for_again() {
    for (set, words) in [("invalid_grant", "invalid_grant"), ("invalid_request", "invalid_request")]
    {
        let stage = Stage::new(-1);
        stage.sandbox.control().set(&json!({ "reused": set })).unwrap();
        stage.sandbox.control().expire(Which::All);
        let desk = stage.desk();
        for _ in 0..3 {
            let error = access(&desk, stage.service).await.unwrap_err();
            let shown = error.to_string();
            assert!(matches!(error, TokenError::Dead { .. }), "{shown}");
            assert!(shown.contains(words) && shown.contains("tollgate connect whoop"), "{shown}");
        }
        assert_eq!(stage.refreshes().0, 1);
        // Signing in again brings it back.
        stage.connect(3600, &stage.sandbox.control().tokens());
        check(&desk, stage.service).await.unwrap();
    }
}

#[tokio::test]
async fn who_is_not_connected_is_told_so_without_a_request() {
    let stage = Stage::new(-1);
    let desk = stage.desk();
    assert!(desk.accounts.lock("whoop").unwrap().wipe().unwrap());
    let error = access(&desk, stage.service).await.unwrap_err();
    assert!(matches!(error, TokenError::NotConnected { .. }));
    let used = Secret::new("x");
    let error = after_401(&desk, stage.service, &used).await.unwrap_err();
    assert!(matches!(error, TokenError::NotConnected { .. }));
    assert_eq!(stage.sandbox.control().counters().requests, 0);
}

#[tokio::test]
async fn a_service_that_refuses_every_token_is_not_asked_for_ever() {
    let stage = Stage::new(3600);
    let fault = Fault::on("/developer", What::Unauthorized);
    stage.sandbox.control().fault(fault);
    let desk = stage.desk();
    for _ in 0..30 {
        check(&desk, stage.service).await.unwrap_err();
    }
    assert_eq!(stage.refreshes().0, 10);
}

#[tokio::test]
async fn tokens_that_are_taken_back_again_and_again_are_replaced_each_time() {
    let stage = Stage::new(3600);
    let desk = stage.desk();
    for round in 1..=25 {
        stage.sandbox.control().expire(Which::Access);
        check(&desk, stage.service).await.unwrap();
        assert_eq!(stage.refreshes(), (round, 1));
    }
}

#[tokio::test]
async fn a_refresh_that_failed_many_times_works_as_soon_as_it_can() {
    let stage = Stage::new(3600);
    let desk = stage.desk();
    stage.sandbox.control().expire(Which::Access);
    stage.fault(status(503, ""));
    for _ in 0..15 {
        check(&desk, stage.service).await.unwrap_err();
    }
    stage.sandbox.control().clear_faults();
    check(&desk, stage.service).await.unwrap();
}

#[tokio::test]
async fn twenty_who_wait_for_a_refresh_that_fails_do_not_each_try() {
    let stage = Stage::new(-1);
    stage.fault(status(503, ""));
    let desk = Arc::new(stage.desk());
    let asking: Vec<_> = (0..20)
        .map(|_| {
            let (desk, service) = (Arc::clone(&desk), stage.service);
            tokio::spawn(async move { access(&desk, service).await.unwrap_err() })
        })
        .collect();
    for one in asking {
        one.await.unwrap();
    }
    assert!(stage.refreshes().0 <= 2, "{:?}", stage.refreshes());
}

#[tokio::test]
async fn a_call_that_is_given_up_does_not_cut_the_refresh_short() {
    let stage = Stage::new(-1);
    stage.fault(What::Delay { ms: 300 });
    let desk = stage.desk();
    let wait = std::time::Duration::from_millis(100);
    assert!(tokio::time::timeout(wait, access(&desk, stage.service)).await.is_err());
    let before = stage.kept();
    assert!(before.refreshing_us.is_some());
    tokio::time::sleep(std::time::Duration::from_millis(600)).await;
    let after = stage.kept();
    assert_ne!(after.refresh, before.refresh);
    access(&desk, stage.service).await.unwrap();
    assert_eq!(stage.refreshes(), (1, 1));
}

#[tokio::test]
async fn taking_consent_back_makes_the_token_useless() {
    let stage = Stage::new(3600);
    let desk = stage.desk();
    assert!(revoke(&desk, stage.service).await.unwrap());
    check(&desk, stage.service).await.unwrap_err();
    // Nothing is left to take back.
    assert!(!revoke(&desk, stage.service).await.unwrap());
}

#[tokio::test]
async fn no_error_shows_a_secret() {
    let stage = Stage::new(-1);
    let account = stage.kept();
    let ready = stage.sandbox.control().ready();
    let mut secrets: Vec<String> = account.secrets().map(|s| s.expose().clone()).collect();
    secrets.push(ready["client_secret"].as_str().unwrap().to_owned());
    let mut shown = format!("{account:?}");
    let echoes = secrets.join(" ");
    for what in [
        status(400, &json!({ "error": echoes, "error_description": echoes }).to_string()),
        status(400, &json!({ "error": "invalid_client", "error_description": echoes }).to_string()),
        status(500, &echoes),
        status(200, &json!({ "access_token": format!("{echoes}\r\nx") }).to_string()),
        What::HangUp,
        status(400, &json!({ "error": "invalid_grant", "error_description": echoes }).to_string()),
    ] {
        stage.sandbox.control().clear_faults();
        stage.fault(what);
        let error = access(&stage.desk(), stage.service).await.unwrap_err();
        shown.push_str(&format!("{error} {error:?}"));
    }
    shown.push_str(&format!("{:?}", stage.kept()));
    for secret in secrets {
        assert!(!shown.contains(&secret), "{shown}");
    }
}

#[test]
fn an_hour_is_an_hour() {
    let stage = Stage::new(-1);
    let mut account = stage.kept();
    let tokens = json!({ "access_token": "a", "expires_in": 3600 });
    Tokens::read(tokens.as_object().unwrap()).ok().unwrap().apply(&mut account, 0);
    assert_eq!(account.expires_us, Some(HOUR_US));
}
